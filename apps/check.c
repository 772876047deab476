/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "notice.h"

static int print_effective(const struct pst_config *config, struct pst_error *error)
{
  char *text;
  int result = pst_config_effective(config, &text);

  if (result < 0)
    return notice_fail(error, PST_EXIT_FAILED, result, "check: %s", strerror(-result));
  fputs(text, stdout);
  free(text);
  return 0;
}

static int check(const struct command *command, const struct arguments *arguments)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;

  (void)command;
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  int result = pst_config_open_file(arguments->operand, arguments->sets, arguments->set_count,
                                    &config, &error);
  if (result == 0)
    result = arguments->quiet ? 0 : print_effective(config, &error);
  pst_config_close(config);
  if (result == 0)
    return PST_EXIT_OK;
  return error.exit_status != 0 ? error.exit_status : PST_EXIT_USAGE;
}

const struct command command_check = {
    .name = "check",
    .operand = "FILE",
    .options = OPTION_SET | OPTION_PLUGIN_PATH | OPTION_QUIET,
    .summary = "validate a configuration and print all of it, with where each value came from",
    .help =
        "Reads FILE as `run` would, reports everything that is wrong with it, each with its place\n"
        "and the nearest valid name, and prints the effective configuration: every key, its\n"
        "value, and in a comment where that was written. Plugins need not work on this machine.\n"
        "\n"
        "Examples:\n"
        "  penstock check camera.yaml\n"
        "      Exit status 0: `run` would accept it; 2: it would not.\n"
        "  penstock check camera.yaml --set streams.packets.ring=4096 | grep ring\n"
        "      What would it be with this override?",
    .run = check,
};
