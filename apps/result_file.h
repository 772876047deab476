/* SPDX-License-Identifier: Apache-2.0 */
/* The FILE of --json, which at no time holds another run's result. */
#ifndef APP_RESULT_FILE_H
#define APP_RESULT_FILE_H

#include "arguments.h"

struct json_object;

/* Replaces FILE by a result that is not ok and whose state is "running". "-", a device or a FIFO
 * gets the last result alone. 0, or -errno, which is said. */
int app_result_begin(const struct command *command, const struct arguments *arguments);
/* From here on the second signal writes a result, too, by a thread. app_result_begin() calls this,
 * except for commands that fork first. 0, or -errno. */
int app_result_watch(void);
/* `add` gives that result what the command alone knows, as far as it is known without what other
 * threads use; NULL: nothing. It may be called until a result is written. */
void app_result_interrupted(void (*add)(void *context, struct json_object *result), void *context);
/* Finishes the result, writes it to `path` and frees it. The exit status, made worse where standard
 * output or the result could not be written. result NULL: there was no memory for one. */
int app_result_conclude(struct json_object *result, const char *path, int exit_status);
/* Writes the result of a command that wrote none. Returns 0, or -errno, reported. */
int app_result_end(int exit_status);

#endif
