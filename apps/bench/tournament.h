/* SPDX-License-Identifier: Apache-2.0 */
/* A round-robin schedule: each pair of players once, and in a round each player has one partner at
 * most. */
#ifndef APP_BENCH_TOURNAMENT_H
#define APP_BENCH_TOURNAMENT_H

#include <stdint.h>

/* One fewer than the players, of an even number; as many as there are, of an odd one. 0: there are
 * fewer than two. */
uint32_t bench_tournament_rounds(uint32_t players);
/* The partner of `player` in `round`, counted from 0; `player` itself: it rests. */
uint32_t bench_tournament_partner(uint32_t players, uint32_t round, uint32_t player);

#endif
