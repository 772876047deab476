/* SPDX-License-Identifier: Apache-2.0 */
/* Faults: planted by the description or by `penstock-simverbs ctl`, met where data passes. */
#include "fabric.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t fab_random(void)
{
  static _Atomic uint64_t state = 0x9e3779b97f4a7c15u;
  uint64_t x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15u);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static bool fab_fault_is_done_once(uint32_t kind)
{
  return kind >= FAB_FAULT_PORT_DOWN;
}

static bool fab_fault_matches(const struct fab_fault *fault, uint32_t device, uint32_t qpn)
{
  const struct fab_target *of = &fault->of;
  return (!of->host || of->host == fab->device[device].host + 1) &&
         (!of->device || of->device == device + 1) && (!fault->qpn || fault->qpn == qpn);
}

/* Takes one of what is left; false once there is nothing. */
static bool fab_fault_take(struct fab_fault *fault)
{
  int64_t left = atomic_load(&fault->left);
  while (left > 0) {
    if (atomic_compare_exchange_weak(&fault->left, &left, left - 1))
      return true;
  }
  return left < 0;
}

/* False once so many have been passed. */
static bool fab_fault_passes(struct fab_fault *fault)
{
  return atomic_load(&fault->after) > 0 && atomic_fetch_sub(&fault->after, 1) > 0;
}

static bool fab_fault_is_in_time(const struct fab_fault *fault)
{
  if (!fault->at_ns && !fault->until_ns)
    return true;
  uint64_t now = fab_clock_ns(fab);
  return now >= fault->at_ns && (!fault->until_ns || now < fault->until_ns);
}

/* ---- what is done once ---- */

static void fab_fault_set_up(struct fab_port *port, int up)
{
  atomic_store(&port->up, up);
}

static void fab_fault_set_cut(struct fab_port *port, int cut)
{
  atomic_store(&port->cut, cut);
}

static void fab_fault_tell(struct fab_port *port, int event)
{
  atomic_fetch_add(&port->told[event], 1);
}

/* Changes the port's attributes, before the event that reports them. */
static void fab_fault_change(struct fab_port *port, const struct fab_fault *to)
{
  if (to->mtu)
    port->mtu = to->mtu;
  if (to->lid) {
    port->lid = to->lid;
    fab_fault_tell(port, IBV_EVENT_LID_CHANGE);
  }
  if (to->gid.used) {
    struct fab_gid *gid = &port->gids[to->gid_index];
    const uint16_t vlan = gid->vlan;
    *gid = to->gid;
    gid->vlan = vlan;
    fab_fault_tell(port, IBV_EVENT_GID_CHANGE);
  }
}

static void fab_fault_each_port(const struct fab_target *on,
                                void (*set)(struct fab_port *port, int value), int value)
{
  for (uint32_t d = 0; d < fab->devices; d++) {
    if ((on->host && on->host != fab->device[d].host + 1) || (on->device && on->device != d + 1))
      continue;
    for (unsigned p = 1; p <= FAB_PORTS; p++) {
      struct fab_port *port = fab_port_of(d, p);
      if (port && (!on->port || on->port == p))
        set(port, value);
    }
  }
}

static uint32_t fab_fault_reverse_of(uint32_t kind)
{
  switch (kind) {
  case FAB_FAULT_PORT_DOWN:
    return FAB_FAULT_PORT_UP;
  case FAB_FAULT_LOSE_PEER:
    return FAB_FAULT_RESTORE_PEER;
  case FAB_FAULT_REMOVE_DEVICE:
    return FAB_FAULT_RESTORE_DEVICE;
  default:
    return FAB_FAULT_ROUTER_UP;
  }
}

static void fab_fault_set_router(const struct fab_target *on, bool up)
{
  fab_lock(&fab->lock);
  atomic_store(&fab->router[on->router - 1].up, up);
  fab_routes_changed(fab);
  fab_unlock(&fab->lock);
}

