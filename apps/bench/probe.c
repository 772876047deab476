/* SPDX-License-Identifier: Apache-2.0 */
/* Probes the transport's capabilities, which decide the operations that are measured. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "region_end.h"
#include "result.h"
#include "sessions.h"

#define NAMES_MAX 32
#define NAME_SIZE 32
#define NOWHERE "127.0.0.1:1" /* nothing is started */
#define SMALL 64              /* a message that every transport has room for */

struct names {
  char name[NAMES_MAX][NAME_SIZE];
  uint32_t count;
};

static uint32_t bench_probe_ops_of(uint64_t capabilities)
{
  return (capabilities & PST_CAP_SEND ? 1u << BENCH_SEND : 0u) |
         (capabilities & PST_CAP_WRITE ? 1u << BENCH_WRITE : 0u) |
         (capabilities & PST_CAP_READ ? 1u << BENCH_READ : 0u);
}

/* "write", "write or read" */
static void bench_probe_name_ops(uint32_t ops, char *text, size_t size)
{
  size_t used = 0;

  text[0] = '\0';
  for (uint32_t op = 1; op < BENCH_OPS; op++)
    if ((ops & 1u << op) != 0 && used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? " or " : "",
                               bench_op_name((enum bench_op)op));
}

/* ---- Capabilities ------------------------------------------------------------------- */

static int bench_probe_open_messages(const struct bench_side *side, uint64_t size, uint32_t ring,
                                     uint32_t roles, struct pst_session **session,
                                     uint64_t *capabilities, struct pst_error *error)
{
  const struct bench_case c = {.op = BENCH_SEND, .size = size, .ring = ring, .token = "0"};
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  int rc = bench_session_open(side, &c, roles, BENCH_OUT, NOWHERE, NULL, session, error);
  if (rc < 0)
    return rc;
  pst_sender_stats(bench_sender(*session, &c, BENCH_OUT), &stats);
  *capabilities = stats.capabilities;
  return 0;
}

/* Notes the plugins that messages, or regions, are opened with. */
static void bench_probe_note_plugins(const struct pst_session *session, const struct pst_node *node,
                                     struct bench_setting *setting, struct json_object *result)
{
  struct pst_plugin_info info = {.struct_size = sizeof(info)};
  uint32_t count = node ? pst_node_plugins(node) : pst_session_plugins(session);

  for (uint32_t i = 0; i < count; i++) {
    if ((node ? pst_node_plugin(node, i, &info) : pst_session_plugin(session, i, &info)) < 0)
      continue;
    char *text = info.kind == PST_KIND_TRANSPORT ? setting->transport
                 : info.kind == PST_KIND_MEMORY  ? setting->memory
                                                 : NULL;
    if (text)
      snprintf(text, sizeof(setting->memory), "%s %s", info.name, info.version);
    app_result_add_plugin(result, &info);
  }
}

/* Returns the most operations that the cases will have under way. */
static uint32_t bench_probe_most_under_way(const struct bench_plan *plan)
{
  uint32_t most = plan->depth;

  for (uint32_t i = 0; plan->depth == 0 && i < plan->size_count; i++)
    if (pst_ring_default(plan->sizes[i]) > most)
      most = pst_ring_default(plan->sizes[i]);
  return most < BENCH_RING_MAX ? most : BENCH_RING_MAX - 1; /* a node's, beside a FLUSH */
}

static int bench_probe_open_region(const struct bench_plan *plan, struct region_end *end,
                                   uint32_t *depth, struct pst_error *error)
{
  const struct bench_case c = {.op = BENCH_WRITE,
                               .size = plan->sizes[0],
                               .ring = bench_probe_most_under_way(plan),
                               .places = plan->places != 0  ? plan->places
                                         : plan->depth != 0 ? plan->depth
                                                            : pst_ring_default(plan->sizes[0]),
                               .token = "0"};
  int rc = bench_region_end_open(plan, &c, NULL, plan->cpus[0], end, error);

  if (rc == 0)
    *depth = pst_node_depth(end->node) - 1;
  return rc;
}

static void bench_probe_take_name(void *context, const struct pst_plugin_info *info)
{
  struct names *names = context;

  if (info->kind != PST_KIND_TRANSPORT || info->status != 0 || names->count == NAMES_MAX)
    return;
  snprintf(names->name[names->count++], NAME_SIZE, "%s", info->name);
}

