/* SPDX-License-Identifier: Apache-2.0 */
#ifndef APP_REMEDY_H
#define APP_REMEDY_H

/* What a user can do where a folder cannot be opened, or a file not be made in it; behind a "; ".
 * code: an errno. */
const char *remedy_of_folder(int code);

#endif
