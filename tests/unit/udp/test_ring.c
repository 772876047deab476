/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, registrations, rings and tokens: what fits, what is refused, and what stays apart. */
#include "support.h"

static int try_ring(struct pst_ring_params params)
{
  struct pst_ring *ring = NULL;
  params.struct_size = sizeof(params);
  int rc = udp_ring_open(rig.worker, &params, NULL, &ring);
  assert_true((rc == 0) == (ring != NULL));
  udp_ring_close(rig.worker, ring);
  return rc;
}

static void ring_lies_in_its_registration_to_the_byte(void **state)
{
  struct pst_ring_params fits, more;

  (void)state;
  setup_sender(LIST());
  /* 8 slots of 256 but for 56 behind the last payload. */
  fits = (struct pst_ring_params){.slots = 8,
                                  .mr = rig.mr,
                                  .base = 48,
                                  .stride = 256,
                                  .payload_max = 200,
                                  .headroom = 8,
                                  .endpoints = 1};
  assert_int_equal(try_ring(fits), 0);
#define REFUSED(change)                                                                            \
  do {                                                                                             \
    more = fits;                                                                                   \
    change;                                                                                        \
    assert_int_equal(try_ring(more), -EINVAL);                                                     \
  } while (0)
  REFUSED(more.base = 49);
  REFUSED(more.headroom = 9);
  REFUSED(more.slots = 9);
  REFUSED(more.stride = 207); /* slots would overlap */
  REFUSED(more.slots = 0);
  REFUSED(more.slots = PST_CPU_SLOTS_MAX + 1);
  REFUSED(more.mr = NULL);
  REFUSED(more.endpoints = 2);
  REFUSED(more.endpoints = 0);
  /* Sums that are more than 64 bits have. */
  REFUSED(more.payload_max = UINT64_MAX);
  REFUSED(more.base = UINT64_MAX - 100);
  REFUSED(more.stride = UINT64_MAX / 7 + 1);
  REFUSED((more.slots = 1, more.stride = UINT64_MAX, more.payload_max = UINT64_C(1) << 32));
  pst_cpu_mr_of(rig.mr)->access = PST_ACCESS_LOCAL_READ;
  REFUSED();
}

static void rtp_needs_room_behind_payloads(void **state)
{
  struct pst_ring_params params = {.slots = 4, .stride = 512, .payload_max = 200, .endpoints = 1};

  (void)state;
  setup_sender(LIST({"framing", "rtp"}));
  params.mr = rig.mr;
  params.tailroom = DG_RTP_TAILROOM - 1;
  assert_int_equal(try_ring(params), -EINVAL);
  assert_non_null(strstr(fake_log(), "its slots lack the headroom or tailroom"));
  params.tailroom++;
  assert_int_equal(try_ring(params), 0);
}

static void token_is_taken_once(void **state)
{
  (void)state;
  setup_receiver(LIST());
  connect_foreign();
  arrive(0, 1, 0, 10);
  assert_int_equal(poll_up_to(8), 1);
  uint64_t token = polled[0].u.message.token;
  assert_int_equal(release_token(token + 1), -EINVAL);                 /* a slot that is not out */
  assert_int_equal(release_token(token + SLOTS), -EINVAL);             /* no slot */
  assert_int_equal(release_token(token | UINT64_C(1) << 32), -EINVAL); /* no ring */
  assert_int_equal(release_token(token), 0);
  assert_int_equal(release_token(token), -EINVAL);
  assert_non_null(strstr(fake_log(), "a bug of the host"));
}

/* A ring in the place of one that is closed has other tokens. */
static void token_of_a_ring_that_is_closed_is_no_token_of_the_next(void **state)
{
  struct pst_ring *first, *second, *third;

  (void)state;
  setup_sender(LIST());
  assert_int_equal(open_ring(2, &first), 0);
  assert_int_equal(open_ring(2, &second), 0);
  assert_int_not_equal(first->cpu.number, second->cpu.number);
  const uint64_t token = pst_token(first->cpu.number, 0);
  first->cpu.slots.out[pst_slots_take(&first->cpu.slots)] = 1;
  udp_ring_close(rig.worker, first);
  rig.worker->rings.next = 0; /* else the place is not the next one's */
  assert_int_equal(open_ring(2, &third), 0);
  assert_int_equal(third->cpu.number & PST_PLACE_MASK, token >> 32);
  third->cpu.slots.out[pst_slots_take(&third->cpu.slots)] = 1;
  assert_int_equal(third->cpu.slots.out[0], 1);
  assert_int_equal(release_token(token), -EINVAL);
  assert_int_equal(release_token(pst_token(third->cpu.number, 0)), 0);
}

