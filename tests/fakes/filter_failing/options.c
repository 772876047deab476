/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_failing, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("fail", STRING, "", "The operation that fails with EIO; empty: none."),
    FAKE_OPTION("says", BOOL, "false", "It logs the reason, as a plugin that refuses does."),
    FAKE_OPTION("nth", UINT, "1", "Which call of it fails, from 1.", .min = 1),
    FAKE_OPTION("endpoints", UINT, "0",
                "Endpoints of a worker, at most; 0: as many as the inner transport has."),
    FAKE_OPTION("rings", UINT, "0",
                "Rings of a device, at most; 0: as many as the inner transport has."),
    FAKE_OPTION("domains", UINT, "0",
                "Domains of a device, at most; 0: as many as the inner transport has."),
    FAKE_OPTION("device_endpoints", UINT, "0",
                "Endpoints of a device, at most; 0: as many as the inner transport has."),
    FAKE_OPTION(
        "sequence", BOOL, "true",
        "`false`: messages arrive without their numbers, as if the transport carried none."),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "failing",
    .version = "0.1.0",
    .summary = "Makes one operation of any transport fail, and watches the order of life",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
