/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

static const struct pst_option options[] = {
    {
        .name = "delay",
        .help = "How long after its submission a batch is done at the earliest.",
        .default_value = "200 us",
        .max = UINT64_C(60000000000),
        .type = PST_OPTION_DURATION,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "room",
        .help = "Pieces of a queue that are under way, at most, unless they are of one batch; 0: "
                "not limited.",
        .default_value = "0",
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
    {
        .name = "fail",
        .help = "The operation that fails: fence_record, with ENOMEM; verify_batch or "
                "verify_result, with EIO; empty: none.",
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
        .name = "rate",
        .help = "Bytes a second that a queue moves; 0: as fast as the CPU copies.",
        .default_value = "0",
        .type = PST_OPTION_SIZE,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
};

PST_DESCRIPTION(PST_KIND_MEMORY, "late", "1.0",
                "Memory for tests that the CPU cannot touch and whose work is done late", "",
                "simulated: it behaves as a GPU's memory does, in host memory", options,
                sizeof(options) / sizeof(options[0]));
