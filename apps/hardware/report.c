/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a hardware check, for people and as JSON. */
#include "report.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench/control_link.h"
#include "plain_text.h"

#define INDENT "              "

static struct json_object *hardware_report_member(struct json_object *object, const char *key)
{
  struct json_object *value = NULL;

  json_object_object_get_ex(object, key, &value);
  return value;
}

static size_t hardware_report_length_of(struct json_object *list)
{
  return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

static double hardware_report_number_of(struct json_object *object, const char *key)
{
  struct json_object *value = hardware_report_member(object, key);

  return value ? json_object_get_double(value) : -1;
}

/* "transport udp", "memory cuda 3e:00.0: NVIDIA H200", or why it is not usable */
static void hardware_report_parts(FILE *to, const char *kind, struct json_object *parts)
{
  for (size_t i = 0; i < hardware_report_length_of(parts); i++) {
    struct json_object *part = json_object_array_get_idx(parts, i),
                       *devices = hardware_report_member(part, "found");
    const char *name = bench_link_text(part, "name"), *why = bench_link_text(part, "why");
    if (why[0] != '\0')
      app_print_line(to, " %s %s is not used: %s", kind, name, why);
    for (size_t j = 0; j < hardware_report_length_of(devices); j++) {
      struct json_object *device = json_object_array_get_idx(devices, j);
      const char *detail = bench_link_text(device, "detail"),
                 *which = bench_link_text(device, "name");
      app_print_line(to, " %s %s%s%s%s%s", kind, name, which[0] != '\0' ? " " : "", which,
                     detail[0] != '\0' ? ": " : "", detail);
    }
  }
}

static void hardware_report_host(FILE *to, const char *what, struct json_object *environment)
{
  app_print_line(to, "%s: %s, %s, %s", what, bench_link_text(environment, "hostname"),
                 bench_link_text(environment, "cpu"), bench_link_text(environment, "kernel"));
}

void hardware_report_head(FILE *to, struct json_object *hardware)
{
  hardware_report_host(to, "this end", hardware_report_member(hardware, "environment"));
  hardware_report_parts(to, "transport", hardware_report_member(hardware, "transports"));
  hardware_report_parts(to, "memory", hardware_report_member(hardware, "memories"));
  if (!hardware_report_member(hardware, "peer_environment")) {
    app_print_line(to, "other end: on this host");
    return;
  }
  hardware_report_host(to, "other end", hardware_report_member(hardware, "peer_environment"));
  hardware_report_parts(to, "transport", hardware_report_member(hardware, "peer_transports"));
  hardware_report_parts(to, "memory", hardware_report_member(hardware, "peer_memories"));
}

/* "verbs_rc: mlx5_0 to mlx5_1, memory cuda 3e:00.0" */
static void hardware_report_header(FILE *to, struct json_object *check, char *header, size_t size)
{
  const char *transport = bench_link_text(check, "transport"),
             *adapter = bench_link_text(check, "adapter"),
             *peer = bench_link_text(check, "peer_adapter"),
             *memory = bench_link_text(check, "memory"),
             *device = bench_link_text(check, "memory_device");
  char line[512];

  snprintf(line, sizeof(line), "%s%s%s%s%s%s%s%s%s%s", transport, adapter[0] != '\0' ? ": " : "",
           adapter, peer[0] != '\0' ? " to " : "", peer,
           transport[0] != '\0' && memory[0] != '\0' ? ", " : "",
           memory[0] != '\0' ? "memory " : "", memory, device[0] != '\0' ? " " : "", device);
  if (strncmp(line, header, size) == 0)
    return;
  snprintf(header, size, "%s", line);
  fputc('\n', to);
  app_print_line(to, "%s", line);
}

/* "rings: send 1462 B, 12.30 Gbps, 1.050 M/s, direct by dma" */
static void hardware_report_row(FILE *to, const char *step, struct json_object *row)
{
  const char *path = bench_link_text(row, "path"), *via = bench_link_text(row, "via"),
             *reason = bench_link_text(row, "path_reason");

  app_print_line(to, INDENT "%s: %s %llu B, %.2f Gbps, %.3f M/s%s%s%s%s", step,
                 bench_link_text(row, "op"),
                 (unsigned long long)bench_link_number(row, "size_bytes"),
                 hardware_report_number_of(row, "gbps"),
                 hardware_report_number_of(row, "messages_per_second") / 1e6,
                 path[0] != '\0' ? ", " : "", path, via[0] != '\0' ? " by " : "", via);
  if (reason[0] != '\0')
    app_print_line(to, INDENT "  %s", reason);
}

static void hardware_report_costs(FILE *to, const char *whose, struct json_object *end)
{
  struct json_object *costs = hardware_report_member(end, "a_message");
  char line[256] = "";
  size_t used = 0;

  if (!costs)
    return;
  json_object_object_foreach(costs, name, value)
  {
    if (value && used < sizeof(line))
      used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%.3g %s", used > 0 ? ", " : "",
                               json_object_get_double(value), name);
  }
  app_print_line(to, INDENT "%s a message: %s", whose, line);
}

