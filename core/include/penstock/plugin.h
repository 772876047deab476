/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that every Penstock plugin shares: the exported symbol, the
 * description, the option table, and the services of the host.
 *
 * A plugin is a shared object that exports exactly two data symbols,
 * `pst_plugin_v1` and `pst_description_v1`, made by PST_PLUGIN() and
 * PST_DESCRIPTION(). It includes only the headers of this folder, links
 * neither libpenstock nor another plugin, and calls the host through
 * `struct pst_host` alone. The host opens it with RTLD_NOW, RTLD_LOCAL and
 * RTLD_NODELETE: a plugin is never unloaded.
 *
 * One ABI until 1.0. A plugin is built with its host's headers, and again for
 * each release of Penstock. The host compares the sizes of pst_plugin, of
 * pst_description and of the table of operations, and refuses a plugin in which
 * one differs.
 *
 * Growth. So that the ABI can grow from 1.0 on, a struct passed by itself begins with
 * `struct_size`. The reader reads up to the smaller of both sizes; members that the writer did not
 * have read as zero. The writer of an out-struct writes no more than the `struct_size` that the
 * caller set. pst_struct_read() and pst_struct_write() follow these rules. Array elements have no
 * `struct_size`, and their reserved members are zero. Unknown opcodes and flags and reserved
 * members that are not zero are refused with -EINVAL, never ignored. A plugin with an option of
 * unknown type, scope or flag is refused, too. The host does not use capabilities it does not know.
 *
 * Errors. A call returns 0, a count, or -errno. -EAGAIN is the only
 * back-pressure and is never logged. The function that decides an error logs
 * it once, through host->log, with the vendor's code and the remedy; its
 * callers only pass it on. Out-parameters stay untouched on failure.
 *
 * Sizes are bytes, times are nanoseconds of CLOCK_MONOTONIC, rates are bits
 * per second, unless a name says otherwise.
 */
#ifndef PENSTOCK_PLUGIN_H
#define PENSTOCK_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PST_ABI_MAJOR 1u

#define PST_PLUGIN_SYMBOL "pst_plugin_v1"
#define PST_DESCRIPTION_SYMBOL "pst_description_v1"

/* Read a struct that begins with struct_size. Members of *to that `from` lacks are zero.
 * to->struct_size becomes the number of bytes that came from `from`, so that *to may be passed
 * on. */
PST_INLINE void pst_struct_read(void *to, size_t to_size, const void *from)
{
  uint32_t size;

  memcpy(&size, from, sizeof(size));
  if (size > to_size)
    size = (uint32_t)to_size;
  memset(to, 0, to_size);
  memcpy(to, from, size);
  memcpy(to, &size, sizeof(size));
}

/* Fill an out-struct with no more than its struct_size, which the caller set and which stays. */
PST_INLINE void pst_struct_write(void *to, const void *from, size_t from_size)
{
  uint32_t size;

  memcpy(&size, to, sizeof(size));
  if (size > from_size)
    size = (uint32_t)from_size;
  if (size > sizeof(size))
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
}

/* ---- Options ----------------------------------------------------------- */

enum pst_option_rule_flag {
  PST_RULE_UNLESS = 1u << 0, /* where `option` has any other value than `value` */
  PST_RULE_OTHER = 1u << 1,  /* `needs` must have any other value than `needed` */
};

/* A rule for options that exclude each other on any device: where `option` is `value`, `needs` must
 * be `needed`. A flag negates either half. {.option = "qps", .value = "1", .needs = "operation",
 * .needed = "write", .flags = PST_RULE_UNLESS}: several queue pairs support only WRITE. Defaults
 * count like written values, and the defaults of a table must satisfy its rules. A configuration
 * that breaks a rule is a finding of `penstock check`, with file, line and column, and exit status
 * 2 (-EINVAL from pst_config_parse()). The host makes no call with such options, so open() need not
 * check again. A rule between an option of the sender alone and one of the receiver alone never
 * applies. An array element: its size is frozen. */
