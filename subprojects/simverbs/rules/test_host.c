/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of a host that are not as the first one is: host.yaml. */
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>

#include "support.h"

static struct ibv_context *open_named(const char *name)
{
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = NULL;
  bool found = false;
  assert_non_null(devices);
  for (int i = 0; devices[i] && !found; i++) {
    found = !strcmp(ibv_get_device_name(devices[i]), name);
    if (found)
      context = ibv_open_device(devices[i]);
  }
  assert_true(found);
  const int code = errno;
  ibv_free_device_list(devices);
  errno = code;
  return context;
}

/* Each index is of the namespace that has the netdev: of the second entry it is lo's here. */
static void test_gids_of_other_namespaces_are_there(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("pod0");
  struct ibv_gid_entry entries[8];
  assert_non_null(context);
  assert_int_equal(ibv_query_gid_table(context, entries, 8, 0), 3);
  assert_int_equal(entries[0].ndev_ifindex, 4);
  assert_int_equal(entries[1].ndev_ifindex, 1);
  assert_int_equal(entries[1].gid.raw[12], 192);
  assert_int_equal(entries[2].ndev_ifindex, if_nametoindex("lo"));
  assert_int_equal(ibv_close_device(context), 0);
}

static void test_completion_queues_that_stay_as_they_are(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("fixed0");
  assert_non_null(context);
  struct ibv_cq *cq = ibv_create_cq(context, 100, NULL, NULL, 0);
  assert_non_null(cq);
  const int had = cq->cqe;
  assert_int_equal(ibv_resize_cq(cq, had), EOPNOTSUPP);
  assert_int_equal(ibv_resize_cq(cq, 2 * had), EOPNOTSUPP);
  assert_int_equal(cq->cqe, had);
  assert_int_equal(ibv_destroy_cq(cq), 0);
  assert_int_equal(ibv_close_device(context), 0);
}

static uint64_t now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Five of them: made, changed, destroyed; registered, and no more. */
static void test_commands_of_the_firmware_take_their_time(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("slow0");
  char bytes[64];
  assert_non_null(context);
  struct ibv_pd *pd = ibv_alloc_pd(context);
  struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
  struct ibv_qp_init_attr init = {.send_cq = cq,
                                  .recv_cq = cq,
                                  .qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = 1, .max_send_sge = 1}};
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  const uint64_t from = now_ns();
  struct ibv_qp *qp = ibv_create_qp(pd, &init);
  struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), 0);
  const uint64_t made = now_ns();
  assert_non_null(qp);
  assert_non_null(mr);
  assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  assert_int_equal(ibv_destroy_qp(qp), 0);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  assert_true(made - from >= 2 * UINT64_C(5000000));
  assert_true(now_ns() - made >= 3 * UINT64_C(5000000));
  assert_int_equal(ibv_destroy_cq(cq), 0);
  assert_int_equal(ibv_dealloc_pd(pd), 0);
  assert_int_equal(ibv_close_device(context), 0);
}

/* soft-RoCE has another provider than mlx5, though mlx5's library is there. */
static void test_soft_roce_is_not_mlx5s(void **state)
{
  (void)state;
  struct ibv_context *soft = open_named("soft0"), *mlx5 = open_named("fixed0");
  assert_non_null(soft);
  assert_non_null(mlx5);
  assert_false(mlx5dv_is_supported(soft->device));
  assert_true(mlx5dv_is_supported(mlx5->device));
  assert_int_equal(ibv_close_device(mlx5), 0);
  assert_int_equal(ibv_close_device(soft), 0);
}

static void test_a_port_that_no_subnet_manager_has_seen(void **state)
{
  (void)state;
  struct ibv_context *context = open_named("ib0");
  struct ibv_port_attr port;
  assert_non_null(context);
  assert_int_equal(ibv_query_port(context, 1, &port), 0);
  assert_int_equal(port.lid, 0);
  assert_int_equal(port.state, IBV_PORT_INIT);
  assert_int_equal(ibv_close_device(context), 0);
}

static void test_a_device_that_may_not_be_opened(void **state)
{
  (void)state;
  errno = 0;
  assert_null(open_named("closed0"));
  assert_int_equal(errno, EACCES);
}

/* A queue pair by the declared operations; NULL: errno. */
static struct ibv_qp *create_rc(struct ibv_context *context, struct ibv_cq **cq, struct ibv_pd **pd)
{
  *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
  *pd = ibv_alloc_pd(context);
  assert_non_null(*cq);
  assert_non_null(*pd);
  struct ibv_qp_init_attr init = {.send_cq = *cq,
                                  .recv_cq = *cq,
                                  .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1},
                                  .qp_type = IBV_QPT_RC};
  errno = 0;
  return ibv_create_qp(*pd, &init);
}

static void test_transports_without_all_of_rc(void **state)
{
  (void)state;
  struct ibv_context *iwarp = open_named("iwarp0"), *efa = open_named("efa0");
  struct ibv_cq *cqs[2];
  struct ibv_pd *pds[2];
  struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM}, *bad = NULL;
  assert_non_null(iwarp);
  assert_non_null(efa);
  assert_int_equal(iwarp->device->transport_type, IBV_TRANSPORT_IWARP);
  assert_int_equal(iwarp->device->node_type, IBV_NODE_RNIC);
  assert_int_equal(efa->device->transport_type, IBV_TRANSPORT_UNSPECIFIED);
  assert_null(create_rc(efa, &cqs[0], &pds[0]));
  assert_int_equal(errno, EOPNOTSUPP);
  struct ibv_qp *qp = create_rc(iwarp, &cqs[1], &pds[1]);
  assert_non_null(qp);
  assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
  assert_ptr_equal(bad, &wr);
  assert_int_equal(ibv_destroy_qp(qp), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
    assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
  }
  assert_int_equal(ibv_close_device(iwarp), 0);
  assert_int_equal(ibv_close_device(efa), 0);
}

