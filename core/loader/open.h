/* SPDX-License-Identifier: Apache-2.0 */
/* Opens candidates, and keeps what was opened. */
#ifndef PST_LOADER_OPEN_H
#define PST_LOADER_OPEN_H

#include <stdint.h>

#include "loader.h"
#include "reason.h"

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
