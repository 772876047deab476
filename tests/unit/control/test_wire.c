/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/control/wire.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static uint8_t frame[WIRE_FRAME_MAX];
static struct wire_message said, heard;
static char why[WIRE_WHY_MAX];

static void start(uint32_t type)
{
  memset(&said, 0, sizeof(said));
  said.type = type;
}

static void round_trip(void)
{
  size_t length = 0;

  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  assert_int_equal(frame[0] << 24 | frame[1] << 16 | frame[2] << 8 | frame[3], length - 4);
  if (wire_decode(frame + 4, length - 4, &heard, why) != 0)
    fail_msg("%s: %s", wire_type_name(said.type), why);
  assert_int_equal(heard.type, said.type);
  assert_string_equal(heard.stream, said.stream);
}

static void test_hello(void **state)
{
  (void)state;
  hello_of(&said, WIRE_RECEIVER);
  strcpy(said.unix_path, "/tmp/penstock-0123/s");
  memset(said.token, 0xA5, sizeof(said.token));
  said.has_token = true;
  said.pid = UINT64_MAX;
  round_trip();
  assert_int_equal(heard.major, WIRE_MAJOR);
  assert_int_equal(heard.minor, WIRE_MINOR);
  assert_int_equal(heard.role, WIRE_RECEIVER);
  assert_true(heard.pid == UINT64_MAX);
  assert_string_equal(heard.host, said.host);
  assert_string_equal(heard.library, said.library);
  assert_string_equal(heard.unix_path, said.unix_path);
  assert_memory_equal(heard.token, said.token, sizeof(said.token));
  assert_true(heard.has_token && heard.has_identity);
}

static void test_hello_of_another_major_is_named(void **state)
{
  (void)state;
  hello_of(&said, WIRE_SENDER);
  said.major = 7;
  said.minor = 3;
  round_trip();
  assert_int_equal(heard.major, 7);
  assert_int_equal(heard.minor, 3);
  assert_int_equal(heard.role, 0);
}

static void test_largest_offer(void **state)
{
  static uint8_t address[CONTROL_ADDRESS_MAX];

  (void)state;
  start(WIRE_OFFER);
  memset(said.stream, 's', WIRE_STREAM_MAX);
  said.term_count = CONTROL_TERMS_MAX;
  said.param_count = CONTROL_PARAMS_MAX;
  for (uint32_t i = 0; i < CONTROL_TERMS_MAX; i++) {
    memset(said.terms[i].key, 'k', CONTROL_KEY_MAX);
    said.terms[i].key[0] = (char)('0' + i);
    memset(said.terms[i].value, 'v', CONTROL_VALUE_MAX);
  }
  memcpy(said.params, said.terms, sizeof(said.params));
  memset(address, 0x5A, sizeof(address));
  said.blob = address;
  said.blob_length = sizeof(address);
  said.fd_count = 4;
  said.fd_id = 1ull << 40;
  round_trip();
  assert_int_equal(heard.term_count, CONTROL_TERMS_MAX);
  assert_memory_equal(heard.terms, said.terms, sizeof(said.terms));
  assert_int_equal(heard.param_count, CONTROL_PARAMS_MAX);
  assert_memory_equal(heard.params, said.params, sizeof(said.params));
  assert_int_equal(heard.blob_length, sizeof(address));
  assert_memory_equal(heard.blob, address, sizeof(address));
  assert_int_equal(heard.fd_count, 4);
  assert_true(heard.fd_id == said.fd_id);
}

static void test_accept_and_address(void **state)
{
  static const uint8_t address[] = {1, 2, 3};

  (void)state;
  for (int i = 0; i < 2; i++) {
    start(i ? WIRE_ADDRESS : WIRE_ACCEPT);
    strcpy(said.stream, "a");
    said.blob = address;
    said.blob_length = sizeof(address);
    round_trip();
    assert_int_equal(heard.fd_count, 0);
    assert_memory_equal(heard.blob, address, sizeof(address));
  }
}

/* As large as it can be: it must fit a frame. */
static void test_largest_accept(void **state)
{
  static uint8_t address[CONTROL_ADDRESS_MAX];

  (void)state;
  start(WIRE_ACCEPT);
  strcpy(said.stream, "store");
  memset(address, 0x5A, sizeof(address));
  said.param_count = CONTROL_PARAMS_MAX;
  for (uint32_t i = 0; i < CONTROL_PARAMS_MAX; i++) {
    memset(said.params[i].key, 'k', CONTROL_KEY_MAX);
    said.params[i].key[0] = (char)('0' + i);
    memset(said.params[i].value, 'v', CONTROL_VALUE_MAX);
  }
  said.blob = address;
  said.blob_length = sizeof(address);
  said.fd_count = 4;
  said.fd_id = 9;
  round_trip();
  assert_int_equal(heard.param_count, CONTROL_PARAMS_MAX);
  assert_int_equal(heard.blob_length, sizeof(address));
  assert_memory_equal(heard.blob, address, sizeof(address));
  assert_int_equal(heard.fd_count, 4);
  assert_int_equal(heard.fd_id, 9);
}

