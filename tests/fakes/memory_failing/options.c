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
        .name = "blind",
        .help = "`true`: says that the CPU cannot touch the memory, so that it is staged.",
        .default_value = "false",
        .type = PST_OPTION_BOOL,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
};

PST_DESCRIPTION(PST_KIND_MEMORY, "failing", "0.1.0",
                "Heap memory of which one operation fails, and which hides what was not flushed",
                "", "simulated: heap memory", options, sizeof(options) / sizeof(options[0]));
