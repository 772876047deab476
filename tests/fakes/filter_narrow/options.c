/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_narrow, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("rma_max", SIZE, "0", "Bytes of one READ or WRITE. 0: the transport's."),
    FAKE_OPTION("requests", UINT, "0", "Requests under way. 0: the transport's."),
    FAKE_OPTION("late", UINT, "0", "Polls that a one-sided request waits for."),
    FAKE_OPTION("twice", UINT, "0",
                "Number of the one-sided completion that is reported twice. 0: none."),
    FAKE_OPTION("write", BOOL, "true", "Have WRITE."),
    FAKE_OPTION("read", BOOL, "true", "Have READ."),
    FAKE_OPTION("atomic", BOOL, "true", "Have atomics."),
    FAKE_OPTION("device", BOOL, "true", "Reach memory that the CPU cannot touch."),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "narrow",
    .version = "0.1.0",
    .summary = "Moves less at once, and later, than the transport it wraps",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
