/* SPDX-License-Identifier: Apache-2.0 */
/* Reads from a configuration what its streams require of the machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "requirements.h"
#include "stream_config.h"

#define HUGE_OF_DPDK ((uint64_t)512 << 20) /* its pools and queues, beside rings */

static void requirements_add_name(char names[DOCTOR_NAMES][64], size_t *count, const char *name)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(names[i], name) == 0)
      return;
  if (name[0] != '\0' && *count < DOCTOR_NAMES)
    snprintf(names[(*count)++], 64, "%s", name);
}

static bool requirements_is(const char *text, const char *word)
{
  return text && strcmp(text, word) == 0;
}

/* A side of a stream: "sender", "receiver". */
static const char *requirements_text(const struct pst_config *config, const char *stream,
                                     const char *side, const char *key)
{
  char path[128];

  snprintf(path, sizeof(path), "%s.%s", side, key);
  return app_stream_text(config, stream, path);
}

/* Huge pages are for rings that ask for them, and for cards whose driver in DPDK does. */
static void requirements_take_ethernet(struct doctor_requirements *required,
                                       const struct pst_config *config, const char *stream,
                                       const char *side)
{
  const char *backing = requirements_text(config, stream, side, "memory.options.backing"),
             *memory = requirements_text(config, stream, side, "transport.options.memory"),
             *driver = requirements_text(config, stream, side, "transport.options.driver"),
             *device = requirements_text(config, stream, side, "transport.options.device");

  required->needs |= NEED_DPDK;
  if (device)
    requirements_add_name(required->frame_devices, &required->frame_device_count, device);
  if ((backing && strncmp(backing, "huge", 4) == 0) || requirements_is(memory, "huge"))
    required->needs |= NEED_HUGE;
  else if ((!driver || requirements_is(driver, "pci")) && !requirements_is(memory, "normal") &&
           device)
    requirements_add_name(required->ports, &required->port_count, device);
}

/* One entry for each that differs. */
static void requirements_take_class(struct doctor_requirements *required,
                                    const struct pst_config *config, const char *stream,
                                    const char *side, bool by_cm)
{
  const char *traffic = requirements_text(config, stream, side, "transport.options.traffic_class"),
             *level = requirements_text(config, stream, side, "transport.options.service_level");
  struct doctor_class one = {.traffic_class = traffic ? (unsigned)atoi(traffic) : 0,
                             .service_level = level ? (unsigned)atoi(level) : 0,
                             .by_cm = by_cm};
  char key[96];

  for (size_t i = 0; i < required->class_count; i++)
    if (required->classes[i].traffic_class == one.traffic_class &&
        required->classes[i].service_level == one.service_level &&
        required->classes[i].by_cm == by_cm)
      return;
  if (required->class_count == DOCTOR_NAMES)
    return;
  snprintf(key, sizeof(key), "%s.transport.options.traffic_class", side);
  const char *origin = app_stream_origin(config, stream, key);
  snprintf(one.at, sizeof(one.at), "%s", origin ? origin : "default");
  required->classes[required->class_count++] = one;
}

/* The plugin of a side, and the device, the hop limit and the class that it names. */
static void requirements_take_transport(struct doctor_requirements *required,
                                        const struct pst_config *config, const char *stream,
                                        const char *side)
{
  const char *plugin = requirements_text(config, stream, side, "transport.plugin"),
             *device = requirements_text(config, stream, side, "transport.options.device"),
             *hops = requirements_text(config, stream, side, "transport.options.hop_limit");
  const bool by_cm = requirements_is(
      requirements_text(config, stream, side, "transport.options.connection"), "rdma_cm");
  char key[96];

  if (requirements_is(plugin, "verbs_rc") || requirements_is(plugin, "verbs_dc")) {
    required->needs |= NEED_RDMA | NEED_PINNED;
    if (device)
      requirements_add_name(required->devices, &required->device_count, device);
    snprintf(key, sizeof(key), "%s.transport.options.hop_limit", side);
    const char *origin = app_stream_origin(config, stream, key);
    required->asks_routes |= by_cm;
    requirements_take_class(required, config, stream, side, by_cm);
    /* Not written, by rdma_cm it is the route's. */
    if (hops && !(by_cm && requirements_is(origin, "default")) &&
        (required->hop_limit == 0 || (unsigned)atoi(hops) < required->hop_limit)) {
      required->hop_limit = (unsigned)atoi(hops);
      snprintf(required->hop_limit_at, sizeof(required->hop_limit_at), "%s", origin ? origin : "");
    }
  }
  if (requirements_is(plugin, "ethernet"))
    requirements_take_ethernet(required, config, stream, side);
  if (requirements_is(plugin, "ucx"))
    required->needs |= NEED_UCX;
}