static void registration_lies_in_its_region(void **state)
{
  struct pst_region region = {
      .struct_size = sizeof(region), .host = rig.memory, .length = sizeof(rig.memory)};
  struct pst_mr_params params = {.struct_size = sizeof(params), .region = &region};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_mr *mr = NULL;

  (void)state;
  setup_sender(LIST());
  params.access = PST_ACCESS_LOCAL_READ;
  params.offset = 100;
  params.length = sizeof(rig.memory) - 100;
  assert_int_equal(udp_mr_register(rig.device, &params, &mr), 0);
  assert_ptr_equal(pst_cpu_mr_of(mr)->base, rig.memory + 100);
  pst_cpu_mr_deregister(rig.device, mr);
  params.length++;
  assert_int_equal(udp_mr_register(rig.device, &params, &mr), -EINVAL);
  params.offset = UINT64_MAX;
  assert_int_equal(udp_mr_register(rig.device, &params, &mr), -EINVAL);
  params.offset = params.length = 0;
  params.access = PST_ACCESS_RING << 1;
  assert_int_equal(udp_mr_register(rig.device, &params, &mr), -EINVAL);
  params.access = PST_ACCESS_LOCAL_READ;
  region.host = NULL;
  params.path = &path;
  fake_log_clear();
  assert_int_equal(udp_mr_register(rig.device, &params, &mr), -EOPNOTSUPP);
  assert_non_null(strstr(path.reason, "the CPU can touch"));
  assert_int_equal(path.struct_size, sizeof(path));
  assert_string_equal(fake_log(), ""); /* core may stage */
}

static void limits_follow_the_options(void **state)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  setup_sender(LIST());
  assert_int_equal(udp_limits(rig.device, &limits), 0);
  assert_int_equal(limits.sequence_bits, 32);
  assert_int_equal(limits.message_max, 65507 - 16);
  assert_int_equal(limits.tailroom, 0);
  assert_true(limits.capabilities & PST_CAP_TIME);
  teardown(state);
  reset(state);
  setup_sender(LIST({"framing", "none"}, {"timestamps", "off"}));
  assert_int_equal(udp_limits(rig.device, &limits), 0);
  assert_int_equal(limits.sequence_bits, 0);
  assert_int_equal(limits.message_max, 65507);
  assert_int_equal(limits.capabilities,
                   UDP_CAPABILITIES & ~(uint64_t)(PST_CAP_SEQUENCE | PST_CAP_TIME));
}

static void endpoint_that_cannot_be_is_refused(void **state)
{
  struct pst_endpoint_params good = {.struct_size = sizeof(good),
                                     .roles = PST_ROLE_RECEIVER,
                                     .cookie = 7,
                                     .options = FAKE_OPTIONS(LIST()),
                                     .message_max = PAYLOAD};
  struct pst_endpoint_params params;
  struct pst_endpoint *endpoint;

  (void)state;
  setup_receiver(LIST());
  good.ring = rig.ring;
#define NO_ENDPOINT(change, why)                                                                   \
  do {                                                                                             \
    params = good;                                                                                 \
    change;                                                                                        \
    fake_log_clear();                                                                              \
    assert_int_equal(udp_endpoint_open(rig.worker, &params, &endpoint), -EINVAL);                  \
    assert_non_null(strstr(fake_log(), why));                                                      \
  } while (0)
  NO_ENDPOINT(, "as many endpoints"); /* the ring is taken */
  rig.ring->cpu.endpoints = 0;
  NO_ENDPOINT(params.cookie = 0, "its cookie is 0");
  NO_ENDPOINT(params.roles = PST_ROLE_RECEIVER | PST_ROLE_SENDER, "a sender or a receiver");
  NO_ENDPOINT(params.ring = NULL, "a receiver needs a ring");
  NO_ENDPOINT(params.roles = PST_ROLE_SENDER, "and only a receiver");
  NO_ENDPOINT(params.message_max = PAYLOAD + 1, "longer than the limit, or than the slots");
  NO_ENDPOINT(params.pieces = PST_CPU_PIECES_MAX + 1, "its pieces");
  NO_ENDPOINT((params.roles = PST_ROLE_SENDER, params.ring = NULL), "outstanding requests");
  NO_ENDPOINT((params.roles = PST_ROLE_SENDER, params.ring = NULL,
               params.requests = PST_CPU_REQUESTS_MAX + 1),
              "outstanding requests");
  rig.ring->cpu.endpoints = 1;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(ring_lies_in_its_registration_to_the_byte),
      CASE(rtp_needs_room_behind_payloads),
      CASE(token_is_taken_once),
      CASE(token_of_a_ring_that_is_closed_is_no_token_of_the_next),
      CASE(registration_lies_in_its_region),
      CASE(limits_follow_the_options),
      CASE(endpoint_that_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
