/* SPDX-License-Identifier: Apache-2.0 */
/* Slots as credit: lines and sets of their numbers, what a receiver grants, and what a sender takes
 * in. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "receive.h"

#define SHARE 64u
#define BYTES 64u /* of a credit message: 8 runs */

static int restore(struct pst_endpoint *of)
{
  (void)of;
  return 0;
}

static const struct vb_transport transport = {.restore = restore};
static struct pst_device device = {.transport = &transport};
static struct pst_worker worker;
static struct pst_endpoint endpoint;
static struct vb_rx rx;
static struct vb_own_slots own;
static uint64_t first_of[VB_CONTROL_RECEIVES];
static struct vb_tx tx;
static uint8_t control[VB_CONTROL_RECEIVES * BYTES];
static struct vb_credit_buffers buffers = {.credit = control};
static struct vb_run granted[256];
static uint32_t granted_count, messages;

int __wrap_vb_send_queue_own(struct vb_send_queue *sq, enum ibv_wr_opcode opcode,
                             uint32_t immediate, const struct ibv_sge *bytes);

int __wrap_vb_send_queue_own(struct vb_send_queue *sq, enum ibv_wr_opcode opcode,
                             uint32_t immediate, const struct ibv_sge *bytes)
{
  assert_ptr_equal(sq, &endpoint.sq);
  assert_int_equal(opcode, IBV_WR_SEND_WITH_IMM);
  assert_int_equal(immediate, VB_CREDIT);
  assert_int_equal(bytes->length % sizeof(struct vb_run), 0);
  assert_true(bytes->length <= BYTES);
  for (uint32_t i = 0; i < bytes->length / sizeof(struct vb_run); i++) {
    struct vb_run run = ((const struct vb_run *)(uintptr_t)bytes->addr)[i];
    granted[granted_count++] = (struct vb_run){be32toh(run.first), be32toh(run.count)};
  }
  messages++;
  sq->head++;
  return 0;
}

/* A receiver of 64 slots, of which the first `out` are granted; counts begin there. */
static void begin(uint32_t from, uint32_t out)
{
  own = (struct vb_own_slots){
      .control_receives = VB_CONTROL_RECEIVES, .runs_max = 8, .first_of = first_of};
  rx = (struct vb_rx){.share = SHARE, .own = &own};
  tx = (struct vb_tx){.slots = SHARE};
  assert_int_equal(vb_slot_fifo_open(&rx.own->line, SHARE), 0);
  assert_int_equal(vb_slot_fifo_open(&rx.back, SHARE), 0);
  assert_int_equal(vb_slot_fifo_open(&tx.credits, SHARE), 0);
  rx.own->line.head = rx.own->line.tail = rx.back.head = rx.back.tail = from;
  tx.credits.head = tx.credits.tail = from;
  endpoint = (struct pst_endpoint){.worker = &worker,
                                   .device = &device,
                                   .is_connected = true,
                                   .rx = &rx,
                                   .tx = &tx,
                                   .receive_buffers = 1,
                                   .lane_count = 1,
                                   .sq.size = 64,
                                   .credit_depth = VB_CONTROL_RECEIVES,
                                   .credit_bytes = BYTES,
                                   .sq.max_inline = BYTES,
                                   .buffers = &buffers};
  vb_slot_fifo_put(&rx.own->line, 0, out);
  granted_count = messages = 0;
}

static int end(void **state)
{
  (void)state;
  free(rx.own->line.at);
  free(rx.back.at);
  free(tx.credits.at);
  return 0;
}

static void expect_granted(uint32_t n, const struct vb_run *runs)
{
  assert_int_equal(granted_count, n);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(granted[i].first, runs[i].first);
    assert_int_equal(granted[i].count, runs[i].count);
  }
}

static void neighbours_are_one_run(void **state)
{
  static const uint32_t released[] = {3, 4, 5, 9, 8, 0, 1};
  static const struct vb_run runs[] = {{3, 3}, {9, 1}, {8, 1}, {0, 2}};

  for (int turn = 0; turn < 2; turn++) {
    begin(turn ? UINT32_MAX - 3 : 0, 0); /* counts pass 32 bits on the way */
    for (uint32_t i = 0; i < 7; i++)
      vb_slot_fifo_put(&rx.back, released[i], 1);
    vb_credit_send(&endpoint);
    expect_granted(4, runs);
    assert_int_equal(messages, 1);
    assert_int_equal(rx.own->grants, 7);
    assert_int_equal(rx.back.count, 0);
    assert_int_equal(rx.own->line.count, 7);
    end(state);
  }
  begin(0, 0);
}

