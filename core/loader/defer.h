/* SPDX-License-Identifier: Apache-2.0 */
/* Works of plugins that may block, on threads of their own. */
#ifndef PST_LOADER_DEFER_H
#define PST_LOADER_DEFER_H

#define LOADER_DEFER_THREADS 8 /* works of a plugin that run side by side */

struct defer;
/* label: as host_new(), whose it stays. NULL: no memory. Lives as long as the process. */
struct defer *defer_new(const char *label);
int defer_add(struct defer *defer, const void *key, void (*run)(void *arg), void *arg);
/* Wait until all have run, those that works add meanwhile too. At once in a work itself. */
void defer_drain(struct defer *defer);

#endif
