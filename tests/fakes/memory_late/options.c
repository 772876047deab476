/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin memory_late, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("delay", DURATION, "200 us",
                "How long after its submission a batch is done at the earliest.",
                .max = UINT64_C(60000000000)),
    FAKE_OPTION("room", UINT, "0",
                "Pieces of a queue that are under way, at most, unless they are of one batch; 0: "
                "not limited."),
    FAKE_OPTION("fail", STRING, "",
                "The operation that fails: fence_record, with ENOMEM; verify_rows or "
                "verify_result, with EIO; copy_rows, with EAGAIN; empty: none."),
    FAKE_OPTION("nth", UINT, "1", "Which call of it fails, from 1.", .min = 1),
    FAKE_OPTION("rate", SIZE, "0",
                "Bytes a second that a queue moves; 0: as fast as the CPU copies."),
};

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "late",
    .version = "1.0",
    .summary = "Memory for tests that the CPU cannot touch and whose work is done late",
    .rung = "simulated: it behaves as a GPU's memory does, in host memory",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
