/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a session: opens it, watches it, and ends it. */
#include "runner.h"

#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "devices.h"
#include "log.h"
#include "result.h"
#include "result_file.h"
#include "sandbox/sandbox.h"
#include "signals.h"
#include "watch.h"

#define LINE_NS NS_PER_S
#define BANNER_NS (20 * NS_PER_MS) /* how often to look whether streams have connected */
#define DRAIN_NS (10 * NS_PER_S)

static int runner_open_library(struct runner *runner)
{
  const struct arguments *arguments = runner->arguments;

  app_log_begin(arguments, PST_LOG_INFO);
  for (size_t i = 0; i < arguments->plugin_path_count; i++) {
    int rc = pst_plugin_path_add(arguments->plugin_paths[i]);
    if (rc < 0)
      return app_log_fail(&runner->error, PST_EXIT_USAGE, rc, "--plugin-path %s: %s",
                          arguments->plugin_paths[i], strerror(-rc));
  }
  runner->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (runner->event_fd < 0 || app_signals_open(runner->event_fd) < 0)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -errno, "cannot prepare for signals: %s",
                        strerror(errno));
  return pst_config_open_file(arguments->operand, arguments->sets, arguments->set_count,
                              &runner->config, &runner->error);
}

/* Before the first thread, which has HTTP read by --metrics; behind the files of sources and sinks.
 */
static int runner_confine(struct runner *runner)
{
  runner->sandbox = app_sandbox_new(runner->arguments);
  if (!runner->sandbox)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  app_sandbox_allow_config(runner->sandbox, runner->config, runner->command->roles);
  return app_sandbox_begin(runner->sandbox, &runner->error);
}

static int runner_open_session(struct runner *runner)
{
  const struct pst_session_params params = {
      .struct_size = sizeof(params),
      .roles = runner->command->roles,
      .streams = runner->arguments->streams,
      .stream_count = (uint32_t)runner->arguments->stream_count,
  };
  int rc = pst_session_open(runner->config, &params, &runner->session, &runner->error);
  if (rc < 0)
    return rc;
  rc = app_threads_check(runner);
  if (rc == 0)
    rc = app_streams_bind(runner);
  if (rc == 0)
    rc = pst_session_start(runner->session, &runner->error);
  return rc;
}

/* ---- Watching -------------------------------------------------------------- */

static bool runner_all_announced(struct runner *runner)
{
  bool all = true;

  for (uint32_t i = 0; i < runner->stream_count; i++) {
    struct app_stream *stream = &runner->streams[i];
    enum pst_state state = stream->receiver.handle ? pst_receiver_state(stream->receiver.handle)
                                                   : pst_sender_state(stream->sender.handle);
    if (!stream->announced && state >= PST_STATE_CONNECTED && state <= PST_STATE_ENDED) {
      app_banner_stream(stream);
      stream->announced = true;
    }
    all = all && stream->announced;
  }
  return all;
}

static bool runner_any_connected(const struct runner *runner)
{
  for (uint32_t i = 0; i < runner->stream_count; i++) {
    const struct app_stream *stream = &runner->streams[i];
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    int rc = stream->receiver.handle ? pst_receiver_stats(stream->receiver.handle, &stats)
                                     : pst_sender_stats(stream->sender.handle, &stats);
    if (rc == 0 && stats.started_ns != 0)
      return true;
  }
  return false;
}

/* Waits for the threads of the streams, prints a line a second, and lets the streams drain when a
 * signal asks to stop. */
