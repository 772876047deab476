/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of `penstock bench --all-pairs` that says what it is given, as rank 0 or another.
 *
 *     rank connect ADDRESS < LINES
 *     rank listen ADDRESS < LINES
 *
 * `listen` prints the address that it listens at and takes one client. A line "<" waits for a
 * message and prints it; any other is sent as it is. At the end of the lines it leaves.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "bench/control_link.h"
#include "clock.h"

#define LINE_BYTES 8192
#define WAIT_NS (60 * NS_PER_S)

static struct control_link_server server;

static struct control_link *rank_open(const char *how, const char *where)
{
  struct pst_error error = PST_ERROR_INIT;
  struct control_link *link = NULL;

  if (strcmp(how, "connect") == 0)
    return bench_link_connect("rank", where, 0, NULL, -1, &link, &error) == 0 ? link : NULL;
  if (bench_link_listen("rank", where, 0, NULL, -1, &server, &error) < 0)
    return NULL;
  printf("%.*s:%u\n", (int)(strrchr(where, ':') - where), where, pst_node_port(server.node));
  fflush(stdout);
  const uint64_t until_ns = app_now_ns() + WAIT_NS;
  while (!link && app_now_ns() < until_ns)
    bench_link_take(&server, NS_PER_S / 20, &link);
  return link;
}

static int rank_say(struct control_link *link, const char *line)
{
  struct json_object *said = NULL;
  int rc;

  if (strcmp(line, "<") != 0)
    return link->far ? pst_peer_send(link->far, line, strlen(line)) : -1;
  rc = bench_link_receive(link, WAIT_NS, true, &said);
  if (rc == 0)
    printf("%s\n", json_object_to_json_string_ext(said, JSON_C_TO_STRING_PLAIN));
  fflush(stdout);
  json_object_put(said);
  return rc;
}

int main(int count, char **arguments)
{
  char line[LINE_BYTES];
  struct control_link *link = count == 3 ? rank_open(arguments[1], arguments[2]) : NULL;
  int rc = link ? 0 : -1;

  while (rc == 0 && fgets(line, sizeof(line), stdin)) {
    line[strcspn(line, "\n")] = '\0';
    rc = rank_say(link, line);
  }
  bench_link_close(link);
  bench_link_unlisten(&server);
  return rc < 0;
}
