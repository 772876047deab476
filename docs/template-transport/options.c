/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the plugin that need no vendor's library. */
#include <penstock/plugin.h>

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "template",
    .version = "1.0",
    .summary = "By copy within a process",
    .rung = "hardware (any machine)",
};
PST_DESCRIPTION(description);
