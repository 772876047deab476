/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of keys, and how keys of a place are found. */
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
#define SCHEMA_PATH_MAX 4095

/* In the order of the enums of config.h. */
static const char *const sender_path_choices[] = {"auto", "direct", "staged", NULL};
static const char *const path_choices[] = {"auto", "direct", "mapped", "staged", NULL};
static const char *const by_choices[] = {"sequence", "rtp_marker", NULL};
static const char *const missing_choices[] = {"zero", "keep", "drop", NULL};

#define TLS_FILE(field, help)                                                                      \
  {                                                                                                \
    KEY(#field, PST_OPTION_STRING, NULL, 1, SCHEMA_PATH_MAX, help),                                \
        AT(struct pst_tls_params, field)                                                           \
  }

static const struct schema_key tls_keys[] = {
    TLS_FILE(
        certificate,
        "File with the certificate of this end in PEM, followed by intermediate certificates, if any."),
    TLS_FILE(
        key,
        "File with the private key of `certificate` in PEM, without a passphrase. Its mode is 0600; a file of root may have mode 0640."),
    TLS_FILE(ca,
             "File with the certificates of the CAs that sign the peers' certificates, in PEM."),
    TLS_FILE(
        crl,
        "File with certificate revocation lists in PEM, one for each CA. Without this key, revocation is not checked."),
    {KEY(
        "peers", PST_OPTION_LIST, "[]", 0, 0,
        "Names, one of which the peer's certificate must have, as in `[node1.example, \"spiffe://site/node2\"]`. A name with a colon is a URI, and every byte must match; others are DNS names, in upper or lower case. Wildcards are not supported. With an empty list, the end that listens accepts every certificate that a CA of `ca` has signed. The end that connects requires the name of the host it connects to.")},
    TLS_FILE(
        psk,
        "File with pre-shared keys, instead of certificates: lines of `NAME:HEX`, as psktool of GnuTLS writes them. Its mode is 0600; a file of root may have mode 0640. The end that connects uses the first key; the end that listens accepts each."),
    {.map = NULL}};
const struct schema_map schema_tls = MAP(
    tls_keys, "control.tls", NULL,
    "TLS 1.3 on the control channel: both ends show certificates, or both have a pre-shared key. Peers without these are refused, so the control channel may go to other hosts. The data are not encrypted. If a file changes, it is read again before the next handshake.");

static const struct schema_key control_keys[] = {
    {KEY(
        "address", PST_OPTION_STRING, "127.0.0.1:18515", 0, 255,
        "Host and port of the control channel. The receiver listens there, and the sender connects to it. An IPv6 address stands in brackets, `[::1]:18515`.")},
    {KEY("listen", PST_OPTION_STRING, NULL, 0, 255,
         "Host and port that the receiver listens on, if the sender connects to another one. Default: `address`."),
     AT(struct config, control.listen)},
    {KEY("connect", PST_OPTION_STRING, NULL, 0, 255,
         "Host and port that the sender connects to. Default: `address`."),
     AT(struct config, control.connect)},
    {KEY("insecure", PST_OPTION_BOOL, "false", 0, 0,
         "Accept every peer that reaches the control channel's port, from other hosts and of other users: nothing is authenticated. Needed if `listen` or `connect` is not a loopback address; a warning at the start then says so. Without `insecure` and `tls`, both ends must be processes of one user on one host."),
     AT(struct config, control.insecure)},
    {CHILD("tls", SCHEMA_MAP, tls,
           "Credentials of this end and of its peers; both ends have them, or neither.")},
    {KEY("timeout", PST_OPTION_DURATION, "60 s", 0, 24 * NS_H,
         "How long each side waits for the other at the start. 0: for ever."),
     AT(struct config, control.connect_timeout_ns)},
    {KEY("heartbeat", PST_OPTION_DURATION, "500 ms", 10 * NS_MS, NS_H,
         "How often each side sends the other a heartbeat with its counts. A stream's `timeout` must be at least twice this."),
     AT(struct config, control.heartbeat_ns)},
    {.map = NULL}};
const struct schema_map schema_control = MAP(
    control_keys, "control", "address",
    "The channel over which both ends meet, compare what they share and exchange final counts. `control: none` is for a peer that is not Penstock: this side runs alone, as `penstock receive` or `penstock send`, and options of its transport name the peer. A single `host:port` is the `address`.");

static const struct schema_key threads_keys[] = {
    {KEY("count", PST_OPTION_UINT, "0", 0, SCHEMA_THREADS_MAX,
         "Number of threads, over which the streams are spread. 0: one for each stream, at most one for each core."),
     AT(struct config, threads.count)},
    {KEY(
        "cpus", PST_OPTION_LIST, "[]", 0, 0,
        "CPUs to pin threads to, as in `[2, 3]`. Thread i runs on CPU i of the list; with more threads than CPUs the list repeats. An empty list pins nothing.")},
    {KEY("sleep_after", PST_OPTION_DURATION, "0", 0, NS_H,
         "A thread that has been idle for this time sleeps until something happens. 0: it never sleeps, which gives the lowest latency and keeps its core busy."),
     AT(struct config, threads.sleep_after_ns)},
    {.map = NULL}};
const struct schema_map schema_threads =
    MAP(threads_keys, "threads", "count",
        "The threads that move messages. A single number is the `count`.");

static const struct schema_key filter_keys[] = {
    {REQUIRED("plugin", SCHEMA_PLUGIN_NAME, 0, 0, "Name of the filter plugin, such as `fault`.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The filter's own options; `penstock plugins NAME` lists them.")},
    {.map = NULL}};
const struct schema_map schema_filter = MAP(
    filter_keys, "transport.filters[]", "plugin",
    "A filter is a layer between a transport and Penstock that changes what passes, mostly for tests. A single name is the filter with its defaults.");

static const struct schema_key transport_keys[] = {
    {KEY("plugin", SCHEMA_PLUGIN_NAME, "loopback", 0, 0, "Name of the transport plugin.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The plugin's own options; `penstock plugins NAME` lists them. "
         "`device` names the device, where there are several. Under `sender` and `receiver` only "
         "the options of that side may stand.")},
    {KEY("filters", SCHEMA_FILTERS, "[]", 0, 0,
         "Filters around the transport, the outermost first. A list here replaces that of the enclosing transport; without the key `filters`, that list stays."),
     .map = &schema_filter},
    {.map = NULL}};
const struct schema_map schema_transport = MAP(
    transport_keys, "transport", "plugin",
    "How bytes travel. At the top of the file it is for all streams. `streams[].transport` overrides it for a stream, and `streams[].sender.transport` and `streams[].receiver.transport` for one end, since device names differ between hosts. Options of the same plugin merge key by key; another plugin begins with its own defaults. A single name is the plugin with its defaults.");

static const struct schema_key memory_keys[] = {
    {KEY("plugin", SCHEMA_PLUGIN_NAME, "host", 0, 0, "Name of the memory plugin.")},
    {KEY("options", SCHEMA_OPTIONS, NULL, 0, 0,
         "The plugin's own options; `penstock plugins NAME` and the end of this page list "
         "them.")},
    {.map = NULL}};
const struct schema_map schema_memory = MAP(
    memory_keys, "memory", "plugin",
    "Where the bytes of one end are: under `streams[].sender` and under `streams[].receiver`. A single name is the plugin with its defaults.");

static struct schema_key sender_keys[SCHEMA_KEYS_MAX] = {
    {KEY("share", PST_OPTION_STRING, NULL, 1, SCHEMA_NAME_MAX,
         "Fan-out: the name of another stream of this file, whose messages this stream also sends, from the same slots. `rate`, `ring` and source are then those of the other stream. Both streams need the same transport plugin, `message`, ring and memory."),
     AT(struct config_sender, share)},
    {KEY_FOR(
         SCHEMA_SENDER_OWN, 0, "rate", PST_OPTION_RATE, "0", 0, 0,
         "Mean rate of the payload in bits per second, as in `1 Gbps`. 0: as fast as the receiver takes messages."),
     AT(struct config_sender, rate_bps)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "burst", PST_OPTION_SIZE, "0", 0, 16 * GIB,
             "The most bytes that may go in one burst under `rate`, at least one message. "
             "0: what `rate` sends in 20 ms."),
     AT(struct config_sender, burst)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "chunk", PST_OPTION_UINT, "0", 0, RING_MAX,
             "Messages to send before each `sleep`, as senders with Rivermax do. 0: no "
             "sleeps."),
     AT(struct config_sender, chunk)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "sleep", PST_OPTION_DURATION, "0", 0, NS_H,
             "How long to send nothing after each `chunk`."),
     AT(struct config_sender, sleep_ns)},
    {KEY_FOR(SCHEMA_SENDER_OWN, 0, "ring", PST_OPTION_UINT, "0", 0, RING_MAX,
             "Slots of the sender, at least 2. 0: as the stream's `ring`."),
     AT(struct config_sender, ring)},
    {CHOICE(
         "path", "auto", sender_path_choices,
         "How messages leave their memory. `direct`: the transport reads them there. `staged`: a "
         "batched copy takes them to pinned host memory first. `auto` stages where the transport "
         "cannot read that memory, and says why; `direct` is an error there."),
     AT(struct config_sender, path)},
    {CHILD(
        "transport", SCHEMA_TRANSPORT, transport,
        "The transport of this end, merged over that of the stream. Options on which both ends must agree stand at the stream.")},
    {CHILD("memory", SCHEMA_MEMORY, memory, "The memory of the sender's slots.")}};
