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

/* pst_session_open(), pst_node_open() and pst_plugins_list() load plugins, in the calling thread.
 * So do pst_config_open_file() and its like, if a plugin has no description beside it. The library
 * restores signal handlers that a plugin's libraries change, and sets environment variables while
 * it loads some plugins. Until such a call returns, no other thread of the application may call
 * setenv(), putenv(), unsetenv() or sigaction(); getenv() is safe. */

/* Add a folder that is searched for plugins before the built-in places (PENSTOCK_PLUGIN_PATH, the
 * build tree, the installed folder). For the whole process; the path is copied. */
PST_EXPORT int pst_plugin_path_add(const char *folder);

/* Read a YAML file ("-": standard input), apply `sets` ("path=value", in order)
 * and check all of it. May block on the file. */
PST_EXPORT int pst_config_open_file(const char *path, const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);
/* pst_config_open_file() for YAML in memory; messages use `name` as the file's name. */
PST_EXPORT int pst_config_open_text(const char *text, size_t length, const char *name,
                                    const char *const *sets, size_t set_count,
                                    struct pst_config **config, struct pst_error *error);

/* The names that findings give as the place of a value, for a program that fills structs from its
 * user's command line. For plugin options the text stands before the option: "--transport-option
 * mode=x". NULL: findings name the struct. */
struct pst_origins {
  uint32_t struct_size;
  uint32_t reserved;
  const char *stream; /* the place of all values but the options: "bench" */
  const char *transport_option;
  const char *memory_option;
  const char *insecure; /* for errors of nodes, which advise it: "--insecure" */
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
  uint64_t message;      /* the most bytes of a message */
  const char *transport; /* plugin name */
  const struct pst_setting *transport_options;
  uint32_t transport_option_count;
  uint32_t reserved;
  struct pst_side_params sender;
  struct pst_side_params receiver;
  const char *path;                  /* the receiver's: auto | direct | mapped | staged */
  const struct pst_origins *origins; /* NULL: findings are at "params.streams[0]" */
};
/* Credentials for TLS 1.3 on the control channel: `certificate`, `key` and `ca`, or `psk`. Files
 * are read again when they have changed. A secret's file has mode 0600, or is root's with 0640. */
struct pst_tls_params {
  uint32_t struct_size;
  uint32_t peer_count;
  const char *certificate;  /* PEM: this end's certificate, then intermediate ones */
  const char *key;          /* PEM: its private key, without a passphrase */
  const char *ca;           /* PEM: the CAs that sign the certificates of peers */
  const char *crl;          /* PEM: their revocation lists; NULL: revocation is not checked */
  const char *const *peers; /* DNS names or URIs; a peer's certificate must have one. None: a
                               listener accepts all of `ca`, a client requires the host's name */
  const char *psk;          /* lines of NAME:HEX; the end that connects uses the first */
};
struct pst_config_params {
  uint32_t struct_size;
  uint32_t stream_count;
  const struct pst_stream_params *const *streams;
  const char *control;              /* "127.0.0.1:18515" */
  uint32_t threads;                 /* 0: one a stream, up to the cores */
  uint32_t insecure;                /* allow a control address beyond loopback, and other users */
  const struct pst_tls_params *tls; /* NULL: no TLS; excludes `insecure` */
};
/* A configuration from structs, for programs that measure. Values of plugin options are written as
 * in YAML ("8 KiB"); NULL and 0 mean the default. Other properties of streams need YAML. */
PST_EXPORT int pst_config_open_params(const struct pst_config_params *params,
                                      struct pst_config **config, struct pst_error *error);
/* Close a configuration. Sessions opened from it keep what they need. NULL is legal. */
PST_EXPORT void pst_config_close(struct pst_config *config);

/* The effective configuration as text, each value with its origin in a comment;
 * free() it. */
PST_EXPORT int pst_config_effective(const struct pst_config *config, char **text);
/* SHA-256 of the effective configuration without origins, as 64 hex digits. */
PST_EXPORT const char *pst_config_hash(const struct pst_config *config);
/* The number of streams. */
PST_EXPORT uint32_t pst_config_stream_count(const struct pst_config *config);
/* The name of stream number `index`, from 0; NULL: no such stream. */
PST_EXPORT const char *pst_config_stream_name(const struct pst_config *config, uint32_t index);
/* Get an effective value by its path ("streams.packets.sender.source.type"). pst_config_get() gives
 * text, which is valid as long as the configuration. pst_config_get_uint() gives sizes in bytes,
 * durations in ns, rates in bit/s, and booleans as 0 or 1.
 * Returns the value; NULL: no such key, or it is not set; 0: the same, where a number is asked for.
 */