struct pst_option_rule {
  const char *option; /* both are in the plugin's table, no LIST, and not the same */
  const char *value;  /* as it would stand in YAML; a STRING left out is "" */
  const char *needs;
  const char *needed;
  const char *because; /* a sentence, which follows a colon in the message, or NULL */
  uint32_t flags;      /* enum pst_option_rule_flag */
  uint32_t reserved[5];
};
PST_STATIC_ASSERT(sizeof(struct pst_option_rule) == 64, "frozen");

/* The option values of one plugin at one place of the configuration, checked against its table and
 * rules, with defaults filled in. The host's getters read them. They and their strings are valid
 * for the call that they are passed to. */
struct pst_options;

enum pst_check_flag {
  /* The peer does not run Penstock (`control: none`): the options alone describe it. */
  PST_CHECK_FOREIGN = 1u << 0,
  /* This process will open this end: options that only this end needs must be set. Without the flag
   * check() judges only what is written. */
  PST_CHECK_OPENS = 1u << 1,
  /* With PST_CHECK_OPENS: the other end will be in another process. */
  PST_CHECK_APART = 1u << 2,
};

/* Argument of a description's check(): one end of a stream, or its memory, as configured. The
 * getters are those of struct pst_host. */
struct pst_check {
  uint32_t struct_size;
  uint32_t side;  /* PST_SCOPE_SENDER or PST_SCOPE_RECEIVER */
  uint32_t flags; /* enum pst_check_flag */
  uint32_t reserved;
  const struct pst_options *options;
  uint64_t (*option_uint)(const struct pst_options *options, const char *name);
  const char *(*option_string)(const struct pst_options *options, const char *name);
  const char *(*option_item)(const struct pst_options *options, const char *name, uint32_t index);
  int (*option_is_set)(const struct pst_options *options, const char *name);
  /* Report what is wrong with an option of the table and what would be right: one line, without the
   * option's name. The host adds file, line and column. May be called several times. */
  void (*report)(const struct pst_check *check, const char *option, const char *format, ...)
      PST_PRINTF(3, 4);
};

enum pst_facts_flag {
  /* Messages arrive with metadata of the protocol, for example RTP's timestamps. */
  PST_FACTS_PROTOCOL_META = 1u << 0,
  /* Several ends may have the same `takes`, if all of them set this flag. */
  PST_FACTS_SHARES = 1u << 1,
  /* The address of an endpoint holds a key. Where the control channel that carries it is in clear,
   * and leaves the host, the stream is refused. */
  PST_FACTS_SECRET_ADDRESS = 1u << 2,
};

/* Facts that hold for any device opened with these options, written by check(). */
struct pst_facts {
  uint32_t struct_size;
  uint32_t flags;       /* enum pst_facts_flag */
  uint64_t message_max; /* as in struct pst_limits; 0: unknown without the device */
  uint64_t slots_max;   /* as in struct pst_limits; 0: unknown without the device */
  uint64_t lacks;       /* capabilities (enum pst_transport_capability) that no such device has */
  /* Memory plugins: the kinds of NORMAL regions, as bits 1 << enum pst_memory_kind; 0: unknown. */
  uint32_t memory_kinds;
  /* Memory plugins: what no NORMAL region offers (enum pst_memory_need). */
  uint32_t memory_lacks;
  /* Transports and filters: what memory must offer (enum pst_memory_need) so that any such device
   * places messages there itself, or sends from there. */
  uint32_t direct_needs;
  /* Transports: a resource of the host that only one endpoint can have, and the option that names
   * it. The whole stands before the part: "UDP port 5004 of IPv4/192.0.2.1". Two ends of a process
   * may not have the same resource, nor one a part of the other's. "": none. */
  char takes[80];
  const char *takes_option;
  /* Transports: the only place where this receiver hears its sender, or to which this sender sends,
   * and the option that names it. Both ends of a stream in one process must name the same place.
   * "": unknown. */
  char meets[64];
  const char *meets_option;
  /* Transports: a value that both ends of a stream in one process must share, for example the
   * address family ("IPv4"), and the option that sets it. "": unknown. */
  char equals[16];
  const char *equals_option;
};

/* Description of a plugin, readable without its vendor's libraries. The source file `options.c`
 * defines it, and is built twice: into the plugin, and alone into a description
 * `<kind>-<name>.desc.so` beside the plugin. So a machine without the vendor's library can check a
 * configuration. PST_DESCRIPTION() exports it, and its size. */
