/* SPDX-License-Identifier: Apache-2.0 */
/* Workers, over a libibverbs that is scripted here: how they are opened and closed, how they sleep,
 * and what their looks at the clock do. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ops.h"
#include "support.h"

#define MS UINT64_C(1000000)

/* The device. A call with `fails` set to its name fails. */
static struct {
  struct verbs_context verbs;
  struct ibv_comp_channel channel;
  struct ibv_cq cq;
  struct ibv_td td;
  struct ibv_wc wcs[4];
  const char *fails;
  int resize_rc;
  uint32_t channels, cqs, tds; /* that are open */
  uint32_t opened, freed;      /* the transport's */
  uint32_t cq_calls;           /* of ibv_create_cq() */
  uint32_t wc_count;           /* completions to be polled */
  uint32_t cq_events, acked;   /* taken and acknowledged */
  uint32_t async_calls;        /* of ibv_get_async_event() */
  uint32_t looks, notices, worker_looks;
  uint64_t looked_at;
  uint64_t due_ns;         /* what a look at an endpoint finds due */
  bool is_notified;        /* the next completion is an event */
  void (*requested)(void); /* what happens just after ibv_req_notify_cq() */
  void (*looked)(void);    /* and in a look at the worker */
} fake;

static struct pst_worker *opened;
static struct pst_endpoint *ends[2];
static int lowest_fd;

static bool fails(const char *call)
{
  errno = ENOMEM;
  return fake.fails && strcmp(fake.fails, call) == 0;
}

static int next_fd(void)
{
  const int fd = dup(0);

  close(fd);
  return fd;
}

static void signal_fd(int fd)
{
  const uint64_t one = 1;

  assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
}

/* ---- The device -------------------------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
  if (fails("ibv_create_comp_channel"))
    return NULL;
  fake.channels++;
  /* An event of each read, as the kernel's file has it. */
  fake.channel = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, EFD_SEMAPHORE)};
  return &fake.channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
  assert_int_equal(fake.cqs, 0); /* which would be EBUSY */
  fake.channels--;
  return close(channel->fd);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
  (void)vector;
  assert_null(cq_context);
  if (fails("ibv_create_cq"))
    return NULL;
  fake.cqs++;
  fake.cq_calls++;
  fake.cq = (struct ibv_cq){.context = context, .channel = channel, .cqe = cqe};
  return &fake.cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
  assert_ptr_equal(cq, &fake.cq);
  assert_int_equal(fake.acked, fake.cq_events); /* else it would wait for ever */
  fake.cqs--;
  return 0;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
  assert_int_equal(cqe, cq->cqe);
  return fake.resize_rc;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
  uint64_t count;

  if (read(channel->fd, &count, sizeof(count)) < 0)
    return -1;
  fake.cq_events++;
  *cq = &fake.cq;
  *context = NULL;
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
  assert_ptr_equal(cq, &fake.cq);
  fake.acked += events;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
  uint64_t count;

  fake.async_calls++;
  if (read(context->async_fd, &count, sizeof(count)) < 0)
    return -1;
  *event = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
  (void)event;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
  (void)attr;
  fake.tds++;
  fake.td.context = context;
  return &fake.td;
}

static int dealloc_td(struct ibv_td *td)
{
  assert_ptr_equal(td, &fake.td);
  fake.tds--;
  return 0;
}

static void complete(void)
{
  assert_in_range(fake.wc_count, 0, 3);
  fake.wcs[fake.wc_count++] = (struct ibv_wc){.wr_id = WR_ID};
  if (fake.is_notified)
    signal_fd(fake.channel.fd);
  fake.is_notified = false;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
  assert_ptr_equal(cq, &fake.cq);
  assert_int_equal(solicited_only, 0);
  if (fails("ibv_req_notify_cq"))
    return ENOMEM;
  fake.is_notified = true;
  if (fake.requested)
    fake.requested();
  return 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
  const uint32_t n = fake.wc_count;

  assert_ptr_equal(cq, &fake.cq);
  assert_in_range(most, n, VB_POLL_BATCH);
  memcpy(wc, fake.wcs, n * sizeof(*wc));
  fake.wc_count = 0;
  return (int)n;
}

/* ---- The transport ----------------------------------------------------------------------- */

