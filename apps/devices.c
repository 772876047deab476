/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

#include "drive.h"
#include "json_put.h"
#include "notice.h"
#include "result.h"

/* "transport udp, device eth0, worker of thread 1: sockets 1": those that are not 0. */
static struct json_object *take_counters(const char *whose, const struct pst_counter_value *values,
                                         int count)
{
  const struct result_counters counters = result_counters(values, count);
  char line[1024];
  size_t at = 0;

  for (uint32_t i = 0; i < counters.count && at < sizeof line; i++)
    if (values[i].value != 0)
      at += (size_t)snprintf(line + at, sizeof line - at, "%s%s %" PRIu64, at > 0 ? ", " : "",
                             values[i].name, values[i].value);
  if (at > 0)
    notice(PST_LOG_DEBUG, "%s: %s", whose, line);
  return result_counters_json(&counters);
}

static struct json_object *workers_json(const struct drive *drive, uint32_t index,
                                        const char *whose)
{
  struct json_object *workers = json_object_new_array();
  struct pst_counter_value values[COUNTERS_MAX];
  char words[400];

  for (uint32_t thread = 0; thread < pst_session_threads(drive->session); thread++) {
    int count = pst_session_worker_counters(drive->session, index, thread, values, COUNTERS_MAX);
    if (count < 0)
      continue;
    struct json_object *worker = json_object_new_object();
    snprintf(words, sizeof words, "%s, worker of thread %u", whose, thread);
    json_put_uint(worker, "thread", thread);
    json_object_object_add(worker, "counters", take_counters(words, values, count));
    json_object_array_add(workers, worker);
  }
  return workers;
}

static struct json_object *device_json(const struct drive *drive, uint32_t index,
                                       const struct pst_device_info *info)
{
  struct json_object *device = json_object_new_object();
  struct pst_counter_value values[COUNTERS_MAX];
  char whose[360];
  int count = pst_session_device_counters(drive->session, index, values, COUNTERS_MAX);

  snprintf(whose, sizeof whose, "transport %.31s%s%s", info->transport,
           info->device[0] != '\0' ? ", device " : "", info->device);
  json_put_text(device, "transport", info->transport);
  json_put_text(device, "device", info->device);
  json_object_object_add(device, "counters", take_counters(whose, values, count));
  json_object_object_add(device, "workers", workers_json(drive, index, whose));
  return device;
}

void devices_report(const struct drive *drive, struct json_object *result)
{
  struct json_object *devices = json_object_new_array();

  for (uint32_t i = 0; i < pst_session_devices(drive->session); i++) {
    struct pst_device_info info = {.struct_size = sizeof info};
    if (pst_session_device(drive->session, i, &info) == 0)
      json_object_array_add(devices, device_json(drive, i, &info));
  }
  if (result != NULL)
    json_object_object_add(result, "devices", devices);
  else
    json_object_put(devices);
}
