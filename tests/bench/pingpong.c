/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency as ib_write_lat measures it, by nodes of this library: two processes write to
 * each other in turn, each looking at the last byte of its own region until it changes;
 * half a round trip is shown. It needs a CPU that sees what is written to its region, in
 * order.
 *
 * usage: bench-pingpong first|second DEVICE SIZE COUNT PORT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <penstock/penstock.h>

enum {
  PLACES = 64,
  REAP = 16, /* completions are taken when so many are under way: only the answer is urgent */
  LOOKS = 1 << 14,
  CALLS = 1000,
};

struct game {
  struct pst_node *node;
  struct pst_peer *peer;
  struct pst_area *from, *to; /* what is written from, and what the other end writes to */
  uint32_t there;             /* the other end's region; 0: not on offer yet */
  int is_offered, has_left, calls;
  char address[64];
  unsigned long size, count;
  uint8_t *own;
  const volatile uint8_t *last; /* byte of what the other end writes */
  uint64_t under_way;
  uint64_t *starts; /* of rounds, and when the last has ended: ticks */
  double tick_ns;
};

static int open_area(struct game *game, unsigned long length, struct pst_area **area,
                     uint8_t **bytes)
{
  const struct pst_area_params params = {.struct_size = sizeof(params), .length = length};
  struct pst_range range = {.struct_size = sizeof(range)};
  struct pst_error error = PST_ERROR_INIT;
  int rc = pst_node_alloc(game->node, &params, area, &error);

  if (rc < 0)
    return rc;
  pst_area_range(*area, &range);
  *bytes = range.host;
  return 0;
}

/* The other is started at the same time, and may not listen yet. */
static int call(struct game *game)
{
  const struct timespec pause = {.tv_nsec = 10000000};
  struct pst_error error = PST_ERROR_INIT;

  if (game->calls++)
    nanosleep(&pause, NULL);
  return pst_node_connect(game->node, game->address, &game->peer, &error);
}

static int open_game(struct game *game, char **argv)
{
  const struct pst_setting device = {"device", argv[2]};
  struct pst_node_params params = {.struct_size = sizeof(params),
                                   .transport = "verbs_rc",
                                   .transport_options = &device,
                                   .transport_option_count = 1,
                                   .peers = 2}; /* one that was refused, and the next call */
  struct pst_error error = PST_ERROR_INIT;
  uint8_t *to = NULL;
  int second = strcmp(argv[1], "second") == 0;

  snprintf(game->address, sizeof(game->address), "127.0.0.1:%s", argv[5]);
  params.listen = second ? game->address : NULL;
  int rc = pst_node_open(&params, &game->node, &error);
  if (rc == 0)
    rc = open_area(game, game->size * PLACES, &game->from, &game->own);
  if (rc == 0)
    rc = open_area(game, game->size, &game->to, &to);
  if (rc < 0)
    return rc;
  game->last = to + game->size - 1;
  return second ? 0 : call(game);
}

static int take(struct game *game, const struct pst_node_event *event)
{
  uint32_t id;

  switch (event->kind) {
  case PST_NODE_JOINED:
    game->peer = event->peer;
    return pst_peer_offer(game->peer, game->to, 0, game->size, PST_ACCESS_REMOTE_WRITE, &id);
  case PST_NODE_OFFERED:
    game->there = event->id;
    return 0;
  case PST_NODE_TAKEN:
    game->is_offered = 1;
    return event->status;
  case PST_NODE_DONE:
    game->under_way--;
    return event->status;
  case PST_NODE_LEFT:
    if (event->status == -ECONNREFUSED && game->calls && game->calls < CALLS)
      return call(game);
    game->has_left = 1;
    return event->status;
  default:
    return 0;
  }
}

static int look(struct game *game)
{
  struct pst_node_event events[16];
  int n = pst_node_poll(game->node, events, 16);
  int rc = n < 0 ? n : 0;

  for (int i = 0; i < n && rc >= 0; i++)
    rc = take(game, &events[i]);
  return rc;
}

