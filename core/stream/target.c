/* SPDX-License-Identifier: Apache-2.0 */
/* The side of a one-sided stream whose region is read and written: it offers it, and
 * hears of the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

static int pack(struct pst_target *target, struct pst_error *error)
{
  struct session_device *device = target->end.lane->device;
  uint32_t most = device->limits.remote_max;

  if (most == 0 || most > CONTROL_ADDRESS_MAX)
    return pst_fail(error, PST_EXIT_FAILED, -E2BIG,
                    "stream %s: what transport %s tells peers of a region has up to %u bytes; at "
                    "most %d fit the control channel: a bug of that transport",
                    target->end.name, device->plugin->name, most, CONTROL_ADDRESS_MAX);
  target->offer = (struct pst_blob){.struct_size = sizeof(target->offer), .capacity = most};
  target->offer.bytes = malloc(most);
  if (!target->offer.bytes)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", target->end.name);
  int rc = device->ops->mr_pack(device->device, target->own.mr, &target->offer);
  if (rc == 0)
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                  "stream %s: transport %s cannot offer memory %s (%s) to a peer: %s; choose "
                  "another receiver.memory",
                  target->end.name, device->plugin->name, target->own.memory->plugin->name,
                  target->own.region.backing, strerror(-rc));
}

int target_open(struct pst_session *session, struct pst_target *target, struct pst_error *error)
{
  const struct config_stream *config = target->end.config;
  const struct session_lane *lane = target->end.lane;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_RMA,
                                       .cookie = (uint64_t)(uintptr_t)&target->end,
                                       .options = config->receiver.transport.plugin.options,
                                       .label = config->name,
                                       .timeout_ns = config->timeout_ns,
                                       .domain = region_domain(&target->own)};

  (void)session;
  int rc = region_open(&target->end, &config->receiver.memory, true, &target->own, error);
  if (rc == 0)
    rc = pack(target, error);
  if (rc < 0)
    return rc;
  rc = lane->ops->endpoint_open(lane->worker, &params, &target->end.endpoint);
  if (rc < 0)
    return pst_fail(error, refusal_status(rc), rc,
                    "stream %s: transport %s opens no endpoint for one-sided access: %s",
                    config->name, lane->device->plugin->name, strerror(-rc));
  return 0;
}

void target_close(struct pst_target *target)
{
  if (!target)
    return;
  region_close(&target->end, &target->own);
  free(target->offer.bytes);
  pthread_mutex_destroy(&target->end.text_lock);
  free(target);
}

/* It does not see what is done to its region. */
void target_totals(const struct pst_target *target, struct control_totals *totals)
{
  const struct session_end *end = &target->end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();

  *totals = (struct control_totals){.messages = UINT64_MAX,
                                    .bytes = UINT64_MAX,
                                    .last_sequence = UINT64_MAX,
                                    .duplicates = UINT64_MAX,
                                    .reordered = UINT64_MAX,
                                    .verified = UINT64_MAX,
                                    .corrupted = UINT64_MAX,
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
}

/* ---- What applications call ------------------------------------------------------------ */

int pst_target_range(const struct pst_target *target, struct pst_range *range)
{
  region_range(&target->own, range);
  return 0;
}

int pst_target_poll(struct pst_target *target)
{
  struct session_end *end = &target->end;

  thread_progress(end->thread);
  if (!end->endpoint_closed)
    lane_poll(end->lane, NULL, SESSION_POLL_BATCH);
  if (end->state == PST_STATE_FAILED)
    return end->error;
  if (target->finish_known && !target->finished)
    return -ENODATA;
  int rc = end_check(end);
  if (rc == 0 && target->finished)
    rc = -ENODATA;
  return rc;
}

int pst_target_flush(struct pst_target *target)
{
  return region_flush(&target->own);
}

int pst_target_finish(struct pst_target *target)
{
  struct control_totals totals;

  if (target->finished)
    return 0;
  if (!target->finish_known)
    return -EBUSY;
  target->finished = true;
  count_read(&target->end);
  target_totals(target, &totals);
  return control_counts(target->end.session->control, &target->end, &totals);
}

int pst_target_abort(struct pst_target *target, int code, const char *text)
{
  end_fail(&target->end, code, text);
  return 0;
}

enum pst_state pst_target_state(const struct pst_target *target)
{
  return (enum pst_state)__atomic_load_n(&target->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_target_worker(const struct pst_target *target)
{
  return target->end.thread->index;
}

int pst_target_fill(struct pst_target *target, uint64_t offset, uint64_t length, uint64_t pattern)
{
  return region_fill(&target->own, offset, length, pattern);
}

int pst_target_verify(struct pst_target *target, uint64_t offset, uint64_t length, uint64_t pattern,
                      struct pst_verify_result *result)
{
  return region_verify(&target->own, offset, length, pattern, result);
}