static struct vb_planned plan_completions(const struct pst_device *of)
{
  (void)of;
  return (struct vb_planned){.first = 64, .all = 640};
}

static int worker_open(struct pst_worker *of)
{
  if (fails("worker_open"))
    return -EADDRINUSE;
  of->own = &fake;
  fake.opened++;
  return 0;
}

static void worker_close(struct pst_worker *of)
{
  (void)of;
  fake.opened--;
}

static void worker_look(struct pst_worker *of)
{
  (void)of;
  fake.worker_looks++;
  if (fake.looked)
    fake.looked();
}

static void look(struct pst_endpoint *of, uint64_t now_ns)
{
  fake.looks++;
  fake.looked_at = now_ns;
  vb_due(of->worker, fake.due_ns);
}

static void notice(struct pst_endpoint *of)
{
  of->arrivals++;
  fake.notices++;
}

static void free_end(struct pst_endpoint *of)
{
  pst_places_give(&of->worker->endpoints, of->place);
  free(of);
  fake.freed++;
}

/* ---- The tests --------------------------------------------------------------------------- */

static int begin_closed(void **state)
{
  (void)state;
  start_support(1);
  memset(&fake, 0, sizeof(fake));
  fake.due_ns = VB_NEVER;
  fake.verbs = (struct verbs_context){
      .sz = sizeof(fake.verbs),
      .alloc_td = alloc_td,
      .dealloc_td = dealloc_td,
      .context = {.abi_compat = __VERBS_ABI_IS_EXTENDED, .async_fd = eventfd(0, EFD_SEMAPHORE)}};
  fake.verbs.context.ops.req_notify_cq = req_notify_cq;
  fake.verbs.context.ops.poll_cq = poll_cq;
  lowest_fd = next_fd();
  device.open.context = &fake.verbs.context;
  device.numa_node = VB_NUMA_UNKNOWN;
  pthread_mutex_init(&device.events, NULL);
  transport.plan_completions = plan_completions;
  transport.worker_open = worker_open;
  transport.worker_close = worker_close;
  transport.worker_look = worker_look;
  transport.look = look;
  transport.notice = notice;
  transport.free = free_end;
  fake_clock_ns = 1000 * MS;
  return 0;
}

static int begin(void **state)
{
  begin_closed(state);
  assert_int_equal(vb_worker_open(&device, 5, &opened), 0);
  for (uint32_t i = 0; i < 2; i++) {
    ends[i] = calloc(1, sizeof(*ends[i]));
    ends[i]->worker = opened;
    ends[i]->device = &device;
    assert_int_equal(pst_places_take(&opened->endpoints, ends[i], VB_PLACES, &ends[i]->place), 0);
  }
  return 0;
}

static void expect_nothing_open(void)
{
  assert_int_equal(fake.channels + fake.cqs + fake.tds + fake.opened, 0);
  assert_null(device.workers);
}

static int end_closed(void **state)
{
  expect_nothing_open();
  pthread_mutex_destroy(&device.events);
  assert_int_equal(next_fd(), lowest_fd);
  close(fake.verbs.context.async_fd);
  return stop_support(state);
}

static int end(void **state)
{
  vb_worker_close(opened);
  assert_int_equal(fake.freed, 2);
  return end_closed(state);
}

/* Would the host's epoll_wait() return? */
static bool is_awake(void)
{
  struct epoll_event one;

  return epoll_wait(vb_event_fd(opened), &one, 1, 0) == 1;
}

static struct itimerspec timer(void)
{
  struct itimerspec when;

  assert_int_equal(timerfd_gettime(opened->timer_fd, &when), 0);
  return when;
}

static void nothing_stays_open_where_one_part_cannot_be_opened(void **state)
{
  static const struct {
    const char *call;
    int rc;
  } all[] = {{"ibv_create_comp_channel", -ENOMEM},
             {"ibv_create_cq", -ENOMEM},
             {"worker_open", -EADDRINUSE}};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    opened = NULL;
    fake.fails = all[i].call;
    fake_log_clear();
    assert_int_equal(vb_worker_open(&device, 0, &opened), all[i].rc);
    assert_null(opened);
    expect_nothing_open();
    if (i < 2)
      assert_non_null(strstr(fake_log(), all[i].call));
    else
      assert_string_equal(fake_log(), ""); /* the transport has said it */
  }
  vb_worker_close(NULL);
}