const struct schema_map schema_sender =
    MAP(sender_keys, "streams[].sender", NULL, "The sending end of a stream.");

static const struct schema_key assemble_keys[] = {
    {CHOICE(
         "by", "sequence", by_choices,
         "What makes a frame. `sequence`: each `packets` messages are a frame; frame f begins with message f × `packets`. `rtp_marker`: messages with one RTP timestamp, the last of which has the marker, are a frame of at most `packets`."),
     AT(struct config_receiver, assemble.by)},
    {REQUIRED("packets", PST_OPTION_UINT, 1, 1048576,
              "Messages of a frame; by `rtp_marker`, the most messages of a frame."),
     AT(struct config_receiver, assemble.packets)},
    {KEY("timeout", PST_OPTION_DURATION, "2 ms", 1, NS_H,
         "How long a frame waits for missing messages, counted from its first message "
         "or the first of a later frame. For a sender that spreads each frame over the "
         "frame interval, set more than that interval."),
     AT(struct config_receiver, assemble.timeout_ns)},
    {CHOICE("missing", "zero", missing_choices,
            "What happens to a frame with missing messages. `zero`: the application gets "
            "the frame, with zeros in their places. `keep`: the application gets the "
            "frame, with old bytes in their places. `drop`: the application does not get "
            "the frame, and its messages count as dropped, `incomplete_frame`."),
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
         "Fan-in: the name of another stream of this file, into whose ring the messages of this stream go, too. Both streams need the same transport plugin and device, `message`, `ring` and memory."),
     AT(struct config_receiver, share)},
    {CHOICE("path", "auto", path_choices,
            "How messages may reach their memory. `direct`: the transport writes them "
            "there. `mapped`: the memory is host memory that the GPU can read. `staged`: "
            "messages arrive in pinned host memory, and batched copies move them. `auto`: "
            "the first of these that works, and the result says which and why. Another "
            "value is an error where it does not work."),
     AT(struct config_receiver, path)},
    {CHILD(
        "transport", SCHEMA_TRANSPORT, transport,
        "The transport of this end, merged over that of the stream. Options on which both ends must agree stand at the stream.")},
    {CHILD("memory", SCHEMA_MEMORY, memory, "The memory of the receiver's slots.")},
    {CHILD("assemble", SCHEMA_MAP, assemble, "How messages become frames.")},
    {KEY("intervals", PST_OPTION_BOOL, "false", 0, 0,
         "Measure the times between arrivals. The result has their percentiles. The transport must time-stamp messages."),
     AT(struct config_receiver, intervals)},
    {KEY_FOR(
         SCHEMA_FOREIGN, 0, "silence", PST_OPTION_DURATION, "2 s", 0, 24 * NS_H,
         "`control: none`: the stream ends when nothing has arrived for this time. Counting begins with the first message, or after several datagrams that are not messages. 0: never."),
     AT(struct config_receiver, silence_ns)}};
