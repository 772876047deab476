/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_cm: what it promises, and what becomes of it when ports, paths and peers fail. On
 * paths.yaml, with a fast clock. */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000, RESOLVE_MS = 2000 };
enum { DATA_REQ = 56, DATA_REP = 196, DATA_REJ = 148 };
enum { REJ_TIMEOUT = 4, REJ_SERVICE = 8, REJ_CONSUMER = 28 };

#define WEST0 "10.1.0.1"
#define WEST1 "10.1.0.2"
#define EAST0 "10.2.0.1"
#define NOBODY "10.1.0.77"

/* Both ends are of this process, each with a channel of its own. */
struct both {
  struct rdma_event_channel *asks, *listens;
  struct rdma_cm_id *listener, *active, *passive;
};

static struct sockaddr *address(const char *text, uint16_t port)
{
  static struct sockaddr_in made[2];
  static unsigned next;
  struct sockaddr_in *to = &made[next++ % 2];
  *to = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
  assert_int_equal(inet_pton(AF_INET, text, &to->sin_addr), 1);
  return (struct sockaddr *)to;
}

/* The next event, which is to be of that type; ack it. */
static struct rdma_cm_event *take(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
  struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
  struct rdma_cm_event *event;
  assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
  assert_int_equal(rdma_get_cm_event(channel, &event), 0);
  assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
  return event;
}

/* Takes and acknowledges an event of that type; returns its status. */
static int expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
  struct rdma_cm_event *event = take(channel, type);
  const int status = event->status;
  assert_int_equal(rdma_ack_cm_event(event), 0);
  return status;
}

static bool is_quiet(struct rdma_event_channel *channel)
{
  struct pollfd wait = {.fd = channel->fd, .events = POLLIN};
  return poll(&wait, 1, 0) == 0;
}

