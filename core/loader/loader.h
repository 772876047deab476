/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, checks and opens plugins. One loader a process; any thread; calls are
 * serialised inside. */
#ifndef PST_LOADER_LOADER_H
#define PST_LOADER_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/memory.h>
#include <penstock/penstock.h>
#include <penstock/transport.h>

struct config_catalog;

/* A plugin that was opened and passed all checks. Lives for the process's life. */
struct loader_plugin {
  uint32_t kind;
  const char *name;
  const char *path; /* real path */
  const struct pst_description *description;
  const struct pst_plugin *plugin;
  const struct pst_host *host; /* this plugin's */
  /* The plugin's ops laid over a table in which every call answers -EOPNOTSUPP
   * (release, poll and post too), so that nobody tests pointers. By kind, the
   * other is NULL. */
  const struct pst_transport_ops *transport;
  const struct pst_memory_ops *memory;
};

/* Load by kind and name, once; later calls give the same. On failure *error says
 * where was looked, every rejected candidate of that name with its reason, and
 * the nearest name there is. -ENOENT (exit status 2: no such name anywhere, 3:
 * described but not built here), or what the check said (3). */
int loader_load(uint32_t kind, const char *name, const struct loader_plugin **plugin,
                struct pst_error *error);
/* The catalog for config_load_*(): descriptions from the .desc.so, else from the plugin. */
const struct config_catalog *loader_catalog(void);
/* Vendor libraries bound by a loaded plugin: real paths, NULL-terminated; those
 * it was linked with and those it got by host->library_open. */
const char *const *loader_libraries(const struct loader_plugin *plugin);
/* Before close() of a plugin's device or memory: all its deferred works have run. */
void loader_defer_drain(const struct loader_plugin *plugin);
/* Registers the plugin that a pst_memory belongs to, for the host's services for regions. 0 or
 * -ENOMEM. */
int loader_memory_add(struct pst_memory *memory, const struct pst_memory_ops *ops);
/* Takes back loader_memory_add(), before the memory is closed. */
void loader_memory_remove(struct pst_memory *memory);

#endif
