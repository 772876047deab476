/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin ucx, and its description. */
#include "described.h"

#include <string.h>

static const char *const failure_choices[] = {"auto", "ucx", "own", NULL};

#define OPTION(name_, type_, scope_, value, what)                                                  \
  .name = name_, .type = PST_OPTION_##type_, .scope = scope_, .default_value = value, .help = what

static const struct pst_option options[] = {
    {
        OPTION("tls", STRING, PST_SCOPE_DEVICE, NULL,
               "Transports that UCX may use, as its variable UCX_TLS has them: posix,cma or tcp "
               "for instance. Empty: what the environment says, else all. `ucx_info -d` lists "
               "them."),
        .max = 255,
    },
    {
        OPTION("net_devices", STRING, PST_SCOPE_DEVICE, NULL,
               "Network devices that UCX may use, as its variable UCX_NET_DEVICES has them: eth0 "
               "or mlx5_0:1 for instance. Empty: what the environment says, else all."),
        .max = 255,
    },
    {
        OPTION("ucx", LIST, PST_SCOPE_DEVICE, NULL,
               "Options of UCX by the names of its variables, without their UCX_: "
               "{MAX_RNDV_RAILS: 2, TLS: \"tcp,self\"} for instance, or a list of NAME=VALUE. They "
               "come before `tls`, `net_devices` and the environment. `ucx_info -cf` lists them."),
        .flags = PST_OPTION_PAIRS,
    },
    {
        OPTION("peer_failure", ENUM, PST_SCOPE_STREAM, "auto",
               "Who notices that a peer has died. `ucx`: UCX, which then uses no shared memory. "
               "`own`: each end watches the other's process by a pidfd; both are on one host. "
               "`auto`: own where both ends are on one host and have shared memory, else ucx."),
        .choices = failure_choices,
    },
    {
        OPTION("part", SIZE, PST_SCOPE_DEVICE, "0",
               "Longest active message: small messages are put together up to it, and long ones "
               "cut. `0`: what UCX's lane sends in one piece, and 64 KiB over TCP."),
        .max = UINT64_C(1) << 24,
    },
    {
        OPTION("rendezvous_from", SIZE, PST_SCOPE_DEVICE, "0",
               "Messages from this size on are fetched by the receiver, straight into its slot. "
               "`0`: 64 KiB where the kernel or a device fetches (cma, xpmem, knem, RDMA), else "
               "none is."),
        .max = UINT64_C(1) << 30,
    },
    {
        OPTION("direct_from", SIZE, PST_SCOPE_DEVICE, "0",
               "Streams of messages from this size on go straight into a GPU, or out of one, by "
               "rendezvous. Shorter ones are staged. `0`: 1 MiB where UCX has RDMA here, else all "
               "are staged: UCX's own copies between host and GPU are far slower than core's. "
               "Between GPUs of one host 1 MiB is best."),
        .max = UINT64_C(1) << 30,
    },
    {
        OPTION("linger", DURATION, PST_SCOPE_DEVICE, "2 s",
               "How long the end of a run waits for peers that live and take nothing, so that they "
               "hear of it. A peer that is not told hears from the control channel alone."),
        .max = UINT64_C(60000000000),
    },
};

static void check_options(const struct pst_check *check, struct pst_facts *facts)
{
  const char *item;

  for (uint32_t i = 0; (item = check->option_item(check->options, "ucx", i)); i++) {
    const char *equals = strchr(item, '=');
    if (!equals || equals == item || equals - item > 90)
      check->report(
          check, "ucx",
          "'%s' is not NAME=VALUE, as TLS=tcp is; a mapping, as {TLS: \"tcp,self\"}, takes values "
          "with commas",
          item);
  }
  facts->message_max = UCX_MESSAGE_MAX;
  facts->slots_max = UCX_SLOTS_MAX;
  facts->lacks = ~(uint64_t)UCX_CAPABILITIES;
}

/* UCX's constructors patch the C library and take signals, unless these say not to. */
static const char *const environment[] = {"UCX_MEM_EVENTS=n", "UCX_HANDLE_ERRORS=none",
                                          "UCX_DEBUG_SIGNO=0", NULL};

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "ucx",
    .version = "0.1.0",
    .summary = "UCX's networks: shared memory, TCP, RDMA, NVLink, by active messages and puts",
    .needs = "UCX 1.13 or later (Debian: libucx0)",
    .rung = "kernel: UCX's posix, cma and tcp; ninja -C build test (suite contract)",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = check_options,
    .environment = environment,
};
PST_DESCRIPTION(description);