/* Each has the other's region. */
static int both_connected(struct game *game)
{
  int rc = 0;

  while (rc >= 0 && !(game->there && game->is_offered))
    rc = look(game);
  return rc;
}

static int write_there(struct game *game, uint64_t turn)
{
  uint64_t place = turn % PLACES * game->size;
  const struct pst_operation write = {.op = PST_OP_WRITE,
                                      .id = game->there,
                                      .area = game->from,
                                      .offset = place,
                                      .length = game->size};
  int rc;

  game->own[place + game->size - 1] = (uint8_t)turn;
  while ((rc = pst_peer_post(game->peer, &write, 1)) == 0)
    if ((rc = look(game)) < 0)
      return rc;
  game->under_way++;
  return rc < 0 ? rc : 0;
}

/* Until the other side has written. */
static int await(struct game *game, uint64_t turn)
{
  int rc = game->under_way < REAP ? 0 : look(game);

  for (unsigned long looks = 1; *game->last != (uint8_t)turn && rc >= 0; looks++)
    if (looks % LOOKS == 0)
      rc = look(game); /* has it failed? */
  return rc < 0 ? rc : 0;
}

static uint64_t now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Rounds are timed in ticks of the CPU, as ib_write_lat does, since the kernel may read its clock
 * from a device. The whole run says how long a tick is. */
static uint64_t now_ticks(void)
{
#ifdef __x86_64__
  return __builtin_ia32_rdtsc();
#else
  return now_ns();
#endif
}

static int ascending(const void *a, const void *b)
{
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

/* A round goes from one write to the next, with all that is between them. */
static int play(struct game *game, int second)
{
  int rc = both_connected(game);
  const uint64_t began_ns = now_ns(), began = now_ticks();

  for (uint64_t turn = 1; rc >= 0 && turn <= game->count; turn++) {
    if (second)
      rc = await(game, turn);
    game->starts[turn - 1] = now_ticks();
    if (rc >= 0)
      rc = write_there(game, turn);
    if (rc >= 0 && !second)
      rc = await(game, turn);
  }
  const uint64_t ended = game->starts[game->count] = now_ticks();
  game->tick_ns = (double)(now_ns() - began_ns) / (double)(ended - began);
  return rc;
}

/* Half of the median round. */
static double latency_ns(struct game *game)
{
  uint64_t *rounds = game->starts;

  for (unsigned long i = 0; i < game->count; i++)
    rounds[i] = rounds[i + 1] - rounds[i];
  qsort(rounds, game->count, sizeof(*rounds), ascending);
  return (double)rounds[game->count / 2] * game->tick_ns / 2;
}

/* The first goes when it has read the last byte; the second has written that then. */
static int finish(struct game *game, int second)
{
  int rc = 0;

  while (rc >= 0 && game->under_way > 0)
    rc = look(game);
  if (rc >= 0 && !second)
    pst_peer_close(game->peer, 0, NULL);
  while (rc >= 0 && !game->has_left)
    rc = look(game);
  return rc;
}

int main(int argc, char **argv)
{
  struct game game = {.size = 0};

  if (argc != 6) {
    fprintf(stderr, "usage: bench-pingpong first|second DEVICE SIZE COUNT PORT\n");
    return 2;
  }
  game.size = strtoul(argv[3], NULL, 10);
  game.count = strtoul(argv[4], NULL, 10);
  game.starts = calloc(game.count + 1, sizeof(*game.starts));
  int second = strcmp(argv[1], "second") == 0, rc = game.starts ? open_game(&game, argv) : -ENOMEM;
  if (rc == 0)
    rc = play(&game, second);
  if (rc >= 0)
    rc = finish(&game, second);
  if (rc < 0)
    fprintf(stderr, "bench-pingpong: %s\n", strerror(-rc));
  if (rc >= 0 && !second)
    printf("%.3f usec, half a round trip, median\n", latency_ns(&game) / 1000);
  pst_node_close(game.node);
  free(game.starts);
  return rc < 0;
}
