/* SPDX-License-Identifier: Apache-2.0 */
/* What the loader's files share. A candidate goes through search (is there a
 * file?), trust (who can change it?), inspect (can it be opened at all?), open (dlopen, whose
 * symbol?), check (does it keep the contract?) and ops (fill the gaps). */
#ifndef PST_LOADER_INTERNAL_H
#define PST_LOADER_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/arena.h"
#include "loader.h"

#define LOADER_NAME_BYTES 32
#define LOADER_VARIABLES_MAX 64  /* that a description names */
#define LOADER_VARIABLE_BYTES 64 /* a variable's name */

/* Why a candidate was rejected: one line, "path: reason; remedy". */
struct loader_reason {
  const char *path; /* while it is tried */
  int code;
  char line[1536];
};

/* Fills *why, returns code. */
int loader_reject(struct loader_reason *why, int code, const char *format, ...) PST_PRINTF(3, 4);

/* ---- names.c ---- */

/* Why no plugin could be looked for. */
void loader_search_failed(int code, char *text, size_t size);

const char *loader_kind_name(uint32_t kind); /* NULL: no such kind */
bool loader_name_ok(const char *name);       /* [a-z][a-z0-9_]*, at most 31 bytes */
/* Take a file's name apart. False: not named as a plugin or a description is. */
bool loader_file_parse(const char *file, uint32_t *kind, char name[LOADER_NAME_BYTES],
                       bool *is_description);
/* A string that lives as long as the process; the same text gives the same
 * pointer. NULL: no memory. The loader's lock is held. */
const char *loader_intern(const char *text);

/* ---- search.c ---- */

struct loader_folder {
  struct loader_folder *next;
  const char *path; /* as it was named */
  const char *real; /* NULL: cannot be looked into, errno in `error` */
  int error;
};

struct loader_folders {
  struct arena arena;
  struct loader_folder *first, **end;
};

/* The folders to look into, in order, each once; search_folders_free() whatever comes of it. 0,
 * -ENOMEM, or why the list of the build's cannot be read: loader_search_failed() has the words. */
int search_folders(struct loader_folders *folders);
void search_folders_free(struct loader_folders *folders);
/* The file of this library, or of the program it is linked into. */
bool search_own_file(char path[PATH_MAX]);
/* "a, b (No such file or directory)" */
void search_folders_text(const struct loader_folders *folders, char *text, size_t size);

/* Called for each file named as a plugin or a description: folder by folder, by
 * name within one. A result other than 0 ends the search and is returned. */
typedef int (*search_visit)(void *context, const char *path, uint32_t kind, const char *name,
                            bool is_description);
int search_each(const struct loader_folders *folders, search_visit visit, void *context);
/* folder/kind-name.so or .desc.so when there is such an entry; free() it. */
char *search_file(const struct loader_folder *folder, uint32_t kind, const char *name,
                  bool is_description);

/* ---- trust.c ---- */

/* Could another user change what would be loaded: -EPERM. real gets the path without links.
 * -ENOEXEC: not a file; other -errno: the path leads nowhere. */
int trust_file(const char *path, char real[PATH_MAX], struct loader_reason *why);

/* ---- inspect.c ---- */

struct inspect {
  bool is_listed;       /* its symbols could be listed */
  bool is_defined;      /* "<stem>1" among them, defined */
  uint32_t other_major; /* N of "<stem>N" where 1 is not there; 0: none */
  const char **needed;  /* libraries it is linked with, NULL-terminated; or NULL */
  struct arena arena;   /* of that */
};

/* May it be opened: is it whole, is it for this machine, which
 * major. stem: "pst_plugin_v" or "pst_description_v". */
int inspect_file(const char *real, const char *stem, struct inspect *found,
                 struct loader_reason *why);
void inspect_free(struct inspect *found);
/* -ELIBBAD: neither the file's table nor dlsym() has "<stem>1". */
int inspect_no_symbol(const char *stem, struct loader_reason *why);

/* ---- check.c ---- */

/* Until 1.0 a struct of another size is one of another ABI. */
int check_size(const char *type, uint32_t its, size_t ours, struct loader_reason *why);
int check_description(uint32_t kind, const char *name, const struct pst_described *described,
                      struct loader_reason *why);

/* ---- constructors.c ---- */

/* What constructors found and left, for the log; "" for nothing. */
struct constructors_said {
  char set[512], kept[512]; /* variables that were set, and those that the process had */
  char restored[1024];      /* signals whose handling they had changed */
};

/* dlopen(file), for good and with local symbols. Constructors see `environment` ("NAME=value", NULL
 * at the end; NULL: none) where the process has no such variable. Afterwards these variables are
 * gone, and each signal is handled as before, whether the file could be opened or not. Another
 * thread may call getenv() meanwhile, but change neither the environment nor the handling of a
 * signal. 0; -ENOMEM; -ELIBBAD: dlerror() says why. */
int constructors_dlopen(const char *file, const char *const *environment, void **handle,
                        struct constructors_said *said);
/* What a description (NULL: none) names; at least the NULL. */
const char *const *environment_of(const struct pst_description *description);
bool environment_equal(const char *const *a, const char *const *b);

/* ---- ops.c ---- */

/* Both op tables begin so; nothing but function pointers follows. */
struct ops_head {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t capabilities;
};
PST_STATIC_ASSERT(offsetof(struct pst_transport_ops, open) == sizeof(struct ops_head), "head");
PST_STATIC_ASSERT(offsetof(struct pst_memory_ops, open) == sizeof(struct ops_head), "head");

/* Are those there that a plugin must have, and those that its capabilities need? */
int ops_check(uint32_t kind, const void *ops, struct loader_reason *why);
/* A plugin's operations over a full table of refusals. */
void ops_overlay_transport(const struct pst_transport_ops *ops, struct pst_transport_ops *out);
void ops_overlay_memory(const struct pst_memory_ops *ops, struct pst_memory_ops *out);

/* ---- defer.c ---- */

#define LOADER_DEFER_THREADS 8 /* works of a plugin that run side by side */

struct defer;
/* label: as host_new(), whose it stays. NULL: no memory. Lives as long as the process. */
struct defer *defer_new(const char *label);
int defer_add(struct defer *defer, const void *key, void (*run)(void *arg), void *arg);
/* Wait until all have run, those that works add meanwhile too. At once in a work itself. */
void defer_drain(struct defer *defer);

/* ---- host.c ---- */

/* label: "transport loopback"; lives as long as the host. */
const struct pst_host *host_new(const char *label);
/* Keep the real path of a library of the plugin's. */
int host_library_add(const struct pst_host *table, void *handle);

/* ---- open.c ---- */

/* Serialises search, cache and dlopen; never held in a call to a plugin. */
void loader_lock(void);
/* Logs what was noted, once the lock is free: a sink may call in. */
void loader_unlock(void);
/* A line for loader_unlock(). The lock is held. */
void loader_note(int level, const char *format, ...) PST_PRINTF(2, 3);

/* The lock is held in each of these. */
int open_plugin(const char *path, uint32_t kind, const char *name,
                const struct loader_plugin **plugin, struct loader_reason *why);
int open_description(const char *path, uint32_t kind, const char *name,
                     const struct pst_description **description, const char **real,
                     struct loader_reason *why);
const struct loader_plugin *open_find(uint32_t kind, const char *name);

#endif
