/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin loopback, and its description. */
#include "described.h"

static const char *const mode_choices[] = {"copy", "reference", NULL};

static const struct pst_option options[] = {
    {
        .name = "mode",
        .help = "How a message gets to the receiver. `copy`: one memcpy from the sender's slot "
                "into the receiver's, within a process or between two. `reference`: the "
                "receiver uses the sender's slot itself, until the receiver releases it; both "
                "ends must be in one process.",
        .default_value = "copy",
        .choices = mode_choices,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_STREAM,
    },
};

static void lb_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  const int copies = check->option_uint(check->options, "mode") == LB_MODE_COPY;

  if (!copies && check->flags & PST_CHECK_APART)
    check->report(check, "mode",
                  "reference works within one process only; use `mode: copy`, or `penstock run`");
  facts->message_max = LB_BYTES_MAX;
  facts->slots_max = LB_SLOTS_MAX;
  facts->lacks = ~(uint64_t)LB_CAPABILITIES;
  /* Lent memory is the sender's, and only host memory is lent. */
  facts->direct_needs = copies || check->side == PST_SCOPE_RECEIVER ? PST_NEED_CPU_ACCESS : 0;
  if (check->side == PST_SCOPE_RECEIVER && check->flags & PST_CHECK_APART)
    facts->direct_needs |= PST_NEED_EXPORT_FD;
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "loopback",
    .version = "0.1.0",
    .summary = "Within one process, by copy or by reference, and between processes of one host "
               "by shared memory",
    .rung = "hardware: any machine; ninja -C build test (suite contract)",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = lb_options_check,
    .wire = "loopback-shm",
};
PST_DESCRIPTION(description);
