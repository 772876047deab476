/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that one thread writes and any thread may read, each for itself. */
#ifndef PST_ENGINE_STAT_H
#define PST_ENGINE_STAT_H

#define stat_set(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)
#define stat_get(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define stat_add(field, value) stat_set(field, (field) + (value))

#endif
