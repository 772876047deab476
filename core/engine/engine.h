/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sessions and nodes stand on: the plugins in use, and the memories and devices that were
 * opened with them. It belongs to the thread that opens and closes the session or node.
 */
#ifndef PST_ENGINE_ENGINE_H
#define PST_ENGINE_ENGINE_H

#include <errno.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "config/config.h"
#include "loader/loader.h"

#define ENGINE_LENT_MAX 256 /* regions that a transport's worker lends at a time, and one */

struct control_pair;
struct engine_memory;
struct engine_device;

struct engine {
  const struct loader_plugin **plugins;
  uint32_t plugin_count;
  struct engine_memory **memories;
  uint32_t memory_count;
  struct engine_device **devices;
  uint32_t device_count;
};

/* 0, or -ENOMEM. */
int engine_plugin_note(struct engine *engine, const struct loader_plugin *plugin);
/* Wait until all deferred works have run. */
void engine_plugins_drain(const struct engine *engine);
/* As pst_session_plugin(). */
int engine_plugin_info(const struct engine *engine, uint32_t index, struct pst_plugin_info *info);
/* For pst_log_place(), of a struct config_plugin: where the option was written that a line of its
 * plugin names, else where the plugin was. */
const char *engine_plugin_place(const void *config, const char *line);
/* The exit status of a run whose plugin opened nothing: the option makes no sense (-EINVAL), or
 * what the plugin needs is not here. */
static inline int engine_exit_status(int code)
{
  return code == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE;
}

/* Behind all workers and regions. */
void engine_close(struct engine *engine);

/* What two ends tell each other of a transport: its wire form, its name, and its options that are
 * a stream's. */
/* Append to pairs that `count` counts. Behind `max` there is no room: nothing is appended. */
void control_pair_add(struct control_pair *pairs, uint32_t *count, uint32_t max, const char *key,
                      const char *value);
/* Append to at most CONTROL_TERMS_MAX. */
void transport_terms_add(const struct config_transport *transport, struct control_pair *terms,
                         uint32_t *count);

#endif
