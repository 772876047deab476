/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says to people: lines on stderr, whole ones, from any thread. */
#ifndef APP_NOTICE_H
#define APP_NOTICE_H

#include <penstock/penstock.h>

/* Lines above this level (enum pst_log_level) are not written. */
void notice_level(int level);

/* One line without newline. */
void notice(int level, const char *format, ...) PST_PRINTF(2, 3);
/* One that --quiet does not silence. */
void notice_always(int level, const char *format, ...) PST_PRINTF(2, 3);

/* Report an error and note it in *error (may be NULL): code and exit status are
 * the first call's, the text gathers all lines. Returns code. */
int notice_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
