/* SPDX-License-Identifier: Apache-2.0 */
/* The check() of a plugin's description, asked about option values. */
#ifndef PST_CONFIG_ASK_H
#define PST_CONFIG_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/plugin.h>

/* Whoever asks: `report` is called for each finding, with the option's name and the text. */
struct ask {
  uint32_t side;  /* PST_SCOPE_SENDER or PST_SCOPE_RECEIVER */
  uint32_t flags; /* enum pst_check_flag */
  void (*report)(void *context, const char *option, const char *text);
  void *context;
};

/* Adds what the plugin knows to *facts: the least of each limit, and all that is lacked. Nothing
 * where the description has no check(). */
void ask_plugin(const struct ask *ask, const struct pst_description *description,
                const struct pst_options *options, struct pst_facts *facts);

#endif
