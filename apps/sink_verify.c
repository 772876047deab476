/* SPDX-License-Identifier: Apache-2.0 */
/* Checks every message against the test pattern, where it lies. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "sink.h"

#define PATIENCE_NS (10 * NS_PER_S) /* for checks under way when the stream has ended */

struct verify {
  const char *stream;
  uint64_t taken;
  uint64_t finish_ns; /* when finish was first called */
};

static int verify_open(void *state, const struct sink_params *params, struct pst_error *error)
{
  struct verify *verify = state;

  (void)error;
  verify->stream = params->stream;
  return 0;
}

static int verify_take(void *state, struct pst_receiver *receiver, const struct pst_view *views,
                       uint32_t n, struct pst_fence **fence, struct pst_error *error)
{
  struct verify *verify = state;

  if (!pst_receiver_param(receiver, "pattern.seed"))
    return app_log_fail(error, PST_EXIT_USAGE, -ENOMSG,
                        "stream '%s': sink: verify checks the pattern source, and the sender has "
                        "another one; write \"sink: discard\" or \"sink: {type: file, file: "
                        "PATH}\" under \"receiver\", or \"source: pattern\" under \"sender\"",
                        verify->stream);
  int rc = pst_receiver_verify(receiver, views, n, fence);
  if (rc == -EAGAIN)
    return rc;
  if (rc < 0)
    return app_log_fail(
        error, PST_EXIT_FAILED, rc, "stream '%s': cannot check the messages: %s%s", verify->stream,
        strerror(-rc),
        rc == -EOPNOTSUPP ? "; use sink: {type: discard}, this memory has no pattern" : "");
  verify->taken += n;
  return 0;
}

static int verify_finish(void *state, struct pst_receiver *receiver, struct pst_error *error)
{
  struct verify *verify = state;
  struct pst_verify_result found = {.struct_size = sizeof(found)};

  int rc = pst_receiver_verified(receiver, &found);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc,
                        "stream '%s': the result of checking is lost: %s", verify->stream,
                        strerror(-rc));
  if (verify->finish_ns == 0)
    verify->finish_ns = app_now_ns();
  if (found.checked < verify->taken && app_now_ns() - verify->finish_ns < PATIENCE_NS)
    return -EAGAIN;
  if (found.checked < verify->taken)
    return app_log_fail(error, PST_EXIT_FAILED, -ETIMEDOUT,
                        "stream '%s': only %" PRIu64 " of %" PRIu64
                        " messages were checked within 10 s of the end; the memory's device hangs",
                        verify->stream, found.checked, verify->taken);
  return 0;
}

const struct sink_ops app_sink_verify = {
    .name = "verify",
    .size = sizeof(struct verify),
    .open = verify_open,
    .take = verify_take,
    .finish = verify_finish,
};
