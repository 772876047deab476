/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies for errnos, in words. */
#ifndef APP_ERRNO_HINT_H
#define APP_ERRNO_HINT_H

/* Returns the remedy where a folder cannot be opened, or a file not be made in it; behind a "; ".
 * code: an errno. */
const char *app_errno_hint_folder(int code);
/* The same where a file cannot be read. */
const char *app_errno_hint_source(int code);
/* The exit status where open(2) fails: 3 where a device does not answer, as a terminal that is not
 * there, 1 where this process was interrupted or has too much open, else 2. */
int app_errno_hint_exit_status(int code);

#endif
