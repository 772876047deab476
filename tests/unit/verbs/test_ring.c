/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: what of them is registered, how endpoints share slots, and which tokens release takes. */
#include <stdio.h>

#include "ops.h"
#include "srq.h"
#include "support.h"

#define ADDRESS UINT64_C(0x5000000) /* of what is registered, to the device */
#define ENDS 4u

static struct {
  const struct pst_region *region;
  uint64_t offset, length;
  int access, rc;
  bool may_share;
  uint32_t opened, closed;
  int page_node; /* of the ring's first page */
} fake;

static struct pst_region region;
static uint8_t bytes[16];
static struct pst_ring_params params;
static struct pst_path_info path;
static struct pst_ring *opened;
static struct pst_endpoint ends[ENDS];
static struct vb_rx rxs[ENDS];
static struct vb_own_slots owns[ENDS];
static uint64_t tokens[SLOTS];

int __wrap_vb_mr_register(const struct pst_host *host, struct vb_mrs *mrs,
                          const struct pst_region *of, uint64_t offset, uint64_t length, int access,
                          bool may_share, struct vb_mr *out, char reason[160]);
void __wrap_vb_mr_close(struct vb_mr *mr);
int __wrap_vb_numa_of_page(const void *at);

int __wrap_vb_mr_register(const struct pst_host *host, struct vb_mrs *mrs,
                          const struct pst_region *of, uint64_t offset, uint64_t length, int access,
                          bool may_share, struct vb_mr *out, char reason[160])
{
  (void)host;
  assert_ptr_equal(mrs, &device.own.mrs);
  fake.region = of;
  fake.offset = offset;
  fake.length = length;
  fake.access = access;
  fake.may_share = may_share;
  if (fake.rc < 0) {
    snprintf(reason, 160, "no dma-buf");
    return fake.rc;
  }
  fake.opened++;
  *out = (struct vb_mr){
      .mr = memory.verbs.mr, .address = ADDRESS, .path = PST_PATH_DIRECT, .via = "dma-buf"};
  return 0;
}

void __wrap_vb_mr_close(struct vb_mr *mr)
{
  fake.closed += mr->mr != NULL;
}

int __wrap_vb_numa_of_page(const void *at)
{
  assert_ptr_equal(at, bytes + 8);
  return fake.page_node;
}

static int limits(struct pst_device *of, struct pst_limits *out)
{
  assert_ptr_equal(of, &device);
  out->capabilities = PST_CAP_SHARED_RING;
  out->message_max = 1024;
  out->slot_alignment = 1;
  out->slots_min = 2;
  out->slots_max = SLOTS;
  return 0;
}

static int begin(void **state)
{
  (void)state;
  start_support(1);
  memset(&fake, 0, sizeof(fake));
  memset(ends, 0, sizeof(ends));
  memset(&path, 0, sizeof(path));
  transport.limits = limits;
  device.numa_node = -1;
  region = (struct pst_region){.struct_size = sizeof(region), .host = bytes};
  memory.access |= PST_ACCESS_RING;
  memory.length = 8192;
  memory.offset = 4;
  memory.region = &region;
  params = (struct pst_ring_params){.struct_size = sizeof(params),
                                    .slots = SLOTS,
                                    .mr = &memory,
                                    .base = 4,
                                    .stride = 512,
                                    .payload_max = 256,
                                    .headroom = 32,
                                    .tailroom = 16,
                                    .endpoints = 2};
  path.struct_size = sizeof(path);
  opened = NULL;
  return 0;
}

static void leave(uint32_t i)
{
  if (!ends[i].rx)
    return;
  vb_ring_unshare(rxs[i].ring, &ends[i]);
  ends[i].rx = NULL;
}

static int end(void **state)
{
  for (uint32_t i = 0; i < ENDS; i++)
    leave(i);
  vb_ring_close(&worker, opened);
  free(worker.rings.all);
  free(worker.endpoints.all);
  assert_int_equal(fake.opened, fake.closed);
  return stop_support(state);
}

