/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of every transport of datagrams, for plugins' tables. Two ends compare those of the
 * scope STREAM, so that these have one name, one order of choices and one meaning.
 */
#ifndef DATAGRAM_OPTIONS_H
#define DATAGRAM_OPTIONS_H

#include <penstock/plugin.h>

#define DG_BOTH (PST_SCOPE_SENDER | PST_SCOPE_RECEIVER)

#define DG_OPTION(name_, type_, scope_, value, what)                                               \
  .name = name_, .type = PST_OPTION_##type_, .scope = scope_, .default_value = value, .help = what
#define DG_TEXT(name, scope, longest, what)                                                        \
  {                                                                                                \
    DG_OPTION(name, STRING, scope, NULL, what), .max = longest                                     \
  }
#define DG_CHOICE(name, scope, value, names, what)                                                 \
  {                                                                                                \
    DG_OPTION(name, ENUM, scope, value, what), .choices = names                                    \
  }
#define DG_SWITCH(name, scope, value, what)                                                        \
  {                                                                                                \
    DG_OPTION(name, BOOL, scope, value, what)                                                      \
  }
#define DG_NUMBER(name, type, scope, value, least, most, what)                                     \
  {                                                                                                \
    DG_OPTION(name, type, scope, value, what), .min = least, .max = most                           \
  }

/* In the order of enum dg_framing's and the families' tables in device.c. */
static const char *const dg_framing_choices[] = {"sequence", "rtp", "none", NULL};
static const char *const dg_family_choices[] = {"auto", "ipv4", "ipv6", NULL};

#define DG_OPTIONS                                                                                 \
  DG_CHOICE("family", PST_SCOPE_DEVICE, "auto", dg_family_choices,                                 \
            "IPv4 or IPv6. `auto`: as `device`, `to` or `group` are written, else IPv4."),         \
      DG_CHOICE(                                                                                   \
          "framing", PST_SCOPE_STREAM, "sequence", dg_framing_choices,                             \
          "What stands before each payload. `sequence`: 8 bytes, a 32-bit sequence number and "    \
          "a checksum, as Rivermax's sample programs have them. `rtp`: RFC 3550, 16-bit "          \
          "sequence numbers, timestamps and markers, which `assemble: {by: rtp_marker}` needs. "   \
          "Between Penstocks a nonce is added, 8 bytes or an extension of 12. `none`: nothing; "   \
          "there are no sequence numbers, and a foreign sender's loss is unknown."),               \
      DG_NUMBER("clock_rate", UINT, PST_SCOPE_STREAM, "90000", 1, 1000000000,                      \
                "`rtp`: ticks of the RTP timestamp in a second (90000 for video, the sampling "    \
                "rate for audio)."),                                                               \
      DG_NUMBER("port", UINT, PST_SCOPE_RECEIVER, "0", 0, 65535,                                   \
                "UDP port to receive on. `0`: a free one is chosen, and a Penstock sender is "     \
                "told."),                                                                          \
      DG_TEXT("group", PST_SCOPE_RECEIVER, 63,                                                     \
              "Multicast group to join and receive (IGMPv3, MLDv2) on the interface of `device`, " \
              "239.1.2.3 or ff15::1 for instance."),                                               \
      DG_TEXT("source", PST_SCOPE_RECEIVER, 63,                                                    \
              "Address whose messages are received; with `group`, the join is for this source "    \
              "only. Empty: a Penstock sender's own; else that of the first message to arrive, "   \
              "and with framing none, any."),                                                      \
      DG_TEXT("to", PST_SCOPE_SENDER, 95,                                                          \
              "Where a receiver without Penstock listens, address and port: 192.0.2.7:5004 or "    \
              "[2001:db8::7]:5004; a multicast group, too. To a Penstock receiver, an address "    \
              "alone chooses among those that it has."),                                           \
      DG_NUMBER("source_port", UINT, PST_SCOPE_SENDER, "0", 0, 65535,                              \
                "UDP port to send from. `0`: a free one is chosen."),                              \
      DG_NUMBER("ttl", UINT, PST_SCOPE_SENDER, "0", 0, 255,                                        \
                "Routers that a packet may pass, multicast packets included. `0`: the system's "   \
                "default, which is 1 for multicast."),                                             \
      DG_NUMBER("dscp", UINT, PST_SCOPE_SENDER, "0", 0, 63,                                        \
                "Differentiated services codepoint of what is sent (RFC 2474)."),                  \
      DG_SWITCH("checksum", DG_BOTH, "true",                                                       \
                "`sequence`: the sender computes the checksum of each payload, the receiver "      \
                "refuses what differs. `false`: 0 is sent, and nothing is compared."),             \
      DG_NUMBER("ssrc", UINT, DG_BOTH, "0", 0, UINT32_MAX,                                         \
                "`rtp`: synchronisation source. The sender has this one, the receiver takes no "   \
                "other. `0`: the sender chooses at random; from a foreign sender, that of the "    \
                "first message to arrive."),                                                       \
      DG_NUMBER("payload_type", UINT, DG_BOTH, "128", 0, 128,                                      \
                "`rtp`: payload type, 0 to 127. The sender has this one, the receiver takes no "   \
                "other. `128`: the sender has 96, the receiver takes any."),                       \
      DG_NUMBER("frame", UINT, PST_SCOPE_SENDER, "0", 0, UINT32_MAX,                               \
                "`rtp`: messages of a frame. The last has the marker, and all have one "           \
                "timestamp, at least a tick later than that of the frame before. `0`: no "         \
                "markers; messages sent in the same tick have the same timestamp."),               \
      DG_NUMBER("reorder", UINT, PST_SCOPE_RECEIVER, "1024", 1, 65536,                             \
                "Largest accepted lateness of a message, in messages. A foreign sender whose "     \
                "numbers go further back has restarted. rtp has at most 32767.")

/* What only RTP's header has room for. */
#define DG_RULES                                                                                   \
  DG_RTP_ALONE("ssrc", "0"), DG_RTP_ALONE("payload_type", "128"), DG_RTP_ALONE("frame", "0")
#define DG_RTP_ALONE(option_, left_out)                                                            \
  {                                                                                                \
    .option = option_, .value = left_out, .needs = "framing", .needed = "rtp",                     \
    .flags = PST_RULE_UNLESS                                                                       \
  }

#endif
