/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpenstock: what an application embeds to send and receive streams. It includes every
 * header for applications, and none for plugins.
 *
 *     pst_config_open_file("camera.yaml", NULL, 0, &config, &error);
 *     pst_session_open(config, &params, &session, &error);
 *     rx = pst_session_receiver(session, "packets");
 *     pst_session_start(session, &error);
 *     while ((n = pst_receiver_poll(rx, &batch)) >= 0) {
 *       use(batch.views, n);                       // or a kernel behind batch.ready
 *       pst_receiver_release(rx, batch.views, n);  // or pst_receiver_release_after()
 *       if (n == 0) pst_session_wait(session, pst_receiver_thread(rx), NULL);
 *     }                                            // -ENODATA: all of it was here
 *     pst_receiver_finish_wait(rx, UINT64_MAX);    // both agree on the counts
 *     pst_session_close(session);
 *
 * Peers that come and go, files and regions on demand: node.h.
 *
 * Batches everywhere: one call moves many messages, and costs no lock,
 * allocation, system call or log line per message.
 *
 * Threads. The ends of streams are spread over threads, numbered from 0, which the application
 * starts. Calls that take a pst_sender or pst_receiver come from the thread of its number. Another
 * may take a number over between two calls. An end makes progress only in calls of its thread. A
 * session has one thread of its own, for the control channel. Calls on a config or session come
 * from one thread at a time. No call blocks unless it says so.
 *
 * Growth. Structs that begin with `struct_size` grow at the end: set it to the sizeof(that) you
 * were compiled with. The first version's size, which is today's, is the least there is; less is
 * refused (-EINVAL).
 *
 * Errors. 0, a count, or -errno; where there is a struct pst_error, it has the
 * cause, the place and the remedy, and the same line has been logged.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include "config.h"
#include "node.h"
#include "pattern.h"
#include "share.h"
#include "stats.h"
#include "stream.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PST_API_VERSION "0.1.0"

/* The running library's version, "0.1.0". */
PST_EXPORT const char *pst_version(void);

/* Where log lines go; the default is stderr. Called from any thread, one line
 * without newline at a time. level: lines above it are not made. */
PST_EXPORT void pst_log_set(void (*sink)(void *context, int level, const char *line), void *context,
                            int level);
/* The level in force (enum pst_log_level): before pst_log_set() that of the environment's
 * PENSTOCK_LOG (error, warn, info, debug), else info. */
PST_EXPORT int pst_log_level(void);

#ifdef __cplusplus
}
#endif

#endif
