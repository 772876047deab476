/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to people: whole lines on stderr, from any thread. */
#ifndef APP_NOTICE_H
#define APP_NOTICE_H

#include <stdbool.h>

#include <penstock/penstock.h>

#include "finding.h"

#define NOTICE_NONE (-1) /* as a level: nothing is written */

/* Lines above this level (enum pst_log_level) are not written. */
void app_log_level(int level);

/* One line without newline. */
void app_log(int level, const char *format, ...) PST_PRINTF(2, 3);
/* An error of what was written at `where`, NULL: nowhere. */
void app_log_error_at(const char *where, const char *format, ...) PST_PRINTF(2, 3);
/* A warning that the result lists; --quiet does not silence FINDING_NO_MAX_LOSS. where: as in a
 * finding; NULL. */
void app_log_warn(enum finding finding, const char *where, const char *format, ...)
    PST_PRINTF(3, 4);
/* Takes over the library's lines. Those above a level are not written: errors alone with -q, all
 * with -v, else as PENSTOCK_LOG says, or `level`. The result lists its warnings in any case. */
void app_log_begin(const struct arguments *arguments, int level);
/* Sets the function that keeps lines at the foot of the terminal: it is called before and after
 * each line that is written, by the thread that writes it; NULL: none. */
typedef void log_around(bool is_before);
void app_log_around(log_around *around);
/* While on, none of the library's lines is written. */
void app_log_hush(bool is_on);
/* The last line of an error that this thread has reported; "" before the first. */
const char *app_log_last_error(void);
/* Where the cause of that line was written; NULL: nowhere. */
const char *app_log_last_where(void);

/* Where in the file what app_log_fail() reports was written, until NULL: put before each line. The
 * caller's string, of one thread at a time. */
void app_log_place(const char *place);
/* Report an error and note it in *error (may be NULL): code and exit status are
 * the first call's, the text gathers all lines. Returns code. */
int app_log_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
