/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen() of a file whose constructors see variables, and change nothing for good. */
#ifndef PST_LOADER_CONSTRUCTORS_H
#define PST_LOADER_CONSTRUCTORS_H

#include <stdbool.h>

#include <penstock/plugin.h>

#define LOADER_VARIABLES_MAX 64  /* that a description names */
#define LOADER_VARIABLE_BYTES 64 /* a variable's name */

/* Effects of a plugin's constructors, for the log; "" for none. */
struct constructors_effects {
  char set[512], kept[512]; /* variables that were set, and those that the process had */
  char restored[1024];      /* signals whose handling they had changed */
};

/* dlopen(file), for good and with local symbols. Constructors see `environment` ("NAME=value", NULL
 * at the end; NULL: none) where the process has no such variable. Afterwards these variables are
 * gone, and each signal is handled as before, whether the file could be opened or not. Another
 * thread may call getenv() meanwhile, but change neither the environment nor the handling of a
 * signal. 0; -ENOMEM; -ELIBBAD: dlerror() says why. */
int constructors_dlopen(const char *file, const char *const *environment, void **handle,
                        struct constructors_effects *said);
/* Returns the environment that a description (NULL: none) names; at least the NULL. */
const char *const *environment_of(const struct pst_description *description);
bool environment_equal(const char *const *a, const char *const *b);

#endif