static struct pst_ring *open_ring(void)
{
  struct pst_ring *made = NULL;

  assert_int_equal(vb_ring_open(&worker, &params, &path, &made), 0);
  return made;
}

/* All that is back. */
static void grant(uint32_t i)
{
  while (rxs[i].back.count)
    vb_slot_fifo_move(&rxs[i].back, &rxs[i].own->line);
}

/* An endpoint of the worker that has its share of that ring. */
static void join(uint32_t i, struct pst_ring *of, bool sends)
{
  owns[i] = (struct vb_own_slots){0};
  rxs[i] = (struct vb_rx){.sends = sends, .own = &owns[i]};
  ends[i] = (struct pst_endpoint){.worker = &worker, .device = &device, .rx = &rxs[i]};
  assert_int_equal(pst_places_take(&worker.endpoints, &ends[i], VB_PLACES, &ends[i].place), 0);
  assert_int_equal(vb_ring_share(of, &ends[i]), 0);
  grant(i);
}

static void part(uint32_t i)
{
  pst_places_give(&worker.endpoints, ends[i].place);
  leave(i);
}

/* A message has filled its next slot. */
static uint64_t fill(uint32_t i)
{
  struct pst_ring *of = rxs[i].ring;
  const uint32_t slot = vb_slot_fifo_get(&rxs[i].own->line);

  vb_bits_set(rxs[i].own->held, slot, 1);
  return pst_token(of->place, slot);
}

static void fill_some(uint32_t i, uint32_t n)
{
  for (uint32_t k = 0; k < n; k++)
    tokens[k] = fill(i);
}

static void begin_shared_by(uint32_t n)
{
  params.endpoints = n;
  opened = open_ring();
  for (uint32_t i = 0; i < n; i++)
    join(i, opened, false);
}

/* The k-th of a line. */
static uint32_t slot_at(const struct vb_slot_fifo *line, uint32_t k)
{
  const struct vb_slot_run *slots = vb_slot_fifo_first(line);

  while (k >= slots->count)
    k -= slots++->count; /* which is not at the end of its room */
  return slots->first + k;
}

static uint32_t back_at(uint32_t i, uint32_t k)
{
  return slot_at(&rxs[i].back, k);
}

