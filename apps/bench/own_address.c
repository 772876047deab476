/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses one of this host's addresses. */
#include "own_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

struct network {
  int family;
  unsigned char bytes[16];
  unsigned bits;
};

static const void *bench_own_address_bytes(const struct sockaddr *address)
{
  return address->sa_family == AF_INET6
             ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
             : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
}

/* False: the word is no network. */
static bool bench_own_address_read_network(const char *word, struct network *network)
{
  const char *slash = strchr(word, '/');
  char text[INET6_ADDRSTRLEN], *end = NULL;

  if (!slash || (size_t)(slash - word) >= sizeof(text))
    return false;
  snprintf(text, sizeof(text), "%.*s", (int)(slash - word), word);
  network->family = strchr(text, ':') ? AF_INET6 : AF_INET;
  network->bits = (unsigned)strtoul(slash + 1, &end, 10);
  return *end == '\0' && slash[1] != '\0' &&
         network->bits <= (network->family == AF_INET6 ? 128u : 32u) &&
         inet_pton(network->family, text, network->bytes) == 1;
}

static bool bench_own_address_is_in(const struct sockaddr *address, const struct network *network)
{
  const unsigned char *bytes = bench_own_address_bytes(address);
  const unsigned whole = network->bits / 8, rest = network->bits % 8;

  return address->sa_family == network->family && memcmp(bytes, network->bytes, whole) == 0 &&
         (rest == 0 || ((bytes[whole] ^ network->bytes[whole]) & (0xff << (8 - rest) & 0xff)) == 0);
}

/* An address that another host, or this one, can connect to without naming an interface. */
static bool bench_own_address_is_plain(const struct ifaddrs *one)
{
  if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
    return false;
  return one->ifa_addr->sa_family == AF_INET ||
         (one->ifa_addr->sa_family == AF_INET6 &&
          !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr));
}

static void bench_own_address_write(const struct sockaddr *from, char address[OWN_ADDRESS_MAX])
{
  char text[INET6_ADDRSTRLEN] = "";

  inet_ntop(from->sa_family, bench_own_address_bytes(from), text, sizeof(text));
  snprintf(address, OWN_ADDRESS_MAX, from->sa_family == AF_INET6 ? "[%s]" : "%s", text);
}

/* Returns whether an address is the one that the word names. `word` NULL: IPv4, beyond this
 * host. */
static bool bench_own_address_fits(const struct ifaddrs *one, const char *word,
                                   const struct network *network)
{
  if (!bench_own_address_is_plain(one))
    return false;
  if (network)
    return bench_own_address_is_in(one->ifa_addr, network);
  if (word)
    return strcmp(one->ifa_name, word) == 0;
  return one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK);
}

/* The first that fits. `others` names all that fit; *count: how many. */
static void bench_own_address_find(const struct ifaddrs *all, const char *word,
                                   const struct network *network, char address[OWN_ADDRESS_MAX],
                                   char *others, size_t size, uint32_t *count)
{
  size_t used = 0;

  *count = 0;
  for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
    char text[OWN_ADDRESS_MAX];
    if (!bench_own_address_fits(one, word, network))
      continue;
    bench_own_address_write(one->ifa_addr, text);
    if ((*count)++ == 0)
      memcpy(address, text, sizeof(text));
    if (used < size)
      used += (size_t)snprintf(others + used, size - used, "%s%s (%s)", used > 0 ? ", " : "",
                               one->ifa_name, text);
  }
}

int bench_own_address(const char *word, bool beyond, char address[OWN_ADDRESS_MAX],
                      struct pst_error *error)
{
  struct network network;
  const bool is_network = word && bench_own_address_read_network(word, &network);
  struct ifaddrs *all = NULL;
  char others[512] = "none";
  uint32_t count = 0;

  if (!word && !beyond) {
    snprintf(address, OWN_ADDRESS_MAX, "127.0.0.1");
    return 0;
  }
  if (word && !is_network && if_nametoindex(word) == 0) { /* the listener says whether it is ours */
    snprintf(address, OWN_ADDRESS_MAX, "%s", word);
    return 0;
  }
  if (getifaddrs(&all) < 0)
    return app_log_fail(error, PST_EXIT_FAILED, -errno, "bench: getifaddrs: %s", strerror(errno));
  bench_own_address_find(all, word, is_network ? &network : NULL, address, others, sizeof(others),
                         &count);
  freeifaddrs(all);
  if (word && count == 0)
    return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EADDRNOTAVAIL,
                        "bench: --endpoint address=%.60s: this host has no such address; `ip "
                        "address` lists them",
                        word);
  if (!word && count != 1)
    return app_log_fail(
        error, PST_EXIT_USAGE, -EADDRNOTAVAIL,
        "bench: --all-pairs: this host has several addresses: %s; choose the one that "
        "the other ranks reach, by --endpoint address=eth0 or address=10.1.0.0/16",
        others);
  return 0;
}
