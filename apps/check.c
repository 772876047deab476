/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock check`: every value in effect, and what a command would refuse. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "log.h"
#include "runner.h"
#include "stream_config.h"

static int check_print_effective(const struct pst_config *config, struct pst_error *error)
{
  char *text;
  int rc = pst_config_effective(config, &text);

  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "check: %s", strerror(-rc));
  fputs(text, stdout);
  free(text);
  return 0;
}

static const struct command *const commands[] = {&app_command_run, &app_command_send,
                                                 &app_command_receive};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int check_has_streams(const struct pst_config *config, const struct arguments *arguments,
                             struct pst_error *error)
{
  for (size_t i = 0; i < arguments->stream_count; i++)
    if (!app_stream_exists(config, arguments->streams[i]))
      return app_log_fail(
          error, PST_EXIT_USAGE, -ENOENT,
          "--stream: %s has no stream '%s'; `penstock check` without --stream lists them",
          arguments->operand, arguments->streams[i]);
  return 0;
}

/* By one command, or by any: what only some of them refuse is a note, unless no two of them make a
 * whole. */
static int check_judge(const struct pst_config *config, const struct arguments *arguments,
                       struct pst_error *error)
{
  struct pst_error errors[COMMANDS] = {PST_ERROR_INIT, PST_ERROR_INIT, PST_ERROR_INIT};
  size_t refused = 0;

  if (check_has_streams(config, arguments, error) < 0)
    return error->code;
  if (!arguments->judged_for && app_preflight(config, NULL, arguments, error) != 0)
    return error->code;
  for (size_t i = 0; i < COMMANDS; i++) {
    if (!arguments->judged_for)
      app_log_level(NOTICE_NONE);
    else if (strcmp(arguments->judged_for, commands[i]->name) != 0)
      continue;
    refused += app_preflight(config, commands[i], arguments, &errors[i]) != 0;
    if (arguments->judged_for)
      return *error = errors[i], errors[i].code;
  }
  app_log_level(arguments->quiet ? PST_LOG_ERROR : PST_LOG_INFO);
  if (refused == COMMANDS)
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL, "%s", errors[0].text);
  for (size_t i = 0; i < COMMANDS; i++)
    if (errors[i].code != 0)
      app_log(PST_LOG_INFO, "note: `penstock %s` would refuse it: %s", commands[i]->name,
              errors[i].text);
  return 0;
}

static int check_run(const struct command *command, const struct arguments *arguments)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;

  (void)command;
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  int rc = pst_config_open_file(arguments->operand, arguments->sets, arguments->set_count, &config,
                                &error);
  if (rc == 0)
    rc = check_judge(config, arguments, &error);
  if (rc == 0)
    rc = arguments->quiet ? 0 : check_print_effective(config, &error);
  pst_config_close(config);
  if (rc == 0)
    return PST_EXIT_OK;
  return error.exit_status != 0 ? error.exit_status : PST_EXIT_USAGE;
}

const struct command app_command_check = {
    .name = "check",
    .operand = "FILE",
    .options = OPTION_FOR | OPTION_STREAM | OPTION_SET | OPTION_PLUGIN_PATH | OPTION_QUIET,
    .summary = "validate a configuration, and print every value with its origin",
    .help =
        "Reads FILE as `run` would. Reports everything that is wrong with FILE, each finding with its\n"
        "place and the nearest valid name. Prints the effective configuration: every key, its value,\n"
        "and in a comment where the value was written. Plugins need not work on this machine.\n"
        "FILE may suit one command only: what another command would refuse is a note, and with --for\n"
        "an error. Files that a stream reads or writes are looked for on this machine.\n"
        "\n"
        "Examples:\n"
        "  penstock check camera.yaml --for receive\n"
        "      Ends with status 0 if `receive` would accept the file, else 2.\n"
        "  penstock check camera.yaml --set streams.packets.ring=4096 | grep ring\n"
        "      Shows the value that this override gives.",
    .run = check_run,
};
