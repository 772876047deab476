/* SPDX-License-Identifier: Apache-2.0 */
/* Offers of another process: control memory, slots and descriptors, each refused where it could do
 * harm. */
#include "support.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

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
  refused("is not a timerfd");
  close(fds[LB_FD_WAKE]);
  fds[LB_FD_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* a full one makes its writers wait */
  refused("is not a timerfd");
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
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
