/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include <string.h>

#include "config.h"

#define MAP(keys_, path_, shorthand_, help_)                                                       \
  {                                                                                                \
    path_, help_, shorthand_, keys_                                                                \
  }
/* The member of the struct where a value goes. */
#define AT(type_, member_) .is_stored = true, .offset = offsetof(type_, member_)
#define KEY_FOR(bits_, flags_, name_, type_, default_, min_, max_, help_)                          \
  .rule = {.name = name_,                                                                          \
           .type = type_,                                                                          \
           .default_value = default_,                                                              \
           .min = min_,                                                                            \
           .max = max_,                                                                            \
           .help = help_,                                                                          \
           .scope = bits_,                                                                         \
           .flags = flags_}
#define KEY(name_, type_, default_, min_, max_, help_)                                             \
  KEY_FOR(0, 0, name_, type_, default_, min_, max_, help_)
#define REQUIRED(name_, type_, min_, max_, help_)                                                  \
  KEY_FOR(0, PST_OPTION_REQUIRED, name_, type_, NULL, min_, max_, help_)
#define CHILD(name_, type_, map_, help_) KEY(name_, type_, NULL, 0, 0, help_), .map = &schema_##map_
#define CHOICE(name_, default_, choices_, help_)                                                   \
  .rule = {.name = name_,                                                                          \
           .type = PST_OPTION_ENUM,                                                                \
           .default_value = default_,                                                              \
           .choices = choices_,                                                                    \
           .help = help_}

#define NS_MS UINT64_C(1000000)
#define NS_H UINT64_C(3600000000000)
#define GIB (UINT64_C(1) << 30)
#define RING_MAX 16777216

/* In the order of the enums of config.h. */
static const char *const sender_path_choices[] = {"auto", "direct", "staged", NULL};
static const char *const path_choices[] = {"auto", "direct", "mapped", "staged", NULL};
static const char *const by_choices[] = {"sequence", "rtp_marker", NULL};
static const char *const missing_choices[] = {"zero", "keep", "drop", NULL};

static const struct schema_key control_keys[] = {
    {KEY("address", PST_OPTION_STRING, "127.0.0.1:18515", 0, 255,
         "Host and port of the control channel: the receiver binds it, the sender connects to "
         "it. An IPv6 address stands in brackets, `[::1]:18515`.")},
    {KEY("listen", PST_OPTION_STRING, NULL, 0, 255,
         "Host and port that the receiver binds, where that is not what the sender connects to. "
         "Default: `address`."),
     AT(struct config, control.listen)},
    {KEY("connect", PST_OPTION_STRING, NULL, 0, 255,
         "Host and port that the sender connects to. Default: `address`."),
     AT(struct config, control.connect)},
    {KEY("insecure", PST_OPTION_BOOL, "false", 0, 0,
         "Allow anybody to take part who reaches the control channel's port: beyond this machine, "
         "where there are no credentials, and other users of this one. Needed as soon as `listen` "
         "or `connect` is not a loopback address; a warning repeats it. Without it both ends must "
         "be processes of one user."),
     AT(struct config, control.insecure)},
    {KEY("timeout", PST_OPTION_DURATION, "60 s", 0, 24 * NS_H,
         "How long either side waits for the other at the start. 0 waits for ever."),
     AT(struct config, control.connect_timeout_ns)},
    {KEY("heartbeat", PST_OPTION_DURATION, "500 ms", 10 * NS_MS, NS_H,
         "How often each side tells the other that it lives, and its counts so far. A stream's "
         "`timeout` is at least twice this."),
     AT(struct config, control.heartbeat_ns)},
    {.map = NULL}};
const struct schema_map schema_control =
    MAP(control_keys, "control", "address",
        "The channel over which both ends find each other, compare what they share and exchange "
        "final counts. `control: none` does without, for peers that are not Penstock: each side "
        "then runs alone, by `penstock receive` or `penstock send`, and its transport's options "
        "say where. A lone `host:port` stands for `address`.");

