/* SPDX-License-Identifier: Apache-2.0 */
/* Reads RDMA devices from sysfs. */
#include "rdma.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE "sys/class/infiniband/%s"
#define PORT DEVICE "/ports/%u"

static void rdma_copy(char *to, size_t size, const char *text)
{
  snprintf(to, size, "%s", text ? text : "");
}

/* ---- GIDs -------------------------------------------------------------------------------------
 */

/* False: an empty entry. */
static bool rdma_read_address(const char *text, struct host_gid *gid)
{
  static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
  unsigned char raw[16];

  if (strncmp(text, "ipv4-", 5) == 0 || strncmp(text, "ipv6-", 5) == 0 ||
      strncmp(text, "link-local-", 11) == 0) {
    gid->reach = text[0] == 'l'   ? HOST_GID_LINK_LOCAL
                 : text[3] == '4' ? HOST_GID_IPV4
                                  : HOST_GID_IPV6;
    rdma_copy(gid->address, sizeof(gid->address), text);
    return true;
  }
  if (inet_pton(AF_INET6, text, raw) != 1)
    return false;
  /* An entry without an interface's identifier is empty: the port has no GUID, or no address. */
  if (memcmp(raw + 8, (unsigned char[8]){0}, 8) == 0)
    return false;
  if (memcmp(raw, mapped, sizeof(mapped)) == 0) {
    gid->reach = HOST_GID_IPV4;
    return inet_ntop(AF_INET, raw + 12, gid->address, sizeof(gid->address)) != NULL;
  }
  gid->reach = raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? HOST_GID_LINK_LOCAL : HOST_GID_IPV6;
  return inet_ntop(AF_INET6, raw, gid->address, sizeof(gid->address)) != NULL;
}

static void rdma_read_type(struct host *host, const char *device, unsigned port, unsigned index,
                           struct host_gid *gid)
{
  const char *text = host_text(host, PORT "/gid_attrs/types/%u", device, port, index);

  rdma_copy(gid->type, sizeof(gid->type),
            text && strcmp(text, "IB/RoCE v1") == 0 ? "RoCE v1" : text);
}

static void rdma_read_gids(struct host *host, const char *device, struct host_rdma_port *port)
{
  const struct host_names *names = host_list(host, PORT "/gids", device, port->number);

  port->gids = calloc(names->count + 1, sizeof(*port->gids));
  for (size_t i = 0; i < names->count && port->gids; i++) {
    struct host_gid *gid = &port->gids[port->gid_count];
    const char *text = host_text(host, PORT "/gids/%s", device, port->number, names->names[i]);
    if (!text || !rdma_read_address(text, gid))
      continue;
    gid->index = (unsigned)strtoul(names->names[i], NULL, 10);
    if (port->is_ethernet)
      rdma_read_type(host, device, port->number, gid->index, gid);
    else
      rdma_copy(gid->type, sizeof(gid->type), "IB");
    rdma_copy(gid->netdev, sizeof(gid->netdev),
              host_text(host, PORT "/gid_attrs/ndevs/%u", device, port->number, gid->index));
    port->gid_count++;
  }
}

/* ---- Ports and devices ------------------------------------------------------------------------
 */

/* "4: ACTIVE" */
static void rdma_read_state(const char *text, char *state, size_t size)
{
  const char *colon = text ? strchr(text, ':') : NULL;

  rdma_copy(state, size, colon ? colon + 1 + strspn(colon + 1, " ") : text);
}

/* The network device of the port: of the first GID that has one, or of the same PCI device and
 * port. */
static void rdma_find_netdev(struct host *host, const char *device, struct host_rdma_port *port)
{
  for (size_t i = 0; i < port->gid_count && port->netdev[0] == '\0'; i++)
    rdma_copy(port->netdev, sizeof(port->netdev), port->gids[i].netdev);
  if (port->netdev[0] != '\0')
    return;
  const struct host_names *names = host_list(host, DEVICE "/device/net", device);
  for (size_t i = 0; i < names->count; i++) {
    int64_t number = 0;
    host_number(host, &number, "sys/class/net/%s/dev_port", names->names[i]);
    if (number == (int64_t)port->number - 1 || names->count == 1)
      rdma_copy(port->netdev, sizeof(port->netdev), names->names[i]);
  }
  if (port->netdev[0] == '\0')
    rdma_copy(port->netdev, sizeof(port->netdev), host_text(host, DEVICE "/parent", device));
}

static void rdma_read_port(struct host *host, const char *device, struct host_rdma_port *port)
{
  const char *text = host_text(host, PORT "/link_layer", device, port->number);

  port->is_ethernet = text && strcmp(text, "Ethernet") == 0;
  rdma_read_state(host_text(host, PORT "/state", device, port->number), port->state,
                  sizeof(port->state));
  rdma_read_state(host_text(host, PORT "/phys_state", device, port->number), port->physical,
                  sizeof(port->physical));
  text = host_text(host, PORT "/rate", device, port->number);
  port->gbps = text ? strtod(text, NULL) : 0;
  rdma_read_gids(host, device, port);
  rdma_find_netdev(host, device, port);
}

static void rdma_read(struct host *host, const char *name, struct host_rdma *rdma)
{
  const struct host_names *ports = host_list(host, DEVICE "/ports", name);
  const char *pci = host_link_name(host, DEVICE "/device", name);
  int64_t node;

  rdma_copy(rdma->name, sizeof(rdma->name), name);
  rdma_copy(rdma->firmware, sizeof(rdma->firmware), host_text(host, DEVICE "/fw_ver", name));
  rdma_copy(rdma->board, sizeof(rdma->board), host_text(host, DEVICE "/board_id", name));
  rdma_copy(rdma->pci, sizeof(rdma->pci), pci && strchr(pci, ':') ? pci : "");
  rdma_copy(rdma->driver, sizeof(rdma->driver),
            host_link_name(host, DEVICE "/device/driver", name));
  if (rdma->driver[0] == '\0' && host_has(host, DEVICE "/parent", name))
    rdma_copy(rdma->driver, sizeof(rdma->driver), "rdma_rxe");
  rdma->numa_node = host_number(host, &node, DEVICE "/device/numa_node", name) ? (int)node : -1;
  rdma->ports = calloc(ports->count + 1, sizeof(*rdma->ports));
  for (size_t i = 0; i < ports->count && rdma->ports; i++) {
    struct host_rdma_port *port = &rdma->ports[rdma->port_count++];
    port->number = (unsigned)strtoul(ports->names[i], NULL, 10);
    rdma_read_port(host, name, port);
  }
}

void host_rdma_list(struct host *host, struct host_rdmas *rdmas)
{
  const struct host_names *names = host_list(host, "sys/class/infiniband");

  rdmas->count = 0;
  rdmas->all = calloc(names->count + 1, sizeof(*rdmas->all));
  for (size_t i = 0; i < names->count && rdmas->all; i++)
    rdma_read(host, names->names[i], &rdmas->all[rdmas->count++]);
}

void host_rdma_free(struct host_rdmas *rdmas)
{
  for (size_t i = 0; i < rdmas->count; i++) {
    for (size_t k = 0; k < rdmas->all[i].port_count; k++)
      free(rdmas->all[i].ports[k].gids);
    free(rdmas->all[i].ports);
  }
  free(rdmas->all);
  *rdmas = (struct host_rdmas){0};
}
