/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every Penstock plugin has in common: the exported symbol, the
 * description, the option table, and the services the host hands in.
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
 * Growth. So that the ABI can grow from 1.0 on, structs that cross by themselves
 * begin with `struct_size` and are read up to the smaller of both sizes: what
 * the writer did not have reads as zero. The writer of an out-struct writes no
 * more than the `struct_size` that its owner put there. pst_struct_read() and
 * pst_struct_write() keep these rules. Array elements carry no size, and their
 * reserved fields are zero. Unknown opcodes, flags, and non-zero reserved fields
 * are refused with -EINVAL, never ignored; so is a plugin with an option of
 * unknown type, scope or flag. A capability bit that the host does not know
 * stays unused.
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

/* A struct that begins with struct_size, as this side knows it: what `from` does not
 * have is zero. to->struct_size becomes how much of
 * *to was there, so that *to may be handed on. */
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

/* Fill an out-struct with no more than its owner has room for, by the struct_size
 * that he put there and that stays. */
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

/* Options that do not go together, as far as it can be told without a device:
 * where `option` is `value`, `needs` must be `needed`; the flags turn either around.
 * {.option = "qps", .value = "1", .needs = "operation", .needed = "write",
 * .flags = PST_RULE_UNLESS}: more than one queue pair has only WRITE. A default takes part like a
 * value that was written, and the defaults keep all rules. What a configuration breaks is a finding
 * of `penstock check`, with file, line and column, and exit status 2 (-EINVAL from
 * pst_config_parse()); none of the plugin's calls is made with it, so that open() need not look
 * again. A rule between options of different sides (one of the sender's, one of the receiver's
 * alone) never applies. An array element: its size is frozen. */
struct pst_option_rule {
  const char *option; /* both are in the plugin's table, no LIST, and not the same */
  const char *value;  /* as it would stand in YAML; a STRING left out is "" */
  const char *needs;
  const char *needed;
  const char *because; /* whole clause, for the message; NULL: it goes without saying */
  uint32_t flags;      /* enum pst_option_rule_flag */
  uint32_t reserved[5];
};
PST_STATIC_ASSERT(sizeof(struct pst_option_rule) == 64, "frozen");

/* The option values of one plugin at one place, checked against its table and
 * its rules, and with defaults filled in. Read through the host's getters. Valid for the call
 * it is passed to, strings got from it included. */
struct pst_options;

enum pst_check_flag {
  /* The peer is not Penstock (`control: none`): the options alone say where and what it is. */
  PST_CHECK_FOREIGN = 1u << 0,
  /* This process will open this end: what a file may leave out for the other end's sake has to
   * be there. Without the flag only what is written is judged. */
  PST_CHECK_OPENS = 1u << 1,
  /* With PST_CHECK_OPENS: the other end will be in another process. */
  PST_CHECK_APART = 1u << 2,
};

/* One end of a stream, or its memory, as the configuration has it, for the check() of a
 * description. The getters are those of struct pst_host. */
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
  /* Report what is wrong with an option of the table, and what would be right, in one line
   * without the option's name. Any number of times. The host adds file, line and column. */
  void (*report)(const struct pst_check *check, const char *option, const char *format, ...)
      PST_PRINTF(3, 4);
};

enum pst_facts_flag {
  /* Messages arrive with metadata of the protocol's own, as RTP's timestamps are. */
  PST_FACTS_PROTOCOL_META = 1u << 0,
  /* Ends that all say so may have the same `takes`. */
  PST_FACTS_SHARES = 1u << 1,
};

/* What check() knows of a device that is opened with these options, whichever device it is. */
struct pst_facts {
  uint32_t struct_size;
  uint32_t flags;       /* enum pst_facts_flag */
  uint64_t message_max; /* as in struct pst_limits; 0: not known without the device */
  uint64_t slots_max;   /* the same */
  uint64_t lacks;       /* capabilities (enum pst_transport_capability) that no such device has */
  /* A memory's kinds of NORMAL regions: 1 << each enum pst_memory_kind; 0: not known. */
  uint32_t memory_kinds;
  /* Of a memory: what none of its NORMAL regions has (enum pst_memory_need). */
  uint32_t memory_lacks;
  /* Of a transport or filter, at this end: what memory has to have (enum pst_memory_need) so that
   * any such device places messages there itself, or sends from there. */
  uint32_t direct_needs;
  /* Of a transport, at this end: what one endpoint of a host alone can have, the whole before the
   * part, "UDP port 5004 of IPv4/192.0.2.1" for instance, and the option that says so. No two ends
   * in a process may have the same, nor one a part of what the other has. "": nothing. */
  char takes[80];
  const char *takes_option;
  /* Of a transport, in one process: the only place where a receiver hears its sender, or where a
   * sender sends, and the option that says so. Those of a stream must be the same. "": not known.
   */
  char meets[64];
  const char *meets_option;
  /* Of a transport, in one process: what both ends of a stream must have alike, the address family
   * for instance ("IPv4"), and the option that says so. "": not known. */
  char equals[16];
  const char *equals_option;
};

