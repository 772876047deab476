/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/clock.h"
#include "util/limit_remedy.h"
#include "util/log.h"

/* Connections beyond the peers: of strangers, and of those about to be told that there are
 * enough. */
#define STRANGERS_MAX 256
/* A server that strangers crowd hangs up on those who have not shown themselves. */
#define AGAIN_PAUSE_NS (20 * PST_NS_PER_MS)
#define AGAIN_NS PST_NS_PER_S

static const struct connect_words words = {
    .listen = "listen",
    .connect = "connect",
    .insecure = "allow it with `insecure`",
    .is_set = "insecure",
    .check = "check the address",
    .in_use = "another server is running there? stop it, or choose another port",
    .not_ours = "choose an address of this host: one of those `ip address` shows"};

void node_join_free(struct node_join *join)
{
  if (!join)
    return;
  blob_free(&join->address);
  free(join);
}

/* ---- Out --------------------------------------------------------------------------- */

static struct wire_message *new_message(struct control *control, enum wire_type type)
{
  struct wire_message *m = &control->say;

  memset(m, 0, sizeof *m);
  m->type = type;
  return m;
}

static void put_address(struct peer *peer, struct wire_message *m, const struct pst_blob *address)
{
  m->address = address->bytes;
  m->address_length = address->length;
  if (pass_send(peer, address, NULL, m))
    peer_send(peer, m);
}

static void put_params(const struct control *control, struct wire_message *m)
{
  m->param_count = control->node_param_count;
  if (m->param_count > 0)
    memcpy(m->params, control->node_params, m->param_count * sizeof m->params[0]);
}

static void say_join(struct peer *peer)
{
  struct control *control = peer->control;
  struct wire_message *m = new_message(control, WIRE_JOIN);

  m->term_count = control->node_term_count;
  if (m->term_count > 0)
    memcpy(m->terms, control->node_terms, m->term_count * sizeof m->terms[0]);
  put_params(control, m);
  put_address(peer, m, &peer->node.join->address);
  peer->node.join->is_stale = false;
}

static void say_welcome(struct peer *peer, const struct pst_blob *address)
{
  struct wire_message *m = new_message(peer->control, WIRE_WELCOME);

  put_params(peer->control, m);
  put_address(peer, m, address);
}

/* The answer to JOIN is waited for: it belongs to the address that JOIN told. */
static void say_readdress(struct peer *peer, struct pst_blob *address)
{
  struct node_join *join = peer->node.join;

  if (!join) {
    put_address(peer, new_message(peer->control, WIRE_READDRESS), address);
    return;
  }
  blob_free(&join->address);
  join->address = *address;
  *address = (struct pst_blob){0};
  join->is_stale = true;
}

static void say_region(struct peer *peer, const struct command *command)
{
  static const struct pst_blob none = {.struct_size = sizeof none};
  struct wire_message *m = new_message(peer->control, WIRE_REGION);

  m->region_id = command->region;
  m->access = command->access;
  m->remote = command->address.bytes;
  m->remote_bytes = command->address.length;
  m->remote_length = command->length;
  peer->node.offered++;
  if (pass_send(peer, &none, &command->address, m))
    peer_send(peer, m);
}

static void say_number(struct peer *peer, enum wire_type type, uint32_t region, int code,
                       const char *text)
{
  struct wire_message *m = new_message(peer->control, type);

  m->region_id = region;
  m->code = code;
  snprintf(m->text, sizeof m->text, "%s", text);
  peer_send(peer, m);
}

/* ---- Ends -------------------------------------------------------------------------- */

static void tell_gone(struct control *control, uint64_t id, int code, const char *text)
{
  if (!control->quiet)
    control->node_callbacks.gone(control->node_callbacks.context, id, code, text);
}

static bool is_ours(const struct peer *peer)
{
  return peer->node.state == NODE_JOINING || peer->node.state == NODE_JOINED;
}

static void fail_peer(struct peer *peer, int code, const char *text)
{
  if (!is_ours(peer))
    return;
  peer->node.state = NODE_OVER;
  tell_gone(peer->control, peer->node.id, code, text);
}

static bool has(const struct peer *peer, bool live_only)
{
  return live_only ? peer->node.state == NODE_JOINED : is_ours(peer);
}

static void names(const struct control *control, const struct peer *peer, char *text, size_t size)
{
  (void)control;
  (void)peer;
  if (size > 0)
    text[0] = '\0';
}

static void forget_join(struct peer *peer)
{
  node_join_free(peer->node.join);
  peer->node.join = NULL;
}