static void create_qp(struct rdma_cm_id *id)
{
  struct ibv_qp_init_attr attr = {
      .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC,
      .sq_sig_all = 1,
  };
  assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static uint16_t listen_at(struct both *both, const char *at)
{
  both->listens = rdma_create_event_channel();
  both->asks = rdma_create_event_channel();
  assert_non_null(both->listens);
  assert_non_null(both->asks);
  assert_int_equal(rdma_create_id(both->listens, &both->listener, both, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_bind_addr(both->listener, address(at, 0)), 0);
  assert_int_equal(rdma_listen(both->listener, 4), 0);
  return ntohs(rdma_get_src_port(both->listener));
}

static void resolve(struct both *both, const char *from, const char *to, uint16_t port)
{
  assert_int_equal(rdma_create_id(both->asks, &both->active, both, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_resolve_addr(both->active, from ? address(from, 0) : NULL,
                                     address(to, port), RESOLVE_MS),
                   0);
  assert_int_equal(expect(both->asks, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
  assert_int_equal(rdma_resolve_route(both->active, RESOLVE_MS), 0);
  assert_int_equal(expect(both->asks, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
}

static void ask(struct both *both)
{
  struct rdma_conn_param param = {.private_data = "may I?",
                                  .private_data_len = 7,
                                  .responder_resources = 3,
                                  .initiator_depth = 5,
                                  .retry_count = 6,
                                  .rnr_retry_count = 4};
  create_qp(both->active);
  assert_int_equal(rdma_connect(both->active, &param), 0);
}

static void be_asked(struct both *both)
{
  struct rdma_cm_event *event = take(both->listens, RDMA_CM_EVENT_CONNECT_REQUEST);
  both->passive = event->id;
  assert_ptr_equal(event->listen_id, both->listener);
  assert_ptr_equal(event->id->context, both);
  assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void connect_both(struct both *both, const char *from, const char *to)
{
  struct rdma_conn_param param = {.responder_resources = 5, .initiator_depth = 3};
  resolve(both, from, to, listen_at(both, to));
  ask(both);
  be_asked(both);
  create_qp(both->passive);
  assert_int_equal(rdma_accept(both->passive, &param), 0);
  assert_int_equal(expect(both->asks, RDMA_CM_EVENT_ESTABLISHED), 0);
  assert_int_equal(expect(both->listens, RDMA_CM_EVENT_ESTABLISHED), 0);
}

static void drop(struct rdma_cm_id **id)
{
  if (!*id)
    return;
  if ((*id)->qp)
    rdma_destroy_qp(*id);
  assert_int_equal(rdma_destroy_id(*id), 0);
  *id = NULL;
}

static void close_both(struct both *both)
{
  drop(&both->active);
  drop(&both->passive);
  drop(&both->listener);
  rdma_destroy_event_channel(both->asks);
  rdma_destroy_event_channel(both->listens);
}

static void move_bytes(const struct both *both)
{
  static char sent[64] = "over what rdma_cm has connected", received[64];
  struct ibv_wc wc;
  memset(received, 0, sizeof(received));
  struct ibv_mr *to = rdma_reg_msgs(both->passive, received, sizeof(received));
  struct ibv_mr *from = rdma_reg_msgs(both->active, sent, sizeof(sent));
  assert_non_null(to);
  assert_non_null(from);
  assert_int_equal(rdma_post_recv(both->passive, NULL, received, sizeof(received), to), 0);
  assert_int_equal(rdma_post_send(both->active, NULL, sent, sizeof(sent), from, 0), 0);
  assert_int_equal(rdma_get_send_comp(both->active, &wc), 1);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_int_equal(rdma_get_recv_comp(both->passive, &wc), 1);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_string_equal(sent, received);
  rdma_dereg_mr(to);
  rdma_dereg_mr(from);
}

/* ---- connections that stand ---- */

static void connects_and_ends(void **state)
{
  (void)state;
  struct both both = {NULL};
  connect_both(&both, WEST0, WEST1);
  assert_string_equal(ibv_get_device_name(both.active->verbs->device), "west0");
  assert_string_equal(ibv_get_device_name(both.passive->verbs->device), "west1");
  assert_int_equal(rdma_get_dst_port(both.active), rdma_get_src_port(both.listener));
  assert_int_equal(rdma_get_dst_port(both.passive), rdma_get_src_port(both.active));
  move_bytes(&both);
  assert_int_equal(rdma_disconnect(both.active), 0);
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_DISCONNECTED), 0);
  /* The end that asked for it waits for the other's. */
  assert_true(is_quiet(both.asks));
  assert_int_equal(rdma_disconnect(both.passive), 0);
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_DISCONNECTED), 0);
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
  close_both(&both);
}

static void crosses_a_router(void **state)
{
  (void)state;
  struct both both = {NULL};
  connect_both(&both, NULL, EAST0);
  close_both(&both);
}

/* Private data is padded to the message's field; depths are the other end's, turned round. */
static void reports_what_the_peer_says(void **state)
{
  (void)state;
  struct both both = {NULL};
  static const char none[DATA_REJ];
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  ask(&both);
  struct rdma_cm_event *event = take(both.listens, RDMA_CM_EVENT_CONNECT_REQUEST);
  const struct rdma_conn_param *conn = &event->param.conn;
  both.passive = event->id;
  assert_int_equal(conn->private_data_len, DATA_REQ);
  assert_string_equal(conn->private_data, "may I?");
  assert_memory_equal((const char *)conn->private_data + 7, none, DATA_REQ - 7);
  assert_int_equal(conn->responder_resources, 5);
  assert_int_equal(conn->initiator_depth, 3);
  assert_int_equal(conn->retry_count, 6);
  assert_int_equal(conn->rnr_retry_count, 4);
  assert_int_equal(conn->qp_num, both.active->qp->qp_num);
  rdma_ack_cm_event(event);
  assert_int_equal(rdma_reject(both.passive, "no", 3), 0);
  event = take(both.asks, RDMA_CM_EVENT_REJECTED);
  assert_int_equal(event->status, REJ_CONSUMER);
  assert_int_equal(event->param.conn.private_data_len, DATA_REJ);
  assert_string_equal(event->param.conn.private_data, "no");
  rdma_ack_cm_event(event);
  close_both(&both);
}

/* Without a queue pair of the id's the program leads its own there, and says when it has. */
static void leads_other_queue_pairs(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_conn_param param = {.qp_num = 77, .private_data = "yes", .private_data_len = 4};
  struct ibv_qp_attr ours = {.qp_state = IBV_QPS_RTR}, theirs = {.qp_state = IBV_QPS_RTS};
  int mask;
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  assert_int_equal(rdma_init_qp_attr(both.active, &ours, &mask), -1); /* the peer is not known */
  assert_int_equal(rdma_connect(both.active, &param), 0);
  be_asked(&both);
  assert_int_equal(rdma_init_qp_attr(both.passive, &theirs, &mask), 0);
  assert_int_equal(rdma_accept(both.passive, &param), 0);
  struct rdma_cm_event *event = take(both.asks, RDMA_CM_EVENT_CONNECT_RESPONSE);
  assert_int_equal(event->param.conn.private_data_len, DATA_REP);
  assert_string_equal(event->param.conn.private_data, "yes");
  rdma_ack_cm_event(event);
  ours.qp_state = IBV_QPS_RTR;
  assert_int_equal(rdma_init_qp_attr(both.active, &ours, &mask), 0);
  assert_int_equal(ours.dest_qp_num, 77);
  assert_int_equal(ours.rq_psn, theirs.sq_psn);
  assert_int_equal(ours.ah_attr.grh.sgid_index, 3);
  assert_true(is_quiet(both.listens));
  assert_int_equal(rdma_establish(both.active), 0);
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_ESTABLISHED), 0);
  close_both(&both);
}

/* ---- what is refused ---- */

static void refuses_too_much_private_data(void **state)
{
  (void)state;
  struct both both = {NULL};
  static const char data[DATA_REQ + 1];
  struct rdma_conn_param param = {.private_data = data, .private_data_len = DATA_REQ + 1};
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  create_qp(both.active);
  assert_int_equal(rdma_connect(both.active, &param), -1);
  assert_int_equal(errno, EINVAL);
  param.private_data_len--;
  param.initiator_depth = 17; /* the device has 16 */
  assert_int_equal(rdma_connect(both.active, &param), -1);
  assert_int_equal(errno, EINVAL);
  param.initiator_depth = 16;
  assert_int_equal(rdma_connect(both.active, &param), 0);
  be_asked(&both);
  close_both(&both);
}

static void names_what_is_not_simulated(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_cm_id *id;
  struct rdma_addrinfo info = {.ai_qp_type = IBV_QPT_XRC_SEND, .ai_port_space = RDMA_PS_TCP};
  listen_at(&both, WEST1);
  assert_int_equal(rdma_create_id(both.asks, &id, NULL, RDMA_PS_UDP), -1);
  assert_int_equal(errno, EOPNOTSUPP);
  assert_int_equal(rdma_create_id(both.asks, &id, NULL, RDMA_PS_IPOIB), -1);
  assert_int_equal(errno, EOPNOTSUPP);
  assert_int_equal(rdma_create_ep(&id, &info, NULL, NULL), -1);
  assert_int_equal(errno, EOPNOTSUPP);
  assert_int_equal(rdma_join_multicast(both.listener, address("224.0.0.1", 0), NULL), -1);
  assert_int_equal(errno, EOPNOTSUPP);
  close_both(&both);
}

static int bind_once(struct both *both, const char *at, uint16_t port)
{
  struct rdma_cm_id *id;
  assert_int_equal(rdma_create_id(both->asks, &id, NULL, RDMA_PS_TCP), 0);
  int error = rdma_bind_addr(id, address(at, port)) ? errno : 0;
  rdma_destroy_id(id);
  return error;
}

static void holds_its_port(void **state)
{
  (void)state;
  struct both both = {NULL};
  uint16_t port = listen_at(&both, WEST1);
  assert_int_equal(bind_once(&both, WEST1, port), EADDRINUSE);
  assert_int_equal(bind_once(&both, "0.0.0.0", port), EADDRINUSE);
  assert_int_equal(bind_once(&both, WEST0, port), 0);
  assert_int_equal(bind_once(&both, "10.9.9.9", 0), EADDRNOTAVAIL);
  drop(&both.listener);
  assert_int_equal(bind_once(&both, WEST1, port), 0);
  close_both(&both);
}

static void reports_that_nobody_listens(void **state)
{
  (void)state;
  struct both both = {NULL};
  uint16_t port = listen_at(&both, WEST1);
  drop(&both.listener);
  resolve(&both, WEST0, WEST1, port);
  ask(&both);
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_REJECTED), REJ_SERVICE);
  close_both(&both);
}

