/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_throttle, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("rate", UINT, "100000",
                "Messages per second that post takes on each endpoint; beyond that it takes none "
                "and says that the queue is full. 0: no bound.",
                .max = 1000000000),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "throttle",
    .version = "0.1.0",
    .summary = "Slows the sending side of any transport down",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