static void fab_fault_perform(uint32_t kind, const struct fab_fault *fault)
{
  const struct fab_target *on = &fault->on;
  switch (kind) {
  case FAB_FAULT_PORT_DOWN:
  case FAB_FAULT_PORT_UP:
    fab_fault_each_port(on, fab_fault_set_up, kind == FAB_FAULT_PORT_UP);
    break;
  case FAB_FAULT_LOSE_PEER:
  case FAB_FAULT_RESTORE_PEER:
    fab_fault_each_port(on, fab_fault_set_cut, kind == FAB_FAULT_LOSE_PEER);
    break;
  case FAB_FAULT_REMOVE_DEVICE:
  case FAB_FAULT_RESTORE_DEVICE:
    atomic_store(&fab->device[on->device - 1].removed, kind == FAB_FAULT_REMOVE_DEVICE);
    break;
  case FAB_FAULT_ROUTER_DOWN:
  case FAB_FAULT_ROUTER_UP:
    fab_fault_set_router(on, kind == FAB_FAULT_ROUTER_UP);
    break;
  case FAB_FAULT_PORT_EVENT:
    fab_fault_each_port(on, fab_fault_tell, fault->value);
    break;
  case FAB_FAULT_PORT_SET:
    fab_fault_change(fab_port_of(on->device - 1u, on->port), fault);
    break;
  default:
    break;
  }
  fab_log(2, "fault %u applies to host %u device %u port %u router %u (0: all)", kind, on->host,
          on->device, on->port, on->router);
  atomic_fetch_add(&fab->topology, 1);
  fab_kick_all();
}

