/* SPDX-License-Identifier: Apache-2.0 */
/* The other end for a client elsewhere. It starts what its own table says, and nothing else: no
 * client can have it run a command, or wait without bound. */
#include <errno.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "bench/control_link.h"
#include "clock.h"
#include "json_put.h"
#include "log.h"
#include "remote.h"
#include "result.h"
#include "signals.h"

#define LOOK_NS (20 * NS_PER_MS)
#define TAKE_NS (50 * NS_PER_MS)
#define GREET_NS (10 * NS_PER_S)
#define IDLE_NS (600 * NS_PER_S) /* a step of the client's alone, or a person who thinks */
#define STOP_NS (5 * NS_PER_S)
#define DURATION_MOST_NS (600 * NS_PER_S)

struct serving {
  struct hardware_end *end;
  struct control_link *link;
  uint16_t port; /* for programs */
};

static struct json_object *hardware_server_devices_json(const struct hardware_devices *devices)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < devices->count; i++) {
    struct json_object *item = json_object_new_object();
    json_object_object_add(item, "name", json_object_new_string(devices->all[i].name));
    json_object_object_add(item, "detail", json_object_new_string(devices->all[i].detail));
    json_object_array_add(list, item);
  }
  return list;
}

static struct json_object *hardware_server_parts_json(const struct hardware_parts *parts)
{
  struct json_object *list = json_object_new_array();

  for (uint32_t i = 0; i < parts->count; i++) {
    const struct hardware_part *part = &parts->all[i];
    struct json_object *item = bench_link_object("name", json_object_new_string(part->name));
    json_object_object_add(item, "why", json_object_new_string(part->devices.why_none));
    json_object_object_add(item, "devices", hardware_server_devices_json(&part->devices));
    json_object_array_add(list, item);
  }
  return list;
}

static int hardware_server_refuse(const struct serving *serving, const char *why)
{
  return bench_link_send(serving->link, bench_link_object("error", json_object_new_string(why)));
}

/* Checks the client's hello and answers with this end's devices. A client that does not fit gets
 * the reason. */
static int hardware_server_greet(const struct serving *serving)
{
  struct hardware_end *end = serving->end;
  struct json_object *said = NULL;
  char why[HARDWARE_WHY] = "";
  int rc = bench_link_receive(serving->link, GREET_NS, true, &said);

  if (rc < 0)
    return rc;
  if (bench_link_number(said, "penstock_hardware_check") != 1 ||
      strcmp(bench_link_text(said, "version"), pst_version()) != 0)
    snprintf(why, sizeof(why), "this is a penstock hardware-check --server of version %s",
             pst_version());
  json_object_put(said);
  if (why[0] != '\0') {
    hardware_server_refuse(serving, why);
    return -EPROTO;
  }
  struct json_object *hello = bench_link_object("penstock_hardware_check", json_object_new_int(1));
  json_object_object_add(hello, "transports", hardware_server_parts_json(&end->has.transports));
  json_object_object_add(hello, "memories", hardware_server_parts_json(&end->has.memories));
  json_object_object_add(hello, "tools", json_object_new_uint64(end->has.tools));
  json_object_object_add(hello, "environment", app_result_environment());
  return bench_link_send(serving->link, hello);
}

/* Every number is within bounds, and every name is that of something that this end has. */
static int hardware_server_read_ask(const struct hardware_end *end, struct json_object *said,
                                    struct hardware_ask *ask)
{
  static const char *const paths[] = {"", "auto", "direct", "mapped", "staged"};
  const char *name = bench_link_text(said, "start"), *path = bench_link_text(said, "path");
  const uint64_t step = bench_link_number(said, "step");
  const struct hardware_part *transport = hardware_part_of(&end->has.transports,
                                                           bench_link_text(said, "transport")),
                             *memory = hardware_part_of(&end->has.memories,
                                                        bench_link_text(said, "memory"));
  size_t way = 0;

  *ask = (struct hardware_ask){.adapter = (uint32_t)bench_link_number(said, "adapter"),
                               .gpu = (uint32_t)bench_link_number(said, "gpu"),
                               .duration_ns = bench_link_number(said, "duration_ns"),
                               .limit_ns = bench_link_number(said, "limit_ns")};
  while (ask->check < hardware_check_count && strcmp(hardware_checks[ask->check].name, name) != 0)
    ask->check++;
  while (way < sizeof(paths) / sizeof(paths[0]) && strcmp(paths[way], path) != 0)
    way++;
  if (ask->check == hardware_check_count || step >= HARDWARE_STEPS ||
      !hardware_step_of(&hardware_checks[ask->check], (uint32_t)step) ||
      hardware_checks[ask->check].steps[step].program == RUN_CONTRACT_ALONE ||
      ask->duration_ns > DURATION_MOST_NS || ask->limit_ns > DURATION_MOST_NS ||
      way == sizeof(paths) / sizeof(paths[0]) || !transport || transport->devices.count == 0 ||
      (!memory && hardware_checks[ask->check].steps[step].memory_at != AT_CLIENT))
    return -EPROTO;
  ask->step = (uint32_t)step;
  snprintf(ask->transport, sizeof(ask->transport), "%s", transport->name);
  snprintf(ask->memory, sizeof(ask->memory), "%s", memory ? memory->name : "");
  snprintf(ask->path, sizeof(ask->path), "%s", path);
  return 0;
}

