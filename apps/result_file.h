/* SPDX-License-Identifier: Apache-2.0 */
/* The FILE of --json, which at no time holds another run's result. */
#ifndef APP_RESULT_FILE_H
#define APP_RESULT_FILE_H

#include "arguments.h"

/* Replaces FILE by a result that is not ok and whose state is "running", and has the second signal
 * write one too. "-", a device or a FIFO gets the last result alone. 0, or -errno, which is said.
 */
int result_begin(const struct command *command, const struct arguments *arguments);
/* Writes the result of a command that wrote none with result_write(). 0, or -errno, which is said.
 */
int result_end(int exit_status);

#endif
