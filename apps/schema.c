/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own keys of a configuration: sources, sinks, `expect`. */
#include "schema.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GIB (UINT64_C(1) << 30)

/* ---- Sources -------------------------------------------------------------------- */

enum { SOURCE_PATTERN, SOURCE_FILE, SOURCE_PCAP };
#define OF_PATTERN (1u << SOURCE_PATTERN)
#define OF_FILE (1u << SOURCE_FILE)
#define OF_PCAP (1u << SOURCE_PCAP)

static const char *const source_types[] = {"pattern", "file", "pcap", NULL};
static const struct pst_option source_keys[] = {
    {.name = "type",
     .type = PST_OPTION_ENUM,
     .choices = source_types,
     .default_value = "pattern",
     .help =
         "`pattern`: a test payload, of which every byte depends on its position, message and stream, so that the receiver can verify each byte. `file`: the bytes of a file, cut into messages. `pcap`: the packets of a capture, one in each message."},
    {.name = "file",
     .type = PST_OPTION_STRING,
     .min = 1,
     .max = 4095,
     .scope = OF_FILE | OF_PCAP,
     .flags = PST_OPTION_REQUIRED,
     .help = "Path of the file to read, relative to where penstock was started."},
    {.name = "seed",
     .type = PST_OPTION_UINT,
     .default_value = "1",
     .scope = OF_PATTERN,
     .help = "The number from which the pattern is made. The receiver learns it from the sender."},
    {.name = "length",
     .type = PST_OPTION_SIZE,
     .default_value = "0",
     .max = GIB,
     .scope = OF_PATTERN,
     .help = "Bytes of each message, at most the stream's `message`. 0: as `message`."},
    {.name = "loop",
     .type = PST_OPTION_BOOL,
     .default_value = "false",
     .scope = OF_FILE | OF_PCAP,
     .help = "Begin again at the end of the file, until `count` or the end of the run."},
    {.name = "timed",
     .type = PST_OPTION_BOOL,
     .default_value = "false",
     .scope = OF_PCAP,
     .help = "Keep the intervals between the captured packets. Otherwise they go as fast as "
             "`rate` and the receiver allow."},
};

/* ---- Sinks ---------------------------------------------------------------------- */

enum { SINK_VERIFY, SINK_DISCARD, SINK_FILE, SINK_PCAP };
#define TO_FILE (1u << SINK_FILE)
#define TO_PCAP (1u << SINK_PCAP)

static const char *const sink_types[] = {"verify", "discard", "file", "pcap", NULL};
static const struct pst_option sink_keys[] = {
    {.name = "type",
     .type = PST_OPTION_ENUM,
     .choices = sink_types,
     .default_value = "verify",
     .help =
         "`verify`: check every byte of the source's pattern, in the memory where it is. `discard`: count messages and drop them. `file`: write the payloads one after the other. `pcap`: write a capture with the times of the source's capture; the transport must carry them, as `loopback` does. With `control: none` the default is `discard`, since the pattern is not known."},
    {.name = "file",
     .type = PST_OPTION_STRING,
     .min = 1,
     .max = 4095,
     .scope = TO_FILE | TO_PCAP,
     .flags = PST_OPTION_REQUIRED,
     .help = "Path of the file to write, relative to where penstock was started."},
    {.name = "overwrite",
     .type = PST_OPTION_BOOL,
     .default_value = "false",
     .scope = TO_FILE | TO_PCAP,
     .help = "Replace a file that exists. `false`: an existing file is an error."},
};

/* ---- Ends of a run --------------------------------------------------------------- */

static const struct pst_option sender_keys[] = {
    {.name = "count",
     .type = PST_OPTION_UINT,
     .default_value = "0",
     .help = "Messages to send. 0: until the source ends or the run is stopped."},
};
static const struct pst_option foreign_keys[] = {
    {.name = "count",
     .type = PST_OPTION_UINT,
     .default_value = "0",
     .help = "`control: none`: end after this number of messages. 0: no limit."},
};

