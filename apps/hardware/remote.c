/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a hardware check. */
#include "remote.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/control_link.h"
#include "clock.h"
#include "json_put.h"
#include "log.h"
#include "result.h"
#include "signals.h"

#define GREET_NS (30 * NS_PER_S)  /* it looks at its devices meanwhile */
#define ANSWER_NS (10 * NS_PER_S) /* beside what a step may take to begin */
#define STOP_NS (5 * NS_PER_S)
#define ALONE_NS NS_PER_S /* for what it says of a program that has crashed */

/* ---- Greeting -------------------------------------------------------------------------------- */

static void hardware_remote_take_devices(struct json_object *said, const char *key,
                                         struct hardware_devices *devices)
{
  struct json_object *list = NULL;

  json_object_object_get_ex(said, key, &list);
  for (size_t i = 0; json_object_is_type(list, json_type_array) &&
                     i < json_object_array_length(list) && devices->count < HARDWARE_DEVICES;
       i++) {
    struct json_object *item = json_object_array_get_idx(list, i);
    struct hardware_device *device = &devices->all[devices->count++];
    snprintf(device->name, sizeof(device->name), "%s", bench_link_text(item, "name"));
    snprintf(device->detail, sizeof(device->detail), "%s", bench_link_text(item, "detail"));
  }
}

static void hardware_remote_take_parts(struct json_object *said, const char *key,
                                       struct hardware_parts *parts)
{
  struct json_object *list = NULL;

  json_object_object_get_ex(said, key, &list);
  for (size_t i = 0; json_object_is_type(list, json_type_array) &&
                     i < json_object_array_length(list) && parts->count < HARDWARE_PARTS;
       i++) {
    struct json_object *item = json_object_array_get_idx(list, i);
    if (bench_link_text(item, "name")[0] == '\0')
      continue;
    struct hardware_part *part = &parts->all[parts->count++];
    snprintf(part->name, sizeof(part->name), "%s", bench_link_text(item, "name"));
    snprintf(part->devices.why_none, sizeof(part->devices.why_none), "%s",
             bench_link_text(item, "why"));
    hardware_remote_take_devices(item, "devices", &part->devices);
  }
}

static void hardware_remote_take_has(struct json_object *said, struct hardware_has *has)
{
  memset(has, 0, sizeof(*has));
  has->tools = (uint32_t)bench_link_number(said, "tools");
  hardware_remote_take_parts(said, "transports", &has->transports);
  hardware_remote_take_parts(said, "memories", &has->memories);
}

/* Copies from what the server says of its host the keys that `form`, this host's record, has. */
static struct json_object *hardware_remote_copy_host(struct json_object *said,
                                                     struct json_object *form)
{
  struct json_object *object = json_object_new_object();

  json_object_object_foreach(form, key, value)
  {
    struct json_object *part = NULL;
    json_object_object_get_ex(said, key, &part);
    if (json_object_is_type(value, json_type_object))
      json_object_object_add(object, key, hardware_remote_copy_host(part, value));
    else if (json_object_is_type(value, json_type_int))
      app_json_put_uint(object, key, bench_link_number(said, key));
    else
      app_json_put_text(object, key, bench_link_text(said, key));
  }
  return object;
}

/* Exchanges hellos with the server, whose devices *far then has. 0, or -errno with *error
 * reported. */
static int hardware_remote_greet(struct hardware_remote *far, struct pst_error *error)
{
  struct json_object *said = NULL, *environment = NULL;
  struct json_object *hello = bench_link_object("penstock_hardware_check", json_object_new_int(1));

  json_object_object_add(hello, "version", json_object_new_string(pst_version()));
  bench_link_send(far->link, hello);
  int rc = bench_link_receive(far->link, GREET_NS, true, &said);
  if (rc < 0)
    return app_log_fail(error, PST_EXIT_FAILED, rc, "hardware-check: %s: %s", far->link->peer,
                        rc == -EINTR       ? "stopped while it waited for an answer"
                        : rc == -ETIMEDOUT ? "no answer; it serves one client at a time"
                                           : "it is not a penstock hardware-check --server");
  if (bench_link_text(said, "error")[0] != '\0')
    rc = app_log_fail(error, PST_EXIT_UNAVAILABLE, -EPROTO,
                      "hardware-check: the server at %s: %.400s", far->link->peer,
                      bench_link_text(said, "error"));
  else if (bench_link_number(said, "penstock_hardware_check") != 1)
    rc = app_log_fail(error, PST_EXIT_FAILED, -EPROTO,
                      "hardware-check: %s is not a penstock hardware-check --server",
                      far->link->peer);
  hardware_remote_take_has(said, &far->end.has);
  json_object_object_get_ex(said, "environment", &environment);
  struct json_object *form = app_result_environment();
  far->environment = hardware_remote_copy_host(environment, form);
  json_object_put(form);
  json_object_put(said);
  return rc;
}

