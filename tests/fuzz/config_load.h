/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a configuration, and aborts where a promise of config.h does not hold. */
#ifndef FUZZ_CONFIG_LOAD_H
#define FUZZ_CONFIG_LOAD_H

#include <stddef.h>
#include <stdint.h>

/* Log lines go nowhere. */
void config_quiet(void);

/* Load a configuration and abort where a promise of config.h does not hold: the
 * error told, the effective text loading again with the same hash, the plugins'
 * options readable. Now and then once more with memory running out, by `number`. */
void config_try(const char *text, size_t length, const char *const *sets, size_t set_count,
                uint32_t number);

#endif
