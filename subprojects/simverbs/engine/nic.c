/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a process that does what cannot be done in a caller: timers, and everything that
 * another process has left for this one. */
#include "engine.h"

#include <errno.h>
#include <signal.h>

static void sim_nic_tell(struct sim_context *context, enum ibv_event_type type, void *element)
{
  struct ibv_async_event event = {.event_type = type};
  event.element.cq = element;
  sim_events_push(&context->async, &event);
}

static void sim_nic_tell_bits(struct ibv_context *context, _Atomic uint32_t *bits, void *element)
{
  uint32_t set = atomic_load_explicit(bits, memory_order_relaxed);
  if (!set)
    return;
  set = atomic_exchange(bits, 0);
  for (int type = 0; set; type++, set >>= 1) {
    if (set & 1)
      sim_nic_tell(sim_context_of(context), type, element);
  }
}

static void sim_nic_fail_users(const struct sim_cq *cq)
{
  struct sim_list *at;
  sim_list_each(at, &sim_self.qps)
  {
    struct sim_qp *qp = sim_container_of(at, struct sim_qp, link);
    if (qp->qp.send_cq != &cq->cq && qp->qp.recv_cq != &cq->cq)
      continue;
    struct fab_qp *entry = sim_fab_qp(qp);
    sim_qp_lock(entry);
    if (entry->state != IBV_QPS_RESET && entry->state != IBV_QPS_ERR) {
      sim_qp_fail(entry);
      atomic_fetch_or(&entry->async_bits, 1u << IBV_EVENT_QP_FATAL);
    }
    fab_unlock(&entry->lock);
  }
}

static void sim_nic_serve_cq(struct sim_cq *cq)
{
  struct fab_cq *entry = sim_fab_cq(cq);
  uint32_t events = atomic_load_explicit(&entry->event, memory_order_relaxed);
  if (events)
    events = atomic_exchange(&entry->event, 0);
  struct ibv_async_event event = {.element.cq = &cq->cq, .event_type = SIM_EVENT_COMPLETION};
  for (; events && cq->cq.channel; events--)
    sim_events_push(&sim_channel_of(cq->cq.channel)->events, &event);
  if (atomic_load(&entry->async_bits) & 1u << IBV_EVENT_CQ_ERR)
    sim_nic_fail_users(cq);
  sim_nic_tell_bits(cq->cq.context, &entry->async_bits, &cq->cq);
}

/* Runs the send queue if it is to be; the time at which it is to be again, or 0. */
static uint64_t sim_nic_serve_qp(struct sim_qp *qp)
{
  struct fab_qp *entry = sim_fab_qp(qp);
  struct sim_sq *sq = qp->sq;
  uint64_t wake = 0;
  if (sq && (atomic_load(&sq->waits) || atomic_load(&entry->attention))) {
    /* The process that holds it kicks again when it lets go. */
    atomic_store(&sq->attention, true);
    if (!pthread_mutex_trylock(&sq->lock)) {
      atomic_store(&entry->attention, 0);
      sim_sq_run(qp);
      wake = sim_sq_wake(sq);
      const uint64_t late = sq->delayed_write ? sim_delayed_write_due(qp) : 0;
      atomic_store(&sq->waits, sq->next != sq->head || sq->delayed_write);
      if (late && (!wake || late < wake))
        wake = late;
      atomic_store(&sq->attention, false);
      pthread_mutex_unlock(&sq->lock);
    }
  }
  sim_nic_tell_bits(qp->qp.context, &entry->async_bits, &qp->qp);
  return wake;
}

/* Reports the events that a fault has made the port raise. */
static void sim_nic_serve_told(struct sim_context *context, unsigned p)
{
  const struct fab_port *port = &fab->device[context->device->number].ports[p];
  for (unsigned e = 0; e < SIM_EVENTS; e++) {
    for (uint32_t told = port->told[e]; context->told_seen[p][e] != told;
         context->told_seen[p][e]++) {
      struct ibv_async_event event = {.event_type = e, .element.port_num = (int)p + 1};
      sim_events_push(&context->async, &event);
    }
  }
}

