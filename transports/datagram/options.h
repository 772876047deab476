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
            "IPv4 or IPv6. `auto`: the family of the address in `device`, `to` or `group`; "       \
            "without an address, IPv4."),                                                          \
      DG_CHOICE("framing", PST_SCOPE_STREAM, "sequence", dg_framing_choices,                       \
                "The header before each payload. `sequence`: 8 bytes, a 32-bit sequence number "   \
                "and a checksum, as in the sample programs of Rivermax. `rtp`: RFC 3550, with "    \
                "16-bit sequence numbers, timestamps, and the markers that `assemble: {by: "       \
                "rtp_marker}` needs. Penstock senders add a nonce: 8 bytes, or an RTP "            \
                "extension of 12. `none`: no header and no sequence numbers; the losses of a "     \
                "foreign sender are unknown."),                                                    \
      DG_SWITCH("authenticate", PST_SCOPE_STREAM, "false",                                         \
                "A tag of 16 bytes in each datagram (AES-128-GMAC) proves its sender and covers "  \
                "header and payload. Forged, changed and replayed datagrams are dropped. The "     \
                "control channel carries the random key, and needs `tls` beyond loopback. No "     \
                "`checksum` is sent with the tag. Not with `framing: none`."),                     \
      DG_NUMBER("clock_rate", UINT, PST_SCOPE_STREAM, "90000", 1, 1000000000,                      \
                "`rtp`: ticks of the RTP timestamp in a second (90000 for video, the sampling "    \
                "rate for audio)."),                                                               \
      DG_NUMBER("port", UINT, PST_SCOPE_RECEIVER, "0", 0, 65535,                                   \
                "UDP port to receive on. `0`: a free port, which a Penstock sender learns by "     \
                "the control channel."),                                                           \
      DG_TEXT("group", PST_SCOPE_RECEIVER, 63,                                                     \
              "Multicast group to join (IGMPv3, MLDv2) on the interface of `device`, as in "       \
              "239.1.2.3 or ff15::1."),                                                            \
      DG_TEXT("source", PST_SCOPE_RECEIVER, 63,                                                    \
              "Address of the sender whose messages are received. With `group` only this "         \
              "source is joined. Empty: the Penstock sender; from a foreign sender that of "       \
              "the first message, or with `framing: none` any address."),                          \
      DG_TEXT("to", PST_SCOPE_SENDER, 95,                                                          \
              "Address and port of a receiver without Penstock, as in 192.0.2.7:5004 or "          \
              "[2001:db8::7]:5004, or of a multicast group. For a Penstock receiver: an "          \
              "address alone, to choose one of the receiver's."),                                  \
      DG_NUMBER("source_port", UINT, PST_SCOPE_SENDER, "0", 0, 65535,                              \
                "UDP port to send from. `0`: a free one is chosen."),                              \
      DG_NUMBER("ttl", UINT, PST_SCOPE_SENDER, "0", 0, 255,                                        \
                "IP time to live (hop limit over IPv6) of sent packets, also of multicast. "       \
                "`0`: the system's default, which is 1 for multicast."),                           \
      DG_NUMBER("dscp", UINT, PST_SCOPE_SENDER, "0", 0, 63,                                        \
                "Differentiated services codepoint (DSCP) of sent packets (RFC 2474)."),           \
      DG_SWITCH("checksum", PST_SCOPE_DEVICE | DG_BOTH, "true",                                    \
                "`sequence`: the sender computes a checksum of each payload, and the receiver "    \
                "drops messages whose checksum differs. `false`: the sender sends 0, and the "     \
                "receiver does not compare."),                                                     \
      DG_NUMBER("ssrc", UINT, DG_BOTH, "0", 0, UINT32_MAX,                                         \
                "`rtp`: synchronisation source. The sender sends this SSRC, and the receiver "     \
                "accepts only this one. `0`: the sender chooses at random; a receiver with a "     \
                "foreign sender accepts that of the first message."),                              \
      DG_NUMBER("payload_type", UINT, DG_BOTH, "128", 0, 128,                                      \
                "`rtp`: payload type, 0 to 127. The sender sends this type, and the receiver "     \
                "accepts only this type. `128`: the sender sends 96, and the receiver accepts "    \
                "any."),                                                                           \
      DG_NUMBER("frame", UINT, PST_SCOPE_SENDER, "0", 0, UINT32_MAX,                               \
                "`rtp`: messages in a frame. All messages of a frame have one timestamp, at "      \
                "least one tick after that of the previous frame, and the last message has the "   \
                "marker. `0`: no markers; messages sent in one tick have one timestamp."),         \
      DG_NUMBER("reorder", UINT, PST_SCOPE_RECEIVER, "1024", 1, 65536,                             \
                "How many messages late a message may be. A foreign sender whose numbers go "      \
                "back further counts as restarted. At most 32767 with `rtp`.")

/* Rules for options that need room in a header: RTP's, or, for `authenticate`, any. */
#define DG_RULES                                                                                   \
  DG_RTP_ALONE("ssrc", "0"), DG_RTP_ALONE("payload_type", "128"), DG_RTP_ALONE("frame", "0"),      \
  {                                                                                                \
    .option = "authenticate", .value = "true", .needs = "framing", .needed = "none",               \
    .because = "a datagram without a header has no place for a tag", .flags = PST_RULE_OTHER       \
  }
#define DG_RTP_ALONE(option_, left_out)                                                            \
  {                                                                                                \
    .option = option_, .value = left_out, .needs = "framing", .needed = "rtp",                     \
    .flags = PST_RULE_UNLESS                                                                       \
  }

#endif
