/* SPDX-License-Identifier: Apache-2.0 */
/* Messages are checked against the test pattern where they lie. */
#include <errno.h>

#include "receiver.h"

int pst_receiver_verified(struct pst_receiver *receiver, struct pst_verify_result *result)
{
  const struct pst_memory_ops *ops = receiver->ring->memory->plugin->memory;
  uint64_t done;
  int rc;

  if (!receiver->queue)
    return -EOPNOTSUPP;
  rc = ops->queue_poll(receiver->queue, &done);
  if (rc == 0)
    rc = ops->verify_result(receiver->queue, result);
  if (rc == 0) {
    stat_set(receiver->verified, result->checked);
    stat_set(receiver->corrupted, result->corrupted);
  }
  return receiver_note_memory(receiver, rc);
}

/* One batch. A full queue is asked once what of it is done. */
static int verify_check_some(struct pst_receiver *receiver, const struct pst_view *views,
                             uint32_t n)
{
  const struct pst_memory_ops *ops = receiver->ring->memory->plugin->memory;
  struct payload_rows *rows = &receiver->payloads;
  uint64_t ticket, done;

  payload_rows_set(rows, views, n);
  int rc = ops->verify_rows(receiver->queue, receiver->seed, rows->row, rows->count, &ticket);
  if (rc != -EAGAIN)
    return rc;
  rc = ops->queue_poll(receiver->queue, &done);
  return rc < 0
             ? rc
             : ops->verify_rows(receiver->queue, receiver->seed, rows->row, rows->count, &ticket);
}

/* All of it has been submitted, or what there is of a check that has failed. */
static int verify_fence_check(struct pst_receiver *receiver, struct pst_fence **fence)
{
  struct engine_memory *memory = receiver->ring->memory;
  const struct pst_memory_ops *ops = memory->plugin->memory;
  int rc = 0;

  if (ops->capabilities & PST_MEMORY_CAP_FENCE)
    rc = ops->fence_record(memory->memory, receiver->queue, NULL, fence);
  /* The device may be reading, and nothing will tell until when. */
  if (rc < 0)
    receiver->unfenced = true;
  return receiver_note_memory(receiver, rc);
}

int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                        struct pst_fence **fence)
{
  struct engine_memory *memory = receiver->ring->memory;
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint32_t at = receiver->check_at;
  int rc = 0, fenced;

  *fence = NULL;
  if (!receiver->queue)
    return -EOPNOTSUPP;
  if (at > n)
    return -EINVAL;
  if (receiver->ready)
    rc = memory->plugin->memory->fence_wait(memory->memory, receiver->ready, receiver->queue, NULL);
  while (at < n && rc == 0) {
    uint32_t run = n - at < SESSION_DEVICE_BATCH ? n - at : SESSION_DEVICE_BATCH;
    rc = verify_check_some(receiver, views + at, run);
    if (rc == 0)
      at += run;
  }
  receiver_note_memory(receiver, rc);
  receiver->check_waits = rc == -EAGAIN;
  receiver->check_at = rc == -EAGAIN ? at : 0;
  if (rc == -EAGAIN || (rc < 0 && at == 0))
    return rc;
  fenced = verify_fence_check(receiver, fence);
  if (rc < 0 || fenced < 0)
    return rc < 0 ? rc : fenced;
  /* For the statistics, should the stream end before its time. */
  return pst_receiver_verified(receiver, &result);
}
