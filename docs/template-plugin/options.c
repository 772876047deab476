/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the plugin that need no vendor's library. */
#include <penstock/plugin.h>

static const struct pst_option options[] = {{.name = "limit",
                                             .help = "The most bytes of one region; 0: no bound.",
                                             .default_value = "0",
                                             .type = PST_OPTION_SIZE,
                                             .scope = PST_SCOPE_DEVICE}};

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "template",
    .version = "1.0",
    .summary = "Ordinary memory, to begin a plugin with",
    .rung = "hardware (any machine)",
    .options = options,
    .option_count = 1,
};
PST_DESCRIPTION(description);
