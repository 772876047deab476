/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin verbs_rc, and its description. */
#include "described.h"

#include "../verbs/path_options.h"

static const char *const connection_choices[] = {"exchange", "rdma_cm", NULL};
static const char *const relaxed_choices[] = VB_RELAXED_CHOICES;
static const char *const ece_choices[] = {[VB_ECE_AUTO] = "auto", [VB_ECE_NEVER] = "false", NULL};
static const char *const operation_choices[] = {"write", "send", NULL};

static const struct pst_option options[] = {
    VB_DEVICE_OPTIONS,
    {
        VB_OPTION("operation", ENUM, "write"),
        .help = "The operation that carries a message. `write`: RDMA WRITE with immediate data "
                "into a slot that the sender chooses. `send`: SEND into a slot that the "
                "receiver has posted; no peer can write into the receiver's memory. Both ends "
                "need the same value. Nodes always use `write`.",
        .choices = operation_choices,
    },
    VB_PATH_OPTIONS,
    {
        VB_OPTION("connection", ENUM, "exchange"),
        .help = "How queue pairs connect. `exchange`: by addresses that the control channel "
                "carries. `rdma_cm`: by the kernel's connection manager, for RoCE only. It "
                "takes path and hop limit from the host's routes, and reports at once that a "
                "peer's process has ended. Both ends need the same value.",
        .choices = connection_choices,
    },
    {
        VB_OPTION("cm_port", UINT, "0"),
        .help = "`rdma_cm`: the port that a receiver listens at, in the kernel's RDMA port "
                "space. Worker n listens at `cm_port` + n. `0`: any free port.",
        .max = 65535,
    },
    VB_RELAXED_OPTION,
    {
        VB_OPTION("ece", ENUM, "auto"),
        .help = "Enhanced connection establishment (ECE): vendor options such as selective "
                "retransmission on mlx5. `auto`: the options that both devices have, if they "
                "are of one vendor. `false`: none.",
        .choices = ece_choices,
    },
    {
        VB_OPTION("keepalive", DURATION, "1 s"),
        .help = "Silence after which a connection is probed. A peer that is gone is noticed "
                "after keepalive + timeout * (retry_cnt + 1), 5.3 s by default, also when "
                "there are no messages to send. `0`: no probes.",
    },
    {
        VB_OPTION("reconnect", DURATION, "0"),
        .help = "How long to try to connect again after a failure; unacknowledged messages are "
                "sent again. One try takes timeout * (retry_cnt + 1), with rdma_cm up to 3 s "
                "more; allow several tries. With `connection: exchange` allow more than "
                "keepalive + timeout * (retry_cnt + 1), since an idle end notices the failure "
                "only then. Both ends need this option, and a `keepalive`. 0: fail at once.",
    },
    {
        VB_OPTION("qps", UINT, "1"),
        .help = "Queue pairs of an endpoint, for links that one queue pair cannot fill. "
                "Messages take turns on them and are delivered in order. A sender's `ring` "
                "that is smaller than the receiver's needs at least 128 slots for each queue "
                "pair. If one queue pair fails, all fail; with `reconnect` all are connected "
                "again. Both ends need the same number, and `operation: write`.",
        .min = 1,
        .max = 8,
    },
    {
        VB_OPTION("srq", BOOL, "false"),
        .help = "Share one receive queue (SRQ) among the endpoints of a worker, which saves "
                "memory where many peers send few messages each. The device must have SRQs "
                "(max_srq). Each end may choose for itself; needs `qps: 1`.",
    },
    {
        VB_OPTION("runs", BOOL, "true"),
        .help = "Send messages of one length in consecutive slots as one RDMA WRITE, up to 32 "
                "messages or 64 KiB. This takes fewer requests and completions, and up to an "
                "eighth more bytes: the gaps between messages travel, too. Both ends need this "
                "option; not with `operation: send`.",
    },
    {
        VB_OPTION("first_sequence", UINT, "0"),
        .help = "The number that message 0 has in packets; near 2^32 and 2^64 numbers wrap.",
        .flags = PST_OPTION_TESTING,
    },
};

static const struct pst_option_rule rules[] = {
    {.option = "reconnect",
     .value = "0",
     .needs = "keepalive",
     .needed = "0",
     .because = "only a keepalive shows a silent end that its connection has failed",
     .flags = PST_RULE_UNLESS | PST_RULE_OTHER},
    {.option = "qps",
     .value = "1",
     .needs = "operation",
     .needed = "write",
     .flags = PST_RULE_UNLESS},
    {.option = "qps", .value = "1", .needs = "srq", .needed = "false", .flags = PST_RULE_UNLESS},
    {.option = "cm_port",
     .value = "0",
     .needs = "connection",
     .needed = "rdma_cm",
     .because = "without rdma_cm nothing listens at a port",
     .flags = PST_RULE_UNLESS},
};

static void rc_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->message_max = VB_BYTES_MAX;
  facts->slots_max = VB_SLOTS_MAX;
  facts->lacks = ~(uint64_t)RC_CAPABILITIES;
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "verbs_rc",
    .version = "0.1.0",
    .summary = "RDMA over InfiniBand, RoCE and soft-RoCE by reliable connections",
    .needs = "an RDMA device, and libibverbs with a provider for it",
    .rung = "kernel: soft-RoCE between emulated machines; ./run test vm",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .check = rc_options_check,
    .wire = "verbs-rc",
};
PST_DESCRIPTION(description);
