/* SPDX-License-Identifier: Apache-2.0 */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("fail", STRING, "", "The operation that fails with EIO; empty: none."),
    FAKE_OPTION("nth", UINT, "1", "Which call of it fails, from 1.", .min = 1),
    FAKE_OPTION("blind", BOOL, "false",
                "`true`: says that the CPU cannot touch the memory, so that it is staged."),
};

PST_DESCRIPTION(PST_KIND_MEMORY, "failing", "0.1.0",
                "Heap memory of which one operation fails, and which hides what was not flushed",
                "", "simulated: heap memory", options, sizeof(options) / sizeof(options[0]));
