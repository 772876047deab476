/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "drive.h"

static int run(const struct command *command, const struct arguments *arguments)
{
  return drive_main(PST_SESSION_SENDER | PST_SESSION_RECEIVER, command, arguments);
}

const struct command command_run = {
    .name = "run",
    .operand = "FILE",
    .options = OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |
               OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "both ends of the streams in one process",
    .help =
        "Reads FILE, starts both ends of its streams in this process, and streams until the\n"
        "sources end, --duration or --count is reached, or ^C. Then drains, accounts for every\n"
        "message, and says what limited each stream. FILE - is standard input.\n"
        "\n"
        "Examples:\n"
        "  penstock run config/loopback.yaml --duration 3\n"
        "      Does it work here, and how fast?\n"
        "  penstock run config/loopback.yaml --set streams.packets.message=4096B --json out.json\n"
        "      The same with larger messages; the numbers as JSON.",
    .run = run,
};