static const struct schema_key threads_keys[] = {
    {KEY("count", PST_OPTION_UINT, "0", 0, SCHEMA_THREADS_MAX,
         "Number of threads; streams are spread over them. 0 takes one a stream, up to "
         "the number of cores."),
     AT(struct config, threads.count)},
    {KEY("cpus", PST_OPTION_LIST, "[]", 0, 0,
         "CPU numbers to pin threads to, `[2, 3]`: thread i runs on the i-th, and they begin "
         "again at the end of the list. An empty list pins nothing.")},
    {KEY("sleep_after", PST_OPTION_DURATION, "0", 0, NS_H,
         "A thread that has been idle for so long sleeps until something happens, instead of "
         "burning its core. 0 polls for ever, which gives the lowest latency."),
     AT(struct config, threads.sleep_after_ns)},
    {.map = NULL}};
const struct schema_map schema_threads = MAP(
    threads_keys, "threads", "count", "The threads that move messages. A lone number is `count`.");

static const struct schema_key filter_keys[] = {
    {REQUIRED("plugin", SCHEMA_PLUGIN_NAME, 0, 0, "Name of the filter plugin, such as `fault`.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The filter's own options; `penstock plugins NAME` and the end of this page list them.")},
    {.map = NULL}};
const struct schema_map schema_filter =
    MAP(filter_keys, "transport.filters[]", "plugin",
        "A filter lies between a transport and Penstock and changes what passes, for tests mostly. "
        "A lone name is the filter with its defaults.");

static const struct schema_key transport_keys[] = {
    {KEY("plugin", SCHEMA_PLUGIN_NAME, "loopback", 0, 0, "Name of the transport plugin.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The plugin's own options; `penstock plugins NAME` and the end of this page list them. "
         "`device` names the device, where there are several. Under `sender` and `receiver` only "
         "the options of that side may stand.")},
    {KEY("filters", SCHEMA_FILTERS, "[]", 0, 0,
         "Filters around the transport, the outermost first. The list replaces that of the "
         "enclosing place; a transport that does not mention filters keeps them."),
     .map = &schema_filter},
    {.map = NULL}};
const struct schema_map schema_transport =
    MAP(transport_keys, "transport", "plugin",
        "How bytes travel. It may stand at the top for all streams, and be overridden by "
        "`streams[].transport`, and that by `streams[].sender.transport` and "
        "`streams[].receiver.transport`, since device names differ between hosts. While the plugin "
        "is the same, options merge key by key; another plugin begins with its own defaults. A "
        "lone name is the plugin with its defaults.");

static const struct schema_key memory_keys[] = {
    {KEY("plugin", SCHEMA_PLUGIN_NAME, "host", 0, 0, "Name of the memory plugin.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The plugin's own options; `penstock plugins NAME` and the end of this page list "
         "them.")},
    {.map = NULL}};
const struct schema_map schema_memory =
    MAP(memory_keys, "memory", "plugin",
        "Where the bytes of one side live: under `streams[].sender` and under "
        "`streams[].receiver`. A lone name is the plugin with its defaults.");

static struct schema_key sender_keys[SCHEMA_KEYS_MAX] = {
    {KEY("share", PST_OPTION_STRING, NULL, 1, SCHEMA_NAME_MAX,
         "Fan-out: name of another stream of this file whose messages are sent here too, out of "
         "the same slots. What paces it, its `ring`, and what makes messages are then that stream's. "
         "Transport plugin, `message`, ring and memory must be the same."),
     AT(struct config_sender, share)},
    {KEY_FOR(
         SCHEMA_SENDER_OWN, 0, "rate", PST_OPTION_RATE, "0", 0, 0,
         "Bits of payload per second, as in `1 Gbps`, held as a mean. 0: as fast as the receiver "
         "takes it."),
     AT(struct config_sender, rate_bps)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "burst", PST_OPTION_SIZE, "0", 0, 16 * GIB,
             "Bytes that may go at once under `rate`, one message at least. 0: 20 ms' worth."),
     AT(struct config_sender, burst)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "chunk", PST_OPTION_UINT, "0", 0, RING_MAX,
             "Messages to send before each `sleep`, as Rivermax's senders do it. 0: no sleeps."),
     AT(struct config_sender, chunk)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "sleep", PST_OPTION_DURATION, "0", 0, NS_H,
             "How long to send nothing after each `chunk`."),
     AT(struct config_sender, sleep_ns)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "ring", PST_OPTION_UINT, "0", 0, RING_MAX,
             "Slots of the sender, at least 2. 0 takes the stream's `ring`."),
     AT(struct config_sender, ring)},
    {CHOICE(
         "path", "auto", sender_path_choices,
         "How messages leave their memory. `direct`: the transport reads them there. `staged`: a "
         "batched copy takes them to pinned host memory first. `auto` stages where the transport "
         "cannot read that memory, and says why; `direct` is an error there."),
     AT(struct config_sender, path)},
    {CHILD("transport", SCHEMA_TRANSPORT, transport,
           "This side's transport, over that of the stream. Options of both ends stand there, not "
           "here.")},
    {CHILD("memory", SCHEMA_MEMORY, memory, "Where the sender's slots live.")}};