static void sim_nic_serve_ports(struct sim_context *context)
{
  struct fab_device *device = &fab->device[context->device->number];
  for (unsigned p = 0; p < FAB_PORTS; p++) {
    struct fab_port *port = &device->ports[p];
    bool was = context->port_seen >> p & 1;
    bool is = port->used && port->up && !device->removed;
    sim_nic_serve_told(context, p);
    if (was == is)
      continue;
    context->port_seen ^= UINT64_C(1) << p;
    struct ibv_async_event event = {.event_type = is ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
                                    .element.port_num = (int)p + 1};
    sim_events_push(&context->async, &event);
  }
  if (!device->removed || context->removed)
    return;
  context->removed = true;
  struct ibv_async_event event = {.event_type = IBV_EVENT_DEVICE_FATAL};
  sim_events_push(&context->async, &event);
}

static void sim_nic_fail_removed(struct sim_qp *qp)
{
  if (!sim_fab_device(qp->qp.context)->removed)
    return;
  struct fab_qp *entry = sim_fab_qp(qp);
  sim_qp_lock(entry);
  if (entry->state != IBV_QPS_RESET)
    sim_qp_fail(entry);
  fab_unlock(&entry->lock);
}

/* Everything once; the earliest time at which something is due, or 0. */
static uint64_t sim_nic_serve(void)
{
  uint64_t earliest = 0;
  uint32_t unanswered = 0;
  struct sim_list *at;
  pthread_mutex_lock(&sim_self.lock);
  sim_list_each(at, &sim_self.contexts)
      sim_nic_serve_ports(sim_container_of(at, struct sim_context, link));
  sim_list_each(at, &sim_self.qps)
  {
    struct sim_qp *qp = sim_container_of(at, struct sim_qp, link);
    sim_nic_fail_removed(qp);
    uint64_t wake = sim_nic_serve_qp(qp);
    unanswered += qp->sq && atomic_load(&qp->sq->waits);
    if (wake && (!earliest || wake < earliest))
      earliest = wake;
  }
  sim_list_each(at, &sim_self.srqs)
  {
    struct sim_srq *srq = sim_container_of(at, struct sim_srq, link);
    sim_nic_tell_bits(srq->srq.context, &sim_fab_srq(srq)->async_bits, &srq->srq);
  }
  sim_list_each(at, &sim_self.cqs) sim_nic_serve_cq(sim_container_of(at, struct sim_cq, link));
  atomic_store(&fab->process[fab_slot].unanswered, unanswered);
  pthread_mutex_unlock(&sim_self.lock);
  return earliest;
}

static void *sim_nic_run(void *unused)
{
  (void)unused;
  while (!atomic_load(&sim_self.nic_stop)) {
    uint32_t seen = atomic_load(&fab->process[fab_slot].doorbell);
    /* A sleep that nothing ended. */
    if (!fab_sleep(seen, sim_nic_serve()))
      fab_patrol();
  }
  atomic_store(&fab->process[fab_slot].serves, 0);
  return NULL;
}

int sim_nic_start(void)
{
  pthread_mutex_lock(&sim_self.lock);
  int error = 0;
  if (!sim_self.nic_runs) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_store(&sim_self.nic_stop, false);
    /* Before the thread first runs: a manual clock waits for what is posted until then, too. */
    atomic_store(&fab->process[fab_slot].serves, 1);
    error = pthread_create(&sim_self.nic, NULL, sim_nic_run, NULL);
    if (error)
      atomic_store(&fab->process[fab_slot].serves, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
      pthread_setname_np(sim_self.nic, "simverbs-nic");
    sim_self.nic_runs = !error;
  }
  pthread_mutex_unlock(&sim_self.lock);
  return error;
}

void sim_nic_stop(void)
{
  if (!sim_self.nic_runs)
    return;
  atomic_store(&sim_self.nic_stop, true);
  fab_kick(fab_slot);
  pthread_join(sim_self.nic, NULL);
  sim_self.nic_runs = false;
}
