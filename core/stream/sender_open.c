/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the sending end of a stream: its slots, its legs, its endpoint. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sender.h"
#include "session.h"

#define SENDER_SEED_DEFAULT 1

static bool sender_sends_from(const struct session_end *end, const struct pst_sender *slots)
{
  return end == &slots->end ||
         (end->ops == &sender_ops && end->share && strcmp(end->share, slots->end.name) == 0);
}

/* enum pst_memory_need of all transports that send from its slots: its own, and with fan-out those
 * of the streams that share them. */
static uint32_t sender_needs(const struct pst_sender *sender)
{
  const struct pst_session *session = sender->end.session;
  uint32_t needs = 0;

  for (uint32_t i = 0; i < session->end_count; i++)
    if (sender_sends_from(session->ends[i], sender))
      needs |= session->ends[i]->device->limits.send_needs;
  return needs;
}

struct region_params sender_slot_params(const struct pst_sender *sender,
                                        const struct session_end *leg_owner)
{
  return (struct region_params){.memory = sender->memory,
                                .device = leg_owner->device,
                                .length = sender->stride * sender->slots,
                                .alignment = engine_device_alignment(sender->end.device),
                                .purpose = sender->staging ? PST_ALLOC_STAGING : PST_ALLOC_NORMAL,
                                .needs = leg_owner->device->limits.send_needs,
                                .label = sender->end.name,
                                .lower = "`ring` or `message`",
                                .use = " for the sender's slots",
                                .does = "sends from",
                                .access = PST_ACCESS_LOCAL_READ,
                                .send_max = sender->end.config->message};
}

/* `why` says which transport cannot read the slots: its own, or that of a stream which shares them.
 */
static void sender_check_needs(const struct pst_sender *sender, struct region_why *why)
{
  const struct pst_session *session = sender->end.session;

  for (uint32_t i = 0; i < session->end_count; i++) {
    const struct session_end *leg = session->ends[i];
    const struct region_params params = sender_slot_params(sender, leg);
    const char *lacks;
    if (!sender_sends_from(leg, sender) || region_meets(&sender->region, &params, why))
      continue;
    if (leg != &sender->end && region_lacks(&sender->region.mem, params.needs, &lacks))
      snprintf(why->text, sizeof(why->text),
               "transport %s of stream %.64s sends from %s, which memory %s (%s) is not",
               params.device->plugin->name, leg->name, lacks, sender->memory->plugin->name,
               sender->region.mem.backing);
    return;
  }
}

/* Where the transport cannot read it, why->text says why. */
static int sender_alloc_slots(struct pst_sender *sender, struct region_why *why,
                              struct pst_error *error)
{
  const enum config_sender_path path = sender->end.config->sender.path;
  struct region_params params = sender_slot_params(sender, &sender->end);

  params.needs = path == CONFIG_SENDER_PATH_STAGED ? 0 : sender_needs(sender);
  params.is_staged_else = path == CONFIG_SENDER_PATH_AUTO;
  int rc = region_alloc(&sender->region, &params, why);
  if (rc == -EOPNOTSUPP && !why->is_alloc) { /* staged, the NIC reaches none of it */
    params.needs = 0;
    rc = region_alloc(&sender->region, &params, why);
  }
  if (rc < 0)
    return region_fail(error, rc, sender->end.label, why, "; lower `ring` or `message`");
  if (path == CONFIG_SENDER_PATH_STAGED)
    snprintf(why->text, sizeof(why->text), "asked for by `sender.path: staged`");
  else
    sender_check_needs(sender, why);
  return 0;
}

static int sender_open_region(struct pst_sender *sender, const struct pst_limits *limits,
                              struct pst_error *error)
{
  uint64_t step = limits->slot_alignment > CACHE_LINE ? limits->slot_alignment : CACHE_LINE;
  struct region_why why = {.text = ""};
  int rc;

