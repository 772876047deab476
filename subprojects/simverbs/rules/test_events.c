/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events, the draining of a send queue, and who waits for whom. */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_communication_established(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  struct ibv_sge sge;
  pair_make(&pair, &pair_attr);
  struct end *ends[] = {&pair.a, &pair.b};
  for (int i = 0; i < 2; i++) {
    int mask = to_init(&pair, &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(&pair, ends[!i], &attr);
    modify(ends[i]->qp, &attr, mask);
  }
  int mask = to_rts(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  /* The responder answers in RTR already, and gets COMM_EST. */
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_event(pair.context, IBV_EVENT_COMM_EST);
  pair_close(&pair);
}

struct late {
  struct ibv_cq *cq;
  _Atomic bool acknowledged;
};

static void *acknowledge(void *argument)
{
  struct late *late = argument;
  late->acknowledged = true;
  ibv_ack_cq_events(late->cq, 1);
  return NULL;
}

/* An event that was given is acknowledged before what it is about can go. */
static void test_destroying_waits_for_acknowledgement(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.channel = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  struct ibv_cq *cq;
  void *context;
  assert_int_equal(ibv_get_cq_event(pair.channel, &cq, &context), 0);
  assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
  pair.b.qp = NULL;
  struct late late = {.cq = cq};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, acknowledge, &late), 0);
  assert_int_equal(ibv_destroy_cq(pair.b.cq), 0);
  assert_true(late.acknowledged);
  pthread_join(thread, NULL);
  pair.b.cq = ibv_create_cq(pair.context, 1, NULL, NULL, 0);
  pair_close(&pair);
}

enum { ROUNDS = 2000 };

static void *flood(void *argument)
{
  struct pair *pair = argument;
  struct ibv_sge sge;
  for (int i = 0; i < ROUNDS; i++) {
    struct ibv_send_wr wr = request(pair, i % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, &sge, 4096);
    /* The receive is there before the send, whose turn is next. */
    if (i % 2)
      assert_int_equal(post_recv(&pair->b, 5, 8192), 0);
    assert_int_equal(post(pair->a.qp, &wr), 0);
    expect_wc(pair->a.cq, 1, IBV_WC_SUCCESS);
    if (i % 2)
      expect_wc(pair->b.cq, 5, IBV_WC_SUCCESS);
  }
  return NULL;
}

static void *churn(void *argument)
{
  struct pair *pair = argument;
  for (int i = 0; i < ROUNDS / 10; i++) {
    struct ibv_mr *mr = ibv_reg_mr(pair->pd, pair->a.bytes, BYTES, ALL_ACCESS);
    assert_non_null(mr);
    struct ibv_qp_init_attr init = {
        .send_cq = pair->a.cq, .recv_cq = pair->b.cq, .cap = pair->attr.cap, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pair->pd, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
  }
  return NULL;
}

/* Several threads at once, each on its own queue pairs, while others come and go. */
static void test_threads(void **state)
{
  (void)state;
  enum { THREADS = 3 };
  struct pair_attr pair_attr = pair_defaults();
  struct pair pairs[THREADS];
  pthread_t threads[THREADS + 1];
  for (int i = 0; i < THREADS; i++)
    pair_open(&pairs[i], &pair_attr);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, flood, &pairs[i]), 0);
  assert_int_equal(pthread_create(&threads[THREADS], NULL, churn, &pairs[0]), 0);
  for (int i = 0; i <= THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++)
    pair_close(&pairs[i]);
}

#define ALARMS_MAX 200 /* 2 s */

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
  (void)number;
  if (++alarms == ALARMS_MAX) {
    static const char line[] = "signals, and the call has not returned\n";
    _exit(write(STDERR_FILENO, line, sizeof(line) - 1) < 0 ? 2 : 1);
  }
}

/* Both wait in read(2) of a descriptor: a handler without SA_RESTART ends it. */
static void test_signals_interrupt_a_wait(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_async_event event;
  struct ibv_cq *cq;
  void *context;
  const struct sigaction handler = {.sa_handler = on_alarm};
  const struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
  struct sigaction before;
  pair_attr.channel = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(sigaction(SIGALRM, &handler, &before), 0);
  assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
  errno = 0;
  assert_int_equal(ibv_get_cq_event(pair.channel, &cq, &context), -1);
  assert_int_equal(errno, EINTR);
  alarms = 0;
  errno = 0;
  assert_int_equal(ibv_get_async_event(pair.context, &event), -1);
  assert_int_equal(errno, EINTR);
  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
  assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
  pair_close(&pair);
}

/* A child has none of its parent's hardware, may have its own, and takes nothing with it. */
static void test_forked(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  pid_t child = fork();
  if (!child) {
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    struct ibv_context *context = devices && count ? ibv_open_device(devices[0]) : NULL;
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
    _exit(pd && !ibv_dealloc_pd(pd) && !ibv_close_device(context) ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_communication_established),
      cmocka_unit_test(test_destroying_waits_for_acknowledgement),
      cmocka_unit_test(test_signals_interrupt_a_wait),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_forked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