PST_EXPORT const char *pst_config_get(const struct pst_config *config, const char *path);
PST_EXPORT uint64_t pst_config_get_uint(const struct pst_config *config, const char *path);
PST_EXPORT double pst_config_get_number(const struct pst_config *config, const char *path);
/* Where a value, mapping or list was written: "file.yaml:12:7", "--set path=value", "default". The
 * text is valid as long as the configuration. NULL: no such key. */
PST_EXPORT const char *pst_config_origin(const struct pst_config *config, const char *path);
/* The default number of slots of a stream's ring, for messages of at most so many bytes.
 * docs/internals/benchmarks.md has the measurements. */
PST_EXPORT uint32_t pst_ring_default(uint64_t message_bytes);

/* ---- The program's part of the file -------------------------------------------- */

/* Where a mapping of the program stands. */
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

/* A mapping that belongs to the program, or keys of the program beside the library's own. The
 * library checks these values and does not use them; the program reads them by pst_config_get() and
 * its like. An array element: its size is frozen. */
struct pst_config_map {
  /* The key: "source". NULL: `keys` stand in the place itself; help, summary, shorthand and
   * foreign_default are NULL then, and the keys have no `scope`. */
  const char *name;
  const char *help; /* whole sentences, for the reference */
  /* One line, for the row of the key itself. */
  const char *summary;
  /* The key that a single value in place of the mapping sets; NULL: none. If it is the first key
   * and an ENUM, its value decides which other keys are allowed: the `scope` of each other key has
   * a bit for each choice that allows it, from the lowest bit on; 0: all choices. */
  const char *shorthand;
  /* NULL: the mapping belongs to another program, and its contents are ignored. */
  const struct pst_option *keys;
  uint32_t key_count;
  uint32_t place; /* enum pst_config_place */
  /* The default of `shorthand` with `control: none`; NULL: the key's own default. */
  const char *foreign_default;
  uint32_t is_shared;    /* 1: not allowed beside the end's `share`: the shared stream has it */
  uint32_t only_foreign; /* 1, without a name and under `receiver`: only with `control: none` */
};
PST_STATIC_ASSERT(sizeof(struct pst_config_map) == 64, "frozen");

/* A stream of a configuration that is being opened, for the program's check(). */
struct pst_config_stream {
  uint32_t struct_size;
  uint32_t index; /* of the stream */
  /* For pst_config_get() and its like, by "streams.INDEX.…"; invalid values are not set. */
  const struct pst_config *config;
  const char *transport; /* the receiver's plugin; NULL: no plugin of that name */
  uint64_t lacks;      /* capabilities that the transport lacks with these options on any device */
  uint32_t is_foreign; /* 1: `control: none` */
  uint32_t reserved;
  /* Report what is wrong with the value at `path` in the stream ("sender.source.length") and what
   * would be right: one line. The library adds the place; that of a value that is not written is
   * the place of its mapping. May be called several times. */
  void (*report)(const struct pst_config_stream *stream, const char *path, const char *format, ...)
      PST_PRINTF(3, 4);
};

struct pst_config_program {
  uint32_t struct_size;
  uint32_t map_count;
  const struct pst_config_map *maps;
  /* Check values that depend on each other, in the thread that opens the configuration; or NULL. */
  void (*check)(const struct pst_config_stream *stream);
};

/* Declare the mappings of a file that belong to the program, for the whole process, before it opens
 * a configuration. Without them `source`, `sink` and `expect`, which the program `penstock`
 * declares, are unknown keys. A second call replaces the first; NULL removes them. *program and all
 * that it points to must stay valid. 0; -EINVAL: a name of the library, an unknown place or
 * shorthand key, a LIST, more than 32 keys; -ENOSPC: more than 8 mappings, or too many keys without
 * a mapping. After an error no mappings are declared. */
PST_EXPORT int pst_config_program(const struct pst_config_program *program);

/* ---- Plugins ------------------------------------------------------------------ */

/* A device of a transport. */
struct pst_device_info {
  uint32_t struct_size;
  uint32_t reserved;
  const char *transport; /* the plugin's name */
  char device[256];      /* its option `device`; "": no such option, or not set */
};

