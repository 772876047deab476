/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of --all-pairs: each pair of ranks meets once, and in a round no rank, no adapter and
 * no GPU is in two measurements. */
#ifndef APP_BENCH_SCHEDULE_H
#define APP_BENCH_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schedule {
  uint32_t players;
  struct schedule_pair *left; /* that have not met, in the order of a tournament */
  size_t left_count;
  uint32_t round; /* the last one, from 1 */
  struct schedule_player *of;
  struct schedule_use *uses; /* what players share */
  uint32_t use_count, use_room;
};

/* Open a schedule of at most 65536 players, none of which shares anything. 0 or -ENOMEM; close in
 * any case. */
int bench_schedule_open(struct schedule *schedule, uint32_t players);
void bench_schedule_close(struct schedule *schedule);
/* The player measures with the devices of `host` that `list` names, "a,b", or with none, "". Each
 * device has one user in a round. Players that name the same device of the same host share it; to
 * name it twice is legal. 0 or -ENOMEM. */
int bench_schedule_share(struct schedule *schedule, uint32_t player, const char *host,
                         const char *list);
/* Removes a player that has gone: its pairs that have not met do not meet. */
void bench_schedule_lose(struct schedule *schedule, uint32_t player);
/* The next round: partners[player], of as many as there are players; the player itself: it rests.
 * False: all have met. */
bool bench_schedule_next(struct schedule *schedule, uint32_t *partners);

#endif
