/* SPDX-License-Identifier: Apache-2.0 */
/* What run, send and receive would refuse for the file's sake, before anything is opened. */
#ifndef APP_PREFLIGHT_H
#define APP_PREFLIGHT_H

#include <stdint.h>

#include <penstock/penstock.h>

#include "arguments.h"

/* `roles`: enum pst_session_role bits; `command`: of those roles. Reports every finding with its
 * place. 0, or the code in *error. Leaves no file behind, and opens none that is not regular. */
int preflight(const struct pst_config *config, uint32_t roles, const char *command,
              const struct arguments *arguments, struct pst_error *error);
/* The same of what no two ends can make good, whichever commands open them: two sinks that are one
 * file, and values of one end that no command takes. */
int preflight_any(const struct pst_config *config, const struct arguments *arguments,
                  struct pst_error *error);

#endif
