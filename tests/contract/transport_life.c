/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, limits, what set-up refuses, and how ends meet. */
#include "harness.h"

static const struct contract_params one = {
    .endpoints = 1, .slots = 8, .message = 256, .requests = 16, .pieces = 4};

static void opens_and_closes(void **state)
{
  contract_rule("Open the device that the options name. Device thread; may block.");
  const struct contract_variant *variant = *state;
  struct contract_image image;
  contract_image_open(variant, false, &image);
  for (int i = 0; i < 3; i++) {
    struct pst_device *device = NULL;
    contract_device_open(variant, &image, !variant->apart, false, &device);
    assert_non_null(device);
    image.ops->close(device);
  }
  contract_rule("NULL is legal.");
  image.ops->close(NULL);
}

static void has_every_mandatory_op(void **state)
{
  contract_rule(
      "NULL stands for a call that returns -EOPNOTSUPP. A capability needs its calls. Mandatory: open, close, limits, mr_register, mr_deregister, worker_open, worker_close, endpoint_open, endpoint_address, endpoint_connect, endpoint_path, endpoint_close, post, poll.");
  struct contract_image image;
  contract_image_open(*state, false, &image);
  const struct pst_transport_ops *ops = image.ops;
  assert_true(ops->open && ops->close && ops->limits && ops->mr_register && ops->mr_deregister &&
              ops->worker_open && ops->worker_close && ops->endpoint_open &&
              ops->endpoint_address && ops->endpoint_connect && ops->endpoint_path &&
              ops->endpoint_close && ops->post && ops->poll);
  if (ops->capabilities & PST_CAP_SEND)
    assert_true(ops->ring_open && ops->ring_close && ops->release);
  if (ops->capabilities & (PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC))
    assert_true(ops->mr_pack && ops->remote_open && ops->remote_close);
  if (ops->capabilities & PST_CAP_WAKEUP)
    assert_true(ops->arm && ops->event_fd);
}

static void limits_make_sense(void **state)
{
  contract_rule("a subset of the ops'");
  const struct contract_variant *variant = *state;
  struct contract_pair *pair = contract_pair_open(variant, &one);
  const struct pst_limits *limits = &pair->sender.limits;
  assert_int_equal(limits->capabilities & ~pair->sender.image.ops->capabilities, 0);
  assert_int_equal(limits->capabilities & variant->capabilities, variant->capabilities);
  contract_rule("of the address of slot 0 and of the stride; a power of two, at least 1");
  assert_true(limits->slot_alignment > 0 &&
              (limits->slot_alignment & (limits->slot_alignment - 1)) == 0);
  contract_rule("bytes of one SEND, from 1; MESSAGE.length has 32 bits");
  assert_true(limits->message_max > 0 && limits->sequence_bits <= 64);
  if (limits->message_max > UINT32_MAX)
    fail_msg("limits.message_max is %" PRIu64 ", but MESSAGE.length has 32 bits",
             limits->message_max);
  contract_rule("Limits and requirements of an opened device.");
  assert_true(limits->slots_min >= 1 && limits->slots_max >= limits->slots_min);
  assert_true(limits->workers_max >= 1 && limits->endpoints_max >= 1);
  contract_rule("May be empty.");
  if (!memchr(limits->endpoints_reason, 0, sizeof(limits->endpoints_reason)))
    fail_msg("limits.endpoints_reason does not end");
  contract_rule("outstanding on one endpoint, at least 1; post takes no more");
  assert_true(limits->requests_max >= 1 && limits->pieces_max >= 1);
  contract_rule("registrations round to it; 1: they need not");
  assert_true(limits->page_size >= 1 && limits->address_max > 0);
  contract_rule("carries limits.sequence_bits of each SEND's sequence");
  if (limits->capabilities & PST_CAP_SEQUENCE)
    assert_true(limits->sequence_bits > 0);
  contract_pair_close(pair);
}

static void out_structs_are_written_no_further_than_they_go(void **state)
{
  contract_rule(
      "The writer of an out-struct writes no more than the `struct_size` that the caller set.");
  struct contract_pair *pair = contract_pair_open(*state, &one);
  struct pst_limits limits;
  memset(&limits, 0xa5, sizeof(limits));
  limits.struct_size = offsetof(struct pst_limits, message_max);
  assert_int_equal(pair->sender.image.ops->limits(pair->sender.device, &limits), 0);
  assert_int_equal(limits.struct_size, offsetof(struct pst_limits, message_max));
  for (size_t i = limits.struct_size; i < sizeof(limits); i++)
    assert_int_equal(((uint8_t *)&limits)[i], 0xa5);
  contract_pair_close(pair);
}

static void registration_stays_in_its_region(void **state)
{
  contract_rule("-EINVAL: outside the region, or an unknown right.");
  struct contract_pair *pair = contract_pair_open(*state, &one);
  struct contract_side *side = &pair->sender;
  struct pst_mr *mr = (struct pst_mr *)side;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ,
                                 .region = &side->memory.region,
                                 .offset = 1,
                                 .length = side->memory.region.length};
  assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), -EINVAL);
  params.offset = UINT64_MAX;
  params.length = 2;
  assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), -EINVAL);
  contract_untouched(mr, side, "mr_register");
  contract_rule("The function that decides an error logs it once");
  assert_true(contract_complaints() >= 1);
  contract_pair_close(pair);
}

