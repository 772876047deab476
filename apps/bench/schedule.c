/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds by a round-robin tournament, whose pairs wait while others use what they share. */
#include "schedule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tournament.h"

#define DEVICE_MAX 100

struct schedule_pair {
  uint16_t a, b;
};

struct schedule_player {
  bool has_gone;
  uint32_t round; /* the last in which it met anybody */
  uint32_t *uses; /* indices of schedule.uses */
  uint32_t use_count;
};

struct schedule_use {
  char *name;
  uint32_t round; /* the last in which anybody used it */
};

int bench_schedule_open(struct schedule *schedule, uint32_t players)
{
  const size_t pairs = (size_t)players * (players - 1) / 2;

  *schedule = (struct schedule){.players = players};
  schedule->of = calloc(players, sizeof(*schedule->of));
  schedule->left = calloc(pairs + 1, sizeof(*schedule->left));
  if (!schedule->of || !schedule->left)
    return -ENOMEM;
  for (uint32_t round = 0; round < bench_tournament_rounds(players); round++) {
    for (uint32_t a = 0; a < players; a++) {
      const uint32_t b = bench_tournament_partner(players, round, a);
      if (a < b)
        schedule->left[schedule->left_count++] =
            (struct schedule_pair){.a = (uint16_t)a, .b = (uint16_t)b};
    }
  }
  return 0;
}

void bench_schedule_close(struct schedule *schedule)
{
  for (uint32_t i = 0; schedule->of && i < schedule->players; i++)
    free(schedule->of[i].uses);
  for (uint32_t i = 0; i < schedule->use_count; i++)
    free(schedule->uses[i].name);
  free(schedule->of);
  free(schedule->uses);
  free(schedule->left);
  *schedule = (struct schedule){.players = 0};
}

/* The index of `name`, which is new or not. -ENOMEM. */
static int64_t bench_schedule_name(struct schedule *schedule, const char *name)
{
  for (uint32_t i = 0; i < schedule->use_count; i++)
    if (strcmp(schedule->uses[i].name, name) == 0)
      return i;
  if (schedule->use_count == schedule->use_room) {
    const uint32_t room = 2 * schedule->use_room + 16;
    struct schedule_use *uses = realloc(schedule->uses, room * sizeof(*uses));
    if (!uses)
      return -ENOMEM;
    schedule->uses = uses;
    schedule->use_room = room;
  }
  char *copy = strdup(name);
  if (!copy)
    return -ENOMEM;
  schedule->uses[schedule->use_count] = (struct schedule_use){.name = copy};
  return schedule->use_count++;
}

static int bench_schedule_use(struct schedule *schedule, uint32_t player, const char *name)
{
  struct schedule_player *of = &schedule->of[player];
  const int64_t use = bench_schedule_name(schedule, name);

  if (use < 0)
    return (int)use;
  uint32_t *uses = realloc(of->uses, (of->use_count + 1) * sizeof(*uses));
  if (!uses)
    return -ENOMEM;
  of->uses = uses;
  of->uses[of->use_count++] = (uint32_t)use;
  return 0;
}

int bench_schedule_share(struct schedule *schedule, uint32_t player, const char *host,
                         const char *list)
{
  char name[256];
  int rc = 0;

  while (list[0] != '\0' && rc == 0) {
    const size_t length = strcspn(list, ",");
    snprintf(name, sizeof(name), "%.100s\n%.*s", host,
             (int)(length < DEVICE_MAX ? length : DEVICE_MAX), list);
    rc = bench_schedule_use(schedule, player, name);
    list += length + (list[length] == ',');
  }
  return rc;
}

void bench_schedule_lose(struct schedule *schedule, uint32_t player)
{
  schedule->of[player].has_gone = true;
}

static bool bench_schedule_is_free(const struct schedule *schedule, uint32_t player)
{
  const struct schedule_player *of = &schedule->of[player];

  if (of->round == schedule->round)
    return false;
  for (uint32_t i = 0; i < of->use_count; i++)
    if (schedule->uses[of->uses[i]].round == schedule->round)
      return false;
  return true;
}

static void bench_schedule_take(struct schedule *schedule, uint32_t player)
{
  struct schedule_player *of = &schedule->of[player];

  of->round = schedule->round;
  for (uint32_t i = 0; i < of->use_count; i++)
    schedule->uses[of->uses[i]].round = schedule->round;
}

bool bench_schedule_next(struct schedule *schedule, uint32_t *partners)
{
  size_t kept = 0;
  bool any = false;

  schedule->round++;
  for (uint32_t i = 0; i < schedule->players; i++)
    partners[i] = i;
  /* First come, first served. Where nothing is shared this gives the tournament's own rounds. */
  for (size_t i = 0; i < schedule->left_count; i++) {
    const struct schedule_pair pair = schedule->left[i];
    if (schedule->of[pair.a].has_gone || schedule->of[pair.b].has_gone)
      continue;
    /* The two of a pair may share: their measurement is one. */
    if (!bench_schedule_is_free(schedule, pair.a) || !bench_schedule_is_free(schedule, pair.b)) {
      schedule->left[kept++] = pair;
      continue;
    }
    bench_schedule_take(schedule, pair.a);
    bench_schedule_take(schedule, pair.b);
    partners[pair.a] = pair.b;
    partners[pair.b] = pair.a;
    any = true;
  }
  schedule->left_count = kept;
  return any;
}
