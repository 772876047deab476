/* SPDX-License-Identifier: Apache-2.0 */
/* From the configuration to the streams of this run, with their sources and sinks. */
#ifndef APP_FLOWS_H
#define APP_FLOWS_H

#include "drive.h"

/* Which streams, and open their sources and sinks: before the session, so that
 * nothing has started when a file is wrong. */
int flows_open(struct drive *drive);
/* Give each its sender and receiver, and announce the sources. */
int flows_bind(struct drive *drive);
void flows_close(struct drive *drive);

#endif