/* ---- Expectations ---------------------------------------------------------------- */

static const char *const expect_paths[] = {"direct", "mapped", "staged", NULL};
static const struct pst_option expect_keys[] = {
    {.name = "path",
     .type = PST_OPTION_ENUM,
     .choices = expect_paths,
     .help = "The path that messages took."},
    {.name = "via",
     .type = PST_OPTION_STRING,
     .min = 1,
     .max = 47,
     .help =
         "How the messages got into memory, in the words of the result: `memcpy`, `reference`, `dma-buf`, `peermem`, `cuda-ipc`."},
    {.name = "carrier",
     .type = PST_OPTION_STRING,
     .min = 1,
     .max = 47,
     .help =
         "What carried the messages: `memory`, `shm`, `tcp`, `udp`, `soft-roce`, `rdma`, `ethernet`."},
    {.name = "min_gbps",
     .type = PST_CONFIG_NUMBER,
     .help = "The least mean payload rate, in 10^9 bits per second."},
    {.name = "max_loss",
     .type = PST_CONFIG_SHARE,
     .help =
         "The largest share of the sent messages that may be lost, as in `0`, `0.001` or `0.1%`. Both ends judge it. Without this key a stream whose transport may lose messages prints a warning, also with `-q`."},
    {.name = "max_corrupted",
     .type = PST_OPTION_UINT,
     .help = "The most messages with a wrong byte."},
    {.name = "max_duplicates",
     .type = PST_OPTION_UINT,
     .help = "The most messages that came more than once."},
    {.name = "max_reordered",
     .type = PST_OPTION_UINT,
     .help = "The most messages that came out of order."},
    {.name = "min_messages",
     .type = PST_OPTION_UINT,
     .help = "The least number of delivered messages."},
    {.name = "verified",
     .type = PST_OPTION_BOOL,
     .help = "`true`: every delivered message was checked. `false` expects nothing."},
};

static const struct pst_config_map maps[] = {
    {.place = PST_CONFIG_SENDER,
     .keys = sender_keys,
     .key_count = COUNT(sender_keys),
     .is_shared = 1},
    {.place = PST_CONFIG_RECEIVER,
     .keys = foreign_keys,
     .key_count = COUNT(foreign_keys),
     .only_foreign = 1},
    {.name = "source",
     .place = PST_CONFIG_SENDER,
     .summary = "Where the messages come from.",
     .help =
         "What `penstock run` and `penstock send` put into the messages. An application that embeds libpenstock fills them itself. A single name is the `type`.",
     .shorthand = "type",
     .keys = source_keys,
     .key_count = COUNT(source_keys),
     .is_shared = 1},
    {.name = "sink",
     .place = PST_CONFIG_RECEIVER,
     .summary = "Where the messages go.",
     .help =
         "What `penstock run` and `penstock receive` do with the messages. An application that embeds libpenstock takes them itself. A single name is the `type`.",
     .shorthand = "type",
     .keys = sink_keys,
     .key_count = COUNT(sink_keys),
     .foreign_default = "discard"},
    {.name = "expect",
     .place = PST_CONFIG_STREAM,
     .summary = "What must hold at the end.",
     .help =
         "What must hold at the end of the run. Each value that does not hold is reported with the expected and the actual value, and the exit status is 4. A key that is not written expects nothing.",
     .keys = expect_keys,
     .key_count = COUNT(expect_keys)},
};

/* ---- Rules between values ---------------------------------------------------------- */

static const char *schema_value_of(const struct pst_config_stream *stream, const char *key)
{
  char path[128];

  snprintf(path, sizeof(path), "streams.%u.%s", stream->index, key);
  return pst_config_get(stream->config, path);
}

static uint64_t schema_number_of(const struct pst_config_stream *stream, const char *key)
{
  char path[128];

  snprintf(path, sizeof(path), "streams.%u.%s", stream->index, key);
  return pst_config_get_uint(stream->config, path);
}

