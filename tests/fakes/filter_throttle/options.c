/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

static const struct pst_option options[] = {
    {
        .name = "rate",
        .help = "Messages per second that post takes on each endpoint; beyond that it takes none "
                "and says that the queue is full. 0: no bound.",
        .default_value = "100000",
        .max = 1000000000,
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
};

PST_DESCRIPTION(PST_KIND_FILTER, "throttle", "0.1.0",
                "Slows the sending side of any transport down", "",
                "hardware: any machine; it wraps whatever transport there is", options,
                sizeof(options) / sizeof(options[0]));