static void peer_forget(struct peer *peer)
{
  forget_join(peer);
  free(peer->node.regions);
}

static struct node_region *region_of(const struct peer *peer, uint32_t id)
{
  for (uint32_t i = 0; i < peer->control->node_offers_max; i++)
    if (peer->node.regions[i].id == id)
      return &peer->node.regions[i];
  return NULL;
}

static bool make_regions(struct peer *peer)
{
  uint32_t count = peer->control->node_offers_max;

  peer->node.regions = calloc(count ? count : 1, sizeof *peer->node.regions);
  if (!peer->node.regions)
    peer_drop(peer, -ENOMEM, "needs more memory than there is");
  return peer->node.regions;
}

/* ---- Connecting -------------------------------------------------------------------- */

/* The next address, of which the last one's outcome is the attempt's. Takes `join` over. */
static void try_next(struct control *control, struct node_join *join, int code, const char *why)
{
  char place[SOCKET_TEXT_MAX] = "";
  char text[REPORT_MAX];

  while (join->next < join->targets.count) {
    const struct socket_address *target = &join->targets.at[join->next++];
    struct peer *peer = connect_begin(control, target, join->is_insecure, &code);
    if (!peer) {
      why = strerror(-code);
      continue;
    }
    peer->node = (struct node_link){
        .state = NODE_JOINING, .id = join->id, .by_ns = join->by_ns, .join = join};
    return;
  }
  if (join->targets.count > 0)
    socket_text(&join->targets.at[join->targets.count - 1], place);
  const char *remedy = limit_remedy(code);
  snprintf(text, sizeof text, "%s: %s%s", place, why,
           remedy[0] ? remedy : "; is a `penstock serve` running there?");
  tell_gone(control, join->id, code, text);
  node_join_free(join);
}

/* False: it has had its tries. */
static bool try_later(struct control *control, struct node_join *join, int code, const char *why)
{
  if (join->again_until_ns == 0)
    join->again_until_ns = sooner(join->by_ns, control->now_ns + AGAIN_NS);
  if (code != -ECONNRESET || control->now_ns + AGAIN_PAUSE_NS >= join->again_until_ns)
    return false;
  join->next--;
  join->again_ns = control->now_ns + AGAIN_PAUSE_NS;
  snprintf(join->why, sizeof join->why, "%s", why);
  join->later = control->node_later;
  control->node_later = join;
  return true;
}

static struct node_join *take_later(struct node_join **at)
{
  struct node_join *join = *at;

  *at = join->later;
  join->later = NULL;
  return join;
}

/* When the next is due. */
static uint64_t tick_later(struct control *control)
{
  uint64_t next = UINT64_MAX;

  for (struct node_join **at = &control->node_later; *at;) {
    if (control->now_ns < (*at)->again_ns) {
      next = sooner(next, (*at)->again_ns);
      at = &(*at)->later;
      continue;
    }
    struct node_join *join = take_later(at);
    try_next(control, join, -ECONNRESET, join->why);
  }
  return next;
}

/* It is between two tries. */
static void command_later(struct control *control, struct command *command)
{
  struct node_join **at = &control->node_later;

  while (*at && (*at)->id != command->node)
    at = &(*at)->later;
  if (!*at)
    return;
  if (command->type == WIRE_READDRESS) {
    blob_free(&(*at)->address);
    (*at)->address = command->address;
    command->address = (struct pst_blob){0};
  } else if (command->type == WIRE_BYE) {
    node_join_free(take_later(at));
  }
}

static void retry(struct peer *peer, int code, const char *why)
{
  struct node_join *join = peer->node.join;

  if (peer->node.state != NODE_JOINING || !join)
    return;
  peer->node.state = NODE_OVER;
  peer->node.join = NULL;
  if (!try_later(peer->control, join, code, why))
    try_next(peer->control, join, code, why);
}

/* ---- In ---------------------------------------------------------------------------- */

static void tell_peer(struct peer *peer, const struct wire_message *m, const struct side_fds *fds,
                      void (*callback)(void *, uint64_t, const struct control_peer *))
{
  struct control *control = peer->control;
  struct pst_blob address =
      flow_blob(m->address, m->address_length, fds->fds, fds->count > 0 ? m->fd_count : 0);
  struct control_peer told = {
      .text = peer->text, .params = m->params, .param_count = m->param_count, .address = &address};

  if (!control->quiet)
    callback(control->node_callbacks.context, peer->node.id, &told);
}

