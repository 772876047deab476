/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the port and the host, and which of them mean trouble. */
#include <dirent.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "status.h"

static void vb_counters_add(struct vb_counters *counters, const char *prefix, const char *name,
                            uint64_t value)
{
  if (counters->count == VB_COUNTERS_MAX)
    return;
  int length = snprintf(counters->at[counters->count].name, sizeof(counters->at[0].name), "%s%s",
                        prefix, name);
  if (length < 0 || (size_t)length >= sizeof(counters->at[0].name))
    return;
  counters->at[counters->count++].value = value;
}

static void vb_counters_read_folder(const char *port, const char *which,
                                    struct vb_counters *counters)
{
  char folder[384], path[640], line[64];

  snprintf(folder, sizeof(folder), "%s/%s", port, which);
  DIR *all = opendir(folder);
  for (struct dirent *one; all && (one = readdir(all));) {
    if (one->d_name[0] == '.' || strcmp(one->d_name, "lifespan") == 0)
      continue;
    snprintf(path, sizeof(path), "%s/%s", folder, one->d_name);
    FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof(line), file))
      vb_counters_add(counters, "", one->d_name, strtoull(line, NULL, 10));
    if (file)
      fclose(file);
  }
  if (all)
    closedir(all);
}

/* ICMP messages of routers and hosts about packets that did not get through; RFC 792 and 4443. */
static int vb_counters_is_refusal(const char *name)
{
  return strcmp(name, "InTimeExcds") == 0 || strcmp(name, "InDestUnreachs") == 0;
}

/* "Icmp6InTimeExcds 12" */
static void vb_counters_read_line(char *line, struct vb_counters *counters)
{
  char *next;
  const char *name = strtok_r(line, " \t\n", &next), *value = strtok_r(NULL, " \t\n", &next);

  if (name && value && strncmp(name, "Icmp6", 5) == 0 && vb_counters_is_refusal(name + 5))
    vb_counters_add(counters, "Icmp6 ", name + 5, strtoull(value, NULL, 10));
}

/* "Icmp: InMsgs ..." and "Icmp: 12 ..." */
static void vb_counters_read_lines(char *names, char *values, struct vb_counters *counters)
{
  char *next, *after;
  const char *name = strtok_r(names, " \n", &next), *value = strtok_r(values, " \n", &after);

  while (name && value) {
    if (vb_counters_is_refusal(name))
      vb_counters_add(counters, "Icmp ", name, strtoull(value, NULL, 10));
    name = strtok_r(NULL, " \n", &next);
    value = strtok_r(NULL, " \n", &after);
  }
}

static void vb_counters_read_host(const char *path, struct vb_counters *counters)
{
  FILE *file = fopen(path, "re");
  char line[2048], values[2048];

  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, "Icmp:", 5) != 0)
      vb_counters_read_line(line, counters);
    else if (fgets(values, sizeof(values), file))
      vb_counters_read_lines(line, values, counters);
  if (file)
    fclose(file);
}

static bool vb_counters_is_of(const struct ifaddrs *one, const uint8_t raw[16])
{
  const struct sockaddr_in *v4 = (const void *)one->ifa_addr;
  const struct sockaddr_in6 *v6 = (const void *)one->ifa_addr;

  if (!one->ifa_addr)
    return false;
  if (vb_gid_is_ipv4(raw))
    return v4->sin_family == AF_INET && memcmp(&v4->sin_addr, raw + 12, 4) == 0;
  return v6->sin6_family == AF_INET6 && memcmp(&v6->sin6_addr, raw, 16) == 0;
}

const char *vb_counters_host(const struct vb_gid *gid)
{
  struct ifaddrs *all = NULL;
  bool is_here = false;

  if (gid->type != VB_GID_ROCE_V2 || getifaddrs(&all) != 0)
    return NULL;
  for (const struct ifaddrs *one = all; one && !is_here; one = one->ifa_next)
    is_here = vb_counters_is_of(one, gid->raw);
  freeifaddrs(all);
  if (!is_here)
    return NULL;
  return vb_gid_is_ipv4(gid->raw) ? "/proc/thread-self/net/snmp" : "/proc/thread-self/net/snmp6";
}

void vb_counters_read(const char *port, const char *host, struct vb_counters *counters)
{
  counters->count = 0;
  if (host)
    vb_counters_read_host(host, counters);
  vb_counters_read_folder(port, "hw_counters", counters);
  vb_counters_read_folder(port, "counters", counters);
}

/* A counter that also grows when all is well shows no trouble. */
static int vb_counters_is_trouble(const char *name)
{
  static const char *const signs[] = {"err",     "retry",    "retries",    "timeout", "discard",
                                      "out_of",  "drop",     "nak",        "dup",     "down",
                                      "wait",    "exceeded", "cnp",        "rnr",     "Icmp",
                                      "retrans", "restart",  "ecn_marked", "pause"};
  for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
    if (strstr(name, signs[i]))
      return 1;
  return 0;
}

