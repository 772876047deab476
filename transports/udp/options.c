/* SPDX-License-Identifier: Apache-2.0 */
#include "described.h"

#include <stdio.h>
#include <string.h>

#include "../datagram/framing.h"

static const char *const framing_choices[] = {"sequence", "rtp", "none", NULL};
static const char *const family_choices[] = {"auto", "ipv4", "ipv6", NULL};
static const char *const time_choices[] = {"off", "software", "hardware", NULL};

#define DEVICE PST_SCOPE_DEVICE
#define STREAM PST_SCOPE_STREAM
#define SEND PST_SCOPE_SENDER
#define RECEIVE PST_SCOPE_RECEIVER
#define BOTH (PST_SCOPE_SENDER | PST_SCOPE_RECEIVER)

#define OPTION(name_, type_, scope_, value, what)                                                  \
  .name = name_, .type = PST_OPTION_##type_, .scope = scope_, .default_value = value, .help = what
#define TEXT(name, scope, longest, what)                                                           \
  {                                                                                                \
    OPTION(name, STRING, scope, NULL, what), .max = longest                                        \
  }
#define CHOICE(name, scope, value, names, what)                                                    \
  {                                                                                                \
    OPTION(name, ENUM, scope, value, what), .choices = names                                       \
  }
#define SWITCH(name, scope, value, what)                                                           \
  {                                                                                                \
    OPTION(name, BOOL, scope, value, what)                                                         \
  }
#define NUMBER(name, type, scope, value, least, most, what)                                        \
  {                                                                                                \
    OPTION(name, type, scope, value, what), .min = least, .max = most                              \
  }

static const struct pst_option options[] = {
    TEXT("device", DEVICE, 63,
         "Network interface or address of this host to send from and receive on, eth0 or "
         "192.0.2.1 for instance. any: all of this host's addresses, and the interface that the "
         "route says. Empty: a sender does as with any; a receiver is bound to the address that "
         "`control` listens on."),
    CHOICE("family", DEVICE, "auto", family_choices,
           "IPv4 or IPv6. auto: as `device`, `to` or `group` are written, else IPv4."),
    CHOICE("timestamps", DEVICE, "software", time_choices,
           "Who says when a message arrived. software: the kernel, when the driver hands it "
           "over. hardware: the network card, where it was configured to (SIOCSHWTSTAMP), else "
           "the kernel. off: nobody; jitter is then counted from when messages are polled."),
    CHOICE("framing", STREAM, "sequence", framing_choices,
           "What stands before each payload. sequence: 8 bytes, a 32-bit sequence number and a "
           "checksum, as Rivermax's sample programs have them. rtp: RFC 3550, 16-bit sequence "
           "numbers, timestamps and markers, which `assemble: {by: rtp_marker}` needs. Between "
           "Penstocks a nonce is added, 8 bytes or an extension of 12. none: nothing; there are "
           "no sequence numbers, and a foreign sender's loss is unknown."),
    NUMBER("clock_rate", UINT, STREAM, "90000", 1, 1000000000,
           "rtp: ticks of the RTP timestamp in a second (90000 for video, the sampling rate for "
           "audio)."),
    NUMBER("port", UINT, RECEIVE, "0", 0, 65535,
           "UDP port to receive on. 0: the kernel chooses, and a Penstock sender is told."),
    TEXT("group", RECEIVE, 63,
         "Multicast group to join and receive (IGMPv3, MLDv2) on the interface of `device`, "
         "239.1.2.3 or ff15::1 for instance."),
    TEXT("source", RECEIVE, 63,
         "Address whose messages are received; with `group`, the join is for this source only. "
         "Empty: a Penstock sender's own; else that of the first message to arrive, and with "
         "framing none, any."),
    TEXT("to", SEND, 95,
         "Where a receiver without Penstock listens, address and port: 192.0.2.7:5004 or "
         "[2001:db8::7]:5004; a multicast group, too. To a Penstock receiver, an address alone "
         "chooses among those that it has."),
    NUMBER("source_port", UINT, SEND, "0", 0, 65535,
           "UDP port to send from. 0: the kernel chooses."),
    NUMBER("ttl", UINT, SEND, "0", 0, 255,
           "Routers that a packet may pass, multicast packets included. 0: the system's default, "
           "which is 1 for multicast."),
    NUMBER("dscp", UINT, SEND, "0", 0, 63,
           "Differentiated services codepoint of what is sent (RFC 2474)."),
    SWITCH("dont_fragment", SEND, "false",
           "Refuse messages that are longer than the path's MTU instead of letting IP fragment "
           "them. One lost fragment loses the message."),
    NUMBER("sndbuf", SIZE, SEND, "0", 0, UINT64_C(1) << 30,
           "Size of the socket's send buffer. 0: the system's default."),
    NUMBER("rcvbuf", SIZE, RECEIVE, "16 MiB", 4096, UINT64_C(1) << 30,
           "Size of the socket's receive buffer: what may wait while the worker is busy. The "
           "kernel gives no more than net.core.rmem_max to an ordinary user."),
    SWITCH("gso", SEND, "true",
           "Hand messages of equal length to the kernel in one buffer, which it or the network "
           "card cuts (UDP_SEGMENT). What is on the wire is the same."),
    SWITCH("gro", RECEIVE, "true",
           "Let the kernel hand over messages of equal length in one buffer (UDP_GRO). It counts "
           "what it drops by such buffers: from a foreign sender with framing none, what was "
           "dropped is then known at least, not exactly."),
    NUMBER("busy_poll", DURATION, RECEIVE, "0", 0, 1000000000,
           "How long the kernel polls the network card's queue within a call that finds nothing "
           "(SO_BUSY_POLL). More than net.core.busy_read needs CAP_NET_ADMIN. 0: not at all."),
    SWITCH("checksum", BOTH, "true",
           "sequence: the sender computes the checksum of each payload, the receiver refuses "
           "what differs. false: 0 is sent, and nothing is compared."),
    NUMBER("ssrc", UINT, BOTH, "0", 0, UINT32_MAX,
           "rtp: synchronisation source. The sender has this one, the receiver takes no other. "
           "0: the sender chooses at random; from a foreign sender, that of the first message to "
           "arrive."),
    NUMBER("payload_type", UINT, BOTH, "128", 0, 128,
           "rtp: payload type, 0 to 127. The sender has this one, the receiver takes no other. "
           "128: the sender has 96, the receiver takes any."),
    NUMBER("frame", UINT, SEND, "0", 0, UINT32_MAX,
           "rtp: messages of a frame. The last has the marker, and all have one timestamp, at "
           "least a tick later than that of the frame before. 0: no markers; messages sent in "
           "the same tick have the same timestamp."),
    NUMBER("reorder", UINT, RECEIVE, "1024", 1, 65536,
           "Largest accepted lateness of a message, in messages. A foreign sender whose numbers "
           "go further back has restarted. rtp has at most 32767."),
};

