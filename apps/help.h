/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock help KEY`: what a key of the YAML file, or an option of a plugin, takes and does. */
#ifndef APP_HELP_H
#define APP_HELP_H

#include <stddef.h>

/* Print the help of a key by its path ("streams.ring", "streams.packets.sender.rate"), of every key
 * and option of a name ("ring", "rcvbuf"), or of a plugin's options ("udp"). `commands` are names
 * that may have been meant, too. Returns the exit status; PST_EXIT_USAGE: nothing has that name. */
int app_help_key(const char *word, const char *const *commands, size_t count);

#endif
