/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the network that an adapter's port is on: MTU, pauses, ARP, routes. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define MTU_ENOUGH 4200 /* a RoCE packet of 4096 bytes with its headers */

typedef void network_look(struct doctor *doctor, const struct host_link *link,
                          const struct host_rdma *rdma);

/* Each active port of Ethernet with the network device that it is of. */
static void network_each(struct doctor *doctor, network_look *look)
{
  for (size_t i = 0; i < doctor->rdmas.count; i++) {
    const struct host_rdma *rdma = &doctor->rdmas.all[i];
    for (size_t k = 0; k < rdma->port_count && doctor_wants_rdma(doctor, rdma); k++) {
      const struct host_rdma_port *port = &rdma->ports[k];
      const struct host_link *link = host_link_find(&doctor->network, port->netdev);
      if (link && port->is_ethernet && strcmp(port->state, "ACTIVE") == 0)
        look(doctor, link, rdma);
    }
  }
}

/* Adds that the kernel's links cannot be asked for. True: so it is. */
static bool network_is_unknown(struct doctor *doctor, const char *what)
{
  const struct doctor_finding finding = {
      .verdict = DOCTOR_UNKNOWN, .where = "netlink", .why = doctor->network.why};

  if (doctor->network.known)
    return false;
  doctor_add(doctor, &finding, "%s", what);
  return true;
}

static void network_look_at_mtu(struct doctor *doctor, const struct host_link *link,
                                const struct host_rdma *rdma)
{
  struct doctor_finding finding = {.subject = link->name, .where = "netlink: links"};
  char remedy[128];

  (void)rdma;
  if (link->mtu < MTU_ENOUGH) {
    snprintf(remedy, sizeof(remedy),
             "sudo ip link set %s mtu 9000; the switch and the peer need as much", link->name);
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "MTU %u%s", link->mtu,
             finding.remedy ? ": RoCE packets carry 1024 bytes" : "");
}

static void network_check_mtu(struct doctor *doctor)
{
  if (!network_is_unknown(doctor, "MTUs"))
    network_each(doctor, network_look_at_mtu);
}

/* Either kind of pause keeps a queue of the switch from dropping packets. */
static void network_look_at_pauses(struct doctor *doctor, const struct host_link *link,
                                   const struct host_rdma *rdma)
{
  struct doctor_finding finding = {.subject = link->name, .where = "netlink: ethtool, dcb"};
  char remedy[160];

  if (doctor_is_soft(rdma))
    return;
  if (link->pfc > 0) {
    doctor_add(doctor, &finding, "priority flow control of priorities 0x%02x", (unsigned)link->pfc);
    return;
  }
  if (!link->pause_known) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = "the driver does not say";
  } else if (!link->pause_rx && !link->pause_tx) {
    snprintf(remedy, sizeof(remedy),
             "sudo mlnx_qos -i %s --pfc 0,0,0,1,0,0,0,0; the same at the switch", link->name);
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "no priority flow control; pauses: receive %s, send %s",
             link->pause_rx ? "on" : "off", link->pause_tx ? "on" : "off");
}

static void network_check_pauses(struct doctor *doctor)
{
  if (!network_is_unknown(doctor, "flow control"))
    network_each(doctor, network_look_at_pauses);
}

/* ---- Priorities -------------------------------------------------------------------------------
 */

/* The VLAN on a port, that of the file's device first; NULL: none. */
static const struct host_link *network_vlan_on(const struct doctor *doctor,
                                               const struct host_link *port)
{
  const struct host_link *found = NULL;

  for (size_t i = 0; i < doctor->network.link_count; i++) {
    const struct host_link *link = &doctor->network.links[i];
    if (strcmp(link->kind, "vlan") != 0 || strcmp(link->on, port->name) != 0)
      continue;
    for (size_t k = 0; k < doctor->required.device_count; k++)
      if (strcmp(doctor->required.devices[k], link->name) == 0)
        return link;
    found = found ? found : link;
  }
  return found;
}

/* Returns the priority that the kernel gives to packets of a type of service: ip_tos2prio[] of
 * net/ipv4/route.c. */
static unsigned network_priority_of_tos(unsigned tos)
{
  static const uint8_t priorities[] = {0, 2, 6, 4};

  return priorities[tos >> 3 & 3];
}

