/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "drive.h"

#define OPTIONS                                                                                    \
  (OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |                     \
   OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE)

const struct command command_run = {
    .name = "run",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER,
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
    .run = drive_main,
};

const struct command command_send = {
    .name = "send",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_SENDER,
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
    .run = drive_main,
};

const struct command command_receive = {
    .name = "receive",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_RECEIVER,
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
    .run = drive_main,
};