static void expect_refused(uint64_t token)
{
  char text[64];

  fake_log_clear();
  assert_int_equal(vb_release(&worker, &token, 1), -EINVAL);
  snprintf(text, sizeof(text), "token 0x%llx is not out", (unsigned long long)token);
  assert_non_null(strstr(fake_log(), text));
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* So that a peer writes nowhere else. */
static void the_slots_alone_are_registered(void **state)
{
  (void)state;
  device.relaxed = IBV_ACCESS_RELAXED_ORDERING;
  opened = open_ring();
  assert_ptr_equal(fake.region, &region);
  assert_int_equal(fake.offset, 4 + 4);
  assert_int_equal(fake.length, 7 * 512 + 32 + 256 + 16);
  assert_int_equal(fake.access,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  assert_true(fake.may_share);
  assert_int_equal(opened->base, ADDRESS + 32);
  assert_int_equal(path.path, PST_PATH_DIRECT);
  assert_string_equal(path.via, "dma-buf");
  assert_string_equal(path.reason, "");
}

/* As one that is there already, then. */
static void a_ring_of_the_whole_range_is_registered_as_that(void **state)
{
  const uint64_t length = 7 * 512 + 32 + 256 + 16;
  const struct {
    uint64_t base, memory, registered;
  } table[] = {{0, length, length},
               {0, length + 511, length + 511},
               {0, length + 512, length}, /* a slot more would fit */
               {4, length + 4, length}};

  for (uint32_t i = 0; i < 4; i++) {
    end(state);
    begin(state);
    memory.length = table[i].memory;
    params.base = table[i].base;
    opened = open_ring();
    assert_int_equal(fake.offset, 4 + params.base);
    assert_int_equal(fake.length, table[i].registered);
  }
}

static void expect_no_ring(int rc)
{
  struct pst_ring *made = &ring;

  assert_int_equal(vb_ring_open(&worker, &params, &path, &made), rc);
  assert_ptr_equal(made, &ring);
  assert_int_equal(fake.opened, 0);
  for (uint32_t i = 0; i < worker.rings.room; i++)
    assert_null(worker.rings.all[i].at);
}

static void rings_are_checked(void **state)
{
  (void)state;
  params.payload_max = 0;
  expect_no_ring(-EINVAL);
  assert_non_null(strstr(fake_log(), "its messages are empty"));
  params.payload_max = 1025;
  params.stride = 2048;
  expect_no_ring(-EINVAL);
  params.payload_max = 256;
  params.slots = SLOTS + 1;
  expect_no_ring(-EINVAL);
  params.slots = SLOTS;
  expect_no_ring(-EINVAL); /* beyond the registration */
  params.stride = 512;
  params.mr = NULL;
  fake_log_clear();
  expect_no_ring(-EINVAL);
  assert_non_null(strstr(fake_log(), "its registration lacks the access"));
  params.mr = &memory;
  memory.access &= ~(uint32_t)PST_ACCESS_RING;
  expect_no_ring(-EINVAL);
}

static void memory_that_cannot_be_registered_says_why(void **state)
{
  (void)state;
  fake.rc = -ENOMEM;
  expect_no_ring(-ENOMEM);
  assert_string_equal(path.reason, "");
  fake.rc = -EOPNOTSUPP; /* the host tries another way, and reports this one */
  expect_no_ring(-EOPNOTSUPP);
  assert_string_equal(path.reason, "no dma-buf");
  fake.rc = 0;
  opened = open_ring();
}

static void a_worker_has_so_many_rings_and_no_more(void **state)
{
  struct pst_ring *made = &ring;

  (void)state;
  worker.rings.all = calloc(VB_PLACES, sizeof(*worker.rings.all));
  worker.rings.room = VB_PLACES;
  assert_non_null(worker.rings.all);
  for (uint32_t i = 0; i < VB_PLACES; i++)
    worker.rings.all[i].at = &ring;
  assert_int_equal(vb_ring_open(&worker, &params, &path, &made), -ENOSPC);
  assert_ptr_equal(made, &ring);
  assert_int_equal(fake.opened, 1);
  assert_int_equal(fake.closed, 1);
}

static void a_short_ring_is_told_how_long_to_be(void **state)
{
  (void)state;
  static struct vb_port port = {.mbps = 400000};
  device.open.port = &port;
  opened = open_ring();
  assert_non_null(strstr(fake_log(), "lasts 0.0 us at the 400 Gbit/s of fake0"));
  assert_non_null(strstr(fake_log(), "`ring: 32768` lasts 168 us"));
  for (uint32_t i = 0; i < 3; i++) {
    vb_ring_close(&worker, opened);
    fake_log_clear();
    device.plan.flags = i == 0 ? PST_PLAN_PEERS : 0;
    port.mbps = i == 1 ? 0 : i == 2 ? 160 : 400000; /* unknown; 8 slots last 102 us */
    opened = open_ring();
    assert_string_equal(fake_log(), "");
  }
}

static void memory_of_another_numa_node_is_told_once(void **state)
{
  (void)state;
  fake.page_node = 1;
  opened = open_ring(); /* where the adapter is, is not known */
  device.numa_node = 1;
  struct pst_ring *near = open_ring();
  device.numa_node = 0;
  memory.is_cpu_readable = false;
  struct pst_ring *gpu = open_ring();
  assert_string_equal(fake_log(), "");
  memory.is_cpu_readable = true;
  struct pst_ring *far = open_ring();
  assert_non_null(strstr(fake_log(), "a ring lies in memory of NUMA node 1, and fake0 is on"));
  fake_log_clear();
  struct pst_ring *more = open_ring();
  assert_string_equal(fake_log(), "");
  vb_ring_close(&worker, near);
  vb_ring_close(&worker, gpu);
  vb_ring_close(&worker, far);
  vb_ring_close(&worker, more);
}

/* ---- Shares --------------------------------------------------------------------------------- */

static void endpoints_have_equal_shares(void **state)
{
  static const uint32_t shares[] = {3, 3, 2};

  (void)state;
  begin_shared_by(3);
  uint32_t from = 0;
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(rxs[i].share, shares[i]);
    assert_int_equal(rxs[i].own->line.count, shares[i]);
    for (uint32_t k = 0; k < shares[i]; k++) {
      assert_int_equal(slot_at(&rxs[i].own->line, k), from);
      assert_int_equal(opened->owners[from++], ends[i].place);
    }
  }
  assert_int_equal(opened->free_count, 0);
  join(3, opened, false); /* more than it was opened for */
  assert_int_equal(rxs[3].share, 0);
}

static void slots_of_one_that_closes_are_the_next_ones(void **state)
{
  (void)state;
  begin_shared_by(2);
  fill_some(0, 1);
  part(0);
  assert_int_equal(opened->free_count, 3); /* the host has one */
  for (uint32_t i = 0; i < SLOTS; i++)
    assert_int_equal(opened->owners[i], i < 4 ? PST_PLACE_NONE : ends[1].place);
  join(0, opened, false);
  assert_int_equal(rxs[0].share, 3);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(slot_at(&rxs[0].own->line, i), i + 1);
  assert_int_equal(rxs[1].own->line.count, 4); /* as before */
  part(1);
  part(0);
  join(0, opened, false); /* half of them: another is to come */
  assert_int_equal(rxs[0].share, 4);
}

/* ---- Release -------------------------------------------------------------------------------- */

static void credit_follows_in_the_order_of_release(void **state)
{
  static const uint32_t order[] = {2, 0, 3, 1};
  uint64_t some[4];

  (void)state;
  begin_shared_by(1);
  fill_some(0, 4);
  for (uint32_t i = 0; i < 4; i++)
    some[i] = tokens[order[i]];
  assert_int_equal(vb_release(&worker, some, 4), 0);
  assert_int_equal(rxs[0].back.count, 4);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(back_at(0, i), order[i]);
    assert_false(vb_bits_has(rxs[0].own->held, i));
  }
  assert_ptr_equal(worker.pending, &ends[0]); /* half of the slots: the sender is to hear of it */
  assert_int_equal(vb_release(&worker, NULL, 0), 0);
}

