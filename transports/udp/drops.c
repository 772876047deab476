/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's drops of a socket, by cause: the network namespace's counts tell damaged datagrams
 * from full buffers. */
#include <linux/sock_diag.h>
#include <stdio.h>
#include <sys/socket.h>

#include "endpoint.h"
#include "receive.h"

/* The value of a column of /proc/net/snmp: a line of names and one of numbers. */
static uint64_t udp_drops_column(const char *names, const char *numbers, const char *wanted)
{
  char name[64];
  uint64_t number;
  int of_names, of_numbers;

  while (sscanf(names, "%63s%n", name, &of_names) == 1 &&
         sscanf(numbers, "%lu%n", &number, &of_numbers) == 1) {
    if (strcmp(name, wanted) == 0)
      return number;
    names += of_names;
    numbers += of_numbers;
  }
  return 0;
}

void udp_drops_read4(FILE *from, struct udp_host_drops *drops)
{
  char names[1024], numbers[1024];

  while (fgets(names, sizeof(names), from) && fgets(numbers, sizeof(numbers), from)) {
    if (strncmp(names, "Udp: ", 5) != 0 || strncmp(numbers, "Udp: ", 5) != 0)
      continue;
    drops->bad_sums = udp_drops_column(names + 5, numbers + 5, "InCsumErrors");
    drops->full = udp_drops_column(names + 5, numbers + 5, "RcvbufErrors") +
                  udp_drops_column(names + 5, numbers + 5, "MemErrors");
  }
}

void udp_drops_read6(FILE *from, struct udp_host_drops *drops)
{
  char line[256], name[64];
  uint64_t number;

  while (fgets(line, sizeof(line), from)) {
    if (sscanf(line, "%63s %lu", name, &number) != 2)
      continue;
    if (strcmp(name, "Udp6InCsumErrors") == 0)
      drops->bad_sums = number;
    else if (strcmp(name, "Udp6RcvbufErrors") == 0 || strcmp(name, "Udp6MemErrors") == 0)
      drops->full += number;
  }
}

uint64_t udp_drops_bad_sums(uint64_t drops, const struct udp_host_drops *before,
                            const struct udp_host_drops *now)
{
  uint64_t full = now->full - before->full, bad_sums = now->bad_sums - before->bad_sums;
  uint64_t rest = drops > full ? drops - full : 0;

  return bad_sums < rest ? bad_sums : rest;
}

uint32_t udp_socket_drops(const struct pst_endpoint *endpoint)
{
  uint32_t info[SK_MEMINFO_VARS] = {0};
  socklen_t length = sizeof(info);

  if (getsockopt(endpoint->fd, SOL_SOCKET, SO_MEMINFO, info, &length) != 0)
    return endpoint->rx->drops_seen;
  return info[SK_MEMINFO_DROPS];
}

static struct udp_host_drops udp_drops_read_host(int family)
{
  struct udp_host_drops drops = {0};
  FILE *file = fopen(family == AF_INET ? "/proc/net/snmp" : "/proc/net/snmp6", "re");

  if (!file)
    return drops;
  if (family == AF_INET)
    udp_drops_read4(file, &drops);
  else
    udp_drops_read6(file, &drops);
  fclose(file);
  return drops;
}

void udp_drops_begin(struct pst_endpoint *endpoint)
{
  endpoint->rx->host_drops = udp_drops_read_host(endpoint->dg.family);
}

static void udp_drops_tell_bad_sums(struct pst_endpoint *endpoint)
{
  if (endpoint->rx->told_sums)
    return;
  endpoint->rx->told_sums = true;
  UDP_TELL(
      endpoint, PST_LOG_WARN,
      "the kernel drops datagrams whose UDP checksum is wrong (%lu so far; what the stream lacks "
      "by that is counted as udp_checksum): a larger `rcvbuf` does not help. Something on the "
      "way damages packets, or they are replayed from a capture of a host whose card computes checksums: "
      "`tcprewrite --fixcsum` mends that capture",
      endpoint->rx->bad_sums);
}

/* Warns once why the kernel drops datagrams, with the setting that helps. */
static void udp_drops_tell_full(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  long most = udp_sysctl("/proc/sys/net/core/rmem_max");
  uint64_t size = udp_socket_buffer(endpoint, SO_RCVBUF);
  uint64_t more = rx->rcvbuf > size ? rx->rcvbuf : 4 * size;
  char limit[128] = "";

  if (rx->told_drops)
    return;
  rx->told_drops = true;
  if (rx->starved ||
      rx->dg.flow.counts.lost[UDP_LOST_NO_BUFFER] > rx->dg.flow.counts.lost[UDP_LOST_KERNEL]) {
    UDP_TELL(endpoint, PST_LOG_WARN,
             "the kernel drops what arrives, since the ring has no free slot: what consumes the "
             "messages is too slow; a larger `ring` helps in bursts");
    return;
  }
  if (most >= 0 && (uint64_t)most < more)
    snprintf(limit, sizeof(limit), ", which needs sysctl -w net.core.rmem_max=%lu or CAP_NET_ADMIN",
             more);
  else if (most < 0)
    snprintf(limit, sizeof(limit),
             ", up to net.core.rmem_max, which is set outside this network namespace");
  UDP_TELL(endpoint, PST_LOG_WARN,
           "the kernel drops what arrives, since the socket's buffer of %lu bytes was full: a "
           "larger `rcvbuf` (%lu%s), or a core of its own for the worker (`threads`)",
           size, more, limit);
}

struct udp_drops_news udp_drops_look(struct pst_endpoint *endpoint, uint32_t drops)
{
  struct udp_rx *rx = endpoint->rx;
  struct udp_drops_news news = {.known = rx->drops};

  if (drops == rx->drops)
    return news;
  struct udp_host_drops now = udp_drops_read_host(endpoint->dg.family);
  uint64_t bad_sums = udp_drops_bad_sums(drops, &rx->host_drops, &now);
  uint32_t newly = drops - rx->drops;
  news.bad_sums = bad_sums > rx->bad_sums ? bad_sums - rx->bad_sums : 0;
  news.full = newly > news.bad_sums ? newly - news.bad_sums : 0;
  rx->bad_sums += news.bad_sums;
  rx->drops = drops;
  if (news.bad_sums)
    udp_drops_tell_bad_sums(endpoint);
  if (news.full)
    udp_drops_tell_full(endpoint);
  return news;
}
