/* SPDX-License-Identifier: Apache-2.0 */
/* Clients' memory: regions of the router's own, registered with the transport. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <penstock/memory-util.h>
#include <penstock/page.h>

#include "loader/ops.h"
#include "router.h"
#include "util/closer.h"
#include "util/log.h"

#define HUGETLB_MAGIC 0x958458f6 /* linux/magic.h */

/* ---- Regions --------------------------------------------------------------------------------- */

/* The memory of a client's regions, which has nothing but them. */
static struct pst_memory *share_memory_of(struct share_client *client)
{
  return (struct pst_memory *)client;
}

/* Exports a client's memory to the transport, as a duplicate of the client's descriptor. */
static int share_memory_export(struct pst_memory *memory, const struct pst_region *region,
                               uint32_t kind, uint64_t offset, uint64_t length,
                               struct pst_export *out)
{
  const struct share_client *client = (const struct share_client *)memory;
  const struct pst_host *host = client->share->transport->host;
  const int code = pst_export_check(host, memory, region, kind, offset, length, out);
  const struct share_mr *mr = region->handle;

  if (code < 0)
    return code;
  struct pst_export made = mr->from;
  made.fd = fcntl(mr->from.fd, F_DUPFD_CLOEXEC, 3);
  if (made.fd < 0)
    return PST_REFUSE(host, -errno,
                      "no descriptor is left for a client's memory; raise `ulimit -n`");
  made.offset += offset;
  made.length = length;
  pst_struct_write(out, &made, sizeof(made));
  return 0;
}

static const struct pst_memory_ops share_memory_ops = {.struct_size = sizeof(share_memory_ops),
                                                       .capabilities = PST_MEMORY_CAP_EXPORT,
                                                       .export_region = share_memory_export};

int share_memory_open(struct share_client *client)
{
  ops_overlay_memory(&share_memory_ops, &client->memory);
  return loader_memory_add(share_memory_of(client), &client->memory);
}

void share_memory_close(struct share_client *client)
{
  loader_memory_remove(share_memory_of(client));
}

/* Makes a region of `length` bytes at `map`, which `lead` bytes precede. The caller checked the
 * range. On failure the map is undone. */
static int share_memory_keep(struct share_client *client, struct share_mr *mr,
                             const struct pst_export *from, void *map, uint64_t lead, uint64_t page)
{
  const bool is_host = from->kind == PST_EXPORT_FD;

  mr->map = map;
  mr->map_length = (size_t)((lead + from->length + page - 1) / page * page);
  mr->from = *from;
  mr->from.base_address = (uint64_t)(uintptr_t)map - (from->offset - lead);
  mr->from.fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 3);
  if (mr->from.fd < 0) {
    const int code = errno;
    munmap(mr->map, mr->map_length);
    pst_log(PST_LOG_ERROR,
            "the router has no descriptor for a client's memory: %s; raise its "
            "`ulimit -n`",
            strerror(code));
    return -code;
  }
  uint8_t *const at = (uint8_t *)map + lead;
  mr->region = (struct pst_region){.struct_size = sizeof(mr->region),
                                   .kind = is_host ? PST_MEMORY_HOST : PST_MEMORY_CUDA,
                                   .address = (uint64_t)(uintptr_t)at,
                                   .host = is_host ? at : NULL,
                                   .length = from->length,
                                   .page_size = page,
                                   .exports = from->kind,
                                   .memory = share_memory_of(client),
                                   .handle = mr};
  pst_text_write(mr->region.device, sizeof(mr->region.device), from->device);
  pst_text_write(mr->region.backing, sizeof(mr->region.backing),
                 is_host ? "a client's memfd" : "a client's dma-buf");
  return 0;
}

/* Maps a client's memfd, which must not be able to shrink. */
static int share_memory_map(struct share_client *client, struct share_mr *mr,
                            struct pst_export *from)
{
  struct statfs system;
  struct stat file;
  const int seals = fcntl(from->fd, F_GET_SEALS);

  if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(from->fd, &file) != 0 ||
      fstatfs(from->fd, &system) != 0) {
    pst_log(PST_LOG_ERROR, "the memory's descriptor is not a memfd sealed against shrinking");
    return -EINVAL;
  }
  if (system.f_type == HUGETLB_MAGIC && !client->share->params.huge) {
    pst_log(PST_LOG_ERROR, "the memory has huge pages, which a client can remove while the router "
                           "copies; use ordinary pages, or start `penstock share --huge`");
    return -EOPNOTSUPP;
  }
  const uint64_t page = system.f_type == HUGETLB_MAGIC ? (uint64_t)system.f_bsize : pst_page_size();
  const uint64_t lead = from->offset % page;
  from->base_length = (uint64_t)file.st_size;
  if (!pst_range_holds(from->base_length, from->offset, from->length)) {
    pst_log(PST_LOG_ERROR, "the range is not within the memory's file of %llu bytes",
            (unsigned long long)from->base_length);
    return -EINVAL;
  }
  from->device[0] = '\0';
  void *map = mmap(NULL, (size_t)(lead + from->length), PROT_READ | PROT_WRITE, MAP_SHARED,
                   from->fd, (off_t)(from->offset - lead));
  if (map == MAP_FAILED) {
    const int code = errno;
    pst_log(PST_LOG_ERROR, "mmap of %llu bytes of a client: %s", (unsigned long long)from->length,
            strerror(code));
    return -code;
  }
  return share_memory_keep(client, mr, from, map, lead, page);
}

