/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

static const struct pst_option options[] = {
    {
        .name = "fail",
        .help = "The operation that fails with EIO; empty: none.",
        .default_value = "",
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "nth",
        .help = "Which call of it fails, from 1.",
        .default_value = "1",
        .min = 1,
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "endpoints",
        .help = "Endpoints of a worker, at most; 0: as many as the inner transport has.",
        .default_value = "0",
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "rings",
        .help = "Rings of a device, at most; 0: as many as the inner transport has.",
        .default_value = "0",
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "sequence",
        .help = "`false`: messages arrive without their numbers, as if the transport carried none.",
        .default_value = "true",
        .type = PST_OPTION_BOOL,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
};

PST_DESCRIPTION(PST_KIND_FILTER, "failing", "0.1.0",
                "Makes one operation of any transport fail, and watches the order of life", "",
                "hardware: any machine; it wraps whatever transport there is", options,
                sizeof(options) / sizeof(options[0]));
