/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin verbs_dc, and its description. */
#include "described.h"

#include "../verbs/path_options.h"

static const char *const relaxed_choices[] = VB_RELAXED_CHOICES;

static const struct pst_option options[] = {
    VB_DEVICE_OPTIONS,
    {
        VB_OPTION("initiators", UINT, "16"),
        .help = "Send queues (DCI) of a worker, which all its peers share. This is how many "
                "peers a worker can send to at a time. A peer that does not answer holds one "
                "for timeout * (retry_cnt + 1).",
        .min = 1,
        .max = 1024,
    },
    {
        VB_OPTION("quota", UINT, "64"),
        .help = "Requests after which a peer gives its initiator back, if other peers wait for "
                "one.",
        .min = 1,
        .max = 65535,
    },
    {
        VB_OPTION("streams", BOOL, "true"),
        .help = "Use DCI streams where the device has them. After an error only the stream is "
                "reset, not the whole initiator, and several silent peers are probed at a time.",
    },
    VB_PATH_OPTIONS,
    VB_RELAXED_OPTION,
    {
        VB_OPTION("keepalive", DURATION, "1 s"),
        .help = "Silence after which a peer is probed. A peer that is gone is noticed after "
                "keepalive + timeout * (retry_cnt + 1), 5.3 s by default, also when there are "
                "no messages to send. `0`: no probes.",
    },
    {
        VB_OPTION("first_sequence", UINT, "0"),
        .help = "The number that message 0 has in packets; near 2^16 and 2^64 numbers wrap.",
        .flags = PST_OPTION_TESTING,
    },
};

static void dc_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->message_max = VB_BYTES_MAX;
  facts->slots_max = VB_SLOTS_MAX;
  facts->lacks = ~(uint64_t)DC_CAPABILITIES;
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "verbs_dc",
    .version = "0.1.0",
    .summary = "RDMA by dynamically connected queue pairs: one pool of send queues for all peers",
    .needs = "a ConnectX-4 or later, and libibverbs with mlx5",
    .rung = "simulated: subprojects/simverbs; ninja -C build test (suite contract)",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = dc_options_check,
    .wire = "verbs-dc",
};
PST_DESCRIPTION(description);