  sender->base = limits->send_headroom;
  sender->stride = region_round_up(limits->send_headroom + sender->end.config->message, step);
  if (sender->end.config->stride > sender->stride)
    sender->stride = region_round_up(sender->end.config->stride, step);
  rc = sender_alloc_slots(sender, &why, error);
  if (rc < 0)
    return rc;
  memcpy(sender->end.memory_backing, sender->region.mem.backing,
         sizeof(sender->end.memory_backing));
  sender->end.memory_kind = sender->region.mem.kind;
  return why.text[0] ? sender_stage(sender, why.text, sender_needs(sender), error) : 0;
}

/* With the transport of one of its legs. *path and *why say why not. */
static int sender_register_leg(const struct pst_sender *leader, const struct pst_sender *leg_owner,
                               struct pst_mr **mr, struct pst_path_info *path,
                               struct region_why *why)
{
  const struct region_params params = sender_slot_params(leader, &leg_owner->end);

  return region_register(sender_region(leader), &params, mr, path, why);
}

/* The leader's transport sends from the slots as they are by now. */
static int sender_fail_leg(const struct pst_sender *leader, const struct pst_sender *leg_owner,
                           const struct pst_path_info *path, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: transport %s cannot send from the slots of stream %s, which it "
                  "shares, in memory %s (%s)%s%s; with `sender: {path: staged}` in stream %s they "
                  "are copied to memory that it reads",
                  leg_owner->end.name, leg_owner->end.device->plugin->name, leader->end.name,
                  leader->memory->plugin->name, leader->region.mem.backing,
                  path->reason[0] ? ": " : "", path->reason, leader->end.name);
}

/* -EOPNOTSUPP alone says that other memory may do. */
static int sender_register_slots(struct pst_sender *sender, struct pst_error *error)
{
  struct pst_path_info path;
  struct region_why why;
  char reason[160];
  int rc = sender_register_leg(sender, sender, &sender->mr, &path, &why);

  if (rc == -EOPNOTSUPP && !sender->staging) {
    snprintf(reason, sizeof(reason), "transport %s cannot send from memory %s%s%.80s",
             sender->end.device->plugin->name, sender->memory->plugin->name,
             path.reason[0] ? ": " : "", path.reason);
    rc = sender_stage(sender, reason, sender_needs(sender), error);
    if (rc < 0)
      return rc;
    rc = sender_register_leg(sender, sender, &sender->mr, &path, &why);
  }
  return rc < 0 ? region_fail(error, rc, sender->end.label, &why, "") : 0;
}

/* Times of departure need a transport that keeps them, of each leg. */
static void sender_keep_departures(struct pst_sender *sender, const struct pst_limits *limits)
{
  sender->departs = sender->departs && limits->capabilities & PST_CAP_DEPARTURE;
  sender->rate.lead_ns = sender->departs ? SENDER_LEAD_NS : 0;
}

/* Opens the memory of the slots, allocates and registers it. On failure sender_close() frees what
 * there is. */
static int sender_open_slots(struct pst_sender *sender, struct pst_error *error)
{
  const struct config_stream *config = sender->end.config;
  int rc = engine_memory_open(&sender->end.session->engine, &config->sender.memory, &sender->memory,
                              error);

  if (rc < 0)
    return rc;
  sender->slots = sender_slots(config);
  sender->slot_mask = sender->slots - 1;
  rc = sender_open_region(sender, &sender->end.device->limits, error);
  if (rc == 0)
    rc = sender_register_slots(sender, error);
  if (rc == 0 && (sender->memory->ops->capabilities & PST_MEMORY_CAP_PATTERN))
    rc = end_open_queue(&sender->end, sender->memory, 64, 65536, &sender->queue, error);
  if (rc < 0)
    return rc;
  sender->requests = aligned_alloc(CACHE_LINE, sizeof(*sender->requests) * sender->slots);
  sender->legs = calloc(1, sizeof(*sender->legs));
  if (!sender->requests || !sender->legs)
    return end_out_of_memory(&sender->end, error);
  for (uint32_t i = 0; i < sender->slots; i++)
    sender->requests[i] = (struct pst_request){.opcode = PST_OP_SEND,
                                               .flags = PST_REQUEST_EXCLUSIVE,
                                               .local.mr = sender->mr,
                                               .offset = sender->base + i * sender->stride};
  sender->legs[0] = (struct sender_leg){.owner = sender, .mr = sender->mr};
  sender->leg_count = 1;
  rate_limit_init(&sender->rate, config->sender.rate_bps, config->sender.burst, config->message);
  rate_limit_chunks(&sender->rate, config->sender.chunk, config->sender.sleep_ns);
  sender->departs = config->sender.rate_bps > 0;
  sender_keep_departures(sender, &sender->end.device->limits);
  return 0;
}

