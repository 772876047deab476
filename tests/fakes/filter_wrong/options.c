/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_wrong, and its description. */
#include <penstock/plugin.h>

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "wrong",
    .version = "0.1.0",
    .summary = "Breaks the contract in one way of several",
    .needs = "the environment variable WRONG, which says how",
    .rung = "hardware: any machine",
};
PST_DESCRIPTION(description);