int hardware_remote_connect(struct hardware_remote *far, const char *where, struct pst_error *error)
{
  int rc = bench_link_connect("hardware-check", where, HARDWARE_PORT,
                              &(struct link_access){.insecure = far->end.plan->insecure}, -1,
                              &far->link, error);

  return rc < 0 ? rc : hardware_remote_greet(far, error);
}

void hardware_remote_close(struct hardware_remote *far)
{
  if (far->link && !far->has_gone)
    bench_link_send(far->link, bench_link_object("goodbye", json_object_new_boolean(true)));
  bench_link_close(far->link);
  hardware_child_end(&far->end.child);
  json_object_put(far->environment);
}

/* ---- Steps -------------------------------------------------------------------------------------
 */

/* Returns the server's next object that has `key` or "error", which the caller puts. Waits for `ns`
 * at most, whatever else the server says. NULL: far->has_gone, and `why` has the reason. */
static struct json_object *hardware_remote_hear(struct hardware_remote *far, const char *key,
                                                uint64_t ns, char why[HARDWARE_WHY])
{
  const uint64_t until_ns = app_now_ns() + ns;
  struct json_object *said = NULL;
  int rc = 0;

  while (rc == 0) {
    const uint64_t now_ns = app_now_ns();
    rc = now_ns < until_ns ? bench_link_receive(far->link, until_ns - now_ns, false, &said)
                           : -ETIMEDOUT;
    if (rc < 0)
      break;
    if (json_object_object_get_ex(said, key, NULL) || bench_link_text(said, "error")[0] != '\0')
      return said;
    json_object_put(said); /* not what we wait for */
  }
  far->has_gone = true;
  snprintf(why, HARDWARE_WHY, "%s",
           rc == -ETIMEDOUT ? "the other end does not answer"
                            : "the other end has gone: it was killed, crashed, or stopped");
  return NULL;
}

/* Asks the server for the step. far->port is what it says its program listens at. */
static int hardware_remote_start_there(struct hardware_remote *far, const struct hardware_ask *ask,
                                       char why[HARDWARE_WHY])
{
  struct json_object *message =
      bench_link_object("start", json_object_new_string(hardware_checks[ask->check].name));
  int rc = 0;

  json_object_object_add(message, "step", json_object_new_uint64(ask->step));
  json_object_object_add(message, "transport", json_object_new_string(ask->transport));
  json_object_object_add(message, "memory", json_object_new_string(ask->memory));
  json_object_object_add(message, "path", json_object_new_string(ask->path));
  json_object_object_add(message, "limit_ns", json_object_new_uint64(ask->limit_ns));
  json_object_object_add(message, "adapter", json_object_new_uint64(ask->adapter));
  json_object_object_add(message, "gpu", json_object_new_uint64(ask->gpu));
  json_object_object_add(message, "duration_ns", json_object_new_uint64(ask->duration_ns));
  bench_link_send(far->link, message);
  struct json_object *said = hardware_remote_hear(far, "port", ask->limit_ns + ANSWER_NS, why);
  if (!said)
    return -ECONNRESET;
  if (bench_link_text(said, "error")[0] != '\0') {
    snprintf(why, HARDWARE_WHY, "%s", bench_link_text(said, "error"));
    rc = -EPROTO;
  }
  snprintf(far->host, sizeof(far->host), "%s", far->link->remote);
  const uint64_t port = bench_link_number(said, "port");
  if (rc == 0 && (port == 0 || port > UINT16_MAX)) {
    snprintf(why, HARDWARE_WHY, "the other end names no port to connect to");
    rc = -EPROTO;
  }
  far->port = (uint16_t)port;
  json_object_put(said);
  return rc;
}

