/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin share, and its description. */
#include <penstock/share-protocol.h>

static const struct pst_option options[] = {
    {
        .name = "socket",
        .help = "Path of the Unix socket of a running `penstock share`, the router. The router's "
                "transport carries the messages; its options are set at the router.",
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
        .max = 107,
        .flags = PST_OPTION_REQUIRED,
    },
    {
        .name = "router_uid",
        .help =
            "Number of the user that the router runs as. Needed if that is neither root nor this "
            "program's user, since the router can read and write this program's memory.",
        .type = PST_OPTION_UINT,
        .scope = PST_SCOPE_DEVICE,
        .max = 4294967294,
    },
    {
        .name = "token",
        .help = "Path of a file whose first line is a token, 16 to 63 bytes, by which the router "
                "knows this program; see `--limits` of `penstock share`. No other user may read "
                "the file.",
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
        .max = 4095,
    },
    {
        .name = "wait",
        .help = "How long to wait for a router that has not started yet, or is restarting. 0: do "
                "not wait.",
        .default_value = "0",
        .type = PST_OPTION_DURATION,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "reconnect",
        .help =
            "If the router ends: how long a running stream waits for it to serve again, and then "
            "for its peer to connect again. Messages under way when a router ends are lost and "
            "counted as router_restarted. Both ends need this option. 0: the stream ends with its "
            "router.",
        .default_value = "0",
        .type = PST_OPTION_DURATION,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "timeout",
        .help = "How long to wait for an answer of the router before it counts as ended.",
        .default_value = "30 s",
        .type = PST_OPTION_DURATION,
        .scope = PST_SCOPE_DEVICE,
        .min = 1000000,
    },
};

static void share_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->lacks = PST_CAP_LEND | PST_CAP_BARE_RING | PST_CAP_FOREIGN;
  facts->direct_needs = PST_NEED_EXPORT_FD;
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "share",
    .version = "0.1.0",
    .summary = "Through `penstock share`, a process of this host that owns the adapter; needs no "
               "device and no privilege itself",
    .needs = "a running `penstock share`, and permission to connect to its socket",
    .rung =
        "hardware over loopback, with an H200's memory too; kernel over udp and soft-RoCE; simulated "
        "for a GPU's memory over RDMA; meson test -C build e2e-share",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = share_options_check,
};
PST_DESCRIPTION(description);
