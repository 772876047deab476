/* SPDX-License-Identifier: Apache-2.0 */
/* The services of struct pst_host, one table a plugin. */
#include "host.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/memory-util.h>

#include "config/options.h"
#include "constructors.h"
#include "defer.h"
#include "loader.h"
#include "util/clock.h"
#include "util/log.h"

/* Replaced as a whole when it grows, so that readers need no lock. */
struct libraries {
  size_t count;
  const char *paths[]; /* NULL-terminated */
};

struct host {
  struct pst_host table; /* first: a plugin holds a pointer to it */
  const char *label;
  pthread_mutex_t mutex; /* of what follows */
  struct arena arena;
  struct libraries *libraries;
  struct defer *defer;
};

static struct host *host_of(const struct pst_host *table)
{
  return (struct host *)(uintptr_t)table;
}

static void host_log(const struct pst_host *table, int level, const char *format, ...)
{
  int saved = errno;
  char text[4000];
  va_list args;

  if (level <= PST_LOG_ERROR || pst_log_enabled(level)) {
    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
      text[0] = '\0';
    va_end(args);
    pst_log(level, "%s: %s", host_of(table)->label, text);
  }
  errno = saved;
}

static uint64_t host_clock_ns(const struct pst_host *table)
{
  (void)table;
  return clock_now_ns();
}

static int host_defer(const struct pst_host *table, const void *key, void (*run)(void *arg),
                      void *arg)
{
  return defer_add(host_of(table)->defer, key, run, arg);
}

void loader_defer_drain(const struct loader_plugin *plugin)
{
  defer_drain(host_of(plugin->host)->defer);
}

static int host_library_keep(struct host *host, const char *path)
{
  const struct libraries *old = host->libraries;
  struct libraries *libraries;

  for (size_t i = 0; i < old->count; i++)
    if (strcmp(old->paths[i], path) == 0)
      return 0;
  path = arena_string(&host->arena, path);
  libraries =
      arena_alloc(&host->arena, sizeof(*libraries) + (old->count + 2) * sizeof(*libraries->paths));
  if (!path || !libraries)
    return -ENOMEM;
  memcpy(libraries->paths, old->paths, old->count * sizeof(*old->paths));
  libraries->paths[old->count] = path;
  libraries->count = old->count + 1;
  host->libraries = libraries;
  return 0;
}

int host_library_add(const struct pst_host *table, void *handle)
{
  struct host *host = host_of(table);
  struct link_map *map;
  char path[PATH_MAX];
  int rc;

  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map->l_name || !*map->l_name)
    return -ENOENT;
  if (!realpath(map->l_name, path))
    return -errno;
  pthread_mutex_lock(&host->mutex);
  rc = host_library_keep(host, path);
  pthread_mutex_unlock(&host->mutex);
  return rc;
}

static int host_library_open(const struct pst_host *table, const char *soname, void **handle)
{
  struct host *host = host_of(table);
  struct constructors_effects said;
  int saved = errno;
  void *library;

  /* dlopen() takes no name for the program itself. */
  if (!soname || !*soname)
    return -ENOENT;
  if (constructors_dlopen(soname, NULL, &library, &said) < 0) {
    const char *text = dlerror();

    pst_log(PST_LOG_DEBUG, "%s: %s is not there: %s", host->label, soname, text ? text : "");
    errno = saved;
    return -ENOENT;
  }
  if (said.restored[0])
    pst_log(PST_LOG_DEBUG, "%s: opening %s changed the handling of signals; restored: %s",
            host->label, soname, said.restored);
  if (host_library_add(table, library) < 0)
    pst_log(PST_LOG_DEBUG, "%s: the real path of %s is not known", host->label, soname);
  errno = saved;
  *handle = library;
  return 0;
}

const char *const *loader_libraries(const struct loader_plugin *plugin)
{
  struct host *host = host_of(plugin->host);
  const char *const *paths;

  pthread_mutex_lock(&host->mutex);
  paths = host->libraries->paths;
  pthread_mutex_unlock(&host->mutex);
  return paths;
}

struct memory_entry {
  struct memory_entry *next;
  struct pst_memory *memory;
  const struct pst_memory_ops *ops;
};

