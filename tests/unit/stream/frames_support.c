/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of stream: frames support. */
#include "frames_support.h"

void seed_frames(struct run *run)
{
  const uint64_t seed = SEED;

  assert_int_equal(pst_sender_pattern(pst_session_sender(run->session, "a"), &seed), 0);
}

void open_frames_over(struct run *run, const char *transport, const char *of_sender,
                      const char *memory, const char *assemble)
{
  char text[1024];

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "transport: %s\n"
           "streams:\n"
           "- name: a\n"
           "  message: %d B\n"
           "  ring: 256\n"
           "  sender: {transport: {%s}}\n"
           "  receiver: {memory: %s, assemble: {%s}}\n",
           transport, MESSAGE, of_sender, memory, assemble);
  open_text(run, text);
  seed_frames(run);
}

void open_frames(struct run *run, const char *memory, const char *assemble, const char *filters)
{
  open_frames_over(run, "loopback", filters, memory, assemble);
}

void feed_full(struct pst_sender *sender, uint64_t *sent, uint64_t total)
{
  struct pst_slot slots[BATCH];
  int n;

  if (*sent == total) {
    assert_true(pst_sender_poll(sender) >= 0);
    return;
  }
  n = pst_sender_acquire(sender, slots, total - *sent < BATCH ? (uint32_t)(total - *sent) : BATCH);
  assert_true(n >= 0);
  for (int i = 0; i < n; i++) {
    slots[i].length = MESSAGE;
    slots[i].meta = slots[i].sequence / 5; /* a timestamp: five messages each */
  }
  assert_int_equal(pst_sender_fill(sender, slots, (uint32_t)n), 0);
  assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)n), 0);
  *sent += (uint64_t)n;
  if (*sent == total)
    assert_int_equal(pst_sender_finish(sender), 0);
}