/* Makes this sender a leg of the one whose messages it shares, and registers the leader's slots
 * with its device. */
static int sender_join_leader(struct pst_sender *sender, struct pst_error *error)
{
  struct pst_sender *leader = pst_session_sender(sender->end.session, sender->end.share);
  struct sender_leg leg = {.owner = sender};

  if (!leader)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream %s: sender.share: stream %s is not among the streams of this run",
                    sender->end.name, sender->end.share);
  sender->leader = leader;
  if (sender->end.device != leader->end.device) {
    struct pst_path_info path;
    struct region_why why;
    int rc = sender_register_leg(leader, sender, &sender->mr, &path, &why);
    if (rc == -EOPNOTSUPP && !leader->staging)
      return sender_fail_leg(leader, sender, &path, error);
    if (rc < 0)
      return region_fail(error, rc, sender->end.label, &why, "");
  }
  sender_keep_departures(leader, &sender->end.device->limits);
  leg.mr = sender->mr ? sender->mr : leader->mr;
  sender->leg = leader->leg_count;
  if (ARRAY_APPEND(leader->legs, leader->leg_count, leg) < 0)
    return end_out_of_memory(&sender->end, error);
  sender->end.path = leader->end.path;
  for (uint32_t i = 0; i < leader->slots; i++)
    leader->requests[i].flags &= (uint8_t)~PST_REQUEST_EXCLUSIVE;
  sender->end.memory_kind = leader->end.memory_kind;
  memcpy(sender->end.memory_backing, leader->end.memory_backing,
         sizeof(sender->end.memory_backing));
  return 0;
}

/* Streams get patterns of their own, so that a message of another stream does not
 * pass for one of this. FNV-1a. */
static uint64_t sender_seed(const char *name, uint64_t seed)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ seed;

  for (const char *c = name; *c; c++)
    hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
  return hash;
}

int pst_sender_pattern(struct pst_sender *sender, const uint64_t *seed)
{
  if (sender->end.session->is_started)
    return -EALREADY;
  if (sender->leader)
    return -EINVAL;
  sender->has_pattern = seed != NULL;
  if (seed)
    sender->seed = sender_seed(sender->end.config->name, *seed);
  return 0;
}

void sender_plan(const struct session_end *end, struct pst_plan *plan)
{
  const struct pst_sender *leader =
      end->share ? pst_session_sender(end->session, end->share) : NULL;
  const uint32_t requests = sender_slots(leader ? leader->end.config : end->config) + 1;

  plan->senders++;
  if (requests > plan->requests)
    plan->requests = requests;
}

int sender_open(struct session_end *end, struct pst_error *error)
{
  struct pst_sender *sender = (struct pst_sender *)end;
  const struct pst_limits *limits = &end->device->limits;
  struct pst_endpoint_params params = {.pieces = 1};

  sender->seed = sender_seed(end->name, SENDER_SEED_DEFAULT);
  sender->has_pattern = true;
  int rc = end->share ? sender_join_leader(sender, error) : sender_open_slots(sender, error);
  if (rc < 0)
    return rc;
  params.mr = sender->mr ? sender->mr : sender_leader(sender)->mr;
  params.requests = sender_leader(sender)->slots + 1;
  if (params.requests > limits->requests_max)
    params.requests = limits->requests_max;
  return end_open_endpoint(end, &params, error);
}

void sender_close(struct session_end *end)
{
  struct pst_sender *sender = (struct pst_sender *)end;

  engine_memory_close_queue(sender->memory, sender->queue);
  if (sender->mr)
    end->device->ops->mr_deregister(end->device->device, sender->mr);
  sender_unstage(sender);
  region_close(&sender->region);
  free(sender->requests);
  free(sender->legs);
  end_destroy(end);
  free(sender);
}