static void a_completion_queue_that_cannot_grow_has_room_for_all(void **state)
{
  static const struct {
    int resize_rc, cqe;
    uint32_t calls;
  } all[] = {{0, 64, 1}, {EOPNOTSUPP, 640, 2}, {ENOSYS, 640, 2}, {EINVAL, 64, 1}};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    fake.resize_rc = all[i].resize_rc;
    fake.cq_calls = 0;
    assert_int_equal(vb_worker_open(&device, 0, &opened), 0);
    assert_int_equal(opened->cq->cqe, all[i].cqe);
    assert_int_equal(fake.cq_calls, all[i].calls);
    assert_ptr_equal(opened->cq->channel, &fake.channel);
    vb_worker_close(opened);
    expect_nothing_open();
  }
}

/* Each of them, and nothing else, ends a sleep. */
static void a_sleeper_wakes_by_each_descriptor(void **state)
{
  const int fds[] = {fake.channel.fd, opened->wake_fd, device.open.context->async_fd};

  (void)state;
  for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
    uint64_t count;
    /* They are read until there is no more. */
    assert_true(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    assert_false(is_awake());
    signal_fd(fds[i]);
    assert_true(is_awake());
    assert_int_equal(read(fds[i], &count, sizeof(count)), sizeof(count));
  }
}

/* ---- Sleep ------------------------------------------------------------------------------- */

static void what_came_before_the_request_is_polled(void **state)
{
  (void)state;
  complete();
  assert_int_equal(vb_arm(opened), -EAGAIN);
  assert_int_equal(opened->empties, 0);
  assert_int_equal(opened->wc_count, 1);
  assert_int_equal(opened->wc_at, 0);
  assert_int_equal(opened->wc[0].wr_id, WR_ID);
}

/* Its event was not asked for yet, or it was, and both are there. */
static void what_comes_with_the_request_is_not_lost(void **state)
{
  (void)state;
  fake.requested = complete;
  assert_int_equal(vb_arm(opened), -EAGAIN);
  assert_int_equal(opened->wc_count, 1);
  assert_true(is_awake());
  vb_disarm(opened);
  assert_false(is_awake());
  assert_int_equal(opened->wc_count, 1);
}

static void what_comes_after_the_request_wakes(void **state)
{
  (void)state;
  assert_int_equal(vb_arm(opened), 0);
  assert_int_equal(opened->empties, 1); /* nothing was there */
  assert_true(opened->armed);
  assert_false(is_awake());
  complete();
  assert_true(is_awake());
  vb_disarm(opened);
  assert_false(opened->armed);
  assert_false(is_awake());
  complete(); /* polled: without an event, until it is asked for anew */
  assert_false(is_awake());
}

static void who_has_work_does_not_sleep(void **state)
{
  (void)state;
  opened->pending = ends[0];
  assert_int_equal(vb_arm(opened), -EAGAIN);
  opened->pending = NULL;
  opened->told = 1;
  assert_int_equal(vb_arm(opened), -EAGAIN);
  opened->told = 0;
  opened->tells_lost = true;
  assert_int_equal(vb_arm(opened), -EAGAIN);
  opened->tells_lost = false;
  opened->wc_count = 3;
  opened->wc_at = 2;
  assert_int_equal(vb_arm(opened), -EAGAIN);
  assert_int_equal(opened->wc_at, 2); /* and is not polled over */
  opened->wc_at = 3;
  vb_notify(opened);
  assert_int_equal(vb_arm(opened), -EAGAIN);
  assert_false(fake.is_notified);
  vb_take_notices(opened);
  assert_int_equal(vb_arm(opened), 0);
}

static void who_cannot_ask_for_events_does_not_sleep(void **state)
{
  (void)state;
  fake.fails = "ibv_req_notify_cq";
  assert_int_equal(vb_arm(opened), -EAGAIN);
}

static void leave_a_notice(void)
{
  vb_notify(opened);
}