/* A dma-buf goes to the adapter's driver, which checks what it is and how long. Its region has
 * addresses that nothing else of the router has: a transport that registers them, where it cannot
 * take the dma-buf, finds no memory there. */
static int share_memory_reserve(struct share_client *client, struct share_mr *mr,
                                const struct pst_export *from)
{
  const uint64_t page = pst_page_size(), lead = from->offset % page;

  if (!pst_range_holds(INT64_MAX - page, from->offset, from->length)) {
    pst_log(PST_LOG_ERROR, "the range is not within any dma-buf");
    return -EINVAL;
  }
  void *map = mmap(NULL, (size_t)(lead + from->length), PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    const int code = errno;
    pst_log(PST_LOG_ERROR,
            "the router has no address space of %llu bytes left for a client's "
            "dma-buf: %s",
            (unsigned long long)from->length, strerror(code));
    return -code;
  }
  return share_memory_keep(client, mr, from, map, lead, page);
}

static int share_memory_take(struct share_client *client, struct share_mr *mr,
                             struct pst_export *from, struct pst_path_info *path)
{
  int rc = -EOPNOTSUPP;

  if (from->kind == PST_EXPORT_FD)
    rc = share_memory_map(client, mr, from);
  else if (from->kind == PST_EXPORT_DMABUF)
    rc = share_memory_reserve(client, mr, from);
  else if (from->kind == PST_EXPORT_VENDOR_FD) {
    mr->map = NULL;
    return share_device_import(client->share, from, &mr->region, path);
  }
  if (rc == -EOPNOTSUPP)
    pst_path_write(path, PST_PATH_NONE, "", "",
                   "the router accepts only memory with a descriptor, and huge pages only with "
                   "`penstock share --huge`");
  return rc;
}

/* Releases a client's memory; the close of a descriptor that only a driver has looked at may block,
 * so another thread does it. */
static void share_memory_release(struct share_client *client, struct share_mr *mr)
{
  if (!mr->map) {
    share_device_release(client->share, &mr->region);
    return;
  }
  munmap(mr->map, mr->map_length);
  closer_close(mr->from.fd);
}

/* ---- Registrations --------------------------------------------------------------------------- */

static int share_mr_check_limits(const struct share_client *client, uint64_t length)
{
  const struct share_class *limits = client->class;
  char remedy[SHARE_REMEDY_BYTES];

  if (client->regions >= limits->regions) {
    pst_log(PST_LOG_ERROR, "the router allows a client %u registered regions; %s", limits->regions,
            share_class_remedy(client, "regions", remedy));
    return -ENOSPC;
  }
  if (limits->bytes && (length > limits->bytes || client->bytes > limits->bytes - length)) {
    pst_log(PST_LOG_ERROR,
            "the router allows a client %llu registered bytes, it has %llu and asks for %llu more; "
            "%s",
            (unsigned long long)limits->bytes, (unsigned long long)client->bytes,
            (unsigned long long)length, share_class_remedy(client, "bytes", remedy));
    return -ENOMEM;
  }
  return 0;
}

static struct share_mr *share_mr_place(struct share_client *client, uint32_t *number)
{
  for (uint32_t i = 0; i < client->class->regions; i++) {
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
  from.handle_length = 0;
  if (from.length == 0 || from.length != asked->length)
    return -EINVAL;
  reply->u.path = (struct pst_path_info){.struct_size = sizeof(reply->u.path)};
  rc = share_user_take(client->user, SHARE_REGION);
  if (rc < 0)
    return rc;
  rc = share_memory_take(client, mr, &from, &reply->u.path);
  if (rc < 0) {
    share_user_give(client->user, SHARE_REGION);
    return rc;
  }
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
    share_memory_release(client, mr);
    share_user_give(client->user, SHARE_REGION);
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
  share_memory_release(client, mr);
  share_user_give(client->user, SHARE_REGION);
}

struct share_mr *share_mr_use(struct share_client *client, uint32_t number)
{
  const uint32_t place = (number - 1) & PST_PLACE_MASK;

  if (number == 0 || place >= client->class->regions)
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
  for (uint32_t i = 0; client->mrs && i < client->class->regions; i++)
    if (client->mrs[i].mr) {
      atomic_store(&client->mrs[i].number, 0);
      share_mr_close(client, &client->mrs[i]);
    }
}
