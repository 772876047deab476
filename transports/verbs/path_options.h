/* SPDX-License-Identifier: Apache-2.0 */
/* The options of devices and paths, for plugins' tables. Without libibverbs: descriptions are built
 * always. */
#ifndef VERBS_PATH_OPTIONS_H
#define VERBS_PATH_OPTIONS_H

#include <penstock/plugin.h>

/* An option of the scope DEVICE; the user adds the rest of a struct pst_option. */
#define VB_OPTION(name_, type_, default_)                                                          \
  .name = name_, .type = PST_OPTION_##type_, .default_value = default_, .scope = PST_SCOPE_DEVICE

#define VB_DEVICE_OPTIONS                                                                          \
  {                                                                                                \
      VB_OPTION("device", STRING, NULL),                                                           \
      .help = "RDMA device: its verbs name (mlx5_0), netdev (eth0), an address of this host "      \
              "(192.0.2.1) or its PCI address (3b:00.0). An address or netdev chooses the "        \
              "GID, too. Empty: the device with an active port, if there is only one.",            \
      .max = 63,                                                                                   \
  },                                                                                               \
      {                                                                                            \
          VB_OPTION("port", UINT, "0"),                                                            \
          .help = "Port of the device, from 1. `0`: the first active one.",                        \
          .max = 255,                                                                              \
      },                                                                                           \
  {                                                                                                \
    VB_OPTION("gid_index", UINT, NULL),                                                            \
        .help = "Index in the port's GID table. Empty: the entry of the address or netdev in "     \
                "`device`; otherwise the first RoCE v2 entry with an IPv4 address, if there is "   \
                "one.",                                                                            \
        .max = 255,                                                                                \
  }

/* The choices are VB_RELAXED_CHOICES. */
#define VB_RELAXED_OPTION                                                                          \
  {                                                                                                \
    VB_OPTION("relaxed_ordering", ENUM, "auto"),                                                   \
        .help = "Let the device's writes into memory overtake one another "                        \
                "(IBV_ACCESS_RELAXED_ORDERING), which some hosts need for full speed. `auto`: "    \
                "in rings and in memory that no peer writes to, but not in ranges that are "       \
                "offered to peers for WRITEs or atomics. `true`: everywhere. `false`: nowhere. "   \
                "In any case a message is reported only after all its bytes are in memory.",       \
        .choices = relaxed_choices,                                                                \
  }

#define VB_RELAXED_CHOICES                                                                         \
  {                                                                                                \
    [VB_RELAXED_AUTO] = "auto", [VB_RELAXED_NEVER] = "false", [VB_RELAXED_ALWAYS] = "true", NULL   \
  }

#define VB_PATH_OPTIONS                                                                            \
  {                                                                                                \
      VB_OPTION("mtu", UINT, "0"),                                                                 \
      .help = "Largest payload of a packet in bytes: 256, 512, 1024, 2048 or 4096. Other "         \
              "numbers are rounded down, at least to 256. `0`: the MTU of the port. Both "         \
              "ends use the smaller of their two values.",                                         \
      .max = 4096,                                                                                 \
  },                                                                                               \
      {                                                                                            \
          VB_OPTION("hop_limit", UINT, "64"),                                                      \
          .help = "IP hop limit (routers + 1). `connection: rdma_cm` uses the route's (`ip "       \
                  "route`) unless this is set.",                                                   \
          .min = 1,                                                                                \
          .max = 255,                                                                              \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("traffic_class", UINT, "0"),                                                   \
          .help = "Traffic class of the packets. For RoCE this is the DSCP times 4, as in 104 "    \
                  "for DSCP 26.",                                                                  \
          .max = 255,                                                                              \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("service_level", UINT, "0"),                                                   \
          .help = "InfiniBand's service level; RoCE: the VLAN's priority.",                        \
          .max = 15,                                                                               \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("pkey_index", UINT, "0"),                                                      \
          .help = "Entry of the port's P_Key table: the InfiniBand partition.",                    \
          .max = 65535,                                                                            \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("timeout", UINT, "17"),                                                        \
          .help = "How long the device waits for an answer before it sends again: 4.096 us times " \
                  "2 to the power of this. 14 is 67 ms, 17 is 537 ms, 18 is 1.07 s. Devices may "  \
                  "take up to four times as long. A peer that no longer answers is noticed after " \
                  "timeout * (retry_cnt + 1). That is 4.3 s by default, longer than a link takes " \
                  "to retrain or a switch to fail over. On soft-RoCE the default is 14. With "     \
                  "`connection: exchange` the start may take one timeout, if the first hello "     \
                  "comes before the other end is ready.",                                          \
          .min = 1,                                                                                \
          .max = 31,                                                                               \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("retry_cnt", UINT, "7"),                                                       \
          .help = "How often the device sends a packet again: 7 means 8 tries in all. On "         \
                  "soft-RoCE 7 means for ever, and the default is 6.",                             \
          .max = 7,                                                                                \
      },                                                                                           \
      {                                                                                            \
          VB_OPTION("rnr_retry", UINT, "7"),                                                       \
          .help = "How often the device tries again at a peer that has no receive posted, each "   \
                  "time after the peer's `min_rnr_timer`. With the default of that timer, 6 "      \
                  "tries take 6 times 0.64 ms: 3.8 ms. `7`: for ever.",                            \
          .max = 7,                                                                                \
      },                                                                                           \
  {                                                                                                \
    VB_OPTION("min_rnr_timer", UINT, "12"),                                                        \
        .help = "How long a peer waits after it found no receive posted, as a code of the "        \
                "InfiniBand specification: 12 is 0.64 ms, 16 is 2.56 ms, 18 is 5.12 ms, and 0 "    \
                "is 655 ms.",                                                                      \
        .max = 31,                                                                                 \
  }

#endif
