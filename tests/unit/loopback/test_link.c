/* SPDX-License-Identifier: Apache-2.0 */
/* What another process offers: control memory, slots and descriptors, each refused where it could
 * harm; and memory that is taken away after it was mapped. */
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

#define SLOTS 4u
#define RING_BYTES 65536u

static struct lb_address address;
static int32_t fds[4];

static int sealed(uint64_t bytes, int seals)
{
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

/* One that is accepted. */
static int good(void **state)
{
  uint64_t capacity;
  (void)state;
  address = (struct lb_address){.id = 5,
                                .slots = SLOTS,
                                .port_bytes = lb_port_bytes(SLOTS, &capacity),
                                .ring_offset = 100,
                                .stride = 16000,
                                .payload_max = 15000};
  fds[LB_FD_PROCESS] = -1;
  fds[LB_FD_WAKE] = lb_wake_open();
  fds[LB_FD_PORT] = sealed(address.port_bytes, F_SEAL_SHRINK);
  fds[LB_FD_RING] = sealed(RING_BYTES, F_SEAL_SHRINK);
  return 0;
}

static int closed(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++)
    close(fds[i]);
  return 0;
}

static uint64_t most = UINT64_C(1) << 30;

static int map(struct lb_link **link, const char **why)
{
  *why = "";
  return lb_link_map(&address, fds, most, link, why);
}

static void refused(const char *expected)
{
  struct lb_link *link = NULL;
  const char *why;
  assert_int_equal(map(&link, &why), -EPROTO);
  assert_null(link);
  if (!strstr(why, expected))
    fail_msg("\"%s\" is not in: %s", expected, why);
}

static void good_address_is_mapped(void **state)
{
  struct lb_link *link = NULL;
  const char *why;

  (void)state;
  assert_int_equal(map(&link, &why), 0);
  assert_int_equal(link->mask, 3);
  assert_int_equal(link->slots, SLOTS);
  assert_int_equal(link->stride, 16000);
  link->slot0[3 * 16000 + 14999] = 9; /* the last byte */
  uint8_t last = 0;
  assert_int_equal(pread(fds[LB_FD_RING], &last, 1, 100 + 3 * 16000 + 14999), 1);
  assert_int_equal(last, 9);
  assert_ptr_equal(link->free_slots, link->desc + 4);
  lb_link_unref(link);
}

static void control_memory_has_the_size_of_its_slots(void **state)
{
  uint64_t capacity;

  (void)state;
  assert_int_equal(lb_port_bytes(5, &capacity), sizeof(struct lb_port) + 8 * (32 + 4));
  assert_int_equal(capacity, 8);
  assert_int_equal(lb_port_bytes(0, &capacity), sizeof(struct lb_port));
  address.port_bytes++;
  refused("does not have the size that its slots need");
  address.port_bytes--;
  address.slots = SLOTS + 1;
  refused("does not have the size that its slots need");
  address.slots = LB_SLOTS_MAX + 1;
  address.port_bytes = lb_port_bytes(address.slots, &capacity);
  refused("or they are too many");
}

static void control_memory_that_may_shrink_is_refused(void **state)
{
  (void)state;
  close(fds[LB_FD_PORT]);
  fds[LB_FD_PORT] = sealed(address.port_bytes, F_SEAL_GROW);
  refused("not sealed against shrinking");
  close(fds[LB_FD_PORT]);
  fds[LB_FD_PORT] = sealed(address.port_bytes - 1, F_SEAL_SHRINK);
  refused("shorter than its address says");
}

static void slots_lie_in_their_memory_to_the_byte(void **state)
{
  struct lb_link *link = NULL;
  const char *why;

  (void)state;
  address.ring_offset = RING_BYTES - (3 * 16000 + 15000);
  assert_int_equal(map(&link, &why), 0);
  lb_link_unref(link);
  address.ring_offset++;
  refused("shorter than its address says");
}

