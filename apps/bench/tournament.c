/* SPDX-License-Identifier: Apache-2.0 */
/* A round-robin tournament by the circle method. */
#include "tournament.h"

uint32_t bench_tournament_rounds(uint32_t players)
{
  return players < 2 ? 0 : players - 1 + players % 2;
}

/* All players but the last of an even number sit on a circle. In a round, those meet whose numbers
 * add up to the round's, modulo the circle. A player that would meet itself meets the last one, or
 * rests if there is none. */
uint32_t bench_tournament_partner(uint32_t players, uint32_t round, uint32_t player)
{
  const uint64_t circle = bench_tournament_rounds(players);
  const uint32_t last = (uint32_t)circle;
  uint32_t partner;

  if (circle == 0)
    return player;
  if (player == last) /* half of the round's number, where an odd one has a half as well */
    partner = (uint32_t)(round * ((circle + 1) / 2) % circle);
  else
    partner = (uint32_t)((round + circle - player) % circle);
  if (partner == player)
    partner = last;
  return partner < players ? partner : player;
}