/* Requests that the program has not taken are refused when the listener goes; a request beyond the
 * backlog is refused at once. */
static void refuses_what_waits(void **state)
{
  (void)state;
  enum { BACKLOG = 2 };
  struct both both = {NULL};
  struct rdma_cm_id *waiting[BACKLOG + 1];
  uint16_t port = listen_at(&both, WEST1);
  drop(&both.listener);
  assert_int_equal(rdma_create_id(both.listens, &both.listener, &both, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_bind_addr(both.listener, address(WEST1, port)), 0);
  assert_int_equal(rdma_listen(both.listener, BACKLOG), 0);
  for (unsigned i = 0; i <= BACKLOG; i++) {
    resolve(&both, WEST0, WEST1, port);
    waiting[i] = both.active;
    ask(&both);
  }
  struct rdma_cm_event *event = take(both.asks, RDMA_CM_EVENT_REJECTED);
  assert_ptr_equal(event->id, waiting[BACKLOG]);
  assert_int_equal(event->status, REJ_CONSUMER);
  rdma_ack_cm_event(event);
  assert_true(is_quiet(both.asks));
  drop(&both.listener);
  for (unsigned i = 0; i < BACKLOG; i++)
    assert_int_equal(expect(both.asks, RDMA_CM_EVENT_REJECTED), REJ_CONSUMER);
  both.active = NULL;
  for (unsigned i = 0; i <= BACKLOG; i++)
    drop(&waiting[i]);
  close_both(&both);
}

/* ---- what fails ---- */

static void reports_that_nobody_answers(void **state)
{
  (void)state;
  struct both both = {NULL};
  listen_at(&both, WEST1);
  assert_int_equal(rdma_create_id(both.asks, &both.active, NULL, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_resolve_addr(both.active, NULL, address(NOBODY, 1), RESOLVE_MS), 0);
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_ADDR_ERROR), -ETIMEDOUT);
  rig_ctl("port-down h/west0");
  drop(&both.active);
  assert_int_equal(rdma_create_id(both.asks, &both.active, NULL, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_resolve_addr(both.active, address(WEST0, 0), address(WEST1, 1), RESOLVE_MS),
                   -1);
  assert_int_equal(errno, ENETUNREACH);
  rig_ctl("port-up h/west0");
  close_both(&both);
}

/* A neighbour that is there in time. */
static void waits_for_a_neighbour(void **state)
{
  (void)state;
  struct both both = {NULL};
  listen_at(&both, WEST1);
  rig_ctl("port-down h/west1");
  assert_int_equal(rdma_create_id(both.asks, &both.active, NULL, RDMA_PS_TCP), 0);
  assert_int_equal(rdma_resolve_addr(both.active, address(WEST0, 0), address(WEST1, 1), 1000000),
                   0);
  assert_true(is_quiet(both.asks));
  rig_ctl("port-up h/west1");
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
  close_both(&both);
}

static void repeats_a_request_until_it_gives_up(void **state)
{
  (void)state;
  struct both both = {NULL};
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  rig_ctl("lose-peer h/west1");
  ask(&both);
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
  rig_ctl("restore-peer h/west1");
  assert_true(is_quiet(both.listens));
  close_both(&both);
}

static void repeats_a_request_until_it_arrives(void **state)
{
  (void)state;
  struct both both = {NULL};
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  rig_ctl("lose-peer h/west1");
  ask(&both);
  rig_ctl("restore-peer h/west1");
  be_asked(&both);
  close_both(&both);
}

static void hears_of_an_end_once_there_is_a_path(void **state)
{
  (void)state;
  struct both both = {NULL};
  connect_both(&both, WEST0, WEST1);
  rig_ctl("port-down h/west1");
  drop(&both.passive);
  assert_true(is_quiet(both.asks));
  rig_ctl("port-up h/west1");
  assert_int_equal(expect(both.asks, RDMA_CM_EVENT_DISCONNECTED), 0);
  close_both(&both);
}

static void gives_a_request_up(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_conn_param param = {.responder_resources = 1};
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  ask(&both);
  be_asked(&both);
  create_qp(both.passive);
  assert_int_equal(rdma_accept(both.passive, &param), 0);
  drop(&both.active); /* and its event with it */
  assert_true(is_quiet(both.asks));
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_REJECTED), REJ_TIMEOUT);
  close_both(&both);
}

