/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's page size, for plugins that align or round to it: apart from plugin.h, since
 * unistd.h declares names that a plugin may have for itself. */
#ifndef PENSTOCK_PAGE_H
#define PENSTOCK_PAGE_H

#include <stdint.h>
#include <unistd.h>

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a page of this machine: 4 KiB on some, 16 or 64 KiB on others. Mappings are in units of
 * it, and so is what a NIC registers. */
PST_INLINE uint64_t pst_page_size(void)
{
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

#ifdef __cplusplus
}
#endif

#endif
