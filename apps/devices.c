/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of devices and workers, in the result. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "devices.h"
#include "json_put.h"
#include "log.h"
#include "result.h"
#include "runner.h"

/* "transport udp, device eth0, worker of thread 1: sockets 1": those that are not 0. */
static struct json_object *devices_take_counters(const char *whose,
                                                 const struct pst_counter_value *values, int count)
{
  const struct result_counters counters = app_result_counters(values, count);
  char line[1024];
  size_t at = 0;

  for (uint32_t i = 0; i < counters.count && at < sizeof(line); i++)
    if (values[i].value != 0)
      at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %" PRIu64, at > 0 ? ", " : "",
                             values[i].name, values[i].value);
  if (at > 0)
    app_log(PST_LOG_DEBUG, "%s: %s", whose, line);
  return app_result_counters_json(&counters);
}

static struct json_object *devices_worker_json(uint32_t thread, const char *whose,
                                               const struct pst_counter_value *values, int count)
{
  struct json_object *worker = json_object_new_object();
  char words[400];

  snprintf(words, sizeof(words), "%s, worker of thread %u", whose, thread);
  app_json_put_uint(worker, "thread", thread);
  json_object_object_add(worker, "counters", devices_take_counters(words, values, count));
  return worker;
}

/* Adds a device, and returns the array for its workers, which the caller adds. */
static struct json_object *devices_device_json(struct json_object *devices,
                                               const struct pst_device_info *info,
                                               const struct pst_counter_value *values, int count,
                                               char *whose, size_t size)
{
  struct json_object *device = json_object_new_object(), *workers = json_object_new_array();

  snprintf(whose, size, "transport %.31s%s%s", info->transport,
           info->device[0] != '\0' ? ", device " : "", info->device);
  app_json_put_text(device, "transport", info->transport);
  app_json_put_text(device, "device", info->device);
  json_object_object_add(device, "counters", devices_take_counters(whose, values, count));
  json_object_object_add(device, "workers", workers);
  json_object_array_add(devices, device);
  return workers;
}

static void devices_add(struct json_object *result, struct json_object *devices)
{
  if (result)
    json_object_object_add(result, "devices", devices);
  else
    json_object_put(devices);
}

void app_devices_report(const struct runner *runner, struct json_object *result)
{
  struct json_object *devices = json_object_new_array();
  struct pst_device_info info = {.struct_size = sizeof(info)};
  struct pst_counter_value values[COUNTERS_MAX];
  char whose[360];

  for (uint32_t i = 0; pst_session_device(runner->session, i, &info) == 0; i++) {
    int count = pst_session_device_counters(runner->session, i, values, COUNTERS_MAX);
    struct json_object *workers =
        devices_device_json(devices, &info, values, count, whose, sizeof(whose));
    for (uint32_t thread = 0; thread < pst_session_threads(runner->session); thread++) {
      count = pst_session_worker_counters(runner->session, i, thread, values, COUNTERS_MAX);
      if (count >= 0)
        json_object_array_add(workers, devices_worker_json(thread, whose, values, count));
    }
  }
  devices_add(result, devices);
}

void app_devices_report_node(struct pst_node *node, struct json_object *result)
{
  struct json_object *devices = json_object_new_array();
  struct pst_device_info info = {.struct_size = sizeof(info)};
  struct pst_counter_value values[COUNTERS_MAX];
  char whose[360];

  if (node && pst_node_device(node, &info) == 0) {
    int count = pst_node_device_counters(node, values, COUNTERS_MAX);
    struct json_object *workers =
        devices_device_json(devices, &info, values, count, whose, sizeof(whose));
    count = pst_node_worker_counters(node, values, COUNTERS_MAX);
    json_object_array_add(workers, devices_worker_json(0, whose, values, count));
  }
  devices_add(result, devices);
}
