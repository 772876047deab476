/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device, which are scripted here: whom each of them is left with, and
 * what is logged. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "srq.h"
#include "support.h"

#define EVENTS 4u

static struct {
  struct ibv_async_event all[EVENTS];
  uint32_t count, given, acked;
  void (*acking)(void); /* what is looked at before the acknowledgement */
} fake;

static struct ibv_context context;
static struct pst_worker other_worker;
static struct pst_endpoint other;
static struct vb_srq shared;
static struct ibv_srq srq;

/* ---- The device -------------------------------------------------------------------------- */

int ibv_get_async_event(struct ibv_context *of, struct ibv_async_event *event)
{
  assert_ptr_equal(of, &context);
  assert_int_equal(pthread_mutex_trylock(&device.events), EBUSY); /* one thread at a time */
  if (fake.given == fake.count)
    return -1;
  *event = fake.all[fake.given++];
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
  assert_int_equal(event->event_type, fake.all[fake.acked].event_type);
  fake.acked++;
  assert_int_equal(fake.acked, fake.given);
  if (fake.acking)
    fake.acking();
}

/* ---- The tests --------------------------------------------------------------------------- */

static int begin(void **state)
{
  (void)state;
  start_support(2);
  memset(&fake, 0, sizeof(fake));
  device.open.context = &context;
  pthread_mutex_init(&device.events, NULL);
  other_worker = (struct pst_worker){.device = &device};
  worker.next = &other_worker;
  device.workers = &worker;
  struct pst_worker *both[] = {&worker, &other_worker};
  for (int i = 0; i < 2; i++)
    both[i]->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  other = endpoint;
  other.worker = &other_worker;
  other.label = "another";
  qps[0].qp_context = &endpoint;
  qps[1].qp_context = &other;
  shared = (struct vb_srq){.worker = &other_worker};
  srq = (struct ibv_srq){.srq_context = &shared};
  return 0;
}

static int end(void **state)
{
  assert_int_equal(fake.acked, fake.count);
  close(worker.wake_fd);
  close(other_worker.wake_fd);
  pthread_mutex_destroy(&device.events);
  return stop_support(state);
}

static struct ibv_async_event *happens(enum ibv_event_type type)
{
  struct ibv_async_event *event = &fake.all[fake.count++];

  *event = (struct ibv_async_event){.event_type = type};
  return event;
}

/* One event anew; `element` points to nothing but what the test says. */
static struct ibv_async_event *happens_alone(enum ibv_event_type type)
{
  fake.count = fake.given = fake.acked = 0;
  fake_log_clear();
  return happens(type);
}

static uint64_t woken(const struct pst_worker *of)
{
  uint64_t count = 0;

  return read(of->wake_fd, &count, sizeof(count)) < 0 ? 0 : count;
}

static void expect_silence(void)
{
  assert_string_equal(fake_log(), "");
}

/* Until it is acknowledged, the queue pair cannot be destroyed, and its endpoint is there. */
static void expect_left(void)
{
  assert_int_not_equal(other.event, 0);
}

static void events_of_a_queue_pair_are_left_with_its_endpoint(void **state)
{
  static const enum ibv_event_type all[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
                                            IBV_EVENT_QP_ACCESS_ERR};

  (void)state;
  fake.acking = expect_left;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    happens_alone(all[i])->element.qp = &qps[1];
    vb_events(&device);
    assert_int_equal(other.event, all[i] + 1);
    assert_int_equal(endpoint.event, 0);
    assert_int_equal(other_worker.notices, i + 1);
    assert_int_equal(woken(&other_worker), 1);
    assert_int_equal(worker.notices + woken(&worker), 0);
    expect_silence(); /* its worker says it */
    other.event = 0;
  }
  assert_false(device.is_lost);
}

static void the_last_receive_is_left_with_its_endpoint(void **state)
{
  (void)state;
  happens(IBV_EVENT_QP_LAST_WQE_REACHED)->element.qp = &qps[1];
  vb_events(&device);
  assert_true(other.last_wqe);
  assert_false(endpoint.last_wqe);
  assert_int_equal(other.event, 0); /* which would end it */
  assert_int_equal(woken(&other_worker), 1);
  assert_int_equal(woken(&worker), 0);
  expect_silence();
}

