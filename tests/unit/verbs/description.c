/* SPDX-License-Identifier: Apache-2.0 */
/* The description that fake_host asks for. The parts of verbs are no plugin and read no options. */
#include <penstock/plugin.h>

static const struct pst_description description = {.kind = PST_KIND_TRANSPORT, .name = "verbs"};
PST_DESCRIPTION(description);