static void test_join_and_welcome(void **state)
{
  static const uint8_t address[] = {9, 8};

  (void)state;
  for (int i = 0; i < 2; i++) {
    start(i ? WIRE_WELCOME : WIRE_JOIN);
    strcpy(said.params[0].key, "message.max");
    strcpy(said.params[0].value, "4096");
    said.param_count = 1;
    said.terms[0] = said.params[0];
    said.term_count = i ? 0 : 1;
    said.blob = address;
    said.blob_length = sizeof(address);
    said.fd_count = 3;
    said.fd_id = 5;
    round_trip();
    assert_int_equal(heard.term_count, said.term_count);
    assert_int_equal(heard.param_count, 1);
    assert_string_equal(heard.params[0].value, "4096");
    assert_memory_equal(heard.blob, address, sizeof(address));
    assert_int_equal(heard.fd_count, 3);
  }
}

static void test_messages_of_nodes(void **state)
{
  static uint8_t payload[WIRE_PAYLOAD_MAX + 1];
  size_t length;

  (void)state;
  memset(payload, 0x3C, sizeof(payload));
  for (uint32_t bytes = 0; bytes <= WIRE_PAYLOAD_MAX; bytes += WIRE_PAYLOAD_MAX) {
    start(WIRE_MESSAGE);
    said.blob = payload;
    said.blob_length = bytes;
    round_trip();
    assert_int_equal(heard.blob_length, bytes);
    assert_memory_equal(heard.blob, payload, bytes);
  }
  said.blob_length = WIRE_PAYLOAD_MAX + 1;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  start(WIRE_ROOM);
  said.count = UINT32_MAX;
  round_trip();
  assert_true(heard.count == UINT32_MAX);
  said.count = 0;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
}

static void test_regions_of_nodes(void **state)
{
  static const uint8_t key[] = {1, 2, 3};
  size_t length;

  (void)state;
  start(WIRE_REGION);
  said.blob = key;
  said.blob_length = sizeof(key);
  said.region_length = UINT64_MAX;
  said.fd_count = 2;
  said.fd_id = 7;
  said.region_id = UINT32_MAX;
  said.access = PST_ACCESS_REMOTE_READ;
  round_trip();
  assert_memory_equal(heard.blob, key, sizeof(key));
  assert_true(heard.region_length == UINT64_MAX);
  assert_int_equal(heard.fd_count, 2);
  assert_true(heard.region_id == UINT32_MAX);
  assert_int_equal(heard.access, PST_ACCESS_REMOTE_READ);
  said.region_id = 0;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  said.region_id = 1;
  said.region_length = said.fd_count = 0;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  for (int code = 0; code <= 1; code++) {
    start(WIRE_TAKEN);
    said.region_id = 3;
    said.code = code ? -ENOSPC : 0;
    strcpy(said.text, code ? "too many" : "");
    round_trip();
    assert_int_equal(heard.region_id, 3);
    assert_int_equal(heard.code, said.code);
    assert_string_equal(heard.text, said.text);
  }
  start(WIRE_WITHDRAW);
  said.region_id = 4;
  round_trip();
  assert_int_equal(heard.region_id, 4);
}

static void test_another_address(void **state)
{
  (void)state;
  start(WIRE_READDRESS);
  said.blob = (const uint8_t *)"new";
  said.blob_length = 3;
  said.fd_count = 2;
  said.fd_id = 9;
  round_trip();
  assert_int_equal(heard.blob_length, 3);
  assert_memory_equal(heard.blob, "new", 3);
  assert_int_equal(heard.fd_count, 2);
  assert_int_equal(heard.fd_id, 9);
}

static void test_empty_address(void **state)
{
  (void)state;
  start(WIRE_ADDRESS);
  strcpy(said.stream, "a");
  round_trip();
  assert_int_equal(heard.blob_length, 0);
}

