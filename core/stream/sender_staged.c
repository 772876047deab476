/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staged path of a sender: where the transport cannot read the memory of the slots, each has
 * a twin in pinned host memory of that memory plugin's, at the same offset, which is what is
 * registered and sent from. What is submitted is copied there in batches, and posted, in order,
 * once its copy is done; a slot and its twin are free together.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/units.h"
#include "session.h"

#define STAGING_COPIES 8
#define STAGING_PIECES 1024

struct staging {
  struct pst_region region;
  struct pst_queue *queue;
  struct {
    uint64_t ticket, up_to;
  } copies[STAGING_COPIES]; /* under way, in order */
  uint32_t head, tail;
  uint64_t given; /* all before it are in copies, or copied */
  uint64_t last_ticket;
  struct copy_rows rows; /* to make a copy in */
};

static int fail_open(const struct pst_sender *sender, const char *why, const char *how, int rc,
                     struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: %s, and it cannot be staged: %s; choose another sender.memory",
                  sender->end.name, why, how);
}

static int open_region(struct pst_sender *sender, const char *why, struct pst_error *error)
{
  const struct pst_limits *limits = &sender->end.lane->device->limits;
  uint32_t needs = sender_needs(sender);
  const struct pst_memory_ops *memory = sender->memory->plugin->memory;
  struct staging *staging = sender->staging;
  struct pst_alloc_params params = {
      .struct_size = sizeof(params),
      .purpose = PST_ALLOC_STAGING,
      .length = sender->stride * sender->slots,
      .alignment = limits->slot_alignment > 4096 ? limits->slot_alignment : 4096,
      .needs = needs,
      .label = sender->end.name};
  const char *lacks;
  char text[160];
  int rc;

  staging->region.struct_size = sizeof(staging->region);
  rc = memory->alloc(sender->memory->memory, &params, &staging->region);
  if (rc < 0)
    staging->region.length = 0;
  if (rc < 0) {
    char bytes[UNITS_ABOUT_BYTES];
    units_print_about(params.length, bytes, sizeof(bytes));
    snprintf(text, sizeof(text), "memory %s cannot allocate %s of pinned host memory: %s",
             sender->memory->plugin->name, bytes, strerror(-rc));
    return fail_open(sender, why, text, rc, error);
  }
  if (setup_region_meets(&staging->region, needs, &lacks))
    return 0;
  snprintf(text, sizeof(text), "the staging memory of %s lacks %s too",
           sender->memory->plugin->name, lacks);
  return fail_open(sender, why, text, -EOPNOTSUPP, error);
}

int sender_stage(struct pst_sender *sender, const char *why, struct pst_error *error)
{
  const struct pst_memory_ops *memory = sender->memory->plugin->memory;
  struct pst_queue_params queue = {
      .struct_size = sizeof(queue), .batches = STAGING_COPIES, .pieces = STAGING_PIECES};

  if (sender->end.config->sender.path == CONFIG_SENDER_PATH_DIRECT)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: sender.path: direct is not possible: %s; `auto` stages",
                    sender->end.name, why);
  if (!(memory->capabilities & PST_MEMORY_CAP_COPY))
    return fail_open(sender, why, "that memory cannot copy", -EOPNOTSUPP, error);
  sender->staging = calloc(1, sizeof(*sender->staging));
  if (!sender->staging || copy_rows_open(&sender->staging->rows, memory, STAGING_PIECES) < 0)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", sender->end.name);
  int rc = open_region(sender, why, error);
  if (rc < 0)
    return rc;
  rc = memory->queue_open(sender->memory->memory, &queue, &sender->staging->queue);
  if (rc < 0)
    return fail_open(sender, why, "the memory opens no queue", rc, error);
  sender->end.path.path = PST_PATH_STAGED;
  snprintf(sender->end.path.via, sizeof(sender->end.path.via), "copy");
  snprintf(sender->end.path.reason, sizeof(sender->end.path.reason), "%.159s", why);
  return 0;
}

const struct pst_region *sender_region(const struct pst_sender *sender)
{
  return sender->staging ? &sender->staging->region : &sender->region;
}

void sender_unstage(struct pst_sender *sender)
{
  struct staging *staging = sender->staging;

  if (!staging)
    return;
  if (staging->queue)
    sender->memory->plugin->memory->queue_close(staging->queue);
  if (staging->region.length)
    sender->memory->plugin->memory->free_region(sender->memory->memory, &staging->region);
  copy_rows_close(&staging->rows);
  free(staging);
  sender->staging = NULL;
}

bool sender_is_staging(const struct pst_sender *sender)
{
  return sender->staging && sender->staged < sender->submitted;
}

static int reap(struct pst_sender *sender)
{
  struct staging *staging = sender->staging;
  uint64_t done;
  int rc;

  if (staging->head == staging->tail)
    return 0;
  rc = sender->memory->plugin->memory->queue_poll(staging->queue, &done);
  for (; rc == 0 && staging->head != staging->tail; staging->head++) {
    uint32_t at = staging->head % STAGING_COPIES;
    if (staging->copies[at].ticket > done)
      break;
    sender->staged = staging->copies[at].up_to;
  }
  return rc;
}

/* The next ones, as far as they fit in one copy; returns up to which. Empty messages need none. */
static uint64_t describe(struct pst_sender *sender)
{
  struct staging *staging = sender->staging;
  uint64_t from = sender->region.address, to = staging->region.address, at = staging->given;

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
  struct staging *staging = sender->staging;
  int rc = reap(sender);

  while (rc == 0 && staging->given < sender->submitted &&
         staging->tail - staging->head < STAGING_COPIES) {
    uint64_t up_to = describe(sender);
    if (staging->rows.count)
      rc = copy_rows_submit(&staging->rows, sender->memory->plugin->memory, staging->queue,
                            &staging->last_ticket);
    if (rc < 0)
      break;
    staging->given = up_to;
    staging->copies[staging->tail % STAGING_COPIES].ticket = staging->last_ticket;
    staging->copies[staging->tail++ % STAGING_COPIES].up_to = up_to;
  }
  if (rc == -EAGAIN) /* later */
    rc = 0;
  return rc < 0 ? rc : reap(sender);
}