/* Rings of one GPU add up. */
static void requirements_take_gpu(struct doctor_requirements *required, const char *device,
                                  uint64_t bytes)
{
  size_t i = 0;

  while (i < required->gpu_count && strcmp(required->gpus[i].device, device) != 0)
    i++;
  if (i == DOCTOR_NAMES)
    return;
  if (i == required->gpu_count)
    snprintf(required->gpus[required->gpu_count++].device, sizeof(required->gpus[i].device), "%s",
             device);
  required->gpus[i].bytes += bytes;
}

static void requirements_take_side(struct doctor_requirements *required,
                                   const struct pst_config *config, const char *stream,
                                   const char *side, uint64_t bytes)
{
  const char *memory = requirements_text(config, stream, side, "memory.plugin"),
             *device = requirements_text(config, stream, side, "memory.options.device");

  requirements_take_transport(required, config, stream, side);
  if (requirements_is(memory, "cuda")) {
    required->needs |= NEED_GPU;
    requirements_take_gpu(required, device ? device : "", bytes);
  }
  if (requirements_is(memory, "igpu"))
    required->needs |= NEED_IGPU;
}

/* "192.0.2.1:18515", "[fe80::1]:18515" */
static void requirements_take_peer(struct doctor_requirements *required, const char *where)
{
  char host[64];

  if (!where || where[0] == '\0')
    return;
  if (where[0] == '[')
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(where + 1, "]"), where + 1);
  else
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(where, ":"), where);
  if (strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0)
    requirements_add_name(required->peers, &required->peer_count, host);
}

static void requirements_take_cpus(struct doctor_requirements *required,
                                   const struct pst_config *config)
{
  const char *origin = pst_config_origin(config, "threads.cpus"), *cpu;
  char key[32];

  snprintf(required->cpus_at, sizeof(required->cpus_at), "%s", origin ? origin : "threads.cpus");
  for (; required->cpu_count < DOCTOR_CPUS;
       required->cpus[required->cpu_count++] = (unsigned)atoi(cpu)) {
    snprintf(key, sizeof(key), "threads.cpus.%zu", required->cpu_count);
    if (!(cpu = pst_config_get(config, key)))
      return;
  }
}

static void requirements_take(struct doctor_requirements *required, const struct pst_config *config)
{
  required->stream_count = pst_config_stream_count(config);
  requirements_take_cpus(required, config);
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++) {
    const char *stream = pst_config_stream_name(config, i);
    const uint64_t bytes =
        app_stream_number(config, stream, "ring") * app_stream_number(config, stream, "message");
    requirements_take_side(required, config, stream, "sender", bytes);
    requirements_take_side(required, config, stream, "receiver", bytes);
    required->pinned_bytes += bytes;
  }
  if ((required->needs & NEED_HUGE) != 0)
    doctor_requirements_add_huge(required);
  requirements_take_peer(required, pst_config_get(config, "control.connect"));
}

void doctor_requirements_add_huge(struct doctor_requirements *required)
{
  required->needs |= NEED_HUGE;
  required->huge_bytes = required->pinned_bytes + HUGE_OF_DPDK;
}

int doctor_requirements_read(struct doctor_requirements *required, const char *file,
                             char const *const *plugin_paths, size_t count)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;

  for (size_t i = 0; i < count; i++)
    pst_plugin_path_add(plugin_paths[i]);
  required->file = file;
  if (!file)
    return 0;
  if (pst_config_open_file(file, NULL, 0, &config, &error) != 0)
    return error.exit_status != 0 ? error.exit_status : PST_EXIT_USAGE;
  requirements_take(required, config);
  pst_config_close(config);
  return 0;
}
