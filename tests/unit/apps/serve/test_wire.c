/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of serve and its clients: what is encoded decodes the same; what is wrong is
 * told. */
#include <errno.h>
#include <string.h>

#include "serve/wire.h"
#include "support.h"

static uint8_t bytes[SERVE_MESSAGE_MAX];
static char why[SERVE_WHY_MAX];
static struct serve_message in, out;

static size_t encode(const struct serve_message *message)
{
  size_t length = 0;

  assert_int_equal(serve_encode(message, bytes, sizeof(bytes), &length), 0);
  return length;
}

/* Messages of every type, with every number at its largest. */
static void test_all_types_come_back(void **state)
{
  (void)state;
  for (uint32_t type = SERVE_HELLO; type <= SERVE_PING; type++) {
    in = (struct serve_message){.type = type,
                                .code = 4095,
                                .tag = UINT64_MAX,
                                .major = SERVE_MAJOR,
                                .minor = 7,
                                .program = "0.1.0",
                                .region = UINT64_MAX,
                                .place = INT64_MAX,
                                .op = SERVE_OP_READ,
                                .pieces = UINT32_MAX,
                                .length = INT64_MAX,
                                .iteration = UINT64_MAX,
                                .flags = SERVE_FLAGS,
                                .file = UINT32_MAX,
                                .offset = INT64_MAX,
                                .size = INT64_MAX,
                                .mode = 0777,
                                .crc = UINT32_MAX,
                                .has_sha256 = true,
                                .sha256 = {1, 2, 3, [31] = 4},
                                .ns = UINT64_MAX,
                                .cursor = UINT64_MAX,
                                .request_max = INT64_MAX,
                                .chunk_max = INT64_MAX,
                                .idle_ns = UINT64_MAX,
                                .window = UINT32_MAX,
                                .name = (const uint8_t *)"a/b",
                                .name_length = 3,
                                .text = "why not",
                                .entry_count = 2,
                                .entries = {{SERVE_KIND_FILE, 1, (const uint8_t *)"f"},
                                            {SERVE_KIND_FOLDER, 2, (const uint8_t *)"dd"}}};
    size_t length = encode(&in);
    assert_int_equal(serve_decode(bytes, length, &out, why), 0);
    assert_int_equal(out.type, type);
    /* A decoded message encodes to the same bytes. */
    uint8_t first[sizeof(bytes)];
    memcpy(first, bytes, length);
    assert_int_equal(encode(&out), length);
    assert_memory_equal(first, bytes, length);
    /* Cut anywhere, it is no message. */
    for (size_t cut = 0; cut < length; cut++)
      assert_int_equal(serve_decode(first, cut, &out, why), -EPROTO);
  }
}

static void test_values_arrive(void **state)
{
  (void)state;
  in = (struct serve_message){.type = SERVE_FETCH,
                              .tag = 9,
                              .file = 3,
                              .offset = 1 << 20,
                              .length = 4096,
                              .region = 5,
                              .place = 8192};
  assert_int_equal(serve_decode(bytes, encode(&in), &out, why), 0);
  assert_int_equal(out.tag, 9);
  assert_int_equal(out.file, 3);
  assert_int_equal(out.offset, 1 << 20);
  assert_int_equal(out.length, 4096);
  assert_int_equal(out.region, 5);
  assert_int_equal(out.place, 8192);
  in =
      (struct serve_message){.type = SERVE_OPEN, .name = (const uint8_t *)"n\0x", .name_length = 3};
  assert_int_equal(serve_decode(bytes, encode(&in), &out, why), 0);
  assert_int_equal(out.name_length, 3);
  assert_memory_equal(out.name, "n\0x", 3);
}

/* A server of another major version is not taken for a broken one, whatever else it sends. */
static void test_another_major_is_known_as_such(void **state)
{
  (void)state;
  in = (struct serve_message){.type = SERVE_HELLO, .major = SERVE_MAJOR + 1, .minor = 5};
  size_t length = encode(&in);
  assert_int_equal(serve_decode(bytes, length, &out, why), 0);
  assert_int_equal(out.major, SERVE_MAJOR + 1);
  assert_int_equal(out.minor, 5);
  bytes[length - 1] = 0xff; /* in the program's name, which a later major may not have */
  assert_int_equal(serve_decode(bytes, length, &out, why), 0);
}

