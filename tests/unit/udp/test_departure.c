/* SPDX-License-Identifier: Apache-2.0 */
/* Times of departure on scripted system calls and clocks: what the kernel gets, and what is said
 * where it keeps no times. */
#include <time.h> /* before errqueue.h, which lacks it */

#include "support.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>

#include "qdisc.h"

#define MONOTONIC_NS UINT64_C(5000000000)
#define TAI_NS UINT64_C(1700000037000000000)

static struct {
  struct udp_qdisc qdisc;
  char kind[UDP_QDISC_NAME_MAX]; /* that was asked for */
  int errno_of_qdisc;
  struct sock_extended_err errors[4];
  uint32_t error_count, errors_read;
  uint64_t passed_ns;
} world;

int __wrap_udp_qdisc_find(uint32_t netdev, const union dg_address *peer, const char *kind,
                          struct udp_qdisc *found);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_udp_qdisc_find(uint32_t netdev, const union dg_address *peer, const char *kind,
                          struct udp_qdisc *found)
{
  (void)netdev;
  assert_int_equal(dg_address_port(peer), 5000);
  snprintf(world.kind, sizeof(world.kind), "%s", kind);
  *found = world.qdisc;
  return -world.errno_of_qdisc;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
  struct cmsghdr *control = CMSG_FIRSTHDR(message);

  (void)fd;
  assert_true(flags & MSG_ERRQUEUE);
  if (world.errors_read == world.error_count) {
    errno = EAGAIN;
    return -1;
  }
  control->cmsg_level = SOL_IP;
  control->cmsg_type = IP_RECVERR;
  control->cmsg_len = CMSG_LEN(sizeof(world.errors[0]));
  memcpy(CMSG_DATA(control), &world.errors[world.errors_read++], sizeof(world.errors[0]));
  message->msg_controllen = CMSG_SPACE(sizeof(world.errors[0]));
  return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
  const uint64_t ns = (clock == CLOCK_TAI ? TAI_NS : MONOTONIC_NS) + world.passed_ns;

  if (clock != CLOCK_TAI && clock != CLOCK_MONOTONIC)
    return __real_clock_gettime(clock, now);
  *now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
  return 0;
}

static int reset_world(void **state)
{
  memset(&world, 0, sizeof(world));
  world.qdisc = (struct udp_qdisc){
      .netdev = "eth0", .root = "fq", .is_there = true, .clock = CLOCK_TAI, .delta_ns = 300000};
  return reset(state);
}

static void setup(const char *departure)
{
  setup_sender(LIST({"to", "192.0.2.9:5000"}, {"departure", departure}));
  connect_foreign();
}

/* Messages of 10 bytes at these times, by one post. */
static void post_at(const uint64_t *times, uint32_t n)
{
  struct pst_request requests[8];
  uint32_t wait = PST_WAIT_NONE;

  for (uint32_t i = 0; i < n; i++) {
    requests[i] = send_of(i, 10);
    requests[i].u.send.departure_ns = times[i];
  }
  assert_int_equal(udp_post(rig.endpoint, requests, n, &wait), n);
}

static uint64_t capabilities(void)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  assert_int_equal(udp_limits(rig.device, &limits), 0);
  return limits.capabilities;
}

static void each_time_has_a_buffer_of_its_own(void **state)
{
  static const uint64_t times[] = {MONOTONIC_NS + 1000, MONOTONIC_NS + 2000, MONOTONIC_NS + 2000, 0,
                                   0};

  (void)state;
  setup("fq");
  assert_true(capabilities() & PST_CAP_DEPARTURE);
  assert_string_equal(world.kind, "fq");
  assert_string_equal(fake_log(), "");
  assert_int_equal(option_set(SOL_SOCKET, SO_TXTIME)->level, SOL_SOCKET);
  post_at(times, 5);
  assert_int_equal(kernel.sent_count, 3);
  assert_true(kernel.sent[0].time == times[0] && kernel.sent[0].segment == 0);
  assert_true(kernel.sent[1].time == times[1] && kernel.sent[1].segment == 18);
  assert_true(kernel.sent[2].time == 0 && kernel.sent[2].segment == 18);
}