static void credit_waits_until_it_is_worth_a_message(void **state)
{
  (void)state;
  begin_shared_by(1);
  fill_some(0, 4);
  for (uint32_t i = 0; i < 2; i++) { /* the sender has half of the slots, and no quarter is back */
    assert_int_equal(vb_release(&worker, tokens + i, 1), 0);
    assert_null(worker.pending);
    grant(0);
  }
  assert_int_equal(vb_release(&worker, tokens + 2, 1), 0);
  assert_null(worker.pending);
  assert_int_equal(vb_release(&worker, tokens + 3, 1), 0);
  assert_ptr_equal(worker.pending, &ends[0]);
}

static void a_token_is_taken_once(void **state)
{
  (void)state;
  begin_shared_by(1);
  fill_some(0, 4);
  assert_int_equal(vb_release(&worker, tokens, 1), 0);
  expect_refused(tokens[0]); /* the first of its endpoint goes another way */
  assert_int_equal(vb_release(&worker, tokens + 1, 1), 0);
  expect_refused(tokens[1]);
  tokens[4] = tokens[3];
  assert_int_equal(vb_release(&worker, tokens + 2, 3), -EINVAL); /* twice in one call */
  assert_int_equal(rxs[0].back.count, 4);                        /* those before it are back */
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(back_at(0, i), i);
}

static void what_is_behind_a_refused_token_stays_out(void **state)
{
  (void)state;
  begin_shared_by(1);
  fill_some(0, 3);
  const uint64_t some[] = {tokens[0], tokens[0], tokens[1]};
  assert_int_equal(vb_release(&worker, some, 3), -EINVAL);
  assert_int_equal(vb_release(&worker, tokens + 1, 2), 0);
  assert_int_equal(rxs[0].back.count, 3);
}

