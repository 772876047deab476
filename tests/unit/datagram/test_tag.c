/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags of datagrams, and a receiver's flow under attack: `test_datagram_tag COUNT` gives it that
 * many hostile datagrams, forged, changed and replayed, among those of its sender.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include "flow.h"
#include "sender.h"

#define PAYLOAD_MAX 200u
#define WIRE_MAX (DG_HEADER_MAX + DG_TAG_BYTES + PAYLOAD_MAX)
#define KEPT 4096u /* genuine datagrams that the attacker has recorded */

static uint64_t attacks = 100000;
static const uint8_t key[DG_TAG_KEY_BYTES] = {3, 1, 4, 1, 5, 9, 2, 6};

/* xorshift64*: the same attack each time. */
static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t limit)
{
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (uint32_t)((random_state * UINT64_C(2685821657736338717) >> 33) % limit);
}

struct wire {
  uint32_t total;
  uint64_t sequence;
  uint8_t bytes[WIRE_MAX];
};

static uint32_t fixed_of(enum dg_framing framing)
{
  return dg_header_bytes(framing, true);
}

static void make(struct dg_sender *sender, uint64_t sequence, uint32_t length, struct wire *wire)
{
  const uint32_t fixed = fixed_of(sender->framing);
  uint8_t *payload = wire->bytes + fixed + DG_TAG_BYTES;

  for (uint32_t i = 0; i < length; i++)
    payload[i] = (uint8_t)(sequence + i);
  /* In two pieces, as a gathered message is. */
  const struct iovec parts[] = {{payload, length / 3}, {payload + length / 3, length - length / 3}};
  dg_sender_header(sender, sequence, 0, 1000 * sequence, wire->bytes);
  dg_tag_sign(sender->tag, wire->bytes, fixed, parts, 2);
  wire->sequence = sequence;
  wire->total = fixed + DG_TAG_BYTES + length;
}

static struct dg_sender sender_open(enum dg_framing framing, const uint8_t secret[DG_TAG_KEY_BYTES])
{
  struct dg_sender sender = {.framing = framing,
                             .header = {.payload_type = 96, .has_nonce = true, .has_tag = true},
                             .clock_rate = 90000};

  assert_int_equal(dg_tag_open(secret, false, &sender.tag), 0);
  return sender;
}

static const struct dg_source camera = {.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1},
                                        .port = 5000};

static void flow_open(struct dg_flow *flow, enum dg_framing framing)
{
  struct dg_flow_params params = {.framing = framing,
                                  .numbered = true,
                                  .port_is_fixed = true,
                                  .source = camera,
                                  .payload_type = -1,
                                  .message_max = PAYLOAD_MAX,
                                  .clock_rate = 90000,
                                  .reorder = 1024};

  assert_int_equal(dg_tag_open(key, true, &params.tag), 0);
  dg_flow_begin(flow, &params);
}

static uint32_t take_from(const struct dg_source *source, struct dg_flow *flow,
                          const struct wire *wire, struct dg_message *message)
{
  const struct dg_arrival arrival = {.source = source,
                                     .header = wire->bytes,
                                     .rest = wire->bytes + fixed_of(flow->params.framing) +
                                             DG_TAG_BYTES,
                                     .total = wire->total,
                                     .readable = wire->total,
                                     .time_ns = 1000};

  return dg_flow_take(flow, &arrival, message);
}

static uint32_t take(struct dg_flow *flow, const struct wire *wire, struct dg_message *message)
{
  return take_from(&camera, flow, wire, message);
}

/* By OpenSSL's MAC of that name, which tag.c does not use. */
static void tag_is_gmac_of_header_and_payload(void **state)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP};
  EVP_MAC *gmac = EVP_MAC_fetch(NULL, "GMAC", NULL);
  EVP_MAC_CTX *context = EVP_MAC_CTX_new(gmac);
  struct wire wire;

  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    struct dg_sender sender = sender_open(framings[i], key);
    const uint32_t fixed = fixed_of(framings[i]);
    for (uint32_t n = 0; n < 300; n++) {
      uint8_t vector[12] = {0}, tag[DG_TAG_BYTES];
      size_t length = 0;
      make(&sender, 7 * n, n % PAYLOAD_MAX, &wire);
      vector[10] = (uint8_t)(n >> 8);
      vector[11] = (uint8_t)n;
      const OSSL_PARAM params[] = {
          OSSL_PARAM_construct_utf8_string("cipher", (char[]){"AES-128-GCM"}, 0),
          OSSL_PARAM_construct_octet_string("iv", vector, sizeof(vector)),
          OSSL_PARAM_construct_end()};
      assert_true(EVP_MAC_init(context, key, sizeof(key), params));
      assert_true(EVP_MAC_update(context, wire.bytes, fixed));
      assert_true(EVP_MAC_update(context, wire.bytes + fixed + DG_TAG_BYTES,
                                 wire.total - fixed - DG_TAG_BYTES));
      assert_true(EVP_MAC_final(context, tag, &length, sizeof(tag)));
      assert_memory_equal(wire.bytes + fixed, tag, sizeof(tag));
    }
    dg_sender_close(&sender);
  }
  EVP_MAC_CTX_free(context);
  EVP_MAC_free(gmac);
}

