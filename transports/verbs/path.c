/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a path, and address vectors. */
#include <string.h>

#include "path.h"

#define SOFT_TIMEOUT 14u
#define SOFT_RETRY_CNT 6u
#define SUBNET_PREFIX_BYTES 8u /* of a GID, in front */

static uint32_t vb_path_read_one(const struct pst_host *host, const struct pst_options *options,
                                 const char *name, bool is_soft, uint32_t soft)
{
  return is_soft && !host->option_is_set(options, name)
             ? soft
             : (uint32_t)host->option_uint(options, name);
}

void vb_path_read(const struct pst_host *host, const struct pst_options *options, bool is_soft,
                  struct vb_path *path)
{
  *path = (struct vb_path){
      .pkey_index = (uint32_t)host->option_uint(options, "pkey_index"),
      .service_level = (uint32_t)host->option_uint(options, "service_level"),
      .hop_limit_is_set = host->option_is_set(options, "hop_limit"),
      .traffic_class = (uint32_t)host->option_uint(options, "traffic_class"),
      .hop_limit = (uint32_t)host->option_uint(options, "hop_limit"),
      .mtu = (uint32_t)host->option_uint(options, "mtu"),
      .timeout = vb_path_read_one(host, options, "timeout", is_soft, SOFT_TIMEOUT),
      .retry_cnt = vb_path_read_one(host, options, "retry_cnt", is_soft, SOFT_RETRY_CNT),
      .rnr_retry = (uint32_t)host->option_uint(options, "rnr_retry"),
      .min_rnr_timer = (uint32_t)host->option_uint(options, "min_rnr_timer"),
  };
}

uint32_t vb_mtu_bytes(enum ibv_mtu mtu)
{
  return 128u << (uint32_t)mtu;
}

enum ibv_mtu vb_mtu_of(uint32_t bytes)
{
  uint32_t mtu = IBV_MTU_256;

  while (mtu < IBV_MTU_4096 && vb_mtu_bytes((enum ibv_mtu)(mtu + 1)) <= bytes)
    mtu++;
  return (enum ibv_mtu)mtu;
}

uint64_t vb_ack_timeout_ns(uint32_t timeout)
{
  return timeout ? UINT64_C(4096) << timeout : 0;
}

uint64_t vb_silence_ns(const struct vb_path *path)
{
  return vb_ack_timeout_ns(path->timeout) * (path->retry_cnt + 1);
}

void vb_address_vector(const struct vb_path *path, const struct vb_peer *peer,
                       const struct vb_local_port *own, struct ibv_ah_attr *attr)
{
  memset(attr, 0, sizeof(*attr));
  attr->port_num = (uint8_t)own->port;
  attr->sl = (uint8_t)path->service_level;
  attr->dlid = peer->is_ethernet ? 0 : peer->lid;
  attr->is_global = peer->is_ethernet || own->needs_grh ||
                    memcmp(own->gid->raw, peer->gid, SUBNET_PREFIX_BYTES) != 0;
  if (!attr->is_global)
    return;
  memcpy(attr->grh.dgid.raw, peer->gid, sizeof(peer->gid));
  attr->grh.sgid_index = (uint8_t)own->gid->index;
  attr->grh.hop_limit = (uint8_t)path->hop_limit;
  attr->grh.traffic_class = (uint8_t)path->traffic_class;
}
