/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The base of sessions and nodes: the plugins in use, and the memories and devices that were
 * opened with them. It belongs to the thread that opens and closes the session or node.
 */
#ifndef PST_ENGINE_ENGINE_H
#define PST_ENGINE_ENGINE_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <penstock/memory.h>
#include <penstock/penstock.h>

#include "config/config.h"
#include "loader/loader.h"

#define ENGINE_LENT_MAX 256 /* regions that a transport's worker lends at a time, and one */

/* Appends to an array that `count` counts. 0, or -ENOMEM with nothing changed. */
#define ARRAY_APPEND(array, count, item)                                                           \
  ({                                                                                               \
    typeof(array) grown_ = realloc((array), ((count) + 1) * sizeof(*(array)));                     \
    if (grown_) {                                                                                  \
      grown_[(count)++] = (item);                                                                  \
      (array) = grown_;                                                                            \
    }                                                                                              \
    grown_ ? 0 : -ENOMEM;                                                                          \
  })

struct control_pair;
struct engine_device;
struct engine_worker;

struct engine_memory {
  const struct loader_plugin *plugin;
  const struct pst_memory_ops *ops;
  const struct pst_options *options;
  struct pst_memory *memory;
};

struct engine {
  const struct loader_plugin **plugins;
  uint32_t plugin_count;
  struct engine_memory **memories;
  uint32_t memory_count;
  struct engine_device **devices;
  uint32_t device_count;
  struct engine_worker **workers; /* their owners' */
  uint32_t worker_count;
};

/* As loader_load(); the plugin is one of those in use from then on. */
int engine_plugin_load(struct engine *engine, uint32_t kind, const char *name,
                       const struct loader_plugin **plugin, struct pst_error *error);
/* Wait until all deferred works have run. */
void engine_plugins_drain(const struct engine *engine);
/* As pst_session_plugin(). */
int engine_plugin_info(const struct engine *engine, uint32_t index, struct pst_plugin_info *info);
/* For pst_log_place(), of a struct config_plugin: where the option was written that a line of its
 * plugin names, else where the plugin was. */
const char *engine_plugin_place(const void *config, const char *line);

/* memory.c. The memory of this plugin with these options: one that is open already, or a new one.
 */
int engine_memory_open(struct engine *engine, const struct config_plugin *config,
                       struct engine_memory **memory, struct pst_error *error);
void engine_memory_close(struct engine_memory *memory);
/* As pst_memory_ops.queue_open(). */
int engine_memory_open_queue(const struct engine_memory *memory, uint32_t batches, uint32_t pieces,
                             struct pst_queue **queue);
/* NULL: nothing is open. */
void engine_memory_close_queue(const struct engine_memory *memory, struct pst_queue *queue);
/* Block until the batch of this ticket is finished: 0, or -errno of the memory. */
int engine_memory_await(const struct engine_memory *memory, struct pst_queue *queue,
                        uint64_t ticket);
/* Copy this row, and block until all of it is there. */
int engine_memory_copy(const struct engine_memory *memory, struct pst_queue *queue,
                       const struct pst_copy_row *row);

/* The exit status of a run whose plugin opened nothing: the option makes no sense (-EINVAL), or
 * what the plugin needs is not here. */
static inline int engine_exit_status(int code)
{
  return code == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE;
}

/* Behind all workers and regions. */
void engine_close(struct engine *engine);

/* Append to pairs that `count` counts. Behind `max` there is no room: nothing is appended. */
void control_pair_add(struct control_pair *pairs, uint32_t *count, uint32_t max, const char *key,
                      const char *value);
/* Append what two ends tell each other of a transport, to at most CONTROL_TERMS_MAX: its wire form,
 * its name, and its options that are a stream's. */
void transport_terms_add(const struct config_transport *transport, struct control_pair *terms,
                         uint32_t *count);

#endif