/* Foreign receivers skip number and tag. */
static void rtp_has_both_in_its_extension(void **state)
{
  struct dg_sender sender = sender_open(DG_FRAMING_RTP, key);
  struct dg_header header;
  uint32_t offset, length;
  struct wire wire;

  (void)state;
  make(&sender, 5, 100, &wire);
  assert_memory_equal(wire.bytes + 12, "PS\0\6\0\0\0\0\0\0\0\0", 12);
  assert_int_equal(dg_parse(DG_FRAMING_RTP, false, wire.bytes, wire.bytes + 12, wire.total,
                            wire.total, &header, &offset, &length),
                   DG_PARSED);
  assert_int_equal(12 + offset, 40);
  assert_int_equal(length, 100);
  dg_sender_close(&sender);
}

/* Beside one who remembers all that has come. */
static void each_number_is_taken_once(void **state)
{
  enum { NUMBERS = 2000000 };
  static uint8_t has[NUMBERS];
  uint8_t header[DG_TAG_NUMBER_BYTES + DG_TAG_BYTES];
  struct dg_tag *sender, *receiver;
  uint32_t highest = 0, old = 0, again = 0;

  (void)state;
  assert_int_equal(dg_tag_open(key, false, &sender), 0);
  assert_int_equal(dg_tag_open(key, true, &receiver), 0);
  for (uint32_t i = 0; i < 60000; i++) {
    uint32_t spread = i % 200 == 0 ? 400000 : i % 10 == 0 ? 3000 : 20;
    uint32_t number = highest + random_below(spread);
    number -= number < spread / 2 ? 0 : spread / 2;
    number = i == 0 ? 0 : number < NUMBERS ? number : NUMBERS - 1;
    memset(header, 0, sizeof(header));
    for (uint32_t k = 0; k < 4; k++)
      header[4 + k] = (uint8_t)(number >> (24 - 8 * k));
    dg_tag_sign(sender, header, DG_TAG_NUMBER_BYTES, NULL, 0);
    enum dg_tag_verdict verdict = dg_tag_check(receiver, header, DG_TAG_NUMBER_BYTES, header, 0);
    if (has[number])
      assert_int_equal(verdict, DG_TAG_SEEN);
    else if (number + DG_TAG_WINDOW - 64 > highest)
      assert_int_equal(verdict, DG_TAG_NEW);
    else if (number + DG_TAG_WINDOW <= highest)
      assert_int_equal(verdict, DG_TAG_SEEN);
    again += has[number];
    old += verdict == DG_TAG_SEEN && !has[number];
    has[number] = 1;
    highest = number > highest ? number : highest;
  }
  assert_true(highest > 2 * DG_TAG_WINDOW && old > 0 && again > 1000);
  dg_tag_close(sender);
  dg_tag_close(receiver);
}

/* A tag costs AES over the datagram, and the number alone refuses a replay. */
static void number_is_looked_up_before_the_tag(void **state)
{
  uint8_t header[DG_TAG_NUMBER_BYTES + DG_TAG_BYTES] = {0};
  struct dg_tag *sender, *receiver;

  (void)state;
  assert_int_equal(dg_tag_open(key, false, &sender), 0);
  assert_int_equal(dg_tag_open(key, true, &receiver), 0);
  for (uint32_t i = 0; i < 100; i++) {
    header[7] = (uint8_t)i;
    dg_tag_sign(sender, header, DG_TAG_NUMBER_BYTES, NULL, 0);
    header[DG_TAG_NUMBER_BYTES] ^= 1;
    assert_int_equal(dg_tag_check(receiver, header, DG_TAG_NUMBER_BYTES, header, 0), DG_TAG_WRONG);
    header[DG_TAG_NUMBER_BYTES] ^= 1;
    assert_int_equal(dg_tag_check(receiver, header, DG_TAG_NUMBER_BYTES, header, 0), DG_TAG_NEW);
    header[DG_TAG_NUMBER_BYTES] ^= 1;
    assert_int_equal(dg_tag_check(receiver, header, DG_TAG_NUMBER_BYTES, header, 0), DG_TAG_SEEN);
  }
  dg_tag_close(sender);
  dg_tag_close(receiver);
}