static void notices_that_come_while_it_arms_are_seen(void **state)
{
  (void)state;
  fake.looked = leave_a_notice;
  assert_int_equal(vb_arm(opened), -EAGAIN);
  fake.looked = NULL;
  vb_disarm(opened); /* which takes what woke it, not what was left */
  assert_false(is_awake());
  vb_take_notices(opened);
  assert_int_equal(fake.notices, 2); /* both endpoints */
  vb_take_notices(opened);
  assert_int_equal(fake.notices, 2);
  assert_int_equal(vb_arm(opened), 0);
  vb_notify(opened);
  assert_true(is_awake());
}

/* One that is there already wakes nobody once another worker has read it. */
/* Of 1024 places, 600 of which have an endpoint. One more notice begins the walk anew. */
static void a_notice_is_taken_to_256_places_at_a_time(void **state)
{
  static struct pst_endpoint more[598];

  (void)state;
  for (uint32_t i = 0; i < 598; i++)
    assert_int_equal(pst_places_take(&opened->endpoints, &more[i], VB_PLACES, &more[i].place), 0);
  assert_int_equal(opened->endpoints.room, 1024);
  vb_notify(opened);
  vb_take_notices(opened);
  assert_in_range(fake.notices, 1, 256);
  assert_int_equal(vb_arm(opened), -EAGAIN);
  vb_disarm(opened);
  for (uint32_t i = 0; i < 598; i++)
    more[i].arrivals = 0;
  vb_notify(opened);
  for (uint32_t i = 0; i < 4; i++)
    vb_take_notices(opened);
  for (uint32_t i = 0; i < 598; i++)
    assert_int_equal(more[i].arrivals, 1);
  fake.notices = 0;
  vb_take_notices(opened);
  assert_int_equal(fake.notices, 0);
  for (uint32_t i = 0; i < 598; i++)
    pst_places_give(&opened->endpoints, more[i].place);
}

static void events_of_the_device_are_read_before_a_sleep(void **state)
{
  (void)state;
  signal_fd(device.open.context->async_fd);
  device.events_ns = fake_clock_ns; /* though they were read a moment ago */
  assert_int_equal(vb_arm(opened), -EAGAIN);
  assert_true(device.is_lost);
  vb_take_notices(opened);
  assert_false(is_awake());
}

static void a_lost_device_is_told_once(void **state)
{
  (void)state;
  device.is_lost = true; /* as another worker has read */
  vb_notify(opened);
  vb_take_notices(opened);
  assert_true(opened->tells_lost);
  opened->tells_lost = false;
  vb_look(opened, false); /* or, where its notice is not seen yet */
  assert_true(opened->tells_lost);
  opened->tells_lost = false;
  opened->has_told_lost = true; /* by the poll */
  vb_notify(opened);
  vb_take_notices(opened);
  vb_look(opened, false);
  assert_false(opened->tells_lost);
}

static void a_sleeper_wakes_for_what_is_due(void **state)
{
  (void)state;
  assert_int_equal(vb_arm(opened), 0);
  assert_int_equal(timer().it_value.tv_sec + timer().it_value.tv_nsec, 0); /* it is off */
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  fake.due_ns = ((uint64_t)now.tv_sec + 500) * 1000 * MS;
  assert_int_equal(vb_arm(opened), 0);
  assert_in_range(timer().it_value.tv_sec, 400, 500);
  assert_false(is_awake());
  fake.due_ns = 0; /* which would turn it off */
  assert_int_equal(vb_arm(opened), 0);
  assert_true(is_awake());
  vb_disarm(opened);
  assert_false(is_awake());
  fake.due_ns = VB_NEVER;
  assert_int_equal(vb_arm(opened), 0);
  assert_false(is_awake());
}

/* Each acknowledgement takes a lock; a queue is destroyed once all are acknowledged. */
static void events_are_acknowledged_by_the_thousand(void **state)
{
  (void)state;
  for (int i = 0; i < 1030; i++)
    signal_fd(fake.channel.fd);
  vb_disarm(opened);
  assert_int_equal(fake.cq_events, 1030);
  assert_int_equal(fake.acked, 1024);
  assert_int_equal(opened->events_unacked, 6);
}

/* ---- Looks ------------------------------------------------------------------------------- */

static void look_after(uint64_t ns)
{
  fake_clock_ns += ns;
  fake.looks = fake.async_calls = 0;
  vb_look(opened, false);
}