static void ring_that_breaks_the_limits_is_refused(void **state)
{
  contract_rule("-EINVAL: alignment, slots or stride break the limits");
  const struct contract_variant *variant = *state;
  struct contract_side side = {0};
  struct contract_params none = one;
  none.endpoints = 0;
  contract_side_open(variant, &none, false, false, &side);
  struct pst_mr_params mr_params = {.struct_size = sizeof(mr_params),
                                    .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                    .region = &side.memory.region,
                                    .length = side.stride * 8};
  struct pst_mr *mr;
  assert_int_equal(side.image.ops->mr_register(side.device, &mr_params, &mr), 0);
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_ring *ring = NULL;
  const struct pst_ring_params good = {.struct_size = sizeof(good),
                                       .slots = 8,
                                       .mr = mr,
                                       .stride = side.stride,
                                       .payload_max = 256,
                                       .endpoints = 1};
  struct pst_ring_params bad[5] = {good, good, good, good, good};
  bad[0].slots = 9;   /* beyond the registration */
  bad[1].stride = 64; /* slots overlap */
  bad[2].slots = 0;
  bad[3].base = UINT64_MAX - 64;  /* overflows */
  bad[4].stride = UINT64_MAX / 4; /* overflows */
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(side.image.ops->ring_open(side.worker, &bad[i], &path, &ring), -EINVAL);
    contract_untouched(ring, NULL, "ring_open");
  }
  side.image.ops->mr_deregister(side.device, mr);
  contract_side_close(&side);
  contract_complaints();
}

static void endpoint_without_sense_is_refused(void **state)
{
  contract_rule(
      "-EINVAL: no role or an unknown one, RECEIVER without a ring, cookie 0, a value beyond the limits, or a wrong option as in open()");
  const struct contract_variant *variant = *state;
  struct contract_side side = {0};
  struct contract_params none = one;
  none.endpoints = 0;
  contract_side_open(variant, &none, false, false, &side);
  struct pst_endpoint *endpoint = NULL;
  const struct pst_endpoint_params good = {.struct_size = sizeof(good),
                                           .roles = PST_ROLE_SENDER,
                                           .cookie = 1,
                                           .label = "x",
                                           .requests = 4,
                                           .pieces = 1,
                                           .message_max = 64};
  struct pst_endpoint_params bad[5] = {good, good, good, good, good};
  bad[0].roles = 0;
  bad[1].roles = 1u << 30;
  bad[2].roles = PST_ROLE_RECEIVER; /* without a ring */
  bad[3].cookie = 0;
  bad[4].requests = UINT32_MAX;
  for (size_t i = 0; i < 5; i++)
    assert_int_equal(side.image.ops->endpoint_open(side.worker, &bad[i], &endpoint), -EINVAL);
  contract_untouched(endpoint, NULL, "endpoint_open");
  contract_side_close(&side);
  contract_complaints();
}

/* As core opens a receiver: it posts nothing. */
static void receiver_without_requests_is_opened(void **state)
{
  contract_rule(
      "The most requests outstanding, FLUSHes included: post() takes no more. 0: it posts nothing.");
  struct contract_params params = one;
  params.requests = 0;
  struct contract_side side = {0};
  contract_side_open(*state, &params, false, true, &side);
  contract_side_close(&side);
}

static void start_seals(void **state)
{
  contract_rule(
      "After start() the host opens no worker, ring or endpoint, unless the transport announces DYNAMIC.");
  struct contract_pair *pair = contract_pair_open(*state, &one);
  struct contract_side *side = &pair->sender;
  if (!(side->limits.capabilities & PST_CAP_DYNAMIC) && side->image.ops->start) {
    struct pst_endpoint *endpoint = NULL;
    struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                         .roles = PST_ROLE_SENDER,
                                         .cookie = 9,
                                         .requests = 4,
                                         .message_max = 64};
    assert_true(side->image.ops->endpoint_open(side->worker, &params, &endpoint) < 0);
    contract_untouched(endpoint, NULL, "endpoint_open");
    contract_complained(1);
  }
  contract_pair_close(pair);
}

