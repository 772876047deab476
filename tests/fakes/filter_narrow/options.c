/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

#define OPTION(name_, type_, default_, help_)                                                      \
  {                                                                                                \
    .name = name_, .help = help_, .default_value = default_, .type = type_,                        \
    .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING                                         \
  }

static const struct pst_option options[] = {
    OPTION("rma_max", PST_OPTION_SIZE, "0", "Bytes of one READ or WRITE. 0: the transport's."),
    OPTION("requests", PST_OPTION_UINT, "0", "Requests under way. 0: the transport's."),
    OPTION("late", PST_OPTION_UINT, "0", "Polls that a one-sided request waits for."),
    OPTION("twice", PST_OPTION_UINT, "0", "Which one-sided completion is told twice. 0: none."),
    OPTION("write", PST_OPTION_BOOL, "true", "Have WRITE."),
    OPTION("read", PST_OPTION_BOOL, "true", "Have READ."),
    OPTION("atomic", PST_OPTION_BOOL, "true", "Have atomics."),
    OPTION("device", PST_OPTION_BOOL, "true", "Reach memory that the CPU cannot touch."),
};

PST_DESCRIPTION(PST_KIND_FILTER, "narrow", "0.1.0",
                "Moves less at once, and later, than the transport it wraps", "",
                "hardware: any machine; it wraps whatever transport there is", options,
                sizeof(options) / sizeof(options[0]));
