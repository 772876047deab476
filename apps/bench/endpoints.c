/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoints of a rank, from its command line. */
#include "endpoints.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "end_auto.h"
#include "json_put.h"
#include "log.h"
#include "plugin_options.h"
#include "sessions.h"
#include "topo/machine.h"

#define WORDS_EACH 16
#define CPU_MAX 4095

/* The parts of one --endpoint, beside the options for all. */
struct parts {
  const char **transport, **memory;
  size_t transport_count, memory_count;
  const char *address;
};

static int bench_endpoints_wrong(const char *part, struct pst_error *error)
{
  return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "bench: --endpoint: '%.100s' is none of address=WORD, cpu=N, "
                      "transport.KEY=VALUE, memory.KEY=VALUE",
                      part);
}

static int bench_endpoints_take_part(struct endpoint *endpoint, const char *part,
                                     struct parts *parts, struct pst_error *error)
{
  uint64_t cpu = 0;

  if (strncmp(part, "address=", 8) == 0 && part[8] != '\0') {
    parts->address = part + 8;
  } else if (strncmp(part, "cpu=", 4) == 0 && app_arguments_count(part + 4, &cpu) == 0 &&
             cpu <= CPU_MAX) {
    endpoint->plan.cpus[0] = (int)cpu;
  } else if (strncmp(part, "transport.", 10) == 0 && strchr(part + 10, '=') > part + 10) {
    parts->transport[parts->transport_count++] = part + 10;
  } else if (strncmp(part, "memory.", 7) == 0 && strchr(part + 7, '=') > part + 7) {
    parts->memory[parts->memory_count++] = part + 7;
  } else {
    return bench_endpoints_wrong(part, error);
  }
  return 0;
}

static int bench_endpoints_read_words(struct endpoint *endpoint, struct parts *parts,
                                      struct pst_error *error)
{
  char *rest = NULL;
  uint32_t count = 0;

  for (char *part = strtok_r(endpoint->words, ",", &rest); part;
       part = strtok_r(NULL, ",", &rest)) {
    if (++count > WORDS_EACH)
      return bench_endpoints_wrong(part, error);
    int rc = bench_endpoints_take_part(endpoint, part, parts, error);
    if (rc < 0)
      return rc;
  }
  return 0;
}

static const char **bench_endpoints_copy_words(const char **words, size_t count)
{
  const char **copy = calloc(count + WORDS_EACH, sizeof(*copy));

  for (size_t i = 0; copy && i < count; i++)
    copy[i] = words[i];
  return copy;
}

/* written NULL: the endpoint has only the options of all. */
static int bench_endpoints_read(const struct arguments *arguments, const struct bench_plan *plan,
                                const char *written, struct endpoint *endpoint,
                                struct pst_error *error)
{
  struct bench_side *side = &endpoint->plan.side;
  struct parts parts = {
      .transport = bench_endpoints_copy_words(arguments->transport_options,
                                              arguments->transport_option_count),
      .memory =
          bench_endpoints_copy_words(arguments->memory_options, arguments->memory_option_count),
      .transport_count = arguments->transport_option_count,
      .memory_count = arguments->memory_option_count,
  };
  int rc = 0;

  endpoint->plan = *plan;
  side->transport_options = side->memory_options = NULL;
  side->transport_option_count = side->memory_option_count = 0;
  endpoint->words = strdup(written ? written : "");
  if (!endpoint->words || !parts.transport || !parts.memory)
    rc = app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
  if (rc == 0)
    rc = bench_endpoints_read_words(endpoint, &parts, error);
  if (rc == 0 &&
      (app_plugin_options_read(parts.transport, parts.transport_count, &side->transport_options,
                               &side->transport_option_count) < 0 ||
       app_plugin_options_read(parts.memory, parts.memory_count, &side->memory_options,
                               &side->memory_option_count) < 0))
    rc = app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
  if (rc == 0)
    rc = bench_own_address(parts.address, plan->access.insecure || plan->access.tls, endpoint->host,
                           error);
  free(parts.transport);
  free(parts.memory);
  return rc;
}

static bool bench_endpoints_is_auto(const struct arguments *arguments)
{
  return arguments->endpoint_count == 1 && strcmp(arguments->endpoints[0], "auto") == 0;
}