static void test_totals(void **state)
{
  static const uint32_t types[] = {WIRE_BEAT, WIRE_FINISH, WIRE_COUNTS};

  (void)state;
  for (int i = 0; i < 3; i++) {
    start(types[i]);
    strcpy(said.stream, "packets");
    for (uint32_t key = 0; key < WIRE_TOTAL_BLOCKED; key++)
      *wire_total_at(&said.totals, key) = (UINT64_MAX - 1) >> (8 * key);
    for (uint32_t stage = 0; stage < PST_STAGES; stage++)
      said.totals.blocked_ns[stage] = stage * 1000000007ull;
    said.totals.stopped = PST_STOP_SIGNAL | PST_STOP_SHORT;
    said.totals.drop_count = 16;
    for (uint32_t k = 0; k < 16; k++) {
      memset(said.totals.drops[k].cause, 'a' + (int)k, 31);
      said.totals.drops[k].messages = k;
    }
    round_trip();
    assert_memory_equal(&heard.totals, &said.totals, sizeof(said.totals));
  }
}

static void test_unknown_totals_are_left_out(void **state)
{
  size_t length = 0;

  (void)state;
  start(WIRE_BEAT);
  strcpy(said.stream, "p");
  wire_totals_unknown(&said.totals);
  round_trip();
  assert_memory_equal(&heard.totals, &said.totals, sizeof(said.totals));
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  assert_in_range(length, 8, 24);
  said.totals.messages = 5;
  round_trip();
  assert_int_equal(heard.totals.messages, 5);
  assert_true(heard.totals.bytes == UINT64_MAX);
  assert_true(heard.totals.blocked_ns[PST_STAGE_SINK] == UINT64_MAX);
}

static void test_failures(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    start(i ? WIRE_FAIL : WIRE_REFUSE);
    strcpy(said.stream, "p");
    said.code = -EBUSY;
    strcpy(said.text, "taken by \xc3\xa9lan");
    round_trip();
    assert_int_equal(heard.code, -EBUSY);
    assert_string_equal(heard.text, said.text);
  }
}

static void test_keep_and_bye(void **state)
{
  (void)state;
  start(WIRE_KEEP);
  round_trip();
  start(WIRE_BYE);
  round_trip();
  assert_int_equal(heard.code, 0);
  said.code = -EPROTO;
  strcpy(said.text, "why");
  round_trip();
  assert_int_equal(heard.code, -EPROTO);
  assert_string_equal(heard.text, "why");
}

static void test_texts_are_cut_and_cleaned(void **state)
{
  (void)state;
  start(WIRE_FAIL);
  strcpy(said.stream, "p");
  said.code = -EIO;
  memset(said.text, 'x', WIRE_TEXT_MAX);
  memcpy(said.text, "two\nlines\x1b[31m\xc2\x9b\u202e", 19);
  said.text[WIRE_TEXT_MAX] = '\0';
  round_trip();
  assert_memory_equal(heard.text, "two lines [31m     x", 20);
}

static void test_encoder_refuses(void **state)
{
  size_t length = 77;

  (void)state;
  start(99);
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  start(WIRE_OFFER);
  said.term_count = CONTROL_TERMS_MAX + 1;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  start(WIRE_ACCEPT);
  said.fd_count = WIRE_FDS_MAX + 1;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  said.fd_count = 0;
  said.blob_length = CONTROL_ADDRESS_MAX + 1;
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), -EINVAL);
  start(WIRE_FAIL);
  strcpy(said.text, "some text");
  for (size_t size = 0; size < 20; size++)
    assert_int_equal(wire_encode(&said, frame, size, &length), -E2BIG);
  assert_int_equal(length, 77);
}

/* Every truncation of a valid body is refused, as is every byte behind its end. */
static void test_truncations(void **state)
{
  size_t length = 0;

  (void)state;
  hello_of(&said, WIRE_SENDER);
  strcpy(said.unix_path, "s");
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  for (size_t n = 0; n < length - 4; n++)
    assert_int_equal(wire_decode(frame + 4, n, &heard, why), -EPROTO);
  frame[length] = 0;
  assert_int_equal(wire_decode(frame + 4, length - 3, &heard, why), -EPROTO);
  assert_non_null(strstr(why, "follow"));
}

/* No single changed byte makes the decoder read beyond, loop, or crash; run under
 * ASan this says more. */
