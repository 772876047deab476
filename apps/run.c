/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock run`, `send` and `receive`. */
#include "commands.h"
#include "runner.h"

#define OPTIONS                                                                                    \
  (OPTION_DURATION | OPTION_COUNT | OPTION_JSON | OPTION_STREAM | OPTION_SET |                     \
   OPTION_PLUGIN_PATH | OPTION_QUIET | OPTION_VERBOSE | OPTION_METRICS | OPTION_SERIES |           \
   OPTION_SANDBOX)

const struct command app_command_run = {
    .name = "run",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER,
    .summary = "run both ends of the streams in one process",
    .help =
        "Reads FILE and starts both ends of its streams in this process. Streams until the\n"
        "sources end, --duration or --count is reached, or ^C. Then waits for messages on their way,\n"
        "accounts for every message, and says what limited each stream. FILE - is standard input.\n"
        "\n"
        "Examples:\n"
        "  penstock run config/loopback.yaml --duration 3\n"
        "      Shows whether it works here, and how fast.\n"
        "  penstock run config/loopback.yaml --set streams.packets.message=4096B --json out.json\n"
        "      Does so with larger messages, and writes the numbers as JSON.",
    .run = app_runner_main,
};

const struct command app_command_send = {
    .name = "send",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_SENDER,
    .summary = "run the senders; `penstock receive` is the other end",
    .help =
        "Starts the senders that FILE describes. They connect to the receiver that the same file\n"
        "describes, on this or another host; either side may start first. The senders stop when\n"
        "the sources end, when --duration or --count is reached, or at ^C. The command ends when the\n"
        "receiver has everything.\n"
        "\n"
        "Examples:\n"
        "  penstock send camera.yaml --duration 10s\n"
        "      Sends for ten seconds, from when both ends have connected.\n"
        "  penstock send files.yaml --stream archive --set streams.archive.sender.source.file=a.tar\n"
        "      Sends one stream of the file, from another source.",
    .run = app_runner_main,
};

const struct command app_command_receive = {
    .name = "receive",
    .operand = "FILE",
    .options = OPTIONS,
    .roles = PST_SESSION_RECEIVER,
    .summary = "run the receivers; `penstock send` is the other end",
    .help =
        "Starts the receivers that FILE describes and waits for their senders. Ends when all\n"
        "streams have ended, which the senders decide. After --duration or ^C a receiver waits\n"
        "one more second for its sender to end; then it disconnects, and the sender fails.\n"
        "With `control: none` the sender is not Penstock, and the receiver ends the stream: after\n"
        "--count, --duration or ^C, or when nothing has arrived for `silence`.\n"
        "\n"
        "Examples:\n"
        "  penstock receive camera.yaml\n"
        "      Receives until the sender ends.\n"
        "  penstock receive files.yaml --set streams.archive.receiver.sink.file=b.tar --json -\n"
        "      Writes another file, and the result as JSON to standard output.\n"
        "  penstock receive config/udp-camera.yaml --duration 10\n"
        "      Receives for ten seconds what a camera, or ffmpeg, sends by RTP.",
    .run = app_runner_main,
};
