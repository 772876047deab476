/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "drive.h"

static int receive(const struct command *command, const struct arguments *arguments)
{
  return drive_main(PST_SESSION_RECEIVER, command, arguments);
}

const struct command command_receive = {
    .name = "receive",
    .operand = "FILE",
    .options = OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |
               OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE,
    .summary = "the receivers of the streams; `penstock send` is the other end",
    .help =
        "Starts the receivers that FILE describes and waits for their senders. Ends when all\n"
        "streams have ended. The sender decides when that is: with --duration, or at ^C, a\n"
        "receiver leaves a second later if the sender goes on, and tells it so.\n"
        "With `control: none` the sender is no Penstock, and this side ends the stream: by --count,\n"
        "--duration, ^C, or when nothing has come for `silence`.\n"
        "\n"
        "Examples:\n"
        "  penstock receive camera.yaml\n"
        "      Until the sender is through.\n"
        "  penstock receive files.yaml --set streams.archive.receiver.sink.file=b.tar --json -\n"
        "      Into another file; the result as JSON on standard output.\n"
        "  penstock receive config/udp-camera.yaml --duration 10\n"
        "      Ten seconds of what a camera, or ffmpeg, sends by RTP.",
    .run = receive,
};
