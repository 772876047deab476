/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin memory_wrong, and its description. */
#include <penstock/plugin.h>

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "wrong",
    .version = "0.1.0",
    .summary = "Takes the pages of a region when asked, or breaks the contract",
    .needs = "the environment variable WRONG, which says how",
    .rung = "simulated: shared memory",
};
PST_DESCRIPTION(description);
