/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events, completion channels, and the order and number of flushes. */
#include "statuses.h"

#include <poll.h>

static void to_state(struct end *end, enum ibv_qp_state state)
{
  struct ibv_qp_attr attr = {.qp_state = state};
  require("ibv_modify_qp", ibv_modify_qp(end->qp, &attr, IBV_QP_STATE) == 0);
}

static void post(const struct pair *pair, enum ibv_wr_opcode opcode)
{
  struct request request = request_make(pair, opcode);
  require("ibv_post_send", request_post(&pair->end[REQ], &request) == 0);
}

/* More completions than the queue has room for, nobody polling. */
static void cq_overrun(void)
{
  struct setup setup = setup_usual();
  setup.cq_depth = 4;
  setup.cap.max_send_wr = 128;
  struct pair pair;
  pair_open(&pair, &setup);
  int depth = pair.end[REQ].cq->cqe;
  for (int i = 0; i < depth + 2 && i < 120; i++)
    post(&pair, IBV_WR_RDMA_WRITE);
  char *events = events_text(&pair);
  char *completions = completions_text(&pair.end[REQ], 0);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  int then = request_post(&pair.end[REQ], &request);
  tell("event.cq-overrun", "events [%s] completions [%s] QP %s, then post %s", events,
       strchr(completions, 'W') ? completions : "SUCCESS, as many as fit",
       state_name(qp_state(pair.end[REQ].qp)), errno_name(then));
  free(events);
  free(completions);
  pair_close(&pair);
}

static void comm_est(void)
{
  struct setup setup = setup_usual();
  setup.state[RSP] = IBV_QPS_RTR;
  struct pair pair;
  pair_open(&pair, &setup);
  require("ibv_post_recv", receive_post(&pair.end[RSP], 64) == 0);
  post(&pair, IBV_WR_SEND);
  tell_outcome("event.first-message-in-RTR", &pair, 1, 1);
  pair_close(&pair);
}

static void srq_limit(void)
{
  struct setup setup = setup_usual();
  setup.srq = true;
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_srq *srq = pair.end[RSP].srq;
  struct ibv_srq_attr attr = {.srq_limit = 2};
  for (int i = 0; i < 4; i++)
    require("ibv_post_srq_recv", receive_post(&pair.end[RSP], 64) == 0);
  require("ibv_modify_srq", ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
  static const char *const names[] = {"event.srq-limit-2.has-3", "event.srq-limit-2.has-2",
                                      "event.srq-limit-2.has-1", "event.srq-limit-2.has-0"};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    post(&pair, IBV_WR_SEND);
    tell_outcome(names[i], &pair, 1, 1);
  }
  attr.srq_limit = 100;
  tell_errno("event.srq-limit-above-size", ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
  pair_close(&pair);
}

static void last_wqe(void)
{
  struct setup setup = setup_usual();
  setup.srq = true;
  struct pair pair;
  pair_open(&pair, &setup);
  require("ibv_post_srq_recv", receive_post(&pair.end[RSP], 64) == 0);
  to_state(&pair.end[RSP], IBV_QPS_ERR);
  tell_outcome("event.srq-qp-to-ERR", &pair, 0, 0);
  pair_close(&pair);
}

static void drained(void)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
  int refused = ibv_modify_qp(pair.end[REQ].qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  tell_errno("event.to-SQD-with-notify", refused);
  tell_outcome("event.to-SQD-with-notify", &pair, 0, 0);
  pair_close(&pair);
}

void family_event(void)
{
  cq_overrun();
  comm_est();
  srq_limit();
  last_wqe();
  drained();
}

/* Both queues full of waiting work, then ERR: in which order, and how many. */
static void order(const char *name, bool unsignalled)
{
  struct setup setup = setup_usual();
  setup.rnr_retry = 7;
  setup.unsignalled = unsignalled;
  struct pair pair;
  pair_open(&pair, &setup);
  struct end *req = &pair.end[REQ];
  for (uint64_t i = 0; i < 4; i++) {
    struct request request = request_make(&pair, IBV_WR_SEND); /* no receive: it waits */
    request.wr.wr_id = 100 + i;
    request.wr.send_flags = unsignalled && i < 3 ? 0 : IBV_SEND_SIGNALED;
    require("ibv_post_send", request_post(req, &request) == 0);
    struct ibv_recv_wr receive = {.wr_id = 200 + i};
    struct ibv_recv_wr *bad = NULL;
    require("ibv_post_recv", ibv_post_recv(req->qp, &receive, &bad) == 0);
  }
  to_state(req, IBV_QPS_ERR);
  char *events = events_text(&pair);
  char text[256] = "";
  size_t used = 0;
  struct ibv_wc wc;
  while (ibv_poll_cq(req->cq, 1, &wc) > 0 && used + 40 < sizeof(text))
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%llu %s", used ? ", " : "",
                             (unsigned long long)wc.wr_id, status_name(wc.status));
  tell(name, "[%s] events [%s]", text, events);
  free(events);
  pair_close(&pair);
}