/* What only RTP's header has room for. */
static const struct pst_option_rule rules[] = {
    {"ssrc", "0", "framing", "rtp", NULL, PST_RULE_UNLESS, {0}},
    {"payload_type", "128", "framing", "rtp", NULL, PST_RULE_UNLESS, {0}},
    {"frame", "0", "framing", "rtp", NULL, PST_RULE_UNLESS, {0}},
};

static const char *family_name(int family)
{
  return family == AF_INET ? "IPv4" : "IPv6";
}

/* The family of an option that is an address; AF_UNSPEC: left out, or no address, which is
 * reported. */
static int check_address(const struct pst_check *check, const char *name,
                         union udp_address *address)
{
  const char *text = check->option_string(check->options, name);
  char zone[UDP_ZONE_MAX];

  if (!text[0])
    return AF_UNSPEC;
  if (udp_address_read(text, address, zone))
    return address->any.sa_family;
  check->report(check, name,
                "\"%s\" is not an address; write numbers (192.0.2.7, 192.0.2.7:5004, 2001:db8::7, "
                "[2001:db8::7]:5004), names are not looked up",
                text);
  return AF_UNSPEC;
}

static void check_families(const struct pst_check *check, const char *const names[4],
                           const int families[4])
{
  for (int i = 1; i < 4; i++)
    for (int j = 0; j < i; j++) {
      if (families[i] == AF_UNSPEC || families[j] == AF_UNSPEC || families[i] == families[j])
        continue;
      check->report(check, names[i], "%s here, and `%s` is %s; make both the same",
                    family_name(families[i]), names[j], family_name(families[j]));
      return;
    }
}

static void check_destination(const struct pst_check *check, int family,
                              const union udp_address *to)
{
  if (!(check->flags & PST_CHECK_FOREIGN))
    return;
  if (!check->option_string(check->options, "to")[0]) {
    if (check->flags & PST_CHECK_OPENS)
      check->report(check, "to",
                    "with `control: none` a sender needs a destination; write `to: "
                    "192.0.2.7:5004` under the transport's options");
  } else if (family != AF_UNSPEC && udp_address_port(to) == 0) {
    check->report(check, "to",
                  "no port; with `control: none` write address and port, as in 192.0.2.7:5004");
  }
}

/* One host's own: neither a group nor all of them. */
static void check_one_host(const struct pst_check *check, const char *name, int family,
                           const union udp_address *address, const char *remedy)
{
  if (family == AF_UNSPEC)
    return;
  if (udp_address_is_multicast(address))
    check->report(check, name, "a multicast address is no host's; %s", remedy);
  else if (udp_address_is_any(address))
    check->report(check, name, "0.0.0.0 and :: are no host's address; %s", remedy);
}

#define ADDRESS_TEXT 64

static void print_host(const union udp_address *address, const char *zone, char text[ADDRESS_TEXT])
{
  char host[INET6_ADDRSTRLEN];

  udp_address_host(address, host);
  snprintf(text, ADDRESS_TEXT, "%s%s%s", host, zone[0] ? "%" : "", zone);
}

/* Where an end is bound, "" for everywhere. True: only there, in numbers, as far as can be told
 * without this host's interfaces and its control channel. */
