/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines and error reports of core. The function that decides an error calls
 * pst_log or pst_fail, once; callers pass the code on. */
#ifndef PST_UTIL_LOG_H
#define PST_UTIL_LOG_H

#include <stdbool.h>

#include <penstock/penstock.h>

/* Logs a line. Keeps errno. Any thread. */
void pst_log(int level, const char *format, ...) PST_PRINTF(2, 3);
bool pst_log_enabled(int level);

/* The last error line that this thread has logged, for results; "" if there is none. */
const char *pst_log_last_error(void);
void pst_log_clear_error(void);

/* Error lines of this thread begin with "place: " (a file's line and column), as `find` says for
 * each line, until it is called with NULL; the text outlives that. Forgets the last error. */
void pst_log_place(const char *(*find)(const void *context, const char *line), const void *context);
/* As pst_fail(), with the error that this thread has logged since pst_log_place():
 * it is not logged again. -ENOENT: there was none. */
int pst_fail_said(struct pst_error *error, int exit_status, int code);

/* Log at error level and, when error is not NULL, fill it (several calls append
 * lines; code and exit status are the first call's). Returns code. */
int pst_fail(struct pst_error *error, int exit_status, int code, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