/* `auto` stands alone. Returns the count of endpoints, or reports in *error. */
static int bench_endpoints_count(const struct arguments *arguments, const struct bench_plan *plan,
                                 const struct topo_machine *machine, const char *unknown,
                                 char (*automatic)[END_AUTO_BYTES], struct pst_error *error)
{
  char why[END_AUTO_BYTES];

  for (size_t i = 0; i < arguments->endpoint_count && arguments->endpoint_count > 1; i++)
    if (strcmp(arguments->endpoints[i], "auto") == 0)
      return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                          "bench: --endpoint auto stands alone; leave out the others");
  if (arguments->endpoint_count > BENCH_ENDPOINTS_MAX)
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "bench: --endpoint may be given %u times at most", BENCH_ENDPOINTS_MAX);
  if (!bench_endpoints_is_auto(arguments))
    return arguments->endpoint_count > 0 ? (int)arguments->endpoint_count : 1;
  if (!machine)
    return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP, "bench: --endpoint auto: %s",
                        unknown);
  const int count = bench_end_auto(machine, plan->side.transport, plan->side.memory, automatic,
                                   BENCH_ENDPOINTS_MAX, why);
  return count > 0 ? count
                   : app_log_fail(error, count == -EINVAL ? PST_EXIT_USAGE : PST_EXIT_UNAVAILABLE,
                                  count, "bench: --endpoint auto: %s", why);
}

/* Opens what the command line names, or what `auto` finds in `machine`. machine NULL: `unknown`
 * says why it could not be read. Returns 0, or reports in *error. */
static int bench_endpoints_open_all(const struct arguments *arguments,
                                    const struct bench_plan *plan,
                                    const struct topo_machine *machine, const char *unknown,
                                    struct endpoint **endpoints, uint32_t *count,
                                    struct pst_error *error)
{
  char automatic[BENCH_ENDPOINTS_MAX][END_AUTO_BYTES];
  const int all = bench_endpoints_count(arguments, plan, machine, unknown, automatic, error);
  int rc = 0;

  if (all < 0)
    return all;
  *endpoints = calloc((size_t)all, sizeof(**endpoints));
  if (!*endpoints)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
  for (int i = 0; i < all && rc == 0; i++) {
    struct endpoint *endpoint = &(*endpoints)[(*count)++];
    rc = bench_endpoints_read(arguments, plan,
                              bench_endpoints_is_auto(arguments) ? automatic[i]
                              : arguments->endpoint_count > 0    ? arguments->endpoints[i]
                                                                 : NULL,
                              endpoint, error);
    if (rc < 0)
      break;
    bench_choose_sender(&endpoint->plan);
    char where[OWN_ADDRESS_MAX + 8];
    snprintf(where, sizeof(where), "%s:0", endpoint->host);
    rc = bench_link_listen("bench", where, 0, &plan->access, endpoint->plan.cpus[0],
                           &endpoint->server, error);
    bench_end_devices_find(machine, &endpoint->plan.side, endpoint->host, &endpoint->devices);
  }
  return rc;
}

int bench_endpoints_open(const struct arguments *arguments, const struct bench_plan *plan,
                         struct endpoint **endpoints, uint32_t *count, struct pst_error *error)
{
  struct topo_machine *machine = NULL;
  char why[TOPO_WHY_BYTES];
  const bool is_known = topo_machine_read(NULL, &machine, why) == 0;

  *count = 0;
  *endpoints = NULL;
  int rc = bench_endpoints_open_all(arguments, plan, is_known ? machine : NULL, why, endpoints,
                                    count, error);
  topo_machine_close(machine);
  return rc;
}

void bench_endpoints_close(struct endpoint *endpoints, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    bench_link_unlisten(&endpoints[i].server);
    bench_plan_free(&endpoints[i].plan);
    free(endpoints[i].words);
  }
  free(endpoints);
}

struct json_object *bench_endpoints_json(const struct endpoint *endpoints, uint32_t count)
{
  struct json_object *list = json_object_new_array();
  char where[OWN_ADDRESS_MAX + 8];

  for (uint32_t i = 0; i < count; i++) {
    snprintf(where, sizeof(where), "%s:%u", endpoints[i].host,
             pst_node_port(endpoints[i].server.node));
    struct json_object *end = bench_link_object("address", json_object_new_string(where));
    app_json_put_text(end, "adapter", endpoints[i].devices.adapter.name);
    app_json_put_text(end, "adapter_id", endpoints[i].devices.adapter.id);
    app_json_put_text(end, "gpu", endpoints[i].devices.gpu.name);
    app_json_put_text(end, "gpu_id", endpoints[i].devices.gpu.id);
    json_object_array_add(list, end);
  }
  return list;
}

bool bench_endpoints_are(struct json_object *ends)
{
  if (!json_object_is_type(ends, json_type_array) || json_object_array_length(ends) == 0 ||
      json_object_array_length(ends) > BENCH_ENDPOINTS_MAX)
    return false;
  for (size_t i = 0; i < json_object_array_length(ends); i++)
    if (bench_link_text(json_object_array_get_idx(ends, i), "address")[0] == '\0')
      return false;
  return true;
}