/* Serves until the client says something, or has gone. -ETIMEDOUT: the client has said nothing for
 * longer than the step takes. */
static int hardware_server_await_finish(struct serving *serving, const struct hardware_ask *ask)
{
  /* A check of an address asks twice. The rest is for the operator's command. */
  const uint64_t until_ns = app_now_ns() + 2 * hardware_request_ns(ask) + IDLE_NS;
  bool is_told = false;
  int rc;

  while ((rc = bench_link_look(serving->link)) == 0 && !app_signals_stop()) {
    if (app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    hardware_child_pump(&serving->end->child, LOOK_NS);
    if (serving->end->child.has_ended && !is_told)
      bench_link_send(serving->link, bench_link_object("ended", json_object_new_boolean(true)));
    is_told = serving->end->child.has_ended;
    if (is_told)
      poll(NULL, 0, LOOK_NS / NS_PER_MS); /* hardware_child_pump() sleeps no more */
  }
  return rc < 0 ? rc : rc == 0 ? -EINTR : 0;
}

static int hardware_server_finish(struct serving *serving, const char *about)
{
  hardware_stop(serving->end, STOP_NS);
  return bench_link_send(serving->link,
                         bench_link_object("told", hardware_told(serving->end, about)));
}

static int hardware_server_serve_step(struct serving *serving, struct json_object *said)
{
  struct hardware_ask ask;
  char why[HARDWARE_WHY];

  if (hardware_server_read_ask(serving->end, said, &ask) < 0)
    return hardware_server_refuse(serving, "there is no such step");
  if (hardware_serve(serving->end, &ask, serving->link->local, serving->port, why) < 0)
    return hardware_server_refuse(serving, why);
  int rc =
      bench_link_send(serving->link, bench_link_object("port", json_object_new_int(serving->port)));
  return rc < 0 ? rc : hardware_server_await_finish(serving, &ask);
}

static int hardware_server_serve_client(struct serving *serving)
{
  struct json_object *said = NULL;
  bool ends = false;
  int rc = hardware_server_greet(serving);

  while (rc == 0 && !ends && (rc = bench_link_receive(serving->link, IDLE_NS, true, &said)) == 0) {
    ends = json_object_object_get_ex(said, "goodbye", NULL);
    if (json_object_object_get_ex(said, "finish", NULL)) {
      const char *about = bench_link_text(said, "finish");
      rc = hardware_server_finish(serving, about[0] != '\0' ? about : NULL);
    } else if (!ends) {
      hardware_child_end(&serving->end->child);
      rc = hardware_server_serve_step(serving, said);
    }
    json_object_put(said);
  }
  hardware_stop(serving->end, 0);
  hardware_child_end(&serving->end->child);
  return rc;
}

int hardware_server(struct hardware_end *end, const char *where, bool once)
{
  struct pst_error error = PST_ERROR_INIT;
  struct control_link_server server;
  int rc = bench_link_listen("hardware-check", where, HARDWARE_PORT,
                             &(struct link_access){.insecure = end->plan->insecure}, -1, &server,
                             &error);
  bool served = false;

  if (rc < 0)
    return error.exit_status;
  const uint16_t port = pst_node_port(server.node);
  app_log(PST_LOG_INFO,
          "hardware-check: serving at port %u, and the steps at the next two; ^C ends", port);
  if (end->plan->insecure)
    app_log(PST_LOG_INFO, "hardware-check: --insecure, so whoever reaches its ports can join or "
                          "disturb the run; nothing on them is authenticated or encrypted");
  while (!app_signals_stop() && !(once && served)) {
    struct serving serving = {.end = end, .port = (uint16_t)(port + 1)};
    if (bench_link_take(&server, TAKE_NS, &serving.link) < 0)
      continue;
    app_log(PST_LOG_INFO, "hardware-check: client %s", serving.link->peer);
    rc = hardware_server_serve_client(&serving);
    app_log(PST_LOG_INFO, "hardware-check: client %s %s", serving.link->peer,
            rc == 0            ? "has left"
            : rc == -EINTR     ? "is dropped: this server stops"
            : rc == -ETIMEDOUT ? "is dropped: it has said nothing for too long"
                               : "disconnected unexpectedly");
    served = true;
    bench_link_close(serving.link);
  }
  bench_link_unlisten(&server);
  return PST_EXIT_OK;
}
