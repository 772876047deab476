/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint of verbs/support.h with a connection of verbs_rc. */
#ifndef TEST_VERBS_RC_SUPPORT_H
#define TEST_VERBS_RC_SUPPORT_H

#include "connection.h"
#include "multi_qp.h"

#include "../verbs/support.h"

extern struct rc_connection connection;

/* As start_support(), and connected; stop_support() ends it. */
void start_connection(uint32_t lanes);

#endif
