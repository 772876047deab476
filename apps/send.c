/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "drive.h"

static int send_streams(const struct command *command, const struct arguments *arguments)
{
  return drive_main(PST_SESSION_SENDER, command, arguments);
}

const struct command command_send = {
    .name = "send",
    .operand = "FILE",
    .options = OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |
               OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "the senders of the streams; `penstock receive` is the other end",
    .help =
        "Starts the senders that FILE describes. They connect to the receiver that the same file\n"
        "describes, on this or another host; either side may start first. Ends when the sources\n"
        "end, --duration or --count is reached, or at ^C, and the receiver has everything.\n"
        "\n"
        "Examples:\n"
        "  penstock send camera.yaml --duration 10s\n"
        "      Ten seconds from the moment both ends are connected.\n"
        "  penstock send files.yaml --stream archive --set streams.archive.sender.source.file=a.tar\n"
        "      One of the file's streams, with another source.",
    .run = send_streams,
};
