/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin memory_failing, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("fail", STRING, "", "The operation that fails with EIO; empty: none."),
    FAKE_OPTION("nth", UINT, "1", "Which call of it fails, from 1.", .min = 1),
    FAKE_OPTION("blind", BOOL, "false",
                "`true`: says that the CPU cannot touch the memory, so that it is staged."),
    FAKE_OPTION("mapped", BOOL, "false",
                "`true`: says that it is host memory that a device sees by a mapping."),
};

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "failing",
    .version = "0.1.0",
    .summary = "Heap memory of which one operation fails, and which hides what was not flushed",
    .rung = "simulated: heap memory",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
