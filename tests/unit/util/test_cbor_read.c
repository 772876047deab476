/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes by hand, from RFC 8949's appendix A and section 3. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/cbor_message.h"

static char why[PST_CBOR_WHY_MAX];

static struct pst_cbor_reader over(const void *bytes, size_t length)
{
  why[0] = '\0';
  return (struct pst_cbor_reader){.bytes = bytes, .left = length, .why = why};
}

#define OVER(text) over(text, sizeof(text) - 1)

static void numbers_are_read_within_their_bounds(void **state)
{
  static const struct {
    const char *bytes;
    size_t length;
    uint64_t value;
  } cases[] = {{"\x00", 1, 0},
               {"\x17", 1, 23},
               {"\x18\x18", 2, 24},
               {"\x19\x03\xe8", 3, 1000},
               {"\x1a\x00\x0f\x42\x40", 5, 1000000},
               {"\x1b\xff\xff\xff\xff\xff\xff\xff\xff", 9, UINT64_MAX}};
  (void)state;

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct pst_cbor_reader r = over(cases[i].bytes, cases[i].length);
    uint64_t value = 42;
    assert_int_equal(pst_cbor_read_uint(&r, 0, UINT64_MAX, &value, "slots"), 0);
    assert_int_equal(value, cases[i].value);
    assert_int_equal(r.left, 0);
  }
  struct pst_cbor_reader r = OVER("\x19\x03\xe8");
  uint32_t value = 42;
  assert_int_equal(pst_cbor_read_u32(&r, 1, 999, &value, "slots"), -EPROTO);
  assert_string_equal(why, "slots is 1000; 1 to 999 are legal");
  assert_int_equal(value, 42);
}

static void what_ends_too_early_is_told_apart(void **state)
{
  uint64_t value;
  (void)state;

  struct pst_cbor_reader r = OVER("");
  assert_int_equal(pst_cbor_read_uint(&r, 0, 9, &value, "slots"), -EPROTO);
  assert_string_equal(why, "it ends before its content");
  r = OVER("\x19\x03");
  assert_int_equal(pst_cbor_read_uint(&r, 0, 9, &value, "slots"), -EPROTO);
  assert_string_equal(why, "it ends within an item");
  r = OVER("\x1c");
  assert_int_equal(pst_cbor_read_uint(&r, 0, 9, &value, "slots"), -EPROTO);
  assert_string_equal(why, "it is not CBOR");
  r = OVER("\x61"
           "a");
  assert_int_equal(pst_cbor_read_uint(&r, 0, 9, &value, "slots"), -EPROTO);
  assert_string_equal(why, "slots is no number");
}

static void no_message_has_floats_tags_or_open_ends(void **state)
{
  static const char *const items[] = {"\xf9\x3c\x01", "\xc1\x01", "\x9f\x01\xff", "\xbf\xff",
                                      "\x5f\xff",     "\x7f\xff", "\xf7"};
  (void)state;

  for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++) {
    struct pst_cbor_reader r = over(items[i], strlen(items[i]));
    assert_int_equal(pst_cbor_skip(&r, 0), -EPROTO);
    assert_non_null(strstr(why, "an item that no message has"));
  }
}

static void texts_are_utf8_without_control_characters(void **state)
{
  static const char *const wrong[] = {("\x62"
                                       "a\n"),
                                      "\x62\xc3\x28", "\x63\xe2\x80\xae"};
  char text[5] = "";
  (void)state;

  struct pst_cbor_reader r = OVER("\x64\xc3\xbc\xc3\x9f");
  assert_int_equal(pst_cbor_read_text(&r, 1, 4, text, "name"), 0);
  assert_string_equal(text, "üß");
  r = OVER("\x65"
           "abcde");
  assert_int_equal(pst_cbor_read_text(&r, 1, 4, text, "name"), -EPROTO);
  assert_string_equal(why, "name has 5 bytes; 1 to 4 are legal");
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    r = over(wrong[i], strlen(wrong[i]));
    assert_int_equal(pst_cbor_read_text(&r, 0, 4, text, "name"), -EPROTO);
    assert_string_equal(why, "name has control characters, or is not UTF-8");
  }
  assert_string_equal(text, "üß");
}

static void bytes_stay_where_they_are(void **state)
{
  static const char item[] = "\x43\x00\x01\x02";
  const uint8_t *bytes;
  uint32_t length;
  (void)state;

  struct pst_cbor_reader r = over(item, 4);
  assert_int_equal(pst_cbor_read_bytes(&r, 0, 3, &bytes, &length, "key"), 0);
  assert_ptr_equal(bytes, item + 1);
  assert_int_equal(length, 3);
  /* A length of 2^40 bytes, of which one is there. */
  r = OVER("\x5b\x00\x00\x01\x00\x00\x00\x00\x00\x01");
  assert_int_equal(pst_cbor_read_bytes(&r, 0, 3, &bytes, &length, "key"), -EPROTO);
}