static void credit_waits_while_the_sender_has_half(void **state)
{
  (void)state;
  begin(0, 32);
  for (uint32_t i = 0; i < 15; i++)
    vb_slot_fifo_put(&rx.back, 32 + i, 1);
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 0);
  vb_slot_fifo_put(&rx.back, 47, 1); /* a quarter is back */
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 1);
  vb_slot_fifo_put(&rx.back, 48, 1);
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 1);
  vb_slot_fifo_take(&rx.own->line,
                    rx.own->line.count - 31); /* messages have come: less than half is left */
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 2);
}

static void message_has_as_many_runs_as_there_is_room_for(void **state)
{
  (void)state;
  begin(0, 0);
  for (uint32_t i = 0; i < 20; i++)
    vb_slot_fifo_put(&rx.back, 2 * i, 1);
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 3);
  assert_int_equal(granted_count, 20);
  assert_int_equal(rx.credits_sent, 3);
  assert_int_equal(rx.own->first_of[0], 0);
  assert_int_equal(rx.own->first_of[1], 8);
  assert_int_equal(rx.own->first_of[2], 16);
}

static void no_more_messages_than_the_sender_has_receives_for(void **state)
{
  (void)state;
  begin(0, 0);
  rx.credits_sent = 40;
  rx.credits_taken = 40 - VB_CONTROL_RECEIVES + 1;
  for (uint32_t i = 0; i < 20; i++)
    vb_slot_fifo_put(&rx.back, 2 * i, 1);
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 1);
  rx.credits_taken++;
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 2);
}

static void send_queue_keeps_room_for_hellos_and_farewells(void **state)
{
  (void)state;
  begin(0, 0);
  endpoint.sq.size = VB_SPARE_SENDS / 2 + 2;
  for (uint32_t i = 0; i < 30; i++)
    vb_slot_fifo_put(&rx.back, 2 * i, 1);
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 2);
}

static void nothing_goes_before_it_is_connected_or_while_it_closes(void **state)
{
  (void)state;
  begin(0, 0);
  vb_slot_fifo_put(&rx.back, 1, 1);
  endpoint.is_connected = false;
  vb_credit_send(&endpoint);
  endpoint.is_connected = true;
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  vb_credit_send(&endpoint);
  assert_int_equal(messages, 0);
}

/* ---- The sender ---------------------------------------------------------------------------------
 */

static bool take(uint32_t n, const struct vb_run *runs)
{
  struct vb_run bytes[80];
  for (uint32_t i = 0; i < n; i++)
    bytes[i] = (struct vb_run){htobe32(runs[i].first), htobe32(runs[i].count)};
  return vb_credit_take(&endpoint, (const uint8_t *)bytes, n * (uint32_t)sizeof(*runs));
}

static void runs_become_slots_in_their_order(void **state)
{
  static const uint32_t slots[] = {60, 61, 62, 63, 5, 0, 1};

  for (int turn = 0; turn < 2; turn++) {
    begin(turn ? UINT32_MAX - 2 : 0, 0);
    assert_true(take(3, (const struct vb_run[]){{60, 4}, {5, 1}, {0, 2}}));
    assert_int_equal(tx.credits.count, 7);
    for (uint32_t i = 0; i < 7; i++)
      assert_int_equal(vb_slot_fifo_get(&tx.credits), slots[i]);
    assert_int_equal(tx.credit_messages, 1);
    end(state);
  }
  begin(0, 0);
}

static void runs_beyond_the_slots_are_refused(void **state)
{
  (void)state;
  begin(0, 0);
  assert_false(take(1, (const struct vb_run[]){{64, 1}}));
  assert_false(take(1, (const struct vb_run[]){{64, 0}}));
  assert_false(take(1, (const struct vb_run[]){{63, 2}}));
  assert_false(take(1, (const struct vb_run[]){{1, UINT32_MAX}}));
  assert_int_equal(tx.credits.count, 0);
  assert_int_equal(tx.credit_messages, 0);
}