static void events_of_shared_receives_are_left_with_them(void **state)
{
  (void)state;
  happens(IBV_EVENT_SRQ_ERR)->element.srq = &srq;
  vb_events(&device);
  assert_int_equal(shared.event, IBV_EVENT_SRQ_ERR + 1);
  assert_int_equal(woken(&other_worker), 1);
  assert_int_equal(woken(&worker), 0);
  expect_silence();
}

static void a_device_that_is_lost_wakes_all_workers(void **state)
{
  static const enum ibv_event_type all[] = {IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    device.is_lost = false;
    happens_alone(all[i]);
    vb_events(&device);
    assert_true(device.is_lost);
    assert_int_equal(worker.notices, i + 1);
    assert_int_equal(other_worker.notices, i + 1);
    assert_int_equal(woken(&worker), 1);
    assert_int_equal(woken(&other_worker), 1);
    assert_memory_equal(fake_log(), "0 fake0: IBV_EVENT_", 19); /* PST_LOG_ERROR */
  }
}

/* A warning where there is something to look at, and else for who asks for more. */
static void events_of_a_port_are_logged_with_its_number(void **state)
{
  static const struct {
    enum ibv_event_type type;
    int level;
    const char *name;
  } all[] = {{IBV_EVENT_PORT_ERR, PST_LOG_WARN, "IBV_EVENT_PORT_ERR"},
             {IBV_EVENT_PORT_ACTIVE, PST_LOG_INFO, "IBV_EVENT_PORT_ACTIVE"},
             {IBV_EVENT_LID_CHANGE, PST_LOG_WARN, "IBV_EVENT_LID_CHANGE"},
             {IBV_EVENT_PKEY_CHANGE, PST_LOG_WARN, "IBV_EVENT_PKEY_CHANGE"},
             {IBV_EVENT_SM_CHANGE, PST_LOG_INFO, "IBV_EVENT_SM_CHANGE"},
             {IBV_EVENT_CLIENT_REREGISTER, PST_LOG_INFO, "IBV_EVENT_CLIENT_REREGISTER"},
             {IBV_EVENT_GID_CHANGE, PST_LOG_WARN, "IBV_EVENT_GID_CHANGE"}};
  char expected[64];

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    device.place_changes = false;
    happens_alone(all[i].type)->element.port_num = 3;
    vb_events(&device);
    snprintf(expected, sizeof(expected), "%d fake0 port 3: %s: ", all[i].level, all[i].name);
    assert_memory_equal(fake_log(), expected, strlen(expected));
    assert_int_equal(strstr(fake_log(), "; check: ") != NULL, all[i].level == PST_LOG_WARN);
    assert_true(device.place_changes); /* where connections of today go from */
  }
  assert_int_equal(worker.notices + other_worker.notices, 0);
  assert_false(device.is_lost);
}

static void moved_paths_are_logged_with_their_endpoint(void **state)
{
  (void)state;
  happens(IBV_EVENT_PATH_MIG)->element.qp = &qps[0];
  happens(IBV_EVENT_PATH_MIG_ERR)->element.qp = &qps[1];
  vb_events(&device);
  assert_memory_equal(fake_log(), "2 camera: IBV_EVENT_PATH_MIG: ", 30);
  assert_non_null(strstr(fake_log(), "\n1 another: IBV_EVENT_PATH_MIG_ERR: "));
  assert_int_equal(endpoint.event + other.event, 0); /* they go on */
  assert_false(device.place_changes);
}

static void what_is_known_by_other_means_is_silent(void **state)
{
  (void)state;
  happens(IBV_EVENT_COMM_EST);
  happens(IBV_EVENT_SQ_DRAINED);
  happens(IBV_EVENT_SRQ_LIMIT_REACHED);
  vb_events(&device);
  expect_silence();
  assert_int_equal(worker.notices + other_worker.notices, 0);
}

/* The meaning of `element` is unknown for such events. */
static void events_that_are_newer_are_logged_by_number(void **state)
{
  (void)state;
  happens((enum ibv_event_type)77)->element.qp = (struct ibv_qp *)(uintptr_t)1;
  happens(IBV_EVENT_WQ_FATAL)->element.wq = (struct ibv_wq *)(uintptr_t)1;
  vb_events(&device);
  assert_non_null(strstr(fake_log(), "1 fake0: unknown event (77): an event that is newer"));
  assert_non_null(strstr(fake_log(), "1 fake0: IBV_EVENT_WQ_FATAL: a work queue failed; check: "));
  assert_int_equal(worker.notices + other_worker.notices, 0);
}