/* Somebody who reads the path and is faster sends each datagram on from another address. */
static void copy_from_elsewhere_takes_no_number(void **state)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP};
  struct dg_source port = camera, host = camera;
  struct dg_message message;
  struct wire wire, changed;

  (void)state;
  port.port++;
  host.address[15]++;
  for (uint32_t i = 0; i < 2; i++) {
    struct dg_sender sender = sender_open(framings[i], key);
    struct dg_flow flow;
    flow_open(&flow, framings[i]);
    flow.params.address_is_fixed = true;
    for (uint64_t n = 0; n < 100; n++) {
      make(&sender, n, 100, &wire);
      changed = wire;
      changed.bytes[changed.total - 1] ^= 1;
      assert_int_equal(take_from(&port, &flow, &wire, &message), 0);
      assert_int_equal(take_from(&host, &flow, &wire, &message), 0);
      assert_int_equal(take_from(&host, &flow, &changed, &message), 0);
      assert_int_equal(take(&flow, &wire, &message), DG_DELIVER);
      assert_int_equal(message.sequence, n);
    }
    assert_int_equal(flow.counts.not_ours, 300);
    assert_int_equal(flow.counts.replayed + flow.counts.unauthentic, 0);
    dg_flow_end(&flow);
    dg_tag_close(flow.params.tag);
    dg_sender_close(&sender);
  }
}

/* ---- Under attack ------------------------------------------------------------------------- */

struct attack {
  struct dg_sender sender, other; /* `other` has another key: a stream before, or beside it */
  struct dg_flow flow;
  uint64_t sent, delivered, hostile;
  uint64_t due, early;    /* numbers below `due` have come, and `early` */
  struct wire kept[KEPT]; /* as they went over the wire, in order, a ring */
};

/* Another byte, length, tag, number or payload than it had: never what it was. */
static void change(const struct attack *attack, struct wire *wire)
{
  const uint32_t fixed = fixed_of(attack->sender.framing), head = fixed + DG_TAG_BYTES;
  const struct wire *from =
      &attack->kept[random_below(attack->sent < KEPT ? (uint32_t)attack->sent : KEPT)];
  const struct wire was = *wire;

  switch (random_below(6)) {
  case 0: /* bits */
    for (uint32_t n = 1 + random_below(3); n; n--)
      wire->bytes[random_below(wire->total)] ^= (uint8_t)(1u << random_below(8));
    break;
  case 1: /* cut short */
    wire->total = random_below(wire->total);
    break;
  case 2: /* made longer, by zeros too, which GMAC's own padding is */
    while (wire->total < WIRE_MAX && random_below(4))
      wire->bytes[wire->total++] = random_below(2) ? 0 : (uint8_t)random_below(256);
    break;
  case 3: /* another one's tag */
    memcpy(wire->bytes + fixed, from->bytes + fixed, DG_TAG_BYTES);
    break;
  case 4: /* a number that has not come yet */
    wire->bytes[fixed - 1 - random_below(3)] += (uint8_t)(1 + random_below(255));
    break;
  default: /* another one's payload behind its own header */
    memcpy(wire->bytes + head, from->bytes + head, PAYLOAD_MAX);
    wire->total = from->total;
  }
  if (wire->total == was.total && memcmp(wire->bytes, was.bytes, was.total) == 0)
    wire->bytes[random_below(wire->total)] ^= 1;
}

/* Has it room for a tag, and a number that came? Those are refused without a look at the tag. */
static bool is_spent(const struct attack *attack, const struct wire *wire)
{
  const uint32_t fixed = fixed_of(attack->sender.framing);
  uint64_t number = 0;

  for (uint32_t i = fixed - DG_TAG_NUMBER_BYTES; i < fixed; i++)
    number = number << 8 | wire->bytes[i];
  return wire->total >= fixed + DG_TAG_BYTES && (number < attack->due || number == attack->early);
}

/* Makes a datagram of the attacker, of random bytes or by a key of its own, for numbers that are
 * due. */
static void forge(struct attack *attack, struct wire *wire)
{
  if (random_below(2)) {
    make(&attack->other, attack->sent + random_below(100), random_below(PAYLOAD_MAX), wire);
    return;
  }
  wire->total = random_below(WIRE_MAX);
  for (uint32_t i = 0; i < wire->total; i++)
    wire->bytes[i] = (uint8_t)random_below(256);
}

