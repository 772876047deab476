/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that each endpoint has posted, and completions checked against them. */
#include <inttypes.h>
#include <stdio.h>

#include "harness.h"

#define NOT_ASKED 77u /* in *wait before post(): none of enum pst_wait */

static void add(struct contract_posted *posted, const struct pst_request *requests, uint32_t n)
{
  if (posted->count + n > posted->room) {
    posted->room = 2 * posted->room + n;
    posted->all = realloc(posted->all, posted->room * sizeof(*posted->all));
    assert_non_null(posted->all);
  }
  for (uint32_t i = 0; i < n; i++)
    posted->all[posted->count++] =
        (struct contract_one_posted){requests[i].cookie, requests[i].opcode};
}

void contract_posted_clear(struct contract_posted *posted)
{
  free(posted->all);
  *posted = (struct contract_posted){0};
}

/* The oldest of the opcode, or (is_any) the one of the cookie; count: there is none. */
static uint32_t find(const struct contract_posted *posted, uint8_t opcode, bool is_any,
                     uint64_t cookie)
{
  uint32_t i = 0;
  while (i < posted->count &&
         (posted->all[i].opcode != opcode || (is_any && posted->all[i].cookie != cookie)))
    i++;
  return i;
}

static void remember_completed(struct contract_posted *posted, const struct pst_request *request)
{
  const uint32_t room = sizeof(posted->completed) / sizeof(posted->completed[0]);
  posted->completed[posted->completions++ % room] =
      (struct contract_one_posted){request->cookie, request->opcode};
}

static bool was_completed(const struct contract_posted *posted, const struct pst_completion *done)
{
  const uint32_t room = sizeof(posted->completed) / sizeof(posted->completed[0]);
  bool was = false;
  for (uint32_t i = 0; i < posted->completions && i < room; i++)
    was |= posted->completed[i].cookie == done->u.done.cookie &&
           posted->completed[i].opcode == done->code;
  return was;
}

/* Checks a DONE: for opcodes that end in order it covers the oldest `count` requests, and its
 * cookie is that of the last. */
void contract_posted_done(struct contract_posted *posted, const struct pst_completion *done)
{
  const bool in_order = done->code == PST_OP_SEND || done->code == PST_OP_WRITE;
  const char *before = contract_rule("Exactly one DONE covers each request that post() took");
  uint64_t last = 0;
  for (uint64_t left = done->u.done.count; left; left--) {
    uint32_t at = find(posted, done->code, !in_order, done->u.done.cookie);
    if (at == posted->count && was_completed(posted, done)) {
      contract_rule("No DONE covers requests that post() completed.");
      fail_msg("a DONE covers the request of opcode %u and cookie %" PRIu64
               ", which post() had completed",
               done->code, done->u.done.cookie);
    }
    if (at == posted->count)
      fail_msg("a DONE covers %" PRIu64 " requests of opcode %u and ends with cookie %" PRIu64
               ": %" PRIu64 " of these are not outstanding",
               done->u.done.count, done->code, done->u.done.cookie, left);
    last = posted->all[at].cookie;
    memmove(posted->all + at, posted->all + at + 1, (--posted->count - at) * sizeof(*posted->all));
  }
  if (in_order)
    contract_rule("SENDs are covered in post order, lent ones too, and so are WRITEs.");
  if (done->u.done.count && last != done->u.done.cookie)
    fail_msg("a DONE covers the %" PRIu64 " oldest requests of opcode %u, and ends with cookie "
             "%" PRIu64 " instead of %" PRIu64,
             done->u.done.count, done->code, done->u.done.cookie, last);
  contract_rule(before);
}

/* Cases need not know what post() completes: each becomes a DONE. */
static void log_completed(struct contract_side *side, uint32_t index,
                          const struct pst_request *requests, uint32_t n)
{
  const char *before = contract_rule(
      "for a SEND or WRITE only once the DONEs of all earlier SENDs and WRITEs have been polled.");
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t opcode = requests[i].opcode;
    const struct contract_posted *posted = &side->posted[index];
    if ((opcode == PST_OP_SEND || opcode == PST_OP_WRITE) &&
        find(posted, opcode, false, 0) < posted->count)
      fail_msg("post completed a request of opcode %u before an earlier one", opcode);
    remember_completed(&side->posted[index], &requests[i]);
    contract_log(side, &(struct pst_completion){.kind = PST_COMPLETION_DONE,
                                                .code = opcode,
                                                .endpoint = index + 1,
                                                .u.done = {requests[i].cookie, 1}});
  }
  contract_rule(before);
}

static int post(struct contract_side *side, uint32_t index, const struct pst_request *requests,
                uint32_t n, uint32_t *said)
{
  int rc = side->image.ops->post(side->endpoints[index], requests, n, said);
  assert_true(rc <= (int)n);
  contract_wait_is_known(rc, n, *said);
  /* No failure by itself: the peer may have left, and DISCONNECTED is still to come. */
  if (rc == -ENOTCONN && side->connected[index] && !side->departed[index])
    contract_rule("post is allowed; endpoint_path is known, and may only get worse");
  if (rc > 0 && *said != PST_POST_COMPLETED)
    add(&side->posted[index], requests, (uint32_t)rc);
  return rc;
}

/* About every other time post() may complete what it takes, whatever a case repeats. */
int contract_post(struct contract_side *side, uint32_t index, const struct pst_request *requests,
                  uint32_t n, uint32_t *wait)
{
  const bool may_complete = side->posts++ * UINT32_C(0x9e3779b9) >> 31;
  uint32_t said = may_complete ? PST_POST_MAY_COMPLETE : NOT_ASKED, completed = 0;
  int rc = post(side, index, requests, n, &said);
  if (rc > 0 && said == PST_POST_COMPLETED && may_complete) {
    completed = (uint32_t)rc;
    log_completed(side, index, requests, completed);
    if (completed == n)
      return rc;
    said = NOT_ASKED;
    rc = post(side, index, requests + completed, n - completed, &said);
  }
  if (said == PST_POST_COMPLETED) {
    contract_rule("Only where the host set PST_POST_MAY_COMPLETE");
    fail_msg("post completed %d requests, and was not told that it may", rc);
  }
  if (completed && rc < 0 && rc != -EAGAIN)
    said = PST_WAIT_NONE; /* alone, it gets the errno */
  if (said != NOT_ASKED && said != PST_POST_MAY_COMPLETE)
    *wait = said;
  return completed ? (int)completed + (rc > 0 ? rc : 0) : rc;
}