/* The transports that open here without options and have `op`: "loopback, verbs_rc". */
static void bench_probe_who_has(const struct bench_plan *plan, enum bench_op op, char *text,
                                size_t size)
{
  struct bench_side side = {.memory = plan->side.memory};
  struct pst_error error = PST_ERROR_INIT;
  struct names names = {.count = 0};
  size_t used = 0;

  app_log_hush(true); /* why others do not open is of no interest */
  text[0] = '\0';
  pst_plugins_list(bench_probe_take_name, NULL, &names);
  for (uint32_t i = 0; i < names.count && used < size; i++) {
    struct pst_session *session = NULL;
    uint64_t capabilities = 0;
    side.transport = names.name[i];
    if (bench_probe_open_messages(&side, SMALL, 16, PST_SESSION_SENDER, &session, &capabilities,
                                  &error) < 0)
      continue;
    pst_session_close(session);
    if ((bench_probe_ops_of(capabilities) & 1u << op) != 0)
      used +=
          (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", names.name[i]);
  }
  app_log_hush(false);
}

/* ---- Operations to measure ------------------------------------------------------------ */

static int bench_probe_refuse(const struct bench_plan *plan, uint32_t lacking,
                              struct pst_error *error)
{
  char what[64], who[256];
  enum bench_op op = BENCH_SEND;

  while ((lacking & 1u << op) == 0)
    op = (enum bench_op)(op + 1);
  bench_probe_name_ops(lacking, what, sizeof(what));
  bench_probe_who_has(plan, op, who, sizeof(who));
  return app_log_fail(
      error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
      "bench: transport %s has no %s; transports here that have %s: %s; choose one of "
      "those, or leave it out of --op",
      plan->side.transport, what, bench_op_name(op), who[0] != '\0' ? who : "none");
}

__attribute__((format(printf, 2, 3))) static void bench_probe_note(struct bench_probe *look,
                                                                   const char *format, ...)
{
  size_t used = strlen(look->notes);
  va_list args;

  va_start(args, format);
  vsnprintf(look->notes + used, sizeof(look->notes) - used, format, args);
  va_end(args);
}

static void bench_probe_skip(struct bench_probe *look, const char *what, const char *why)
{
  bench_probe_note(look, "%s skipped: %s\n", what, why);
}

static int bench_probe_choose(const struct bench_plan *plan, uint64_t capabilities,
                              struct bench_probe *look, struct pst_error *error)
{
  uint32_t has = bench_probe_ops_of(capabilities), all = (1u << BENCH_OPS) - (1u << BENCH_SEND);
  uint32_t lacking = (plan->ops != 0 ? plan->ops : all) & ~has;
  char what[64], why[160];

  if (plan->ops != 0 && lacking != 0)
    return bench_probe_refuse(plan, lacking, error);
  look->ops = plan->ops != 0 ? plan->ops : has;
  bench_probe_name_ops(lacking, what, sizeof(what));
  snprintf(why, sizeof(why), "%.31s has no such operation", plan->side.transport);
  if (lacking != 0)
    bench_probe_skip(look, what, why);
  if (plan->ops == 0 && plan->side.path && (look->ops & BENCH_ONE_SIDED) != 0) {
    bench_probe_name_ops(look->ops & BENCH_ONE_SIDED, what, sizeof(what));
    bench_probe_skip(look, what, "--path is for send");
    look->ops &= ~BENCH_ONE_SIDED;
  }
  look->no_send_latency = (capabilities & PST_CAP_RELIABLE) == 0;
  snprintf(why, sizeof(why), "%.31s is unreliable", plan->side.transport);
  if (look->no_send_latency && (plan->measures & MEASURE_LATENCY) != 0 &&
      (look->ops & 1u << BENCH_SEND) != 0)
    bench_probe_skip(look, "send latency", why);
  return 0;
}

int bench_probe(const struct bench_plan *plan, struct bench_setting *setting,
                struct json_object *into, struct bench_probe *look, struct pst_error *error)
{
  uint32_t roles = PST_SESSION_SENDER | (plan->in_process ? PST_SESSION_RECEIVER : 0);
  bool sends = plan->ops == 0 || (plan->ops & 1u << BENCH_SEND) != 0;
  uint64_t size = sends ? plan->sizes[0] : SMALL, capabilities = 0;
  struct pst_session *session = NULL;
  struct bench_side side = plan->side;
  struct region_end end = {.node = NULL};

  /* The transport's capabilities do not depend on the memory, except whether it sends from the
   * memory. */
  if (!sends) {
    side.memory = "host";
    side.memory_option_count = 0;
  }
  *look = (struct bench_probe){.ops = 0};
  int rc =
      bench_probe_open_messages(&side, size, plan->ring != 0 ? plan->ring : pst_ring_default(size),
                                roles, &session, &capabilities, error);
  if (rc == 0 && sends && side.sends_from_host)
    bench_probe_note(look,
                     "send: the sender's slots are in host memory, since transport %.31s cannot "
                     "send from memory %.31s\n",
                     side.transport, side.memory);
  if (rc == 0 && sends)
    bench_probe_note_plugins(session, NULL, setting, into);
  pst_session_close(session);
  if (rc == 0)
    rc = bench_probe_choose(plan, capabilities, look, error);
  if (rc == 0 && (look->ops & BENCH_ONE_SIDED) != 0)
    rc = bench_probe_open_region(plan, &end, &look->depth_max, error);
  if (rc == 0 && end.node && !sends)
    bench_probe_note_plugins(NULL, end.node, setting, into);
  bench_region_end_close(&end);
  if (rc < 0)
    return rc;
  if (plan->depth > look->depth_max && (look->ops & BENCH_ONE_SIDED) != 0)
    return app_log_fail(error, PST_EXIT_UNAVAILABLE, -ERANGE,
                        "bench: --depth %u: an initiator of transport %s has at most %u transfers "
                        "under way",
                        plan->depth, plan->side.transport, look->depth_max);
  return 0;
}
