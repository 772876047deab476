/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams as a receiver gets them, header and what is readable of the rest each in memory of
 * exactly its size. An input is a setting of SETTING_BYTES, then datagrams, each behind a byte of
 * circumstances and a byte of length. flow.h says what must hold; it is counted
 * here once more, from the verdicts alone. Beside it a second flow gets the same datagrams by
 * runs (flow_run.h), as far as a run takes them, and has to stand where the first one does.
 */
#include <string.h>

#include "datagram/flow_run.h"
#include "require.h"

enum { SETTING_BYTES = 11, SOURCES = 4 };
#define NONCE UINT64_C(0x6e6f6e6365303031)
/* A bit of the setting's message_max: datagrams have tags, if they can. */
#define HAS_TAG 0x8000u
static const uint8_t key[DG_TAG_KEY_BYTES] = "sixteen bytes:)";

/* Bits of the byte before a datagram. */
enum {
  SOURCE_MASK = 3,  /* who sent it */
  IS_CUT = 4,       /* it was longer than there was room for */
  HAS_DROPS = 8,    /* the kernel dropped some before; how many is in the byte of length */
  FOLLOWS = 16,     /* its number is one behind that of the datagram before */
  IS_STARVED = 32,  /* and it did so for another reason */
  GOES_BACK = 64,   /* the clock was set back */
  IS_CHECKED = 128, /* its byte sum is made right, and the nonce or the tag of its number */
};

struct reader {
  const uint8_t *at;
  size_t left;
};

struct seen {
  uint32_t framing, mask;
  bool begun, holds;
  uint64_t shift; /* of a sequence over its number on the wire */
  uint64_t least;
  uint64_t delivered, bytes, restarts, drops;
  uint32_t last; /* on the wire */
  uint32_t held_raw, held_room;
  bool is_split; /* payloads lie where the CPU cannot read, but for their beginning */
};

static struct dg_flow flow;
static struct dg_tag *signer;      /* the sender's, where datagrams have tags */
static uint64_t datagrams, by_run; /* of all inputs */

/* The second flow; its run, while one is open, is for datagrams of `source`. */
static struct {
  struct dg_flow flow;
  struct dg_run run;
  struct dg_source source;
  bool is_open;
} twin;

static void tell_datagrams(void)
{
  fprintf(stderr, "stat::datagrams: %lu, %lu of them by a run\n", datagrams, by_run);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc, (void)argv;
  return atexit(tell_datagrams);
}

static uint32_t take(struct reader *reader, uint32_t bytes)
{
  uint32_t value = 0;

  for (; bytes && reader->left; bytes--, reader->left--)
    value = value << 8 | *reader->at++;
  return value;
}

static struct dg_source source_of(uint32_t index)
{
  struct dg_source source = {.address = {[10] = 0xff, [11] = 0xff, [12] = 10}, .port = 5004};

  source.address[15] = index >> 1 & 1;
  source.port += index & 1;
  return source;
}

static struct dg_tag *open_tag(bool receives)
{
  struct dg_tag *tag = NULL;

  REQUIRE(dg_tag_open(key, receives, &tag) == 0);
  return tag;
}

static struct dg_flow_params read_setting(struct reader *reader)
{
  uint32_t bits = take(reader, 1);
  struct dg_flow_params params = {.framing = (enum dg_framing)(bits % 3),
                                  .numbered = (bits & 4) && bits % 3 != DG_FRAMING_NONE,
                                  .address_is_fixed = bits & 8,
                                  .port_is_fixed = bits & 16,
                                  .ssrc_is_fixed = bits & 32,
                                  .checks = bits & 64,
                                  .source = source_of(0),
                                  .ssrc = 1,
                                  .nonce = NONCE};

  params.initial = take(reader, 4);
  params.payload_type = (int)take(reader, 1) - 1;
  if (params.payload_type > 127)
    params.payload_type = -1;
  params.message_max = take(reader, 2);
  if (params.message_max & HAS_TAG && params.numbered && !(bits & 128))
    params.tag = open_tag(true);
  params.message_max &= ~HAS_TAG;
  params.reorder = take(reader, 2);
  params.clock_rate = take(reader, 1) * 1000;
  return params;
}

static uint32_t read_number(enum dg_framing framing, const uint8_t *header)
{
  if (framing == DG_FRAMING_RTP)
    return (uint32_t)header[2] << 8 | header[3];
  return (uint32_t)header[0] << 24 | (uint32_t)header[1] << 16 | (uint32_t)header[2] << 8 |
         header[3];
}

