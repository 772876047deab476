/* SPDX-License-Identifier: Apache-2.0 */
/* The server's node: peers that do what the input says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/server.h"
#include "server_model.h"
#include "server_world.h"

#define EVENTS 4096u
#define OPERATIONS 1024u
#define FILLED (64u << 10) /* bytes that a READ really brings */

struct pst_area {
  uint8_t *bytes;
  uint64_t length;
};

struct region {
  bool offered;
  uint32_t access;
  uint64_t length;
};

struct pst_peer {
  struct pst_peer *next;
  void *context;
  bool closing;   /* the server has had enough */
  bool leaving;   /* one of both has: LEFT comes when nothing is under way */
  bool left_told; /* LEFT is handed out: freed by the next poll */
  bool wants_room;
  bool is_free; /* in its choice of tags */
  bool behind;  /* an answer waits for room */
  struct model *model;
  int status;
  uint32_t messages, operations; /* room */
  uint32_t under_way;
  uint64_t posted;            /* bytes */
  uint32_t asked[WORLD_TAGS]; /* and not answered */
  struct region regions[WORLD_REGIONS + 1];
};

struct operation {
  struct pst_peer *peer;
  uint64_t cookie;
  uint8_t op;
  uint32_t piece_count;
  struct pst_area_piece pieces[SERVER_PIECES_MAX];
};

static struct pst_peer *peers, *gone;
static struct pst_area area;
static struct pst_node_event events[EVENTS];
static uint32_t event_first, event_count;
static struct operation operations[OPERATIONS];
static uint32_t operation_count;
static void *kept[EVENTS]; /* bytes of what was handed out */
static uint32_t kept_count;
static bool verify_fails;
static uint64_t begun, corrupted; /* in the area */
static uint8_t sum[SERVE_SHA256_BYTES];

static struct pst_node_event *tell(struct pst_peer *peer, enum pst_node_event_kind kind)
{
  REQUIRE(event_count < EVENTS);
  struct pst_node_event *event = &events[(event_first + event_count++) % EVENTS];

  *event = (struct pst_node_event){.kind = (uint8_t)kind, .peer = peer, .text = ""};
  return event;
}

/* ---- Actions of the input --------------------------------------------------------- */

void world_node_begin(void)
{
  REQUIRE(!peers && !gone && operation_count == 0 && event_count == 0);
  verify_fails = false;
  begun = corrupted = 0;
  memset(sum, 0, sizeof(sum));
}

struct pst_peer *world_join(void)
{
  uint32_t count = 0;

  for (const struct pst_peer *peer = peers; peer != NULL; peer = peer->next)
    count++;
  if (count == WORLD_PEERS)
    return NULL;
  struct pst_peer *peer = calloc(1, sizeof(*peer));
  REQUIRE(peer != NULL);
  peer->messages = peer->operations = UINT32_MAX;
  peer->model = model_new();
  peer->next = peers;
  peers = peer;
  tell(peer, PST_NODE_JOINED);
  return peer;
}

struct pst_peer *world_peer(uint32_t which)
{
  struct pst_peer *peer = peers;

  while (peer && which-- > 0)
    peer = peer->next;
  return peer;
}

bool world_is_there(const struct pst_peer *peer)
{
  return !peer->closing && !peer->leaving;
}

static void tell_left(struct pst_peer *peer)
{
  struct pst_peer **at = &peers;

  if (!peer->leaving || peer->under_way > 0)
    return;
  while (*at != peer)
    at = &(*at)->next;
  *at = peer->next;
  peer->next = gone;
  gone = peer;
  struct pst_node_event *event = tell(peer, PST_NODE_LEFT);
  event->status = peer->status;
  event->text = "the input says so";
}

void world_leave(struct pst_peer *peer, int status)
{
  if (peer->leaving)
    return;
  peer->leaving = true;
  peer->status = status;
  tell_left(peer);
}

void world_say(struct pst_peer *peer, const void *bytes, size_t length)
{
  void *copy = malloc(length ? length : 1);

  model_said(peer->model, bytes, length);
  REQUIRE(copy != NULL);
  if (length > 0)
    memcpy(copy, bytes, length);
  struct pst_node_event *event = tell(peer, PST_NODE_MESSAGE);
  event->bytes = copy;
  event->length = length;
}