/* The priority that switches and the port see in the packets of a stream. */
static unsigned network_priority(const struct host_link *port, const struct host_link *vlan,
                                 const struct doctor_class *class)
{
  if (port->trusts_dscp)
    return port->dscp[class->traffic_class >> 2];
  if (!vlan)
    return 0;
  return class->by_cm && class->service_level == 0
             ? vlan->egress[network_priority_of_tos(class->traffic_class)]
             : class->service_level;
}

/* Writes how to give the stream a priority that is paused, and whether that is lost at reboot. */
static void network_priority_remedy(const struct host_link *port, const struct host_link *vlan,
                                    const struct doctor_class *class,
                                    struct doctor_finding *finding, char *remedy, size_t size)
{
  unsigned dscp = 0, paused = 0;

  while (dscp < HOST_DSCPS && (port->pfc >> port->dscp[dscp] & 1) == 0)
    dscp++;
  while ((port->pfc >> paused & 1) == 0)
    paused++;
  finding->is_lost = port->trusts_dscp ? dscp == HOST_DSCPS : !vlan || class->by_cm;
  if (port->trusts_dscp && dscp == HOST_DSCPS) /* no DSCP has such a priority */
    snprintf(remedy, size, "sudo mlnx_qos -i %s --dscp2prio set,%u,%u; the same at the switch",
             port->name, class->traffic_class >> 2, paused);
  else if (port->trusts_dscp)
    snprintf(remedy, size, "set traffic_class: %u in the file (it is of %s)", dscp * 4, class->at);
  else if (!vlan)
    snprintf(remedy, size, "sudo mlnx_qos -i %s --trust dscp", port->name);
  else if (class->by_cm)
    snprintf(remedy, size, "sudo ip link set %s type vlan egress %u:%u", vlan->name,
             network_priority_of_tos(class->traffic_class), paused);
  else
    snprintf(remedy, size, "set service_level: %u in the file", paused);
}

/* Priority flow control is for some priorities; are those of the file's packets among them? */
static void network_look_at_priority(struct doctor *doctor, const struct host_link *port,
                                     const struct host_rdma *rdma)
{
  const struct host_link *vlan = network_vlan_on(doctor, port);
  struct doctor_finding finding = {.subject = port->name, .where = "netlink: dcb, links"};
  char remedy[160];

  if (doctor_is_soft(rdma) || port->pfc <= 0)
    return; /* flow-control says so */
  for (size_t i = 0; i < doctor->required.class_count; i++) {
    const struct doctor_class *class = &doctor->required.classes[i];
    const unsigned priority = network_priority(port, vlan, class);
    if ((port->pfc >> priority & 1) != 0)
      continue;
    network_priority_remedy(port, vlan, class, &finding, remedy, sizeof(remedy));
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    doctor_add(doctor, &finding,
               "packets of traffic_class %u have priority %u, and flow control is of priorities "
               "0x%02x",
               class->traffic_class, priority, (unsigned)port->pfc);
    return;
  }
  doctor_add(doctor, &finding, "%s gives packets their priority%s",
             port->trusts_dscp ? "the DSCP (traffic_class / 4)"
             : vlan            ? "the VLAN's tag"
                               : "nothing",
             doctor->required.class_count > 0 ? ", one with flow control" : "");
}

static void network_check_priority(struct doctor *doctor)
{
  if (!network_is_unknown(doctor, "priorities"))
    network_each(doctor, network_look_at_priority);
}

/* NVIDIA's driver packages show it below the network device; the kernel's own driver does not. */
static void network_look_at_ecn(struct doctor *doctor, const struct host_link *link,
                                const struct host_rdma *rdma)
{
  const struct host_names *priorities =
      host_list(doctor->host, "sys/class/net/%s/ecn/roce_np/enable", link->name);
  struct doctor_finding finding = {.subject = link->name,
                                   .where = "sys/class/net/*/ecn/roce_np/enable"};
  char remedy[160];
  size_t on = 0;

  if (doctor_is_soft(rdma))
    return;
  for (size_t i = 0; i < priorities->count; i++) {
    int64_t value = 0;
    host_number(doctor->host, &value, "sys/class/net/%s/ecn/roce_np/enable/%s", link->name,
                priorities->names[i]);
    on += value != 0;
  }
  if (priorities->count == 0) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = "the kernel's own driver shows congestion control to root alone, in debugfs";
    finding.is_beyond = true;
    snprintf(remedy, sizeof(remedy), "sudo ls /sys/kernel/debug/mlx5/%s/cc_params", rdma->pci);
    finding.remedy = remedy;
  } else if (on == 0) {
    snprintf(remedy, sizeof(remedy), "echo 1 | sudo tee /sys/class/net/%s/ecn/roce_np/enable/3",
             link->name);
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "congestion notification (ECN) is on for %zu of %zu priorities", on,
             priorities->count);
}