static void got_join(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  static const char *const ends[2] = {"the other end", "this one"};
  struct control *control = peer->control;
  char text[REPORT_MAX];

  if (peer->is_connector || peer->node.state != NODE_STRANGE) {
    peer_drop(peer, -EPROTO, "sent JOIN %s",
              peer->is_connector ? "though it was connected to" : "twice");
    return;
  }
  if (!flow_compare_terms(control->node_terms, control->node_term_count, m, ends, text,
                          sizeof text)) {
    peer_drop(peer, -EPROTO, "does not agree: %s; give both ends the same transport and options",
              text);
    return;
  }
  /* Before anything is opened for it. */
  if (control->node_needs_fds && (m->fd_count == 0 || fds->count == 0)) {
    peer_drop(peer, -EXDEV,
              "passes no descriptors, which this transport needs: both must be processes of one "
              "user on one host; use a transport that reaches other hosts");
    return;
  }
  peer->node.state = NODE_JOINING;
  peer->node.id = control->node_last += 2;
  peer->node.by_ns = control->now_ns + control->connect_timeout_ns;
  peer->had_stream = true;
  tell_peer(peer, m, fds, control->node_callbacks.join);
}

static void got_region(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  struct control *control = peer->control;
  struct pst_blob remote =
      flow_blob(m->remote, m->remote_bytes, fds->fds, fds->count > 0 ? m->remote_fd_count : 0);
  struct control_region region = {
      .id = m->region_id, .access = m->access, .length = m->remote_length, .remote = &remote};

  struct node_region *place = region_of(peer, 0);
  if (region_of(peer, m->region_id)) {
    peer_drop(peer, -EPROTO, "offered the region %u twice", m->region_id);
    return;
  }
  if (!place) {
    char text[WIRE_WHY_MAX];
    snprintf(text, sizeof text, "more regions on offer than the limit `offers`: %u",
             control->node_offers_max);
    say_number(peer, WIRE_TAKEN, m->region_id, -ENOSPC, text);
    return;
  }
  *place = (struct node_region){.id = m->region_id};
  if (!control->quiet)
    control->node_callbacks.region(control->node_callbacks.context, peer->node.id, &region);
}

static void got_taken(struct peer *peer, const struct wire_message *m)
{
  struct control *control = peer->control;

  if (peer->node.offered == 0) {
    peer_drop(peer, -EPROTO, "sent TAKEN of a region that is not on offer");
    return;
  }
  peer->node.offered--;
  if (!control->quiet)
    control->node_callbacks.taken(control->node_callbacks.context, peer->node.id, m->region_id,
                                  m->code, m->text);
}

static void got_withdraw(struct peer *peer, const struct wire_message *m)
{
  struct control *control = peer->control;

  struct node_region *place = region_of(peer, m->region_id);
  /* Or it was refused, which has crossed this on its way. */
  if (!place || place->is_withdrawn)
    return;
  place->is_withdrawn = true;
  if (!control->quiet)
    control->node_callbacks.withdraw(control->node_callbacks.context, peer->node.id, m->region_id);
}

static void got_bye(struct peer *peer, const struct wire_message *m)
{
  char text[REPORT_MAX];

  if (m->code == 0)
    snprintf(text, sizeof text, "%s has closed", peer->text);
  else
    snprintf(text, sizeof text, "%s says: %s", peer->text, m->text);
  fail_peer(peer, peer->node.state == NODE_JOINED || m->code ? m->code : -ECONNRESET, text);
  peer_close(peer, 0, NULL);
}

static void got_welcome(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  struct control *control = peer->control;

  if (peer->node.join && peer->node.join->is_stale)
    put_address(peer, new_message(control, WIRE_READDRESS), &peer->node.join->address);
  forget_join(peer);
  if (peer->state != PEER_UP || !make_regions(peer))
    return;
  peer->node.state = NODE_JOINED;
  tell_peer(peer, m, fds, control->node_callbacks.welcome);
}

static void got_readdress(struct peer *peer, const struct wire_message *m,
                          const struct side_fds *fds)
{
  struct control *control = peer->control;
  struct pst_blob address =
      flow_blob(m->address, m->address_length, fds->fds, fds->count > 0 ? m->fd_count : 0);

  if (!control->quiet)
    control->node_callbacks.readdress(control->node_callbacks.context, peer->node.id, &address);
}

