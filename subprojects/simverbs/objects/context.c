/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, and what may be asked of a device. */
#include "engine/engine.h"
#include "objects.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

void sim_command(struct ibv_context *context)
{
  const uint32_t us = sim_fab_device(context)->caps.command_us;
  const struct timespec time = {us / 1000000, us % 1000000 * 1000L};

  if (us)
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

struct sim_context *sim_context_open(struct sim_device *device)
{
  int error = sim_attach();
  if (!error && fab->device[device->number].removed)
    error = ENODEV;
  if (!error)
    error = fab->device[device->number].open_error;
  if (!error)
    error = sim_nic_start();
  if (error)
    return sim_fail(error);
  struct sim_context *context = calloc(1, sizeof(*context));
  if (!context)
    return sim_fail(ENOMEM);
  context->device = device;
  sim_list_init(&context->regions);
  sim_list_init(&context->windows);
  error = sim_events_open(&context->async);
  if (error) {
    free(context);
    return sim_fail(error);
  }
  context->verbs.sz = sizeof(context->verbs);
  struct ibv_context *verbs = &context->verbs.context;
  verbs->device = &device->dev;
  verbs->abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs->async_fd = context->async.fd;
  /* A descriptor that a program may pass on, poll or compare, as the device's own would be. */
  verbs->cmd_fd = eventfd(0, EFD_CLOEXEC);
  verbs->num_comp_vectors = 8;
  pthread_mutex_init(&verbs->mutex, NULL);
  const struct fab_device *from = &fab->device[device->number];
  for (unsigned p = 0; p < FAB_PORTS; p++) {
    context->port_seen |= (uint64_t)from->ports[p].up << p;
    for (unsigned e = 0; e < SIM_EVENTS; e++)
      context->told_seen[p][e] = from->ports[p].told[e];
  }
  pthread_mutex_lock(&sim_self.lock);
  sim_list_add(&sim_self.contexts, &context->link);
  pthread_mutex_unlock(&sim_self.lock);
  return context;
}

int sim_context_close(struct sim_context *context)
{
  pthread_mutex_lock(&sim_self.lock);
  unsigned left = context->pds + context->mrs + context->mws + context->cqs + context->qps +
                  context->srqs + context->ahs + context->channels;
  pthread_mutex_unlock(&sim_self.lock);
  if (left) {
    fab_log(fab->strict ? 1 : 2,
            "%s is closed with objects alive: %u PD, %u MR, %u MW, %u CQ, %u QP, %u SRQ, %u AH, "
            "%u channels",
            context->device->dev.name, context->pds, context->mrs, context->mws, context->cqs,
            context->qps, context->srqs, context->ahs, context->channels);
    sim_reclaim(context);
  }
  pthread_mutex_lock(&sim_self.lock);
  sim_list_del(&context->link);
  pthread_mutex_unlock(&sim_self.lock);
  sim_events_close(&context->async);
  close(context->verbs.context.cmd_fd);
  free(context);
  return 0;
}

int sim_query_device(struct sim_context *context, struct ibv_device_attr_ex *attr)
{
  const struct fab_device *device = &fab->device[context->device->number];
  const struct fab_caps *caps = &device->caps;
  unsigned ports = 0;
  while (ports < FAB_PORTS && device->ports[ports].used)
    ports++;
  memset(attr, 0, sizeof(*attr));
  attr->orig_attr = (struct ibv_device_attr){
      .fw_ver = "20.31.1014",
      .node_guid = device->guid,
      .sys_image_guid = device->guid,
      .max_mr_size = UINT64_MAX,
      .page_size_cap = ~UINT64_C(0xfff),
      .vendor_id = device->vendor_id,
      .vendor_part_id = 4123,
      .max_qp = (int)caps->max_qp,
      .max_qp_wr = (int)caps->max_qp_wr,
      .device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                          IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                          IBV_DEVICE_MEM_MGT_EXTENSIONS,
      .max_sge = (int)caps->max_sge,
      .max_sge_rd = (int)caps->max_sge_rd,
      .max_cq = (int)caps->max_cq,
      .max_cqe = (int)caps->max_cqe,
      .max_mr = (int)caps->max_mr,
      .max_pd = (int)caps->max_pd,
      .max_qp_rd_atom = (int)caps->max_dest_rd_atomic,
      .max_res_rd_atom = (int)(caps->max_dest_rd_atomic * caps->max_qp),
      .max_qp_init_rd_atom = (int)caps->max_rd_atomic,
      .atomic_cap = (enum ibv_atomic_cap)caps->atomic_cap,
      .max_mw = (int)caps->max_mw,
      .max_mcast_grp = FAB_MCAST,
      .max_mcast_qp_attach = FAB_MCAST,
      .max_total_mcast_qp_attach = FAB_MCAST,
      .max_ah = (int)caps->max_ah,
      .max_srq = (int)caps->max_srq,
      .max_srq_wr = (int)caps->max_srq_wr,
      .max_srq_sge = (int)caps->max_srq_sge,
      .max_pkeys = 1,
      .local_ca_ack_delay = 16,
      .phys_port_cnt = (uint8_t)ports,
  };
  attr->phys_port_cnt_ex = ports;
  attr->completion_timestamp_mask = UINT64_MAX;
  attr->hca_core_clock = 1000000; /* kHz: time stamps are nanoseconds */
  attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
  attr->cq_mod_caps.max_cq_count = UINT16_MAX;
  attr->cq_mod_caps.max_cq_period = 4095;
  return 0;
}

bool sim_device_is_mlx5(const struct sim_device *device)
{
  return fab->device[device->number].vendor_id == FAB_VENDOR_MELLANOX;
}

int sim_query_mlx5(struct sim_context *context, struct mlx5dv_context *attr)
{
  const struct fab_caps *caps = &fab->device[context->device->number].caps;
  uint64_t mask = attr->comp_mask;
  memset(attr, 0, sizeof(*attr));
  attr->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
  if (mask & MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK)
    attr->comp_mask |= MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK;
  if (mask & MLX5DV_CONTEXT_MASK_DC_ODP_CAPS)
    attr->comp_mask |= MLX5DV_CONTEXT_MASK_DC_ODP_CAPS;
  if ((mask & MLX5DV_CONTEXT_MASK_DCI_STREAMS) && caps->dc && caps->log_max_streams) {
    attr->comp_mask |= MLX5DV_CONTEXT_MASK_DCI_STREAMS;
    attr->dci_streams_caps.max_log_num_concurent = caps->log_max_streams;
    attr->dci_streams_caps.max_log_num_errored = caps->log_max_errored;
  }
  return 0;
}

int sim_query_port(struct sim_context *context, unsigned port, struct ibv_port_attr *attr)
{
  const struct fab_port *from = fab_port_of(context->device->number, port);
  if (!from)
    return EINVAL;
  bool ethernet = from->link_layer == IBV_LINK_LAYER_ETHERNET;
  *attr = (struct ibv_port_attr){
      .state = !from->up               ? IBV_PORT_DOWN
               : ethernet || from->lid ? IBV_PORT_ACTIVE
                                       : IBV_PORT_INIT,
      .max_mtu = IBV_MTU_4096,
      .active_mtu = from->mtu,
      .gid_tbl_len = FAB_GIDS,
      .port_cap_flags = ethernet ? IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS : IBV_PORT_CM_SUP,
      .max_msg_sz = fab->device[context->device->number].caps.max_msg_size,
      .pkey_tbl_len = 1,
      .lid = from->lid,
      .sm_lid = ethernet ? 0 : 1,
      .max_vl_num = 1,
      .subnet_timeout = 18,
      .active_width = 2,  /* 4x */
      .active_speed = 64, /* HDR */
      .phys_state = from->up ? 5 : 3,
      .link_layer = from->link_layer,
      .flags = ethernet || from->grh_required ? IBV_QPF_GRH_REQUIRED : 0,
  };
  return 0;
}

int sim_query_gid(struct sim_context *context, unsigned port, unsigned index,
                  struct ibv_gid_entry *entry)
{
  const struct fab_port *from = fab_port_of(context->device->number, port);
  if (!from || index >= FAB_GIDS)
    return EINVAL;
  const struct fab_gid *gid = &from->gids[index];
  if (!gid->used)
    return ENODATA;
  entry->gid = gid->gid;
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = gid->type;
  entry->ndev_ifindex = gid->ifindex      ? gid->ifindex
                        : from->netdev[0] ? if_nametoindex(from->netdev)
                                          : 0;
  return 0;
}

int sim_query_pkey(struct sim_context *context, unsigned port, unsigned index, __be16 *pkey)
{
  const struct fab_port *from = fab_port_of(context->device->number, port);
  if (!from || index >= 1)
    return EINVAL;
  *pkey = htons(from->pkeys[index]);
  return 0;
}

uint64_t sim_clock_ns(struct sim_context *context)
{
  (void)context;
  return fab_clock_ns(fab);
}

int sim_clock_advance(uint64_t ns)
{
  if (!fab || fab->clock_kind != FAB_CLOCK_MANUAL)
    return EINVAL;
  fab_clock_advance(ns);
  fab_await_idle();
  return 0;
}