/* RTP's clock says when a message leaves, not when it was handed over. */
static void rtp_has_the_departure_as_its_time(void **state)
{
  const uint64_t times[] = {MONOTONIC_NS + 1000000000, MONOTONIC_NS + 1500000000};
  uint32_t began, then;

  (void)state;
  setup_sender(LIST({"to", "192.0.2.9:5000"}, {"departure", "fq"}, {"framing", "rtp"},
                    {"clock_rate", "90000"}));
  connect_foreign();
  post_at(times, 2);
  memcpy(&began, kernel.sent[0].wire + 4, sizeof(began));
  memcpy(&then, kernel.sent[1].wire + 4, sizeof(then));
  assert_int_equal(ntohl(then) - ntohl(began), 45000);
}

/* etf drops what has no time, or comes later than `delta` before its time. */
static void etf_gets_times_by_its_clock_and_none_too_early(void **state)
{
  const uint64_t times[] = {0, MONOTONIC_NS - 5, MONOTONIC_NS + 1000000};

  (void)state;
  setup("etf");
  assert_string_equal(world.kind, "etf");
  assert_string_equal(fake_log(), "");
  post_at(times, 3);
  assert_int_equal(kernel.sent_count, 2);
  assert_true(kernel.sent[0].time == TAI_NS + 300000 + 100000);
  assert_true(kernel.sent[1].time == TAI_NS + 1000000);
}

static void errors_are_read_as_messages_go(void **state)
{
  static const uint64_t times[] = {MONOTONIC_NS + 1000000};

  (void)state;
  setup("etf");
  world.errors[0] = (struct sock_extended_err){
      .ee_errno = ECANCELED, .ee_origin = SO_EE_ORIGIN_TXTIME, .ee_code = SO_EE_CODE_TXTIME_MISSED};
  world.error_count = 1;
  post_at(times, 1);
  assert_int_equal(world.errors_read, 1);
  world.error_count = 2; /* not at each post */
  post_at(times, 1);
  assert_int_equal(world.errors_read, 1);
}

static void off_refuses_times(void **state)
{
  struct pst_request request;
  uint32_t wait = PST_WAIT_NONE;

  (void)state;
  setup("off");
  assert_false(capabilities() & PST_CAP_DEPARTURE);
  assert_null(option_set(SOL_SOCKET, SO_TXTIME));
  assert_string_equal(world.kind, "");
  request = send_of(0, 10);
  request.u.send.departure_ns = 1;
  assert_int_equal(udp_post(rig.endpoint, &request, 1, &wait), -EINVAL);
}

/* The messages go as without the option, coalesced, and the log names the command. */
static void without_the_discipline_it_is_said_and_nothing_breaks(void **state)
{
  static const uint64_t times[] = {MONOTONIC_NS + 1000, MONOTONIC_NS + 2000};

  (void)state;
  world.qdisc.is_there = false;
  strcpy(world.qdisc.root, "noqueue");
  setup("fq");
  assert_non_null(strstr(fake_log(), "the queueing discipline of eth0 is noqueue, and not fq; `tc "
                                     "qdisc replace dev eth0 root fq`"));
  post_at(times, 2);
  assert_int_equal(kernel.sent_count, 1);
  assert_true(kernel.sent[0].time == 0 && kernel.sent[0].segment == 18);
}

static void etf_by_another_clock_is_not_used(void **state)
{
  static const uint64_t times[] = {MONOTONIC_NS + 1000};

  (void)state;
  world.qdisc.clock = CLOCK_MONOTONIC;
  setup("etf");
  assert_non_null(strstr(fake_log(), "etf on eth0 runs by clock 1, not by CLOCK_TAI"));
  post_at(times, 1);
  assert_true(kernel.sent[0].time == 0);
}