static void tokens_that_were_never_given_are_refused(void **state)
{
  (void)state;
  params.slots = 5;
  begin_shared_by(2); /* 3, and 2 */
  fill_some(0, 1);
  expect_refused(pst_token(opened->place, 1)); /* granted to the peer */
  expect_refused(pst_token(opened->place, 5)); /* beyond the slots */
  expect_refused(pst_token(opened->place, UINT32_MAX));
  expect_refused(pst_token(opened->place + 1, 0)); /* of no ring */
  expect_refused(pst_token(opened->place + PST_PLACE_MASK + 1, 0));
  expect_refused(UINT64_MAX);
  part(1);
  expect_refused(pst_token(opened->place, 3)); /* free */
  assert_int_equal(rxs[0].back.count, 0);
  assert_int_equal(vb_release(&worker, tokens, 1), 0);
  expect_refused(pst_token(opened->place, 1)); /* of the one that was released last */
  expect_refused(pst_token(opened->place, 5));
}

static void tokens_of_a_ring_that_is_closed_are_refused(void **state)
{
  (void)state;
  begin_shared_by(1);
  fill_some(0, 2);
  assert_int_equal(vb_release(&worker, tokens, 1), 0);
  part(0);
  vb_ring_close(&worker, opened);
  expect_refused(tokens[1]);
  worker.rings.next = 0; /* the next one is in its place */
  begin_shared_by(1);
  fill_some(0, 2);
  expect_refused(tokens[1] - (UINT64_C(1) << (32 + PST_PLACE_BITS)));
  assert_int_equal(vb_release(&worker, tokens, 2), 0);
}

static void tokens_of_several_endpoints_may_alternate(void **state)
{
  (void)state;
  begin_shared_by(2);
  for (uint32_t i = 0; i < 6; i++)
    tokens[i] = fill(i % 2);
  assert_int_equal(vb_release(&worker, tokens, 6), 0);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(rxs[i].back.count, 3);
    for (uint32_t k = 0; k < 3; k++)
      assert_int_equal(back_at(i, k), 4 * i + k);
    assert_true(ends[i].is_pending);
  }
}

static void tokens_of_several_rings_may_alternate(void **state)
{
  (void)state;
  begin_shared_by(1);
  struct pst_ring *other = open_ring();
  join(1, other, false);
  for (uint32_t i = 0; i < 6; i++)
    tokens[i] = fill(i % 2);
  const int rc = vb_release(&worker, tokens, 6);
  const uint32_t second = rxs[1].back.count;
  part(1);
  vb_ring_close(&worker, other);
  assert_int_equal(rc, 0);
  assert_int_equal(rxs[0].back.count, 3);
  assert_int_equal(second, 3);
}

static void what_outlives_its_endpoint_is_free_once_released(void **state)
{
  (void)state;
  begin_shared_by(2);
  fill_some(0, 3);
  assert_int_equal(vb_release(&worker, tokens, 1), 0); /* the ring knows whose it was */
  worker.pending = NULL;
  part(0);
  assert_int_equal(opened->free_count, 2);
  worker.endpoints.next = 0; /* the next one is in its place */
  opened->params.endpoints = 1;
  join(2, opened, false);
  assert_int_equal(rxs[2].share, 2);
  assert_int_equal(vb_release(&worker, tokens + 1, 2), 0);
  assert_int_equal(opened->free_count, 2);
  for (uint32_t i = 1; i < 3; i++)
    assert_int_equal(opened->owners[i], PST_PLACE_NONE);
  assert_int_equal(rxs[1].back.count + rxs[2].back.count, 0);
  assert_null(worker.pending);
  expect_refused(tokens[1]);
}

/* Slots of all: an endpoint has a number of them, and no line. */
static uint64_t fill_shared(uint32_t which, uint32_t slot)
{
  opened->owners[slot] = ends[which].place;
  vb_bits_set(opened->held, slot, 1);
  rxs[which].out++;
  return pst_token(opened->place, slot);
}

