/* SPDX-License-Identifier: Apache-2.0 */
/* Clients' memory: mapped or imported here, and registered with the transport. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <penstock/page.h>

#include "config/options.h"
#include "router.h"
#include "util/log.h"

#define HUGETLB_MAGIC 0x958458f6 /* linux/magic.h */

static int share_memory_open_one(struct share_memory *memory, const struct loader_plugin *plugin)
{
  const struct pst_description *description = plugin->description;

  memory->plugin = plugin;
  int rc = options_new(description->options, description->option_count, &memory->options);
  if (rc < 0)
    return rc;
  const struct pst_memory_params params = {sizeof(params), 0, memory->options};
  rc = plugin->memory->open(plugin->host, &params, &memory->memory);
  if (rc == 0)
    rc = loader_memory_add(memory->memory, plugin->memory);
  return rc;
}

int share_memory_open(struct share_client *client)
{
  return share_memory_open_one(&client->memory, client->share->memory);
}

void share_memory_close(struct share_client *client)
{
  struct share_memory *memory = &client->memory;

  if (memory->memory) {
    loader_memory_remove(memory->memory);
    memory->plugin->memory->close(memory->memory);
  }
  options_free(memory->options);
}

/* Maps a client's memfd, which must not be able to shrink, and makes a region of it. */
static int share_memory_map(struct share_client *client, struct share_mr *mr,
                            const struct pst_export *from)
{
  struct share_memory *memory = &client->memory;
  struct statfs system;
  struct stat file;
  const int seals = fcntl(from->fd, F_GET_SEALS);

  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(from->fd, &file) != 0 ||
      fstatfs(from->fd, &system) != 0) {
    pst_log(PST_LOG_ERROR, "the memory's descriptor is not a memfd sealed against shrinking");
    return -EINVAL;
  }
  if (system.f_type == HUGETLB_MAGIC && !client->share->params.huge) {
    pst_log(PST_LOG_ERROR, "the memory has huge pages, which a client can take away while the "
                           "router copies; use ordinary pages, or start `penstock share --huge`");
    return -EOPNOTSUPP;
  }
  const uint64_t page = system.f_type == HUGETLB_MAGIC ? (uint64_t)system.f_bsize : pst_page_size();
  const uint64_t size = (uint64_t)file.st_size, lead = from->offset % page;
  if (from->length == 0 || !pst_range_holds(size, from->offset, from->length)) {
    pst_log(PST_LOG_ERROR, "the range is not within the memory's file of %llu bytes",
            (unsigned long long)size);
    return -EINVAL;
  }
  const size_t length = (size_t)((lead + from->length + page - 1) / page * page);
  void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, from->fd,
                   (off_t)(from->offset - lead));
  if (map == MAP_FAILED) {
    const int code = errno;
    pst_log(PST_LOG_ERROR, "mmap of %llu bytes of a client: %s", (unsigned long long)length,
            strerror(code));
    return -code;
  }
  const struct pst_adopt_params adopt = {.struct_size = sizeof(adopt),
                                         .fd = from->fd,
                                         .address = (uint64_t)(uintptr_t)map + lead,
                                         .length = from->length,
                                         .fd_offset = from->offset,
                                         .label = "a client's memory"};
  mr->region = (struct pst_region){.struct_size = sizeof(mr->region)};
  int rc = memory->plugin->memory->adopt_region(memory->memory, &adopt, &mr->region);
  if (rc < 0) {
    munmap(map, length);
    return rc;
  }
  mr->map = map;
  mr->map_length = length;
  return 0;
}

static void share_mr_unmap(struct share_client *client, struct share_mr *mr)
{
  client->memory.plugin->memory->free_region(client->memory.memory, &mr->region);
  munmap(mr->map, mr->map_length);
}

static int share_mr_check_limits(const struct share_client *client, uint64_t length)
{
  const struct pst_share_params *limits = &client->share->params;

  if (client->regions >= limits->regions) {
    pst_log(PST_LOG_ERROR,
            "the router allows a client %u registered regions; raise --regions of `penstock share`",
            limits->regions);
    return -ENOSPC;
  }
  if (limits->bytes && (length > limits->bytes || client->bytes > limits->bytes - length)) {
    pst_log(PST_LOG_ERROR,
            "the router allows a client %llu registered bytes, it has %llu and asks for %llu more; "
            "raise --bytes of `penstock share`",
            (unsigned long long)limits->bytes, (unsigned long long)client->bytes,
            (unsigned long long)length);
    return -ENOMEM;
  }
  return 0;
}