static void network_check_ecn(struct doctor *doctor)
{
  network_each(doctor, network_look_at_ecn);
}

/* ---- Several ports of one network --------------------------------------------------------------
 */

/* Bits of an address' network that two addresses share, "10.9.1.1/24". */
static bool network_is_same(const char *a, const char *b)
{
  struct host_route route = {.to = a, .gateway = "", .link = "", .source = ""};
  const struct host_network one = {.known = true, .route_count = 1, .routes = &route};
  char address[64];

  snprintf(address, sizeof(address), "%.*s", (int)strcspn(b, "/"), b);
  return !strchr(a, ':') && host_route_to(&one, address) != NULL;
}

/* The larger of a setting's values for all devices and for one. */
static int64_t network_setting(struct doctor *doctor, const char *link, const char *name)
{
  int64_t all = 0, own = 0;

  host_number(doctor->host, &all, "proc/sys/net/ipv4/conf/all/%s", name);
  host_number(doctor->host, &own, "proc/sys/net/ipv4/conf/%s/%s", link, name);
  return own > all ? own : all;
}

/* Another port with an address of one of the link's networks; NULL: none. */
static const struct host_link *network_neighbour_of(struct doctor *doctor,
                                                    const struct host_link *link)
{
  for (size_t i = 0; i < doctor->rdmas.count; i++)
    for (size_t k = 0; k < doctor->rdmas.all[i].port_count; k++) {
      const struct host_link *other =
          host_link_find(&doctor->network, doctor->rdmas.all[i].ports[k].netdev);
      for (size_t a = 0; other && other != link && a < link->address_count; a++)
        for (size_t b = 0; b < other->address_count; b++)
          if (network_is_same(link->addresses[a], other->addresses[b]))
            return other;
    }
  return NULL;
}

/* With the kernel's defaults each port answers for the addresses of all. */
static void network_look_at_arp(struct doctor *doctor, const struct host_link *link,
                                const struct host_rdma *rdma)
{
  const struct host_link *other = network_neighbour_of(doctor, link);
  const int64_t announce = network_setting(doctor, link->name, "arp_announce"),
                ignore = network_setting(doctor, link->name, "arp_ignore");
  struct doctor_finding finding = {.subject = link->name,
                                   .where = "proc/sys/net/ipv4/conf/*/arp_ignore"};
  char remedy[160];

  (void)rdma;
  if (!other)
    return;
  if (announce < 1 || ignore < 1) {
    snprintf(remedy, sizeof(remedy),
             "sudo sysctl net/ipv4/conf/%s/arp_announce=2 net/ipv4/conf/%s/arp_ignore=1",
             link->name, link->name);
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "%s is on the same network; arp_announce %lld, arp_ignore %lld",
             other->name, (long long)announce, (long long)ignore);
}

static void network_check_arp(struct doctor *doctor)
{
  network_each(doctor, network_look_at_arp);
}

/* ---- The hop limit ----------------------------------------------------------------------------
 */

/* The route without its hop limit; ip(8) finds it by destination and metric. */
static void network_route_remedy(const struct host_route *route, char *remedy, size_t size)
{
  char metric[32] = "";

  if (route->metric != 0)
    snprintf(metric, sizeof(metric), " metric %u", route->metric);
  snprintf(remedy, size, "sudo ip route replace %s via %s dev %s%s%s%s", route->to, route->gateway,
           route->link, route->source[0] != '\0' ? " src " : "", route->source, metric);
}

