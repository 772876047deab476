/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

#define OPTION(name_, type_, default_, help_)                                                      \
  {                                                                                                \
    .name = name_, .help = help_, .default_value = default_, .type = type_,                        \
    .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING                                         \
  }

static const struct pst_option options[] = {
    OPTION("every", PST_OPTION_UINT, "0", "Messages after which an endpoint moves. 0: never."),
    OPTION("early", PST_OPTION_BOOL, "false", "Move once before anybody has connected, too."),
    OPTION("late", PST_OPTION_UINT, "0", "Polls that connecting again takes."),
};

PST_DESCRIPTION(PST_KIND_FILTER, "moving", "0.1.0",
                "Gives endpoints another address now and then, as a lost DCT does", "",
                "hardware: any machine; it wraps whatever transport there is", options,
                sizeof(options) / sizeof(options[0]));
