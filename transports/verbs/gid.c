/* SPDX-License-Identifier: Apache-2.0 */
/* The port's GID table, and the choice of an entry. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "gid.h"
#include "status.h"

/* Reach of an address, best first. */
enum reach { REACH_IPV4, REACH_GLOBAL, REACH_LINK_LOCAL };

bool vb_gid_is_ipv4(const uint8_t raw[16])
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

static enum reach vb_gid_reach_of(const uint8_t raw[16])
{
  if (vb_gid_is_ipv4(raw))
    return raw[12] == 169 && raw[13] == 254 ? REACH_LINK_LOCAL : REACH_IPV4;
  return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? REACH_LINK_LOCAL : REACH_GLOBAL;
}

void vb_gid_address(const uint8_t raw[16], char text[VB_GID_TEXT])
{
  if (vb_gid_is_ipv4(raw))
    inet_ntop(AF_INET, raw + 12, text, VB_GID_TEXT);
  else
    inet_ntop(AF_INET6, raw, text, VB_GID_TEXT);
}

void vb_gid_print(const struct vb_gid *gid, char text[VB_GID_TEXT])
{
  static const char *const types[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
  char address[VB_GID_TEXT];

  vb_gid_address(gid->raw, address);
  snprintf(text, VB_GID_TEXT, "%.45s (%s)", address,
           gid->type <= VB_GID_ROCE_V2 ? types[gid->type] : "?");
}

bool vb_gid_parse(const char *text, uint8_t raw[16])
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  uint8_t bytes[16];

  if (inet_pton(AF_INET, text, bytes) == 1) {
    memcpy(raw, mapped, sizeof(mapped));
    memcpy(raw + 12, bytes, 4);
    return true;
  }
  if (inet_pton(AF_INET6, text, bytes) != 1)
    return false;
  memcpy(raw, bytes, sizeof(bytes));
  return true;
}

static bool vb_gid_is_wanted(const struct vb_gid *gid, const struct vb_gid_request *requested)
{
  if (requested->index >= 0)
    return gid->index == (uint32_t)requested->index;
  if (requested->has_address && memcmp(gid->raw, requested->address, sizeof(gid->raw)) != 0)
    return false;
  return !requested->netdev || !gid->netdev || gid->netdev == requested->netdev;
}

/* Less is better: this namespace's addresses before others', which packets cannot leave from in a
 * pod; RoCE v2, which is routed and what peers expect; what reaches beyond the subnet, though it is
 * a VLAN's, whose entries follow those of the netdev under it; then that netdev's, then IPv4. */
static uint32_t vb_gid_rank_of(const struct vb_gid *gid, const struct vb_gid *first)
{
  const enum reach reach = vb_gid_reach_of(gid->raw);
  const uint32_t elsewhere = !gid->is_here, older = gid->type == VB_GID_ROCE_V1;
  const uint32_t is_local = reach == REACH_LINK_LOCAL, other = gid->netdev != first->netdev;

  return elsewhere << 24 | older << 20 | is_local << 16 | other << 8 | (uint32_t)reach;
}

/* Returns the first entry, of this network namespace if it has one: its netdev is the port's
 * own. */
static const struct vb_gid *vb_gid_first_of(const struct vb_gid *table, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    if (table[i].is_here)
      return &table[i];
  return table;
}

static void vb_gid_list(const struct vb_gid *table, uint32_t count, char *text, size_t size)
{
  char one[VB_GID_TEXT];

  text[0] = '\0';
  for (uint32_t i = 0; i < count; i++) {
    vb_gid_print(&table[i], one);
    vb_text_add(text, size, "%s%u: %s", i ? ", " : "", table[i].index, one);
  }
}

static int vb_gid_refuse(const struct vb_gid *table, uint32_t count,
                         const struct vb_gid_request *requested, char *reason, size_t size)
{
  char there[512], address[VB_GID_TEXT], netdev[IF_NAMESIZE] = "";

  vb_gid_list(table, count, there, sizeof(there));
  if (count == 0)
    snprintf(reason, size,
             "the port's GID table is empty: give its netdev an address (`ip addr add`) and set it "
             "up (`ip link set dev … up`)");
  else if (requested->index >= 0)
    snprintf(reason, size, "the port's GID table has no entry %d; it has %s", requested->index,
             there);
  else if (requested->has_address) {
    vb_gid_address(requested->address, address);
    snprintf(reason, size, "the port's GID table has no entry of %s; it has %s", address, there);
  } else
    snprintf(reason, size, "the port's GID table has no entry of netdev %s; it has %s",
             requested->netdev && if_indextoname(requested->netdev, netdev) ? netdev : "?", there);
  return -ENOENT;
}

static void vb_gid_explain(const struct vb_gid *chosen, const struct vb_gid *first,
                           const struct vb_gid_request *requested, uint32_t equals, char *reason,
                           size_t size)
{
  char text[VB_GID_TEXT];
  const char *why;

  vb_gid_print(chosen, text);
  if (requested->index >= 0)
    why = "as gid_index says";
  else if (requested->has_address)
    why = "the address that device names";
  else if (requested->is_ethernet && vb_gid_reach_of(chosen->raw) == REACH_LINK_LOCAL)
    why = "the port has only link-local addresses, which reach its own subnet alone";
  else if (equals > 1)
    why = "the first of several addresses; an address as device chooses another";
  else if (requested->netdev)
    why = "of the netdev that device names";
  else if (requested->is_ethernet && chosen->netdev != first->netdev)
    why = "a VLAN's; the netdev under it has only link-local addresses";
  else
    why = requested->is_ethernet ? "the port's only routable address" : "the port's GID";
  snprintf(reason, size, "GID %u, %s: %s", chosen->index, text, why);
}

