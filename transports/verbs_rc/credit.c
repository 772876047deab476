/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credits: slots that were released go back to the sender as runs of slot numbers: in the next
 * poll, or, as long as the sender has half of its slots to use, once a quarter of them is back, so
 * that large messages do not have a message of credit each. A sender has receives for a known
 * number of such messages; how many it has taken in is known from its messages, which use slots in
 * the order of their grant. With all of them under way it has that many slots to use at least, so
 * that nobody waits.
 */
#include <endian.h>

#include "connection.h"
#include "queue.h"
#include "receive.h"
#include "shared.h"

/* Whether there is credit to give. */
static bool has_some(const struct rc_rx *rx)
{
  return rx->sends ? rx->ungranted : rc_back_count(rx);
}

/* It has enough to go on with, and more will come back. */
static bool can_wait(const struct pst_endpoint *endpoint)
{
  const struct rc_rx *rx = endpoint->rx;
  const uint32_t waits = rc_back_count(rx) + rx->ungranted;
  const uint32_t granted =
      rx->sends && endpoint->shared ? rx->granted : rc_granted_count(rx) - rx->ungranted;

  return waits < rx->share / 4 && granted >= rx->share / 2;
}

static uint32_t fill(struct rc_rx *rx, struct rc_run *runs)
{
  const uint32_t *slots = rx->line.at;
  const uint32_t mask = rx->line.mask, head = rx->line.head;
  uint32_t n = 0, at = rx->given;

  if (rx->sends) { /* which slot is the receive's business */
    runs[0] = (struct rc_run){0, htobe32(rx->ungranted)};
    rx->grants += rx->ungranted;
    rx->granted += rx->ungranted;
    rx->ungranted = 0;
    return 1;
  }
  while (at != head && n < rx->runs_max) {
    uint32_t first = slots[at & mask], next = first + 1;
    while (++at != head && slots[at & mask] == next)
      next++;
    runs[n++] = (struct rc_run){htobe32(first), htobe32(next - first)};
  }
  rx->grants += at - rx->given;
  rx->given = at;
  return n;
}

/* Receives come before the credit that uses them. */
static int restore_receives(struct pst_endpoint *endpoint)
{
  if (endpoint->shared)
    return rc_shared_post(endpoint->shared);
  if (endpoint->rx->sends)
    return rc_slots_post_back(endpoint);
  return rc_receives_restore(endpoint);
}

void rc_credit_send(struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx;

  if (endpoint->stage.name != RC_CONNECTED || endpoint->closing.mode ||
      (rc_back_count(rx) == 0 && !has_some(rx)) || can_wait(endpoint))
    return;
  int rc = restore_receives(endpoint);
  while (rc == 0 && has_some(rx) && rx->credits_sent - rx->credits_taken < rx->control_receives) {
    if (rc_queue_own_room(endpoint) <= RC_SPARE_SENDS / 2) {
      if (endpoint->sq_told != endpoint->sq_done) /* there is more when they are */
        rc_pend(endpoint);
      break;
    }
    const uint64_t message = rx->credits_sent;
    uint8_t *at = rc_send_buffer(endpoint, (uint32_t)(message % endpoint->credit_depth));
    rx->first_of[message % RC_CONTROL_RECEIVES] = rx->before + rx->grants;
    uint32_t n = fill(rx, (struct rc_run *)(void *)at);
    struct ibv_sge bytes = {.addr = (uintptr_t)at,
                            .length = n * (uint32_t)sizeof(struct rc_run),
                            .lkey = endpoint->credit_mr ? endpoint->credit_mr->lkey : 0};
    rx->credits_sent++;
    rc = rc_queue_own(endpoint, RC_CREDIT, &bytes);
  }
  if (rc < 0)
    rc_fail(endpoint, rc, "posting credits");
}

bool rc_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length)
{
  struct rc_tx *tx = endpoint->tx;
  struct rc_fifo *credits = &tx->credits;
  struct rc_run run;

  if (length == 0 || length % sizeof(run) != 0 || length > RC_CONTROL_BYTES)
    return false;
  for (uint32_t i = 0; i < length; i += (uint32_t)sizeof(run)) {
    memcpy(&run, bytes + i, sizeof(run));
    uint32_t first = be32toh(run.first), count = be32toh(run.count);
    if (first >= tx->slots || count > tx->slots - first ||
        count > credits->mask + 1 - rc_fifo_count(credits))
      return false;
    uint32_t head = credits->head;
    for (const uint32_t end = first + count; first != end; first++)
      credits->at[head++ & credits->mask] = first;
    credits->head = head;
  }
  tx->credit_messages++;
  return true;
}