struct pst_description {
  const char *name;    /* [a-z][a-z0-9_]*, at most 31 bytes; the file is <kind>-<name>.so */
  const char *version; /* the plugin's own */
  const char *summary; /* one line, no full stop */
  const char *needs;   /* in words: libraries, devices, privileges; NULL: none */
  const char *rung;    /* hardware | kernel | simulated | compiled, and how it is shown */
  uint32_t kind;       /* enum pst_plugin_kind */

  uint32_t option_count; /* elements of `options`, at most 256 */
  const struct pst_option *options;

  const struct pst_option_rule *rules;
  uint32_t rule_count; /* elements of `rules`, at most 64 */
  uint32_t reserved;

  /* Check option values where table and rules cannot: addresses, names, numbers that depend on each
   * other. It judges values alone and asks nothing of the machine, so the answer is the same on any
   * host. It reports each value that open() or endpoint_open() would refuse with -EINVAL. A missing
   * device is open()'s to report, with another errno. The host calls it at least once for each end
   * of a stream, before open(); *facts is zero except for its struct_size. Any thread; never
   * blocks. May be NULL. */
  void (*check)(const struct pst_check *check, struct pst_facts *facts);

  /* Environment variables for libraries whose constructors change the process: at most 64 strings
   * "NAME=value", ended by NULL; NULL: none. They are set while the host opens the plugin and the
   * libraries it links, except those that the user has set. They are unset before probe(); what a
   * library reads later the plugin sets by the library's own calls. The host reads the list from
   * the description beside the plugin, and refuses a plugin without that file or with a different
   * list. Signal handlers need no variable: the host restores those that a constructor changed. */
  const char *const *environment;

  /* The name of the wire format, blobs of the control channel included: "verbs-rc" for example.
   * [a-z][a-z0-9-]*, at most 31 bytes; NULL: the plugin's name. Transports with one wire format
   * talk to each other: two ends compare the format and the STREAM options that both transports
   * have. NULL for a filter, which keeps the format of what it wraps. */
  const char *wire;
};

/* ---- Host services ----------------------------------------------------- */

struct pst_region;     /* memory.h */
struct pst_export;     /* memory.h */
struct pst_memory_ops; /* memory.h */

/* The host's services, passed to probe() and open(): one struct a plugin, valid as long as the
 * process lives. Any thread may call them unless their comment says otherwise. */
struct pst_host {
  uint32_t struct_size;
  uint32_t reserved;

  /* Log one line, without a trailing newline. The host adds plugin and level.
   * Never called per message. Keeps errno. */
  void (*log)(const struct pst_host *host, int level, const char *format, ...) PST_PRINTF(3, 4);

  /* CLOCK_MONOTONIC, nanoseconds. */
  uint64_t (*clock_ns)(const struct pst_host *host);

  /* Run work(arg) soon on a thread of the host, for calls that may block (name lookup, address
   * handles, vendor calls that sleep). The work stores its result where a later poll() looks, and
   * wakes the worker's event fd. Works of one key run one after the other, in order. Works of
   * different keys, for example endpoints, run side by side, at most 8 of a plugin at a time. Keys
   * are compared, never dereferenced; NULL is a key. Works may run beside device calls. All works
   * have run before worker_close() and close().
   * 0, or -ENOMEM. */
  int (*defer)(const struct pst_host *host, const void *key, void (*work)(void *arg), void *arg);

  /* Load a vendor library, RTLD_NOW | RTLD_LOCAL, and record its real path for the run's result. It
   * stays loaded. Signal handlers that its constructors changed are restored.
   * 0 and a dlopen handle, or -ENOENT, which is not logged: the library may be optional. */
  int (*library_open)(const struct pst_host *host, const char *soname, void **handle);

  /* Option getters. A name that is not in the table is a bug of the plugin: the host logs it and
   * returns zero or "". option_uint serves BOOL, UINT, SIZE, DURATION, RATE, and ENUM (index). */
  uint64_t (*option_uint)(const struct pst_options *options, const char *name);
  const char *(*option_string)(const struct pst_options *options, const char *name);
  /* LIST: element `index`, or NULL past the end. */
  const char *(*option_item)(const struct pst_options *options, const char *name, uint32_t index);
  /* 1 if the user wrote the option, 0 if it has its default. */
  int (*option_is_set)(const struct pst_options *options, const char *name);