/* What can be known of a plugin without its vendor libraries. It lives in a
 * source file of its own (`options.c`) that is built into the plugin and, by
 * itself, into a description `<kind>-<name>.desc.so` beside it, so that a
 * machine without the vendor's library can still check a configuration.
 * PST_DESCRIPTION() exports it, and its size. */
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

  /* NULL: there is nothing to say. What neither the table nor a rule can say about
   * option values: addresses, names, numbers that depend on one another. It judges values alone
   * and asks nothing of the machine, so that the answer is the same on any host; a device that is
   * missing is open()'s to report, with another errno than -EINVAL. Whatever open() or
   * endpoint_open() would refuse with -EINVAL for the values' sake is reported here. Called once
   * or more for each end of a stream, before open(); *facts is zero but for its size. Any
   * thread; never blocks. */
  void (*check)(const struct pst_check *check, struct pst_facts *facts);

  /* "NAME=value", at most 64 of them, NULL at the end; NULL: none. For libraries that
   * change the process from their constructors: these variables stand in the environment while the
   * host opens the plugin and what it is linked with, those that the user has set as the user set
   * them. They are gone before probe(): what a library reads later, the plugin says by the
   * library's own calls. The host reads the list from the description beside the plugin, since the
   * plugin's own is not there before; without that file, or with one of another list, the plugin is
   * refused. Handlers of signals need no variable: the host puts back what a constructor changed.
   */
  const char *const *environment;

  /* A transport names the form of what it sends, control blobs included: "verbs-rc" for
   * instance. [a-z][a-z0-9-]*, at most 31 bytes; NULL: the plugin's name. Transports of one
   * wire form talk to each other: two ends compare it, and those STREAM options that both
   * transports have. NULL for a filter, which keeps the form of what it wraps. */
  const char *wire;
};

/* ---- Host services ----------------------------------------------------- */

struct pst_region;     /* memory.h */
struct pst_export;     /* memory.h */
struct pst_memory_ops; /* memory.h */

/* Handed to probe() and open(); one per plugin and valid for the process's
 * life. All services may be called from any thread unless they say otherwise. */
struct pst_host {
  uint32_t struct_size;
  uint32_t reserved;

  /* Log one line, without a trailing newline. The host adds plugin and level.
   * Never called per message. Keeps errno. */
  void (*log)(const struct pst_host *host, int level, const char *format, ...) PST_PRINTF(3, 4);

  /* CLOCK_MONOTONIC, nanoseconds. */
  uint64_t (*clock_ns)(const struct pst_host *host);

  /* Run work(arg) soon on a thread of the host's, for what may block (name
   * lookup, address handles, vendor calls that sleep). The result surfaces in a
   * later poll(): the work stores it where poll() looks, and wakes the worker's
   * event fd. Works of one key run one after the other, in order. Works of different
   * keys, endpoints for instance, run side by side, at most 8 of a plugin at a time. A key is
   * compared and never followed; NULL is one. Not serialised with
   * device calls. All have run before worker_close() and close().
   * 0, or -ENOMEM. */
  int (*defer)(const struct pst_host *host, const void *key, void (*work)(void *arg), void *arg);

  /* Bind a vendor library at run time, RTLD_NOW | RTLD_LOCAL, and record its
   * real path for the run's result. It stays loaded. A signal whose handling its
   * constructors change is handled as before when this returns.
   * 0 and a dlopen handle, or -ENOENT: not logged, since absence may be fine. */
  int (*library_open)(const struct pst_host *host, const char *soname, void **handle);

  /* Option getters. A name that is not in the table is a bug of the plugin: it
   * is logged, and zero or "" comes back.
   * option_uint serves BOOL, UINT, SIZE, DURATION, RATE, and ENUM (index). */
  uint64_t (*option_uint)(const struct pst_options *options, const char *name);
  const char *(*option_string)(const struct pst_options *options, const char *name);
  /* LIST: element `index`, or NULL past the end. */
  const char *(*option_item)(const struct pst_options *options, const char *name, uint32_t index);
  /* 1 when the user wrote it, 0 when it is the default. */
  int (*option_is_set)(const struct pst_options *options, const char *name);

  /* Transports: export [offset, offset + length) of a region by way of its
   * memory plugin, as memory.h's export_region says. The descriptor in *out is
   * the caller's to close. 0; -EOPNOTSUPP: the region has no such export;
   * otherwise the memory plugin's error, logged by it. May block; not from
   * poll() or post(). */
  int (*region_export)(const struct pst_host *host, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);

  /* For transports that have memory copied by its own plugin, where the CPU cannot. */

  /* The operations of a region's memory plugin; what it lacks is -EOPNOTSUPP. A transport
   * reads `capabilities` and calls those of queues and fences (queue_open(region->memory, …),
   * queue_close, copy_rows, queue_poll, fence_*), on the thread that has the queue; the
   * others are the host's. Valid while the region is. NULL: it is of no memory plugin's.
   * Never blocks. */
  const struct pst_memory_ops *(*region_memory)(const struct pst_host *host,
                                                const struct pst_region *region);
  /* Import what a peer's region_export gave, or this process's, by way of the memory of
   * `near`, as memory.h's import_region says; copies between the two are that memory's. The
   * caller sets far->struct_size. 0; -EOPNOTSUPP: `near` is of no memory plugin's, or of one
   * that does not import this kind; otherwise the memory plugin's error, logged by it. May
   * block for milliseconds; not from poll() or post(). */
  int (*region_import)(const struct pst_host *host, const struct pst_region *near,
                       const struct pst_export *from, struct pst_region *far);
  /* Undo region_import(), while the memory of `near` is open. No copy uses it any more. */
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

/* What PST_DESCRIPTION() makes: the author's description, and its size. */
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
 * names. What is left out is 0 or NULL. */
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
