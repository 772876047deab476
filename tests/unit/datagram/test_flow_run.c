/* SPDX-License-Identifier: Apache-2.0 */
/* Random datagrams to two flows: one takes each by itself, the other by runs wherever it can. Both
 * stand at the same place after each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "flow_run.h"

#define NONCE UINT64_C(0xfeedfacecafebeef)
#define DATAGRAMS 20000u
#define PAYLOAD_MAX 40u

struct by_runs {
  struct dg_flow flow;
  struct dg_run run;
  bool is_open;
  uint32_t taken; /* by runs */
};

struct datagram {
  struct dg_source source;
  uint8_t *bytes; /* of their number exactly, so that a sanitizer sees what is read behind them */
  uint32_t total;
  uint64_t time_ns;
};

static uint32_t chance(uint32_t *state, uint32_t bound)
{
  *state = *state * 1664525u + 1013904223u;
  return (*state >> 8) % bound;
}

/* Mostly the next one of the followed sender; else another number, source, SSRC, nonce, length,
 * checksum, payload type or first byte. */
static void make(const struct dg_flow_params *params, uint32_t *random, uint32_t *number,
                 struct datagram *made)
{
  const uint32_t header = dg_header_bytes(params->framing, params->numbered);
  const uint32_t oddity = chance(random, 200), length = chance(random, PAYLOAD_MAX);
  struct dg_header say = {.sequence = (*number)++,
                          .timestamp = *number * 3000,
                          .ssrc = 1 + (oddity == 0),
                          .nonce = oddity == 1 ? 1 : NONCE,
                          .payload_type = oddity == 2 ? 97 : 96,
                          .marker = *number % 8 == 0,
                          .has_nonce = params->numbered};

  made->source = (struct dg_source){.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1},
                                    .port = (uint16_t)(5000 + (oddity == 3))};
  made->source.address[15] += oddity == 4;
  const bool is_stray = oddity == 5 && chance(random, 2);
  if (oddity == 5 && !is_stray) /* loss */
    say.sequence = *number += chance(random, 9);
  if (is_stray)
    say.sequence = chance(random, 100000);
  if ((is_stray || oddity == 3) && chance(random, 2))
    --*number; /* between two whose numbers follow each other */
  made->total = oddity == 6 ? chance(random, header + 1) : header + length;
  made->bytes = malloc(made->total ? made->total : 1);
  made->time_ns += oddity == 7 ? 60000000 : chance(random, 2) * 100000;
  uint8_t whole[DG_HEADER_MAX + PAYLOAD_MAX];
  for (uint32_t i = 0; i < length; i++)
    whole[header + i] = (uint8_t)chance(random, 256);
  say.checksum = dg_byte_sum(whole + header, length) + (oddity == 8);
  dg_write(params->framing, &say, whole);
  if (oddity == 9 && header)
    whole[0] ^= (uint8_t)(1u << chance(random, 8));
  if (oddity == 10 && header)
    whole[1] = (uint8_t)(190 + chance(random, 40));
  memcpy(made->bytes, whole, made->total);
}

static uint32_t take_alone(struct dg_flow *flow, const struct datagram *datagram,
                           struct dg_message *message)
{
  const uint32_t header = dg_header_bytes(flow->params.framing, flow->params.numbered);
  const struct dg_arrival arrival = {.source = &datagram->source,
                                     .header = datagram->bytes,
                                     .rest = datagram->bytes + header,
                                     .total = datagram->total,
                                     .readable = datagram->total,
                                     .time_ns = datagram->time_ns};

  return dg_flow_take(flow, &arrival, message);
}

static uint32_t take_by_run(struct by_runs *by, const struct datagram *datagram,
                            const struct dg_source *last, struct dg_message *message)
{
  if (by->is_open && memcmp(last, &datagram->source, sizeof(*last)) != 0) {
    dg_run_end(&by->run);
    by->is_open = false;
  }
  if (!by->is_open)
    by->is_open = dg_run_begin(&by->run, &by->flow, &datagram->source);
  if (by->is_open &&
      dg_run_take(&by->run, datagram->bytes, datagram->total, datagram->time_ns, message)) {
    by->taken++;
    return DG_DELIVER;
  }
  if (by->is_open)
    dg_run_end(&by->run);
  by->is_open = false;
  return take_alone(&by->flow, datagram, message);
}