const struct schema_map schema_sender =
    MAP(sender_keys, "streams[].sender", NULL, "The sending end of a stream.");

static const struct schema_key assemble_keys[] = {
    {CHOICE("by", "sequence", by_choices,
            "What makes a frame. `sequence`: frame f is the messages from f × `packets` on, "
            "`packets` of them. `rtp_marker`: messages of one RTP timestamp, the last of them "
            "marked; `packets` is the most there can be."),
     AT(struct config_receiver, assemble.by)},
    {REQUIRED("packets", PST_OPTION_UINT, 1, 1048576,
              "Messages of a frame, or, by `rtp_marker`, the most it has."),
     AT(struct config_receiver, assemble.packets)},
    {KEY("timeout", PST_OPTION_DURATION, "2 ms", 1, NS_H,
         "How long a frame waits for what is missing, from the first message of it, or of a frame "
         "behind it. A sender that spreads a frame over a frame's time needs more than that "
         "time."),
     AT(struct config_receiver, assemble.timeout_ns)},
    {CHOICE("missing", "zero", missing_choices,
            "What becomes of a frame with messages missing. `zero`: it is handed over, with zeros "
            "in their places. `keep`: the same, with whatever lay there before. `drop`: it is not "
            "handed over, and its messages are counted as dropped, `incomplete_frame`."),
     AT(struct config_receiver, assemble.missing)},
    {KEY("frames", PST_OPTION_UINT, "8", 2, 128,
         "Frame buffers. Up to half of them are open at once for messages; the others are "
         "finished, or still with the application."),
     AT(struct config_receiver, assemble.frames)},
    {.map = NULL}};
const struct schema_map schema_assemble = MAP(
    assemble_keys, "streams[].receiver.assemble", NULL,
    "Hand over frames instead of messages: ordered and contiguous, each payload copied once, "
    "from the ring to its place in the frame, so that the path is `staged`. The transport must "
    "carry sequence numbers, and for `rtp_marker` timestamps; `penstock plugins` lists the options "
    "that give them. Messages that come for a frame already handed over are dropped as `late`.");

static struct schema_key receiver_keys[SCHEMA_KEYS_MAX] = {
    {KEY("share", PST_OPTION_STRING, NULL, 1, SCHEMA_NAME_MAX,
         "Fan-in: name of another stream of this file into whose ring these messages land too. "
         "Transport plugin and device, `message`, `ring` and memory must be the same."),
     AT(struct config_receiver, share)},
    {CHOICE("path", "auto", path_choices,
            "How messages may reach their memory. `direct`: the transport places them there "
            "itself. `mapped`: the memory is host memory that the device sees. `staged`: they "
            "land in pinned host memory and a batched copy moves them. `auto` takes the first of "
            "these that works and says which and why; any other is an error where it does not "
            "work."),
     AT(struct config_receiver, path)},
    {CHILD("transport", SCHEMA_TRANSPORT, transport,
           "This side's transport, over that of the stream. Options of both ends stand there, not "
           "here.")},
    {CHILD("memory", SCHEMA_MEMORY, memory, "Where the messages end up.")},
    {CHILD("assemble", SCHEMA_MAP, assemble, "Make frames of the messages.")},
    {KEY("intervals", PST_OPTION_BOOL, "false", 0, 0,
         "Measure the times between arrivals; the result has their percentiles. The "
         "transport has to stamp messages."),
     AT(struct config_receiver, intervals)},
    {KEY_FOR(
         SCHEMA_FOREIGN, 0, "silence", PST_OPTION_DURATION, "2 s", 0, 24 * NS_H,
         "`control: none`: the stream has ended when, after the first message, or after several "
         "datagrams that are none, nothing has come for so long. 0: never."),
     AT(struct config_receiver, silence_ns)}};