static void got(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  if (m->type == WIRE_KEEP)
    return;
  if (m->type == WIRE_BYE) {
    got_bye(peer, m);
    return;
  }
  if (m->type == WIRE_JOIN) {
    got_join(peer, m, fds);
    return;
  }
  if (m->type == WIRE_WELCOME && peer->is_connector && peer->node.state == NODE_JOINING) {
    got_welcome(peer, m, fds);
    return;
  }
  if (peer->node.state == NODE_OVER) /* our goodbye has crossed it on its way */
    return;
  if (peer->node.state != NODE_JOINED) {
    peer_drop(peer, -EPROTO, "sent a %s before it had joined", wire_type_name(m->type));
    return;
  }
  switch (m->type) {
  case WIRE_REGION:
    got_region(peer, m, fds);
    break;
  case WIRE_TAKEN:
    got_taken(peer, m);
    break;
  case WIRE_WITHDRAW:
    got_withdraw(peer, m);
    break;
  case WIRE_READDRESS:
    got_readdress(peer, m, fds);
    break;
  default:
    peer_drop(peer, -EPROTO, "sent a %s, which is not for nodes", wire_type_name(m->type));
    break;
  }
}

/* ---- What the node wants ----------------------------------------------------------- */

static struct peer *find(const struct control *control, uint64_t id)
{
  for (struct peer *peer = control->peers; peer; peer = peer->next)
    if (peer->node.id == id && is_ours(peer))
      return peer;
  return NULL;
}

static void release(struct peer *peer, uint32_t id)
{
  struct node_region *place = region_of(peer, id);

  if (place)
    place->id = 0;
}

static void command_run(struct control *control, struct command *command)
{
  if (command->type == WIRE_JOIN) {
    struct node_join *join = command->join;
    command->join = NULL;
    join->by_ns = control->now_ns + control->connect_timeout_ns;
    try_next(control, join, -EADDRNOTAVAIL, "no address");
    return;
  }
  struct peer *peer = find(control, command->node);
  if (!peer) {
    command_later(control, command);
    return;
  }
  switch (command->type) {
  case WIRE_WELCOME:
    if (!make_regions(peer))
      break;
    peer->node.state = NODE_JOINED;
    say_welcome(peer, &command->address);
    break;
  case WIRE_READDRESS:
    say_readdress(peer, &command->address);
    break;
  case WIRE_REGION:
    say_region(peer, command);
    break;
  case WIRE_TAKEN:
    if (command->code < 0)
      release(peer, command->region);
    say_number(peer, WIRE_TAKEN, command->region, command->code, command->text);
    break;
  case WIRE_KEEP: /* nothing is said */
    release(peer, command->region);
    break;
  case WIRE_WITHDRAW:
    say_number(peer, WIRE_WITHDRAW, command->region, 0, "");
    break;
  default:
    peer->node.state = NODE_OVER;
    peer_close(peer, command->code, command->code ? command->text : NULL);
    break;
  }
}

static void close_all(struct control *control)
{
  while (control->node_later)
    node_join_free(take_later(&control->node_later));
  for (struct peer *peer = control->peers; peer; peer = peer->next)
    if (is_ours(peer))
      peer->node.state = NODE_OVER;
}

static uint64_t tick(struct control *control)
{
  uint64_t next = control->quiet ? UINT64_MAX : tick_later(control);
  char seconds[24];

  for (struct peer *peer = control->peers; peer; peer = peer->next) {
    if (peer->node.state != NODE_JOINING)
      continue;
    if (control->now_ns < peer->node.by_ns) {
      next = sooner(next, peer->node.by_ns);
      continue;
    }
    seconds_text(control->connect_timeout_ns, seconds);
    if (peer->is_connector)
      forget_join(peer); /* no other address either */
    peer_drop(peer, -ETIMEDOUT, "did not join within %s", seconds);
    if (peer->state < PEER_UP)
      peer->state = PEER_DEAD;
  }
  return next;
}

const struct control_flow flow_nodes = {.connector = WIRE_NODE,
                                        .acceptor = WIRE_NODE,
                                        .is_quiet = true,
                                        .idle = "did not join",
                                        .up = say_join,
                                        .got = got,
                                        .has = has,
                                        .names = names,
                                        .fail_peer = fail_peer,
                                        .retry = retry,
                                        .forget = peer_forget,
                                        .command = command_run,
                                        .close_all = close_all,
                                        .tick = tick};

/* ---- From any thread --------------------------------------------------------------- */

static int prepare(struct control *control, const struct control_node_params *params,
                   struct pst_error *error)
{
  int rc = flow_copy_pairs(params->terms, params->term_count, &control->node_terms);

