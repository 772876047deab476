/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration, read, checked and with every default filled in. */
#ifndef PST_CONFIG_CONFIG_H
#define PST_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "options.h"
#include "util/name_index.h"

/* Where descriptions come from: the loader, or a table in tests. */
struct config_catalog {
  void *context;
  /* NULL when there is none. */
  const struct pst_description *(*find)(void *context, uint32_t kind, const char *name);
  /* The names there are, for suggestions; returns how many, writes up to max. */
  size_t (*names)(void *context, uint32_t kind, const char **names, size_t max);
  /* May be NULL. Why there is none: what of that name was rejected, one "; " apart,
   * and where was looked. Returns whether anything of that name was there. */
  bool (*missing)(void *context, uint32_t kind, const char *name, char *text, size_t size);
};

/* A plugin with its options, at one level of the file while that is checked, then at one end. */
struct config_plugin {
  uint32_t kind;
  const char *name;
  const struct pst_description *description; /* NULL, which is reported: there is none */
  struct pst_options *options;               /* owned by the config */
  struct place place;
  const char *origin; /* the same as text: "file.yaml:12:7", "--set path=value", "default" */
};

/* Returns the wire format of a transport, which the two ends of a stream compare. */
static inline const char *config_wire(const char *name, const struct pst_description *description)
{
  return description && description->wire ? description->wire : name;
}

struct config_transport {
  struct config_plugin plugin;
  struct config_plugin *filters; /* outermost first */
  uint32_t filter_count;
  struct place filters_place;
};

enum config_assemble_by { CONFIG_BY_SEQUENCE, CONFIG_BY_RTP_MARKER };
enum config_missing { CONFIG_MISSING_ZERO, CONFIG_MISSING_KEEP, CONFIG_MISSING_DROP };
enum config_sender_path {
  CONFIG_SENDER_PATH_AUTO,
  CONFIG_SENDER_PATH_DIRECT,
  CONFIG_SENDER_PATH_STAGED
};
enum config_path { CONFIG_PATH_AUTO, CONFIG_PATH_DIRECT, CONFIG_PATH_MAPPED, CONFIG_PATH_STAGED };

struct config_sender {
  struct config_transport transport;
  struct config_plugin memory;
  const char *share; /* stream whose slots are sent here too (fan-out); NULL */
  uint64_t rate_bps; /* of payload; 0: unlimited */
  uint64_t burst;    /* bytes that may go at once under `rate`; 0: chosen */
  uint32_t chunk;    /* messages between sleeps; 0: none */
  uint64_t sleep_ns; /* after each chunk */
  uint32_t ring;     /* sender slots; 0: the stream's `ring` */
  enum config_sender_path path;
};

struct config_receiver {
  struct config_transport transport;
  struct config_plugin memory;
  const char *share; /* stream into whose ring messages land too (fan-in); NULL */
  enum config_path path;
  struct {
    enum config_assemble_by by;
    uint32_t packets; /* of a frame, at most; 0: messages are handed over as they are */
    uint64_t timeout_ns;
    enum config_missing missing;
    uint32_t frames; /* buffers */
  } assemble;
  bool intervals;      /* measure the times between arrivals */
  uint64_t silence_ns; /* `control: none`: after the first message; 0: never */
};

struct config_stream {
  const char *name;
  uint64_t message;    /* bytes, at most */
  uint64_t stride;     /* bytes from slot to slot; 0: message rounded up to a cache line */
  uint32_t ring;       /* slots */
  bool ring_by_link;   /* neither `ring` nor a rate is written: config_ring_of_rate() of the link */
  uint64_t timeout_ns; /* a peer that is silent for this long is dead */
  struct config_sender sender;
  struct config_receiver receiver;
  uint64_t lacks;     /* capabilities that the receiver's transport lacks, whatever its device */
  const char *origin; /* where it was written */
};

struct config {
  bool is_node; /* of a node: its one stream names plugins, and has no messages */
  struct {
    bool none;           /* `control: none` */
    const char *listen;  /* host:port the receiver binds */
    const char *connect; /* host:port the sender connects to */
    bool insecure;
    bool is_clear;                    /* `insecure`, and beyond loopback */
    const struct pst_tls_params *tls; /* NULL: none */
    uint64_t connect_timeout_ns;      /* 0: wait for ever */
    uint64_t heartbeat_ns;
  } control;
  struct {
    uint32_t count;       /* 0: one a stream, up to the cores */
    const uint32_t *cpus; /* thread i runs on cpus[i % cpu_count]; none: not pinned */
    uint32_t cpu_count;
    uint64_t sleep_after_ns; /* 0: busy-poll for ever */
  } threads;
  struct config_stream *streams;
  uint32_t stream_count;
  const struct name_index_entry *names; /* of the streams: their indices by name */
  uint32_t name_count;
};

/* All of a file ("-": standard input), and one byte more than TREE_FILE_MAX where it is too long.
 * free() it. 0 or -errno. */
int config_read_file(const char *path, char **text, size_t *length);
/* Reads a file, applies sets and checks. Findings are reported in *error, one a line, as
 * "file:line:column: what; remedy or nearest name". -EINVAL, -ENOMEM, or the errno of reading the
 * file. */
int config_load_file(const char *path, const char *const *sets, size_t set_count,
                     const struct config_catalog *catalog, struct pst_config **config,
                     struct pst_error *error);
/* As config_load_file(), with the text itself; `name` stands for the file in findings. */
int config_load_text(const char *text, size_t length, const char *name, const char *const *sets,
                     size_t set_count, const struct config_catalog *catalog,
                     struct pst_config **config, struct pst_error *error);
/* Further members of the params' only stream; NULL: none. */
struct config_params_more {
  const char *source; /* in findings: where its values come from */
  const struct pst_filter_params *filters;
  uint32_t filter_count;
  bool is_node;
};
int config_load_params(const struct pst_config_params *params,
                       const struct config_params_more *more, const struct config_catalog *catalog,
                       struct pst_config **config, struct pst_error *error);

/* The typed result; lives as long as the pst_config. */
const struct config *config_of(const struct pst_config *config);
/* The stream whose name is these `length` bytes; NULL: none. */
const struct config_stream *config_stream_find(const struct config *config, const char *name,
                                               size_t length);
/* pst_ring_default(), or more: what a receiver that pauses for 100 us needs at that rate. */
uint32_t config_ring_of_rate(uint64_t message_bytes, uint64_t rate_bps);
void config_hold(struct pst_config *config); /* reference counted; dropped by pst_config_close */

/* pst_config_keys() with the plugins of `catalog`. */
void config_keys(const struct config_catalog *catalog,
                 void (*key)(void *context, const struct pst_config_key *key), void *context);
/* Copies a plugin's description into *info. Its other members stay as they are. */
void config_describe_info(const struct pst_description *description, struct pst_plugin_info *info);

#endif