/* A process of its own; the kernel ends what it leaves. */
static pid_t fork_asker(uint16_t port)
{
  pid_t child = fork();
  if (child)
    return child;
  struct both both = {.asks = rdma_create_event_channel()};
  resolve(&both, WEST0, WEST1, port);
  ask(&both);
  expect(both.asks, RDMA_CM_EVENT_ESTABLISHED);
  pause();
  _exit(0);
}

static void hears_of_a_killed_peer(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_conn_param param = {.responder_resources = 1};
  pid_t child = fork_asker(listen_at(&both, WEST1)), other;
  be_asked(&both);
  create_qp(both.passive);
  assert_int_equal(rdma_accept(both.passive, &param), 0);
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_ESTABLISHED), 0);
  /* A child of this end's keeps nothing of it alive. */
  other = fork();
  if (!other) {
    pause();
    _exit(0);
  }
  assert_true(is_quiet(both.listens));
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_int_equal(expect(both.listens, RDMA_CM_EVENT_DISCONNECTED), 0);
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);
  close_both(&both);
}

/* ---- events and channels ---- */

static void *destroy_listener(void *argument)
{
  struct both *both = argument;
  rdma_destroy_id(both->listener);
  return NULL;
}

static void waits_for_acknowledgements(void **state)
{
  (void)state;
  struct both both = {NULL};
  pthread_t thread;
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  ask(&both);
  struct rdma_cm_event *event = take(both.listens, RDMA_CM_EVENT_CONNECT_REQUEST);
  both.passive = event->id;
  assert_int_equal(pthread_create(&thread, NULL, destroy_listener, &both), 0);
  assert_int_not_equal(pthread_tryjoin_np(thread, NULL), 0);
  rdma_ack_cm_event(event);
  assert_int_equal(pthread_join(thread, NULL), 0);
  both.listener = NULL;
  close_both(&both);
}