  if (rc == 0)
    rc = flow_copy_pairs(params->params, params->param_count, &control->node_params);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "control: out of memory");
  control->node_term_count = params->term_count;
  control->node_param_count = params->param_count;
  control->node_offers_max = params->offers_max;
  control->node_needs_fds = params->needs_fds;
  control->node_last = UINT64_MAX; /* odd from here */
  rc = control_ready(control, error);
  return rc < 0 || !params->listen
             ? rc
             : connect_listen(control, params->listen, params->insecure, error);
}

int control_node_open(const struct control_node_params *params,
                      const struct control_node_callbacks *callbacks, struct control **result,
                      struct pst_error *error)
{
  struct control_limits limits = control_default_limits;
  struct control_params common = {.connect_timeout_ns = params->join_timeout_ns,
                                  .peer_timeout_ns = params->peer_timeout_ns};

  if (params->term_count > CONTROL_TERMS_MAX || params->param_count > CONTROL_PARAMS_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -E2BIG, "%u terms and %u params; at most %d and %d",
                    params->term_count, params->param_count, CONTROL_TERMS_MAX, CONTROL_PARAMS_MAX);
  limits.peers_max = params->peers_max + STRANGERS_MAX;
  struct control *control = control_new(&common, &limits, &flow_nodes);
  if (!control)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory");
  control->words = &words;
  control->node_callbacks = *callbacks;
  int rc = prepare(control, params, error);
  if (rc == 0)
    rc = control_run(control, result, error);
  if (rc < 0)
    control_free(control);
  return rc;
}

uint16_t control_node_port(const struct control *control)
{
  return control_port(control);
}

int control_node_connect(struct control *control, uint64_t id, const char *host_port, bool insecure,
                         const struct pst_blob *address, struct pst_error *error)
{
  struct command *command = calloc(1, sizeof *command);
  struct node_join *join = calloc(1, sizeof *join);
  int rc = command && join ? 0 : -ENOMEM;

  if (rc == 0)
    rc = blob_copy(address, &join->address);
  if (rc < 0)
    pst_fail(error, PST_EXIT_FAILED, rc, "connect: %s: %s%s", host_port, strerror(-rc),
             limit_remedy(rc));
  else
    rc = connect_targets(control, host_port, insecure, &join->targets, error);
  if (rc < 0) {
    node_join_free(join);
    free(command);
    return rc;
  }
  join->id = id;
  join->is_insecure = insecure;
  command->type = WIRE_JOIN;
  command->join = join;
  control_submit(control, command);
  return 0;
}

static int say(struct control *control, const struct command *what, const struct pst_blob *blob,
               const char *text)
{
  struct command *command = malloc(sizeof *command);
  int rc;

  if (!command)
    return -ENOMEM;
  *command = *what;
  if (text)
    snprintf(command->text, sizeof command->text, "%s", text);
  if (blob && (rc = blob_copy(blob, &command->address)) < 0) {
    free(command);
    return rc;
  }
  control_submit(control, command);
  return 0;
}

int control_node_welcome(struct control *control, uint64_t id, const struct pst_blob *address)
{
  return say(control, &(struct command){.type = WIRE_WELCOME, .node = id}, address, NULL);
}

int control_node_readdress(struct control *control, uint64_t id, const struct pst_blob *address)
{
  return say(control, &(struct command){.type = WIRE_READDRESS, .node = id}, address, NULL);
}

int control_node_region(struct control *control, uint64_t id, const struct control_region *region)
{
  return say(control,
             &(struct command){.type = WIRE_REGION,
                               .node = id,
                               .region = region->id,
                               .access = region->access,
                               .length = region->length},
             region->remote, NULL);
}

int control_node_taken(struct control *control, uint64_t id, uint32_t region, int code,
                       const char *text)
{
  return say(control,
             &(struct command){.type = WIRE_TAKEN, .node = id, .region = region, .code = code},
             NULL, text);
}

int control_node_withdraw(struct control *control, uint64_t id, uint32_t region)
{
  return say(control, &(struct command){.type = WIRE_WITHDRAW, .node = id, .region = region}, NULL,
             NULL);
}

int control_node_release(struct control *control, uint64_t id, uint32_t region)
{
  return say(control, &(struct command){.type = WIRE_KEEP, .node = id, .region = region}, NULL,
             NULL);
}

int control_node_bye(struct control *control, uint64_t id, int code, const char *text)
{
  return say(control, &(struct command){.type = WIRE_BYE, .node = id, .code = code}, NULL, text);
}