const struct schema_map schema_receiver =
    MAP(receiver_keys, "streams[].receiver", NULL, "The receiving end of a stream.");

static uint64_t schema_default_ring(const void *stream)
{
  return pst_ring_default(((const struct config_stream *)stream)->message);
}

static struct schema_key stream_keys[SCHEMA_KEYS_MAX] = {
    {REQUIRED("name", PST_OPTION_STRING, 1, SCHEMA_NAME_MAX,
              "Name of the stream, the same at both ends: letters, digits, `_`, `.` and `-`."),
     AT(struct config_stream, name)},
    {KEY("message", PST_OPTION_SIZE, "8 KiB", 1, GIB, "The most bytes of a message."),
     AT(struct config_stream, message)},
    {KEY("stride", PST_OPTION_SIZE, "0", 0, 2 * GIB,
         "Bytes from the start of one slot to the start of the next, at least `message`. 0: `message` rounded up to a cache line, and in frames (`assemble`) `message` itself."),
     AT(struct config_stream, stride)},
    {KEY("ring", PST_OPTION_UINT, NULL, 2, RING_MAX,
         "Slots of the ring, one for each message. A ring that fits the CPU's cache is faster; a larger one bridges longer pauses of the receiver. Default: the largest power of two of slots that fit in 1 MiB, from 16 to 1024, but at most 1 GiB in all. With a `rate` at the sender, the ring holds at least what arrives in 100 µs, a usual pause, up to 8192 slots. Without a `rate`, a receiver on `verbs_rc` or `verbs_dc` uses the link's speed instead, divided by the number of rings of the device. `ring_slots` of the result shows the number. A stream with `share` uses the ring of the other stream. A transport may have a lower limit; Penstock's own take up to 4194304."),
     AT(struct config_stream, ring), .default_of = schema_default_ring,
     .default_words = "by `message` and `rate`"},
    {KEY("timeout", PST_OPTION_DURATION, "5 s", NS_MS, NS_H,
         "A peer that has been silent for this time counts as dead."),
     AT(struct config_stream, timeout_ns)},
    {CHILD("transport", SCHEMA_TRANSPORT, transport,
           "The transport of this stream, merged over that of the file.")},
    {CHILD("sender", SCHEMA_MAP, sender, "The sending end.")},
    {CHILD("receiver", SCHEMA_MAP, receiver, "The receiving end.")}};
const struct schema_map schema_stream =
    MAP(stream_keys, "streams[]", NULL,
        "Messages from one sender to one receiver. All streams of a file run side by side.");

static const struct schema_key root_keys[] = {
    {REQUIRED("penstock", PST_OPTION_UINT, 0, 0, "Version of the file's format: 1.")},
    {CHILD("control", SCHEMA_MAP, control, "How both ends meet.")},
    {CHILD("threads", SCHEMA_MAP, threads, "The threads that move messages.")},
    {CHILD("transport", SCHEMA_TRANSPORT, transport, "How bytes travel, for all streams.")},
    {REQUIRED("streams", SCHEMA_LIST, 0, 0, "What is sent and received: at least one stream."),
     .map = &schema_stream},
    {.map = NULL}};
const struct schema_map schema_root =
    MAP(root_keys, "", NULL, "One file serves both ends and both hosts.");

const struct schema_map *const schema_maps[] = {
    &schema_root,      &schema_control,  &schema_tls,    &schema_threads,
    &schema_transport, &schema_filter,   &schema_stream, &schema_sender,
    &schema_receiver,  &schema_assemble, &schema_memory, NULL};

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