static void moves_to_another_channel(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_event_channel *other = rdma_create_event_channel();
  resolve(&both, WEST0, WEST1, listen_at(&both, WEST1));
  ask(&both);
  be_asked(&both);
  assert_int_equal(rdma_reject(both.passive, NULL, 0), 0);
  struct pollfd wait = {.fd = both.asks->fd, .events = POLLIN};
  assert_int_equal(poll(&wait, 1, PATIENCE_MS), 1);
  assert_int_equal(rdma_migrate_id(both.active, other), 0);
  assert_true(is_quiet(both.asks));
  assert_int_equal(expect(other, RDMA_CM_EVENT_REJECTED), REJ_CONSUMER);
  close_both(&both);
  rdma_destroy_event_channel(other);
}

static void does_not_block_where_it_must_not(void **state)
{
  (void)state;
  struct both both = {NULL};
  struct rdma_cm_event *event;
  listen_at(&both, WEST1);
  assert_int_equal(fcntl(both.listens->fd, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(rdma_get_cm_event(both.listens, &event), -1);
  assert_int_equal(errno, EAGAIN);
  close_both(&both);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(connects_and_ends),
      cmocka_unit_test(crosses_a_router),
      cmocka_unit_test(reports_what_the_peer_says),
      cmocka_unit_test(leads_other_queue_pairs),
      cmocka_unit_test(refuses_too_much_private_data),
      cmocka_unit_test(names_what_is_not_simulated),
      cmocka_unit_test(holds_its_port),
      cmocka_unit_test(reports_that_nobody_listens),
      cmocka_unit_test(refuses_what_waits),
      cmocka_unit_test(reports_that_nobody_answers),
      cmocka_unit_test(waits_for_a_neighbour),
      cmocka_unit_test(repeats_a_request_until_it_gives_up),
      cmocka_unit_test(repeats_a_request_until_it_arrives),
      cmocka_unit_test(hears_of_an_end_once_there_is_a_path),
      cmocka_unit_test(gives_a_request_up),
      cmocka_unit_test(hears_of_a_killed_peer),
      cmocka_unit_test(waits_for_acknowledgements),
      cmocka_unit_test(moves_to_another_channel),
      cmocka_unit_test(does_not_block_where_it_must_not),
  };
  return cmocka_run_group_tests_name("rdma_cm", tests, NULL, NULL);
}
