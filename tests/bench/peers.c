/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of the peers of a node: 1, 64 and 1000 of them join a server within this process, and the
 * filter `counting` reports what its device then holds. Nothing here depends on the time.
 *
 * --shared: the filter says TWO_SIDED of the transport, as if the receiver picked the slots.
 *
 * --heap: with so many peers, what malloc has given out to both ends, by the call that asked.
 *
 * usage: bench-peers [--shared | --heap PEERS] FAKES [TRANSPORT [OPTION=VALUE]...]
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "heap_sites.h"

#define PEERS_MAX 1000u
#define OPTIONS_MAX 8

struct held {
  unsigned long long mrs, bytes, rings, slots;
};

static struct held held;
static bool shows_heap;

static void read_counts(void *context, int level, const char *line)
{
  const char *at = strstr(line, "counting: ");

  (void)context, (void)level;
  if (at)
    sscanf(at, "counting: %llu registrations of %llu bytes, %llu rings of %llu slots", &held.mrs,
           &held.bytes, &held.rings, &held.slots);
  else if (level <= PST_LOG_WARN)
    fprintf(stderr, "%s\n", line);
}

static int fail(const struct pst_error *error)
{
  fprintf(stderr, "bench-peers: %s\n", error->text);
  return -1;
}

/* Until so many have joined on both sides. */
static int meet(struct pst_node *server, struct pst_node *client, uint32_t peers)
{
  struct pst_node *const nodes[] = {server, client};
  struct pst_error error = PST_ERROR_INIT;
  uint32_t joined = 0, begun = 0;
  char address[64];

  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(server));
  while (joined < 2 * peers) {
    struct pst_node_event events[64];
    struct pst_peer *peer;
    /* A few at a time: the listener gives room to those that have not joined. */
    if (begun < peers && begun < joined / 2 + 16) {
      if (pst_node_connect(client, address, &peer, &error) < 0)
        return fail(&error);
      begun++;
    }
    for (int i = 0; i < 2; i++) {
      int n = pst_node_poll(nodes[i], events, 64);
      for (int k = 0; k < n; k++) {
        if (events[k].kind == PST_NODE_LEFT) {
          fprintf(stderr, "bench-peers: a peer has left: %s\n", events[k].text);
          return -1;
        }
        joined += events[k].kind == PST_NODE_JOINED;
      }
    }
  }
  return 0;
}

static int measure(const struct pst_node_params *given, uint32_t peers, bool is_shared)
{
  const struct pst_setting two_sided = {"two_sided", is_shared ? "true" : "false"};
  const struct pst_filter_params counting = {
      .name = "counting", .options = &two_sided, .option_count = 1};
  struct pst_node_params params = *given;
  struct pst_node *server = NULL, *client = NULL;
  struct pst_error error = PST_ERROR_INIT;

  params.peers = peers;
  held = (struct held){0};
  int rc = pst_node_open(&params, &client, &error);
  params.listen = "127.0.0.1:0";
  params.filters = &counting;
  params.filter_count = 1;
  if (rc == 0)
    rc = pst_node_open(&params, &server, &error);
  rc = rc < 0 ? fail(&error) : meet(server, client, peers);
  if (rc == 0)
    printf("%5u peers: %5llu registrations of %10llu bytes (%7llu a peer), %4llu rings of %5llu "
           "slots\n",
           peers, held.mrs, held.bytes, held.bytes / peers, held.rings, held.slots);
  if (rc == 0 && shows_heap)
    heap_sites_print();
  pst_node_close(client);
  pst_node_close(server);
  return rc;
}

static int usage(void)
{
  fprintf(stderr,
          "usage: bench-peers [--shared | --heap PEERS] FAKES [TRANSPORT [OPTION=VALUE]...]\n");
  return 2;
}

int main(int argc, char **argv)
{
  static const uint32_t counts[] = {1, 64, PEERS_MAX};
  const bool is_shared = argc > 1 && strcmp(argv[1], "--shared") == 0;
  struct pst_setting settings[OPTIONS_MAX];
  struct pst_node_params params = {
      .struct_size = sizeof(params), .transport_options = settings, .depth = 16, .in_process = 1};
  int rc = 0, at = is_shared ? 2 : 1;
  uint32_t heap_peers = 0;

  if (argc > 2 && strcmp(argv[1], "--heap") == 0) {
    heap_peers = (uint32_t)strtoul(argv[2], NULL, 10);
    shows_heap = heap_peers > 0;
    at = 3;
  }
  if (at >= argc || pst_plugin_path_add(argv[at++]) < 0)
    return usage();
  if (at < argc)
    params.transport = argv[at++];
  for (; at < argc; at++) {
    char *value = strchr(argv[at], '=');
    if (!value || params.transport_option_count == OPTIONS_MAX)
      return usage();
    *value = '\0';
    settings[params.transport_option_count++] = (struct pst_setting){argv[at], value + 1};
  }
  pst_log_set(read_counts, NULL, PST_LOG_INFO);
  if (shows_heap)
    return measure(&params, heap_peers, false) < 0;
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && rc == 0; i++)
    rc = measure(&params, counts[i], is_shared);
  return rc < 0;
}
