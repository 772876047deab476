/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_counting, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("two_sided", BOOL, "false",
                "Say TWO_SIDED, whatever the transport does: within one process, where no peer is "
                "kept out of another's memory anyway."),
    FAKE_OPTION("rings_max", UINT, "0", "Rings that the device has. 0: as many as the inner one."),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "counting",
    .version = "0.1.0",
    .summary = "Logs how many registrations and rings there are",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
