/* SPDX-License-Identifier: Apache-2.0 */
/* A router whose transport is this file's: it registers, opens and takes everything. */
#ifndef TEST_SHARE_SUPPORT_H
#define TEST_SHARE_SUPPORT_H

#include "share/worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { REGIONS = 4, ENDPOINTS = 4, WORKERS = 2, BYTES = 1 << 20 };

extern struct pst_share router;
extern const struct pst_transport_ops fake_ops;
/* Registrations of the transport that are open. */
extern _Atomic int registered;

/* For setup and teardown of a test. The teardown asserts that nothing of any client is left. */
int router_begin(void **state);
int router_end(void **state);

#endif
