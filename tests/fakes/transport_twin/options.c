/* SPDX-License-Identifier: Apache-2.0 */
/* Transport udp under the name twin: another plugin of the same wire form. */
#include <penstock/plugin.h>

#undef PST_DESCRIPTION
#define PST_DESCRIPTION(description_) PST_STATIC_ASSERT(sizeof(description_) > 0, "udp's")
#include "udp/options.c"

static const struct pst_description twin = {
    .kind = PST_KIND_TRANSPORT,
    .name = "twin",
    .version = "0.1.0",
    .summary = "Transport udp under another name",
    .rung = "kernel: Linux sockets",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .check = udp_options_check,
    .wire = "penstock-datagram",
};
PST_PLUGIN_EXTERN const struct pst_described pst_description_v1 = {sizeof(twin), 0, &twin};