/* The fabric's clock is a manual one. */
static void advance(const char *time)
{
  char command[512];
  assert_non_null(getenv("SIMVERBS"));
  snprintf(command, sizeof(command), "%s ctl . advance %s", getenv("SIMVERBS"), time);
  assert_int_equal(system(command), 0);
}

/* A WRITE to another region may be placed before an earlier WRITE that is already acknowledged. A
 * completion at the responder comes after all WRITEs, a READ after those to its region. */
static void test_writes_are_placed_after_they_are_acknowledged(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.device = "late0";
  for (int how = 0; how < 4; how++) {
    pair_open(&pair, &pair_attr);
    struct ibv_mr *other = ibv_reg_mr(pair.pd, pair.b.bytes + BYTES / 2, BYTES / 2, ALL_ACCESS);
    assert_non_null(other);
    memset(pair.a.bytes, 9, 100);
    struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 100);
    assert_int_equal(post(pair.a.qp, &wr), 0);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.bytes[99], 0);
    wr.wr.rdma.remote_addr += BYTES / 2;
    wr.wr.rdma.rkey = other->rkey;
    assert_int_equal(post(pair.a.qp, &wr), 0);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.bytes[BYTES / 2 + 99], 9);
    assert_int_equal(pair.b.bytes[99], 0);
    if (how == 0) { /* a completion */
      assert_int_equal(post_recv(&pair.b, 5, 100), 0);
      wr = request(&pair, IBV_WR_SEND, &sge, 0);
      wr.num_sge = 0;
    } else if (how == 1) { /* a READ of that region */
      wr = request(&pair, IBV_WR_RDMA_READ, &sge, 1);
    } else if (how == 2) { /* a WRITE into it comes behind */
      wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 50);
    }
    if (how < 3) {
      assert_int_equal(post(pair.a.qp, &wr), 0);
      expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
    }
    if (how == 3)
      advance("1ms");
    for (int i = 0; how == 3 && i < 1000 && !*(volatile uint8_t *)&pair.b.bytes[99]; i++)
      usleep(10000);
    assert_int_equal(pair.b.bytes[99], 9);
    assert_int_equal(ibv_dereg_mr(other), 0);
    pair_close(&pair);
  }
}

static void *poll_for_ever(void *cq)
{
  struct ibv_wc wc;
  for (;;)
    ibv_poll_cq(cq, 1, &wc);
  return NULL;
}

/* In a child, which is the one that ends. */
static void test_two_threads_in_one_queue(void **state)
{
  (void)state;
  for (int threads = 1; threads <= 2; threads++) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
      struct pair_attr pair_attr = pair_defaults();
      struct pair pair;
      pthread_t thread;
      struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
      setenv("MLX5_SINGLE_THREADED", "1", 1);
      signal(SIGABRT, SIG_DFL);
      pair_attr.device = "fixed0";
      pair_make(&pair, &pair_attr);
      if (threads == 2)
        pthread_create(&thread, NULL, poll_for_ever, pair.a.cq);
      for (int i = 0; i < 200; i++)
        ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE);
      _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, threads == 2 ? SIGABRT : 0);
  }
}

static void *poll_often(void *arg)
{
  struct ibv_wc wc;

  for (int i = 0; i < 200000; i++)
    ibv_poll_cq(arg, 1, &wc);
  return NULL;
}

static void test_two_threads_in_a_queue_of_one(void **state)
{
  (void)state;
  for (int of_one = 0; of_one < 2; of_one++) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
      struct ibv_context *context = open_named("fixed0");
      struct ibv_cq_init_attr_ex attr = {.cqe = 16,
                                         .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                         .flags = of_one ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0};
      struct ibv_cq *cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr));
      pthread_t thread;
      signal(SIGABRT, SIG_DFL);
      poll_often(cq); /* one thread may */
      alarm(60);
      pthread_create(&thread, NULL, of_one ? poll_for_ever : poll_often, cq);
      (of_one ? poll_for_ever : poll_often)(cq);
      pthread_join(thread, NULL);
      _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, of_one ? SIGABRT : 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_two_threads_in_one_queue), /* before a device is open */
      cmocka_unit_test(test_two_threads_in_a_queue_of_one),
      cmocka_unit_test(test_writes_are_placed_after_they_are_acknowledged),
      cmocka_unit_test(test_a_device_that_may_not_be_opened),
      cmocka_unit_test(test_transports_without_all_of_rc),
      cmocka_unit_test(test_soft_roce_is_not_mlx5s),
      cmocka_unit_test(test_commands_of_the_firmware_take_their_time),
      cmocka_unit_test(test_a_port_that_no_subnet_manager_has_seen),
      cmocka_unit_test(test_completion_queues_that_stay_as_they_are),
      cmocka_unit_test(test_gids_of_other_namespaces_are_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