void world_expect(struct pst_peer *peer, uint64_t tag)
{
  peer->asked[tag]++;
}

void world_free(struct pst_peer *peer)
{
  peer->is_free = true;
}

void world_offer(struct pst_peer *peer, uint32_t region, uint64_t length, uint32_t access)
{
  peer->regions[region] = (struct region){true, access, length};
  tell(peer, PST_NODE_OFFERED)->id = region;
}

void world_withdraw(struct pst_peer *peer, uint32_t region)
{
  peer->regions[region].offered = false;
  tell(peer, PST_NODE_WITHDRAWN)->id = region;
}

void world_room(struct pst_peer *peer, uint32_t messages, uint32_t count)
{
  peer->messages = messages;
  peer->operations = count;
  if (peer->wants_room && (messages > 0 || count > 0)) {
    peer->wants_room = false;
    tell(peer, PST_NODE_ROOM);
  }
}

static void read_into(const struct operation *o)
{
  for (uint32_t i = 0; i < o->piece_count; i++)
    memset(area.bytes + o->pieces[i].offset, WORLD_READ_BYTE,
           o->pieces[i].length < FILLED ? o->pieces[i].length : FILLED);
}

void world_done(uint32_t which, int status)
{
  if (operation_count == 0)
    return;
  which %= operation_count;
  struct operation o = operations[which];
  memmove(&operations[which], &operations[which + 1],
          (--operation_count - which) * sizeof(operations[0]));
  if (status == 0 && o.op == PST_OP_READ)
    read_into(&o);
  o.peer->under_way--;
  struct pst_node_event *event = tell(o.peer, PST_NODE_DONE);
  event->op = o.op;
  event->status = status;
  event->cookie = o.cookie;
  tell_left(o.peer);
}

uint64_t world_posted(const struct pst_peer *peer)
{
  return peer->posted;
}

uint32_t world_under_way(void)
{
  return operation_count;
}

void world_verify_fails(bool fails)
{
  verify_fails = fails;
}

void world_require_answers(void)
{
  for (const struct pst_peer *peer = peers; peer != NULL; peer = peer->next)
    for (uint32_t tag = 0; tag < WORLD_TAGS && world_is_there(peer); tag++)
      REQUIRE(peer->asked[tag] == 0);
}

const uint8_t *world_last_sum(void)
{
  return sum;
}

bool world_owns(const uint8_t *bytes, uint64_t length)
{
  return bytes >= area.bytes && length <= area.length &&
         (uint64_t)(bytes - area.bytes) <= area.length - length;
}

void world_require_unused(const uint8_t *bytes, uint64_t length)
{
  for (uint32_t i = 0; i < operation_count; i++)
    for (uint32_t k = 0; k < operations[i].piece_count; k++) {
      const struct pst_area_piece *piece = &operations[i].pieces[k];
      const uint8_t *other = area.bytes + piece->offset;
      REQUIRE(bytes + length <= other || other + piece->length <= bytes);
    }
}

/* ---- Calls of the server: nodes and areas ------------------------------------------- */

int pst_node_open(const struct pst_node_params *params, struct pst_node **node,
                  struct pst_error *error)
{
  (void)params, (void)error;
  *node = (struct pst_node *)&peers;
  return 0;
}

static void free_handed(void)
{
  while (kept_count > 0)
    free(kept[--kept_count]);
  for (struct pst_peer **at = &gone; *at != NULL;) {
    struct pst_peer *peer = *at;
    if (!peer->left_told) {
      at = &peer->next;
      continue;
    }
    *at = peer->next;
    model_free(peer->model);
    free(peer);
  }
}

/* Clients that are still there leave without an event, as after the server's last wait. */
void pst_node_close(struct pst_node *node)
{
  REQUIRE(node != NULL);
  REQUIRE(!peers && operation_count == 0 && event_count == 0);
  free_handed();
  REQUIRE(!gone);
  free(area.bytes);
  area.bytes = NULL;
}

int pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                   struct pst_area **made, struct pst_error *error)
{
  (void)node, (void)error;
  REQUIRE(!area.bytes && params->length > 0);
  area = (struct pst_area){malloc(params->length), params->length};
  REQUIRE(area.bytes != NULL);
  *made = &area;
  return 0;
}