static const char *vb_counters_meaning_of(const char *name)
{
  if (strstr(name, "InTimeExcds"))
    return " (a router's word that the hop limit of this host's packets ran out)";
  if (strstr(name, "InDestUnreachs"))
    return " (packets of this host were refused: no route, a closed port or a link's MTU)";
  return "";
}

static const uint64_t *vb_counters_value_of(const struct vb_counters *counters, const char *name)
{
  for (uint32_t i = 0; i < counters->count; i++)
    if (strcmp(counters->at[i].name, name) == 0)
      return &counters->at[i].value;
  return NULL;
}

uint64_t vb_counters_growth(const struct vb_counters *before, const struct vb_counters *now,
                            const char *name)
{
  const uint64_t *was = vb_counters_value_of(before, name), *is = vb_counters_value_of(now, name);
  return is && (!was || *is > *was) ? *is - (was ? *was : 0) : 0;
}

static void vb_counters_tell(char *text, size_t size, const char *name, uint64_t grown)
{
  vb_text_add(text, size, "%s%s +%" PRIu64 "%s", text[0] ? ", " : "", name, grown,
              vb_counters_meaning_of(name));
}

/* mlx5's, then soft-RoCE's. */
static const char *const slow[] = {
    "out_of_sequence",     "packet_seq_err",      "implied_nak_seq_err", "local_ack_timeout_err",
    "roce_adp_retrans",    "roce_adp_retrans_to", "roce_slow_restart",   "port_xmit_discards",
    "completer_retry_err", "out_of_seq_request",  "rcvd_seq_err"};
/* No trouble by themselves: now and then ports wait, congestion is signalled (DCQCN), and receivers
 * are not ready though all is well. */
static const char *const waits[] = {"np_cnp_sent",  "rp_cnp_handled", "rnr_nak_retry_err",
                                    "rcvd_rnr_err", "port_xmit_wait", "rx_pause",
                                    "tx_pause"};
/* Packets that were sent: mlx5's, soft-RoCE's. */
static const char *const sent[] = {"port_xmit_packets", "sent_pkts"};
#define SLOW_FROM 100u   /* a first hello that comes early costs some */
#define SLOW_SHARE 1000u /* one packet in this many */

static uint64_t vb_counters_tell_all(const char *const *names, size_t count,
                                     const struct vb_counters *before,
                                     const struct vb_counters *now, char *text, size_t size)
{
  uint64_t sum = 0;

  for (size_t i = 0; i < count; i++) {
    const uint64_t grown = vb_counters_growth(before, now, names[i]);
    if (grown)
      vb_counters_tell(text, size, names[i], grown);
    sum += grown;
  }
  return sum;
}

bool vb_counters_slow(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size)
{
  uint64_t packets = 0;

  text[0] = '\0';
  const uint64_t sum =
      vb_counters_tell_all(slow, sizeof(slow) / sizeof(slow[0]), before, now, text, size);
  vb_counters_tell_all(waits, sizeof(waits) / sizeof(waits[0]), before, now, text, size);
  for (size_t i = 0; packets == 0 && i < sizeof(sent) / sizeof(sent[0]); i++)
    packets = vb_counters_growth(before, now, sent[i]);
  return sum >= SLOW_FROM && sum >= packets / SLOW_SHARE;
}

/* Says how many packets went and came, if none came. */
static void vb_counters_tell_silence(char *text, size_t size, const struct vb_counters *before,
                                     const struct vb_counters *now)
{
  static const char *const pairs[][2] = {{"sent_pkts", "rcvd_pkts"},
                                         {"port_xmit_packets", "port_rcv_packets"}};
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    const char *out = pairs[i][0], *in = pairs[i][1];
    if (!vb_counters_value_of(now, out) || !vb_counters_value_of(now, in) ||
        vb_counters_growth(before, now, in) > 0)
      continue;
    vb_counters_tell(text, size, out, vb_counters_growth(before, now, out));
    vb_counters_tell(text, size, in, 0);
  }
}

void vb_counters_text(const struct vb_counters *before, const struct vb_counters *now, char *text,
                      size_t size)
{
  text[0] = '\0';
  for (uint32_t i = 0; i < now->count; i++) {
    const char *name = now->at[i].name;
    uint64_t grown = vb_counters_is_trouble(name) ? vb_counters_growth(before, now, name) : 0;
    if (grown)
      vb_counters_tell(text, size, name, grown);
  }
  vb_counters_tell_silence(text, size, before, now);
  if (!text[0])
    snprintf(text, size, "%s", now->count ? "none has grown" : "none can be read");
}
