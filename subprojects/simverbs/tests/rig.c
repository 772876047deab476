/* SPDX-License-Identifier: Apache-2.0 */
/* Connected ends on a fabric, for tests. */
#include "rig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 20 };

struct ibv_context *rig_device(const char *name)
{
  int count = 0;
  struct ibv_device **list = ibv_get_device_list(&count);
  struct ibv_context *context = NULL;
  assert_non_null(list);
  for (int i = 0; i < count && !context; i++) {
    if (!strcmp(ibv_get_device_name(list[i]), name))
      context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  return context;
}

void rig_end_open(struct rig_end *end, const char *device)
{
  end->context = rig_device(device);
  assert_non_null(end->context);
  end->pd = ibv_alloc_pd(end->context);
  end->cq = ibv_create_cq(end->context, 4 * RIG_WRS, NULL, NULL, 0);
  end->bytes = calloc(1, RIG_BYTES);
  assert_non_null(end->bytes);
  end->mr = ibv_reg_mr(end->pd, end->bytes, RIG_BYTES,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  assert_non_null(end->mr);
  struct ibv_qp_init_attr attr = {
      .send_cq = end->cq,
      .recv_cq = end->cq,
      .cap = {.max_send_wr = RIG_WRS, .max_recv_wr = RIG_WRS, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1};
  end->qp = ibv_create_qp(end->pd, &attr);
  assert_non_null(end->qp);
}

void rig_end_close(struct rig_end *end)
{
  assert_int_equal(ibv_destroy_qp(end->qp), 0);
  assert_int_equal(ibv_dereg_mr(end->mr), 0);
  assert_int_equal(ibv_destroy_cq(end->cq), 0);
  assert_int_equal(ibv_dealloc_pd(end->pd), 0);
  assert_int_equal(ibv_close_device(end->context), 0);
  free(end->bytes);
}

union ibv_gid rig_gid(const struct rig_end *end)
{
  union ibv_gid gid;
  assert_int_equal(ibv_query_gid(end->context, 1, RIG_GID, &gid), 0);
  return gid;
}

void rig_connect(struct rig_end *end, const struct rig_how *how, uint32_t qpn,
                 const union ibv_gid *gid, uint32_t sq_psn, uint32_t rq_psn)
{
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = how->mtu ? how->mtu : IBV_MTU_1024,
      .dest_qp_num = qpn,
      .rq_psn = rq_psn,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = how->min_rnr_timer,
      .ah_attr = {.is_global = !how->no_grh,
                  .port_num = 1,
                  .dlid = how->dlid,
                  .grh = {.dgid = *gid,
                          .sgid_index = how->gid_index ? how->gid_index : RIG_GID,
                          .hop_limit = how->hop_limit}}};
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                            .timeout = how->timeout ? how->timeout : 10,
                            .retry_cnt = how->retry_cnt,
                            .rnr_retry = how->rnr_retry,
                            .sq_psn = sq_psn,
                            .max_rd_atomic = 1};
  assert_int_equal(
      ibv_modify_qp(end->qp, &init,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      0);
  struct ibv_ece ece = {.vendor_id = 0x15b3, .options = how->ece};
  if (how->ece)
    assert_int_equal(ibv_set_ece(end->qp, &ece), 0);
  assert_int_equal(ibv_modify_qp(end->qp, &rtr,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER),
                   0);
  assert_int_equal(ibv_modify_qp(end->qp, &rts,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                   0);
}

void rig_open(struct rig *rig, const struct rig_how *how)
{
  enum { PSN_A = 0x1000, PSN_B = 0x2000 };
  rig_end_open(&rig->a, how->from);
  rig_end_open(&rig->b, how->to);
  union ibv_gid gid_a = rig_gid(&rig->a), gid_b = rig_gid(&rig->b);
  struct rig_how back = *how;
  back.gid_index = how->peers_gid_index;
  back.dlid = how->peers_dlid;
  back.ece = how->peers_ece;
  rig_connect(&rig->b, &back, rig->a.qp->qp_num, &gid_a, PSN_B, PSN_A);
  rig_connect(&rig->a, how, how->wrong_qpn ? how->wrong_qpn : rig->b.qp->qp_num, &gid_b,
              PSN_A + how->wrong_psn, PSN_B);
}

void rig_close(struct rig *rig)
{
  rig_end_close(&rig->a);
  rig_end_close(&rig->b);
}

void rig_post_recv(struct rig_end *end, uint64_t wr_id, uint32_t length)
{
  struct ibv_sge sge = {(uintptr_t)end->bytes, length, end->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
  assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

void rig_post_send(struct rig_end *end, uint64_t wr_id, uint32_t length)
{
  struct ibv_sge sge = {(uintptr_t)end->bytes, length, end->mr->lkey};
  struct ibv_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
                     *bad;
  assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
}

static int64_t now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

struct ibv_wc rig_wait(struct rig_end *end)
{
  struct ibv_wc wc;
  int64_t end_s = now_s() + PATIENCE_S;
  int n;
  while ((n = ibv_poll_cq(end->cq, 1, &wc)) == 0 && now_s() < end_s)
    poll(NULL, 0, 1);
  assert_int_equal(n, 1);
  return wc;
}

bool rig_is_quiet(struct rig_end *end)
{
  struct ibv_wc wc;
  return ibv_poll_cq(end->cq, 1, &wc) == 0;
}

enum ibv_wc_status rig_send(struct rig *rig)
{
  enum { BYTES = 3000 };
  static unsigned char salt;
  memset(rig->a.bytes, ++salt, BYTES);
  memset(rig->b.bytes, 0, BYTES);
  rig_post_recv(&rig->b, 1, BYTES);
  rig_post_send(&rig->a, 2, BYTES);
  struct ibv_wc sent = rig_wait(&rig->a);
  assert_int_equal(sent.wr_id, 2);
  if (sent.status != IBV_WC_SUCCESS)
    return sent.status;
  struct ibv_wc received = rig_wait(&rig->b);
  assert_int_equal(received.status, IBV_WC_SUCCESS);
  assert_int_equal(received.byte_len, BYTES);
  assert_memory_equal(rig->a.bytes, rig->b.bytes, BYTES);
  return sent.status;
}

enum ibv_event_type rig_event(struct ibv_context *context)
{
  struct pollfd wait = {.fd = context->async_fd, .events = POLLIN};
  struct ibv_async_event event;
  assert_int_equal(poll(&wait, 1, PATIENCE_S * 1000), 1);
  assert_int_equal(ibv_get_async_event(context, &event), 0);
  ibv_ack_async_event(&event);
  return event.event_type;
}

static FILE *ctl_open(const char *words)
{
  char command[512];
  const char *program = getenv("SIMVERBS");
  assert_non_null(program);
  snprintf(command, sizeof(command), "%s ctl . %s", program, words);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  return pipe;
}

char *rig_ctl_read(const char *words)
{
  char *text = NULL;
  size_t size = 0;
  FILE *from = ctl_open(words), *to = open_memstream(&text, &size);
  assert_non_null(to);
  for (int c; (c = fgetc(from)) != EOF;)
    fputc(c, to);
  fclose(to);
  assert_int_equal(pclose(from), 0);
  return text;
}

void rig_ctl(const char *words)
{
  free(rig_ctl_read(words));
}

uint64_t rig_counter(const char *name)
{
  char key[64];
  char *text = rig_ctl_read("counters");
  snprintf(key, sizeof(key), "%s ", name);
  const char *at = text;
  while (at && strncmp(at, key, strlen(key)))
    at = (at = strchr(at, '\n')) ? at + 1 : NULL;
  assert_non_null(at);
  uint64_t value = strtoull(at + strlen(key), NULL, 10);
  free(text);
  return value;
}