static void endpoints_are_walked_each_10_ms(void **state)
{
  (void)state;
  look_after(0);
  assert_int_equal(fake.looks, 2);
  assert_int_equal(fake.looked_at, fake_clock_ns);
  look_after(10 * MS - 1);
  assert_int_equal(fake.looks, 0);
  look_after(1);
  assert_int_equal(fake.looks, 2);
}

static void endpoints_are_walked_once_a_ms_where_one_is_due(void **state)
{
  (void)state;
  fake.due_ns = fake_clock_ns + 3 * MS;
  look_after(0);
  assert_int_equal(opened->soonest_ns, fake_clock_ns + 3 * MS);
  look_after(2 * MS);
  assert_int_equal(fake.looks, 0);
  look_after(MS);
  assert_int_equal(fake.looks, 2);
  look_after(MS - 1); /* still due */
  assert_int_equal(fake.looks, 0);
  fake.due_ns = VB_NEVER;
  look_after(1);
  assert_int_equal(fake.looks, 2);
  assert_int_equal(opened->soonest_ns, VB_NEVER);
}

/* A clock that stands still, or goes back, as that of a guest may, keeps nothing from being seen.
 */
static void each_256th_look_walks(void **state)
{
  (void)state;
  look_after(0);
  for (int i = 2; i < 256; i++) {
    look_after(0);
    assert_int_equal(fake.looks + fake.async_calls, 0);
  }
  look_after(0);
  assert_int_equal(fake.looks, 2);
  assert_int_equal(fake.async_calls, 1);
  assert_int_equal(fake.worker_looks, 256);
}

/* One worker of a device reads them, for all. */
static void events_are_read_once_a_ms(void **state)
{
  (void)state;
  device.events_ns = fake_clock_ns; /* another worker's */
  look_after(MS - 1);
  assert_int_equal(fake.async_calls, 0);
  look_after(1);
  assert_int_equal(fake.async_calls, 1);
  assert_int_equal(device.events_ns, fake_clock_ns);
  pthread_mutex_lock(&device.events); /* who has the lock reads them */
  look_after(MS);
  pthread_mutex_unlock(&device.events);
  assert_int_equal(fake.async_calls, 0);
  look_after(0);
  assert_int_equal(fake.async_calls, 1);
}

static void all_is_taken_where_the_queue_was_empty_since(void **state)
{
  (void)state;
  look_after(0);
  assert_false(opened->has_all);
  opened->empties++;
  look_after(0);
  assert_true(opened->has_all);
  look_after(0);
  assert_false(opened->has_all);
}

static void a_worker_leaves_the_device_to_the_others(void **state)
{
  struct pst_worker first = {0}, last = {0};

  (void)state;
  assert_ptr_equal(device.workers, opened);
  opened->next = &last;
  first.next = opened;
  device.workers = &first;
  vb_worker_close(opened);
  assert_ptr_equal(device.workers, &first);
  assert_ptr_equal(first.next, &last);
  device.workers = NULL;
  opened = NULL; /* for end() */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(nothing_stays_open_where_one_part_cannot_be_opened,
                                      begin_closed, end_closed),
      cmocka_unit_test_setup_teardown(a_completion_queue_that_cannot_grow_has_room_for_all,
                                      begin_closed, end_closed),
      CASE(a_sleeper_wakes_by_each_descriptor),
      CASE(what_came_before_the_request_is_polled),
      CASE(what_comes_with_the_request_is_not_lost),
      CASE(what_comes_after_the_request_wakes),
      CASE(who_has_work_does_not_sleep),
      CASE(who_cannot_ask_for_events_does_not_sleep),
      CASE(notices_that_come_while_it_arms_are_seen),
      CASE(a_notice_is_taken_to_256_places_at_a_time),
      CASE(events_of_the_device_are_read_before_a_sleep),
      CASE(a_lost_device_is_told_once),
      CASE(a_sleeper_wakes_for_what_is_due),
      CASE(events_are_acknowledged_by_the_thousand),
      CASE(endpoints_are_walked_each_10_ms),
      CASE(endpoints_are_walked_once_a_ms_where_one_is_due),
      CASE(each_256th_look_walks),
      CASE(events_are_read_once_a_ms),
      CASE(all_is_taken_where_the_queue_was_empty_since),
      CASE(a_worker_leaves_the_device_to_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