static bool find_bound(const struct pst_check *check, int family, char text[ADDRESS_TEXT])
{
  const char *device = check->option_string(check->options, "device");
  bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *group = receives ? check->option_string(check->options, "group") : "";
  union udp_address address;
  char zone[UDP_ZONE_MAX];

  text[0] = '\0';
  if (udp_address_read(group[0] ? group : device, &address, zone)) {
    print_host(&address, zone, text);
    return true;
  }
  if (device[0] && strcmp(device, UDP_DEVICE_ANY) != 0)
    snprintf(text, ADDRESS_TEXT, "%s", device);
  else if (!device[0] && receives && !(check->flags & PST_CHECK_FOREIGN))
    snprintf(text, ADDRESS_TEXT, "%s",
             check->flags & PST_CHECK_APART ? "the address of control"
             : family == AF_INET            ? "127.0.0.1"
                                            : "::1");
  return !device[0] && text[0] && !(check->flags & PST_CHECK_APART);
}

static void describe_socket(const struct pst_check *check, int family, const union udp_address *to,
                            struct pst_facts *facts)
{
  bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *device = check->option_string(check->options, "device");
  const char *option = receives ? "port" : "source_port";
  unsigned long port = check->option_uint(check->options, option);
  bool known = family != AF_UNSPEC || !device[0] || strcmp(device, UDP_DEVICE_ANY) == 0;
  char bound[ADDRESS_TEXT];

  if (family == AF_UNSPEC)
    family = AF_INET; /* but of an interface, which may lack it */
  bool alone = find_bound(check, family, bound);
  if (port)
    snprintf(facts->takes, sizeof(facts->takes), "UDP port %lu of %s%s%s", port,
             known ? family_name(family) : "interface", bound[0] ? "/" : "", bound);
  facts->takes_option = option;
  if (receives && check->option_string(check->options, "group")[0]) {
    facts->flags |= PST_FACTS_SHARES; /* each of them gets what is sent to the group */
    facts->meets_option = "group";
  } else {
    facts->meets_option = receives ? "device" : "to";
  }
  if (receives && alone)
    memcpy(facts->meets, bound, sizeof(bound));
  else if (!receives && to->any.sa_family != AF_UNSPEC)
    print_host(to, "", facts->meets);
  facts->meets[strcspn(facts->meets, "%")] = '\0'; /* a zone is this host's word */
}

static void check_options(const struct pst_check *check, struct pst_facts *facts)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP, DG_FRAMING_NONE};
  static const int choices[] = {AF_UNSPEC, AF_INET, AF_INET6};
  const bool sends = check->side == PST_SCOPE_SENDER;
  const char *const names[] = {"family", "device", sends ? "to" : "group", "source"};
  enum dg_framing framing = framings[check->option_uint(check->options, "framing")];
  union udp_address device, first = {.any.sa_family = AF_UNSPEC}, second;
  int family = AF_UNSPEC;
  char zone[UDP_ZONE_MAX];
  int families[4] = {choices[check->option_uint(check->options, "family")]};

  if (udp_address_read(check->option_string(check->options, "device"), &device, zone))
    families[1] = device.any.sa_family; /* else it is an interface, which may have both */
  check_one_host(check, "device", families[1], &device,
                 "a group is a sender's `to` and a receiver's `group`, and all addresses are "
                 "`device: any`");
  if (sends) {
    families[2] = check_address(check, "to", &first);
    check_destination(check, families[2], &first);
  } else {
    families[2] = check_address(check, "group", &first);
    families[3] = check_address(check, "source", &second);
    if (families[2] != AF_UNSPEC && !udp_address_is_multicast(&first))
      check->report(check, "group",
                    "not a multicast address: those are 224.0.0.0/4 and ff00::/8; an address of "
                    "this host goes to `device`");
    check_one_host(check, "source", families[3], &second,
                   "write the sender's own, or leave it out; a group goes to `group`");
  }
  check_families(check, names, families);
  for (int i = 0; i < 4 && family == AF_UNSPEC; i++)
    family = families[i];
  describe_socket(check, family, &first, facts);
  facts->message_max = UDP_DATAGRAM_MAX - dg_header_bytes(framing, true);
  facts->slots_max = PST_CPU_SLOTS_MAX;
  facts->lacks = ~(uint64_t)UDP_CAPABILITIES;
  facts->direct_needs = PST_NEED_CPU_ACCESS;
  if (framing == DG_FRAMING_RTP)
    facts->flags |= PST_FACTS_PROTOCOL_META; /* timestamp and source of each message */
  if (framing == DG_FRAMING_NONE)
    facts->lacks |= PST_CAP_SEQUENCE;
  if (check->option_uint(check->options, "timestamps") == UDP_TIME_OFF)
    facts->lacks |= PST_CAP_TIME;
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "udp",
    .version = "0.1.0",
    .summary = "UDP and RTP by the kernel's sockets, to and from Penstock and anything else",
    .rung = "kernel: Linux sockets; ninja -C build test (suite contract)",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .check = check_options,
    .wire = "penstock-datagram",
};
PST_DESCRIPTION(description);