/* Resets a QP that has failed, and shows that it works again. */
static void reset_and_again(void)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.wr.wr.rdma.rkey ^= 0x00a5a500;
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  tell_outcome("flush.failed", &pair, 1, 0);
  for (int which = REQ; which <= RSP; which++)
    to_state(&pair.end[which], IBV_QPS_RESET);
  for (int which = REQ; which <= RSP; which++) {
    errno = qp_bring(&pair, which, IBV_QPS_RTS);
    require("ibv_modify_qp", errno == 0);
  }
  post(&pair, IBV_WR_RDMA_WRITE);
  tell_outcome("flush.failed.reset-and-again", &pair, 1, 0);
  pair_close(&pair);
}

/* RESET with work posted and completions unread. */
static void reset_discards(void)
{
  struct setup setup = setup_usual();
  setup.rnr_retry = 7;
  struct pair pair;
  pair_open(&pair, &setup);
  post(&pair, IBV_WR_SEND);
  require("ibv_post_recv", receive_post(&pair.end[REQ], 64) == 0);
  to_state(&pair.end[REQ], IBV_QPS_RESET);
  tell_outcome("flush.to-RESET", &pair, 0, 0);
  pair_close(&pair);
}

static bool channel_event(struct end *end)
{
  struct pollfd ready = {.fd = end->channel->fd, .events = POLLIN};
  struct ibv_cq *cq;
  void *context;
  if (poll(&ready, 1, QUIET_MS) <= 0 || ibv_get_cq_event(end->channel, &cq, &context))
    return false;
  ibv_ack_cq_events(cq, 1);
  return true;
}

/* Whether the responder's channel reports a message; armed before or after it comes. */
static void notify(const char *name, bool arm, bool only_solicited, bool solicited, bool before)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  struct end *rsp = &pair.end[RSP];
  for (int i = 0; i < 2; i++)
    require("ibv_post_recv", receive_post(rsp, 64) == 0);
  struct request request = request_make(&pair, IBV_WR_SEND);
  if (solicited)
    request.wr.send_flags |= IBV_SEND_SOLICITED;
  if (arm && before)
    require("ibv_req_notify_cq", ibv_req_notify_cq(rsp->cq, only_solicited) == 0);
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  free(completions_text(&pair.end[REQ], 1));
  if (arm && !before)
    require("ibv_req_notify_cq", ibv_req_notify_cq(rsp->cq, only_solicited) == 0);
  bool first = channel_event(rsp);
  require("ibv_post_send", request_post(&pair.end[REQ], &request) == 0);
  free(completions_text(&pair.end[REQ], 1));
  tell(name, "first %s second %s", first ? "event" : "none", channel_event(rsp) ? "event" : "none");
  pair_close(&pair);
}

void family_flush(void)
{
  order("flush.order", false);
  order("flush.order-unsignalled", true);
  reset_and_again();
  reset_discards();
  notify("notify.not-armed", false, false, false, true);
  notify("notify.armed", true, false, false, true);
  notify("notify.armed-after-first", true, false, false, false);
  notify("notify.only-solicited.plain", true, true, false, true);
  notify("notify.only-solicited.solicited", true, true, true, true);
}
