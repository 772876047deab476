/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COUNT WRITEs or READs over loopback, one at a time or in batches, both nodes served by one
 * thread: the function reach_some is what instructions.py counts, and nothing in it depends on the
 * time. How fast it goes is for `penstock bench` to say.
 *
 * usage: bench-reach write|read SIZE BATCH COUNT PORT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#define REGION_BYTES (1ul << 20)
#define BATCH_MAX 64

struct reach {
  unsigned long size, batch, count, done;
  uint8_t op;
  struct pst_node *owner, *node; /* whose region it is, and who reaches it */
  struct pst_area *offered, *area;
  struct pst_peer *peer;
  uint32_t region; /* 0: not on offer yet */
  struct pst_operation operations[BATCH_MAX];
};

static int open_node(const char *listen, struct pst_node **node, struct pst_area **area)
{
  const struct pst_node_params params = {.struct_size = sizeof(params),
                                         .listen = listen,
                                         .peers = 1,
                                         .depth = BATCH_MAX,
                                         .in_process = 1};
  const struct pst_area_params memory = {.struct_size = sizeof(memory), .length = REGION_BYTES};
  struct pst_error error = PST_ERROR_INIT;
  int rc = pst_node_open(&params, node, &error);

  return rc < 0 ? rc : pst_node_alloc(*node, &memory, area, &error);
}

static int open_both(struct reach *reach, const char *port)
{
  struct pst_error error = PST_ERROR_INIT;
  char address[64];

  snprintf(address, sizeof(address), "127.0.0.1:%s", port);
  int rc = open_node(address, &reach->owner, &reach->offered);
  if (rc == 0)
    rc = open_node(NULL, &reach->node, &reach->area);
  return rc < 0 ? rc : pst_node_connect(reach->node, address, &reach->peer, &error);
}

/* Until the one has a region of the other's. */
static int meet(struct reach *reach)
{
  const uint32_t access = PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE;
  struct pst_node_event event;
  uint32_t id;

  while (!reach->region) {
    int rc = pst_node_poll(reach->owner, &event, 1);
    if (rc == 1 && event.kind == PST_NODE_JOINED)
      rc = pst_peer_offer(event.peer, reach->offered, 0, REGION_BYTES, access, &id);
    if (rc < 0)
      return rc;
    rc = pst_node_poll(reach->node, &event, 1);
    if (rc == 1 && event.kind == PST_NODE_OFFERED)
      reach->region = event.id;
    if (rc == 1 && event.kind == PST_NODE_LEFT)
      return event.status < 0 ? event.status : -ECONNRESET;
    if (rc < 0)
      return rc;
  }
  return 0;
}

static void make_batch(struct reach *reach)
{
  for (unsigned long i = 0; i < reach->batch; i++)
    reach->operations[i] = (struct pst_operation){.op = reach->op,
                                                  .id = reach->region,
                                                  .area = reach->area,
                                                  .offset = i * reach->size,
                                                  .remote_offset = i * reach->size,
                                                  .length = reach->size};
}

/* A batch, from its post to the end of all of it. */
__attribute__((noinline)) static int reach_some(struct reach *reach)
{
  struct pst_node_event events[BATCH_MAX];
  unsigned long ended = 0;

  int rc = pst_peer_post(reach->peer, reach->operations, (uint32_t)reach->batch);
  if (rc >= 0 && rc < (int)reach->batch)
    rc = -ENOSPC;
  while (rc >= 0 && ended < reach->batch) {
    rc = pst_node_poll(reach->node, events, BATCH_MAX);
    for (int i = 0; i < rc; i++) {
      if (events[i].kind != PST_NODE_DONE || events[i].status < 0)
        return events[i].status < 0 ? events[i].status : -EPROTO;
      ended++;
    }
  }
  reach->done += ended;
  return rc < 0 ? rc : 0;
}

int main(int argc, char **argv)
{
  struct reach reach = {.op = PST_OP_WRITE};

  if (argc != 6) {
    fprintf(stderr, "usage: bench-reach write|read SIZE BATCH COUNT PORT\n");
    return 2;
  }
  if (strcmp(argv[1], "read") == 0)
    reach.op = PST_OP_READ;
  reach.size = strtoul(argv[2], NULL, 10);
  reach.batch = strtoul(argv[3], NULL, 10);
  reach.count = strtoul(argv[4], NULL, 10);
  int rc = reach.batch > 0 && reach.batch <= BATCH_MAX ? open_both(&reach, argv[5]) : -EINVAL;
  if (rc == 0)
    rc = meet(&reach);
  if (rc == 0)
    make_batch(&reach);
  while (rc >= 0 && reach.done < reach.count)
    rc = reach_some(&reach);
  if (rc < 0)
    fprintf(stderr, "bench-reach: %s\n", strerror(-rc));
  pst_node_close(reach.node);
  pst_node_close(reach.owner);
  return rc < 0;
}