static void attack_once(struct attack *attack, const struct wire *next)
{
  const struct dg_counts before = attack->flow.counts;
  const uint64_t number = attack->flow.sequence.next;
  const uint32_t age = random_below(attack->sent < KEPT ? (uint32_t)attack->sent : KEPT);
  const uint32_t kind = random_below(4);
  struct dg_message message;
  struct wire wire = random_below(2) ? *next : attack->kept[(attack->sent - 1 - age) % KEPT];

  if (kind == 0)
    forge(attack, &wire);
  else if (kind == 1) /* as it was */
    wire = attack->kept[(attack->sent - 1 - age) % KEPT];
  else
    change(attack, &wire);
  assert_int_equal(take(&attack->flow, &wire, &message), 0);
  attack->hostile++;
  const struct dg_counts *after = &attack->flow.counts;
  assert_true(kind != 1 || is_spent(attack, &wire));
  assert_int_equal(after->unauthentic - before.unauthentic, !is_spent(attack, &wire));
  assert_int_equal(after->replayed - before.replayed, is_spent(attack, &wire));
  assert_int_equal(after->messages, before.messages);
  assert_int_equal(after->heard, before.heard);
  assert_int_equal(attack->flow.sequence.next, number);
}

/* The sender's, of which some change places; each once. */
static void deliver(struct attack *attack, const struct wire *wire)
{
  struct dg_message message;

  assert_int_equal(take(&attack->flow, wire, &message), DG_DELIVER);
  assert_int_equal(message.sequence, wire->sequence);
  assert_int_equal(message.length, wire->total - fixed_of(attack->sender.framing) - DG_TAG_BYTES);
  attack->kept[attack->sent++ % KEPT] = *wire;
  attack->early = wire->sequence;
  dg_tag_number(attack->other.tag); /* its numbers stay ahead */
  attack->delivered++;
}

static void nothing_hostile_is_delivered(void **state)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP};
  static const uint8_t other[DG_TAG_KEY_BYTES] = {2, 7, 1, 8};

  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    struct attack *attack = calloc(1, sizeof(*attack));
    uint64_t sequence = 0, swaps = 0;
    struct wire wires[2];
    assert_non_null(attack);
    attack->sender = sender_open(framings[i], key);
    attack->other = sender_open(framings[i], other);
    flow_open(&attack->flow, framings[i]);
    while (attack->hostile < attacks / 2) {
      const uint32_t swapped = random_below(4) == 0;
      for (uint32_t k = 0; k < 2; k++)
        make(&attack->sender, sequence + k, random_below(PAYLOAD_MAX), &wires[k]);
      attack->due = sequence;
      attack->early = UINT64_MAX;
      sequence += 2;
      swaps += swapped;
      for (uint32_t k = 0; k < 2; k++) {
        const struct wire *next = &wires[k ^ swapped];
        for (uint32_t n = attack->sent ? random_below(9) : 0; n; n--)
          attack_once(attack, next);
        deliver(attack, next);
      }
    }
    const struct dg_counts *counts = &attack->flow.counts;
    assert_int_equal(counts->messages, attack->delivered);
    assert_int_equal(counts->unauthentic + counts->replayed, attack->hostile);
    assert_true(counts->unauthentic > attack->hostile / 4);
    assert_int_equal(counts->datagrams, attack->delivered + attack->hostile);
    assert_int_equal(counts->unexplained, swaps); /* the gaps that late ones filled */
    printf("%s: %llu hostile datagrams: %llu unauthentic, %llu replayed, none delivered; "
           "all %llu of the sender's were\n",
           framings[i] == DG_FRAMING_RTP ? "rtp" : "sequence", (unsigned long long)attack->hostile,
           (unsigned long long)counts->unauthentic, (unsigned long long)counts->replayed,
           (unsigned long long)attack->delivered);
    dg_flow_end(&attack->flow);
    dg_tag_close(attack->flow.params.tag);
    dg_sender_close(&attack->sender);
    dg_sender_close(&attack->other);
    free(attack);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tag_is_gmac_of_header_and_payload),
      cmocka_unit_test(rtp_has_both_in_its_extension),
      cmocka_unit_test(each_number_is_taken_once),
      cmocka_unit_test(number_is_looked_up_before_the_tag),
      cmocka_unit_test(copy_from_elsewhere_takes_no_number),
      cmocka_unit_test(nothing_hostile_is_delivered),
  };

  if (argc > 1)
    attacks = strtoull(argv[1], NULL, 10);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