static struct share_mr *share_mr_place(struct share_client *client, uint32_t *number)
{
  for (uint32_t i = 0; i < client->share->params.regions; i++) {
    struct share_mr *mr = &client->mrs[i];
    if (mr->mr)
      continue;
    mr->generation = (mr->generation + 1) & 0x7fff;
    *number = (mr->generation << PST_PLACE_BITS | i) + 1;
    return mr;
  }
  return NULL;
}

int share_mr_register(struct share_client *client, const struct share_command *command)
{
  const struct pst_share_mr *asked = &command->request->u.mr;
  struct pst_share_reply *reply = command->reply;
  struct pst_export from = asked->from;
  uint32_t number = 0;

  int rc = share_mr_check_limits(client, asked->length);
  struct share_mr *mr = share_mr_place(client, &number);
  if (rc < 0 || !mr)
    return rc < 0 ? rc : -ENOSPC;
  from.struct_size = sizeof(from);
  from.fd = command->fd_count ? command->fds[0] : -1;
  from.device[sizeof(from.device) - 1] = '\0';
  if (from.handle_length > sizeof(from.handle) || from.length != asked->length)
    return -EINVAL;
  rc = from.kind == PST_EXPORT_FD ? share_memory_map(client, mr, &from) : -EOPNOTSUPP;
  reply->u.path = (struct pst_path_info){.struct_size = sizeof(reply->u.path)};
  if (rc == -EOPNOTSUPP)
    pst_path_write(
        &reply->u.path, PST_PATH_NONE, "", "",
        "the router takes memory by a descriptor that it can map: no device memory, and huge "
        "pages by `penstock share --huge` alone");
  if (rc < 0)
    return rc;
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = asked->access,
                                       .region = &mr->region,
                                       .offset = 0,
                                       .length = asked->length,
                                       .path = &reply->u.path,
                                       .domain = asked->domain,
                                       .send_max = asked->send_max};
  struct pst_mr *made = NULL;
  rc = client->share->transport->transport->mr_register(client->device, &params, &made);
  if (rc < 0) {
    share_mr_unmap(client, mr);
    return rc;
  }
  mr->mr = made;
  mr->access = asked->access;
  mr->length = asked->length;
  client->regions++;
  client->bytes += mr->length;
  atomic_fetch_add(&client->share->regions, 1);
  atomic_fetch_add(&client->share->bytes, mr->length);
  atomic_store(&mr->number, number);
  reply->object = number;
  return 0;
}

static void share_mr_close(struct share_client *client, struct share_mr *mr)
{
  client->share->transport->transport->mr_deregister(client->device, mr->mr);
  mr->mr = NULL;
  client->regions--;
  client->bytes -= mr->length;
  atomic_fetch_sub(&client->share->regions, 1);
  atomic_fetch_sub(&client->share->bytes, mr->length);
  share_mr_unmap(client, mr);
}

struct share_mr *share_mr_use(struct share_client *client, uint32_t number)
{
  const uint32_t place = (number - 1) & PST_PLACE_MASK;

  if (number == 0 || place >= client->share->params.regions)
    return NULL;
  struct share_mr *mr = &client->mrs[place];
  atomic_fetch_add(&mr->uses, 1);
  if (atomic_load(&mr->number) == number)
    return mr;
  atomic_fetch_sub(&mr->uses, 1);
  return NULL;
}

int share_mr_deregister(struct share_client *client, uint32_t number)
{
  struct share_mr *mr = share_mr_use(client, number);

  if (!mr) {
    share_client_expel(client, "it deregistered memory that is not registered");
    return -EINVAL;
  }
  atomic_store(&mr->number, 0);
  if (atomic_fetch_sub(&mr->uses, 1) != 1) {
    share_client_expel(client, "it deregistered memory that requests or rings use");
    return -EBUSY;
  }
  share_mr_close(client, mr);
  return 0;
}

void share_mr_deregister_all(struct share_client *client)
{
  for (uint32_t i = 0; client->mrs && i < client->share->params.regions; i++)
    if (client->mrs[i].mr) {
      atomic_store(&client->mrs[i].number, 0);
      share_mr_close(client, &client->mrs[i]);
    }
}