static void hardware_remote_make_path(struct hardware_remote *far)
{
  const char *folder = getenv("TMPDIR");

  if (!folder || folder[0] != '/' || strlen(folder) > 64)
    folder = "/tmp";
  snprintf(far->host, sizeof(far->host), "%s/penstock-hardware-%d.sock", folder, getpid());
  unlink(far->host);
}

int hardware_remote_start(struct hardware_remote *far, const struct hardware_ask *ask,
                          char why[HARDWARE_WHY])
{
  far->has_ended = false;
  if (far->link)
    return hardware_remote_start_there(far, ask, why);
  snprintf(far->host, sizeof(far->host), "127.0.0.1");
  far->port = bench_link_free_ports(far->host);
  if (hardware_checks[ask->check].steps[ask->step].program == RUN_CONTRACT)
    hardware_remote_make_path(far); /* it passes descriptors */
  return hardware_serve(&far->end, ask, far->host, far->port, why);
}

void hardware_remote_look(struct hardware_remote *far)
{
  if (!far->link) {
    hardware_child_pump(&far->end.child, 0);
    far->has_ended = far->end.child.has_ended;
    return;
  }
  const int rc = bench_link_look(far->link);
  far->has_ended |= rc == 1;
  far->has_gone |= rc < 0;
}

/* Puts a counter of the server. Whatever is no number becomes null: json-c reads the text "inf" as
 * infinity, which JSON lacks. */
static void hardware_remote_copy_counter(struct json_object *counters, const char *name,
                                         struct json_object *object)
{
  struct json_object *value = NULL;

  json_object_object_get_ex(counters, name, &value);
  const bool is_number =
      json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
  app_json_put_share(object, name, is_number ? json_object_get_double(value) : -1);
}

/* Copies from a server's answer the keys that a program's output can have, and nothing else. */
static struct json_object *hardware_remote_copy_told(struct json_object *said)
{
  struct json_object *object = json_object_new_object(), *lines = json_object_new_array();
  struct json_object *list = NULL, *counters = NULL, *each = NULL, *status = NULL;
  const char *ended = bench_link_text(said, "ended");

  app_json_put_text(object, "command", bench_link_text(said, "command"));
  json_object_object_get_ex(said, "exit_status", &status);
  app_json_put_known(object, "exit_status",
                     json_object_is_type(status, json_type_int) &&
                         json_object_get_int64(status) >= 0,
                     bench_link_number(said, "exit_status"));
  app_json_put_text(object, "ended", ended[0] != '\0' ? ended : "it does not say");
  json_object_object_get_ex(said, "lines", &list);
  for (size_t i = 0;
       json_object_is_type(list, json_type_array) && i < json_object_array_length(list); i++) {
    struct json_object *line = json_object_array_get_idx(list, i);
    if (json_object_is_type(line, json_type_string))
      json_object_array_add(lines, json_object_get(line));
  }
  json_object_object_add(object, "lines", lines);
  json_object_object_get_ex(said, "counters", &counters);
  for (size_t i = 0; i < CHILD_COUNTERS && json_object_is_type(counters, json_type_object); i++) {
    each = each ? each : json_object_new_object();
    hardware_remote_copy_counter(counters, hardware_child_counter_names[i], each);
  }
  json_object_object_add(object, "counters", each);
  return object;
}

struct json_object *hardware_remote_finish(struct hardware_remote *far, const char *about,
                                           bool is_alone)
{
  struct json_object *said, *told = NULL;
  char why[HARDWARE_WHY];

  if (!far->link) {
    hardware_stop(&far->end, is_alone ? ALONE_NS : STOP_NS);
    if (far->host[0] == '/')
      unlink(far->host); /* it may have been killed */
    return hardware_told(&far->end, about);
  }
  if (far->has_gone)
    return NULL;
  bench_link_send(far->link,
                  bench_link_object("finish", json_object_new_string(about ? about : "")));
  said = hardware_remote_hear(far, "told", 6 * STOP_NS, why);
  if (json_object_object_get_ex(said, "told", &told))
    told = hardware_remote_copy_told(told);
  json_object_put(said);
  return told;
}
