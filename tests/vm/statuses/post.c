/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a call to post refuses, and which one it names. */
#include "statuses.h"

static void to_error(struct pair *pair, int which)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  require("to ERR", ibv_modify_qp(pair->end[which].qp, &attr, IBV_QP_STATE) == 0);
}

static void in_state(enum ibv_qp_state state)
{
  struct setup setup = setup_usual();
  bool error = state == IBV_QPS_ERR;
  setup.state[REQ] = error ? IBV_QPS_RTS : state;
  struct pair pair;
  pair_open(&pair, &setup);
  if (error)
    to_error(&pair, REQ);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  int send = request_post(&pair.end[REQ], &request);
  int receive = receive_post(&pair.end[REQ], 64);
  char name[64];
  snprintf(name, sizeof(name), "post.in-%s", state_name(state));
  tell(name, "send %s receive %s", errno_name(send), errno_name(receive));
  tell_outcome(name, &pair, error ? 2 : 0, 0);
  pair_close(&pair);
}

static unsigned int send_until_refused(struct pair *pair, int *refused)
{
  struct request request = request_make(pair, IBV_WR_SEND);
  unsigned int posted = 0;
  while (posted < 10000 && !(*refused = request_post(&pair->end[REQ], &request)))
    posted++;
  return posted;
}

/* Sends that wait for a receive fill the queue; queried and asked sizes stand beside. */
static void send_queue_full(void)
{
  struct setup setup = setup_usual();
  setup.rnr_retry = 7;
  setup.cap.max_send_wr = 5;
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  require("ibv_query_qp", ibv_query_qp(pair.end[REQ].qp, &attr, IBV_QP_CAP, &init) == 0);
  int refused = 0;
  unsigned int posted = send_until_refused(&pair, &refused);
  tell("post.send-queue-full", "asked 5, has %u, took %u, then %s", init.cap.max_send_wr, posted,
       errno_name(refused));
  to_error(&pair, REQ);
  char *text = completions_text(&pair.end[REQ], posted);
  tell("post.send-queue-full.flushed", "all of them %s",
       strstr(text, "WR_FLUSH_ERR") ? "yes" : text);
  free(text);
  struct request request = request_make(&pair, IBV_WR_SEND);
  tell("post.send-queue-full.after-flush", "post %s",
       errno_name(request_post(&pair.end[REQ], &request)));
  pair_close(&pair);
}

/* Requests without completions, all done long ago: is their room free again? */
static void unsignalled_fill(void)
{
  struct setup setup = setup_usual();
  setup.unsignalled = true;
  setup.cap.max_send_wr = 4;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.wr.send_flags = 0;
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  require("ibv_query_qp", ibv_query_qp(pair.end[REQ].qp, &attr, IBV_QP_CAP, &init) == 0);
  int refused = 0;
  /* Each is waited for at its target, so that the queue is empty but for its accounting. */
  for (unsigned int i = 0; i < 4 * init.cap.max_send_wr && !refused; i++) {
    volatile char *landed = pair.end[RSP].memory;
    pair.end[REQ].memory[0] = (char)(i + 10);
    refused = request_post(&pair.end[REQ], &request);
    for (long tries = 0; !refused && *landed != (char)(i + 10) && tries < 1000000000; tries++)
      continue;
  }
  tell("post.unsignalled-never-polled", "%s",
       refused ? errno_name(refused) : "room comes back without a completion");
  pair_close(&pair);
}

static void receive_queue_full(bool srq)
{
  struct setup setup = setup_usual();
  setup.srq = srq;
  setup.cap.max_recv_wr = 5;
  struct pair pair;
  pair_open(&pair, &setup);
  unsigned int posted = 0;
  int refused = 0;
  while (posted < 10000 && !(refused = receive_post(&pair.end[RSP], 64)))
    posted++;
  unsigned int has = 0;
  if (srq) {
    struct ibv_srq_attr attr;
    require("ibv_query_srq", ibv_query_srq(pair.end[RSP].srq, &attr) == 0);
    has = attr.max_wr;
  } else {
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    require("ibv_query_qp", ibv_query_qp(pair.end[RSP].qp, &attr, IBV_QP_CAP, &init) == 0);
    has = init.cap.max_recv_wr;
  }
  tell(srq ? "post.srq-full" : "post.receive-queue-full", "asked %u, has %u, took %u, then %s",
       srq ? 16 : setup.cap.max_recv_wr, has, posted, errno_name(refused));
  pair_close(&pair);
}

static void too_many_pieces(void)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  require("ibv_query_qp", ibv_query_qp(pair.end[REQ].qp, &attr, IBV_QP_CAP, &init) == 0);
  struct ibv_sge pieces[300];
  for (size_t i = 0; i < COUNT_OF(pieces); i++)
    pieces[i] = (struct ibv_sge){(uintptr_t)pair.end[REQ].memory, 1, pair.end[REQ].mr->lkey};
  struct ibv_send_wr *bad_send = NULL;
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.wr.sg_list = pieces;
  request.wr.num_sge = (int)init.cap.max_send_sge + 1;
  int send = ibv_post_send(pair.end[REQ].qp, &request.wr, &bad_send);
  struct ibv_recv_wr *bad_receive = NULL;
  struct ibv_recv_wr receive = {.sg_list = pieces, .num_sge = (int)init.cap.max_recv_sge + 1};
  int received = ibv_post_recv(pair.end[REQ].qp, &receive, &bad_receive);
  tell("post.too-many-pieces", "send %s bad_wr %s receive %s bad_wr %s", errno_name(send),
       bad_send == &request.wr ? "it" : "none", errno_name(received),
       bad_receive == &receive ? "it" : "none");
  pair_close(&pair);
}

