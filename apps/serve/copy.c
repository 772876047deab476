/* SPDX-License-Identifier: Apache-2.0 */
/* The files that are under way, one after the other and side by side, until all are done. */
#include "copy.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "signals.h"
#include "size.h"

size_t serve_copy_unslashed(const char *path)
{
  size_t length = strlen(path);

  while (length > 1 && path[length - 1] == '/')
    length--;
  return length;
}

/* Allocates the memory for chunks and offers it to the server. 0, or -errno with copy->error
 * reported; the caller frees. */
static int serve_copy_open_slots(struct copy *copy)
{
  const struct copy_params *params = copy->params;
  const struct serve_message *limits = &copy->remote.limits;
  struct pst_range range = {.struct_size = sizeof(range)};

  copy->chunk = params->chunk < limits->chunk_max ? params->chunk : limits->chunk_max;
  int rc = serve_connection_offer(&copy->remote, &params->remote, copy->chunk * params->depth,
                                  copy->ops->to == COPY_CLIENT ? PST_ACCESS_REMOTE_WRITE
                                                               : PST_ACCESS_REMOTE_READ,
                                  &copy->area, &copy->region, &copy->error);
  if (rc < 0)
    return rc;
  pst_area_range(copy->area, &range);
  copy->direct = range.host != NULL;
  copy->slots = calloc(params->depth, sizeof(*copy->slots));
  for (uint64_t i = params->depth; copy->slots && i-- > 0;) {
    struct slot *slot = &copy->slots[i];
    slot->place = i * copy->chunk;
    slot->bytes = copy->direct ? (uint8_t *)range.host + slot->place : malloc(copy->chunk);
    slot->next = copy->free;
    copy->free = slot;
    if (!slot->bytes)
      rc = -ENOMEM;
  }
  if (!copy->slots || rc < 0)
    return app_log_fail(&copy->error, PST_EXIT_FAILED, -ENOMEM,
                        "out of memory for %" PRIu64 " chunks", params->depth);
  return 0;
}

static void serve_copy_drop(struct copy *copy, struct transfer *t)
{
  struct transfer **at = &copy->first;

  while (*at != t)
    at = &(*at)->next;
  *at = t->next;
  if (!*at)
    copy->last = at;
  copy->active--;
  if (t->failed)
    copy->totals.bytes -= t->counted;
  else if (!t->folder)
    copy->totals.files++;
  serve_extents_free(&t->extents);
  serve_digest_sha256_close(t->sum);
  if (t->fd >= 0)
    close(t->fd);
  serve_part_close(&t->part, false);
  t->used = false;
}

static bool serve_copy_begin_next(struct copy *copy)
{
  struct transfer *t = copy->transfers;

  if (copy->active == COPY_FILES)
    return false;
  while (t->used)
    t++;
  memset(t, 0, sizeof(*t));
  t->copy = copy;
  t->fd = -1;
  t->part = (struct partial_file)PARTIAL_FILE_INIT;
  if (copy->ops->next(copy, t) < 0)
    return false;
  t->used = true;
  if (!copy->first)
    copy->last = &copy->first;
  *copy->last = t;
  copy->last = &t->next;
  copy->active++;
  copy->ops->begin(t);
  return true;
}

/* The oldest file takes all slots that it can use; a file that is done needs none. */
static void serve_copy_feed(struct copy *copy)
{
  for (struct transfer *t = copy->first; t != NULL; t = t->next) {
    while (t->running && !t->failed && copy->free) {
      struct slot *slot = copy->free;
      struct slot *rest = slot->next;
      slot->transfer = t;
      copy->free = rest;
      t->slots++;
      if (!copy->ops->feed(t, slot)) {
        serve_slot_free(slot);
        break;
      }
    }
  }
}

static void serve_copy_look_after(struct copy *copy)
{
  struct transfer *next;
  uint64_t now = app_now_ns();

  for (struct transfer *t = copy->first; t != NULL; t = next) {
    next = t->next;
    if (t->retry_ns != 0 && now >= t->retry_ns) {
      t->retry_ns = 0;
      copy->ops->retry(t);
    }
    if (t->running && serve_transfer_summed(t) && t->slots == 0 &&
        (t->failed || t->extents.covered == t->size)) {
      t->running = false;
      if (t->failed)
        serve_transfer_abandon(t);
      else
        copy->ops->finish(t);
    }
    if (t->ended)
      serve_copy_drop(copy, t);
  }
}

