// SPDX-License-Identifier: Apache-2.0
// The library's own readers of sysfs. There is no sysfs of a simulated device: what programs ask
// for through the library is answered from its attributes, the rest is read from the real one.
#include "front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Exported by libibverbs, though no installed header declares them.
SIM_EXPORT const char *ibv_get_sysfs_path(void);
SIM_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

const char *ibv_get_sysfs_path(void)
{
  const char *path = getenv("SYSFS_PATH");

  return path && *path ? path : "/sys";
}

// The device whose folder `dir` is, or NULL.
static struct sim_device *front_sysfs_device_at(const char *dir)
{
  struct sim_device *const *devices;
  unsigned count;

  if (sim_devices(&devices, &count))
    return NULL;
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(devices[i]->dev.ibdev_path, dir) == 0)
      return devices[i];
  }
  return NULL;
}

static int front_sysfs_put(char *text, size_t size, const char *value)
{
  int length = snprintf(text, size, "%s", value);

  return length < (int)size ? length : (int)size - 1;
}

static int front_sysfs_answer(struct sim_device *device, const char *file, char *text, size_t size)
{
  struct ibv_device_attr attr;
  int length = -1;

  // How a Mellanox card names its board; programs print it.
  if (strcmp(file, "board_id") == 0)
    return front_sysfs_put(text, size, "SIM0000000001");
  struct ibv_context *context = ibv_open_device(&device->dev);
  if (!context)
    return -1;
  if (strcmp(file, "fw_ver") == 0 && ibv_query_device(context, &attr) == 0)
    length = front_sysfs_put(text, size, attr.fw_ver);
  ibv_close_device(context);
  return length;
}

static int front_sysfs_read_file(const char *dir, const char *file, char *text, size_t size)
{
  char path[512];

  if (!size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
    return -1;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, text, size);
  close(fd);
  if (length <= 0)
    return -1;
  // Without the newline that ends most of them, and always with an end.
  if (text[length - 1] == '\n' || length == (ssize_t)size)
    length--;
  text[length] = '\0';
  return (int)length;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
  struct sim_device *device = front_sysfs_device_at(dir);

  return device ? front_sysfs_answer(device, file, buf, size)
                : front_sysfs_read_file(dir, file, buf, size);
}
