/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that workers of a device share: its completion vectors, and its asynchronous events;
 * and none of them waits for another's connection.
 *
 *     penstock-simverbs verbs-rc-shares PLUGIN LAUNCHER
 *
 * This program defines some calls of libibverbs, which the plugin finds here.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "simulated.h"

#define WORKERS 11
#define POLLS 8192

static struct contract_variant variant = {
    .name = "adapter", .options = "device=mlx5_0", .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = 16, .message = 512, .requests = 16, .pieces = 1};

static int vectors[2 * WORKERS];
static uint32_t queues;
static uint64_t looks; /* at asynchronous events */

static struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *, struct ibv_cq_init_attr_ex *);

static struct ibv_cq_ex *create_noted(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
  assert_true(attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
  if (queues < sizeof(vectors) / sizeof(vectors[0]))
    vectors[queues++] = (int)attr->comp_vector;
  return create_cq_ex(context, attr);
}

__attribute__((visibility("default"))) struct ibv_context *
ibv_open_device(struct ibv_device *device)
{
  struct ibv_context *(*next)(struct ibv_device *);

  *(void **)&next = dlsym(RTLD_NEXT, "ibv_open_device");
  assert_non_null(next);
  struct ibv_context *context = next(device);
  struct verbs_context *verbs = context ? verbs_get_ctx(context) : NULL;
  if (verbs && verbs->create_cq_ex != create_noted) {
    create_cq_ex = verbs->create_cq_ex;
    verbs->create_cq_ex = create_noted;
  }
  return context;
}

__attribute__((visibility("default"))) int ibv_get_async_event(struct ibv_context *context,
                                                               struct ibv_async_event *event)
{
  int (*next)(struct ibv_context *, struct ibv_async_event *);

  *(void **)&next = dlsym(RTLD_NEXT, "ibv_get_async_event");
  assert_non_null(next);
  looks++;
  return next(context, event);
}

static uint32_t commands; /* that change a queue pair */

__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
                                                         struct ibv_qp_attr *attr, int mask)
{
  int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int);

  *(void **)&next = dlsym(RTLD_NEXT, "ibv_modify_qp");
  assert_non_null(next);
  commands++;
  return next(qp, attr, mask);
}

static int vectors_there_are(void)
{
  struct ibv_device **all = ibv_get_device_list(NULL);
  struct ibv_context *context = ibv_open_device(all[0]);
  const int count = context->num_comp_vectors;

  assert_int_equal(ibv_close_device(context), 0);
  ibv_free_device_list(all);
  return count;
}

/* With one vector for all, one CPU serves the interrupts of all workers that sleep. */
static void workers_take_vectors_in_turn(void **state)
{
  (void)state;
  const int count = vectors_there_are();
  struct contract_image image;
  struct pst_device *device;
  struct pst_worker *workers[WORKERS];

  assert_in_range(count, 2, WORKERS - 1);
  contract_image_open(&variant, false, &image);
  contract_device_open(&variant, &image, false, false, &device);
  for (uint32_t i = 0; i < WORKERS; i++) {
    queues = 0;
    assert_int_equal(image.ops->worker_open(device, i, &workers[i]), 0);
    assert_in_range(queues, 1, 2);
    for (uint32_t j = 0; j < queues; j++)
      assert_int_equal(vectors[j], (int)i % count);
  }
  for (uint32_t i = 0; i < WORKERS; i++)
    image.ops->worker_close(workers[i]);
  image.ops->close(device);
}

/* Each is a command of the firmware's, and takes up to 300 us. */
static void connecting_waits_for_no_command(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  struct contract_side *near = &pair->sender, *far = &pair->receiver;
  struct pst_blob blob;

  commands = 0;
  contract_host_holds_works(true);
  contract_address(far, 0, &blob);
  assert_int_equal(contract_connect(near, 0, &blob), 0);
  contract_address(near, 0, &blob);
  assert_int_equal(contract_connect(far, 0, &blob), 0);
  contract_poll(near);
  contract_poll(far);
  assert_int_equal(commands, 0);
  contract_host_holds_works(false); /* which is another thread's, of a host */
  assert_true(commands > 0);
  contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(far, near, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_pair_close(pair);
}

/* A microsecond each time that it is asked. */
static uint64_t crawls(void)
{
  static uint64_t now_ns = 1000000000;

  return now_ns += 1000;
}

/* A look is a system call under a lock of the device's. Idle polls had one in 64 of them. */
static void polls_look_at_events_once_a_millisecond(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  contract_host_clock(crawls);
  const uint64_t began = crawls(), before = looks;

  for (int i = 0; i < POLLS; i++)
    contract_poll(&pair->sender);
  const uint64_t took_ms = (crawls() - began) / 1000000;
  contract_host_clock(contract_now_ns);
  print_message("%d looks in %d ms and %d polls\n", (int)(looks - before), (int)took_ms, POLLS);
  assert_in_range(looks - before, 1, took_ms + POLLS / (64 * 256) + 2);
  contract_pair_close(pair);
}

static uint64_t stands_still(void)
{
  return 1000000000;
}

/* A host's clock may stand still, as a manual one does. Setting it back
 * makes one look due, which is over before the event comes. */
static void events_are_heard_though_no_time_passes(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  contract_host_clock(stands_still);
  for (int i = 0; i < 200; i++)
    contract_poll(&pair->sender);
  simulated_ctl("remove-device host/mlx5_0");
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DEVICE);
  simulated_ctl("restore-device host/mlx5_0");
  contract_host_clock(contract_now_ns);
  contract_pair_close(pair);
  contract_complaints();
}

/* A worker that only polls hears of events, too. */
static void a_lost_device_is_reported_while_polled(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  simulated_ctl("remove-device host/mlx5_0");
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DEVICE);
  simulated_ctl("restore-device host/mlx5_0");
  contract_pair_close(pair);
  contract_complaints();
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(workers_take_vectors_in_turn),
      CONTRACT_CASE(connecting_waits_for_no_command),
      CONTRACT_CASE(polls_look_at_events_once_a_millisecond),
      CONTRACT_CASE(a_lost_device_is_reported_while_polled),
      CONTRACT_CASE(events_are_heard_though_no_time_passes),
  };

  if (argc != 3) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  simulated_launcher = argv[2];
  return CONTRACT_MAIN("what workers share", cases, &variant);
}
