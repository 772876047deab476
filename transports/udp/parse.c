/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as they are written, by themselves: nothing here asks the machine. */
#include "described.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, uint16_t *port)
{
  char *end;
  unsigned long value = strtoul(text, &end, 10);

  if (*text < '0' || *text > '9' || *end || value > UINT16_MAX)
    return false;
  *port = (uint16_t)value;
  return true;
}

static bool parse_v6(char *text, union udp_address *address, char zone[UDP_ZONE_MAX])
{
  char *percent = strchr(text, '%');

  if (percent) {
    *percent++ = '\0';
    if (!*percent || strlen(percent) >= UDP_ZONE_MAX)
      return false;
    memcpy(zone, percent, strlen(percent) + 1);
  }
  address->v6.sin6_family = AF_INET6;
  return inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1;
}

bool udp_address_read(const char *text, union udp_address *address, char zone[UDP_ZONE_MAX])
{
  union udp_address made = {.any.sa_family = AF_UNSPEC};
  char host[96];
  uint16_t port = 0;
  const char *first = strchr(text, ':'), *last = strrchr(text, ':');
  const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
  size_t from = 0, length = strlen(text);

  zone[0] = '\0';
  if (text[0] == '[') {
    if (!bracket || (bracket[1] && (bracket[1] != ':' || !parse_port(bracket + 2, &port))))
      return false;
    from = 1;
    length = (size_t)(bracket - text) - 1;
  } else if (first && first == last) {
    if (!parse_port(last + 1, &port))
      return false;
    length = (size_t)(last - text);
  }
  if (length >= sizeof(host))
    return false;
  memcpy(host, text + from, length);
  host[length] = '\0';
  if (text[0] != '[' && inet_pton(AF_INET, host, &made.v4.sin_addr) == 1)
    made.v4.sin_family = AF_INET;
  else if ((first && first == last && !bracket) || !parse_v6(host, &made, zone))
    return false;
  udp_address_port_set(&made, port);
  *address = made;
  return true;
}

void udp_address_host(const union udp_address *address, char text[INET6_ADDRSTRLEN])
{
  const void *bytes = address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr
                                                        : (const void *)&address->v6.sin6_addr;

  text[0] = '\0';
  inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN);
}

uint16_t udp_address_port(const union udp_address *address)
{
  return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port : address->v6.sin6_port);
}

void udp_address_port_set(union udp_address *address, uint16_t port)
{
  if (address->any.sa_family == AF_INET)
    address->v4.sin_port = htons(port);
  else
    address->v6.sin6_port = htons(port);
}

bool udp_address_is_multicast(const union udp_address *address)
{
  return address->any.sa_family == AF_INET ? IN_MULTICAST(ntohl(address->v4.sin_addr.s_addr))
                                           : IN6_IS_ADDR_MULTICAST(&address->v6.sin6_addr);
}

bool udp_address_is_any(const union udp_address *address)
{
  return address->any.sa_family == AF_INET ? address->v4.sin_addr.s_addr == INADDR_ANY
                                           : IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
}
