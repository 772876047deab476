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
               "Transports that UCX may use, in the form of UCX_TLS, as in posix,cma or tcp. "
               "Empty: UCX_TLS of the environment; without that, all. `ucx_info -d` lists "
               "them."),
        .max = 255,
    },
    {
        OPTION("net_devices", STRING, PST_SCOPE_DEVICE, NULL,
               "Network devices that UCX may use, in the form of UCX_NET_DEVICES, as in eth0 "
               "or mlx5_0:1. Empty: UCX_NET_DEVICES of the environment; without that, all."),
        .max = 255,
    },
    {
        OPTION("ucx", LIST, PST_SCOPE_DEVICE, NULL,
               "Settings of UCX, by the names of its variables without UCX_, as in "
               "{MAX_RNDV_RAILS: 2, TLS: \"tcp,self\"}, or as a list of NAME=VALUE. They take "
               "precedence over `tls`, `net_devices` and the environment. `ucx_info -cf` "
               "lists them."),
        .flags = PST_OPTION_PAIRS,
    },
    {
        OPTION("peer_failure", ENUM, PST_SCOPE_STREAM, "auto",
               "How the death of a peer is noticed. `ucx`: by UCX, which then uses no shared "
               "memory. `own`: each end watches the other's process by a pidfd; both must be "
               "on one host. `auto`: `own` where both ends are on one host and have shared "
               "memory, otherwise `ucx`."),
        .choices = failure_choices,
    },
    {
        OPTION("part", SIZE, PST_SCOPE_DEVICE, "0",
               "The most bytes of an active message of UCX. Short messages are joined up to "
               "this size, and long ones are cut. `0`: what UCX sends in one piece; 64 KiB "
               "over TCP."),
        .max = UINT64_C(1) << 24,
    },
    {
        OPTION("rendezvous_from", SIZE, PST_SCOPE_DEVICE, "0",
               "The receiver fetches messages of at least this size straight into its slot. "
               "`0`: 64 KiB where the kernel or a device can fetch (cma, xpmem, knem, RDMA), "
               "otherwise never."),
        .max = UINT64_C(1) << 30,
    },
    {
        OPTION(
            "direct_from", SIZE, PST_SCOPE_DEVICE, "0",
            "Streams with messages of at least this size go straight into or out of a GPU, "
            "by rendezvous. Streams with shorter messages are staged. `0`: 1 MiB where UCX "
            "has RDMA; without RDMA all are staged, since Penstock copies between host and GPU much faster than UCX. Between GPUs of one host set 1 MiB."),
        .max = UINT64_C(1) << 30,
    },
    {
        OPTION(
            "linger", DURATION, PST_SCOPE_DEVICE, "2 s",
            "How long the end of a run waits for live peers that take nothing, to send "
            "them a farewell. A peer that does not get the farewell learns of the end only by the control channel."),
        .max = UINT64_C(60000000000),
    },
};

static void ucx_options_check(const struct pst_check *check, struct pst_facts *facts)
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
    .check = ucx_options_check,
    .environment = environment,
};
PST_DESCRIPTION(description);
