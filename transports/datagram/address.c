/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as they are written, by themselves: nothing here asks the machine. */
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool dg_address_parse_port(const char *text, uint16_t *port)
{
  char *end;
  unsigned long value = strtoul(text, &end, 10);

  if (*text < '0' || *text > '9' || *end || value > UINT16_MAX)
    return false;
  *port = (uint16_t)value;
  return true;
}

static bool dg_address_parse_v6(char *text, union dg_address *address, char zone[DG_ZONE_MAX])
{
  char *percent = strchr(text, '%');

  if (percent) {
    *percent++ = '\0';
    if (!*percent || strlen(percent) >= DG_ZONE_MAX)
      return false;
    memcpy(zone, percent, strlen(percent) + 1);
  }
  address->v6.sin6_family = AF_INET6;
  return inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1;
}

bool dg_address_read(const char *text, union dg_address *address, char zone[DG_ZONE_MAX])
{
  union dg_address made = {.any.sa_family = AF_UNSPEC};
  char host[96];
  uint16_t port = 0;
  const char *first = strchr(text, ':'), *last = strrchr(text, ':');
  const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
  size_t from = 0, length = strlen(text);

  zone[0] = '\0';
  if (text[0] == '[') {
    if (!bracket ||
        (bracket[1] && (bracket[1] != ':' || !dg_address_parse_port(bracket + 2, &port))))
      return false;
    from = 1;
    length = (size_t)(bracket - text) - 1;
  } else if (first && first == last) {
    if (!dg_address_parse_port(last + 1, &port))
      return false;
    length = (size_t)(last - text);
  }
  if (length >= sizeof(host))
    return false;
  memcpy(host, text + from, length);
  host[length] = '\0';
  if (text[0] != '[' && inet_pton(AF_INET, host, &made.v4.sin_addr) == 1)
    made.v4.sin_family = AF_INET;
  else if ((first && first == last && !bracket) || !dg_address_parse_v6(host, &made, zone))
    return false;
  dg_address_port_set(&made, port);
  *address = made;
  return true;
}

void dg_address_host(const union dg_address *address, char text[INET6_ADDRSTRLEN])
{
  const void *bytes = address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr
                                                        : (const void *)&address->v6.sin6_addr;

  text[0] = '\0';
  inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN);
}

uint16_t dg_address_port(const union dg_address *address)
{
  return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

void dg_address_port_set(union dg_address *address, uint16_t port)
{
  if (address->any.sa_family == AF_INET)
    address->v4.sin_port = htons(port);
  else
    address->v6.sin6_port = htons(port);
}

bool dg_address_is_multicast(const union dg_address *address)
{
  return address->any.sa_family == AF_INET ? IN_MULTICAST(ntohl(address->v4.sin_addr.s_addr))
                                           : IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr);
}

bool dg_address_is_any(const union dg_address *address)
{
  return address->any.sa_family == AF_INET ? address->v4.sin_addr.s_addr == INADDR_ANY
                                           : IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}

void dg_address_print(const union dg_address *address, char *text, size_t size)
{
  const bool v4 = address->any.sa_family == AF_INET;
  char host[INET6_ADDRSTRLEN];

  dg_address_host(address, host);
  snprintf(text, size, "%s%s%s:%u", v4 ? "" : "[", host, v4 ? "" : "]", dg_address_port(address));
}

socklen_t dg_address_length(const union dg_address *address)
{
  return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

bool dg_address_is_loopback(const union dg_address *address)
{
  return address->any.sa_family == AF_INET ? ntohl(address->v4.sin_addr.s_addr) >> 24 == 127
                                           : IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

void dg_address_set_loopback(union dg_address *address, int family)
{
  *address = (union dg_address){.any.sa_family = (sa_family_t)family};
  if (family == AF_INET)
    address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else
    address->v6.sin6_addr = in6addr_loopback;
}

void dg_address_source(const union dg_address *address, struct dg_source *source)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  source->port = dg_address_port(address);
  if (address->any.sa_family == AF_INET6) {
    memcpy(source->address, &address->v6.sin6_addr, 16);
    return;
  }
  memcpy(source->address, mapped, 12);
  memcpy(source->address + 12, &address->v4.sin_addr, 4);
}

const char *dg_family_name(int family)
{
  return family == AF_INET ? "IPv4" : "IPv6";
}

bool dg_address_is_same_host(const union dg_address *a, const union dg_address *b)
{
  struct dg_source x, y;

  dg_address_source(a, &x);
  dg_address_source(b, &y);
  return memcmp(x.address, y.address, sizeof(x.address)) == 0;
}

void dg_address_of_source(const struct dg_source *source, int family, union dg_address *address)
{
  *address = (union dg_address){.any.sa_family = (sa_family_t)family};
  if (family == AF_INET)
    memcpy(&address->v4.sin_addr, source->address + 12, 4);
  else
    memcpy(&address->v6.sin6_addr, source->address, 16);
  dg_address_port_set(address, source->port);
}
