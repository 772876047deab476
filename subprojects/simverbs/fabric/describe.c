/* SPDX-License-Identifier: Apache-2.0 */
/* The description that a fabric has when nobody gives one: one host, a RoCE and an InfiniBand
 * device, each on a subnet of its own. Its limits are a ConnectX-6's, where they do not cost
 * memory. */
#include "fabric.h"

#include <arpa/inet.h>
#include <string.h>

void fab_caps_default(struct fab_caps *caps, enum fab_vendor vendor)
{
  const bool is_mlx5 = vendor == FAB_VENDOR_MELLANOX;
  *caps = (struct fab_caps){
      .max_qp = 16384,
      .max_cq = 16384,
      .max_mr = 65536,
      .max_pd = 16384,
      .max_srq = 8192,
      .max_ah = INT32_MAX,
      .max_mw = 65536,
      .max_qp_wr = 32768,
      .max_sge = 30,
      .max_sge_rd = 30,
      .max_inline = 988,
      .max_cqe = 262143,
      .max_srq_wr = 32767,
      .max_srq_sge = 31,
      .max_rd_atomic = 16,
      .max_dest_rd_atomic = 16,
      .max_dc_rd_atomic = 16,
      .max_msg_size = 1u << 30,
      .wqe_blocks = is_mlx5 ? 32768 : 0,
      .scatter_to_cqe = is_mlx5 ? 32 : 0,
      .dmabuf = 1,
      .dc = is_mlx5,
      .log_max_streams = is_mlx5 ? 6 : 0,
      .log_max_errored = is_mlx5 ? 4 : 0,
      .resize_cq = 1,
      .last_wqe = 1,
      .retries_for_ever = !is_mlx5,
      .ece = is_mlx5 ? 0x30000002 : 0,
      .atomic_cap = IBV_ATOMIC_HCA,
      .gives_sends = UINT32_MAX,
      .gives_receives = UINT32_MAX,
      .gives_pieces = UINT32_MAX,
      .gives_inline = UINT32_MAX,
      .gives_shared = UINT32_MAX,
      .gives_cqe = UINT32_MAX,
  };
}

static void fab_describe_set_gid(struct fab_port *port, unsigned index, uint8_t type,
                                 const uint8_t raw[16])
{
  struct fab_gid *entry = &port->gids[index];
  memcpy(entry->gid.raw, raw, 16);
  entry->type = type;
  entry->used = 1;
}

void fab_gids_roce(struct fab_port *port, __be64 guid, uint32_t address)
{
  uint8_t local[16] = {0xfe, 0x80}, mapped[16] = {[10] = 0xff, [11] = 0xff};
  memcpy(local + 8, &guid, 8);
  uint32_t network = htonl(address);
  memcpy(mapped + 12, &network, 4);
  fab_describe_set_gid(port, 0, IBV_GID_TYPE_ROCE_V1, local);
  fab_describe_set_gid(port, 1, IBV_GID_TYPE_ROCE_V2, local);
  fab_describe_set_gid(port, 2, IBV_GID_TYPE_ROCE_V1, mapped);
  fab_describe_set_gid(port, 3, IBV_GID_TYPE_ROCE_V2, mapped);
}

void fab_gids_ib(struct fab_port *port, __be64 guid)
{
  uint8_t local[16] = {0xfe, 0x80};
  memcpy(local + 8, &guid, 8);
  fab_describe_set_gid(port, 0, IBV_GID_TYPE_IB, local);
}

__be64 fab_guid(uint32_t host, uint32_t device)
{
  uint8_t raw[8] = {
      0x02, 0x50, 0x53, 0xff, 0xfe, (uint8_t)(host >> 8), (uint8_t)host, (uint8_t)(device + 1)};
  __be64 guid;
  memcpy(&guid, raw, sizeof(guid));
  return guid;
}

void fab_describe_default(struct fabric *f)
{
  f->hosts = 1;
  strcpy(f->host[0], "host");
  f->subnets = 2;
  strcpy(f->subnet[0].name, "ethernet");
  strcpy(f->subnet[1].name, "infiniband");
  for (unsigned i = 0; i < 2; i++) {
    f->subnet[i].used = 1;
    f->subnet[i].mtu = IBV_MTU_4096;
    struct fab_device *device = &f->device[i];
    device->used = 1;
    device->number = (uint16_t)i;
    device->name[0] = '\0';
    strcpy(device->name, i ? "mlx5_1" : "mlx5_0");
    device->guid = fab_guid(0, i);
    device->vendor_id = FAB_VENDOR_MELLANOX;
    fab_caps_default(&device->caps, FAB_VENDOR_MELLANOX);
    struct fab_port *port = &device->ports[0];
    port->used = 1;
    port->up = 1;
    port->mtu = IBV_MTU_4096;
    port->subnet = (uint16_t)i;
    port->pkeys[0] = 0xffff;
  }
  f->devices = 2;
  struct fab_port *roce = &f->device[0].ports[0], *ib = &f->device[1].ports[0];
  roce->link_layer = IBV_LINK_LAYER_ETHERNET;
  strcpy(roce->netdev, "lo");
  fab_gids_roce(roce, f->device[0].guid, 0x7f000001);
  ib->link_layer = IBV_LINK_LAYER_INFINIBAND;
  ib->lid = 1;
  fab_gids_ib(ib, f->device[1].guid);
}
