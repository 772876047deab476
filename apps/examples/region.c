/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application with a one-sided stream: the initiator makes the test pattern in its own
 * region and WRITEs all of it; the target, whose CPU has no part in that, checks every byte
 * where it lies. Each region may be in a GPU's memory, as the file says.
 *
 *   region FILE target [KEY=VALUE]…    and beside it: region FILE initiator [KEY=VALUE]…
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <penstock/penstock.h>

#define STREAM "store"
#define CHUNK (UINT64_C(1) << 20)
#define PATTERN 1

static int say(const char *what, int code)
{
  if (code < 0)
    fprintf(stderr, "region: %s: %s\n", what, strerror(-code));
  return code < 0 ? PST_EXIT_FAILED : PST_EXIT_OK;
}

/* As many WRITEs as fit, and a FLUSH behind the last: its end is that of all. */
static int initiate(struct pst_session *session)
{
  struct pst_initiator *initiator = pst_session_initiator(session, STREAM);
  struct pst_transfer_done done;
  struct pst_range own = {.struct_size = sizeof own};
  uint64_t at = 0, began = 0, ended = 0;
  bool flushed = false;
  int rc = pst_initiator_local(initiator, &own);

  if (rc == 0)
    rc = pst_initiator_fill(initiator, 0, own.length, PATTERN);
  while (rc >= 0 && !(flushed && began == ended)) {
    struct pst_transfer next = {.op = PST_OP_FLUSH};
    if (at < own.length)
      next = (struct pst_transfer){.op = PST_OP_WRITE,
                                   .local_offset = at,
                                   .remote_offset = at,
                                   .length = own.length - at < CHUNK ? own.length - at : CHUNK};
    rc = flushed ? 0 : pst_initiator_post(initiator, &next, 1);
    if (rc == 1) {
      began++;
      flushed = at == own.length;
      at += next.length;
    } else if (rc == 0 && (rc = pst_initiator_poll(initiator, &done, 1)) == 1) {
      ended++;
      rc = done.status;
    }
  }
  if (rc >= 0)
    rc = pst_initiator_finish(initiator);
  while (rc >= 0 && pst_initiator_state(initiator) < PST_STATE_ENDED)
    rc = pst_initiator_poll(initiator, &done, 1);
  return say("the initiator", rc);
}

static int offer(struct pst_session *session)
{
  struct pst_target *target = pst_session_target(session, STREAM);
  struct pst_verify_result found = {.struct_size = sizeof found};
  struct pst_range own = {.struct_size = sizeof own};
  struct pst_stats stats = {.struct_size = sizeof stats};
  int rc = pst_target_range(target, &own);

  while (rc == 0)
    rc = pst_target_poll(target);
  if (rc == -ENODATA)
    rc = pst_target_verify(target, 0, own.length, PATTERN, &found);
  pst_target_stats(target, &stats);
  if (rc == 0)
    printf("%" PRIu64 " bytes in %s, all of them right, by %s\n", own.length, stats.memory_backing,
           stats.path.via);
  if (rc == 0)
    rc = pst_target_finish(target);
  while (rc == 0 && pst_target_state(target) < PST_STATE_ENDED)
    rc = pst_target_poll(target);
  return say("the target", rc == -ENODATA ? 0 : rc);
}

int main(int argc, char **argv)
{
  bool is_target = argc > 2 && strcmp(argv[2], "target") == 0;
  struct pst_session_params params = {
      .struct_size = sizeof params, .roles = is_target ? PST_SESSION_RECEIVER : PST_SESSION_SENDER};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  struct pst_session *session = NULL;

  if (argc < 3 || (!is_target && strcmp(argv[2], "initiator") != 0)) {
    fprintf(stderr, "usage: region FILE target|initiator [KEY=VALUE]...\n"
                    "example: region config/loopback-region-cuda.yaml target\n");
    return PST_EXIT_USAGE;
  }
  if (pst_config_open_file(argv[1], (const char *const *)argv + 3, (size_t)argc - 3, &config,
                           &error) < 0 ||
      pst_session_open(config, &params, &session, &error) < 0 ||
      pst_session_start(session, &error) < 0)
    return error.exit_status; /* it has been said */
  int status = is_target ? offer(session) : initiate(session);
  pst_session_close(session);
  pst_config_close(config);
  return status;
}
