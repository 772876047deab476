/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a fabric in lines for people, and its counters, in lines for scripts too. */
#include "launcher.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "value.h"

static const char *const clock_words[] = {"real", "scaled", "manual"};
static const char *const gid_words[] = {"ib", "rocev1", "rocev2"};

static unsigned show_mtu_bytes(uint8_t mtu)
{
  return 128u << mtu;
}

static void show_port(const struct fab_port *port, unsigned number)
{
  printf("    port %u: %s, %s%s, subnet %s, mtu %u", number,
         port->link_layer == IBV_LINK_LAYER_ETHERNET ? "ethernet" : "infiniband",
         port->up ? "up" : "down", port->cut ? ", cut off" : "", fab->subnet[port->subnet].name,
         show_mtu_bytes(port->mtu));
  if (port->lid)
    printf(", lid %u", port->lid);
  if (port->netdev[0])
    printf(", netdev %s", port->netdev);
  printf("\n");
  for (unsigned i = 0; i < FAB_GIDS; i++) {
    const struct fab_gid *gid = &port->gids[i];
    char text[INET6_ADDRSTRLEN];
    if (!gid->used || !inet_ntop(AF_INET6, gid->gid.raw, text, sizeof(text)))
      continue;
    printf("      gid %u: %s %s", i, text, gid_words[gid->type]);
    if (gid->vlan)
      printf(" vlan %u", gid->vlan);
    if (gid->ifindex)
      printf(" ifindex %u", gid->ifindex);
    printf("\n");
  }
}

static void show_srqs(const struct fab_device *device)
{
  for (uint32_t i = 0; i < fab->high[FAB_KIND_SRQ]; i++) {
    const struct fab_srq *srq = &fab->srq[i];
    if (srq->number && device == &fab->device[srq->device])
      printf("    SRQ %u: %u of %u receives are posted\n", srq->number,
             srq->ring.head - srq->ring.tail, srq->ring.room);
  }
}

static void show_device(const struct fab_device *device)
{
  printf("  device %s%s: %u QPs, %u CQs, %u MRs, %u PDs, %u SRQs\n", device->name,
         device->removed ? " (removed)" : "", device->objects[FAB_KIND_QP],
         device->objects[FAB_KIND_CQ], device->objects[FAB_KIND_MR], device->objects[FAB_KIND_PD],
         device->objects[FAB_KIND_SRQ]);
  show_srqs(device);
  for (unsigned p = 0; p < FAB_PORTS; p++) {
    if (device->ports[p].used)
      show_port(&device->ports[p], p + 1);
  }
}

static void show_host(uint32_t host)
{
  printf("host %s\n", fab->host[host]);
  for (uint32_t d = 0; d < fab->devices; d++) {
    if (fab->device[d].host == host)
      show_device(&fab->device[d]);
  }
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    const struct fab_process *process = &fab->process[i];
    if (process->state == FAB_SLOT_USED && process->host == host)
      printf("  process %d\n", (int)process->pid);
  }
}

static void show_target(const char *word, const struct fab_target *target)
{
  if (target->router)
    printf(" %s %s", word, fab->router[target->router - 1].name);
  if (!target->host)
    return;
  printf(" %s %s", word, fab->host[target->host - 1]);
  if (target->device)
    printf("/%s", fab->device[target->device - 1].name);
  if (target->port)
    printf("/%u", target->port);
}

static void show_fault(const struct fab_fault *fault)
{
  char text[64];
  bool done_once = fault->kind >= FAB_FAULT_PORT_DOWN;
  printf("fault %s", describe_fault_names[fault->kind - FAB_FAULT_DROP]);
  if (fault->kind == FAB_FAULT_QP_EVENT || fault->kind == FAB_FAULT_PORT_EVENT)
    printf(" %s", describe_event(fault->value));
  show_target("on", &fault->on);
  show_target("of", &fault->of);
  if (fault->qpn)
    printf(" qp 0x%x", fault->qpn);
  if (fault->after > done_once)
    printf(", after %lld", (long long)fault->after - done_once);
  if (!done_once && fault->left >= 0)
    printf(", %lld left", (long long)fault->left);
  if (fault->per_million < 1000000)
    printf(", share %g%%", fault->per_million / 1e4);
  if (fault->delay_ns) {
    value_print_duration(fault->delay_ns, text, sizeof(text));
    printf(", by %s", text);
  }
  uint64_t now = fab_clock_ns(fab);
  if (fault->at_ns > now)
    printf(", in %.3f s", (double)(fault->at_ns - now) / 1e9);
  if (fault->until_ns > now)
    printf(", ends in %.3f s", (double)(fault->until_ns - now) / 1e9);
  printf("\n");
}

void show_fabric(void)
{
  printf("fabric %s: %s engine, %s clock at %.9f s%s\n", fab->name,
         fab->engine == FAB_ENGINE_EAGER ? "eager" : "deferred", clock_words[fab->clock_kind],
         (double)fab_clock_ns(fab) / 1e9, fab->strict ? ", strict" : "");
  fab_reap_all();
  for (uint32_t h = 0; h < fab->hosts; h++)
    show_host(h);
  for (uint32_t r = 0; r < fab->routers; r++) {
    const struct fab_router *router = &fab->router[r];
    printf("router %s: %s, mtu %u, joins", router->name, router->up ? "up" : "down",
           show_mtu_bytes(router->mtu));
    for (uint32_t s = 0; s < fab->subnets; s++) {
      if (router->subnets >> s & 1)
        printf(" %s", fab->subnet[s].name);
    }
    printf("; %llu died of their hop limit\n", (unsigned long long)router->died_of_hop_limit);
  }
  for (uint32_t i = 0; i < fab->faults; i++) {
    if (fab->fault[i].kind >= FAB_FAULT_DROP)
      show_fault(&fab->fault[i]);
  }
}

static void show_port_counters(uint32_t d, unsigned p)
{
  const struct fab_device *device = &fab->device[d];
  for (unsigned i = 0; i < FAB_COUNTERS; i++)
    printf("%s/%s/%u %s %llu\n", fab->host[device->host], device->name, p + 1, fab_counter_names[i],
           (unsigned long long)device->ports[p].counters[i]);
}

/* Returns the total of a counter; only ports count messages and bytes, off the path of every
 * message. */
static unsigned long long show_total(unsigned counter)
{
  unsigned long long sum = 0;

  if (counter > FAB_RX_BYTES)
    return fab->counters[counter];
  for (uint32_t d = 0; d < fab->devices; d++)
    for (unsigned p = 0; p < FAB_PORTS; p++)
      sum += fab->device[d].ports[p].counters[counter];
  return sum;
}

void show_counters(const struct fab_target *of)
{
  if (!of->host) {
    for (unsigned i = 0; i < FAB_COUNTERS; i++)
      printf("%s %llu\n", fab_counter_names[i], show_total(i));
    return;
  }
  for (uint32_t d = 0; d < fab->devices; d++) {
    if (fab->device[d].host + 1 != of->host || (of->device && of->device != d + 1))
      continue;
    for (unsigned p = 0; p < FAB_PORTS; p++) {
      if (fab->device[d].ports[p].used && (!of->port || of->port == p + 1))
        show_port_counters(d, p);
    }
  }
}
