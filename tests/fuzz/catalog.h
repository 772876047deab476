/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins' descriptions without plugins: the real tables of loopback and host, and
 * made-up ones that have every type and scope of option. */
#ifndef FUZZ_CATALOG_H
#define FUZZ_CATALOG_H

#include "config/config.h"

extern const struct config_catalog fuzz_catalog;

#endif
