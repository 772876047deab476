/* SPDX-License-Identifier: Apache-2.0 */
/* ^C, SIGTERM and SIGHUP: the first asks for an orderly end, a second one ends the program at
 * once with 130, but for SIGHUP: a terminal that closes may send several. */
#ifndef APP_SIGNALS_H
#define APP_SIGNALS_H

#include <stdbool.h>

#include <penstock/penstock.h>

#define SIGNALS_EXIT 130

/* Install the handlers. event_fd is written to at each signal. Writing to a closed
 * pipe or over a size limit becomes an error of the write. */
int app_signals_open(int event_fd);
/* The second signal writes to event_fd, whose reader ends the program with SIGNALS_EXIT; a third
 * ends it at once. Signals of this process alone, not of its children. */
void app_signals_last(int event_fd);
/* Sets the session whose threads a signal wakes; NULL: none. */
void app_signals_session(struct pst_session *session);
/* Whether a signal has asked to stop. */
bool app_signals_stop(void);
/* The name of the first signal that came. */
const char *app_signals_name(void);

#endif
