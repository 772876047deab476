/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that the router's memory plugin imports: one memory for each device, so that the
 * transport copies between regions of any two clients. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/options.h"
#include "router.h"
#include "util/log.h"

#define SHARE_DEVICES_MAX 64u /* devices have one name each */

struct share_device {
  struct share_device *next;
  struct pst_options *options;
  struct pst_memory *memory;
  char name[48]; /* as regions have it */
};

static void share_device_close(const struct pst_share *share, struct share_device *device)
{
  if (device->memory) {
    loader_memory_remove(device->memory);
    share->memory->memory->close(device->memory);
  }
  options_free(device->options);
  free(device);
}

/* Opens the device of this name, or any where the name is "", which then has it. Where a client
 * names it, the plugin may take other names, which are none of regions. */
static int share_device_open(const struct pst_share *share, struct share_device *device)
{
  const struct pst_description *description = share->memory->description;
  const struct pst_memory_ops *ops = share->memory->memory;
  struct pst_memory_info info = {.struct_size = sizeof(info)};
  char why[256] = "out of memory";

  int rc = options_new(description->options, description->option_count, &device->options);
  if (rc == 0 && device->name[0])
    rc = options_set(device->options, "device", device->name, why, sizeof(why));
  if (rc < 0) {
    pst_log(PST_LOG_ERROR, "share: memory %s: option device: %s", share->memory->name, why);
    return rc;
  }
  const struct pst_memory_params params = {sizeof(params), 0, device->options};
  rc = ops->open(share->memory->host, &params, &device->memory);
  if (rc < 0)
    return rc;
  rc = loader_memory_add(device->memory, ops);
  if (rc == 0)
    rc = ops->describe(device->memory, &info);
  if (rc == 0 && !device->name[0])
    pst_text_write(device->name, sizeof(device->name), info.device);
  return rc == 0 && strcmp(info.device, device->name) != 0 ? -ENODEV : rc;
}

static int share_device_add(struct pst_share *share, const char *name)
{
  struct share_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_text_write(made->name, sizeof(made->name), name);
  const int rc = share_device_open(share, made);
  if (rc < 0) {
    share_device_close(share, made);
    return rc;
  }
  made->next = share->devices;
  share->devices = made;
  return 0;
}

int share_device_open_first(struct pst_share *share)
{
  return share_device_add(share, "");
}

/* Has the name the form of the first device's, as that of each region has? Others, which the plugin
 * may take too, would have it open and close a device each time that a client asks. */
static bool share_device_is_name(const struct pst_share *share, const char *name)
{
  const struct share_device *first = share->devices;
  size_t i = 0;

  while (first && first->next)
    first = first->next;
  if (!first)
    return false;
  for (; name[i] && first->name[i]; i++)
    if (!isalnum((unsigned char)name[i]) != !isalnum((unsigned char)first->name[i]))
      return false;
  return i > 0 && name[i] == first->name[i];
}

/* The lock is held. */
static int share_device_find(struct pst_share *share, const char *name, struct pst_memory **memory)
{
  uint32_t count = 0;
  int rc = 0;

  for (const struct share_device *at = share->devices; at; at = at->next, count++)
    if (strcmp(at->name, name) == 0) {
      *memory = at->memory;
      return 0;
    }
  rc = share_device_is_name(share, name) && count < SHARE_DEVICES_MAX
           ? share_device_add(share, name)
           : -ENODEV;
  if (rc == 0)
    *memory = share->devices->memory;
  return rc;
}

/* A driver looks at the descriptor, and others wait meanwhile: it must be none whose client decides
 * how long that takes, as a file of FUSE is. A file of a driver is none, nor is a sealed memfd. */
static bool share_device_fd_is_prompt(int fd)
{
  const int seals = fcntl(fd, F_GET_SEALS);
  struct statx file;

  if (seals >= 0)
    return seals & F_SEAL_SHRINK;
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &file) == 0 &&
         (file.stx_mask & STATX_TYPE) && S_ISCHR(file.stx_mode);
}

int share_device_import(struct pst_share *share, const struct pst_export *from,
                        struct pst_region *region, struct pst_path_info *path)
{
  struct pst_region near = {.struct_size = sizeof(near)};

  if (!share->memory) {
    pst_path_write(path, PST_PATH_NONE, "", "",
                   "the router imports no device memory; start `penstock share --memory cuda`");
    return -EOPNOTSUPP;
  }
  if (!share_device_fd_is_prompt(from->fd)) {
    pst_log(PST_LOG_ERROR, "the memory's descriptor does not come from a device's driver");
    return -EINVAL;
  }
  pthread_mutex_lock(&share->devices_lock);
  int rc = share_device_find(share, from->device, &near.memory);
  pthread_mutex_unlock(&share->devices_lock);
  if (rc < 0) {
    pst_path_write(path, PST_PATH_NONE, "", "",
                   "the router does not see the GPU of this memory; make that GPU visible to "
                   "`penstock share` too (CUDA_VISIBLE_DEVICES)");
    return -EOPNOTSUPP;
  }
  *region = (struct pst_region){.struct_size = sizeof(*region)};
  return share->memory->host->region_import(share->memory->host, &near, from, region);
}

void share_device_release(struct pst_share *share, struct pst_region *region)
{
  share->memory->host->region_release(share->memory->host, region);
}

void share_device_close_all(struct pst_share *share)
{
  while (share->devices) {
    struct share_device *device = share->devices;
    share->devices = device->next;
    share_device_close(share, device);
  }
}
