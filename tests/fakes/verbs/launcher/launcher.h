/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCHER_H
#define LAUNCHER_H

#include "fabric/fabric.h"

/* Reads a description into a fabric that is being made: 0, or an errno after a line on stderr. */
int launcher_describe(struct fabric *f, const char *path);

/* `ctl FABRIC VERB...`: the exit status. */
int launcher_ctl(int argc, char **argv);

/* Where a fabric of this name has its file; a name with a slash is the file's. */
void launcher_path(const char *name, char *path, size_t size);

#endif
