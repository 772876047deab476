/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a plugin's values are those of the headers' enums, and names them in words. */
#include <stdio.h>

#include "harness.h"

static const char *const opcodes[] = {[PST_OP_SEND] = "SEND",
                                      [PST_OP_WRITE] = "WRITE",
                                      [PST_OP_READ] = "READ",
                                      [PST_OP_FETCH_ADD] = "FETCH_ADD",
                                      [PST_OP_COMPARE_SWAP] = "COMPARE_SWAP",
                                      [PST_OP_FLUSH] = "FLUSH"};
static const char *const events[] = {
    [PST_EVENT_CONNECTED] = "CONNECTED", [PST_EVENT_DISCONNECTED] = "DISCONNECTED",
    [PST_EVENT_READDRESS] = "READDRESS", [PST_EVENT_CLOSED] = "CLOSED",
    [PST_EVENT_LENT] = "LENT",           [PST_EVENT_UNLENT] = "UNLENT",
    [PST_EVENT_DEVICE] = "DEVICE"};
#define NAME_OF(names, code)                                                                       \
  ((code) < sizeof(names) / sizeof((names)[0]) && (names)[code] ? (names)[code]                    \
                                                                : "of no known code")

/* "DONE of SEND" */
const char *contract_name_of(uint8_t kind, uint8_t code, char *text, size_t size)
{
  if (kind == PST_COMPLETION_DONE)
    snprintf(text, size, "DONE of %s", NAME_OF(opcodes, code));
  else if (kind == PST_COMPLETION_EVENT)
    snprintf(text, size, "EVENT %s", NAME_OF(events, code));
  else if (kind == PST_COMPLETION_MESSAGE)
    snprintf(text, size, "MESSAGE");
  else
    snprintf(text, size, "completion of the unknown kind %u", kind);
  return text;
}

static bool is_known(uint8_t kind, uint8_t code)
{
  if (kind == PST_COMPLETION_DONE)
    return code < sizeof(opcodes) / sizeof(opcodes[0]) && opcodes[code];
  if (kind == PST_COMPLETION_EVENT)
    return code < sizeof(events) / sizeof(events[0]) && events[code];
  return code == 0;
}

static void status_is_known(const struct pst_completion *completion)
{
  const int status = completion->status;
  const bool is_message = completion->kind == PST_COMPLETION_MESSAGE;
  if (status == 0 || (is_message ? status == -EBADMSG : status < 0 && status >= -4095))
    return;
  contract_rule("0 or -errno; MESSAGE: 0, or -EBADMSG: damaged on the way");
  fail_msg("poll gave a %s of status %d", is_message ? "MESSAGE" : "completion", status);
}

void contract_completion_is_known(const struct pst_completion *completion)
{
  static const uint16_t flags =
      PST_HAS_SEQUENCE | PST_HAS_META | PST_HAS_TIME | PST_IS_MARKED | PST_IS_RESTART;
  const uint8_t kind = completion->kind;
  if (kind < PST_COMPLETION_DONE || kind > PST_COMPLETION_EVENT) {
    contract_rule("enum pst_completion_kind");
    fail_msg("poll gave a completion of kind %u, which enum pst_completion_kind has not", kind);
  }
  if (!is_known(kind, completion->code)) {
    contract_rule("DONE: enum pst_opcode; EVENT: enum pst_event; MESSAGE: 0");
    fail_msg("poll gave a completion of kind %u and code %u, which is none", kind,
             completion->code);
  }
  if (completion->flags & ~flags) {
    contract_rule("enum pst_completion_flag");
    fail_msg("poll gave a completion with the flags %#x, of which enum pst_completion_flag has "
             "no %#x",
             completion->flags, completion->flags & ~flags);
  }
  status_is_known(completion);
}

void contract_path_is_known(const char *whose, const struct pst_path_info *path)
{
  if (path->path >= PST_PATH_DIRECT && path->path <= PST_PATH_STAGED)
    return;
  contract_rule("enum pst_path; for an endpoint the worse of its ring's and its own");
  fail_msg("%s says path %u, %s", whose, path->path,
           path->path ? "which enum pst_path has not" : "which is PST_PATH_NONE, and succeeded");
}

void contract_wait_is_known(int rc, uint32_t n, uint32_t wait)
{
  const bool is_short = rc == -EAGAIN || (rc >= 0 && (uint32_t)rc < n);
  const bool may_be_none = rc > 0 && wait == PST_POST_COMPLETED;
  if (!is_short || may_be_none || wait <= PST_WAIT_QUEUE)
    return;
  contract_rule("Returns how many were taken, 1 to n; if fewer than n, *wait says why.");
  fail_msg("post took %d of %u requests, and left *wait at, or set it to, %u, which is no reason "
           "of enum pst_wait",
           rc > 0 ? rc : 0, n, wait);
}

void contract_counters_are_known(const struct pst_counter *counters, uint32_t n)
{
  static const uint64_t flags = PST_COUNTER_DROP | PST_COUNTER_GAUGE | PST_COUNTER_NO_GAP |
                                PST_COUNTER_NO_MESSAGE | PST_COUNTER_HEARD | PST_COUNTER_ENTRY;
  for (uint32_t i = 0; i < n; i++)
    if (counters[i].flags & ~flags) {
      contract_rule("enum pst_counter_flag");
      fail_msg("the counter %s has the flags %#" PRIx64 ", which enum pst_counter_flag has not",
               counters[i].name, counters[i].flags & ~flags);
    }
}
