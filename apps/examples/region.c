/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application with nodes. The target offers a region of its memory. The initiator fills memory
 * of its own with the test pattern, and WRITEs it into that region. Then the target checks every
 * byte. Either memory may be a GPU's. Either program may start first.
 *
 *   region target ADDRESS [MEMORY [OPTION=VALUE]...] &
 *   region initiator ADDRESS [MEMORY [OPTION=VALUE]...]
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <penstock/penstock.h>

#define LENGTH (UINT64_C(64) << 20)
#define CHUNK (UINT64_C(1) << 20)
#define PATTERN 1
#define FLUSHED UINT64_MAX /* the cookie of the FLUSH */
#define OPTIONS_MAX 16
#define PATIENCE_S 60 /* for the target to start */

struct end {
  struct pst_node *node;
  struct pst_area *area;
  struct pst_peer *peer;
  uint32_t region; /* initiator: the target's region; 0: not on offer yet */
  uint64_t posted; /* bytes; FLUSHED: with the FLUSH */
  bool is_right;   /* target: all bytes have come, and are right */
  bool has_left;
  int code; /* why it has left */
};

static int open_end(const char *listen, int word_count, char **words, struct end *end)
{
  struct pst_setting options[OPTIONS_MAX];
  struct pst_error error = PST_ERROR_INIT; /* logged already */
  const struct pst_node_params node = {.struct_size = sizeof(node), .listen = listen, .peers = 1};
  struct pst_area_params area = {.struct_size = sizeof(area),
                                 .memory = word_count > 0 ? words[0] : NULL,
                                 .memory_options = options,
                                 .length = LENGTH,
                                 .label = "region",
                                 .access = listen ? PST_ACCESS_REMOTE_WRITE : 0};

  for (int i = 1; i < word_count && i <= OPTIONS_MAX; i++) {
    char *value = strchr(words[i], '=');
    if (!value) {
      fprintf(stderr, "region: '%s' is no OPTION=VALUE\n", words[i]);
      return -EINVAL;
    }
    *value = '\0';
    options[area.memory_option_count++] = (struct pst_setting){words[i], value + 1};
  }
  int rc = pst_node_open(&node, &end->node, &error);
  /* Before a peer joins: over loopback the GPU itself copies, and needs memory of its own for that.
   */
  return rc < 0 ? rc : pst_node_alloc(end->node, &area, &end->area, &error);
}

/* ---- The initiator ---------------------------------------------------------------- */

/* Posts as many WRITEs as fit, and a FLUSH after the last one. When the FLUSH is DONE, all bytes
 * are in the target's memory. */
static int write_on(struct end *end)
{
  int rc = 1;

  while (rc == 1 && end->region != 0 && end->posted != FLUSHED) {
    const struct pst_operation flush = {.op = PST_OP_FLUSH, .cookie = FLUSHED};
    const struct pst_operation next = {.op = PST_OP_WRITE,
                                       .id = end->region,
                                       .area = end->area,
                                       .offset = end->posted,
                                       .remote_offset = end->posted,
                                       .length = CHUNK};
    bool is_last = end->posted == LENGTH;
    rc = pst_peer_post(end->peer, is_last ? &flush : &next, 1);
    if (rc == 1)
      end->posted = is_last ? FLUSHED : end->posted + CHUNK;
  }
  return rc < 0 ? rc : 0;
}

static int initiator_event(struct end *end, const struct pst_node_event *event)
{
  switch (event->kind) {
  case PST_NODE_OFFERED:
    end->region = event->id;
    return event->length == LENGTH ? 0 : -EPROTO;
  case PST_NODE_DONE:
    if (event->status < 0 || event->cookie != FLUSHED)
      return event->status;
    return pst_peer_send(end->peer, "written", strlen("written"));
  case PST_NODE_LEFT:
    if (event->status < 0 && event->status != -ECONNREFUSED)
      fprintf(stderr, "region: %s\n", event->text);
    end->has_left = true;
    end->code = event->status;
    return 0;
  default:
    return 0;
  }
}

