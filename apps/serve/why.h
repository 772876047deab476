/* SPDX-License-Identifier: Apache-2.0 */
/* Why a name below a root cannot be used, and what helps: the same words at both ends. */
#ifndef APP_SERVE_WHY_H
#define APP_SERVE_WHY_H

#include <stdbool.h>

#include "wire.h"

#define WHY_BYTES (SERVE_TEXT_MAX + 1)

enum why_use {
  WHY_READ,   /* root_open_file(), root_open_folder() */
  WHY_CREATE, /* part_open() */
  WHY_FOLDER, /* root_make_folder() */
};

/* code: -errno of these functions. at_server: whose root it is. */
void why_refused(enum why_use use, int code, const char *name, bool at_server,
                 char text[WHY_BYTES]);

#endif