/* Prints the line "connected: …" of an end, if it is there. */
static void hardware_report_connection(FILE *to, const char *whose, struct json_object *end)
{
  static const char lead[] = "connected: ";
  struct json_object *lines = hardware_report_member(end, "lines");

  for (size_t i = 0; i < hardware_report_length_of(lines); i++) {
    const char *line = json_object_get_string(json_object_array_get_idx(lines, i)),
               *words = strstr(line, lead);
    app_print_line(to, INDENT "%s: %s", whose, words ? words + strlen(lead) : line);
  }
}

/* One step of a check: what it measured, and if it failed, why. `tells`: its connections, too. */
static void hardware_report_step(FILE *to, struct json_object *step, bool tells)
{
  const char *name = bench_link_text(step, "step"), *verdict = bench_link_text(step, "verdict");
  struct json_object *rows = hardware_report_member(step, "measured"),
                     *request = hardware_report_member(step, "requested");

  for (size_t i = 0; i < hardware_report_length_of(rows); i++) {
    struct json_object *row = json_object_array_get_idx(rows, i);
    if (json_object_get_boolean(hardware_report_member(row, "ok")))
      hardware_report_row(to, name, row);
  }
  if (request && bench_link_number(request, "iterations") > 0)
    app_print_line(
        to, INDENT "%s: %llu requests, %llu bytes verified, the longest in %.3f ms", name,
        (unsigned long long)bench_link_number(request, "iterations"),
        (unsigned long long)bench_link_number(request, "bytes_verified"),
        hardware_report_number_of(hardware_report_member(request, "round_trip_ns"), "max") / 1e6);
  if (hardware_report_number_of(step, "gbps") >= 0)
    app_print_line(to, INDENT "%s: %.2f Gbps, %.3f M/s", name,
                   hardware_report_number_of(step, "gbps"),
                   hardware_report_number_of(step, "messages_per_second") / 1e6);
  hardware_report_costs(to, "sending", hardware_report_member(step, "here"));
  hardware_report_costs(to, "receiving", hardware_report_member(step, "peer"));
  if (tells && strcmp(verdict, "ok") == 0) {
    hardware_report_connection(to, "this end", hardware_report_member(step, "here"));
    hardware_report_connection(to, "other end", hardware_report_member(step, "peer"));
  }
  if (strcmp(verdict, "ok") != 0)
    app_print_line(to, INDENT "%s %s: %s", name, verdict, bench_link_text(step, "why"));
}

void hardware_report_check(FILE *to, struct json_object *check, char *header, size_t size)
{
  const char *verdict = bench_link_text(check, "verdict"),
             *remedy = bench_link_text(check, "remedy");
  struct json_object *steps = hardware_report_member(check, "steps");
  const bool is_told = strcmp(verdict, "ok") == 0 || strcmp(verdict, "failed") == 0;

  hardware_report_header(to, check, header, size);
  app_print_line(to, "  %-11s %-8s %s", bench_link_text(check, "check"), verdict,
                 bench_link_text(check, is_told ? "title" : "why"));
  for (size_t i = 0; i < hardware_report_length_of(steps) && is_told; i++)
    hardware_report_step(to, json_object_array_get_idx(steps, i),
                         strcmp(bench_link_text(check, "check"), "address") == 0);
  if (remedy[0] != '\0')
    app_print_line(to, INDENT "remedy: %s", remedy);
  fflush(to);
}