static void all_that_wait_are_taken(void **state)
{
  (void)state;
  happens(IBV_EVENT_QP_FATAL)->element.qp = &qps[0];
  happens(IBV_EVENT_COMM_EST);
  happens(IBV_EVENT_QP_REQ_ERR)->element.qp = &qps[1];
  happens(IBV_EVENT_SRQ_ERR)->element.srq = &srq;
  vb_events(&device);
  assert_int_equal(fake.acked, 4);
  assert_int_equal(endpoint.event, IBV_EVENT_QP_FATAL + 1);
  assert_int_equal(other.event, IBV_EVENT_QP_REQ_ERR + 1);
  assert_int_equal(other_worker.notices, 2);
  vb_events(&device); /* there is none */
  assert_int_equal(pthread_mutex_trylock(&device.events), 0);
  pthread_mutex_unlock(&device.events);
}

static void an_event_in_words(void **state)
{
  char text[256], little[8];

  (void)state;
  vb_event_text(IBV_EVENT_QP_ACCESS_ERR, text, sizeof(text));
  assert_string_equal(text, "IBV_EVENT_QP_ACCESS_ERR: the peer asked for memory that is not open "
                            "to it. Usual reasons: a key, address or right that is wrong or no "
                            "longer valid. Check: the peer's log");
  vb_event_text(IBV_EVENT_QP_ACCESS_ERR, little, sizeof(little));
  assert_string_equal(little, "IBV_EVE");
}

/* ---- Notices, and endpoints that pend ---------------------------------------------------- */

static void a_notice_counts_though_the_worker_is_awake(void **state)
{
  const uint64_t full = UINT64_MAX - 1;

  (void)state;
  assert_int_equal(write(worker.wake_fd, &full, sizeof(full)), sizeof(full));
  vb_notify(&worker);
  vb_notify(&worker);
  assert_int_equal(worker.notices, 2);
  assert_int_equal(woken(&worker), full);
}

static void endpoints_pend_once(void **state)
{
  struct pst_endpoint third = {.worker = &worker};

  (void)state;
  other.worker = &worker;
  vb_unpend(&endpoint); /* which does not */
  assert_null(worker.pending);
  vb_pend(&endpoint);
  vb_pend(&other);
  vb_pend(&third);
  vb_pend(&endpoint);
  assert_ptr_equal(worker.pending, &third);
  assert_ptr_equal(third.next_pending, &other);
  assert_ptr_equal(other.next_pending, &endpoint);
  assert_null(endpoint.next_pending);
  vb_unpend(&other);
  assert_ptr_equal(third.next_pending, &endpoint);
  vb_unpend(&third);
  assert_ptr_equal(worker.pending, &endpoint);
  vb_unpend(&endpoint);
  assert_null(worker.pending);
}

static void room_that_is_forgotten_is_not_told(void **state)
{
  (void)state;
  worker.told = 2;
  endpoint.want = VB_WANT_TOLD;
  vb_forget_room(&endpoint);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
  assert_int_equal(worker.told, 1);
  endpoint.want = VB_WANT_CREDIT;
  vb_forget_room(&endpoint);
  assert_int_equal(endpoint.want, VB_WANT_NOTHING);
  assert_int_equal(worker.told, 1); /* another's */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(events_of_a_queue_pair_are_left_with_its_endpoint),
      CASE(the_last_receive_is_left_with_its_endpoint),
      CASE(events_of_shared_receives_are_left_with_them),
      CASE(a_device_that_is_lost_wakes_all_workers),
      CASE(events_of_a_port_are_logged_with_its_number),
      CASE(moved_paths_are_logged_with_their_endpoint),
      CASE(what_is_known_by_other_means_is_silent),
      CASE(events_that_are_newer_are_logged_by_number),
      CASE(all_that_wait_are_taken),
      CASE(an_event_in_words),
      CASE(a_notice_counts_though_the_worker_is_awake),
      CASE(endpoints_pend_once),
      CASE(room_that_is_forgotten_is_not_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