static void fab_fault_ring(void)
{
  atomic_fetch_add(&fab->script_bell, 1);
  syscall(SYS_futex, &fab->script_bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Does it, once among all processes; what ends by itself becomes its own reverse. */
static void fab_fault_perform_once(struct fab_fault *fault, uint64_t now)
{
  uint32_t kind = atomic_load(&fault->kind);
  if (!fab_fault_is_done_once(kind) ||
      !atomic_compare_exchange_strong(&fault->kind, &kind, FAB_FAULT_CLAIMED))
    return;
  fab_fault_perform(kind, fault);
  if (!fault->for_ns) {
    atomic_store(&fault->kind, FAB_FAULT_NONE);
    return;
  }
  fault->at_ns = now + fault->for_ns;
  fault->for_ns = 0;
  atomic_store(&fault->after, 0);
  atomic_store(&fault->kind, fab_fault_reverse_of(kind));
  fab_fault_ring();
}

uint64_t fab_script_run(void)
{
  uint64_t next = 0;
  uint32_t count = atomic_load(&fab->faults);
  for (uint32_t i = 0; i < count; i++) {
    struct fab_fault *fault = &fab->fault[i];
    if (!fab_fault_is_done_once(atomic_load(&fault->kind)) || atomic_load(&fault->after) > 0)
      continue;
    uint64_t now = fab_clock_ns(fab), due = fault->at_ns;
    if (due <= now) {
      fab_fault_perform_once(fault, due ? due : now);
      due = fab_fault_is_done_once(atomic_load(&fault->kind)) ? fault->at_ns : 0;
    }
    if (due && (!next || due < next))
      next = due;
  }
  return next;
}

/* A message counts for what is done after so many, which happens as the next one comes: `after` is
 * one more than was said. */
static void fab_fault_count_message(struct fab_fault *fault, uint32_t device)
{
  if (atomic_load(&fault->after) > 0 && fab_fault_matches(fault, device, 0) &&
      atomic_fetch_sub(&fault->after, 1) == 1)
    fab_fault_perform_once(fault, fab_clock_ns(fab));
}

/* ---- asked for where data passes ---- */

static bool fab_fault_is_hit(struct fab_fault *fault, uint32_t device, uint32_t qpn)
{
  return fab_fault_matches(fault, device, qpn) && fab_fault_is_in_time(fault) &&
         !fab_fault_passes(fault) &&
         (fault->per_million >= 1000000 || fab_random() % 1000000 < fault->per_million) &&
         fab_fault_take(fault);
}

bool fab_fault_hits(enum fab_fault_kind kind, uint32_t device, uint32_t qpn, uint64_t *delay_ns,
                    int *value)
{
  uint32_t count = atomic_load_explicit(&fab->faults, memory_order_acquire);
  bool hit = false;
  for (uint32_t i = 0; i < count; i++) {
    struct fab_fault *fault = &fab->fault[i];
    uint32_t is = atomic_load_explicit(&fault->kind, memory_order_acquire);
    if (kind == FAB_FAULT_DROP && fab_fault_is_done_once(is))
      fab_fault_count_message(fault, device);
    if (hit || is != (uint32_t)kind || !fab_fault_is_hit(fault, device, qpn))
      continue;
    hit = true;
    if (delay_ns)
      *delay_ns = fault->delay_ns;
    if (value)
      *value = fault->value;
  }
  return hit;
}

/* ---- planting ---- */

/* Nothing of it can happen any more. */
static bool fab_fault_is_over(const struct fab_fault *fault)
{
  uint32_t kind = atomic_load(&fault->kind);
  if (kind == FAB_FAULT_NONE || kind == FAB_FAULT_CLAIMED)
    return kind == FAB_FAULT_NONE;
  if (fab_fault_is_done_once(kind))
    return false;
  return !atomic_load(&fault->left) || (fault->until_ns && fab_clock_ns(fab) >= fault->until_ns);
}

static struct fab_fault *fab_fault_claim(void)
{
  for (uint32_t i = 0; i < FAB_FAULTS; i++) {
    struct fab_fault *fault = &fab->fault[i];
    uint32_t kind = atomic_load(&fault->kind);
    if (!fab_fault_is_over(fault) ||
        !atomic_compare_exchange_strong(&fault->kind, &kind, FAB_FAULT_CLAIMED))
      continue;
    uint32_t count = atomic_load(&fab->faults);
    while (count <= i && !atomic_compare_exchange_weak(&fab->faults, &count, i + 1))
      ;
    return fault;
  }
  return NULL;
}

int fab_fault_plant(const struct fab_fault *fault)
{
  struct fab_fault *entry = fab_fault_claim();
  if (!entry)
    return ENOSPC;
  entry->of = fault->of;
  entry->on = fault->on;
  entry->qpn = fault->qpn;
  entry->per_million = fault->per_million;
  entry->value = fault->value;
  int64_t after = atomic_load(&fault->after);
  bool counts = after && fab_fault_is_done_once(atomic_load(&fault->kind));
  atomic_store(&entry->after, after + counts);
  atomic_store(&entry->left, atomic_load(&fault->left));
  entry->delay_ns = fault->delay_ns;
  entry->at_ns = fault->at_ns;
  entry->until_ns = fault->until_ns;
  entry->for_ns = fault->for_ns;
  entry->lid = fault->lid;
  entry->mtu = fault->mtu;
  entry->gid_index = fault->gid_index;
  entry->gid = fault->gid;
  atomic_store(&entry->kind, atomic_load(&fault->kind));
  fab_script_run();
  fab_fault_ring();
  return 0;
}

void fab_fault_clear(void)
{
  for (uint32_t i = 0; i < FAB_FAULTS; i++) {
    uint32_t kind = atomic_load(&fab->fault[i].kind);
    if (kind != FAB_FAULT_CLAIMED)
      atomic_compare_exchange_strong(&fab->fault[i].kind, &kind, FAB_FAULT_NONE);
  }
}

/* ---- a manual clock ---- */

void fab_kick_all(void)
{
  for (uint32_t i = 0; i < FAB_PROCESSES; i++) {
    if (atomic_load(&fab->process[i].state) == FAB_SLOT_USED)
      fab_kick(i);
  }
}

void fab_clock_advance(uint64_t ns)
{
  fab_await_idle();
  uint64_t end = fab_clock_ns(fab) + ns;
  for (uint64_t next; (next = fab_script_run()) && next <= end;)
    atomic_store(&fab->clock_base_ns, (int64_t)next);
  atomic_store(&fab->clock_base_ns, (int64_t)end);
  fab_script_run();
  fab_kick_all();
}