static void write_number(enum dg_framing framing, uint8_t *header, uint32_t number)
{
  uint32_t bytes = framing == DG_FRAMING_RTP ? 2 : 4, at = framing == DG_FRAMING_RTP ? 2 : 0;

  for (uint32_t i = 0; i < bytes; i++)
    header[at + i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
}

/* Where framing.h says, with the extension's header before it. */
static void make_nonce(enum dg_framing framing, uint8_t *header)
{
  struct dg_header made = {.nonce = NONCE, .has_nonce = true};
  uint8_t bytes[DG_HEADER_MAX];
  uint32_t at = dg_header_bytes(framing, false), end = dg_header_bytes(framing, true);

  dg_write(framing, &made, bytes);
  memcpy(header + at, bytes + at, end - at);
  if (framing == DG_FRAMING_RTP)
    header[0] = (uint8_t)((header[0] & 0xe0) | 0x10);
}

/* The number is the input's own, but for the one that no sender reaches. */
static void make_tag(uint8_t *header, uint32_t bytes, uint8_t *rest, uint32_t length)
{
  const struct iovec payload = {rest, length};

  header[bytes - DG_TAG_NUMBER_BYTES] &= 0x7f;
  dg_tag_sign(signer, header, bytes, &payload, 1);
}

static void make_sum(uint8_t *header, const uint8_t *rest, size_t length)
{
  uint32_t sum = 0;

  for (uint32_t i = 0; i < length; i++)
    sum += rest[i];
  REQUIRE(sum == dg_byte_sum(rest, length));
  for (uint32_t i = 0; i < 4; i++)
    header[4 + i] = (uint8_t)(sum >> 8 * (3 - i));
}

/* A payload lies within its datagram; a header without contributors, extension and
 * padding is what is written again. */
static void check_parse(enum dg_framing framing, bool numbered, const struct dg_arrival *arrival)
{
  struct dg_header parsed;
  uint8_t again[DG_HEADER_MAX];
  uint32_t offset, length, bytes = dg_header_bytes(framing, numbered);

  if (flow.params.tag) /* dg_flow_take() parses what is right, as without one */
    return;
  if (numbered && !dg_has_nonce(framing, arrival->header, arrival->total, NONCE))
    return;
  if (dg_parse(framing, numbered, arrival->header, arrival->rest, arrival->total, arrival->readable,
               &parsed, &offset, &length) != DG_PARSED)
    return;
  uint32_t room = arrival->total - bytes;
  REQUIRE(length <= room && offset <= room - length);
  if (framing == DG_FRAMING_RTP && arrival->header[0] != (numbered ? 0x90 : 0x80))
    return;
  REQUIRE(length == room);
  dg_write(framing, &parsed, again);
  REQUIRE(memcmp(again, arrival->header, bytes) == 0);
}

static void check_message(struct seen *seen, const struct dg_message *message, uint32_t raw,
                          uint32_t room)
{
  REQUIRE(message->length <= room && message->offset <= room - message->length);
  REQUIRE(message->length <= flow.params.message_max);
  REQUIRE(message->has_sequence == (seen->framing != DG_FRAMING_NONE));
  REQUIRE(message->has_meta == (seen->framing == DG_FRAMING_RTP));
  seen->delivered++;
  seen->bytes += message->length;
  if (!message->has_sequence)
    return;
  REQUIRE(message->sequence >= seen->least);
  REQUIRE(((message->sequence - raw) & seen->mask) == (seen->shift & seen->mask));
}

static void check_verdict(struct seen *seen, uint32_t verdict, const struct dg_message *message,
                          uint32_t raw, uint32_t room)
{
  REQUIRE((verdict & (DG_DELIVER | DG_HOLD)) != (DG_DELIVER | DG_HOLD));
  REQUIRE(seen->holds || !(verdict & (DG_HELD_DELIVER | DG_HELD_DROP)));
  REQUIRE((verdict & (DG_HELD_DELIVER | DG_HELD_DROP)) != (DG_HELD_DELIVER | DG_HELD_DROP));
  REQUIRE(!seen->holds || !(verdict & DG_HOLD) || verdict & DG_HELD_DROP);
  if (verdict & DG_HELD_DELIVER) {
    REQUIRE(verdict & DG_DELIVER && message->sequence == flow.held.sequence + 1);
    REQUIRE(raw == ((seen->held_raw + 1) & seen->mask));
    if (flow.counts.restarts != seen->restarts) {
      seen->restarts++;
      seen->least = flow.held.sequence;
      seen->shift = flow.held.sequence - seen->held_raw;
    }
    check_message(seen, &flow.held, seen->held_raw, seen->held_room);
  }
  if (verdict & DG_DELIVER) {
    if (!seen->begun)
      seen->shift = message->sequence - raw;
    seen->begun = true;
    check_message(seen, message, raw, room);
  }
  if (verdict & (DG_HELD_DELIVER | DG_HELD_DROP))
    seen->holds = false;
  if (verdict & DG_HOLD) {
    seen->holds = true;
    seen->held_raw = raw;
    seen->held_room = room;
  }
  REQUIRE(seen->holds == flow.holds);
}

/* A datagram that the sender did not sign is not taken, and one that it signed is not unauthentic,
 * unless it is cut. */
static void check_tag(uint32_t bits, bool has_room, uint32_t verdict, uint64_t unauthentic)
{
  const bool is_signed = bits & IS_CHECKED && has_room;

  REQUIRE(is_signed || !verdict);
  REQUIRE(!is_signed || bits & IS_CUT || !unauthentic);
}

static void check_counts(const struct seen *seen)
{
  const struct dg_counts *counts = &flow.counts;

  REQUIRE(counts->datagrams == counts->messages + counts->bad_header + counts->bad_checksum +
                                   counts->too_long + counts->not_ours + counts->wrong_nonce +
                                   counts->displaced + counts->too_late + counts->too_far +
                                   counts->unauthentic + counts->replayed + flow.holds);
  REQUIRE(dg_flow_no_gap(&flow) <= counts->too_long + counts->bad_checksum + counts->displaced);
  REQUIRE(counts->messages == seen->delivered && counts->bytes == seen->bytes);
  REQUIRE(counts->restarts == seen->restarts);
  REQUIRE(flow.jitter.clock_rate || dg_jitter_ns(&flow.jitter) == 0);
  uint64_t lost = counts->lost[0] + counts->lost[1];
  REQUIRE(lost <= seen->drops * flow.unit_max);
  if (seen->framing == DG_FRAMING_NONE)
    REQUIRE(lost + flow.credit == seen->drops);
  REQUIRE(flow.credits[0] + flow.credits[1] == flow.credit);
  REQUIRE(seen->is_split || counts->unreadable + counts->unchecked == 0);
  REQUIRE(counts->unreadable <= counts->bad_header + counts->not_ours);
}

/* A copy, in memory of its own that ends where it ends. */
static uint8_t *copy_of(struct reader *reader, uint32_t bytes)
{
  uint8_t *copy = malloc(bytes);

  REQUIRE(copy || bytes == 0);
  if (bytes)
    memcpy(copy, reader->at, bytes);
  reader->at += bytes;
  reader->left -= bytes;
  return copy;
}

/* The run of the second flow, if there is one, takes it: all of it is readable, and lies in memory
 * of its size. */
static bool take_by_run(const struct dg_arrival *arrival, struct dg_message *message)
{
  const uint32_t head =
      arrival->total < twin.run.header_bytes ? arrival->total : twin.run.header_bytes;
  uint8_t *whole = malloc(arrival->total);

  REQUIRE(whole || arrival->total == 0);
  if (head)
    memcpy(whole, arrival->header, head);
  if (arrival->total > head)
    memcpy(whole + head, arrival->rest, arrival->total - head);
  const bool is_taken = dg_run_take(&twin.run, whole, arrival->total, arrival->time_ns, message);
  free(whole);
  return is_taken;
}

static void check_twin(void)
{
  const struct dg_flow *a = &flow, *b = &twin.flow;

  REQUIRE(memcmp(&a->counts, &b->counts, sizeof(a->counts)) == 0);
  REQUIRE(a->sequence.next == b->sequence.next && a->sequence.raw == b->sequence.raw);
  REQUIRE(memcmp(&a->tail, &b->tail, sizeof(a->tail)) == 0);
  REQUIRE(a->latest_ns == b->latest_ns && a->longest_ns == b->longest_ns);
  REQUIRE(a->pace_from == b->pace_from && a->pace_ns == b->pace_ns && a->busiest == b->busiest);
  REQUIRE(a->strays == b->strays && a->successor.datagrams == b->successor.datagrams);
  REQUIRE(a->jitter.scaled_ns == b->jitter.scaled_ns && a->jitter.timestamp == b->jitter.timestamp);
  REQUIRE(a->holds == b->holds && a->credit == b->credit && a->lost_before == b->lost_before);
}

static void end_run(void)
{
  if (twin.is_open)
    dg_run_end(&twin.run);
  twin.is_open = false;
}

static void take_beside(const struct dg_arrival *arrival, uint32_t verdict,
                        const struct dg_message *message)
{
  struct dg_message again;

  if (twin.is_open && memcmp(&twin.source, arrival->source, sizeof(twin.source)) != 0)
    end_run();
  if (!twin.is_open) {
    twin.source = *arrival->source;
    twin.is_open = dg_run_begin(&twin.run, &twin.flow, arrival->source);
  }
  if (twin.is_open && !arrival->is_cut && arrival->readable == arrival->total &&
      take_by_run(arrival, &again)) {
    by_run++;
    REQUIRE(verdict == DG_DELIVER);
  } else {
    end_run();
    REQUIRE(dg_flow_take(&twin.flow, arrival, &again) == verdict);
    check_twin();
  }
  if (verdict & DG_DELIVER)
    REQUIRE(again.offset == message->offset && again.length == message->length &&
            again.sequence == message->sequence && again.meta == message->meta &&
            again.has_sequence == message->has_sequence && again.has_meta == message->has_meta &&
            again.is_marked == message->is_marked && again.is_restart == message->is_restart &&
            again.time_ns == message->time_ns);
}

static void take_one(struct reader *reader, struct seen *seen, struct dg_arrival *arrival)
{
  enum dg_framing framing = flow.params.framing;
  bool numbered = flow.params.numbered;
  uint32_t bits = take(reader, 1), total = take(reader, 1);
  uint32_t fixed = dg_header_bytes(framing, numbered) + (flow.params.tag ? DG_TAG_BYTES : 0);
  const struct dg_source source = source_of(bits & SOURCE_MASK);
  const uint64_t unauthentic = flow.counts.unauthentic;
  struct dg_message message;

  if (bits & HAS_DROPS) {
    end_run();
    dg_flow_lost(&twin.flow, bits & IS_STARVED ? 1 : 0, 1u << total % 20);
    dg_flow_lost(&flow, bits & IS_STARVED ? 1 : 0, 1u << total % 20);
    seen->drops += 1u << total % 20;
  }
  if (total > reader->left)
    total = (uint32_t)reader->left;
  uint32_t head = total < fixed ? total : fixed;
  uint32_t rest_read = total - head;
  if (seen->is_split)
    rest_read = (bits ^ total) % (rest_read + 1);
  uint8_t *header = copy_of(reader, head), *rest = copy_of(reader, rest_read);
  reader->at += total - head - rest_read;
  reader->left -= total - head - rest_read;
  if (fixed && head == fixed) {
    if (bits & FOLLOWS)
      write_number(framing, header, seen->last + 1);
    if (bits & IS_CHECKED && numbered && !flow.params.tag)
      make_nonce(framing, header);
    if (bits & IS_CHECKED && framing == DG_FRAMING_SEQUENCE)
      make_sum(header, rest, rest_read);
    if (bits & IS_CHECKED && flow.params.tag)
      make_tag(header, fixed - DG_TAG_BYTES, rest, rest_read);
    seen->last = read_number(framing, header);
  }
  arrival->source = &source;
  arrival->header = header;
  arrival->rest = rest;
  arrival->total = total;
  arrival->readable = head + rest_read;
  arrival->is_cut = bits & IS_CUT;
  arrival->time_ns += bits & GOES_BACK ? -UINT64_C(5000000) : (uint64_t)total * 100000;
  check_parse(framing, numbered, arrival);
  datagrams++;
  uint32_t verdict = dg_flow_take(&flow, arrival, &message);
  take_beside(arrival, verdict, &message);
  if (flow.params.tag)
    check_tag(bits, head == fixed, verdict, flow.counts.unauthentic - unauthentic);
  check_verdict(seen, verdict, &message, seen->last & seen->mask, total - head);
  check_counts(seen);
  free(header);
  free(rest);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  struct reader reader = {.at = data, .left = size};
  struct dg_arrival arrival = {.time_ns = UINT64_C(1) << 60};

  if (size < SETTING_BYTES)
    return -1;
  struct dg_flow_params params = read_setting(&reader);
  uint32_t bits = dg_sequence_bits(params.framing);
  struct seen seen = {.framing = params.framing,
                      .is_split = data[0] & 128,
                      .mask = bits < 32 ? (1u << bits) - 1 : UINT32_MAX,
                      .begun = params.numbered,
                      .last = params.initial - 1};
  seen.shift = 0 - (uint64_t)(params.initial & seen.mask);
  dg_flow_begin(&flow, &params);
  if (params.tag) {
    params.tag = open_tag(true);
    signer = open_tag(false);
  }
  dg_flow_begin(&twin.flow, &params);
  twin.is_open = false;
  while (reader.left >= 2)
    take_one(&reader, &seen, &arrival);
  end_run();
  check_twin();
  dg_flow_end(&flow);
  REQUIRE(!flow.holds);
  check_counts(&seen);
  dg_tag_close(flow.params.tag);
  dg_tag_close(twin.flow.params.tag);
  dg_tag_close(signer);
  signer = NULL;
  return 0;
}