const struct schema_map schema_receiver =
    MAP(receiver_keys, "streams[].receiver", NULL, "The receiving end of a stream.");

static uint64_t default_ring(const void *stream)
{
  return pst_ring_default(((const struct config_stream *)stream)->message);
}

static struct schema_key stream_keys[SCHEMA_KEYS_MAX] = {
    {REQUIRED("name", PST_OPTION_STRING, 1, SCHEMA_NAME_MAX,
              "Name of the stream, the same at both ends: letters, digits, `_`, `.` and `-`."),
     AT(struct config_stream, name)},
    {KEY("message", PST_OPTION_SIZE, "8 KiB", 1, GIB, "Bytes of a message, at most."),
     AT(struct config_stream, message)},
    {KEY("stride", PST_OPTION_SIZE, "0", 0, 2 * GIB,
         "Bytes from one slot to the next, at least `message`, where they should lie further "
         "apart. 0: `message` rounded up to a cache line; in frames (`assemble`), `message` as it "
         "is."),
     AT(struct config_stream, stride)},
    {KEY("ring", PST_OPTION_UINT, NULL, 2, RING_MAX,
         "Slots, a message each. A ring that fits the cache is faster than one that does not; a "
         "larger one rides out longer pauses of the receiver. Without it, the power of two that 1 "
         "MiB holds, but 16 to 1024, and at most 1 GiB of them. A transport may take fewer; this "
         "project's take at most 4194304."),
     AT(struct config_stream, ring), .default_of = default_ring, .default_words = "by `message`"},
    {KEY("timeout", PST_OPTION_DURATION, "5 s", NS_MS, NS_H,
         "A peer from which nothing was heard for so long is dead."),
     AT(struct config_stream, timeout_ns)},
    {CHILD("transport", SCHEMA_TRANSPORT, transport,
           "This stream's transport, over the global one.")},
    {CHILD("sender", SCHEMA_MAP, sender, "The sending end.")},
    {CHILD("receiver", SCHEMA_MAP, receiver, "The receiving end.")}};
const struct schema_map schema_stream =
    MAP(stream_keys, "streams[]", NULL,
        "Messages from one sender to one receiver. All streams of a file run side by side.");

static const struct schema_key root_keys[] = {
    {REQUIRED("penstock", PST_OPTION_UINT, 0, 0, "Version of the file's format. This one is 1.")},
    {CHILD("control", SCHEMA_MAP, control, "How both ends find each other.")},
    {CHILD("threads", SCHEMA_MAP, threads, "The threads that move messages.")},
    {CHILD("transport", SCHEMA_TRANSPORT, transport, "How bytes travel, for all streams.")},
    {REQUIRED("streams", SCHEMA_LIST, 0, 0, "What is sent and received: one stream at least."),
     .map = &schema_stream},
    {.map = NULL}};
const struct schema_map schema_root =
    MAP(root_keys, "", NULL, "One file serves both ends and both hosts.");

const struct schema_map *const schema_maps[] = {&schema_root,
                                                &schema_control,
                                                &schema_threads,
                                                &schema_transport,
                                                &schema_filter,
                                                &schema_stream,
                                                &schema_sender,
                                                &schema_receiver,
                                                &schema_assemble,
                                                &schema_memory,
                                                NULL};

struct schema_key *const schema_program_keys[] = {stream_keys, sender_keys, receiver_keys};

const struct schema_key *schema_find(const struct schema_map *map, const char *name)
{
  for (const struct schema_key *key = map->keys; key->rule.name; key++)
    if (strcmp(key->rule.name, name) == 0)
      return key;
  return NULL;
}

struct node *schema_expand(struct arena *arena, const struct schema_map *map, struct node *node)
{
  if (node->type != NODE_SCALAR || node->null || !map->shorthand)
    return node;
  struct node *expanded = node_new(arena, NODE_MAP, NULL, &node->place);
  struct node *value = arena_alloc(arena, sizeof(*value));
  if (!expanded || !value)
    return NULL;
  *value = *node;
  value->key = map->shorthand;
  value->key_place = node->place;
  expanded->key = node->key;
  expanded->key_place = node->key_place;
  node_append(expanded, value);
  return expanded;
}