static void slots_that_make_no_sense_are_refused(void **state)
{
  const struct lb_address right = address;

  (void)state;
  address.payload_max = 16001; /* over the next slot */
  refused("make no sense");
  address = right;
  address.stride = UINT64_MAX / 3 + 1;
  refused("make no sense");
  address = right;
  address.stride = UINT64_MAX / 3;
  refused("make no sense");
  address = right;
  address.ring_offset = UINT64_MAX - 1000;
  refused("make no sense");
  address = right;
  address.stride = address.payload_max = LB_BYTES_MAX + 1;
  refused("make no sense");
}

static void more_than_this_end_can_have_under_way_is_refused(void **state)
{
  struct lb_link *link = NULL;
  const char *why;

  (void)state;
  most = address.port_bytes + 3 * 16000 + 15000;
  assert_int_equal(map(&link, &why), 0);
  lb_link_unref(link);
  most--;
  refused("more than this end can ever have under way");
  most = UINT64_C(1) << 30;
}

static void wake_up_is_a_timerfd(void **state)
{
  (void)state;
  close(fds[LB_FD_WAKE]);
  fds[LB_FD_WAKE] = sealed(8, F_SEAL_SHRINK);
  refused("is no timerfd");
  close(fds[LB_FD_WAKE]);
  fds[LB_FD_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* a full one makes its writers wait */
  refused("is no timerfd");
}

/* ---- Memory that is taken away -----------------------------------------------------------------
 */

/* Pages of a file that was cut short: touching them is SIGBUS. */
static void *gone(uint64_t bytes)
{
  int fd = memfd_create("test", MFD_CLOEXEC);
  assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_true(at != MAP_FAILED);
  memset(at, 1, bytes);
  assert_int_equal(ftruncate(fd, 0), 0);
  close(fd);
  return at;
}

static void guarded_pages_become_zeros_and_are_marked(void **state)
{
  const uint64_t page = pst_page_size();
  struct lb_guard *hit, *other;
  uint8_t *at = gone(2 * page), *untouched = gone(page);
  uint32_t hits = lb_guard_hits;

  (void)state;
  /* Rounded to pages, at both ends. */
  assert_int_equal(lb_guard_open(at + 10, page, 0, &hit), 0);
  assert_int_equal(lb_guard_open(untouched, page, 0, &other), 0);
  assert_false(lb_guard_hit(hit));
  volatile uint8_t *bytes = at;
  assert_int_equal(bytes[2 * page - 1], 0);
  assert_int_equal(bytes[0], 0);
  bytes[5] = 7;
  assert_int_equal(bytes[5], 7);
  assert_true(lb_guard_hit(hit));
  assert_false(lb_guard_hit(other));
  assert_int_equal(lb_guard_hits, hits + 1);
  lb_guard_close(hit);
  lb_guard_close(other);
  munmap(at, 2 * page);
  munmap(untouched, page);
}

static void overlapping_guards_are_all_marked(void **state)
{
  const uint64_t page = pst_page_size();
  struct lb_guard *first, *second;
  volatile uint8_t *at = gone(2 * page);

  (void)state;
  assert_int_equal(lb_guard_open((void *)(uintptr_t)at, 2 * page, 0, &first), 0);
  assert_int_equal(lb_guard_open((void *)(uintptr_t)(at + page), page, 0, &second), 0);
  assert_int_equal(at[page], 0);
  assert_true(lb_guard_hit(first));
  assert_true(lb_guard_hit(second));
  lb_guard_close(first);
  lb_guard_close(second);
  munmap((void *)(uintptr_t)at, 2 * page);
}

static volatile sig_atomic_t passed;
static sigjmp_buf back;

static void host_handler(int number)
{
  (void)number;
  passed++;
  siglongjmp(back, 1);
}

/* A fault of the host's own is the host's; and its handler is there again afterwards. */
static void faults_elsewhere_are_passed_on(void **state)
{
  const uint64_t page = pst_page_size();
  struct sigaction own = {.sa_handler = host_handler}, before, now;
  struct lb_guard *guard;
  volatile uint8_t *guarded = gone(page), *elsewhere = gone(page);

  (void)state;
  passed = 0;
  assert_int_equal(sigaction(SIGBUS, &own, &before), 0);
  assert_int_equal(lb_guard_open((void *)(uintptr_t)guarded, page, 0, &guard), 0);
  if (sigsetjmp(back, 1) == 0) {
    (void)elsewhere[0];
    fail();
  }
  assert_int_equal(passed, 1);
  assert_false(lb_guard_hit(guard));
  assert_int_equal(guarded[0], 0);
  assert_int_equal(passed, 1);
  lb_guard_close(guard);
  assert_int_equal(sigaction(SIGBUS, &before, &now), 0);
  assert_ptr_equal(now.sa_handler, host_handler);
  munmap((void *)(uintptr_t)guarded, page);
  munmap((void *)(uintptr_t)elsewhere, page);
}

/* ---- Gates
 * ------------------------------------------------------------------------------------------ */

static void shut_gate_lets_nobody_in(void **state)
{
  struct lb_mr mr = {.access = PST_ACCESS_REMOTE_READ, .gate = {.open = 1}};
  struct pst_remote remote = {.mr = &mr, .gate = &mr.gate};

  (void)state;
  lb_seat_take(&remote, NULL);
  assert_true(lb_seat_in(&remote, true));
  assert_int_equal(remote.own_seat.inside, 1);
  lb_seat_out(&remote);
  assert_int_equal(remote.own_seat.inside, 0);
  assert_true(lb_gate_enter(&mr.gate));
  assert_int_equal(mr.gate.inside, 1);
  mr.gate.inside = 0;
  lb_gates_shut(&mr);
  assert_false(lb_seat_in(&remote, true));
  assert_int_equal(remote.own_seat.inside, 0); /* else its owner waits for ever */
  assert_false(lb_gate_enter(&mr.gate));
  assert_int_equal(mr.gate.inside, 0);
  lb_seat_leave(&remote);
  assert_null(mr.seated);
}

static void seats_of_a_page_are_one_each_and_then_counted(void **state)
{
  static struct lb_gate_page page;
  struct pst_remote remotes[LB_SEATS + 1];

  (void)state;
  memset(remotes, 0, sizeof(remotes));
  atomic_store(&page.gate.open, 1);
  for (uint32_t i = 0; i <= LB_SEATS; i++) {
    remotes[i].gate = &page.gate;
    lb_seat_take(&remotes[i], &page);
    assert_ptr_equal(remotes[i].seat, i < LB_SEATS ? &page.seats[i].seat : NULL);
  }
  assert_true(lb_seat_in(&remotes[LB_SEATS], true));
  assert_int_equal(page.gate.inside, 1);
  lb_seat_out(&remotes[LB_SEATS]);
  assert_int_equal(page.gate.inside, 0);
  lb_seat_leave(&remotes[7]);
  remotes[LB_SEATS].seat = NULL;
  lb_seat_take(&remotes[LB_SEATS], &page);
  assert_ptr_equal(remotes[LB_SEATS].seat, &page.seats[7].seat);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, good, closed)
  const struct CMUnitTest tests[] = {
      CASE(good_address_is_mapped),
      CASE(control_memory_has_the_size_of_its_slots),
      CASE(control_memory_that_may_shrink_is_refused),
      CASE(slots_lie_in_their_memory_to_the_byte),
      CASE(slots_that_make_no_sense_are_refused),
      CASE(more_than_this_end_can_have_under_way_is_refused),
      CASE(wake_up_is_a_timerfd),
      cmocka_unit_test(guarded_pages_become_zeros_and_are_marked),
      cmocka_unit_test(overlapping_guards_are_all_marked),
      cmocka_unit_test(faults_elsewhere_are_passed_on),
      cmocka_unit_test(shut_gate_lets_nobody_in),
      cmocka_unit_test(seats_of_a_page_are_one_each_and_then_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
