/* SPDX-License-Identifier: Apache-2.0 */
/* Transports with their filters, opened once for each set of options. */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/control.h"
#include "util/log.h"

#define DEVICE_FILTERS_MAX 16

struct engine_device *engine_device_add(struct engine *engine)
{
  struct engine_device *device = calloc(1, sizeof(*device));

  if (!device || ARRAY_APPEND(engine->devices, engine->device_count, device) < 0) {
    free(device);
    return NULL;
  }
  device->plan.struct_size = sizeof(device->plan);
  pthread_mutex_init(&device->count_lock, NULL);
  counts_init(&device->counts);
  return device;
}

/* The plugins log no reason. With filters, any of them may have refused. */
static int device_fail_open(const struct config_transport *config, int rc, struct pst_error *error)
{
  char filters[256] = "";
  size_t at = 0;

  for (uint32_t i = 0; i < config->filter_count && at < sizeof(filters); i++)
    at += (size_t)snprintf(filters + at, sizeof(filters) - at, "%s%s",
                           i ? ", " : ", or one of its filters: ", config->filters[i].name);
  return pst_fail(
      error, engine_exit_status(rc), rc,
      "%s: transport %s%s does not open: %s; `penstock plugins NAME` says what each needs",
      config->plugin.origin, config->plugin.name, filters, strerror(-rc));
}

static int device_read_limits(struct engine_device *device, struct pst_error *error)
{
  const char *name = device->config->plugin.name;

  device->limits.struct_size = sizeof(device->limits);
  int rc = device->ops->limits(device->device, &device->limits);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s reports no limits: %s", name,
                    strerror(-rc));
  if (device->plan.workers > device->limits.workers_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ERANGE,
                    "transport %s has at most %u workers a device, the configuration makes %u; set "
                    "threads.count",
                    name, device->limits.workers_max, device->plan.workers);
  return 0;
}

/* The device whose open() runs on this thread; NULL: none. */
static _Thread_local struct engine_device *device_opening;

static void device_take_link(const struct pst_open_params *params, uint64_t link_bps)
{
  struct engine_device *device = device_opening;

  if (device && params->plan == &device->plan)
    device->fit_plan(device, link_bps);
}

int engine_device_open(struct engine *engine, struct engine_device *device,
                       const char *local_address, struct pst_error *error)
{
  const struct config_transport *config = device->config;
  struct pst_open_params params[DEVICE_FILTERS_MAX + 1];
  const struct loader_plugin *plugin;

  if (config->filter_count > DEVICE_FILTERS_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -E2BIG, "%s: more than %d filters",
                    config->plugin.origin, DEVICE_FILTERS_MAX);
  int rc = engine_plugin_load(engine, PST_KIND_TRANSPORT, config->plugin.name, &plugin, error);
  if (rc < 0)
    return rc;
  device->plugin = plugin;
  params[0] = (struct pst_open_params){.struct_size = sizeof(params[0]),
                                       .options = config->plugin.options,
                                       .plan = &device->plan,
                                       .local_address = local_address,
                                       .tell_link = device->fit_plan ? device_take_link : NULL};
  for (uint32_t i = 1; i <= config->filter_count; i++) {
    const struct config_plugin *filter = &config->filters[config->filter_count - i];
    params[i] = (struct pst_open_params){.struct_size = sizeof(params[i]),
                                         .options = filter->options,
                                         .plan = &device->plan,
                                         .inner = plugin->transport,
                                         .inner_host = plugin->host,
                                         .inner_params = &params[i - 1]};
    rc = engine_plugin_load(engine, PST_KIND_FILTER, filter->name, &plugin, error);
    if (rc < 0)
      return rc;
  }
  device->ops = plugin->transport;
  pst_log_place(engine_plugin_place, &config->plugin);
  device_opening = device;
  rc = device->ops->open(plugin->host, &params[config->filter_count], &device->device);
  device_opening = NULL;
  pst_log_place(NULL, NULL);
  if (rc < 0 && pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  return rc < 0 ? device_fail_open(config, rc, error) : device_read_limits(device, error);
}

int engine_device_check_told(const struct engine_device *device, bool has_keys,
                             struct pst_error *error)
{
  const struct pst_limits *limits = &device->limits;
  const struct config_plugin *plugin = &device->config->plugin;
  const bool is_key = limits->address_max <= CONTROL_ADDRESS_MAX;
  const uint32_t bytes = is_key ? limits->remote_max : limits->address_max;

  if (is_key && (!has_keys || bytes <= CONTROL_ADDRESS_MAX))
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -E2BIG,
                  "%s: %s of transport %s has up to %u bytes with these options, and the control "
                  "channel carries %u; let it use fewer devices or lanes (`penstock plugins %s` "
                  "lists its options)",
                  plugin->origin, is_key ? "the key of a region" : "an endpoint's address",
                  plugin->name, bytes, CONTROL_ADDRESS_MAX, plugin->name);
}

int engine_device_start(struct engine_device *device, struct pst_error *error)
{
  int rc = device->ops->start(device->device);

  if (rc < 0 && rc != -EOPNOTSUPP)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s does not start: %s",
                    device->plugin->name, strerror(-rc));
  engine_device_count(device);
  device->has_counters = device->counts.count > 0;
  return 0;
}

void engine_device_count(struct engine_device *device)
{
  pthread_mutex_lock(&device->count_lock);
  counts_read(&device->counts, device->ops, device->device, NULL, NULL);
  pthread_mutex_unlock(&device->count_lock);
}

static void device_count_work(void *arg)
{
  struct engine_device *device = arg;

  engine_device_count(device);
  atomic_store(&device->is_counted, false);
}

void engine_device_count_soon(struct engine_device *device)
{
  const struct pst_host *host = device->plugin->host;

  if (!device->has_counters || atomic_exchange(&device->is_counted, true))
    return;
  if (host->defer(host, device, device_count_work, device) < 0)
    atomic_store(&device->is_counted, false);
}

void engine_device_close(struct engine_device *device)
{
  if (device->device)
    device->ops->close(device->device);
  free(device);
}

void engine_device_info(const struct engine_device *device, struct pst_device_info *info)
{
  const struct config_plugin *plugin = &device->config->plugin;
  struct pst_device_info found = {.struct_size = sizeof(found), .transport = plugin->name};

  if (options_text(plugin->options, "device", found.device, sizeof(found.device)) < 0)
    found.device[0] = '\0';
  pst_struct_write(info, &found, sizeof(found));
}