static void assert_equal_flows(const struct dg_flow *a, const struct dg_flow *b)
{
  assert_memory_equal(&a->counts, &b->counts, sizeof(a->counts));
  assert_int_equal(a->sequence.next, b->sequence.next);
  assert_int_equal(a->sequence.raw, b->sequence.raw);
  assert_int_equal(a->latest_ns, b->latest_ns);
  assert_int_equal(a->longest_ns, b->longest_ns);
  assert_int_equal(a->busiest, b->busiest);
  assert_int_equal(a->pace_from, b->pace_from);
  assert_int_equal(a->strays, b->strays);
  assert_int_equal(a->successor.datagrams, b->successor.datagrams);
  assert_int_equal(a->jitter.scaled_ns, b->jitter.scaled_ns);
}

static void assert_equal_messages(const struct dg_message *a, const struct dg_message *b)
{
  assert_int_equal(a->offset, b->offset);
  assert_int_equal(a->length, b->length);
  assert_int_equal(a->sequence, b->sequence);
  assert_int_equal(a->meta, b->meta);
  assert_int_equal(a->has_sequence, b->has_sequence);
  assert_int_equal(a->has_meta, b->has_meta);
  assert_int_equal(a->is_marked, b->is_marked);
  assert_int_equal(a->is_restart, b->is_restart);
  assert_int_equal(a->time_ns, b->time_ns);
}

static void run_beside(struct dg_flow_params params)
{
  struct dg_flow alone;
  struct by_runs by = {0};
  struct datagram datagram = {.time_ns = UINT64_C(1) << 60};
  struct dg_source last = {0};
  struct dg_message a, b;
  uint32_t random = 7, number = params.initial;

  params.nonce = NONCE;
  params.message_max = PAYLOAD_MAX - 4;
  params.clock_rate = 90000;
  params.reorder = 100;
  dg_flow_begin(&alone, &params);
  dg_flow_begin(&by.flow, &params);
  for (uint32_t i = 0; i < DATAGRAMS; i++) {
    make(&params, &random, &number, &datagram);
    if (chance(&random, 300) == 0) {
      if (by.is_open)
        dg_run_end(&by.run);
      by.is_open = false;
      dg_flow_lost(&alone, 1, 1);
      dg_flow_lost(&by.flow, 1, 1);
    }
    const uint32_t verdict = take_alone(&alone, &datagram, &a);
    assert_int_equal(take_by_run(&by, &datagram, &last, &b), verdict);
    if (!by.is_open)
      assert_equal_flows(&alone, &by.flow);
    if (verdict & DG_DELIVER)
      assert_equal_messages(&a, &b);
    last = datagram.source;
    free(datagram.bytes);
  }
  if (by.is_open)
    dg_run_end(&by.run);
  assert_equal_flows(&alone, &by.flow);
  assert_true(by.taken > DATAGRAMS / 2);
}

static void a_run_takes_as_dg_flow_take_does(void **state)
{
  (void)state;
  for (uint32_t bits = 0; bits < 8; bits++) {
    struct dg_flow_params params = {.payload_type = bits & 1 ? 96 : -1,
                                    .ssrc_is_fixed = bits & 2,
                                    .ssrc = 1,
                                    .checks = bits & 1};
    run_beside(params); /* framing none */
    params.address_locks = true;
    run_beside(params);
    params.address_locks = false;
    params.numbered = bits & 4;
    params.initial = 0xfffffff0;
    params.framing = DG_FRAMING_SEQUENCE;
    run_beside(params);
    params.framing = DG_FRAMING_RTP;
    run_beside(params);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_takes_as_dg_flow_take_does)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