static void what_is_skipped_is_bounded(void **state)
{
  (void)state;

  struct pst_cbor_reader r = OVER("\x82\x81\x20\xa1\x01\xf6\x05");
  assert_int_equal(pst_cbor_skip(&r, 0), 0);
  assert_int_equal(r.left, 1);
  r = OVER("\x81\x81\x81\x81\x01");
  assert_int_equal(pst_cbor_skip(&r, 0), 0);
  r = OVER("\x81\x81\x81\x81\x81\x01");
  assert_int_equal(pst_cbor_skip(&r, 0), -EPROTO);
  assert_string_equal(why, "it is nested deeper than 4");
  r = OVER("\x99\x01\x01");
  assert_int_equal(pst_cbor_skip(&r, 0), -EPROTO);
  assert_string_equal(why, "a part has 257 entries; at most 256");
}

/* Type 1: needs key 2, may have key 5. A key 5 of 7 says that the rest is foreign. */
struct message {
  uint64_t values[6];
};

static int read_value(struct pst_cbor_reader *r, void *message, uint32_t key)
{
  return pst_cbor_read_uint(r, 0, 100, &((struct message *)message)->values[key], "value");
}

static bool is_foreign(const void *message, uint32_t seen)
{
  return (seen & 1u << 5) && ((const struct message *)message)->values[5] == 7;
}

static const struct pst_cbor_form forms[] = {{NULL, 0, 0}, {"HELLO", 1u << 2, 1u << 5}};
static const struct pst_cbor_protocol protocol = {forms, 2, read_value, is_foreign};

static void a_message_is_a_map_by_its_form(void **state)
{
  struct message message = {{0}};
  uint32_t type, seen;
  (void)state;

  struct pst_cbor_reader r = OVER("\xa4\x00\x01\x02\x09\x03\x82\x01\x02\x05\x08");
  assert_int_equal(pst_cbor_read_message(&r, &protocol, &message, &type, &seen), 0);
  assert_int_equal(type, 1);
  assert_int_equal(seen, 1u | 1u << 2 | 1u << 5);
  assert_int_equal(message.values[2], 9);
  assert_int_equal(message.values[5], 8);
  /* Fields of another version are not checked: neither missing ones nor those that follow. */
  r = OVER("\xa3\x00\x01\x05\x07\x06\xff");
  assert_int_equal(pst_cbor_read_message(&r, &protocol, &message, &type, &seen), 0);
}

static void messages_that_are_none_say_why(void **state)
{
  static const struct {
    const char *bytes;
    size_t length;
    const char *why;
  } cases[] = {
      {"\x81\x00", 2, "it is no map"},
      {"\xa0", 1, "it is empty"},
      {"\xa1\x01\x01", 3, "its first key is 1 instead of the type's"},
      {"\xa1\x00\x00", 3, "there is no message type 0"},
      {"\xa1\x00\x02", 3, "there is no message type 2"},
      {"\xa1\x00\x01", 3, "HELLO lacks key 2"},
      {"\xa3\x00\x01\x05\x01\x02\x01", 7, "HELLO has its keys out of order"},
      {"\xa3\x00\x01\x02\x01\x02\x01", 7, "HELLO has its keys out of order"},
      {"\xa2\x00\x01\x02\x18\x65", 6, "value is 101; 0 to 100 are legal"},
      {"\xa2\x00\x01\x02\x01\x00", 6, "1 bytes follow its end"},
      {"\xb9\x01\x01\x00\x01", 5, "it has 257 entries; at most 256"},
  };
  struct message message;
  uint32_t type, seen;
  (void)state;

  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct pst_cbor_reader r = over(cases[i].bytes, cases[i].length);
    assert_int_equal(pst_cbor_read_message(&r, &protocol, &message, &type, &seen), -EPROTO);
    assert_string_equal(why, cases[i].why);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_read_within_their_bounds),
      cmocka_unit_test(what_ends_too_early_is_told_apart),
      cmocka_unit_test(no_message_has_floats_tags_or_open_ends),
      cmocka_unit_test(texts_are_utf8_without_control_characters),
      cmocka_unit_test(bytes_stay_where_they_are),
      cmocka_unit_test(what_is_skipped_is_bounded),
      cmocka_unit_test(a_message_is_a_map_by_its_form),
      cmocka_unit_test(messages_that_are_none_say_why),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