/* Stops the transfers; those that are being opened follow when they are open. */
static void serve_copy_stop(struct copy *copy)
{
  copy->stopped = true;
  for (struct transfer *t = copy->first; t != NULL; t = t->next) {
    if (t->running)
      serve_transfer_cut(t);
  }
}

static bool serve_copy_has_more(const struct copy *copy)
{
  return copy->listing || copy->pending || copy->walk;
}

static int serve_copy_say_cut(struct copy *copy, int code, const char *cause)
{
  if (copy->cut == 0 && !serve_copy_has_more(copy))
    return app_log_fail(&copy->error, PST_EXIT_FAILED, code, "%s", cause);
  if (copy->cut == 1 && !serve_copy_has_more(copy))
    return serve_copy_cut_short(copy, code, cause);
  return app_log_fail(&copy->error, PST_EXIT_FAILED, code,
                      "%s; %" PRIu64 " file%s copied, --resume continues with the others", cause,
                      copy->totals.files, app_plural(copy->totals.files));
}

/* Nothing is under way. A signal may have come between two files, and none has failed by it. */
static int serve_copy_end(struct copy *copy)
{
  char cause[64];

  if (!copy->stopped || (copy->cut == 0 && !serve_copy_has_more(copy)))
    return 0;
  snprintf(cause, sizeof(cause), "stopped by %s", app_signals_name());
  return serve_copy_say_cut(copy, -EINTR, cause);
}

/* The server is gone: nothing that is under way can go on. */
static int serve_copy_lose_all(struct copy *copy, int code)
{
  struct transfer *next;

  for (struct transfer *t = copy->first; t != NULL; t = next) {
    next = t->next;
    if (t->ended) {
      serve_copy_drop(copy, t);
      continue;
    }
    serve_transfer_cut(t);
    copy->totals.bytes -= t->counted;
    t->counted = 0;
  }
  return serve_copy_say_cut(copy, code, copy->remote.text);
}

static int serve_copy_all(struct copy *copy)
{
  int rc = 0;

  for (;;) {
    while (!copy->stopped && serve_copy_begin_next(copy))
      ;
    serve_copy_feed(copy);
    serve_copy_look_after(copy);
    if (copy->active == 0 && (copy->stopped || !serve_copy_has_more(copy)))
      return serve_copy_end(copy);
    if (app_signals_stop())
      serve_copy_stop(copy);
    rc = serve_connection_step(&copy->remote);
    if (rc < 0)
      return serve_copy_lose_all(copy, rc);
    serve_progress_show(copy, app_now_ns());
  }
}

int serve_copy_run(const struct copy_params *params, const struct copy_ops *ops, int event_fd,
                   struct copy *copy)
{
  *copy = (struct copy){.params = params,
                        .ops = ops,
                        .root = -1,
                        .walk_root = -1,
                        .errors = json_object_new_array(),
                        .error = PST_ERROR_INIT};
  copy->tty = isatty(STDERR_FILENO) && !params->quiet;
  int rc = serve_connection_open(&params->remote, event_fd, &copy->remote, &copy->error);
  if (rc == 0 && (copy->remote.limits.flags & SERVE_FLAG_FILES) == 0)
    rc = app_log_fail(&copy->error, PST_EXIT_FAILED, -EOPNOTSUPP,
                      "the server at %s has no files: start it with --root DIR",
                      params->remote.address);
  if (rc == 0 && ops->to == COPY_SERVER && (copy->remote.limits.flags & SERVE_FLAG_READ_ONLY) != 0)
    rc = app_log_fail(&copy->error, PST_EXIT_FAILED, -EROFS,
                      "the server at %s takes no files: it was started with --read-only; start it "
                      "without",
                      params->remote.address);
  if (rc == 0)
    rc = serve_copy_open_slots(copy);
  if (rc == 0)
    rc = ops->open(copy);
  copy->began_ns = app_now_ns();
  if (rc < 0)
    return rc;
  rc = serve_copy_all(copy);
  copy->ns = app_now_ns() - copy->began_ns;
  serve_progress_end(copy);
  return rc;
}

/* Closes a copy; reads and writes under way end before their memory is freed. */
void serve_copy_close(struct copy *copy)
{
  serve_connection_close(&copy->remote);
  for (struct transfer *t = copy->first; t != NULL; t = copy->first) {
    t->failed = true;
    serve_copy_drop(copy, t);
  }
  for (uint64_t i = 0; copy->slots && !copy->direct && i < copy->params->depth; i++)
    free(copy->slots[i].bytes);
  free(copy->slots);
  copy->ops->close(copy);
  json_object_put(copy->errors);
}
