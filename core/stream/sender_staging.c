/* SPDX-License-Identifier: Apache-2.0 */
/* The staged path of a sender: where the transport cannot read the memory of the slots, each has a
 * twin in pinned host memory of that memory plugin's, at the same offset, which is what is
 * registered and sent from. Submitted slots are copied there in batches, and posted, in order, once
 * their copies are done; a slot and its twin are free together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/strided.h"
#include "sender.h"

#define STAGING_COPIES 8
#define STAGING_PIECES 1024

struct sender_staging {
  struct region region;
  struct pst_queue *queue;
  struct {
    uint64_t ticket, up_to;
  } copies[STAGING_COPIES]; /* under way, in order */
  uint32_t head, tail;
  uint64_t given; /* all before it are in copies, or copied */
  uint64_t last_ticket;
  struct copy_rows rows; /* to make a copy in */
};

static int sender_staging_fail_open(const struct pst_sender *sender, const char *why,
                                    const char *how, int rc, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: %s, and it cannot be staged: %s; choose another sender.memory",
                  sender->end.name, why, how);
}

static int sender_staging_open_region(struct pst_sender *sender, const char *why, uint32_t needs,
                                      struct pst_error *error)
{
  struct region_params params = sender_slot_params(sender, &sender->end);
  struct region *region = &sender->staging->region;
  struct region_why failure;
  const char *lacks;
  char text[160];

  params.needs = needs;
  params.use = " of pinned host memory";
  int rc = region_alloc(region, &params, &failure);

  if (rc < 0)
    return sender_staging_fail_open(sender, why, failure.text, rc, error);
  if (!region_lacks(&region->mem, params.needs, &lacks))
    return 0;
  snprintf(text, sizeof(text), "the staging memory of %s lacks %s too",
           sender->memory->plugin->name, lacks);
  return sender_staging_fail_open(sender, why, text, -EOPNOTSUPP, error);
}

int sender_stage(struct pst_sender *sender, const char *why, uint32_t needs,
                 struct pst_error *error)
{
  if (sender->end.config->sender.path == CONFIG_SENDER_PATH_DIRECT)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: sender.path: direct is not possible: %s; `auto` stages",
                    sender->end.name, why);
  if (!(sender->memory->ops->capabilities & PST_MEMORY_CAP_COPY))
    return sender_staging_fail_open(sender, why, "that memory cannot copy", -EOPNOTSUPP, error);
  sender->staging = calloc(1, sizeof(*sender->staging));
  if (!sender->staging || copy_rows_open(&sender->staging->rows, STAGING_PIECES) < 0)
    return end_out_of_memory(&sender->end, error);
  int rc = sender_staging_open_region(sender, why, needs, error);
  if (rc < 0)
    return rc;
  rc = engine_memory_open_queue(sender->memory, STAGING_COPIES, STAGING_PIECES,
                                &sender->staging->queue);
  if (rc < 0)
    return sender_staging_fail_open(sender, why, "the memory cannot open a queue", rc, error);
  sender->end.path.path = PST_PATH_STAGED;
  snprintf(sender->end.path.via, sizeof(sender->end.path.via), "copy");
  snprintf(sender->end.path.reason, sizeof(sender->end.path.reason), "%.159s", why);
  return 0;
}

const struct region *sender_region(const struct pst_sender *sender)
{
  return sender->staging ? &sender->staging->region : &sender->region;
}

void sender_unstage(struct pst_sender *sender)
{
  struct sender_staging *staging = sender->staging;

  if (!staging)
    return;
  engine_memory_close_queue(sender->memory, staging->queue);
  region_close(&staging->region);
  copy_rows_close(&staging->rows);
  free(staging);
  sender->staging = NULL;
}

static int sender_staging_reap(struct pst_sender *sender)
{
  struct sender_staging *staging = sender->staging;
  uint64_t done;
  int rc;

  if (staging->head == staging->tail)
    return 0;
  rc = sender->memory->ops->queue_poll(staging->queue, &done);
  for (; rc == 0 && staging->head != staging->tail; staging->head++) {
    uint32_t at = staging->head % STAGING_COPIES;
    if (staging->copies[at].ticket > done)
      break;
    sender->staged = staging->copies[at].up_to;
  }
  return rc;
}

/* The next ones, as far as they fit in one copy; returns up to which. Empty messages need none. */
static uint64_t sender_staging_describe(struct pst_sender *sender)
{
  struct sender_staging *staging = sender->staging;
  uint64_t from = sender->region.mem.address, to = staging->region.mem.address, at = staging->given;

  staging->rows.count = 0;
  for (uint32_t n = 0; at < sender->submitted && n < STAGING_PIECES; at++, n++) {
    const struct pst_request *request = &sender->requests[at & sender->slot_mask];
    copy_rows_add(&staging->rows, from + request->offset, to + request->offset,
                  request->arg.length);
  }
  return at;
}

int sender_copy(struct pst_sender *sender)
{
  struct sender_staging *staging = sender->staging;
  int rc = sender_staging_reap(sender);

  while (rc == 0 && staging->given < sender->submitted &&
         staging->tail - staging->head < STAGING_COPIES) {
    uint64_t up_to = sender_staging_describe(sender);
    if (staging->rows.count)
      rc = copy_rows_submit(&staging->rows, sender->memory, staging->queue,
                            staging->head != staging->tail, &staging->last_ticket);
    if (rc < 0)
      break;
    staging->given = up_to;
    staging->copies[staging->tail % STAGING_COPIES].ticket = staging->last_ticket;
    staging->copies[staging->tail++ % STAGING_COPIES].up_to = up_to;
  }
  if (rc == -EAGAIN) /* later */
    rc = 0;
  return rc < 0 ? rc : sender_staging_reap(sender);
}