static void test_every_byte_changed(void **state)
{
  static uint8_t body[512];
  size_t length = 0;
  uint32_t refused = 0;

  (void)state;
  start(WIRE_BEAT);
  strcpy(said.stream, "packets");
  said.totals.drop_count = 2;
  strcpy(said.totals.drops[0].cause, "no credit");
  strcpy(said.totals.drops[1].cause, "checksum");
  assert_int_equal(wire_encode(&said, frame, sizeof(frame), &length), 0);
  length -= 4;
  assert_true(length < sizeof(body));
  for (size_t at = 0; at < length; at++) {
    for (int value = 0; value < 256; value++) {
      memcpy(body, frame + 4, length);
      body[at] = (uint8_t)value;
      refused += wire_decode(body, length, &heard, why) < 0;
    }
  }
  assert_true(refused > length * 64);
}

struct malformed {
  const char *name;
  const char *bytes;
  size_t length;
  const char *why; /* part of it */
};
#define BYTES(text) text, sizeof(text) - 1

static const struct malformed table[] = {
    {"nothing", BYTES(""), "ends"},
    {"not a map", BYTES("\x01"), "no map"},
    {"an array", BYTES("\x82\x00\x0a"), "no map"},
    {"an empty map", BYTES("\xa0"), "empty"},
    {"text", BYTES("GET / HTTP/1.1\r\n"), ""},
    {"reserved", BYTES("\xa1\x1c\x00"), "not CBOR"},
    {"without a type", BYTES("\xa1\x01\x00"), "first key"},
    {"unknown type", BYTES("\xa1\x00\x18\x63"), "type 99"},
    {"type 0", BYTES("\xa1\x00\x00"), "type 0"},
    {"type is text",
     BYTES("\xa1\x00\x61"
           "a"),
     "no number"},
    {"text key",
     BYTES("\xa2\x00\x0a\x61"
           "a\x00"),
     "no number"},
    {"keys twice", BYTES("\xa3\x00\x0b\x17\x05\x17\x05"), "order"},
    {"type twice", BYTES("\xa2\x00\x0a\x00\x0a"), "order"},
    {"lacks its stream", BYTES("\xa2\x00\x09\x17\x05"), "lacks"},
    {"indefinite map", BYTES("\xbf\x00\x0a\xff"), "indefinite"},
    {"indefinite text",
     BYTES("\xa2\x00\x0b\x18\x18\x7f\x61"
           "a\xff"),
     "indefinite"},
    {"a tag", BYTES("\xa2\x00\x0a\x18\x40\xc1\x00"), "tag"},
    {"a float", BYTES("\xa2\x00\x0a\x18\x40\xf9\x00\x00"), "float"},
    {"a break", BYTES("\xa2\x00\x0a\x18\x40\xff"), "no message has"},
    {"text longer than all", BYTES("\xa2\x00\x0b\x18\x18\x7b\xff\xff\xff\xff\xff\xff\xff\xff"),
     "ends"},
    {"bytes of 4 GiB", BYTES("\xa2\x00\x05\x13\x5a\xff\xff\xff\xff"), "ends"},
    {"map of 2^64", BYTES("\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x00\x0a"), "entries"},
    {"skipped array of 2^60", BYTES("\xa2\x00\x0a\x18\x40\x9b\x10\x00\x00\x00\x00\x00\x00\x00"),
     "entries"},
    {"nested too deep", BYTES("\xa2\x00\x0a\x18\x40\x81\x81\x81\x81\x81\x81\x00"), "deeper"},
    {"control characters",
     BYTES("\xa3\x00\x0b\x17\x05\x18\x18\x62"
           "a\n"),
     "control characters"},
    {"a control sequence's head", BYTES("\xa3\x00\x0b\x17\x05\x18\x18\x62\xc2\x9b"),
     "control characters"},
    {"right-to-left override", BYTES("\xa3\x00\x0b\x17\x05\x18\x18\x63\xe2\x80\xae"),
     "control characters"},
    {"no UTF-8", BYTES("\xa3\x00\x0b\x17\x05\x18\x18\x61\x9b"), "not UTF-8"},
    {"a NUL in text",
     BYTES("\xa3\x00\x0b\x17\x05\x18\x18\x62"
           "a\0"),
     "control characters"},
    {"code too large",
     BYTES("\xa3\x00\x0b\x17\x19\xff\xff\x18\x18\x61"
           "a"),
     "code"},
    {"negative code",
     BYTES("\xa3\x00\x0b\x17\x20\x18\x18\x61"
           "a"),
     "no number"},
    {"empty stream name", BYTES("\xa2\x00\x06\x10\x60"), "stream"},
    {"wrong magic",
     BYTES("\xa2\x00\x01\x01\x68"
           "penstick"),
     "magic"},
    {"version of three",
     BYTES("\xa3\x00\x01\x01\x68"
           "penstock\x02\x83\x01\x00\x00"),
     "version"},
    {"five descriptors",
     BYTES("\xa4\x00\x05\x10\x61"
           "a\x13\x40\x15\x05"),
     "descriptors"},
    {"descriptors without id",
     BYTES("\xa4\x00\x05\x10\x61"
           "a\x13\x40\x15\x01"),
     "without an id"},
#define REGION(pairs_) "\x00\x0e" pairs_
#define NUMBER_AND_ACCESS "\x18\x1c\x01\x18\x1d\x00"
    {"region without its length", BYTES("\xa4" REGION("\x18\x19\x41k" NUMBER_AND_ACCESS)), "lacks"},
    {"length without a region", BYTES("\xa4" REGION("\x18\x1a\x08" NUMBER_AND_ACCESS)), "lacks"},
    {"region of 0 bytes", BYTES("\xa5" REGION("\x18\x19\x41k\x18\x1a\x00")), "length is 0"},
    {"region as text", BYTES("\xa5" REGION("\x18\x19\x61k\x18\x1a\x08")), "no byte string"},
    {"region of 16385 bytes", BYTES("\xa5" REGION("\x18\x19\x59\x40\x01")), "ends"},
    {"region's descriptors without id",
     BYTES("\xa6" REGION("\x18\x19\x41k\x18\x1a\x08\x18\x1b\x01" NUMBER_AND_ACCESS)),
     "without an id"},
    {"region's five descriptors", BYTES("\xa6" REGION("\x18\x19\x41k\x18\x1a\x08\x18\x1b\x05")),
     "descriptors"},
    {"descriptors of no region", BYTES("\xa5" REGION("\x14\x01\x18\x1b\x01" NUMBER_AND_ACCESS)),
     "lacks"},
    {"terms twice",
     BYTES("\xa5\x00\x02\x10\x61"
           "a\x11\xa2\x61k\x61v\x61k\x61v\x12\xa0\x13\x40"),
     "twice"},
    {"65 terms",
     BYTES("\xa5\x00\x02\x10\x61"
           "a\x11\xb8\x41"),
     "entries"},
    {"17 drops",
     BYTES("\xa3\x00\x06\x10\x61"
           "a\x16\xa1\x09\xb1"),
     "entries"},
    {"totals out of order",
     BYTES("\xa3\x00\x06\x10\x61"
           "a\x16\xa2\x01\x00\x00\x00"),
     "order"},
    {"bytes behind", BYTES("\xa1\x00\x0a\x00"), "follow"},
};

