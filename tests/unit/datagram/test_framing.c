/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/datagram/framing.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "framing.h"

static enum dg_parse_result parse(enum dg_framing framing, const uint8_t *bytes, uint32_t total,
                                  struct dg_header *header, uint32_t *offset, uint32_t *length)
{
  return dg_parse(framing, false, bytes, bytes + dg_header_bytes(framing, false), total, total,
                  header, offset, length);
}

static void sequence_header_is_rivermaxs(void **state)
{
  static const uint8_t expected[8] = {0x12, 0x34, 0x56, 0x78, 0, 0, 1, 0xfe};
  struct dg_header header = {.sequence = 0x12345678, .checksum = 510}, read;
  uint8_t bytes[10] = {[8] = 255, [9] = 255};
  uint32_t offset, length;

  (void)state;
  dg_write(DG_FRAMING_SEQUENCE, &header, bytes);
  assert_memory_equal(bytes, expected, 8);
  assert_int_equal(parse(DG_FRAMING_SEQUENCE, bytes, 10, &read, &offset, &length), DG_PARSED);
  assert_int_equal(read.sequence, 0x12345678);
  assert_int_equal(read.checksum, dg_byte_sum(bytes + 8, 2));
  assert_int_equal(offset, 0);
  assert_int_equal(length, 2);
}

static void rtp_header_is_rfc_3550s(void **state)
{
  static const uint8_t expected[12] = {0x80, 0x80 | 33, 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8};
  struct dg_header header = {.sequence = 0x1abcd,
                             .timestamp = 0x01020304,
                             .ssrc = 0x05060708,
                             .payload_type = 33,
                             .marker = true};
  struct dg_header read;
  uint8_t bytes[12];
  uint32_t offset, length;

  (void)state;
  dg_write(DG_FRAMING_RTP, &header, bytes);
  assert_memory_equal(bytes, expected, 12);
  assert_int_equal(parse(DG_FRAMING_RTP, bytes, 12, &read, &offset, &length), DG_PARSED);
  assert_int_equal(read.sequence, 0xabcd);
  assert_int_equal(read.timestamp, header.timestamp);
  assert_int_equal(read.ssrc, header.ssrc);
  assert_int_equal(read.payload_type, 33);
  assert_true(read.marker);
  assert_int_equal(length, 0);
}

#define NONCE UINT64_C(0x0102030405060708)

/* A foreign receiver of RTP skips the extension; one of Penstock's finds the nonce there. */
static void nonce_ends_the_header(void **state)
{
  static const uint8_t rtp[24] = {0x90, 96,  0, 7, 0, 0, 0, 0, 0, 0, 0, 0,
                                  'P',  'S', 0, 2, 1, 2, 3, 4, 5, 6, 7, 8};
  static const uint8_t sequence[16] = {0, 0, 0, 7, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8};
  static const enum dg_framing framings[] = {DG_FRAMING_RTP, DG_FRAMING_SEQUENCE};
  struct dg_header header = {.sequence = 7, .payload_type = 96, .nonce = NONCE, .has_nonce = true};
  uint32_t offset, length;

  (void)state;
  for (int i = 0; i < 2; i++) {
    uint32_t bytes = dg_header_bytes(framings[i], true);
    uint8_t written[29] = {[28] = 1};
    struct dg_header read;

    header.checksum = framings[i] == DG_FRAMING_SEQUENCE ? 9 : 0;
    dg_write(framings[i], &header, written);
    assert_int_equal(bytes, framings[i] == DG_FRAMING_RTP ? sizeof(rtp) : sizeof(sequence));
    assert_memory_equal(written, framings[i] == DG_FRAMING_RTP ? rtp : sequence, bytes);
    assert_int_equal(dg_parse(framings[i], true, written, written + bytes, bytes + 5, bytes + 5,
                              &read, &offset, &length),
                     DG_PARSED);
    assert_int_equal(read.sequence, 7);
    assert_true(read.has_nonce && read.nonce == NONCE);
    assert_int_equal(offset, 0);
    assert_int_equal(length, 5);
  }
  assert_int_equal(parse(DG_FRAMING_RTP, rtp, sizeof(rtp), &header, &offset, &length), DG_PARSED);
  assert_int_equal(offset, 12);
  assert_int_equal(length, 0);
}