/* Held during exports and imports: a memory is then not closed under them, and they run one at a
 * time. */
static pthread_mutex_t memories_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory_entry *memories;

int loader_memory_add(struct pst_memory *memory, const struct pst_memory_ops *ops)
{
  struct memory_entry *entry = malloc(sizeof(*entry));

  if (!entry)
    return -ENOMEM;
  pthread_mutex_lock(&memories_mutex);
  *entry = (struct memory_entry){.next = memories, .memory = memory, .ops = ops};
  memories = entry;
  pthread_mutex_unlock(&memories_mutex);
  return 0;
}

void loader_memory_remove(struct pst_memory *memory)
{
  pthread_mutex_lock(&memories_mutex);
  for (struct memory_entry **at = &memories; *at; at = &(*at)->next) {
    struct memory_entry *entry = *at;

    if (entry->memory == memory) {
      *at = entry->next;
      free(entry);
      break;
    }
  }
  pthread_mutex_unlock(&memories_mutex);
}

/* The mutex is held. */
static const struct pst_memory_ops *host_ops_of(const struct pst_region *region)
{
  for (const struct memory_entry *entry = memories; entry; entry = entry->next)
    if (region->memory && entry->memory == region->memory)
      return entry->ops;
  return NULL;
}

static int host_region_export(const struct pst_host *table, const struct pst_region *region,
                              uint32_t kind, uint64_t offset, uint64_t length,
                              struct pst_export *out)
{
  const struct pst_memory_ops *ops;
  int rc = -EOPNOTSUPP;

  (void)table;
  if (!pst_export_kind_is_known(kind))
    return -EINVAL;
  if (!(region->exports & kind))
    return -EOPNOTSUPP;
  pthread_mutex_lock(&memories_mutex);
  ops = host_ops_of(region);
  if (ops)
    rc = ops->export_region(region->memory, region, kind, offset, length, out);
  pthread_mutex_unlock(&memories_mutex);
  return rc;
}

static const struct pst_memory_ops *host_region_memory(const struct pst_host *table,
                                                       const struct pst_region *region)
{
  const struct pst_memory_ops *ops;

  (void)table;
  pthread_mutex_lock(&memories_mutex);
  ops = host_ops_of(region);
  pthread_mutex_unlock(&memories_mutex);
  return ops;
}

static int host_region_import(const struct pst_host *table, const struct pst_region *near,
                              const struct pst_export *from, struct pst_region *far)
{
  const struct pst_memory_ops *ops;
  int rc = -EOPNOTSUPP;

  (void)table;
  pthread_mutex_lock(&memories_mutex);
  ops = host_ops_of(near);
  if (ops)
    rc = ops->import_region(near->memory, from, far);
  pthread_mutex_unlock(&memories_mutex);
  return rc;
}

static void host_region_release(const struct pst_host *table, struct pst_region *far)
{
  const struct pst_memory_ops *ops;

  (void)table;
  pthread_mutex_lock(&memories_mutex);
  ops = host_ops_of(far);
  if (ops)
    ops->free_region(far->memory, far);
  pthread_mutex_unlock(&memories_mutex);
}

const struct pst_host *host_new(const char *label)
{
  struct host *host = calloc(1, sizeof(*host));

  if (!host)
    return NULL;
  host->libraries =
      arena_alloc(&host->arena, sizeof(*host->libraries) + sizeof(*host->libraries->paths));
  host->label = arena_string(&host->arena, label);
  host->defer = host->arena.no_memory ? NULL : defer_new(host->label);
  if (!host->defer) {
    arena_free(&host->arena);
    free(host);
    return NULL;
  }
  pthread_mutex_init(&host->mutex, NULL);
  host->table = (struct pst_host){
      .struct_size = sizeof(host->table),
      .log = host_log,
      .clock_ns = host_clock_ns,
      .defer = host_defer,
      .library_open = host_library_open,
      .option_uint = options_get_uint,
      .option_string = options_get_string,
      .option_item = options_get_item,
      .option_is_set = options_is_set,
      .region_export = host_region_export,
      .region_memory = host_region_memory,
      .region_import = host_region_import,
      .region_release = host_region_release,
  };
  return &host->table;
}
