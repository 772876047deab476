/* SPDX-License-Identifier: Apache-2.0 */
/* Receive slots: free, arrived, or out with the host by a token. */
#include <errno.h>
#include <stdlib.h>

#include "template.h"

void template_path(struct pst_path_info *path)
{
  const struct pst_path_info made = {.path = PST_PATH_DIRECT, .via = "memcpy", .carrier = "memory"};
  pst_struct_write(path, &made, sizeof(made));
}

static bool fits(const struct pst_ring_params *params)
{
  uint64_t length = params->mr->length, slot = params->payload_max;
  if (params->slots == 0 || params->slots > SLOTS_MAX || params->endpoints > 1 ||
      !(params->mr->access & PST_ACCESS_LOCAL_WRITE) || params->base > length || slot > MESSAGE_MAX)
    return false;
  slot += (uint64_t)params->headroom + params->tailroom;
  if (params->stride < slot || slot > length - params->base)
    return false;
  /* The last slot need not be a whole stride long. */
  return params->slots == 1 ||
         params->stride <= (length - params->base - slot) / (params->slots - 1);
}

int template_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                       struct pst_path_info *path, struct pst_ring **ring)
{
  if (!fits(params))
    return template_refuse(worker->device, -EINVAL, "a ring's slots do not fit: see limits");
  struct pst_ring *made = calloc(1, sizeof(*made));
  uint32_t *free_slots = calloc(params->slots, sizeof(*free_slots));
  bool *is_out = calloc(params->slots, sizeof(*is_out));
  struct arrival *arrived = calloc(params->slots, sizeof(*arrived));
  if (!made || !free_slots || !is_out || !arrived) {
    free(made);
    free(free_slots);
    free(is_out);
    free(arrived);
    return template_refuse(worker->device, -ENOMEM, "no memory for a ring; ask for fewer slots");
  }
  *made = (struct pst_ring){.next = worker->rings,
                            .number = worker->rings_opened++,
                            .free = free_slots,
                            .free_count = params->slots,
                            .is_out = is_out,
                            .arrived = arrived};
  pst_struct_read(&made->params, sizeof(made->params), params);
  for (uint32_t i = 0; i < params->slots; i++)
    free_slots[i] = params->slots - 1 - i;
  worker->rings = made;
  template_path(path);
  *ring = made;
  return 0;
}

void template_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  struct pst_ring **at = &worker->rings;
  if (!ring)
    return;
  while (*at != ring)
    at = &(*at)->next;
  *at = ring->next;
  free(ring->free);
  free(ring->is_out);
  free(ring->arrived);
  free(ring);
}

int template_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  int rc = 0;
  pthread_mutex_lock(&template_lock);
  for (uint32_t i = 0; i < n && rc == 0; i++) {
    uint32_t slot = (uint32_t)tokens[i];
    struct pst_ring *ring = worker->rings;
    while (ring && ring->number != tokens[i] >> 32)
      ring = ring->next;
    if (!ring || slot >= ring->params.slots || !ring->is_out[slot]) {
      rc = -EINVAL;
      continue;
    }
    ring->is_out[slot] = false;
    ring->free[ring->free_count++] = slot;
  }
  pthread_mutex_unlock(&template_lock);
  return rc ? template_refuse(worker->device, rc, "a token that is not out was given back") : 0;
}
