/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that several units of a session share. */
#ifndef PST_STREAM_LIMITS_H
#define PST_STREAM_LIMITS_H

#define SESSION_POLL_BATCH 128 /* completions that a poll of a transport asks for */
/* Messages of one copy and of one check: each costs a device the same, be they few or many. */
#define SESSION_DEVICE_BATCH 4096
#define SESSION_COUNTERS_MAX 128 /* of one endpoint */
#define SESSION_DROPS_MAX 16     /* causes; as in struct pst_stats */
#define SENDER_PARAMS_MAX 14     /* the application's; the rest of CONTROL_PARAMS_MAX is ours */
#define CACHE_LINE 64

#endif
