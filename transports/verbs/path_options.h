/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a path, for plugins' tables. Without libibverbs: descriptions are built always. */
#ifndef VERBS_PATH_OPTIONS_H
#define VERBS_PATH_OPTIONS_H

#include <penstock/plugin.h>

#define VB_PATH_OPTIONS                                                                            \
  {                                                                                                \
      .name = "mtu",                                                                               \
      .help =                                                                                      \
          "Largest packet's payload in bytes: 256, 512, 1024, 2048 or 4096; the next smaller is "  \
          "taken, or 256. 0: the ports'. Both ends use the smaller one.",                          \
      .default_value = "0",                                                                        \
      .type = PST_OPTION_UINT,                                                                     \
      .max = 4096,                                                                                 \
      .scope = PST_SCOPE_DEVICE,                                                                   \
  },                                                                                               \
      {                                                                                            \
          .name = "hop_limit",                                                                     \
          .help = "IP hop limit (routers + 1). `connection: rdma_cm` uses the route's (`ip "       \
                  "route`) unless this is set.",                                                   \
          .default_value = "64",                                                                   \
          .type = PST_OPTION_UINT,                                                                 \
          .min = 1,                                                                                \
          .max = 255,                                                                              \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "traffic_class",                                                                 \
          .help = "Traffic class of the packets; RoCE: the DSCP times 4, 104 for DSCP 26 for "     \
                  "instance.",                                                                     \
          .default_value = "0",                                                                    \
          .type = PST_OPTION_UINT,                                                                 \
          .max = 255,                                                                              \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "service_level",                                                                 \
          .help = "InfiniBand's service level; RoCE: the VLAN's priority.",                        \
          .default_value = "0",                                                                    \
          .type = PST_OPTION_UINT,                                                                 \
          .max = 15,                                                                               \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "pkey_index",                                                                    \
          .help = "Entry of the port's P_Key table: the InfiniBand partition.",                    \
          .default_value = "0",                                                                    \
          .type = PST_OPTION_UINT,                                                                 \
          .max = 65535,                                                                            \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "timeout",                                                                       \
          .help = "How long the device waits for an answer before it sends again: 4.096 us times " \
                  "2 to the power of this; 14: 67 ms, 16: 268 ms, 18: 1.07 s. Devices may round "  \
                  "up. A peer that answers no more is noticed after timeout times "                \
                  "(retry_cnt + 1): half a second by default. Connecting by exchange may take "    \
                  "one, if the first hello comes before the other end is set up.",                 \
          .default_value = "14",                                                                   \
          .type = PST_OPTION_UINT,                                                                 \
          .min = 1,                                                                                \
          .max = 31,                                                                               \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "retry_cnt",                                                                     \
          .help = "How often the device sends again; 6: 7 tries in all. soft-RoCE tries for ever " \
                  "with 7.",                                                                       \
          .default_value = "6",                                                                    \
          .type = PST_OPTION_UINT,                                                                 \
          .max = 7,                                                                                \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
      {                                                                                            \
          .name = "rnr_retry",                                                                     \
          .help =                                                                                  \
              "How often the device tries a peer that has no receive posted, each time after the " \
              "peer's min_rnr_timer; 6: 6 times 0.64 ms, 3.8 ms, with its default. 7: for ever.",  \
          .default_value = "7",                                                                    \
          .type = PST_OPTION_UINT,                                                                 \
          .max = 7,                                                                                \
          .scope = PST_SCOPE_DEVICE,                                                               \
      },                                                                                           \
  {                                                                                                \
    .name = "min_rnr_timer",                                                                       \
    .help = "How long a peer is to wait that finds no receive posted, by the specification's "     \
            "code: 12: 0.64 ms, 16: 2.56 ms, 18: 5.12 ms; 0: 655 ms.",                             \
    .default_value = "12", .type = PST_OPTION_UINT, .max = 31, .scope = PST_SCOPE_DEVICE,          \
  }

#endif
