/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_moving, and its description. */
#include "../option.h"

static const struct pst_option options[] = {
    FAKE_OPTION("every", UINT, "0", "Messages after which an endpoint moves. 0: never."),
    FAKE_OPTION("early", BOOL, "false", "Move once before anybody has connected, too."),
    FAKE_OPTION("late", UINT, "0", "Polls that connecting again takes."),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "moving",
    .version = "0.1.0",
    .summary = "Gives endpoints another address now and then, as a lost DCT does",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
