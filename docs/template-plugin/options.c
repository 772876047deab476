/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known of the plugin without its vendor's library. */
#include <penstock/plugin.h>

static const struct pst_option options[] = {{.name = "limit",
                                             .help = "The most bytes of one region; 0: no bound.",
                                             .default_value = "0",
                                             .type = PST_OPTION_SIZE,
                                             .scope = PST_SCOPE_DEVICE}};

PST_DESCRIPTION(PST_KIND_MEMORY, "template", "1.0", "Ordinary memory, to begin a plugin with", "",
                "hardware (any machine)", options, 1);