/* A peer that the file names, not by its address, has a route that nobody here knows. */
static bool network_is_named(struct doctor *doctor, const char *peer)
{
  const struct doctor_finding finding = {.subject = peer,
                                         .verdict = DOCTOR_UNKNOWN,
                                         .where = "netlink: routes",
                                         .why = "the name is not resolved; write its address"};
  unsigned char raw[16];

  if (inet_pton(AF_INET, peer, raw) == 1 || inet_pton(AF_INET6, peer, raw) == 1 ||
      strchr(peer, '%') || strcmp(peer, "localhost") == 0)
    return false;
  doctor_add(doctor, &finding, "the route to this peer");
  return true;
}

/* A packet with one hop left ends at the first router. The limit is the stream's own, the route's,
 * or the system's. */
static void network_look_at_route(struct doctor *doctor, const struct host_route *route,
                                  const char *peer, bool *found)
{
  int64_t system = 64;
  char remedy[256];
  struct doctor_finding finding = {.subject = peer ? peer : route->to, .where = "netlink: routes"};

  if (!route || route->gateway[0] == '\0')
    return;
  *found = true;
  host_number(doctor->host, &system, "proc/sys/net/ipv4/ip_default_ttl");
  const bool is_six = strchr(route->to, ':') != NULL;
  const long long limit = peer && doctor->required.hop_limit ? (long long)doctor->required.hop_limit
                          : route->hop_limit > 0             ? route->hop_limit
                          : is_six                           ? 64
                                                             : (long long)system;
  if (limit < 2) {
    finding.verdict = DOCTOR_FAILS;
    if (peer && doctor->required.hop_limit)
      snprintf(remedy, sizeof(remedy), "remove hop_limit at %s, or set 64",
               doctor->required.hop_limit_at);
    else if (route->hop_limit > 0)
      network_route_remedy(route, remedy, sizeof(remedy));
    else
      snprintf(remedy, sizeof(remedy), "sudo sysctl net.ipv4.ip_default_ttl=64");
    finding.is_lost = !(peer && doctor->required.hop_limit);
    finding.remedy = remedy;
  }
  if (limit < 2)
    doctor_add(doctor, &finding,
               "packets have a hop limit of %lld, and end at the router %s: "
               "IBV_WC_RETRY_EXC_ERR (12)",
               limit, route->gateway);
  else if (peer)
    doctor_add(doctor, &finding, "through the router %s, with a hop limit of %lld", route->gateway,
               limit);
}

static void network_check_hops(struct doctor *doctor)
{
  struct doctor_finding finding = {.where = "netlink: routes"};
  bool found = false;

  if (network_is_unknown(doctor, "routes"))
    return;
  for (size_t i = 0; i < doctor->required.peer_count; i++)
    if (!network_is_named(doctor, doctor->required.peers[i]))
      network_look_at_route(doctor, host_route_to(&doctor->network, doctor->required.peers[i]),
                            doctor->required.peers[i], &found);
  for (size_t i = 0;
       i < doctor->network.route_count && (!doctor->required.file || doctor->required.asks_routes);
       i++)
    network_look_at_route(doctor, &doctor->network.routes[i], NULL, &found);
  for (size_t i = 0; i < doctor->count; i++)
    if (strcmp(doctor->findings[i].check, "hop-limit") == 0)
      return;
  doctor_add(doctor, &finding, found ? "packets pass routers" : "no route leads through a router");
}

#define ADAPTER "adapter"
const struct doctor_check doctor_network_checks[] = {
    {"mtu", ADAPTER, "Do RoCE packets carry 4096 bytes?", NEED_RDMA, network_check_mtu},
    {"flow-control", ADAPTER, "Does a full queue pause its sender, so that it drops nothing?",
     NEED_RDMA, network_check_pauses},
    {"priority", ADAPTER, "Do the packets have a priority that is paused?", NEED_RDMA,
     network_check_priority},
    {"ecn", ADAPTER, "Do switches slow senders down before queues are full?", NEED_RDMA,
     network_check_ecn},
    {"arp", ADAPTER,
     "If several ports are on one network, does each answer ARP only for its own address?",
     NEED_RDMA, network_check_arp},
    {"hop-limit", ADAPTER, "Do packets pass the routers on their way?", NEED_RDMA,
     network_check_hops},
};
const size_t doctor_network_check_count =
    sizeof(doctor_network_checks) / sizeof(doctor_network_checks[0]);
