/* SPDX-License-Identifier: Apache-2.0 */
/* Turns options into DPDK's arguments, without DPDK. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "described.h"

#define FRAME_MORE 18u   /* Ethernet header and tag */
#define TPACKET_ROOM 66u /* what the kernel puts before a frame in a slot of AF_PACKET's ring */
#define TPACKET_ALIGN 64u
#define MEMIF_LOG2_MAX 14u

#define COPIES (ETH_DONE_AT_ONCE | ETH_KEEPS_NO_MBUF | ETH_VIRTUAL)

const struct eth_driver eth_drivers[ETH_DRIVERS] = {
    [ETH_DRIVER_PCI] = {"pci", NULL, ETH_COUNTS_LOSS | ETH_IS_DMA | ETH_HAS_RULES, 1},
    [ETH_DRIVER_MEMIF] = {"memif", "net_memif", COPIES, 32},
    [ETH_DRIVER_RING] = {"ring", "net_ring", COPIES | ETH_TAKES_NO_POOL | ETH_SENDS_COPIES, 1},
    [ETH_DRIVER_AF_PACKET] = {"af_packet", "net_af_packet",
                              COPIES | ETH_HAS_NETDEV | ETH_ONE_SEGMENT, 1},
    [ETH_DRIVER_AF_XDP] = {"af_xdp", "net_af_xdp",
                           ETH_TAKES_NO_POOL | ETH_SENDS_COPIES | ETH_HAS_NETDEV | ETH_VIRTUAL, 32},
    [ETH_DRIVER_TAP] = {"tap", "net_tap",
                        ETH_DONE_AT_ONCE | ETH_HAS_NETDEV | ETH_MAKES_NETDEV | ETH_VIRTUAL |
                            ETH_HAS_RULES | ETH_EQUAL_QUEUES | ETH_FILLS_ONE,
                        33},
    [ETH_DRIVER_PCAP] = {"pcap", "net_pcap", COPIES | ETH_HAS_NETDEV, 1},
    [ETH_DRIVER_VIRTIO_USER] = {"virtio_user", "net_virtio_user", ETH_VIRTUAL, 32},
    [ETH_DRIVER_NULL] = {"null", "net_null", COPIES, 32},
    [ETH_DRIVER_OTHER] = {"other", NULL, ETH_SENDS_COPIES | ETH_TAKES_NO_POOL, 32},
};

const char *const eth_driver_choices[] = {"pci",    "memif", "ring", "af_packet",
                                          "af_xdp", "tap",   "pcap", "virtio_user",
                                          "null",   "other", NULL};

/* Output position in one of eth_devargs()' texts. */
struct text {
  char *at;
  size_t length;
  bool is_cut;
};

static void __attribute__((format(printf, 2, 3)))
eth_devargs_text_add(struct text *text, const char *format, ...)
{
  va_list list;

  va_start(list, format);
  int n = vsnprintf(text->at + text->length, ETH_TEXT_MAX - text->length, format, list);
  va_end(list);
  if (n < 0 || (size_t)n >= ETH_TEXT_MAX - text->length)
    text->is_cut = true;
  else
    text->length += (size_t)n;
}

static uint32_t eth_devargs_round_up(uint32_t value, uint32_t step)
{
  return (value + step - 1) / step * step;
}

static uint32_t eth_devargs_log2_up(uint32_t value)
{
  uint32_t log2 = 0;

  while (log2 < MEMIF_LOG2_MAX && (1u << log2) < value)
    log2++;
  return log2;
}

/* Each side offers what it sends into; a frame lies in one buffer. DPDK has one end of a path in a
 * process, so that the client spells it another way. */
static void eth_devargs_add_memif(struct text *text, const struct eth_port_options *options)
{
  const bool is_client = options->role == ETH_ROLE_CLIENT;
  const char *slash = strrchr(options->socket, '/');
  const int folder = slash ? (int)(slash + 1 - options->socket) : 0;
  const uint32_t frame = eth_devargs_round_up(options->mtu + FRAME_MORE, 64);

  eth_devargs_text_add(text, "role=%s,socket=%.*s%s%s,socket-abstract=no,rsize=%u,bsize=%u",
                       is_client ? "client" : "server", folder, options->socket,
                       is_client ? "./" : "", options->socket + folder,
                       eth_devargs_log2_up(options->descriptors),
                       frame < UINT16_MAX ? frame : UINT16_MAX);
}

/* DPDK takes frames to lie one behind the other, and the kernel takes blocks of whole pages: blocks
 * of 64 frames of a multiple of 64 bytes are both. */
static void eth_devargs_add_af_packet(struct text *text, const struct eth_port_options *options)
{
  const uint32_t frame =
      eth_devargs_round_up(options->mtu + FRAME_MORE + TPACKET_ROOM, TPACKET_ALIGN);

  eth_devargs_text_add(text, "iface=%s,qpairs=1,blocksz=%u,framesz=%u,framecnt=%u", options->netdev,
                       64 * frame, frame, eth_devargs_round_up(options->descriptors, 64));
}

