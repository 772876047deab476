/* SPDX-License-Identifier: Apache-2.0 */
/* Memory plugins, opened once for each set of options. */
#ifndef PST_ENGINE_MEMORY_H
#define PST_ENGINE_MEMORY_H

#include <penstock/memory.h>

#include "engine.h"

struct engine_memory {
  const struct loader_plugin *plugin;
  const struct pst_options *options;
  struct pst_memory *memory;
};

/* The memory of this plugin with these options: one that is open already, or a new one. */
int engine_memory_open(struct engine *engine, const struct config_plugin *config,
                       struct engine_memory **memory, struct pst_error *error);
void engine_memory_close(struct engine_memory *memory);

#endif
