/* SPDX-License-Identifier: Apache-2.0 */
/* Do two paths name one file? */
#ifndef APP_SAME_FILE_H
#define APP_SAME_FILE_H

#include <stdbool.h>

/* By device and inode where both exist, else by folder and name: a file that is still to be made
 * has these alone. False for character devices such as /dev/null, which many may use. */
bool same_file(const char *one, const char *other);
/* Is `path` the file that is written as `written`, or the part of it that a cut leaves there? */
bool same_file_written(const char *path, const char *written);
/* Does a file `path` lie in `folder`, or in a folder below it? */
bool same_file_below(const char *path, const char *folder);

#endif