static void eth_devargs_add_pcap(struct text *text, const struct eth_port_options *options)
{
  if (options->netdev[0]) {
    eth_devargs_text_add(text, "iface=%s,phy_mac=1", options->netdev);
    return;
  }
  if (options->rx_pcap[0])
    eth_devargs_text_add(text, "rx_pcap=%s", options->rx_pcap);
  if (options->tx_pcap[0])
    eth_devargs_text_add(text, "%stx_pcap=%s", text->length ? "," : "", options->tx_pcap);
}

/* Adds the devargs of the chosen driver. */
static void eth_devargs_add_arguments(struct text *text, const struct eth_port_options *options)
{
  switch (options->driver) {
  case ETH_DRIVER_MEMIF:
    eth_devargs_add_memif(text, options);
    break;
  case ETH_DRIVER_AF_PACKET:
    eth_devargs_add_af_packet(text, options);
    break;
  case ETH_DRIVER_PCAP:
    eth_devargs_add_pcap(text, options);
    break;
  case ETH_DRIVER_AF_XDP:
    eth_devargs_text_add(text, "iface=%s", options->netdev);
    break;
  case ETH_DRIVER_TAP:
    eth_devargs_text_add(text, "iface=%s", options->netdev);
    if (options->remote[0])
      eth_devargs_text_add(text, ",remote=%s", options->remote);
    break;
  case ETH_DRIVER_VIRTIO_USER:
    eth_devargs_text_add(text, "path=%s,queues=1,server=%u,queue_size=%u", options->socket,
                         options->role != ETH_ROLE_CLIENT, options->descriptors);
    break;
  default:
    break;
  }
  if (options->mac[0] &&
      (options->driver == ETH_DRIVER_MEMIF || options->driver == ETH_DRIVER_TAP ||
       options->driver == ETH_DRIVER_VIRTIO_USER))
    eth_devargs_text_add(text, ",mac=%s", options->mac);
}

int eth_devargs(const struct eth_port_options *options, char name[ETH_TEXT_MAX],
                char arguments[ETH_TEXT_MAX])
{
  const struct eth_driver *driver = &eth_drivers[options->driver];
  struct text named = {.at = name}, added = {.at = arguments};

  name[0] = arguments[0] = '\0';
  if (options->driver == ETH_DRIVER_OTHER) {
    size_t length = strcspn(options->devargs, ",");
    eth_devargs_text_add(&named, "%.*s", (int)length, options->devargs);
    eth_devargs_text_add(&added, "%s",
                         options->devargs + length + (options->devargs[length] == ','));
    return named.is_cut || added.is_cut ? -E2BIG : 0;
  }
  eth_devargs_text_add(&named, "%s", driver->dpdk ? driver->dpdk : options->device);
  eth_devargs_add_arguments(&added, options);
  if (options->devargs[0])
    eth_devargs_text_add(&added, "%s%s", added.length ? "," : "", options->devargs);
  return named.is_cut || added.is_cut ? -E2BIG : 0;
}

void eth_port_identity(const struct eth_port_options *options, char text[ETH_TEXT_MAX])
{
  static const char *const roles[] = {"", "/server", "/client"};
  const char *what = options->device;

  if (options->driver != ETH_DRIVER_PCI && !what[0])
    what = options->socket[0]    ? options->socket
           : options->netdev[0]  ? options->netdev
           : options->rx_pcap[0] ? options->rx_pcap
           : options->tx_pcap[0] ? options->tx_pcap
                                 : options->devargs;
  snprintf(text, ETH_TEXT_MAX, "%s%s%s%s", eth_drivers[options->driver].name, what[0] ? " " : "",
           what, roles[options->role]);
}

bool eth_network_read(const char *text, uint8_t address[16], uint32_t *prefix)
{
  char host[64], *slash, *end;
  bool is_v4 = !strchr(text, ':');
  uint32_t most = is_v4 ? 32 : 128;
  unsigned long bits = is_v4 ? 24 : 64;

  if (strlen(text) >= sizeof(host))
    return false;
  strcpy(host, text);
  slash = strchr(host, '/');
  if (slash) {
    *slash++ = '\0';
    if (slash[0] < '0' || slash[0] > '9')
      return false;
    bits = strtoul(slash, &end, 10);
    if (*end || bits < 1 || bits > most)
      return false;
  }
  memset(address, 0, 16);
  if (is_v4)
    memset(address + 10, 0xff, 2);
  if (inet_pton(is_v4 ? AF_INET : AF_INET6, host, is_v4 ? address + 12 : address) != 1)
    return false;
  *prefix = (uint32_t)bits;
  /* of one host: neither a group, nor all of them, nor this host alone */
  if (is_v4)
    return address[12] != 0 && address[12] != 127 && address[12] < 224;
  return address[0] != 0xff && (address[0] || address[1]);
}

bool eth_mac_read(const char *text, uint8_t mac[6])
{
  const char *at = text;
  uint8_t any = 0;

  for (int i = 0; i < 6; i++) {
    char *end;
    if (!strchr("0123456789abcdefABCDEF", at[0]) || !at[0])
      return false;
    unsigned long byte = strtoul(at, &end, 16);
    if (end - at > 2 || *end != (i < 5 ? ':' : '\0'))
      return false;
    mac[i] = (uint8_t)byte;
    any |= mac[i];
    at = end + 1;
  }
  return any && !(mac[0] & 1);
}