static void a_kernel_that_does_not_say_is_not_trusted(void **state)
{
  static const uint64_t times[] = {MONOTONIC_NS + 1000};

  (void)state;
  world.errno_of_qdisc = EPERM;
  setup("fq");
  assert_non_null(strstr(fake_log(), "cannot be found: Operation not permitted"));
  post_at(times, 1);
  assert_true(kernel.sent[0].time == 0);
}

static void a_refused_clock_says_what_it_needs(void **state)
{
  (void)state;
  kernel.refused_level = SOL_SOCKET;
  kernel.refused_name = SO_TXTIME;
  kernel.refused_errno = EPERM;
  assert_int_equal(open_sender(LIST({"to", "192.0.2.9:5000"}, {"departure", "etf"})), -EPERM);
  assert_non_null(strstr(fake_log(), "needs CAP_NET_ADMIN (setcap cap_net_admin=ep"));
}

/* Else a machine on which the way to etf takes longer would have each message refused, for ever. */
static void what_etf_refuses_is_given_more_time(void **state)
{
  static const uint64_t at_once[] = {0};
  static const uint64_t margins[] = {100000, 100000, 200000, 187500};

  (void)state;
  setup("etf");
  world.errors[0] = (struct sock_extended_err){.ee_errno = EINVAL,
                                               .ee_origin = SO_EE_ORIGIN_TXTIME,
                                               .ee_code = SO_EE_CODE_TXTIME_INVALID_PARAM};
  for (uint32_t i = 0; i < 4; i++) {
    world.error_count = i > 0; /* once */
    post_at(at_once, 1);
    assert_true(kernel.sent[i].time == TAI_NS + world.passed_ns + 300000 + margins[i]);
    world.passed_ns += 1000000;
  }
  assert_int_equal(counter("departure_refused"), 1);
  world.passed_ns += 1000; /* the look before has made the margin smaller by more */
  post_at(at_once, 1);
  world.passed_ns += 1000;
  post_at(at_once, 1);
  assert_true(kernel.sent[5].time >= kernel.sent[4].time);
}

static void dropped_messages_are_counted_and_told_once(void **state)
{
  const struct sock_extended_err missed = {.ee_errno = ECANCELED,
                                           .ee_origin = SO_EE_ORIGIN_TXTIME,
                                           .ee_code = SO_EE_CODE_TXTIME_MISSED},
                                 invalid = {.ee_errno = EINVAL,
                                            .ee_origin = SO_EE_ORIGIN_TXTIME,
                                            .ee_code = SO_EE_CODE_TXTIME_INVALID_PARAM};

  (void)state;
  setup("etf");
  world.errors[0] = world.errors[2] = missed;
  world.errors[1] = invalid;
  world.error_count = 3; /* no call fails for them: they are looked for */
  assert_int_equal(counter("departure_missed"), 2);
  assert_int_equal(counter("departure_refused"), 1);
  assert_int_equal(counter("unreachable"), 0);
  const char *first = strstr(fake_log(), "give it a larger `delta`");
  assert_non_null(first);
  assert_null(strstr(first + 1, "give it a larger `delta`"));
  assert_non_null(strstr(fake_log(), "they are sent again, later"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, reset_world, teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(each_time_has_a_buffer_of_its_own),
      CASE(rtp_has_the_departure_as_its_time),
      CASE(etf_gets_times_by_its_clock_and_none_too_early),
      CASE(errors_are_read_as_messages_go),
      CASE(off_refuses_times),
      CASE(without_the_discipline_it_is_said_and_nothing_breaks),
      CASE(etf_by_another_clock_is_not_used),
      CASE(a_kernel_that_does_not_say_is_not_trusted),
      CASE(a_refused_clock_says_what_it_needs),
      CASE(what_etf_refuses_is_given_more_time),
      CASE(dropped_messages_are_counted_and_told_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