struct pst_plugin_info {
  uint32_t struct_size;
  uint32_t kind;       /* enum pst_plugin_kind */
  const char *name;    /* of a rejected plugin: from its file's name */
  const char *version; /* the plugin's own; "" when rejected, as are summary and rung */
  const char *summary; /* one line, no full stop */
  const char *needs;   /* in words: libraries, devices, privileges; NULL: none */
  const char *rung;    /* hardware | kernel | simulated | compiled, and how it is shown */
  const struct pst_option *options;
  uint32_t option_count;
  uint32_t described; /* 1: only the description was found, the plugin is not built */
  /* Environment variables that are set while the plugin is loaded; NULL-terminated; NULL: none. */
  const char *const *environment;
  const char *wire;   /* a transport's wire format; NULL: the plugin's name */
  const char *path;   /* real path of the plugin, or of its description; "" when rejected */
  const char *reason; /* why not usable; "" */
  const char *remedy; /* "" */
  const char *const *libraries; /* real paths of vendor libraries bound; NULL-terminated */
  const char *shadowed_by;      /* real path of the plugin of this kind and name that is used; "" */
  int32_t status; /* 0 usable; -errno: from loading or probing it; -EEXIST: shadowed */
  uint32_t reserved;
  const struct pst_description *description; /* plugin.h; the library's; NULL when rejected */
};
/* Load and probe every plugin that is found, and report each, rejected ones included. device(),
 * which may be NULL, is called for each usable device. The info is valid for the call. May block
 * for seconds. */
PST_EXPORT int pst_plugins_list(void (*plugin)(void *context, const struct pst_plugin_info *info),
                                void (*device)(void *context, const char *name, const char *detail),
                                void *context);

/* Write the rule number `index` (from 0) between a plugin's options as a sentence without its full
 * stop, cut to `size` and NUL-terminated. 0; -ENOENT: no such rule, `text` is unchanged. Any
 * thread; does not block. */
PST_EXPORT int pst_plugin_rule(const struct pst_plugin_info *info, uint32_t index, char *text,
                               size_t size);

/* ---- The keys ------------------------------------------------------------------ */

enum pst_key_kind {
  PST_KEY_VALUE = 1,   /* by its rule: enum pst_option_type, enum pst_config_type */
  PST_KEY_MAP = 2,     /* the mapping `map`; a value in its place sets its `shorthand` key */
  PST_KEY_LIST = 3,    /* a list of mappings `map` */
  PST_KEY_PLUGIN = 4,  /* the name of a plugin */
  PST_KEY_OPTIONS = 5, /* options of the plugin that stands beside it */
  PST_KEY_ANY = 6,     /* another program's: anything */
};

/* A key of configuration files, an option of a plugin, or the head of a mapping or plugin, before
 * its keys. Texts are never NULL unless that is said; they are valid during the call. */
struct pst_config_key {
  uint32_t struct_size;
  uint32_t kind; /* enum pst_key_kind */
  /* "streams[].sender.rate", "streams[].sender" of a mapping, "" of the file itself; of a plugin's
   * option its name, "" of the plugin itself. */
  const char *path;
  const char *help;          /* whole sentences; of a plugin its summary */
  const char *type;          /* in words: "size", "choice", "mapping" */
  const char *values;        /* the range in words: "1 B to 1 GiB"; "" */
  const char *default_value; /* as in YAML; "": none, or empty */
  const char *default_words; /* where the default depends on other keys; NULL */
  const char *only_for;      /* values of the mapping's first key: "`file` and `pcap`"; "", NULL */
  const struct pst_option *rule;
  const char *map;       /* MAP, LIST: the path of the mapping that has the keys; NULL */
  const char *shorthand; /* MAP, LIST: the key that a single value sets; NULL */
  const struct pst_plugin_info *plugin; /* as far as its description tells; NULL: the file's key */
  uint32_t is_map;                      /* 1: the head of a mapping or plugin */
  uint32_t reserved;
};
/* Report every key that a configuration file may have, those of pst_config_program() included, and
 * every option of the plugins that are found. A key follows the head of its mapping. Neither opens
 * a device nor probes a plugin; loads a plugin that has no description beside it. Always returns 0.
 */
PST_EXPORT int pst_config_keys(void (*key)(void *context, const struct pst_config_key *key),
                               void *context);

#ifdef __cplusplus
}
#endif
#endif