/* A slot that is granted twice would be written twice. */
static void more_than_the_ring_has_is_refused(void **state)
{
  (void)state;
  begin(0, 0);
  assert_true(take(1, (const struct vb_run[]){{0, 64}}));
  assert_false(take(1, (const struct vb_run[]){{0, 1}}));
  vb_slot_fifo_get(&tx.credits);
  assert_true(take(1, (const struct vb_run[]){{0, 1}}));
}

static void lengths_that_are_no_runs_are_refused(void **state)
{
  static const uint8_t zeros[VB_CONTROL_BYTES + 8];

  (void)state;
  begin(0, 0);
  assert_false(vb_credit_take(&endpoint, zeros, 0));
  assert_false(vb_credit_take(&endpoint, zeros, 7));
  assert_false(vb_credit_take(&endpoint, zeros, 12));
  assert_false(vb_credit_take(&endpoint, zeros, VB_CONTROL_BYTES + 8));
  assert_true(vb_credit_take(&endpoint, zeros, VB_CONTROL_BYTES));
}

static void a_line_holds_what_it_was_opened_for(void **state)
{
  struct vb_slot_fifo line;

  (void)state;
  begin(0, 0);
  assert_int_equal(vb_slot_fifo_open(&line, 5), 0);
  line.head = line.tail = UINT32_MAX - 1;
  for (uint32_t i = 0; i < 5; i++)
    vb_slot_fifo_put(&line, 10 + 2 * i, 1);
  vb_slot_fifo_put(&line, 19, 3);
  assert_int_equal(line.count, 8);
  for (uint32_t i = 0; i < 4; i++)
    assert_int_equal(vb_slot_fifo_get(&line), 10 + 2 * i);
  vb_slot_fifo_take(&line, 2);
  assert_int_equal(line.count, 2);
  assert_int_equal(vb_slot_fifo_first(&line)->first, 20);
  vb_slot_fifo_take(&line, 2);
  vb_slot_fifo_put(&line, 22, 1); /* its neighbours are gone */
  assert_int_equal(vb_slot_fifo_first(&line)->first, 22);
  assert_int_equal(vb_slot_fifo_first(&line)->count, 1);
  free(line.at);
}

static void sets_of_slots_are_taken_up_to_the_first_that_is_missing(void **state)
{
  static const uint32_t table[][4] = {/* set from, count; taken from, count */
                                      {0, 1, 0, 1},     {63, 2, 63, 2},     {5, 59, 5, 59},
                                      {0, 192, 0, 192}, {10, 130, 10, 150}, {64, 64, 64, 65},
                                      {1, 3, 0, 4},     {100, 1, 99, 3}};

  (void)state;
  begin(0, 0);
  for (size_t t = 0; t < sizeof(table) / sizeof(table[0]); t++) {
    const uint32_t *row = table[t], set_end = row[0] + row[1];
    uint64_t *bits = vb_bits_open(192);
    assert_non_null(bits);
    vb_bits_set(bits, row[0], row[1]);
    for (uint32_t i = 0; i < 192; i++)
      assert_int_equal(vb_bits_has(bits, i), i >= row[0] && i < set_end);
    const uint32_t taken = row[2] < row[0] ? 0 : row[1];
    assert_int_equal(vb_bits_take(bits, row[2], row[3]), taken);
    for (uint32_t i = 0; i < 192; i++)
      assert_int_equal(vb_bits_has(bits, i),
                       i >= row[0] && i < set_end && !(i >= row[2] && i < row[2] + taken));
    free(bits);
  }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, NULL, end)
  const struct CMUnitTest tests[] = {
      CASE(neighbours_are_one_run),
      CASE(credit_waits_while_the_sender_has_half),
      CASE(message_has_as_many_runs_as_there_is_room_for),
      CASE(no_more_messages_than_the_sender_has_receives_for),
      CASE(send_queue_keeps_room_for_hellos_and_farewells),
      CASE(nothing_goes_before_it_is_connected_or_while_it_closes),
      CASE(runs_become_slots_in_their_order),
      CASE(runs_beyond_the_slots_are_refused),
      CASE(more_than_the_ring_has_is_refused),
      CASE(lengths_that_are_no_runs_are_refused),
      CASE(a_line_holds_what_it_was_opened_for),
      CASE(sets_of_slots_are_taken_up_to_the_first_that_is_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
