/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: the work. */
#include "late.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

uint64_t late_checksum(const uint8_t *bytes, uint64_t length)
{
  uint64_t sum = length;
  uint64_t word;
  for (; length >= 8; length -= 8, bytes += 8) {
    memcpy(&word, bytes, 8);
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    sum ^= sum >> 32;
  }
  for (; length > 0; length--, bytes++)
    sum = (sum ^ *bytes) * UINT64_C(0x100000001b3);
  return sum;
}

/* By memory.h's definition and nothing else, so that it also checks the fast
 * code of other memories. */
static uint64_t first_word(uint64_t seed, uint64_t sequence)
{
  uint64_t z = seed + sequence * PST_PATTERN_SEQUENCE;
  z ^= z >> 30;
  z *= UINT64_C(0xbf58476d1ce4e5b9);
  z ^= z >> 27;
  z *= UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static uint8_t expected_byte(uint64_t first, uint64_t at)
{
  return (uint8_t)((first + at / 8 * PST_PATTERN_STEP) >> (at % 8 * 8));
}

/* Up to the word with the first wrong byte, or the last, cut one. */
static uint64_t right_words(const uint8_t *bytes, uint64_t length, uint64_t first)
{
  uint64_t at = 0, word;
  for (; length - at >= 8; at += 8, first += PST_PATTERN_STEP) {
    memcpy(&word, bytes + at, 8);
    if (le64toh(word) != first)
      break;
  }
  return at;
}

static void verify(const struct late_piece *piece, uint64_t seed, struct pst_verify_result *found)
{
  uint64_t first = first_word(seed, piece->sequence);
  found->checked++;
  for (uint64_t at = right_words(piece->destination, piece->length, first); at < piece->length;
       at++) {
    uint8_t expected = expected_byte(first, at);
    if (piece->destination[at] == expected)
      continue;
    if (found->corrupted++ == 0) {
      found->sequence = piece->sequence;
      found->offset = at;
      found->expected = expected;
      found->found = piece->destination[at];
    }
    return;
  }
}

static bool copy(const struct pst_memory *memory, const struct late_job *job,
                 const struct late_piece *piece)
{
  if (piece->length)
    memcpy(piece->destination, piece->source, piece->length);
  if (!piece->watched || late_checksum(piece->destination, piece->length) == piece->checksum)
    return true;
  late_error(memory,
             "copy batch %" PRIu64 ": the source at %p, %" PRIu64
             " B, changed between submission and execution: its slot was given away before the "
             "copy was done; hold it until queue_poll() or the fence says so",
             job->ticket, (void *)piece->source, piece->length);
  return false;
}

bool late_work(const struct pst_memory *memory, const struct late_job *job,
               struct pst_verify_result *found)
{
  bool right = true;
  for (uint32_t i = 0; i < job->n; i++) {
    const struct late_piece *piece = &job->pieces[i];
    if (job->work == LATE_COPY) {
      right = copy(memory, job, piece) && right;
    } else if (job->work == LATE_VERIFY) {
      verify(piece, job->seed, found);
    } else {
      uint64_t first = first_word(job->seed, piece->sequence);
      for (uint64_t at = 0; at < piece->length; at++)
        piece->destination[at] = expected_byte(first, at);
    }
  }
  return right;
}