static bool schema_is_written(const struct pst_config_stream *stream, const char *key)
{
  char path[128];

  snprintf(path, sizeof(path), "streams.%u.%s", stream->index, key);
  const char *origin = pst_config_origin(stream->config, path);
  return origin && strcmp(origin, "default") != 0;
}

/* A fan-out's stream has the source of the one whose slots it shares. */
static const char *schema_source_of(const struct pst_config_stream *stream)
{
  const char *leader = schema_value_of(stream, "sender.share"), *type;
  char path[192];

  snprintf(path, sizeof(path), "streams.%.63s.sender.source.type", leader ? leader : "");
  type =
      leader ? pst_config_get(stream->config, path) : schema_value_of(stream, "sender.source.type");
  return type ? type : source_types[SOURCE_PATTERN];
}

static void schema_check_length(const struct pst_config_stream *stream)
{
  uint64_t length = schema_number_of(stream, "sender.source.length");
  uint64_t message = schema_number_of(stream, "message");

  if (schema_is_written(stream, "sender.source.length") && length > message)
    stream->report(stream, "sender.source.length",
                   "length: %llu B is more than the stream's message of %llu B; raise \"message\"",
                   (unsigned long long)length, (unsigned long long)message);
}

/* Sinks that need a source of their own kind. */
static void schema_check_kinds(const struct pst_config_stream *stream, const char *source,
                               const char *sink)
{
  const char *place =
      schema_is_written(stream, "receiver.sink") || !schema_is_written(stream, "sender.source")
          ? "receiver.sink"
          : "sender.source";

  if (strcmp(sink, sink_types[SINK_VERIFY]) == 0 &&
      strcmp(source, source_types[SOURCE_PATTERN]) != 0)
    stream->report(stream, place,
                   "sink: verify checks the pattern source, and the source here is %s; write "
                   "\"sink: discard\" or \"sink: {type: file, file: PATH}\" under \"receiver\"",
                   source);
  if (strcmp(sink, sink_types[SINK_PCAP]) == 0 && strcmp(source, source_types[SOURCE_PCAP]) != 0)
    stream->report(stream, place,
                   "sink: pcap writes what a pcap source captured, and the source here is %s; "
                   "write \"source: {type: pcap, file: PATH}\" under \"sender\", or another sink",
                   source);
  if (strcmp(sink, sink_types[SINK_PCAP]) == 0 && (stream->lacks & PST_CAP_META) != 0)
    stream->report(
        stream, "receiver.sink",
        "sink: pcap needs the times of capture, which transport %s does not have with these options; use loopback, or \"sink: {type: file, file: PATH}\"",
        stream->transport);
}

/* Refuses keys that need a word from the other side. */
static void schema_check_foreign(const struct pst_config_stream *stream, const char *sink)
{
  if (strcmp(sink, sink_types[SINK_VERIFY]) == 0)
    stream->report(
        stream, "receiver.sink",
        "sink: verify needs the parameters of the sender's pattern, which do not come with \"control: none\"; write \"sink: discard\" or \"sink: {type: file, file: "
        "PATH}\" under \"receiver\"");
  else if (strcmp(sink, sink_types[SINK_PCAP]) == 0)
    stream->report(stream, "receiver.sink",
                   "sink: pcap needs the times of capture and the link type from a sender with "
                   "source: {type: pcap}, and \"control: none\" has no such sender; write \"sink: "
                   "{type: file, file: PATH}\" under \"receiver\", or capture with tcpdump");
}

static void schema_check(const struct pst_config_stream *stream)
{
  const char *sink = schema_value_of(stream, "receiver.sink.type");

  schema_check_length(stream);
  if (!sink) /* it is wrong by itself */
    return;
  if (stream->is_foreign)
    schema_check_foreign(stream, sink);
  else
    schema_check_kinds(stream, schema_source_of(stream), sink);
}

const struct pst_config_program app_schema_program = {.struct_size = sizeof(app_schema_program),
                                                      .map_count = COUNT(maps),
                                                      .maps = maps,
                                                      .check = schema_check};