static void test_too_long_is_refused(void **state)
{
  size_t length = 77;

  (void)state;
  in = (struct serve_message){.type = SERVE_DONE, .tag = 1};
  assert_int_equal(serve_encode(&in, bytes, 4, &length), -E2BIG);
  assert_int_equal(length, 77);
  in.type = SERVE_PING + 1;
  assert_int_equal(serve_encode(&in, bytes, sizeof(bytes), &length), -EINVAL);
  in = (struct serve_message){.type = SERVE_LISTED, .entry_count = SERVE_ENTRIES_MAX + 1};
  assert_int_equal(serve_encode(&in, bytes, sizeof(bytes), &length), -EINVAL);
}

static void test_text_is_cut_and_cleaned(void **state)
{
  (void)state;
  in = (struct serve_message){.type = SERVE_REFUSE, .code = 28};
  memset(in.text, 'x', sizeof(in.text) - 1);
  memcpy(in.text, "a\nb", 3);
  assert_int_equal(serve_decode(bytes, encode(&in), &out, why), 0);
  assert_int_equal(strlen(out.text), SERVE_TEXT_MAX);
  assert_memory_equal(out.text, "a b", 3);
}

static void expect_wrong(const char *message, size_t length, const char *said)
{
  why[0] = '\0';
  assert_int_equal(serve_decode((const uint8_t *)message, length, &out, why), -EPROTO);
  if (!strstr(why, said))
    fail_msg("'%s' does not say '%s'", why, said);
}
#define EXPECT_WRONG(message, said) expect_wrong(message, sizeof(message) - 1, said)

static void test_what_is_wrong_is_reported(void **state)
{
  (void)state;
  EXPECT_WRONG("", "ends before");
  EXPECT_WRONG("\xa0", "empty");
  EXPECT_WRONG("\x01", "no map");
  EXPECT_WRONG("\xa1\x05\x01", "first key");
  EXPECT_WRONG("\xa1\x00\x18\x63", "no message type 99");
  EXPECT_WRONG("\xa1\x00\x04", "DONE lacks key 5");
  EXPECT_WRONG("\xa2\x00\x04\x05\x01\x00", "1 bytes follow");
  EXPECT_WRONG("\xa3\x00\x04\x05\x01\x05\x01", "out of order");
  EXPECT_WRONG("\xa2\x00\x04\x05\x61x", "tag is no number");
  EXPECT_WRONG("\xa2\x00\x04\x05\xf9\x00\x00", "no message has");
  EXPECT_WRONG("\xa2\x00\x04\x05\x1b\xff\xff\xff", "within an item");
  EXPECT_WRONG("\xa3\x00\x07\x05\x01\x0d\x60", "is no byte string");
  EXPECT_WRONG("\xa3\x00\x07\x05\x01\x0d\x59\x04\x01", "within an item");
  EXPECT_WRONG("\xa4\x00\x03\x05\x01\x14\x00\x15\x60", "code is 0");
  EXPECT_WRONG("\xa4\x00\x03\x05\x01\x14\x01\x15\x61\n", "control characters");
  EXPECT_WRONG("\xa3\x00\x10\x05\x01\x13\x41x", "sha256 has 1 bytes");
  EXPECT_WRONG("\xa4\x00\x14\x05\x01\x17\x00\x18\x18\x81\x01", "an even number");
  EXPECT_WRONG("\xa4\x00\x14\x05\x01\x17\x00\x18\x18\x82\x09\x41x", "kind is 9");
  EXPECT_WRONG("\xa4\x00\x14\x05\x01\x17\x00\x18\x18\x82\x01\x40", "name has 0 bytes");
  EXPECT_WRONG("\xa2\x00\x04\x18\x64\x81\x81\x81\x81\x81\x01", "nested deeper");
  EXPECT_WRONG("\xa5\x00\x01\x01\x65other", "magic is not ours");
}

static void test_later_keys_are_skipped(void **state)
{
  static const char message[] = "\xa3\x00\x04\x05\x07\x18\x64\xa1\x01\x82\x20\xf5";

  (void)state;
  assert_int_equal(serve_decode((const uint8_t *)message, sizeof(message) - 1, &out, why), 0);
  assert_int_equal(out.tag, 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_types_come_back),
      cmocka_unit_test(test_values_arrive),
      cmocka_unit_test(test_another_major_is_known_as_such),
      cmocka_unit_test(test_too_long_is_refused),
      cmocka_unit_test(test_text_is_cut_and_cleaned),
      cmocka_unit_test(test_what_is_wrong_is_reported),
      cmocka_unit_test(test_later_keys_are_skipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
