/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of loopback writes nonsense into shared memory, or sends descriptors
 * that are not what they should be. The peer is another image of the plugin,
 * whose shared memory is written from here. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/* Behind cmocka's macros, which it has names in common with. */
#undef fail
#include "../../transports/loopback/address.h"
#include "../../transports/loopback/shm_port.h"

static struct contract_variant variant = {
    .name = "loopback-hostile", .options = "mode=copy", .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = 16, .message = 256, .requests = 64, .pieces = 1};

/* The receiver's port, as its peer may write it. */
struct port {
  struct lb_port *port;
  struct lb_desc *desc;
  uint32_t *free_slots;
  uint64_t bytes;
};

static struct port map_port(struct contract_side *receiver)
{
  struct pst_blob blob;
  struct lb_address address;
  struct port port;
  const uint64_t capacity = 16;
  contract_address(receiver, 0, &blob);
  memcpy(&address, blob.bytes, sizeof(address));
  port.bytes = sizeof(struct lb_port) + capacity * (sizeof(struct lb_desc) + sizeof(uint32_t));
  assert_int_equal(address.port_bytes, port.bytes);
  port.port = mmap(NULL, port.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, blob.fds[LB_FD_PORT], 0);
  assert_true(port.port != MAP_FAILED);
  port.desc = (struct lb_desc *)(port.port + 1);
  port.free_slots = (uint32_t *)(port.desc + capacity);
  return port;
}

static void expect_protocol_error(struct contract_side *victim)
{
  struct pst_completion gone =
      contract_await(victim, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -EPROTO);
  assert_int_equal(contract_complaints(), 1);
}

struct bad_desc {
  uint64_t head;
  struct lb_desc desc[2];
};

static void receiver_sees(const struct bad_desc *bad, uint32_t messages)
{
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  struct port port = map_port(&pair->receiver);
  memcpy(port.desc, bad->desc, sizeof(bad->desc));
  atomic_store(&port.port->desc_head, bad->head);
  expect_protocol_error(&pair->receiver);
  uint32_t seen = 0;
  struct pst_completion message;
  while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message))
    seen++;
  assert_int_equal(seen, messages);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  munmap(port.port, port.bytes);
  contract_pair_close(pair);
}

static void more_messages_than_slots(void **state)
{
  (void)state;
  receiver_sees(&(struct bad_desc){.head = 17}, 0);
  receiver_sees(&(struct bad_desc){.head = UINT64_MAX}, 0);
}

static void slot_that_does_not_exist(void **state)
{
  (void)state;
  receiver_sees(&(struct bad_desc){.head = 1, .desc = {{.slot = 16, .length = 1}}}, 0);
  receiver_sees(&(struct bad_desc){.head = 1, .desc = {{.slot = UINT32_MAX, .length = 1}}}, 0);
}

static void slot_that_is_the_receivers(void **state)
{
  (void)state;
  receiver_sees(
      &(struct bad_desc){.head = 2, .desc = {{.slot = 3, .length = 1}, {.slot = 3, .length = 1}}},
      1);
}

static void length_beyond_the_slot(void **state)
{
  (void)state;
  receiver_sees(&(struct bad_desc){.head = 1, .desc = {{.slot = 0, .length = 257}}}, 0);
  receiver_sees(&(struct bad_desc){.head = 1, .desc = {{.slot = 0, .length = UINT32_MAX}}}, 0);
}

static void sender_sees(uint64_t head_ahead, uint32_t slot)
{
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  struct port port = map_port(&pair->receiver);
  struct pst_request requests[16];
  for (uint32_t i = 0; i < 16; i++)
    requests[i] = contract_send(&pair->sender, 0, 8, i);
  /* All its slots but one: it looks for credits only when it has too few. */
  uint32_t wait;
  assert_int_equal(contract_post(&pair->sender, 0, requests, 15, &wait), 15);
  for (int i = 0; i < 16; i++)
    port.free_slots[i] = slot;
  atomic_fetch_add(&port.port->free_head, head_ahead);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 2, &wait), -ECONNRESET);
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, 15, 0);
  expect_protocol_error(&pair->sender);
  munmap(port.port, port.bytes);
  contract_pair_close(pair);
}

static void credits_that_were_never_used(void **state)
{
  (void)state;
  sender_sees(16, 0);
  sender_sees(UINT64_MAX / 2, 0);
}

static void credit_for_a_slot_that_does_not_exist(void **state)
{
  (void)state;
  sender_sees(1, 16);
  sender_sees(1, UINT32_MAX);
}

