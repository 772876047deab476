/* SPDX-License-Identifier: Apache-2.0 */
/* Names of plugins and of their files, and texts that live as long as the process. */
#ifndef PST_LOADER_PLUGIN_NAMES_H
#define PST_LOADER_PLUGIN_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOADER_NAME_BYTES 32

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

#endif
