/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration that are the program's: `source`, `sink`, `expect`. */
#ifndef APP_SCHEMA_H
#define APP_SCHEMA_H

#include <penstock/config.h>

/* For pst_config_program(), before a configuration is opened. */
extern const struct pst_config_program app_schema_program;

#endif