int pst_area_range(const struct pst_area *a, struct pst_range *range)
{
  range->host = a->bytes;
  range->length = a->length;
  return 0;
}

static void require_in_area(const struct pst_area *a, uint64_t offset, uint64_t length)
{
  REQUIRE(a == &area && length <= a->length && offset <= a->length - length);
}

/* Done at once, as in the host's memory. */
int pst_area_fill_begin(struct pst_area *a, const struct pst_area_pattern *parts, uint32_t n,
                        uint64_t *ticket)
{
  for (uint32_t i = 0; i < n; i++) {
    require_in_area(a, parts[i].offset, parts[i].length);
    world_require_unused(a->bytes + parts[i].offset, parts[i].length);
    world_io_require_unused(a->bytes + parts[i].offset, parts[i].length);
  }
  *ticket = ++begun;
  return 0;
}

int pst_area_verify_begin(struct pst_area *a, const struct pst_area_pattern *parts, uint32_t n,
                          uint64_t *ticket)
{
  for (uint32_t i = 0; i < n; i++) {
    require_in_area(a, parts[i].offset, parts[i].length);
    world_require_unused(a->bytes + parts[i].offset, parts[i].length);
    corrupted += verify_fails;
  }
  *ticket = ++begun;
  return 0;
}

int pst_area_poll(struct pst_area *a, uint64_t *done, struct pst_verify_result *found)
{
  REQUIRE(a == &area);
  found->corrupted = corrupted;
  *done = begun;
  return 0;
}

int pst_area_verify(struct pst_area *a, uint64_t offset, uint64_t length, uint64_t pattern,
                    struct pst_verify_result *result)
{
  (void)pattern, (void)result;
  require_in_area(a, offset, length);
  world_require_unused(a->bytes + offset, length);
  return verify_fails ? -EBADMSG : 0;
}

void world_require_asked(const struct io_request *request)
{
  const struct job *job = FROM(struct job, io, request);
  const struct pst_peer *peer = job->client->peer;

  model_io(peer->model, request, peer->behind);
}

void world_io_ended(const struct io_request *request)
{
  const struct job *job = FROM(struct job, io, request);
  const struct pst_peer *peer = job->client->peer;

  if (peer) /* else it has left meanwhile */
    model_io_ended(peer->model, job->asked.file, request, peer->behind);
}

/* All that was said has been looked at. */
static void require_bounded(void)
{
  for (const struct pst_peer *peer = peers; peer != NULL; peer = peer->next) {
    uint32_t asked = 0;
    for (uint32_t tag = 0; tag < WORLD_TAGS && world_is_there(peer); tag++)
      asked += peer->asked[tag];
    REQUIRE(asked <= SERVER_WINDOW);
  }
}

/* Nobody has been told of room who has not used it. */
static void catch_up(void)
{
  for (struct pst_peer *peer = peers; peer != NULL; peer = peer->next)
    peer->behind &= peer->wants_room;
}

int pst_node_poll(struct pst_node *node, struct pst_node_event *out, uint32_t max)
{
  uint32_t n = 0;

  (void)node;
  free_handed();
  if (event_count == 0)
    require_bounded(), catch_up();
  while (event_count == 0 && world_turn() && world_io_under_way() == 0)
    ;
  for (; n < max && event_count > 0; n++, event_count--) {
    out[n] = events[event_first];
    event_first = (event_first + 1) % EVENTS;
    if (out[n].kind == PST_NODE_MESSAGE)
      kept[kept_count++] = (void *)(uintptr_t)out[n].bytes;
    if (out[n].kind == PST_NODE_LEFT)
      out[n].peer->left_told = true;
  }
  return (int)n;
}

int pst_node_wait(struct pst_node *node, const uint64_t *until_ns)
{
  (void)node, (void)until_ns;
  return 0;
}

int pst_node_arm(struct pst_node *node)
{
  (void)node;
  return -EAGAIN;
}

int pst_node_fd(const struct pst_node *node)
{
  (void)node;
  return -1;
}

const char *pst_version(void)
{
  return "0.0.0";
}

/* ---- Calls of the server: peers ------------------------------------------------------ */

