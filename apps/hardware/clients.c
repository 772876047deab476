/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients of one server at a time, some of which are killed. */
#include "clients.h"

#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#include "clock.h"

int hardware_clients_start(struct hardware_clients *crowd, const struct hardware_end *end,
                           const struct hardware_ask *ask, const char *host, uint16_t port,
                           bool are_killed, char why[HARDWARE_WHY])
{
  const struct hardware_step *step = &hardware_checks[ask->check].steps[ask->step];
  const uint32_t end_count = are_killed ? step->killed : step->clients > 0 ? step->clients - 1 : 0;
  int code = 0;

  crowd->killed = step->killed;
  while (code == 0 && crowd->count < end_count) {
    struct child *child = &crowd->all[crowd->count];
    code = hardware_request_beside(end, ask, host, port, are_killed, child, why);
    crowd->count += code == 0;
  }
  return code;
}

void hardware_clients_look(struct hardware_clients *crowd, uint64_t ns)
{
  for (uint32_t i = 0; i < crowd->count; i++) {
    if (crowd->all[i].has_ended)
      continue;
    hardware_child_pump(&crowd->all[i], ns);
    ns = 0;
  }
  poll(NULL, 0, (int)(ns / NS_PER_MS)); /* none runs any more */
}

bool hardware_clients_has_said(const struct hardware_clients *crowd, const char *start,
                               const char *words)
{
  uint32_t i = 0;

  while (i < crowd->killed && hardware_child_has_said(&crowd->all[i], start, words))
    i++;
  return i == crowd->killed;
}

void hardware_clients_kill(struct hardware_clients *crowd)
{
  for (uint32_t i = 0; i < crowd->killed; i++)
    hardware_child_signal(&crowd->all[i], SIGKILL);
  crowd->was_killed = true;
}

bool hardware_clients_is_through(const struct hardware_clients *crowd)
{
  uint32_t i = crowd->killed;

  while (i < crowd->count && crowd->all[i].has_ended)
    i++;
  return i >= crowd->count;
}

bool hardware_clients_has_failed(const struct hardware_clients *crowd, char why[HARDWARE_WHY])
{
  char line[512], how[80];

  for (uint32_t i = crowd->killed; i < crowd->count; i++) {
    const struct child *child = &crowd->all[i];
    if (hardware_child_exit_status(child) == 0)
      continue;
    hardware_child_last_error(child, line, sizeof(line));
    hardware_child_how_ended(child, how, sizeof(how));
    snprintf(why, HARDWARE_WHY, "client %u of %u: %s%s%s", i + 1, crowd->count + 1, how,
             line[0] != '\0' ? ": " : "", line);
    return true;
  }
  return false;
}

static double hardware_clients_longest_of(struct json_object *result)
{
  struct json_object *request = NULL, *times = NULL, *most = NULL;

  json_object_object_get_ex(result, "request", &request);
  json_object_object_get_ex(request, "round_trip_ns", &times);
  json_object_object_get_ex(times, "max", &most);
  return json_object_get_double(most);
}

struct json_object *hardware_clients_slowest(const struct hardware_clients *crowd,
                                             struct json_object *result)
{
  for (uint32_t i = crowd->killed; i < crowd->count; i++) {
    const struct child_text *out = &crowd->all[i].out;
    struct json_object *other = out->length > 0 ? json_tokener_parse(out->bytes) : NULL;
    const bool is_slower = hardware_clients_longest_of(other) > hardware_clients_longest_of(result);
    json_object_put(is_slower ? result : other);
    result = is_slower ? other : result;
  }
  return result;
}

void hardware_clients_end(struct hardware_clients *crowd)
{
  for (uint32_t i = 0; i < crowd->count; i++)
    hardware_child_end(&crowd->all[i]);
  crowd->count = 0;
}
