/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock share`: owns a transport, and serves programs of this host. */
#include <penstock/share.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "log.h"
#include "plugin_options.h"
#include "sandbox/sandbox.h"
#include "serve/cli.h"
#include "signals.h"
#include "size.h"

#define SHARE_LIST_MAX 64

/* The command line, and the memory that it points to. */
struct share_cmd {
  struct pst_share_params params;
  struct pst_setting *settings;
  char *allowed; /* the list, cut into words */
  uint32_t uid[SHARE_LIST_MAX];
};

/* Splits a list at its commas; returns the number of words, -ENOMEM or -E2BIG. */
static int share_cmd_cut(const char *text, char **copy, const char *words[SHARE_LIST_MAX])
{
  int count = 0;
  char *rest;

  *copy = text ? strdup(text) : NULL;
  if (text && !*copy)
    return -ENOMEM;
  for (char *word = *copy ? strtok_r(*copy, ",", &rest) : NULL; word;
       word = strtok_r(NULL, ",", &rest)) {
    if (count == SHARE_LIST_MAX)
      return -E2BIG;
    words[count++] = word;
  }
  return count;
}

static int share_cmd_read_allowed(const struct command *command, const char *text,
                                  struct share_cmd *cmd)
{
  const char *words[SHARE_LIST_MAX];
  const int count = share_cmd_cut(text, &cmd->allowed, words);
  uint64_t uid = 0;

  for (int i = 0; i < count; i++) {
    if (app_arguments_count(words[i], &uid) < 0 || uid >= UINT32_MAX) {
      app_arguments_wrong(command, "--allow '%.60s' is not a user's number", words[i]);
      return -EINVAL;
    }
    cmd->uid[i] = (uint32_t)uid;
  }
  if (count < 0) {
    app_arguments_wrong(command, "--allow takes at most %d users", SHARE_LIST_MAX);
    return -EINVAL;
  }
  cmd->params.uids = cmd->uid;
  cmd->params.uid_count = (uint32_t)count;
  return 0;
}

static int share_cmd_read_lists(const struct command *command, const struct arguments *arguments,
                                struct share_cmd *cmd)
{
  int rc = app_plugin_options_read(arguments->transport_options, arguments->transport_option_count,
                                   &cmd->settings, &cmd->params.setting_count);

  cmd->params.settings = cmd->settings;
  if (rc < 0) {
    app_arguments_wrong(command, "out of memory");
    return rc;
  }
  return share_cmd_read_allowed(command, arguments->share[SHARE_ALLOW], cmd);
}

/* Reads the command line. 0, or -EINVAL after logging; call share_cmd_free() in any case. */
static int share_cmd_read(const struct command *command, const struct arguments *arguments,
                          struct share_cmd *cmd)
{
  const char *const *words = arguments->share;
  uint64_t regions = 0, endpoints = 0, workers = 0, clients = 0, bytes = 0, rate = 0;
  const struct cli_value values[] = {
      {"regions", words[SHARE_REGIONS], app_arguments_count, 1, 65536, &regions},
      {"endpoints", words[SHARE_ENDPOINTS], app_arguments_count, 1, 262144, &endpoints},
      {"workers", words[SHARE_WORKERS], app_arguments_count, 1, 256, &workers},
      {"clients", words[SHARE_CLIENTS], app_arguments_count, 1, 65536, &clients},
      {"bytes", words[SHARE_BYTES], app_arguments_size, 1, INT64_MAX, &bytes},
      {"rate", words[SHARE_RATE], app_arguments_size, 1, INT64_MAX, &rate},
  };

  *cmd = (struct share_cmd){
      .params = {.struct_size = sizeof(cmd->params),
                 .socket = words[SHARE_SOCKET],
                 .transport = words[SHARE_TRANSPORT] ? words[SHARE_TRANSPORT] : "loopback"}};
  if (share_cmd_read_lists(command, arguments, cmd) < 0)
    return -EINVAL;
  if (!cmd->params.socket) {
    app_arguments_wrong(command, "--socket PATH is missing; clients connect to this router there");
    return -EINVAL;
  }
  if (serve_cli_values(command, values, sizeof(values) / sizeof(values[0])) < 0)
    return -EINVAL;
  cmd->params.regions = (uint32_t)regions;
  cmd->params.endpoints = (uint32_t)endpoints;
  cmd->params.workers = (uint32_t)workers;
  cmd->params.clients = (uint32_t)clients;
  cmd->params.bytes = bytes;
  cmd->params.rate = rate;
  cmd->params.huge = words[SHARE_HUGE] != NULL;
  cmd->params.memory = words[SHARE_MEMORY];
  cmd->params.limits = words[SHARE_LIMITS];
  return 0;
}

static void share_cmd_free(struct share_cmd *cmd)
{
  app_plugin_options_free(cmd->settings, cmd->params.setting_count);
  free(cmd->allowed);
}

static void share_cmd_say_counts(const struct pst_share_stats *stats)
{
  char bytes[SIZE_TEXT_BYTES];

  app_log(PST_LOG_INFO,
          "share: %u client%s, %" PRIu64 " region%s (%s), %" PRIu64 " endpoint%s | %" PRIu64
          " requests, %" PRIu64 " messages | %" PRIu64 " served, %" PRIu64 " refused, %" PRIu64
          " disconnected",
          stats->clients, app_plural(stats->clients), stats->regions, app_plural(stats->regions),
          app_size_about(stats->bytes, bytes), stats->endpoints, app_plural(stats->endpoints),
          stats->requests, stats->messages, stats->served, stats->refused, stats->expelled);
}

/* Says each second what has changed, until a signal. */
static void share_cmd_wait(struct pst_share *share, int event_fd)
{
  struct pst_share_stats said = {.struct_size = sizeof(said)}, now = said;
  struct pollfd wake = {.fd = event_fd, .events = POLLIN};

  while (!app_signals_stop()) {
    if (poll(&wake, 1, 1000) > 0)
      continue;
    pst_share_stats(share, &now);
    if (memcmp(&said, &now, sizeof(now)) != 0)
      share_cmd_say_counts(&now);
    said = now;
  }
}

/* Raises the limit of descriptors as far as an ordinary user may: clients need many. */
static void share_cmd_raise_descriptors(void)
{
  struct rlimit files;

  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max)
    return;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0)
    app_log(PST_LOG_DEBUG, "share: RLIMIT_NOFILE stays as it is: %s", strerror(errno));
}

/* Opens the router, which may then do what its transport and its socket need, and no more. */
static int share_cmd_open(const struct arguments *arguments, const struct pst_share_params *params,
                          struct pst_share **share, struct pst_error *error)
{
  struct sandbox *sandbox = app_sandbox_new(arguments);

  if (!sandbox)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "share: out of memory");
  app_sandbox_allow_transport(sandbox, params->transport);
  app_sandbox_allow_socket(sandbox, params->socket);
  if (params->limits)
    app_sandbox_allow_beside(sandbox, params->limits);
  int rc = app_sandbox_begin(sandbox, error);
  if (rc == 0)
    rc = pst_share_open(params, share, error);
  if (rc == 0 && (rc = app_sandbox_seal(sandbox, error)) < 0)
    pst_share_close(*share);
  app_sandbox_free(sandbox);
  return rc;
}

static int share_cmd_serve(const struct arguments *arguments, const struct share_cmd *cmd,
                           int event_fd)
{
  const struct pst_share_params *params = &cmd->params;
  struct pst_share_stats stats = {.struct_size = sizeof(stats)};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_share *share;

  share_cmd_raise_descriptors();
  if (share_cmd_open(arguments, params, &share, &error) < 0)
    return error.exit_status;
  app_log(PST_LOG_INFO, "share: serving %s at %s | for %s", params->transport, params->socket,
          params->limits      ? params->limits
          : params->uid_count ? "the users of --allow"
                              : "this user and root");
  share_cmd_wait(share, event_fd);
  pst_share_stats(share, &stats);
  pst_share_close(share);
  share_cmd_say_counts(&stats);
  return PST_EXIT_OK;
}

static int share_cmd_run(const struct command *command, const struct arguments *arguments)
{
  struct share_cmd cmd;
  int status = PST_EXIT_USAGE;

  if (share_cmd_read(command, arguments, &cmd) == 0) {
    const int event_fd = serve_cli_start(command, arguments);
    status = event_fd < 0 ? PST_EXIT_FAILED : share_cmd_serve(arguments, &cmd, event_fd);
  }
  share_cmd_free(&cmd);
  return status;
}

const struct command app_command_share = {
    .name = "share",
    .options = OPTION_SHARE | OPTION_SANDBOX | OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "share an adapter of this process with other programs of this host",
    .help =
        "Runs until ^C as a router: opens the transport for each client that connects to the\n"
        "socket. The folder of the socket must exist. In the configuration of a client write\n"
        "`transport: {plugin: share, options: {socket: PATH}}`. Clients need no device, no driver\n"
        "library and no privilege. Their memory is mapped into the router, not copied.\n"
        "\n"
        "Examples:\n"
        "  penstock share --socket /run/penstock/share --transport verbs_rc\n"
        "      Serves an RDMA adapter to programs of this user and of root.\n"
        "  penstock share --socket /run/penstock/share --allow 1000,1001 --bytes 1GiB\n"
        "      Serves two users. Each client registers at most 1 GiB of memory.",
    .run = share_cmd_run,
};