static void descriptors_that_could_be_cut_short(void **state)
{
  (void)state;
  struct contract_side receiver = {0};
  struct pst_blob good, bad;
  contract_side_open(&variant, &params, true, true, &receiver);
  contract_address(&receiver, 0, &good);
  for (int which = LB_FD_PORT; which <= LB_FD_RING; which++) {
    int open = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(open >= 0 && ftruncate(open, 1 << 20) == 0);
    bad = good;
    bad.fds[which] = open;
    assert_int_equal(contract_connect_one(&variant, &params, &bad), -EPROTO);
    assert_int_equal(ftruncate(open, 64), 0);
    assert_int_equal(fcntl(open, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_int_equal(contract_connect_one(&variant, &params, &bad), -EPROTO); /* too short */
    close(open);
  }
  assert_int_equal(contract_connect_one(&variant, &params, &good), 0);
  bad = good;
  bad.fd_count = 0;
  assert_int_equal(contract_connect_one(&variant, &params, &bad), -EXDEV);
  bad.fd_count = 3;
  assert_int_equal(contract_connect_one(&variant, &params, &bad), -EPROTO);
  assert_int_equal(contract_complaints(), 6);
  contract_side_close(&receiver);
}

static void geometry_that_overflows(void **state)
{
  (void)state;
  struct contract_side receiver = {0};
  struct pst_blob blob;
  contract_side_open(&variant, &params, true, true, &receiver);
  contract_address(&receiver, 0, &blob);
  struct lb_address good;
  memcpy(&good, blob.bytes, sizeof(good));
  struct lb_address bad[6] = {good, good, good, good, good, good};
  bad[0].slots = 17;
  bad[1].slots = UINT32_MAX;
  bad[2].stride = UINT64_MAX / 4;
  bad[3].ring_offset = UINT64_MAX - 8;
  bad[4].payload_max = UINT64_MAX;
  bad[5].ring_offset = receiver.memory.region.length;
  for (int i = 0; i < 6; i++) {
    memcpy(blob.bytes, &bad[i], sizeof(bad[i]));
    assert_int_equal(contract_connect_one(&variant, &params, &blob), -EPROTO);
  }
  assert_int_equal(contract_complaints(), 6);
  contract_side_close(&receiver);
}

/* Whatever bytes stand in the port, both ends stay whole. */
static void random_bytes(void **state)
{
  (void)state;
  for (int round = 0; round < 300; round++) {
    struct contract_pair *pair = contract_pair_open(&variant, &params);
    contract_pair_connect(pair);
    struct port port = map_port(&pair->receiver);
    struct pst_request request = contract_send(&pair->sender, 0, 64, 0);
    for (int i = 0; i < 40; i++) {
      uint64_t at = contract_random() % port.bytes;
      uint32_t wait;
      ((volatile uint8_t *)port.port)[at] = (uint8_t)contract_random();
      contract_post(&pair->sender, 0, &request, 1, &wait);
      contract_poll(&pair->sender);
      contract_poll(&pair->receiver);
      for (uint32_t k = 0; k < pair->receiver.logged; k++)
        if (pair->receiver.log[k].kind == PST_COMPLETION_MESSAGE) {
          assert_true(pair->receiver.log[k].u.message.length <= 256);
          contract_release(&pair->receiver, &pair->receiver.log[k]);
        }
      pair->receiver.logged = 0;
    }
    munmap(port.port, port.bytes);
    contract_pair_close(pair);
  }
  contract_complaints();
}

/* A peer that says that it is inside, and never leaves. */
static void seats_that_are_never_left(void **state)
{
  (void)state;
  enum { MANY = 5 };
  struct contract_side side = {0};
  struct pst_mr *mrs[MANY];
  struct lb_gate_page *pages[MANY];
  uint8_t bytes[4096];
  contract_side_open(&variant, &params, false, true, &side);
  const struct pst_transport_ops *ops = side.image.ops;
  const struct pst_mr_params offered = {.struct_size = sizeof(offered),
                                        .access = PST_ACCESS_REMOTE_READ | PST_ACCESS_LOCAL_READ,
                                        .region = &side.memory.region,
                                        .length = 4096};
  for (int i = 0; i < MANY; i++) {
    struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
    assert_int_equal(ops->mr_register(side.device, &offered, &mrs[i]), 0);
    assert_int_equal(ops->mr_pack(side.device, mrs[i], &blob), 0);
    pages[i] =
        mmap(NULL, sizeof(*pages[i]), PROT_READ | PROT_WRITE, MAP_SHARED, blob.fds[LB_FD_VALID], 0);
    assert_true(pages[i] != MAP_FAILED);
    atomic_store(&pages[i]->seats[7].seat.inside, 1);
  }
  const uint64_t from = contract_now_ns();
  for (int i = 0; i < MANY; i++) {
    atomic_store(&pages[i]->gate.imports, 1);
    ops->mr_deregister(side.device, mrs[i]);
    assert_int_equal(atomic_load(&pages[i]->gate.open), 0);
    munmap(pages[i], sizeof(*pages[i]));
  }
  const uint64_t took_ms = (contract_now_ns() - from) / 1000000;
  assert_in_range(took_ms, 2000, 9900); /* 2 s together; each of them alone is 10 s, or 20 */
  assert_int_equal(contract_complaints(), MANY);
  contract_side_close(&side);
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(more_messages_than_slots),
      cmocka_unit_test(slot_that_does_not_exist),
      cmocka_unit_test(slot_that_is_the_receivers),
      cmocka_unit_test(length_beyond_the_slot),
      cmocka_unit_test(credits_that_were_never_used),
      cmocka_unit_test(credit_for_a_slot_that_does_not_exist),
      cmocka_unit_test(descriptors_that_could_be_cut_short),
      cmocka_unit_test(geometry_that_overflows),
      cmocka_unit_test(random_bytes),
      cmocka_unit_test(seats_that_are_never_left),
  };
  return cmocka_run_group_tests_name("loopback: hostile peers", cases, NULL, NULL) ? 1 : 0;
}