static void connects(struct contract_pair *pair, bool sender_first)
{
  contract_rule("post is allowed; endpoint_path is known, and may only get worse");
  struct pst_blob sender, receiver;
  contract_address(&pair->sender, 0, &sender);
  contract_address(&pair->receiver, 0, &receiver);
  if (sender_first)
    assert_int_equal(contract_connect(&pair->sender, 0, &receiver), 0);
  else
    assert_int_equal(contract_connect(&pair->receiver, 0, &sender), 0);
  for (int i = 0; i < 100; i++) {
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
  }
  struct pst_request request = contract_send(&pair->sender, 0, 8, 0);
  uint32_t wait;
  /* A datagram goes to whom it may concern. */
  if (!sender_first || (pair->sender.limits.capabilities & PST_CAP_RELIABLE))
    assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -ENOTCONN);
  if (sender_first)
    assert_int_equal(contract_connect(&pair->receiver, 0, &sender), 0);
  else
    assert_int_equal(contract_connect(&pair->sender, 0, &receiver), 0);
  contract_rule(
      "Begin to connect to a peer by its address. Both sides call it, in any order; it never blocks. EVENT CONNECTED follows, or DISCONNECTED with the status.");
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_post_one(pair, &request);
  contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  contract_rule("How bytes travel on this endpoint: known from CONNECTED on");
  struct pst_path_info path = {.struct_size = sizeof(path)};
  assert_int_equal(pair->sender.image.ops->endpoint_path(pair->sender.endpoints[0], &path), 0);
  contract_path_is_known("endpoint_path", &path);
  assert_true(memchr(path.via, 0, sizeof(path.via)) &&
              memchr(path.carrier, 0, sizeof(path.carrier)));
  assert_true(memchr(path.reason, 0, sizeof(path.reason)) && path.via[0] && path.carrier[0]);
  if (pair->variant->apart && strcmp(path.carrier, "memory") == 0)
    fail_msg("the carrier between processes is \"memory\", which they do not share");
}

static void connects_sender_first(void **state)
{
  struct contract_pair *pair = contract_pair_open(*state, &one);
  connects(pair, true);
  contract_pair_close(pair);
}

static void connects_receiver_first(void **state)
{
  struct contract_pair *pair = contract_pair_open(*state, &one);
  connects(pair, false);
  contract_pair_close(pair);
}

static void garbage_is_no_address(void **state)
{
  contract_rule("-EPROTO: not an address of this transport (every byte of it came over a network)");
  struct contract_pair *pair = contract_pair_open(*state, &one);
  uint8_t bytes[512];
  struct pst_blob blob;
  contract_address(&pair->receiver, 0, &blob);
  uint32_t length = blob.length;
  uint8_t *good = blob.bytes;
  assert_true(length <= sizeof(bytes));
  blob.bytes = bytes;
  memset(bytes, 0x5a, sizeof(bytes));
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), -EPROTO);
  memcpy(bytes, good, length);
  for (uint32_t cut = 0; cut < length; cut += 7) {
    blob.length = cut;
    assert_int_equal(contract_connect(&pair->sender, 0, &blob), -EPROTO);
  }
  contract_rule("The function that decides an error logs it once");
  assert_true(contract_complaints() > 0);
  contract_rule("-EALREADY: still connecting");
  blob.length = length;
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), -EALREADY);
  contract_pair_close(pair);
}

static void flip_a_bit(struct pst_blob *blob)
{
  uint64_t bit = contract_random() % (blob->length * 8);
  ((uint8_t *)blob->bytes)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
}

/* Several endpoints a device, where they may share a ring: some devices take long to open. */
static void flipped_bits_in_an_address_harm_nobody(void **state)
{
  contract_rule("-EPROTO: not an address of this transport (every byte of it came over a network)");
  const struct contract_variant *variant = *state;
  struct contract_params params = one;
  if (variant->capabilities & PST_CAP_SHARED_RING)
    params.endpoints = CONTRACT_ENDPOINTS;
  for (uint32_t tried = 0; tried < contract_rounds(200); tried += params.endpoints) {
    struct contract_pair *pair = contract_pair_open(variant, &params);
    for (uint32_t i = 0; i < params.endpoints; i++) {
      struct pst_blob blob;
      contract_address(&pair->receiver, i, &blob);
      flip_a_bit(&blob);
      contract_connect(&pair->sender, i, &blob);
      contract_address(&pair->sender, i, &blob);
      contract_connect(&pair->receiver, i, &blob);
    }
    for (int i = 0; i < 10; i++) {
      contract_poll(&pair->sender);
      contract_poll(&pair->receiver);
    }
    for (uint32_t i = 0; i < params.endpoints; i++) {
      struct pst_request request = contract_send(&pair->sender, 0, 256, 0);
      uint32_t wait;
      contract_post(&pair->sender, i, &request, 1, &wait);
    }
    contract_poll(&pair->receiver);
    contract_pair_close(pair);
  }
  contract_complaints();
}

int contract_life_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(opens_and_closes),
      CONTRACT_CASE(has_every_mandatory_op),
      CONTRACT_CASE(limits_make_sense),
      CONTRACT_CASE(out_structs_are_written_no_further_than_they_go),
      CONTRACT_CASE(registration_stays_in_its_region),
      CONTRACT_CASE(ring_that_breaks_the_limits_is_refused),
      CONTRACT_CASE(endpoint_without_sense_is_refused),
      CONTRACT_CASE(receiver_without_requests_is_opened),
      CONTRACT_CASE(start_seals),
      CONTRACT_CASE(connects_sender_first),
      CONTRACT_CASE(connects_receiver_first),
      CONTRACT_CASE(garbage_is_no_address),
      CONTRACT_CASE(flipped_bits_in_an_address_harm_nobody),
  };
  return CONTRACT_RUN("life", cases, variant);
}
