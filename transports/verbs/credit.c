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

#include "receive.h"
#include "receives.h"
#include "slab.h"
#include "srq.h"

static uint32_t vb_credit_receive_bytes(const struct pst_endpoint *endpoint)
{
  return endpoint->receive_buffers * endpoint->credit_bytes;
}

/* The bytes of a credit message. They stay until the message is done, since a new connection sends
 * it again. */
static uint32_t vb_credit_send_bytes(const struct pst_endpoint *endpoint)
{
  const uint32_t run = sizeof(struct vb_run);

  return endpoint->buffers->credit_mr
             ? endpoint->credit_bytes
             : vb_smaller(endpoint->credit_bytes, endpoint->sq.max_inline / run * run);
}

/* Credit goes inline, so that it needs no registration, unless the queue has no room for this many
 * runs of slots. More runs take several messages. */
#define INLINE_RUNS 8u

static int vb_credit_open_sends(struct pst_endpoint *endpoint)
{
  struct vb_credit_buffers *buffers = endpoint->buffers;
  const uint32_t depth = endpoint->credit_depth;

  if (endpoint->sq.max_inline < INLINE_RUNS * sizeof(struct vb_run))
    return vb_slab_take(endpoint->worker, endpoint->local, endpoint->label,
                        depth * endpoint->credit_bytes, &buffers->credit, &buffers->credit_mr);
  buffers->credit = calloc(depth, vb_credit_send_bytes(endpoint));
  return buffers->credit ? 0 : -ENOMEM;
}

int vb_credit_open(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  int rc = 0;

  if (endpoint->receive_buffers)
    rc = vb_slab_take(worker, endpoint->domain, endpoint->label, vb_credit_receive_bytes(endpoint),
                      &endpoint->buffers->control, &endpoint->buffers->control_mr);
  return rc == 0 && endpoint->rx ? vb_credit_open_sends(endpoint) : rc;
}

void vb_credit_close(struct pst_endpoint *endpoint)
{
  struct vb_credit_buffers *buffers = endpoint->buffers;

  if (buffers->credit_mr)
    vb_slab_give(endpoint->worker, buffers->credit,
                 endpoint->credit_depth * endpoint->credit_bytes);
  else
    free(buffers->credit);
  vb_slab_give(endpoint->worker, buffers->control, vb_credit_receive_bytes(endpoint));
}

/* Whether there is credit to give. */
static bool vb_credit_has_some(const struct vb_rx *rx)
{
  return rx->sends ? rx->ungranted : rx->back.count;
}

static uint32_t vb_credit_fill(struct vb_rx *rx, struct vb_run *runs)
{
  const uint32_t before = rx->back.count;
  uint32_t n = 0;

  if (rx->sends) { /* which slot is the receive's business */
    runs[0] = (struct vb_run){0, htobe32(rx->ungranted)};
    rx->own->grants += rx->ungranted;
    rx->granted += rx->ungranted;
    rx->ungranted = 0;
    return 1;
  }
  for (; rx->back.count && n < rx->own->runs_max; n++) {
    const struct vb_slot_run some = vb_slot_fifo_move(&rx->back, &rx->own->line);
    runs[n] = (struct vb_run){htobe32(some.first), htobe32(some.count)};
  }
  rx->own->grants += before - rx->back.count;
  return n;
}

/* Receives come before the credit that uses them. */
static int vb_credit_restore_receives(struct pst_endpoint *endpoint)
{
  if (endpoint->shared)
    return vb_srq_post(endpoint->shared);
  if (endpoint->rx->sends)
    return vb_slots_post_back(endpoint);
  return endpoint->device->transport->restore(endpoint);
}

void vb_credit_send(struct pst_endpoint *endpoint)
{
  const struct vb_credit_buffers *buffers = endpoint->buffers;
  struct vb_rx *rx = endpoint->rx;

  if (!endpoint->is_connected || endpoint->closing.mode || !vb_credit_is_due(endpoint))
    return;
  int rc = vb_credit_restore_receives(endpoint);
  while (rc == 0 && vb_credit_has_some(rx) &&
         (uint32_t)rx->credits_sent - rx->credits_taken < rx->own->control_receives) {
    if (vb_send_queue_own_room(&endpoint->sq) <= VB_SPARE_SENDS / 2) {
      if (endpoint->sq.told != endpoint->sq.done) /* there is more when they are */
        vb_pend(endpoint);
      break;
    }
    const uint64_t message = rx->credits_sent;
    uint8_t *at =
        buffers->credit + message % endpoint->credit_depth * vb_credit_send_bytes(endpoint);
    rx->own->first_of[message % VB_CONTROL_RECEIVES] = rx->before + rx->own->grants;
    uint32_t n = vb_credit_fill(rx, (struct vb_run *)(void *)at);
    struct ibv_sge bytes = {.addr = (uintptr_t)at,
                            .length = n * (uint32_t)sizeof(struct vb_run),
                            .lkey = buffers->credit_mr ? buffers->credit_mr->lkey : 0};
    rx->credits_sent++;
    rc = vb_send_queue_own(&endpoint->sq, IBV_WR_SEND_WITH_IMM, VB_CREDIT, &bytes);
  }
  if (rc < 0)
    vb_fail(endpoint, rc, "posting credits");
}

bool vb_credit_take(struct pst_endpoint *endpoint, const uint8_t *bytes, uint32_t length)
{
  struct vb_tx *tx = endpoint->tx;
  struct vb_slot_fifo *credits = &tx->credits;
  struct vb_run run;

  if (length == 0 || length % sizeof(run) != 0 || length > VB_CONTROL_BYTES)
    return false;
  for (uint32_t i = 0; i < length; i += (uint32_t)sizeof(run)) {
    memcpy(&run, bytes + i, sizeof(run));
    const uint32_t first = be32toh(run.first), count = be32toh(run.count);
    if (first >= tx->slots || count > tx->slots - first || count > credits->max - credits->count)
      return false;
    vb_slot_fifo_put(credits, first, count);
  }
  tx->credit_messages++;
  return true;
}
