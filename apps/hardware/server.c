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
#include "far.h"
#include "json_put.h"
#include "notice.h"
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
  struct link *link;
  uint16_t port; /* for programs */
};

static struct json_object *devices_json(const struct hardware_devices *devices)
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

static int refuse(const struct serving *serving, const char *why)
{
  return link_send(serving->link, link_object("error", json_object_new_string(why)));
}

/* Checks the client's hello and answers with this end's devices. A client that does not fit gets
 * the reason. */
static int greet(const struct serving *serving)
{
  struct hardware_end *end = serving->end;
  struct json_object *said = NULL;
  char why[HARDWARE_WHY] = "";
  int result = link_receive(serving->link, GREET_NS, true, &said);

  if (result < 0)
    return result;
  if (link_number(said, "penstock_hardware_check") != 1 ||
      strcmp(link_text(said, "version"), pst_version()) != 0)
    snprintf(why, sizeof(why), "this is a penstock hardware-check --server of version %s",
             pst_version());
  else if (strcmp(link_text(said, "transport"), end->plan->transport) != 0)
    snprintf(why, sizeof(why), "it was started with --transport %.60s; give both the same",
             end->plan->transport);
  json_object_put(said);
  if (why[0] != '\0') {
    refuse(serving, why);
    return -EPROTO;
  }
  struct json_object *hello = link_object("penstock_hardware_check", json_object_new_int(1));
  json_object_object_add(hello, "adapters", devices_json(&end->has.adapters));
  json_object_object_add(hello, "gpus", devices_json(&end->has.gpus));
  json_object_object_add(hello, "no_gpu", json_object_new_string(end->has.gpus.why_none));
  json_object_object_add(hello, "tools", json_object_new_uint64(end->has.tools));
  json_object_object_add(hello, "environment", result_environment());
  return link_send(serving->link, hello);
}

/* Every number is within bounds. */
static int read_ask(struct json_object *said, struct hardware_ask *ask)
{
  const char *name = link_text(said, "start");
  const uint64_t step = link_number(said, "step");

  *ask = (struct hardware_ask){.adapter = (uint32_t)link_number(said, "adapter"),
                               .gpu = (uint32_t)link_number(said, "gpu"),
                               .duration_ns = link_number(said, "duration_ns")};
  while (ask->check < hardware_check_count && strcmp(hardware_checks[ask->check].name, name) != 0)
    ask->check++;
  if (ask->check == hardware_check_count || step >= HARDWARE_STEPS ||
      !hardware_step_of(&hardware_checks[ask->check], (uint32_t)step) ||
      ask->duration_ns > DURATION_MOST_NS)
    return -EPROTO;
  ask->step = (uint32_t)step;
  return 0;
}

/* Until the client says so, or has gone. */
static int run_until_finished(struct serving *serving)
{
  bool is_told = false;
  int result;

  while ((result = link_look(serving->link)) == 0 && !signals_stop()) {
    child_pump(&serving->end->child, LOOK_NS);
    if (serving->end->child.has_ended && !is_told)
      link_send(serving->link, link_object("ended", json_object_new_boolean(true)));
    is_told = serving->end->child.has_ended;
    if (is_told)
      poll(NULL, 0, LOOK_NS / NS_PER_MS); /* child_pump() sleeps no more */
  }
  return result < 0 ? result : result == 0 ? -EINTR : 0;
}

static int finish(struct serving *serving, const char *about)
{
  hardware_stop(serving->end, STOP_NS);
  return link_send(serving->link, link_object("told", hardware_told(serving->end, about)));
}

static int serve_step(struct serving *serving, struct json_object *said)
{
  struct hardware_ask ask;
  char why[HARDWARE_WHY];

  if (read_ask(said, &ask) < 0)
    return refuse(serving, "there is no such step");
  if (hardware_serve(serving->end, &ask, serving->link->local, serving->port, why) < 0)
    return refuse(serving, why);
  int result = link_send(serving->link, link_object("port", json_object_new_int(serving->port)));
  return result < 0 ? result : run_until_finished(serving);
}

static int serve_client(struct serving *serving)
{
  struct json_object *said = NULL;
  bool ends = false;
  int result = greet(serving);

  while (result == 0 && !ends &&
         (result = link_receive(serving->link, IDLE_NS, true, &said)) == 0) {
    ends = json_object_object_get_ex(said, "goodbye", NULL);
    if (json_object_object_get_ex(said, "finish", NULL)) {
      const char *about = link_text(said, "finish");
      result = finish(serving, about[0] != '\0' ? about : NULL);
    } else if (!ends) {
      child_end(&serving->end->child);
      result = serve_step(serving, said);
    }
    json_object_put(said);
  }
  hardware_stop(serving->end, 0);
  child_end(&serving->end->child);
  return result;
}

int hardware_server(struct hardware_end *end, const char *where, bool once)
{
  struct pst_error error = PST_ERROR_INIT;
  struct link_server server;
  int result =
      link_listen("hardware-check", where, HARDWARE_PORT, end->plan->insecure, -1, &server, &error);
  bool served = false;

  if (result < 0)
    return error.exit_status;
  const uint16_t port = pst_node_port(server.node);
  notice(PST_LOG_INFO,
         "hardware-check: serving transport %s at port %u, and its steps at the next "
         "two; ^C ends",
         end->plan->transport, port);
  if (end->plan->insecure)
    notice(PST_LOG_INFO, "hardware-check: --insecure, so whoever reaches its ports can join or "
                         "disturb the run; nothing on them is authenticated or encrypted");
  while (!signals_stop() && !(once && served)) {
    struct serving serving = {.end = end, .port = (uint16_t)(port + 1)};
    if (link_take(&server, TAKE_NS, &serving.link) < 0)
      continue;
    notice(PST_LOG_INFO, "hardware-check: client %s", serving.link->peer);
    result = serve_client(&serving);
    notice(PST_LOG_INFO, "hardware-check: client %s %s", serving.link->peer,
           result == 0        ? "has left"
           : result == -EINTR ? "is dropped: this server stops"
                              : "has gone without a goodbye");
    served = true;
    link_close(serving.link);
  }
  link_unlisten(&server);
  return PST_EXIT_OK;
}