static void runner_watch(struct runner *runner)
{
  uint64_t next_line_ns = app_now_ns() + LINE_NS;

  while (!app_threads_over(runner)) {
    bool announced = runner_all_announced(runner);
    uint64_t now = app_now_ns(), count;
    uint64_t wait_ns = next_line_ns > now ? next_line_ns - now : 0;
    if (!announced && wait_ns > BANNER_NS)
      wait_ns = BANNER_NS;
    struct pollfd event = {.fd = runner->event_fd, .events = POLLIN};
    if (poll(&event, 1, (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS)) > 0) {
      ssize_t got = read(runner->event_fd, &count, sizeof(count));
      (void)got; /* the flags say what has happened */
    }
    now = app_now_ns();
    if (app_signals_stop() && !atomic_load(&runner->stop)) {
      if (runner_any_connected(runner))
        app_log(PST_LOG_INFO, "stopping: draining messages in flight (up to 10 s); press ^C again "
                              "to quit now");
      atomic_store(&runner->drain_by_ns, now + DRAIN_NS);
      atomic_store(&runner->stop, true);
      pst_session_wake(runner->session);
    }
    if (now >= next_line_ns) {
      app_watch_second(runner, now);
      /* After a pause (^Z, a suspended machine) the seconds that were missed get no lines. */
      next_line_ns = now - next_line_ns < LINE_NS ? next_line_ns + LINE_NS : now + LINE_NS;
    }
  }
  runner_all_announced(runner);
}

/* ---- The result --------------------------------------------------------------- */

static void runner_add_plugins(const struct runner *runner, struct json_object *result)
{
  uint32_t count = pst_session_plugins(runner->session);
  for (uint32_t i = 0; i < count; i++) {
    struct pst_plugin_info info = {.struct_size = sizeof(info)};
    if (pst_session_plugin(runner->session, i, &info) == 0)
      app_result_add_plugin(result, &info);
  }
}

static int runner_report(struct runner *runner, bool ran)
{
  struct json_object *result =
      runner->arguments->json ? app_result_new(runner->command, runner->arguments, runner->config)
                              : NULL;
  int status = PST_EXIT_OK;

  if (runner->error.code != 0)
    status = runner->error.exit_status != 0 ? runner->error.exit_status : PST_EXIT_FAILED;
  app_finding_add_error(app_result_errors(result), &runner->error, runner->arguments);
  if (runner->session && result)
    runner_add_plugins(runner, result);
  if (runner->session)
    app_devices_report(runner, result);
  for (uint32_t i = 0; ran && i < runner->stream_count; i++) {
    app_report_stream(&runner->streams[i], result);
    status = app_finding_worse(status, runner->streams[i].exit_status);
  }
  return runner->arguments->json ? app_result_conclude(result, runner->arguments->json, status)
                                 : status;
}

int app_runner_main(const struct command *command, const struct arguments *arguments)
{
  struct runner runner = {
      .command = command, .arguments = arguments, .event_fd = -1, .error = PST_ERROR_INIT};
  bool ran = false;

  int rc = runner_open_library(&runner);
  if (rc == 0)
    rc = app_preflight(runner.config, command, arguments, &runner.error);
  if (rc == 0)
    rc = app_streams_open(&runner);
  if (rc == 0)
    rc = runner_confine(&runner);
  if (rc == 0)
    rc = app_watch_open(&runner);
  if (rc == 0) {
    app_result_interrupted(app_report_interrupted, &runner);
    rc = runner_open_session(&runner);
  }
  if (rc == 0) {
    app_signals_session(runner.session);
    rc = app_watch_begin(&runner);
  }
  if (rc == 0)
    rc = app_threads_start(&runner, &runner.error);
  if (rc == 0 && (rc = app_sandbox_seal(runner.sandbox, &runner.error)) < 0) {
    atomic_store(&runner.drain_by_ns, 1);
    atomic_store(&runner.stop, true);
    pst_session_wake(runner.session);
    app_threads_join(&runner);
  }
  if (rc == 0) {
    runner_watch(&runner);
    app_threads_join(&runner);
    pst_session_settle(runner.session, DRAIN_NS);
    app_watch_end(&runner);
    ran = true;
  }
  if (rc < 0 && runner.error.code == 0)
    app_log_fail(&runner.error, PST_EXIT_FAILED, rc, "%s: %s", command->name, strerror(-rc));
  int status = runner_report(&runner, ran);

  app_result_interrupted(NULL, NULL);
  app_signals_session(NULL);
  app_watch_close(&runner);
  app_sandbox_free(runner.sandbox);
  app_streams_close(&runner);
  pst_session_close(runner.session);
  pst_config_close(runner.config);
  free(runner.threads);
  if (runner.event_fd >= 0)
    close(runner.event_fd);
  return status;
}