int vb_gid_choose(const struct vb_gid *table, uint32_t count,
                  const struct vb_gid_request *requested, uint32_t *at, char *reason, size_t size)
{
  const struct vb_gid *best = NULL, *first = vb_gid_first_of(table, count);
  uint32_t equals = 0;

  for (uint32_t i = 0; i < count; i++) {
    if (!vb_gid_is_wanted(&table[i], requested))
      continue;
    uint32_t rank = vb_gid_rank_of(&table[i], first);
    if (best && rank > vb_gid_rank_of(best, first))
      continue;
    if (best && rank == vb_gid_rank_of(best, first)) {
      equals++;
      continue;
    }
    best = &table[i];
    equals = 1;
  }
  if (!best)
    return vb_gid_refuse(table, count, requested, reason, size);
  *at = (uint32_t)(best - table);
  vb_gid_explain(best, first, requested, equals, reason, size);
  return 0;
}

/* As struct ibv_gid_entry, which headers before rdma-core 33 lack. */
struct entry {
  union ibv_gid gid;
  uint32_t index;
  uint32_t port;
  uint32_t type;
  uint32_t netdev;
};
_Static_assert(sizeof(struct entry) == 32, "the library's");

typedef ssize_t query_table(struct ibv_context *, struct entry *, size_t, uint32_t, size_t);

static bool vb_gid_is_empty(const uint8_t raw[16])
{
  static const uint8_t none[16];
  return memcmp(raw, none, sizeof(none)) == 0;
}

static int vb_gid_read_sysfs(const struct ibv_context *context, const char *what, uint32_t port,
                             uint32_t index, char *text, size_t size)
{
  char path[320];
  snprintf(path, sizeof(path), "%s/ports/%u/gid_attrs/%s/%u", context->device->ibdev_path, port,
           what, index);
  FILE *file = fopen(path, "re");
  if (!file)
    return -errno;
  char *line = fgets(text, (int)size, file);
  fclose(file);
  if (!line)
    return -EINVAL;
  text[strcspn(text, "\n")] = '\0';
  return 0;
}

/* With an rdma-core before 33: entry by entry, with the types from sysfs. */
static int vb_gid_read_one_by_one(struct ibv_context *context, uint32_t port, bool is_ethernet,
                                  struct vb_gid table[VB_GIDS_MAX])
{
  struct ibv_port_attr attr;
  uint32_t count = 0;

  if (ibv_query_port(context, (uint8_t)port, &attr) != 0)
    return -EIO;
  for (int i = 0; i < attr.gid_tbl_len && count < VB_GIDS_MAX; i++) {
    struct vb_gid *gid = &table[count];
    union ibv_gid raw;
    char text[64];
    if (ibv_query_gid(context, (uint8_t)port, i, &raw) != 0 || vb_gid_is_empty(raw.raw))
      continue;
    *gid = (struct vb_gid){.index = (uint32_t)i, .type = VB_GID_IB};
    memcpy(gid->raw, raw.raw, sizeof(gid->raw));
    if (is_ethernet)
      gid->type = vb_gid_read_sysfs(context, "types", port, (uint32_t)i, text, sizeof(text)) == 0 &&
                          strstr(text, "v2")
                      ? VB_GID_ROCE_V2
                      : VB_GID_ROCE_V1;
    if (vb_gid_read_sysfs(context, "ndevs", port, (uint32_t)i, text, sizeof(text)) == 0)
      gid->netdev = if_nametoindex(text);
    count++;
  }
  return (int)count;
}

int vb_gid_read(struct ibv_context *context, uint32_t port, bool is_ethernet,
                struct vb_gid table[VB_GIDS_MAX])
{
  query_table *query = NULL;
  uint32_t count = 0;
  /* Looked up, so that this runs with an rdma-core that lacks it. */
  *(void **)&query = dlsym(RTLD_DEFAULT, "_ibv_query_gid_table");
  if (!query)
    return vb_gid_read_one_by_one(context, port, is_ethernet, table);
  struct entry entries[VB_GIDS_MAX];
  ssize_t n = query(context, entries, VB_GIDS_MAX, 0, sizeof(entries[0]));
  if (n < 0)
    /* EINVAL: all ports' entries together are too many (those of an e-switch's representors). */
    return n == -EOPNOTSUPP || n == -EINVAL
               ? vb_gid_read_one_by_one(context, port, is_ethernet, table)
               : (int)n;
  for (ssize_t i = 0; i < n; i++) {
    if (entries[i].port != port || vb_gid_is_empty(entries[i].gid.raw))
      continue;
    struct vb_gid *gid = &table[count++];
    *gid = (struct vb_gid){
        .index = entries[i].index, .type = entries[i].type, .netdev = entries[i].netdev};
    memcpy(gid->raw, entries[i].gid.raw, sizeof(gid->raw));
  }
  return (int)count;
}