static void shared_slots_go_back_to_all(void **state)
{
  uint32_t back[SLOTS] = {0};
  struct vb_srq shared = {.worker = &worker, .size = SLOTS, .posted = SLOTS, .back = back};

  (void)state;
  opened = open_ring();
  opened->shared = &shared;
  join(0, opened, true);
  join(1, opened, true);
  assert_int_equal(rxs[0].share, 4);
  assert_int_equal(rxs[0].own->line.count, 0);
  for (uint32_t i = 0; i < 3; i++)
    tokens[i] = fill_shared(0, 5 - i);
  const int first = vb_release(&worker, tokens, 2), again = vb_release(&worker, tokens, 1);
  const bool is_pending = ends[0].is_pending;
  const uint32_t out = rxs[0].out, ungranted = rxs[0].ungranted;
  part(0);
  const uint32_t free_count = opened->free_count;
  const int last = vb_release(&worker, tokens + 2, 1);
  opened->shared = NULL;
  assert_int_equal(first, 0);
  assert_int_equal(again, -EINVAL);
  assert_int_equal(out, 1);
  assert_int_equal(ungranted, 2);
  assert_true(is_pending);
  assert_int_equal(free_count, 3);
  assert_int_equal(last, 0);
  assert_int_equal(opened->free_count, 4);
  assert_int_equal(shared.back_count, 3);
  assert_int_equal(shared.posted, SLOTS - 3);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(back[i], 5 - i);
  assert_ptr_equal(worker.shared_due, &shared);
}

static void shared_slots_of_several_endpoints_may_alternate(void **state)
{
  uint32_t back[SLOTS] = {0};
  struct vb_srq shared = {.worker = &worker, .size = SLOTS, .posted = SLOTS, .back = back};

  (void)state;
  opened = open_ring();
  opened->shared = &shared;
  join(0, opened, true);
  join(1, opened, true);
  for (uint32_t i = 0; i < 5; i++)
    tokens[i] = fill_shared(i % 3 == 2, i); /* 0 0 1 0 0 */
  tokens[5] = tokens[1];
  const int all = vb_release(&worker, tokens, 6); /* the last one twice in one call */
  const int beyond = vb_release(&worker, &(uint64_t){pst_token(opened->place, SLOTS)}, 1);
  opened->shared = NULL;
  assert_int_equal(all, -EINVAL);
  assert_int_equal(beyond, -EINVAL);
  assert_int_equal(shared.back_count, 5);
  assert_int_equal(shared.posted, SLOTS - 5);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(back[i], i);
  assert_int_equal(rxs[0].out, 0);
  assert_int_equal(rxs[0].ungranted, 4);
  assert_int_equal(rxs[1].out, 0);
  assert_int_equal(rxs[1].ungranted, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(the_slots_alone_are_registered),
      CASE(a_ring_of_the_whole_range_is_registered_as_that),
      CASE(rings_are_checked),
      CASE(memory_that_cannot_be_registered_says_why),
      CASE(a_worker_has_so_many_rings_and_no_more),
      CASE(a_short_ring_is_told_how_long_to_be),
      CASE(memory_of_another_numa_node_is_told_once),
      CASE(endpoints_have_equal_shares),
      CASE(slots_of_one_that_closes_are_the_next_ones),
      CASE(credit_follows_in_the_order_of_release),
      CASE(credit_waits_until_it_is_worth_a_message),
      CASE(a_token_is_taken_once),
      CASE(what_is_behind_a_refused_token_stays_out),
      CASE(tokens_that_were_never_given_are_refused),
      CASE(tokens_of_a_ring_that_is_closed_are_refused),
      CASE(tokens_of_several_endpoints_may_alternate),
      CASE(tokens_of_several_rings_may_alternate),
      CASE(what_outlives_its_endpoint_is_free_once_released),
      CASE(shared_slots_go_back_to_all),
      CASE(shared_slots_of_several_endpoints_may_alternate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