void pst_peer_set_context(struct pst_peer *peer, void *context)
{
  peer->context = context;
}

void *pst_peer_context(const struct pst_peer *peer)
{
  return peer->context;
}

const char *pst_peer_text(const struct pst_peer *peer)
{
  return peer->left_told ? "one that has left" : "a peer";
}

void pst_peer_close(struct pst_peer *peer, int code, const char *text)
{
  REQUIRE(!text || strlen(text) < 2048);
  peer->closing = true;
  world_leave(peer, code);
}

int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length)
{
  static struct serve_message answer;
  char why[SERVE_WHY_MAX];

  REQUIRE(length <= SERVE_MESSAGE_MAX);
  if (peer->leaving)
    return -ENOTCONN;
  if (peer->messages == 0) {
    peer->wants_room = peer->behind = true;
    return -EAGAIN;
  }
  peer->messages--;
  REQUIRE(serve_decode(bytes, length, &answer, why) == 0);
  model_answered(peer->model, &answer);
  if (answer.type == SERVE_WELCOME)
    return 0;
  if (answer.type == SERVE_CHECKED)
    memcpy(sum, answer.sha256, sizeof(sum));
  if (answer.tag < WORLD_TAGS && peer->asked[answer.tag] > 0)
    peer->asked[answer.tag]--;
  else
    REQUIRE(answer.tag == WORLD_TAGS || peer->is_free);
  return 0;
}

/* As pst_peer_post() says. */
static int check(const struct pst_peer *peer, const struct pst_operation *o)
{
  const struct region *region = o->id <= WORLD_REGIONS ? &peer->regions[o->id] : NULL;
  uint32_t right = o->op == PST_OP_WRITE ? PST_ACCESS_REMOTE_WRITE : PST_ACCESS_REMOTE_READ;

  if (o->op == PST_OP_FLUSH)
    return 0;
  REQUIRE(o->op == PST_OP_WRITE || o->op == PST_OP_READ);
  REQUIRE(o->length > 0 && o->piece_count <= SERVER_PIECES);
  if (!region || region->length == 0)
    return -ENOENT;
  if (!region->offered || !(region->access & right))
    return -EACCES;
  if (o->length > region->length || o->remote_offset > region->length - o->length)
    return -ERANGE;
  return 0;
}

static void take(struct pst_peer *peer, const struct pst_operation *o)
{
  struct operation *made = &operations[operation_count];
  uint64_t total = 0;

  REQUIRE(operation_count < OPERATIONS);
  *made = (struct operation){.peer = peer, .cookie = o->cookie, .op = o->op};
  if (o->op != PST_OP_FLUSH && o->piece_count == 0)
    made->pieces[made->piece_count++] = (struct pst_area_piece){o->area, o->offset, o->length, 0};
  for (uint32_t i = 0; i < o->piece_count; i++)
    made->pieces[made->piece_count++] = o->pieces[i];
  for (uint32_t i = 0; i < made->piece_count; i++) {
    const struct pst_area_piece *piece = &made->pieces[i];
    require_in_area(piece->area, piece->offset, piece->length);
    world_require_unused(area.bytes + piece->offset, piece->length);
    world_io_require_unused(area.bytes + piece->offset, piece->length);
    total += piece->length;
  }
  REQUIRE(total == o->length);
  operation_count++;
  peer->under_way++;
  peer->posted += o->length;
  if (o->op != PST_OP_FLUSH)
    model_posted(peer->model, o->op, o->id, o->remote_offset, o->length);
}

int pst_peer_post(struct pst_peer *peer, const struct pst_operation *o, uint32_t n)
{
  uint32_t taken = 0;
  int rc = 0;

  if (peer->leaving)
    return -ENOTCONN;
  for (; taken < n && peer->operations > 0; taken++) {
    rc = check(peer, &o[taken]);
    if (rc < 0)
      break;
    take(peer, &o[taken]);
    if (peer->operations != UINT32_MAX)
      peer->operations--;
  }
  if (rc == 0 && taken < n)
    peer->wants_room = true;
  return taken > 0 ? (int)taken : rc;
}

/* Without --metrics there are none. */
void serve_metrics_publish(const struct server *server)
{
  (void)server;
  abort();
}
