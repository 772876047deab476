/* SPDX-License-Identifier: Apache-2.0 */
/* Checks addresses and ports of a stream before it is opened. */
#include "check.h"
#include "tag.h"

#include <stdio.h>
#include <string.h>

/* The family of an option that is an address; AF_UNSPEC: left out, or no address, which is
 * reported. */
static int dg_check_address(const struct pst_check *check, const char *name,
                            union dg_address *address)
{
  const char *text = check->option_string(check->options, name);
  char zone[DG_ZONE_MAX];

  if (!text[0])
    return AF_UNSPEC;
  if (dg_address_read(text, address, zone))
    return address->any.sa_family;
  check->report(check, name,
                "\"%s\" is not an address; write numbers (192.0.2.7, 192.0.2.7:5004, 2001:db8::7, "
                "[2001:db8::7]:5004), names are not looked up",
                text);
  return AF_UNSPEC;
}

static void dg_check_families(const struct pst_check *check, const char *const names[4],
                              const int families[4])
{
  for (int i = 1; i < 4; i++)
    for (int j = 0; j < i; j++) {
      if (families[i] == AF_UNSPEC || families[j] == AF_UNSPEC || families[i] == families[j])
        continue;
      check->report(check, names[i], "%s here, and `%s` is %s; make both the same",
                    dg_family_name(families[i]), names[j], dg_family_name(families[j]));
      return;
    }
}

static void dg_check_destination(const struct pst_check *check, int family,
                                 const union dg_address *to)
{
  if (!(check->flags & PST_CHECK_FOREIGN))
    return;
  if (!check->option_string(check->options, "to")[0]) {
    if (check->flags & PST_CHECK_OPENS)
      check->report(check, "to",
                    "with `control: none` a sender needs a destination; write `to: "
                    "192.0.2.7:5004` under the transport's options");
  } else if (family != AF_UNSPEC && dg_address_port(to) == 0) {
    check->report(check, "to",
                  "no port; with `control: none` write address and port, as in 192.0.2.7:5004");
  }
}

/* Checks for one host's own address: neither a group nor all addresses. */
static void dg_check_one_host(const struct pst_check *check, const char *name, int family,
                              const union dg_address *address, const char *remedy)
{
  if (family == AF_UNSPEC)
    return;
  if (dg_address_is_multicast(address))
    check->report(check, name, "a multicast address is not an address of a host; %s", remedy);
  else if (dg_address_is_any(address))
    check->report(check, name, "0.0.0.0 and :: are not addresses of a host; %s", remedy);
}

void dg_print_host(const union dg_address *address, const char *zone, char text[DG_HOST_TEXT])
{
  char host[INET6_ADDRSTRLEN];

  dg_address_host(address, host);
  snprintf(text, DG_HOST_TEXT, "%s%s%s", host, zone[0] ? "%" : "", zone);
}

static void dg_check_sender(const struct pst_check *check, int families[4], union dg_address *to)
{
  families[2] = dg_check_address(check, "to", to);
  dg_check_destination(check, families[2], to);
}

static void dg_check_receiver(const struct pst_check *check, int families[4],
                              union dg_address *group)
{
  union dg_address source;

  families[2] = dg_check_address(check, "group", group);
  families[3] = dg_check_address(check, "source", &source);
  if (families[2] != AF_UNSPEC && !dg_address_is_multicast(group))
    check->report(check, "group",
                  "not a multicast address: those are 224.0.0.0/4 and ff00::/8; an address of "
                  "this host goes to `device`");
  dg_check_one_host(check, "source", families[3], &source,
                    "write the sender's own, or leave it out; a group goes to `group`");
}

void dg_options_check(const struct pst_check *check, const char *own, const char *own_remedy,
                      uint32_t datagram_max, struct dg_checked *checked, struct pst_facts *facts)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP, DG_FRAMING_NONE};
  static const int choices[] = {AF_UNSPEC, AF_INET, AF_INET6};
  const bool sends = check->side == PST_SCOPE_SENDER;
  const char *const names[] = {"family", own, sends ? "to" : "group", "source"};
  int families[4] = {choices[check->option_uint(check->options, "family")]};
  union dg_address address;
  char zone[DG_ZONE_MAX];

  *checked = (struct dg_checked){.framing = framings[check->option_uint(check->options, "framing")],
                                 .first.any.sa_family = AF_UNSPEC};
  if (own && dg_address_read(check->option_string(check->options, own), &address, zone))
    families[1] = address.any.sa_family; /* else it is an interface, which may have both */
  dg_check_one_host(check, own, families[1], &address, own_remedy);
  if (sends)
    dg_check_sender(check, families, &checked->first);
  else
    dg_check_receiver(check, families, &checked->first);
  dg_check_families(check, names, families);
  for (int i = 0; i < 4 && checked->family == AF_UNSPEC; i++)
    checked->family = families[i];
  const bool has_tag = check->option_uint(check->options, "authenticate");
  facts->message_max =
      datagram_max - dg_header_bytes(checked->framing, true) - (has_tag ? DG_TAG_BYTES : 0);
  if (has_tag)
    facts->flags |= PST_FACTS_SECRET_ADDRESS;
  if (has_tag && check->flags & PST_CHECK_FOREIGN)
    check->report(check, "authenticate",
                  "with `control: none` there is no peer to agree on a key with; leave it out, or "
                  "run Penstock at both ends");
  if (checked->framing == DG_FRAMING_RTP)
    facts->flags |= PST_FACTS_PROTOCOL_META; /* timestamp and source of each message */
  if (checked->framing == DG_FRAMING_NONE)
    facts->lacks |= PST_CAP_SEQUENCE;
}
