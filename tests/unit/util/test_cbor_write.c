/* SPDX-License-Identifier: Apache-2.0 */
/* Beside bytes by hand, from RFC 8949's appendix A. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "util/cbor_message.h"

static uint8_t room[600];

static struct pst_cbor_writer into(size_t size)
{
  memset(room, 0xee, sizeof(room));
  return (struct pst_cbor_writer){.bytes = room, .size = size};
}

#define expect(w, text)                                                                            \
  do {                                                                                             \
    assert_false((w).full);                                                                        \
    assert_int_equal((w).at, sizeof(text) - 1);                                                    \
    assert_memory_equal(room, text, sizeof(text) - 1);                                             \
  } while (0)

static void each_item_has_its_shortest_form(void **state)
{
  struct pst_cbor_writer w = into(sizeof(room));
  (void)state;

  pst_cbor_write_map(&w, 2);
  pst_cbor_write_uint(&w, 0);
  pst_cbor_write_uint(&w, 24);
  pst_cbor_write_uint(&w, 1000);
  pst_cbor_write_array(&w, 2);
  pst_cbor_write_uint(&w, UINT64_MAX);
  pst_cbor_write_bytes(&w, "\x01\x02", 2);
  pst_cbor_write_text(&w, "ü", 10);
  expect(w, "\xa2\x00\x18\x18\x19\x03\xe8\x82\x1b\xff\xff\xff\xff\xff\xff\xff\xff\x42\x01\x02\x62"
            "\xc3\xbc");
}

static void texts_are_cut_between_characters(void **state)
{
  struct pst_cbor_writer w = into(sizeof(room));
  (void)state;

  pst_cbor_write_text(&w, "aüb", 2);
  pst_cbor_write_text(&w, "aüb", 3);
  pst_cbor_write_text(&w, "aüb", 0);
  expect(w, "\x61"
            "a\x63"
            "a\xc3\xbc\x60");
}

static void a_text_is_never_longer_than_any_reader_takes(void **state)
{
  static char text[PST_CBOR_TEXT_MAX + 100];
  struct pst_cbor_writer w = into(sizeof(room));
  (void)state;

  memset(text, 'a', sizeof(text) - 1);
  pst_cbor_write_text(&w, text, sizeof(text));
  assert_int_equal(w.at, 3 + PST_CBOR_TEXT_MAX);
}

/* So that what is written is a text that the peer reads. */
static void control_characters_become_spaces(void **state)
{
  struct pst_cbor_writer w = into(sizeof(room));
  (void)state;

  pst_cbor_write_text(&w, "a\nb\xff", 10);
  expect(w, "\x64"
            "a b ");
}

static void a_full_writer_stays_full_and_within_its_room(void **state)
{
  (void)state;

  for (size_t size = 0; size < 6; size++) {
    struct pst_cbor_writer w = into(size);
    pst_cbor_write_uint(&w, 1);
    pst_cbor_write_bytes(&w, "1234", 4);
    assert_true(w.full);
    pst_cbor_write_uint(&w, 1);
    pst_cbor_write_text(&w, "", 1);
    assert_true(w.full);
    assert_in_range(w.at, 0, size);
    assert_int_equal(room[size], 0xee);
  }
  struct pst_cbor_writer w = into(6);
  pst_cbor_write_uint(&w, 1);
  pst_cbor_write_bytes(&w, "1234", 4);
  expect(w, "\x01\x44"
            "1234");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_item_has_its_shortest_form),
      cmocka_unit_test(texts_are_cut_between_characters),
      cmocka_unit_test(a_text_is_never_longer_than_any_reader_takes),
      cmocka_unit_test(control_characters_become_spaces),
      cmocka_unit_test(a_full_writer_stays_full_and_within_its_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
