/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of endpoints of this router. The router closes a dead client's endpoints in order, so the
 * transport reports no death. The router notes it here, and reports it to the peer. */
#include <stdlib.h>

#include "worker.h"

static uint64_t share_life_hash(const unsigned char *bytes, uint32_t length)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

  for (uint32_t i = 0; i < length; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash ^ (uint64_t)length << 48;
}

void share_life_address(struct share_endpoint *endpoint, const void *bytes, uint32_t length)
{
  struct pst_share *share = endpoint->worker->client->share;
  struct share_life *life = endpoint->life;

  pthread_mutex_lock(&share->lives_lock);
  if (!life) {
    life = calloc(1, sizeof(*life));
    if (life) {
      life->uses = 1;
      life->next = share->lives;
      share->lives = life;
    }
    endpoint->life = life;
  }
  if (life)
    life->address = share_life_hash(bytes, length);
  pthread_mutex_unlock(&share->lives_lock);
}

/* Call with the lock. */
static void share_life_unuse(struct pst_share *share, struct share_life *life)
{
  if (!life || --life->uses > 0)
    return;
  for (struct share_life **at = &share->lives; *at; at = &(*at)->next)
    if (*at == life) {
      *at = life->next;
      break;
    }
  free(life);
}

void share_life_connect(struct share_endpoint *endpoint, const void *bytes, uint32_t length)
{
  struct pst_share *share = endpoint->worker->client->share;
  const uint64_t address = share_life_hash(bytes, length);
  struct share_life *life;

  pthread_mutex_lock(&share->lives_lock);
  for (life = share->lives; life && life->address != address; life = life->next)
    ;
  if (life)
    life->uses++;
  share_life_unuse(share, endpoint->peer);
  endpoint->peer = life;
  pthread_mutex_unlock(&share->lives_lock);
}

void share_life_end(struct share_endpoint *endpoint)
{
  struct pst_share *share = endpoint->worker->client->share;

  pthread_mutex_lock(&share->lives_lock);
  if (endpoint->life)
    endpoint->life->address = 0;
  share_life_unuse(share, endpoint->life);
  share_life_unuse(share, endpoint->peer);
  pthread_mutex_unlock(&share->lives_lock);
}
