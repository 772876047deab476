/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin udp, and its description. */
#include <stdio.h>
#include <string.h>

#include "../datagram/blob.h"
#include "../datagram/check.h"
#include "../datagram/options.h"
#include "described.h"

static const char *const departure_choices[] = {"off", "fq", "etf", NULL};
static const char *const time_choices[] = {"off", "software", "hardware", NULL};

#define DEVICE PST_SCOPE_DEVICE
#define SEND PST_SCOPE_SENDER
#define RECEIVE PST_SCOPE_RECEIVER

static const struct pst_option options[] = {
    DG_TEXT("device", DEVICE, 63,
            "Network interface or address of this host to send from and receive on, as in "
            "eth0 or 192.0.2.1. `any`: all addresses of this host, by the interface of the "
            "route. Empty: `any` for a sender; for a receiver the address that `control` "
            "listens on."),
    DG_OPTIONS,
    DG_CHOICE("timestamps", DEVICE, "software", time_choices,
              "The source of a message's time of arrival. `software`: the kernel, when the "
              "driver hands the packet over. `hardware`: the network card, if it was "
              "configured to stamp (SIOCSHWTSTAMP), otherwise the kernel. `off`: the time at "
              "which the message is polled, for jitter alone."),
    DG_CHOICE("departure", DEVICE, "off", departure_choices,
              "How messages are paced at the sender's `rate` (SO_TXTIME). `fq`: the queueing "
              "discipline fq of the interface sends each message at its time. `etf`: the "
              "network card does, by the queueing discipline etf; messages that come too late "
              "are dropped, and CAP_NET_ADMIN is needed. `off`: messages leave as soon as the "
              "kernel gets them."),
    DG_SWITCH("dont_fragment", SEND, "false",
              "Refuse messages longer than the path's MTU instead of letting IP fragment "
              "them: one lost fragment loses the message."),
    DG_NUMBER("sndbuf", SIZE, SEND, "0", 0, UINT64_C(1) << 30,
              "Size of the socket's send buffer. `0`: the system's default."),
    DG_NUMBER("rcvbuf", SIZE, RECEIVE, "16 MiB", 4096, UINT64_C(1) << 30,
              "Size of the socket's receive buffer, in which datagrams wait while the worker "
              "is busy. Without CAP_NET_ADMIN the kernel grants at most net.core.rmem_max."),
    DG_SWITCH("gso", SEND, "true",
              "Give the kernel messages of equal length in one buffer, which the kernel or "
              "the network card cuts into packets (UDP_SEGMENT). The packets are the same."),
    DG_SWITCH("gro", RECEIVE, "true",
              "Let the kernel hand over messages of equal length in one buffer (UDP_GRO). "
              "The kernel counts drops in buffers. With `framing: none` and a foreign sender "
              "the number of dropped messages is then a lower bound."),
    DG_NUMBER("busy_poll", DURATION, RECEIVE, "0", 0, 1000000000,
              "How long the kernel polls the network card's queue within a call that finds "
              "nothing (SO_BUSY_POLL). More than net.core.busy_read needs CAP_NET_ADMIN. `0`: "
              "not at all."),
};

static const struct pst_option_rule rules[] = {DG_RULES};

/* Where an end is bound, "" for everywhere. True: only there, in numbers, as far as can be told
 * without this host's interfaces and its control channel. */
static bool udp_options_find_bound(const struct pst_check *check, int family,
                                   char text[DG_HOST_TEXT])
{
  const char *device = check->option_string(check->options, "device");
  bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *group = receives ? check->option_string(check->options, "group") : "";
  union dg_address address;
  char zone[DG_ZONE_MAX];

  text[0] = '\0';
  if (dg_address_read(group[0] ? group : device, &address, zone)) {
    dg_print_host(&address, zone, text);
    return true;
  }
  if (device[0] && strcmp(device, UDP_DEVICE_ANY) != 0)
    snprintf(text, DG_HOST_TEXT, "%s", device);
  else if (!device[0] && receives && !(check->flags & PST_CHECK_FOREIGN))
    snprintf(text, DG_HOST_TEXT, "%s",
             check->flags & PST_CHECK_APART ? "the address of control"
             : family == AF_INET            ? "127.0.0.1"
                                            : "::1");
  return !device[0] && text[0] && !(check->flags & PST_CHECK_APART);
}

/* The option that decides the address family. */
static const char *udp_options_family_option(const struct pst_check *check,
                                             const union dg_address *to)
{
  bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *device = check->option_string(check->options, "device");

  if (check->option_uint(check->options, "family"))
    return "family";
  if (device[0] && strcmp(device, UDP_DEVICE_ANY) != 0)
    return "device";
  if (receives && check->option_string(check->options, "group")[0])
    return "group";
  return !receives && to->any.sa_family != AF_UNSPEC ? "to" : "family";
}

/* Tells the check which address and port the socket will have, so that two ends on one are
 * found. */
static void udp_options_describe_socket(const struct pst_check *check, int family,
                                        const union dg_address *to, struct pst_facts *facts)
{
  bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *device = check->option_string(check->options, "device");
  const char *option = receives ? "port" : "source_port";
  unsigned short port = (unsigned short)check->option_uint(check->options, option);
  bool known = family != AF_UNSPEC || !device[0] || strcmp(device, UDP_DEVICE_ANY) == 0;
  char bound[DG_HOST_TEXT];

  if (family == AF_UNSPEC)
    family = AF_INET; /* but of an interface, which may lack it */
  bool alone = udp_options_find_bound(check, family, bound);
  if (port) /* an address has at most 45 characters, and a link-local one with its zone 40 */
    snprintf(facts->takes, sizeof(facts->takes), "UDP port %hu of %s%s%.51s", port,
             known ? dg_family_name(family) : "interface", bound[0] ? "/" : "", bound);
  facts->takes_option = option;
  if (receives && check->option_string(check->options, "group")[0]) {
    facts->flags |= PST_FACTS_SHARES; /* each of them gets messages to the group */
    facts->meets_option = "group";
  } else {
    facts->meets_option = receives ? "device" : "to";
  }
  if (receives && alone)
    memcpy(facts->meets, bound, sizeof(bound));
  else if (!receives && to->any.sa_family != AF_UNSPEC)
    dg_print_host(to, "", facts->meets);
  facts->meets[strcspn(facts->meets, "%")] = '\0'; /* a zone means nothing elsewhere */
  if (known)
    snprintf(facts->equals, sizeof(facts->equals), "%s", dg_family_name(family));
  facts->equals_option = udp_options_family_option(check, to);
}

static void udp_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  struct dg_checked checked;

  facts->lacks = ~(uint64_t)UDP_CAPABILITIES;
  dg_options_check(check, "device",
                   "a group is a sender's `to` and a receiver's `group`, and all addresses are "
                   "`device: any`",
                   UDP_DATAGRAM_MAX, &checked, facts);
  udp_options_describe_socket(check, checked.family, &checked.first, facts);
  facts->slots_max = PST_CPU_SLOTS_MAX;
  facts->direct_needs = PST_NEED_CPU_ACCESS;
  if (check->option_uint(check->options, "timestamps") == UDP_TIME_OFF)
    facts->lacks |= PST_CAP_TIME;
  if (check->option_uint(check->options, "departure") != UDP_DEPARTURE_OFF)
    facts->lacks &= ~(uint64_t)PST_CAP_DEPARTURE;
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
    .check = udp_options_check,
    .wire = DG_WIRE,
};
PST_DESCRIPTION(description);