static void test_malformed(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    int rc = wire_decode((const uint8_t *)table[i].bytes, table[i].length, &heard, why);
    if (rc != -EPROTO || !strstr(why, table[i].why))
      fail_msg("%s: %d, '%s'", table[i].name, rc, rc ? why : "");
  }
}

/* A minor version may add keys: they are skipped, within bounds. */
static void test_unknown_keys_are_skipped(void **state)
{
  static const uint8_t body[] = "\xa3\x00\x0a\x18\x40\x82\xa1\x61k\x20\xf6\x18\x41\x43xyz";

  (void)state;
  if (wire_decode(body, sizeof(body) - 1, &heard, why) != 0)
    fail_msg("%s", why);
  assert_int_equal(heard.type, WIRE_KEEP);
}

static void test_unknown_stages_are_skipped(void **state)
{
  static const uint8_t body[] = "\xa3\x00\x06\x10\x61p\x16\xa1\x08\xa2\x01\x07\x18\x63\x05";

  (void)state;
  if (wire_decode(body, sizeof(body) - 1, &heard, why) != 0)
    fail_msg("%s", why);
  assert_int_equal(heard.totals.blocked_ns[1], 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hello),
      cmocka_unit_test(test_hello_of_another_major_is_named),
      cmocka_unit_test(test_largest_offer),
      cmocka_unit_test(test_accept_and_address),
      cmocka_unit_test(test_largest_accept),
      cmocka_unit_test(test_join_and_welcome),
      cmocka_unit_test(test_regions_of_nodes),
      cmocka_unit_test(test_another_address),
      cmocka_unit_test(test_empty_address),
      cmocka_unit_test(test_totals),
      cmocka_unit_test(test_unknown_totals_are_left_out),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_keep_and_bye),
      cmocka_unit_test(test_texts_are_cut_and_cleaned),
      cmocka_unit_test(test_encoder_refuses),
      cmocka_unit_test(test_messages_of_nodes),
      cmocka_unit_test(test_truncations),
      cmocka_unit_test(test_every_byte_changed),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_unknown_keys_are_skipped),
      cmocka_unit_test(test_unknown_stages_are_skipped),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