  /* For transports: call export_region (memory.h) of the region's memory plugin for [offset, offset
   * + length). The caller closes the descriptor in *out. 0; -EOPNOTSUPP: the region has no such
   * export; or the memory plugin's error, which the plugin logged. May block; not from poll() or
   * post(). */
  int (*region_export)(const struct pst_host *host, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);

  /* The next three are for transports that let the memory plugin copy what the CPU cannot. */

  /* The operations of a region's memory plugin; those that it lacks return -EOPNOTSUPP. A transport
   * reads `capabilities` and calls the operations of queues and fences (queue_open(region->memory,
   * …), queue_close, copy_rows, queue_poll, fence_*), on the thread that has the queue. The other
   * operations belong to the host. Valid as long as the region. NULL: the region belongs to no
   * memory plugin. Never blocks. */
  const struct pst_memory_ops *(*region_memory)(const struct pst_host *host,
                                                const struct pst_region *region);
  /* Call import_region (memory.h) of the memory of `near`, for what region_export gave in a peer or
   * in this process. That memory copies between the two regions. The caller sets far->struct_size.
   * 0; -EOPNOTSUPP: `near` belongs to no memory plugin, or the plugin does not import this kind; or
   * the memory plugin's error, which the plugin logged. May block for milliseconds; not from poll()
   * or post(). */
  int (*region_import)(const struct pst_host *host, const struct pst_region *near,
                       const struct pst_export *from, struct pst_region *far);
  /* Undo region_import(), while the memory of `near` is open and no copy uses `far`. */
  void (*region_release)(const struct pst_host *host, struct pst_region *far);
};

/* Log an error where it is decided; its value is the code that the call returns. */
#define PST_REFUSE(host, code, ...) ((host)->log((host), PST_LOG_ERROR, __VA_ARGS__), (code))

/* ---- Probe ------------------------------------------------------------- */

/* Filled by probe(). */
struct pst_probe {
  uint32_t struct_size;
  uint32_t reserved;
  void *context; /* pass to device() */
  /* Report one usable device: the name that the option `device` takes, and a
   * line about it (address, speed, driver). */
  void (*device)(void *context, const char *name, const char *detail);
  char reason[256]; /* why not usable here */
  char remedy[256]; /* what to do about it */
};

/* ---- The exported symbols ----------------------------------------------- */

/* Data behind the symbol that PST_DESCRIPTION() exports: the author's description, and its size. */
struct pst_described {
  uint32_t struct_size; /* of *description */
  uint32_t reserved;
  const struct pst_description *description;
};

struct pst_plugin {
  uint32_t struct_size;
  uint32_t reserved;
  const struct pst_described *described; /* its pst_description_v1 */

  /* Can this plugin work on this machine? Leaves no process-wide state behind:
   * no EAL, no CUDA context, no signal handler. 0, or -errno with `reason` and
   * `remedy`; logs nothing. Any thread; may block for up to a second. */
  int (*probe)(const struct pst_host *host, struct pst_probe *probe);

  const void *ops; /* by kind: struct pst_transport_ops or struct pst_memory_ops */
};

#ifdef __cplusplus
#define PST_PLUGIN_EXTERN extern "C" PST_EXPORT
#else
#define PST_PLUGIN_EXTERN PST_EXPORT
#endif

extern PST_EXPORT const struct pst_plugin pst_plugin_v1;
extern PST_EXPORT const struct pst_described pst_description_v1;

/* In options.c, behind a `static const struct pst_description` whose members are set by their
 * names. Members that are left out are 0 or NULL. */
#define PST_DESCRIPTION(description_)                                                              \
  PST_PLUGIN_EXTERN const struct pst_described pst_description_v1 = {sizeof(description_), 0,      \
                                                                     &(description_)}

/* In the plugin: the entry. */
#define PST_PLUGIN(probe_, ops_)                                                                   \
  PST_PLUGIN_EXTERN const struct pst_plugin pst_plugin_v1 = {                                      \
      sizeof(struct pst_plugin), 0, &pst_description_v1, (probe_), (ops_)}

#ifdef __cplusplus
}
#endif
#endif
