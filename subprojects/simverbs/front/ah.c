// SPDX-License-Identifier: Apache-2.0
// Address handles, and the way back that a received datagram's header tells.
#include "front.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

enum {
  NEXT_HEADER_UDP = 17,
  GRH_VERSION = 6,
};

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
  struct sim_ah *ah = sim_ah_create(sim_pd_of(pd), attr);

  return ah ? &ah->ah : NULL;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
  return sim_ah_destroy(sim_ah_of(ah));
}

static int front_ah_find_gid(struct ibv_context *context, uint8_t port, const union ibv_gid *gid,
                             bool routable)
{
  struct ibv_gid_entry entry;
  struct ibv_port_attr attr;

  if (front_query_port(context, port, &attr, sizeof(attr)))
    return -1;
  for (int i = 0; i < attr.gid_tbl_len; i++) {
    if (_ibv_query_gid_ex(context, port, (uint32_t)i, &entry, 0, sizeof(entry)) == 0 &&
        (entry.gid_type == IBV_GID_TYPE_ROCE_V2) == routable &&
        memcmp(&entry.gid, gid, sizeof(*gid)) == 0)
      return i;
  }
  return -1;
}

static void front_ah_map_ipv4(union ibv_gid *gid, uint32_t address)
{
  memset(gid, 0, sizeof(*gid));
  gid->raw[10] = gid->raw[11] = 0xff;
  memcpy(gid->raw + 12, &address, sizeof(address));
}

// RoCEv2 over IPv4: its header takes the second half of the 40 bytes, the first is undefined.
static int front_ah_reverse_ipv4(struct ibv_context *context, uint8_t port,
                                 const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
  struct iphdr ip;
  union ibv_gid ours;

  memcpy(&ip, (const char *)grh + sizeof(*grh) - sizeof(ip), sizeof(ip));
  front_ah_map_ipv4(&attr->grh.dgid, ip.saddr);
  front_ah_map_ipv4(&ours, ip.daddr);
  attr->grh.hop_limit = ip.ttl;
  attr->grh.traffic_class = ip.tos;
  return front_ah_find_gid(context, port, &ours, true);
}

static int front_ah_reverse_grh(struct ibv_context *context, uint8_t port,
                                const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
  uint32_t first = be32toh(grh->version_tclass_flow);

  if (first >> 28 != GRH_VERSION)
    return front_ah_reverse_ipv4(context, port, grh, attr);
  attr->grh.dgid = grh->sgid;
  attr->grh.flow_label = first & 0xfffff;
  attr->grh.traffic_class = (uint8_t)(first >> 20);
  attr->grh.hop_limit = grh->hop_limit;
  return front_ah_find_gid(context, port, &grh->dgid, grh->next_hdr == NEXT_HEADER_UDP);
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *ah_attr)
{
  memset(ah_attr, 0, sizeof(*ah_attr));
  ah_attr->dlid = wc->slid;
  ah_attr->sl = wc->sl;
  ah_attr->src_path_bits = wc->dlid_path_bits;
  ah_attr->port_num = port_num;
  if (!(wc->wc_flags & IBV_WC_GRH))
    return 0;
  ah_attr->is_global = 1;
  int index = front_ah_reverse_grh(context, port_num, grh, ah_attr);
  if (index < 0)
    return SIM_FAIL(EINVAL, -1);
  ah_attr->grh.sgid_index = (uint8_t)index;
  return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
  struct ibv_ah_attr attr;

  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
    return NULL;
  return ibv_create_ah(pd, &attr);
}
