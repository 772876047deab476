/* SPDX-License-Identifier: Apache-2.0 */
/* Output to standard output, and whether it got there. */
#ifndef APP_STANDARD_OUTPUT_H
#define APP_STANDARD_OUTPUT_H

/* Writes what is buffered. Returns the command's exit status: `status`, or PST_EXIT_FAILED if not
 * all could be written, which is reported once. */
int app_standard_output_end(int status);
/* Words for a write to standard output that failed with `code`, an errno. */
const char *app_standard_output_cause(int code);

#endif