static void inline_too_large(void)
{
  struct setup setup = setup_usual();
  setup.cap.max_inline_data = 64;
  struct pair pair;
  pair_open(&pair, &setup);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  require("ibv_query_qp", ibv_query_qp(pair.end[REQ].qp, &attr, IBV_QP_CAP, &init) == 0);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.wr.send_flags |= IBV_SEND_INLINE;
  request.sge.length = init.cap.max_inline_data;
  int fits = request_post(&pair.end[REQ], &request);
  request.sge.length++;
  int refused = request_post(&pair.end[REQ], &request);
  request = request_make(&pair, IBV_WR_RDMA_READ);
  request.wr.send_flags |= IBV_SEND_INLINE;
  int read = request_post(&pair.end[REQ], &request);
  tell("post.inline", "asked 64, has at least that: %s; largest %s, one more %s, READ inline %s",
       init.cap.max_inline_data >= 64 ? "yes" : "no", errno_name(fits), errno_name(refused),
       errno_name(read));
  tell_outcome("post.inline", &pair, 1 + !read, 0);
  pair_close(&pair);
}

/* The third of four in one chain is wrong: which is named, and do the first two go? */
static void chain(void)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  struct request requests[4];
  for (int i = 0; i < 4; i++) {
    requests[i] = request_make(&pair, IBV_WR_RDMA_WRITE);
    requests[i].wr.sg_list = &requests[i].sge;
    requests[i].wr.next = i < 3 ? &requests[i + 1].wr : NULL;
  }
  /* As many as it says: a library may read them before it counts. */
  static struct ibv_sge pieces[1000];
  requests[2].wr.sg_list = pieces;
  requests[2].wr.num_sge = COUNT_OF(pieces);
  struct ibv_send_wr *bad = NULL;
  int refused = ibv_post_send(pair.end[REQ].qp, &requests[0].wr, &bad);
  long which = -1;
  for (int i = 0; i < 4; i++)
    which = bad == &requests[i].wr ? i : which;
  tell("post.third-of-four-wrong", "%s bad_wr %ld", errno_name(refused), which);
  tell_outcome("post.third-of-four-wrong", &pair, 2, 0);
  pair_close(&pair);
}

static void opcode(const char *name, enum ibv_qp_type type, int code)
{
  struct setup setup = setup_usual();
  setup.type = type;
  struct pair pair;
  pair_open(&pair, &setup);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.wr.opcode = (enum ibv_wr_opcode)code;
  int refused = request_post(&pair.end[REQ], &request);
  tell(name, "post %s", errno_name(refused));
  if (!refused)
    tell_outcome(name, &pair, 1, 0);
  pair_close(&pair);
}

/* One byte more than the port's longest message. */
static void too_long(void)
{
  struct setup setup = setup_usual();
  struct pair pair;
  pair_open(&pair, &setup);
  size_t length = (size_t)device.port.max_msg_sz + 1;
  if (length > 64 << 20) {
    tell("post.longer-than-max_msg_sz", "not tried: max_msg_sz is above 64 MiB");
    pair_close(&pair);
    return;
  }
  char *memory = calloc(1, length);
  require("calloc", memory != NULL);
  struct ibv_mr *from = ibv_reg_mr(pair.end[REQ].pd, memory, length, IBV_ACCESS_LOCAL_WRITE);
  struct ibv_mr *to = ibv_reg_mr(pair.end[RSP].pd, memory, length, setup.mr_access[RSP]);
  require("ibv_reg_mr", from && to);
  struct request request = request_make(&pair, IBV_WR_RDMA_WRITE);
  request.sge = (struct ibv_sge){(uintptr_t)memory, (uint32_t)length, from->lkey};
  request.wr.wr.rdma.remote_addr = (uintptr_t)memory;
  request.wr.wr.rdma.rkey = to->rkey;
  int refused = request_post(&pair.end[REQ], &request);
  tell("post.longer-than-max_msg_sz", "post %s", errno_name(refused));
  if (!refused)
    tell_outcome("post.longer-than-max_msg_sz", &pair, 1, 0);
  require("ibv_dereg_mr", ibv_dereg_mr(from) == 0 && ibv_dereg_mr(to) == 0);
  free(memory);
  pair_close(&pair);
}

void family_post(void)
{
  in_state(IBV_QPS_RESET);
  in_state(IBV_QPS_INIT);
  in_state(IBV_QPS_RTR);
  in_state(IBV_QPS_ERR);
  send_queue_full();
  unsignalled_fill();
  receive_queue_full(false);
  receive_queue_full(true);
  too_many_pieces();
  inline_too_large();
  chain();
  opcode("post.opcode-77", IBV_QPT_RC, 77);
  opcode("post.read-on-uc", IBV_QPT_UC, IBV_WR_RDMA_READ);
  opcode("post.fetch-add-on-uc", IBV_QPT_UC, IBV_WR_ATOMIC_FETCH_AND_ADD);
  too_long();
}