/* Each bit that makes it the nonce counts, and so does where it stands. */
static void another_nonce_is_none(void **state)
{
  static const enum dg_framing framings[] = {DG_FRAMING_RTP, DG_FRAMING_SEQUENCE};
  struct dg_header header = {.nonce = NONCE, .has_nonce = true};
  uint8_t bytes[24];

  (void)state;
  for (int i = 0; i < 2; i++) {
    uint32_t size = dg_header_bytes(framings[i], true);

    dg_write(framings[i], &header, bytes);
    assert_true(dg_has_nonce(framings[i], bytes, size, NONCE));
    for (uint32_t total = 0; total < size; total++)
      assert_false(dg_has_nonce(framings[i], bytes, total, NONCE));
    for (uint32_t bit = 0; bit < 64; bit++)
      assert_false(dg_has_nonce(framings[i], bytes, size, NONCE ^ UINT64_C(1) << bit));
  }
  assert_false(dg_has_nonce(DG_FRAMING_NONE, bytes, sizeof(bytes), NONCE));
  dg_write(DG_FRAMING_RTP, &header, bytes);
  for (uint32_t bit = 0; bit < 32; bit++) { /* the extension's own header */
    bytes[12 + bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_false(dg_has_nonce(DG_FRAMING_RTP, bytes, sizeof(bytes), NONCE));
    bytes[12 + bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  for (uint32_t bit = 0; bit < 5; bit++) { /* contributing sources, or no extension */
    bytes[0] ^= (uint8_t)(1 << bit);
    assert_false(dg_has_nonce(DG_FRAMING_RTP, bytes, sizeof(bytes), NONCE));
    bytes[0] ^= (uint8_t)(1 << bit);
  }
}

/* Two contributing sources, an extension of one word, three bytes of payload, two of
 * padding. */
static const uint8_t full[] = {0xb2, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9,    1,    2,    3, 4, 5,
                               6,    7,  8, 0, 0, 0, 1, 9, 9, 9, 9, 0xaa, 0xbb, 0xcc, 0, 2};

static void payload_lies_between_extension_and_padding(void **state)
{
  struct dg_header header;
  uint32_t offset, length;

  (void)state;
  assert_int_equal(parse(DG_FRAMING_RTP, full, sizeof(full), &header, &offset, &length), DG_PARSED);
  assert_int_equal(offset, 16);
  assert_int_equal(length, 3);
  assert_int_equal(full[12 + offset], 0xaa);
}

/* The last byte counts padding: what is cut says 0, 0xcc, 0xbb …, none of which fits. */
static void every_cut_is_a_bad_header(void **state)
{
  struct dg_header header;
  uint32_t offset, length;

  (void)state;
  for (uint32_t total = 0; total < sizeof(full); total++)
    assert_int_equal(parse(DG_FRAMING_RTP, full, total, &header, &offset, &length), DG_BAD_HEADER);
  for (uint32_t total = 0; total < 8; total++)
    assert_int_equal(parse(DG_FRAMING_SEQUENCE, full, total, &header, &offset, &length),
                     DG_BAD_HEADER);
}

static void extension_beyond_the_end_is_a_bad_header(void **state)
{
  struct dg_header header;
  uint8_t bytes[sizeof(full)];
  uint32_t offset, length;

  (void)state;
  memcpy(bytes, full, sizeof(full));
  bytes[22] = 0xff;
  bytes[23] = 0xff;
  assert_int_equal(parse(DG_FRAMING_RTP, bytes, sizeof(bytes), &header, &offset, &length),
                   DG_BAD_HEADER);
}

/* The payload lies in a GPU: here, behind the last byte that may be read nothing is mapped. */
static enum dg_parse_result parse_split(const uint8_t *bytes, uint32_t total, uint32_t readable,
                                        uint32_t *offset, uint32_t *length)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct dg_header header;

  assert_ptr_not_equal(pages, MAP_FAILED);
  assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
  uint8_t *at = pages + page - readable;
  memcpy(at, bytes, readable);
  enum dg_parse_result result =
      dg_parse(DG_FRAMING_RTP, false, at, at + 12, total, readable, &header, offset, length);
  munmap(pages, 2 * page);
  return result;
}

static void nothing_behind_a_split_is_read(void **state)
{
  uint8_t bytes[sizeof(full)];
  uint32_t offset, length;

  (void)state;
  memcpy(bytes, full, sizeof(full));
  for (uint32_t readable = 12; readable < sizeof(full);
       readable++) /* its padding is out of reach */
    assert_int_equal(parse_split(bytes, sizeof(full), readable, &offset, &length), DG_UNREADABLE);
  bytes[0] ^= 0x20; /* no padding: all but the length of the extension may be out of reach */
  for (uint32_t readable = 12; readable <= sizeof(full); readable++) {
    offset = length = 99;
    assert_int_equal(parse_split(bytes, sizeof(full), readable, &offset, &length),
                     readable < 24 ? DG_UNREADABLE : DG_PARSED);
    assert_int_equal(offset, readable < 24 ? 99 : 16);
    assert_int_equal(length, readable < 24 ? 99 : 5);
  }
  bytes[0] ^= 0x10; /* no extension: contributing sources are skipped unread */
  assert_int_equal(parse_split(bytes, sizeof(full), 12, &offset, &length), DG_PARSED);
  assert_int_equal(offset, 8);
  assert_int_equal(parse_split(bytes, 19, 12, &offset, &length), DG_BAD_HEADER);
}

static void padding_counts_itself_and_no_more_than_there_is(void **state)
{
  static const struct {
    uint8_t count;
    enum dg_parse_result result;
  } cases[] = {
      {0, DG_BAD_HEADER}, {1, DG_PARSED}, {4, DG_PARSED}, {5, DG_BAD_HEADER}, {255, DG_BAD_HEADER}};
  struct dg_header header;
  uint8_t bytes[16] = {0xa0, 96};
  uint32_t offset, length;

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    bytes[15] = cases[i].count;
    assert_int_equal(parse(DG_FRAMING_RTP, bytes, 16, &header, &offset, &length), cases[i].result);
    if (cases[i].result == DG_PARSED)
      assert_int_equal(length, 4 - cases[i].count);
  }
}

static void other_versions_are_told_apart(void **state)
{
  struct dg_header header;
  uint8_t bytes[12] = {0};
  uint32_t offset, length;

  (void)state;
  for (uint8_t version = 0; version < 4; version++) {
    bytes[0] = (uint8_t)(version << 6);
    assert_int_equal(parse(DG_FRAMING_RTP, bytes, 12, &header, &offset, &length),
                     version == 2 ? DG_PARSED : DG_NO_MESSAGE);
  }
}

static void without_framing_all_is_payload(void **state)
{
  struct dg_header header;
  uint32_t offset, length;

  (void)state;
  assert_int_equal(parse(DG_FRAMING_NONE, full, 7, &header, &offset, &length), DG_PARSED);
  assert_int_equal(offset, 0);
  assert_int_equal(length, 7);
}

static void byte_sum_is_the_sum_of_bytes(void **state)
{
  static uint8_t bytes[70000];
  uint32_t seed = 1;

  (void)state;
  for (size_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (uint8_t)(seed = seed * 1103515245u + 12345) | (i % 3 ? 0 : 0xf0);
  for (size_t from = 0; from < 256; from++)
    for (size_t length = 0; length < 300; length++) {
      uint32_t sum = 0;
      for (size_t i = 0; i < length; i++)
        sum += bytes[from + i];
      assert_int_equal(dg_byte_sum(bytes + from, length), sum);
    }
  memset(bytes, 255, sizeof(bytes));
  assert_int_equal(dg_byte_sum(bytes, 65507), 65507u * 255);
  assert_int_equal(dg_byte_sum(bytes + 1, 65499), 65499u * 255);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequence_header_is_rivermaxs),
      cmocka_unit_test(rtp_header_is_rfc_3550s),
      cmocka_unit_test(nonce_ends_the_header),
      cmocka_unit_test(another_nonce_is_none),
      cmocka_unit_test(payload_lies_between_extension_and_padding),
      cmocka_unit_test(every_cut_is_a_bad_header),
      cmocka_unit_test(extension_beyond_the_end_is_a_bad_header),
      cmocka_unit_test(nothing_behind_a_split_is_read),
      cmocka_unit_test(padding_counts_itself_and_no_more_than_there_is),
      cmocka_unit_test(other_versions_are_told_apart),
      cmocka_unit_test(without_framing_all_is_payload),
      cmocka_unit_test(byte_sum_is_the_sum_of_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
