/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COUNT clients of `penstock serve` by verbs_rc, one after the other or some at a time, each of
 * which is killed as it stands: while it connects, once it has joined, and once the server has
 * memory of its.
 *
 *     connects SERVER-ADDRESS DEVICE COUNT AT-A-TIME [OPTION=VALUE]...
 *
 * Exit 0: all came as far as they were to come, and were killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <penstock/penstock.h>

enum stage { CONNECTING, JOINED, OFFERED, STAGES };

static struct pst_node *node;
static struct pst_peer *peer;

static void die(void)
{
  kill(getpid(), SIGKILL);
}

static int connect_to(char **argv, const struct pst_setting *options, uint32_t count)
{
  const struct pst_node_params params = {.struct_size = sizeof(params),
                                         .insecure = 1,
                                         .transport = "verbs_rc",
                                         .transport_options = options,
                                         .transport_option_count = count,
                                         .connect_timeout_ns = UINT64_C(120000000000),
                                         .peer_timeout_ns = UINT64_C(120000000000)};
  struct pst_error error = PST_ERROR_INIT;

  return pst_node_open(&params, &node, &error) < 0 ||
                 pst_node_connect(node, argv[1], &peer, &error) < 0
             ? -1
             : 0;
}

static int offer(void)
{
  const struct pst_area_params memory = {.struct_size = sizeof(memory), .length = 65536};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area;
  uint32_t id;

  if (pst_node_alloc(node, &memory, &area, &error) < 0)
    return -1;
  return pst_peer_offer(peer, area, 0, memory.length, PST_ACCESS_REMOTE_WRITE, &id);
}

/* Returns only where it could not be done. */
static void live_and_die(enum stage stage, unsigned polls)
{
  struct pst_node_event events[16];
  int n = 0;

  while (n >= 0) {
    if (stage == CONNECTING && polls-- == 0)
      die();
    n = pst_node_poll(node, events, 16);
    for (int i = 0; i < n; i++) {
      if (events[i].kind == PST_NODE_LEFT) {
        fprintf(stderr, "connects: left: %s\n", events[i].text);
        return;
      }
      if (events[i].kind == PST_NODE_TAKEN ||
          (events[i].kind == PST_NODE_JOINED && stage == JOINED))
        die();
      if (events[i].kind == PST_NODE_JOINED && offer() < 0)
        return;
    }
    if (n == 0 && stage != CONNECTING)
      pst_node_wait(node, NULL);
  }
}

static int reap(void)
{
  int status = 0;

  if (wait(&status) < 0)
    return -1;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : -1;
}

enum { OPTIONS_MAX = 8 };

/* The device, and what is given as OPTION=VALUE. How many; 0: too many, or one is none. */
static uint32_t read_options(int argc, char **argv, struct pst_setting *options)
{
  uint32_t n = 0;

  options[n++] = (struct pst_setting){.name = "device", .value = argv[2]};
  for (int i = 5; i < argc; i++) {
    char *equals = strchr(argv[i], '=');
    if (!equals || n == OPTIONS_MAX)
      return 0;
    *equals = '\0';
    options[n++] = (struct pst_setting){.name = argv[i], .value = equals + 1};
  }
  return n;
}

int main(int argc, char **argv)
{
  struct pst_setting options[OPTIONS_MAX];
  uint32_t option_count = argc < 5 ? 0 : read_options(argc, argv, options);
  int failed = 0;

  if (option_count == 0) {
    fprintf(stderr, "usage: connects SERVER-ADDRESS DEVICE COUNT AT-A-TIME [OPTION=VALUE]...\n");
    return 2;
  }
  unsigned long count = strtoul(argv[3], NULL, 10), most = strtoul(argv[4], NULL, 10);
  for (unsigned long i = 0; i < count; i++) {
    if (i >= most)
      failed += reap() < 0;
    pid_t child = fork();
    if (child < 0)
      return 1;
    if (child == 0) {
      if (connect_to(argv, options, option_count) == 0)
        live_and_die((enum stage)(i % STAGES), (unsigned)(i / STAGES) * 7);
      _exit(1);
    }
  }
  for (unsigned long i = 0; i < (count < most ? count : most); i++)
    failed += reap() < 0;
  printf("%lu killed, %d otherwise\n", count - (unsigned long)failed, failed);
  return failed ? 1 : 0;
}
