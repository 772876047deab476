/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_departing, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("rate", UINT, "0",
                "Bits of payload in a second that times of departure must keep, one message after "
                "the other. 0: no message may have a time.",
                .max = 1000000000000),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "departing",
    .version = "0.1.0",
    .summary = "Keeps times of departure over any transport, and refuses wrong ones",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
