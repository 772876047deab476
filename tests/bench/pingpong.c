/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ib_write_lat does, by one-sided streams of this library: two processes write to each
 * other in turn, each looking at the last byte of its own region until it changes; half a
 * round trip is shown. It needs a CPU that sees what is written to its region, in order.
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
};

struct end {
  struct pst_config *config;
  struct pst_session *session;
};

struct game {
  struct end ends[2]; /* what is written there, what is written here */
  struct pst_initiator *there;
  struct pst_target *here;
  unsigned long size, count;
  uint8_t *own;
  const volatile uint8_t *last; /* byte of what the other end writes */
  uint64_t under_way;
  uint64_t *starts; /* of rounds, and when the last has ended: ticks */
  double tick_ns;
};

static int open_end(struct end *end, uint32_t role, const char *device, unsigned long port,
                    unsigned long size)
{
  const struct pst_session_params params = {.struct_size = sizeof params, .roles = role};
  struct pst_error error = PST_ERROR_INIT;
  char text[512];

  snprintf(text, sizeof text,
           "penstock: 1\n"
           "control: {address: \"127.0.0.1:%lu\"}\n"
           "transport: {plugin: verbs_rc, options: {device: %s}}\n"
           "streams: [{name: bench, region: %lu B}]\n",
           port, device, size * PLACES);
  if (pst_config_open_text(text, strlen(text), "bench", NULL, 0, &end->config, &error) < 0 ||
      pst_session_open(end->config, &params, &end->session, &error) < 0 ||
      pst_session_start(end->session, &error) < 0)
    return error.code; /* it has been logged */
  return 0;
}

static int open_game(struct game *game, char **argv)
{
  struct pst_range range = {.struct_size = sizeof range};
  unsigned long port = strtoul(argv[5], NULL, 10);
  int second = strcmp(argv[1], "second") == 0;
  int rc = open_end(&game->ends[1], PST_SESSION_RECEIVER, argv[2], port + !second, game->size);

  if (rc == 0)
    rc = open_end(&game->ends[0], PST_SESSION_SENDER, argv[2], port + second, game->size);
  if (rc < 0)
    return rc;
  game->there = pst_session_initiator(game->ends[0].session, "bench");
  game->here = pst_session_target(game->ends[1].session, "bench");
  if ((rc = pst_target_range(game->here, &range)) < 0)
    return rc;
  game->last = (uint8_t *)range.host + game->size - 1;
  if ((rc = pst_initiator_local(game->there, &range)) < 0)
    return rc;
  game->own = range.host;
  return 0;
}

static int reap(struct game *game)
{
  struct pst_transfer_done done[16];
  int n = pst_initiator_poll(game->there, done, 16);

  for (int i = 0; i < n; i++)
    if (done[i].status < 0)
      return done[i].status;
  if (n > 0)
    game->under_way -= (uint64_t)n;
  return n;
}

/* At both ends: until the other side has both, too, it needs this one's polls. */
static int look(struct game *game)
{
  int rc = reap(game);

  return rc < 0 ? rc : pst_target_poll(game->here);
}

static int both_connected(struct game *game)
{
  while (pst_initiator_state(game->there) == PST_STATE_WAITING ||
         pst_target_state(game->here) == PST_STATE_WAITING ||
         pst_initiator_remote_length(game->there) == 0) {
    int rc = look(game);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static int write_there(struct game *game, uint64_t turn)
{
  uint64_t place = turn % PLACES * game->size;
  const struct pst_transfer transfer = {
      .op = PST_OP_WRITE, .local_offset = place, .length = game->size};
  int rc;

  game->own[place + game->size - 1] = (uint8_t)turn;
  while ((rc = pst_initiator_post(game->there, &transfer, 1)) == 0)
    if ((rc = look(game)) < 0)
      return rc;
  game->under_way++;
  return rc < 0 ? rc : 0;
}

/* Until the other side has written. */
static int await(struct game *game, uint64_t turn)
{
  int rc = game->under_way < REAP ? 0 : reap(game);

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

/* As ib_write_lat: rounds are told in ticks of the CPU, since the kernel may have its clock from a
 * device. How long a tick is, the whole game says. */
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
  qsort(rounds, game->count, sizeof *rounds, ascending);
  return (double)rounds[game->count / 2] * game->tick_ns / 2;
}

static int finish(struct game *game)
{
  int rc = pst_initiator_finish(game->there), here = 0;

  while (rc >= 0 && here == 0) {
    reap(game);
    here = pst_target_poll(game->here);
  }
  if (rc >= 0 && here == -ENODATA)
    rc = pst_target_finish(game->here);
  while (rc >= 0 && (pst_initiator_state(game->there) < PST_STATE_ENDED ||
                     pst_target_state(game->here) < PST_STATE_ENDED)) {
    reap(game);
    pst_target_poll(game->here);
  }
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
  game.starts = calloc(game.count + 1, sizeof *game.starts);
  int second = strcmp(argv[1], "second") == 0, rc = game.starts ? open_game(&game, argv) : -ENOMEM;
  if (rc == 0)
    rc = play(&game, second);
  if (rc >= 0)
    rc = finish(&game);
  if (rc < 0)
    fprintf(stderr, "bench-pingpong: %s\n", strerror(-rc));
  if (rc >= 0 && !second)
    printf("%.3f usec, half a round trip, median\n", latency_ns(&game) / 1000);
  for (int i = 0; i < 2; i++) {
    pst_session_close(game.ends[i].session);
    pst_config_close(game.ends[i].config);
  }
  free(game.starts);
  return rc < 0;
}
