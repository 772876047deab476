/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin filter_claiming, and its description. */
#include "../option.h"

static const char *const path_choices[] = {"own", "staged", NULL};
static const struct pst_option options[] = {
    {.name = "path",
     .help = "The path of endpoints once they are connected. own: the transport's.",
     .default_value = "own",
     .choices = path_choices,
     .type = PST_OPTION_ENUM,
     .scope = PST_SCOPE_DEVICE,
     .flags = PST_OPTION_TESTING},
    FAKE_OPTION("path_after", UINT, "0", "Messages of an endpoint before it has that path."),
    FAKE_OPTION("lends", BOOL, "false", "`true`: what is lent is a GPU's, which the CPU sees."),
    FAKE_OPTION("address_max", UINT, "0", "Bytes of an address. 0: the transport's."),
    FAKE_OPTION("remote_max", UINT, "0", "Bytes of a region's key. 0: the transport's."),
    FAKE_OPTION("loses", UINT, "0", "The first messages of each receiver, which never arrive."),
    FAKE_OPTION("endpoint_drops", UINT, "0", "How many of them the endpoint says it has dropped."),
    FAKE_OPTION("worker_drops", UINT, "0", "The same of the worker."),
    FAKE_OPTION("device_drops", UINT, "0", "The same of the device."),
};

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "claiming",
    .version = "0.1.0",
    .summary = "Says of the transport that it wraps what its options say",
    .rung = "hardware: any machine; it wraps whatever transport there is",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
};
PST_DESCRIPTION(description);
