/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations, from YAML, and the plugins that they name.
 */
#ifndef PENSTOCK_CONFIG_H
#define PENSTOCK_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_config;
struct pst_description; /* plugin.h */

/* Plugins are opened by pst_session_open(), pst_node_open() and pst_plugins_list(), and where a
 * plugin has no description beside it by pst_config_open_file() and its like: in the thread that
 * calls them, before the session or node has any of its own. Signals are handled afterwards as
 * before, whatever a plugin's libraries did to them. Some plugins have the host set environment
 * variables meanwhile. Until the call returns, no other thread of the application calls setenv(),
 * putenv(), unsetenv() or sigaction(); getenv() is safe. */

/* Where plugins are looked for, before the built-in places (PENSTOCK_PLUGIN_PATH,
 * the build tree, the installed folder). For the whole process; copies. */
PST_EXPORT int pst_plugin_path_add(const char *folder);

/* Read a YAML file ("-": standard input), apply `sets` ("path=value", in order)
 * and check all of it. May block on the file. */
PST_EXPORT int pst_config_open_file(const char *path, const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);
/* The same for YAML in memory; `name` stands in messages for the file's. */
PST_EXPORT int pst_config_open_text(const char *text, size_t length, const char *name,
                                    const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);

/* For a program whose users write what it puts into structs, on a command line say: what findings
 * name as the place. Of the options it comes before the option itself: "--transport-option mode=x".
 * NULL: the struct. */
struct pst_origins {
  uint32_t struct_size;
  uint32_t reserved;
  const char *stream; /* of all but the options: "bench" */
  const char *transport_option;
  const char *memory_option;
  const char *insecure; /* of a node, whose errors advise it: "--insecure" */
};
struct pst_side_params {
  const char *memory; /* plugin name */
  const struct pst_setting *memory_options;
  uint32_t memory_option_count;
  uint32_t reserved;
};
struct pst_stream_params {
  uint32_t struct_size;
  uint32_t ring; /* slots */
  const char *name;
  uint64_t message;      /* bytes, at most */
  const char *transport; /* plugin name */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t reserved;
  struct pst_side_params sender;
  struct pst_side_params receiver;
  const char *path;                  /* of the receiver: auto | direct | mapped | staged */
  const struct pst_origins *origins; /* NULL: findings are at "params.streams[0]" */
};
struct pst_config_params {
  uint32_t struct_size;
  uint32_t stream_count;
  const struct pst_stream_params *const *streams;
  const char *control; /* "127.0.0.1:18515" */
  uint32_t threads;    /* 0: one a stream, up to the cores */
  uint32_t insecure;   /* allow a control address beyond loopback, and other users */
};
/* The same from structs, for programs that measure. Strings of values are as in YAML ("8 KiB"), so
 * that every option of every plugin is in reach; NULL and 0 mean the default. What else a stream
 * can have is YAML's alone. */
PST_EXPORT int pst_config_open_params(const struct pst_config_params *params,
                                      struct pst_config **config, struct pst_error *error);
/* Sessions opened from it keep what they need. Closing NULL is legal. */
PST_EXPORT void pst_config_close(struct pst_config *config);

/* The effective configuration as text, each value with its origin in a comment;
 * free() it. */
PST_EXPORT int pst_config_effective(const struct pst_config *config, char **text);
/* SHA-256 of the effective configuration without origins, as 64 hex digits. */
PST_EXPORT const char *pst_config_hash(const struct pst_config *config);
PST_EXPORT uint32_t pst_config_stream_count(const struct pst_config *config);
PST_EXPORT const char *pst_config_stream_name(const struct pst_config *config, uint32_t index);
/* One effective value by its path ("streams.packets.sender.source.type"). _get:
 * as text, NULL when there is no such key or it is not set; valid as long as the
 * config. _get_uint: sizes in bytes, durations in ns, rates in bit/s, booleans 0
 * or 1; 0 when there is none. */
PST_EXPORT const char *pst_config_get(const struct pst_config *config, const char *path);
PST_EXPORT uint64_t pst_config_get_uint(const struct pst_config *config, const char *path);
PST_EXPORT double pst_config_get_number(const struct pst_config *config, const char *path);
/* Where a value, a mapping or a list was written: "file.yaml:12:7", "--set path=value", "default";
 * NULL when there is no such key. Valid as long as the config. */
PST_EXPORT const char *pst_config_origin(const struct pst_config *config, const char *path);
/* Slots of a stream's ring where the file has no `ring`, for messages of at most so many
 * bytes. Measured: docs/benchmarks.md. */
PST_EXPORT uint32_t pst_ring_default(uint64_t message_bytes);

/* ---- The program's part of the file -------------------------------------------- */

/* Where a mapping of the program's stands. */
enum pst_config_place {
  PST_CONFIG_STREAM = 1,   /* under a stream */
  PST_CONFIG_SENDER = 2,   /* under its `sender` */
  PST_CONFIG_RECEIVER = 3, /* under its `receiver` */
};

/* Types of keys beside enum pst_option_type. LIST is for plugins alone. */
enum pst_config_type {
  PST_CONFIG_NUMBER = 100, /* a decimal number, 68.5 */
  PST_CONFIG_SHARE = 101,  /* a share from 0 to 1, as 0.001 or 0.1% */
};

