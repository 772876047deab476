/* SPDX-License-Identifier: Apache-2.0 */
/* Destroys the objects that a program leaves alive when it closes its device, as the kernel does,
 * in the order in which one object uses the other. Domains, address handles and channels affect no
 * other process and end with this one. */
#include "engine/engine.h"

#include <stdlib.h>

/* The first of a list of the process that is this context's. */
#define FIRST(type, list, context_of_it)                                                           \
  static struct type *sim_reclaim_first_##type(const struct ibv_context *context)                  \
  {                                                                                                \
    struct type *found = NULL;                                                                     \
    struct sim_list *at;                                                                           \
    pthread_mutex_lock(&sim_self.lock);                                                            \
    sim_list_each(at, list)                                                                        \
    {                                                                                              \
      struct type *object = sim_container_of(at, struct type, link);                               \
      if (!found && object->context_of_it == context)                                              \
        found = object;                                                                            \
    }                                                                                              \
    pthread_mutex_unlock(&sim_self.lock);                                                          \
    return found;                                                                                  \
  }

FIRST(sim_qp, &sim_self.qps, qp.context)
FIRST(sim_srq, &sim_self.srqs, srq.context)
FIRST(sim_cq, &sim_self.cqs, cq.context)
FIRST(sim_mr, &sim_context_of((struct ibv_context *)context)->regions, mr.context)
FIRST(sim_mw, &sim_context_of((struct ibv_context *)context)->windows, mw.context)

/* Nobody will acknowledge events any more: destroying must not wait for it. */
static void sim_reclaim_forgive(pthread_mutex_t *mutex, uint32_t *completed, uint32_t given)
{
  pthread_mutex_lock(mutex);
  *completed = given;
  pthread_mutex_unlock(mutex);
}

static int sim_reclaim_cq(struct sim_cq *cq)
{
  void *front = cq->front;
  sim_reclaim_forgive(&cq->cq.mutex, &cq->cq.comp_events_completed, cq->events_given);
  sim_reclaim_forgive(&cq->cq.mutex, &cq->cq.async_events_completed, cq->async_given);
  int error = sim_cq_destroy(cq);
  if (!error)
    free(front);
  return error;
}

static int sim_reclaim_qp(struct sim_qp *qp)
{
  void *front = qp->front;
  sim_reclaim_forgive(&qp->qp.mutex, &qp->qp.events_completed, qp->async_given);
  int error = sim_qp_destroy(qp);
  if (!error)
    free(front);
  return error;
}

void sim_reclaim(struct sim_context *context)
{
  struct ibv_context *verbs = &context->verbs.context;
  struct sim_qp *qp;
  struct sim_srq *srq;
  struct sim_cq *cq;
  struct sim_mw *mw;
  struct sim_mr *mr;
  while ((qp = sim_reclaim_first_sim_qp(verbs)) && !sim_reclaim_qp(qp))
    ;
  while ((srq = sim_reclaim_first_sim_srq(verbs))) {
    sim_reclaim_forgive(&srq->srq.mutex, &srq->srq.events_completed, srq->async_given);
    if (sim_srq_destroy(srq))
      break;
  }
  while ((cq = sim_reclaim_first_sim_cq(verbs)) && !sim_reclaim_cq(cq))
    ;
  while ((mw = sim_reclaim_first_sim_mw(verbs)) && !sim_mw_free(mw))
    ;
  while ((mr = sim_reclaim_first_sim_mr(verbs)) && !sim_mr_dereg(mr))
    ;
}