/* ---- The target ------------------------------------------------------------------- */

static int check(struct end *end)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  int rc = pst_area_verify(end->area, 0, LENGTH, PATTERN, NULL);

  pst_area_path(end->area, &path);
  end->is_right = rc == 0;
  if (rc == 0 || rc == -EBADMSG)
    printf("%" PRIu64 " bytes in %s, %s, by %s\n", LENGTH, pst_area_backing(end->area),
           rc == 0 ? "all of them right" : "some of them WRONG", path.via);
  return rc;
}

static int target_event(struct end *end, const struct pst_node_event *event)
{
  uint32_t id;
  int rc;

  switch (event->kind) {
  case PST_NODE_JOINED:
    end->peer = event->peer;
    return pst_peer_offer(event->peer, end->area, 0, LENGTH, PST_ACCESS_REMOTE_WRITE, &id);
  case PST_NODE_TAKEN:
    return event->status;
  case PST_NODE_MESSAGE: /* "written": all bytes are here */
    rc = check(end);
    pst_peer_close(event->peer, rc, "the region's bytes are wrong");
    return 0;
  case PST_NODE_LEFT:
    if (event->status < 0)
      fprintf(stderr, "region: %s\n", event->text);
    end->has_left = true;
    end->code = event->status < 0 || end->is_right ? event->status : -ECONNRESET;
    return 0;
  default:
    return 0;
  }
}

/* ---- Both ------------------------------------------------------------------------- */

static int run(struct end *end, bool is_target)
{
  struct pst_node_event events[16];
  int rc = 0;

  while (rc >= 0 && !end->has_left) {
    int n = pst_node_poll(end->node, events, 16);
    rc = n < 0 ? n : 0;
    for (int i = 0; i < n && rc >= 0; i++)
      rc = is_target ? target_event(end, &events[i]) : initiator_event(end, &events[i]);
    if (rc >= 0 && !is_target && !end->has_left)
      rc = write_on(end);
    if (n == 0)
      pst_node_wait(end->node, NULL);
  }
  return rc < 0 ? rc : end->code;
}

/* Fills the memory, connects as soon as the target is there, and runs until it has left. */
static int initiate(struct end *end, const char *address)
{
  const struct timespec pause = {.tv_nsec = 50000000};
  const time_t until = time(NULL) + PATIENCE_S;
  struct pst_error error = PST_ERROR_INIT;
  int rc = pst_area_fill(end->area, 0, LENGTH, PATTERN);

  if (rc < 0)
    return rc;
  do {
    end->has_left = false;
    rc = pst_node_connect(end->node, address, &end->peer, &error);
    if (rc == 0)
      rc = run(end, false);
    if (rc == -ECONNREFUSED)
      nanosleep(&pause, NULL);
  } while (rc == -ECONNREFUSED && time(NULL) < until);
  return rc;
}

int main(int argc, char **argv)
{
  bool is_target = argc > 1 && strcmp(argv[1], "target") == 0;
  struct end end = {.region = 0};

  if (argc < 3 || (!is_target && strcmp(argv[1], "initiator") != 0)) {
    fprintf(stderr, "usage: region target|initiator ADDRESS [MEMORY [OPTION=VALUE]...]\n"
                    "       region target 127.0.0.1:18530 cuda device=1\n");
    return PST_EXIT_USAGE;
  }
  int rc = open_end(is_target ? argv[2] : NULL, argc - 3, argv + 3, &end);
  if (rc == 0)
    rc = is_target ? run(&end, true) : initiate(&end, argv[2]);
  if (rc < 0)
    fprintf(stderr, "region: %s: %s\n", argv[1], strerror(-rc));
  pst_node_close(end.node);
  return rc < 0 ? PST_EXIT_FAILED : PST_EXIT_OK;
}