/* A mapping that is the program's, or keys of the program's beside the library's own: the library
 * checks what stands there, and does nothing with it. The program reads the values by
 * pst_config_get() and its like. An array element: its size is frozen. */
struct pst_config_map {
  /* The key: "source". NULL: `keys` stand in the place itself; help, summary, shorthand and
   * foreign_default are NULL then, and the keys have no `scope`. */
  const char *name;
  const char *help; /* whole sentences, for the reference */
  /* One line, for the row of the key itself. */
  const char *summary;
  /* The key that a single value stands for; NULL: the mapping is written out. Where it is the first
   * one, and an ENUM, it says which keys there are: `scope` of each of the others then has a bit
   * for each choice that takes it, the first choice's the lowest; 0: all of them. */
  const char *shorthand;
  /* NULL: the mapping is another program's. Whatever stands there is passed over. */
  const struct pst_option *keys;
  uint32_t key_count;
  uint32_t place; /* enum pst_config_place */
  /* The value of `shorthand` that is the default with `control: none`; NULL: the key's own. */
  const char *foreign_default;
  uint32_t is_shared; /* 1: beside the end's `share` it may not stand, as the other stream has it */
  uint32_t only_foreign; /* 1, without a name and under `receiver`: only with `control: none` */
};
PST_STATIC_ASSERT(sizeof(struct pst_config_map) == 64, "frozen");

/* A stream of a configuration that is being opened, for the program's check(). */
struct pst_config_stream {
  uint32_t struct_size;
  uint32_t index; /* of the stream */
  /* For pst_config_get() and its like, by "streams.INDEX.…"; what is wrong has no value. */
  const struct pst_config *config;
  const char *transport; /* the receiver's plugin; NULL: there is none of that name */
  uint64_t lacks;      /* capabilities that it does not have as it is set up, whatever the device */
  uint32_t is_foreign; /* 1: `control: none` */
  uint32_t reserved;
  /* Report what is wrong with the value at `path` in the stream ("sender.source.length"), and what
   * would be right, in one line. The library adds the place; a value that is not written has that
   * of what is around it. Any number of times. */
  void (*report)(const struct pst_config_stream *stream, const char *path, const char *format, ...)
      PST_PRINTF(3, 4);
};

struct pst_config_program {
  uint32_t struct_size;
  uint32_t map_count;
  const struct pst_config_map *maps;
  /* What must hold between values; NULL: nothing. In the thread that opens the configuration. */
  void (*check)(const struct pst_config_stream *stream);
};

/* Which mappings of a file are the program's. For the whole process, before it opens a
 * configuration; a second call takes the place of the first. Without it there are none: a
 * `source`, a `sink` and an `expect`, which the program `penstock` has, are unknown keys then.
 * *program and what it points to stay. NULL: none again. 0; -EINVAL: a name of the library's, a
 * place or a shorthand key that there is not, a LIST, more than 32 keys; -ENOSPC: more than 8
 * mappings, or more keys without a mapping than a place takes. After a failure there are none. */
PST_EXPORT int pst_config_program(const struct pst_config_program *program);

/* ---- Plugins ------------------------------------------------------------------ */

/* A device of a transport. */
struct pst_device_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *transport; /* the plugin's name */
  char device[256];      /* its option `device`; "": it has none, or it was left out */
};

struct pst_plugin_info {
  uint32_t struct_size;
  uint32_t kind;       /* enum pst_plugin_kind */
  const char *name;    /* of a plugin that was rejected, by its file */
  const char *version; /* the plugin's own; "" when rejected, as are summary and rung */
  const char *summary; /* one line, no full stop */
  const char *needs;   /* in words: libraries, devices, privileges; NULL: none */
  const char *rung;    /* hardware | kernel | simulated | compiled, and how it is shown */
  const struct pst_option *options;
  uint32_t option_count;
  uint32_t described; /* 1: only the description is here, the plugin is not built */
  /* Variables that stand in the environment while it is opened; NULL-terminated; NULL: none. */
  const char *const *environment;
  const char *wire;   /* of a transport: the form of what it sends; NULL: the plugin's name */
  const char *path;   /* real path of the plugin, or of its description; "" when rejected */
  const char *reason; /* why not usable; "" */
  const char *remedy; /* "" */
  const char *const *libraries; /* real paths of vendor libraries bound; NULL-terminated */
  const char *shadowed_by;      /* real path of the plugin of this kind and name that is used; "" */
  int32_t status; /* 0 usable; -errno: from loading or probing it; -EEXIST: shadowed */
  uint32_t reserved;
  const struct pst_description *description; /* plugin.h; the library's; NULL when rejected */
};
/* Load, probe and report every plugin that can be found, rejected candidates
 * included; `device` (may be NULL) is called for each usable device. The info is
 * valid for the call. May block for seconds. */
PST_EXPORT int pst_plugins_list(void (*plugin)(void *context, const struct pst_plugin_info *info),
                                void (*device)(void *context, const char *name, const char *detail),
                                void *context);

/* Rules between a plugin's options: the one of that index (from 0) as a sentence without its full
 * stop, cut to `size` and terminated. 0; -ENOENT: there are no more, `text` is untouched. Any
 * thread; does not block. */
PST_EXPORT int pst_plugin_rule(const struct pst_plugin_info *info, uint32_t index, char *text,
                               size_t size);

#ifdef __cplusplus
}
#endif
#endif
