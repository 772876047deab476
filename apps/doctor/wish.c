/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration asks of a machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "stream_config.h"
#include "wish.h"

#define HUGE_OF_DPDK ((uint64_t)512 << 20) /* its pools and queues, beside rings */

static void wish_add_name(char names[DOCTOR_NAMES][64], size_t *count, const char *name)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(names[i], name) == 0)
      return;
  if (name[0] != '\0' && *count < DOCTOR_NAMES)
    snprintf(names[(*count)++], 64, "%s", name);
}

static bool wish_is(const char *text, const char *word)
{
  return text && strcmp(text, word) == 0;
}

/* A side of a stream: "sender", "receiver". */
static const char *wish_text(const struct pst_config *config, const char *stream, const char *side,
                             const char *key)
{
  char path[128];

  snprintf(path, sizeof(path), "%s.%s", side, key);
  return app_stream_text(config, stream, path);
}

/* Huge pages are for rings that ask for them, and for cards whose driver in DPDK does. */
static void wish_take_ethernet(struct doctor_wish *wish, const struct pst_config *config,
                               const char *stream, const char *side)
{
  const char *backing = wish_text(config, stream, side, "memory.options.backing"),
             *memory = wish_text(config, stream, side, "transport.options.memory"),
             *driver = wish_text(config, stream, side, "transport.options.driver"),
             *device = wish_text(config, stream, side, "transport.options.device");

  wish->needs |= NEED_DPDK;
  if (device)
    wish_add_name(wish->frame_devices, &wish->frame_device_count, device);
  if ((backing && strncmp(backing, "huge", 4) == 0) || wish_is(memory, "huge"))
    wish->needs |= NEED_HUGE;
  else if ((!driver || wish_is(driver, "pci")) && !wish_is(memory, "normal") && device)
    wish_add_name(wish->ports, &wish->port_count, device);
}

/* One entry for each that differs. */
static void wish_take_class(struct doctor_wish *wish, const struct pst_config *config,
                            const char *stream, const char *side, bool by_cm)
{
  const char *traffic = wish_text(config, stream, side, "transport.options.traffic_class"),
             *level = wish_text(config, stream, side, "transport.options.service_level");
  struct doctor_class one = {.traffic_class = traffic ? (unsigned)atoi(traffic) : 0,
                             .service_level = level ? (unsigned)atoi(level) : 0,
                             .by_cm = by_cm};
  char key[96];

  for (size_t i = 0; i < wish->class_count; i++)
    if (wish->classes[i].traffic_class == one.traffic_class &&
        wish->classes[i].service_level == one.service_level && wish->classes[i].by_cm == by_cm)
      return;
  if (wish->class_count == DOCTOR_NAMES)
    return;
  snprintf(key, sizeof(key), "%s.transport.options.traffic_class", side);
  const char *origin = app_stream_origin(config, stream, key);
  snprintf(one.at, sizeof(one.at), "%s", origin ? origin : "default");
  wish->classes[wish->class_count++] = one;
}

/* The plugin of a side, and the device, the hop limit and the class that it names. */
static void wish_take_transport(struct doctor_wish *wish, const struct pst_config *config,
                                const char *stream, const char *side)
{
  const char *plugin = wish_text(config, stream, side, "transport.plugin"),
             *device = wish_text(config, stream, side, "transport.options.device"),
             *hops = wish_text(config, stream, side, "transport.options.hop_limit");
  const bool by_cm =
      wish_is(wish_text(config, stream, side, "transport.options.connection"), "rdma_cm");
  char key[96];

  if (wish_is(plugin, "verbs_rc") || wish_is(plugin, "verbs_dc")) {
    wish->needs |= NEED_RDMA | NEED_PINNED;
    if (device)
      wish_add_name(wish->devices, &wish->device_count, device);
    snprintf(key, sizeof(key), "%s.transport.options.hop_limit", side);
    const char *origin = app_stream_origin(config, stream, key);
    wish->asks_routes |= by_cm;
    wish_take_class(wish, config, stream, side, by_cm);
    /* Not written, by rdma_cm it is the route's. */
    if (hops && !(by_cm && wish_is(origin, "default")) &&
        (wish->hop_limit == 0 || (unsigned)atoi(hops) < wish->hop_limit)) {
      wish->hop_limit = (unsigned)atoi(hops);
      snprintf(wish->hop_limit_at, sizeof(wish->hop_limit_at), "%s", origin ? origin : "");
    }
  }
  if (wish_is(plugin, "ethernet"))
    wish_take_ethernet(wish, config, stream, side);
  if (wish_is(plugin, "ucx"))
    wish->needs |= NEED_UCX;
}

/* Rings of one GPU add up. */
static void wish_take_gpu(struct doctor_wish *wish, const char *device, uint64_t bytes)
{
  size_t i = 0;

  while (i < wish->gpu_count && strcmp(wish->gpus[i].device, device) != 0)
    i++;
  if (i == DOCTOR_NAMES)
    return;
  if (i == wish->gpu_count)
    snprintf(wish->gpus[wish->gpu_count++].device, sizeof(wish->gpus[i].device), "%s", device);
  wish->gpus[i].bytes += bytes;
}

static void wish_take_side(struct doctor_wish *wish, const struct pst_config *config,
                           const char *stream, const char *side, uint64_t bytes)
{
  const char *memory = wish_text(config, stream, side, "memory.plugin"),
             *device = wish_text(config, stream, side, "memory.options.device");

  wish_take_transport(wish, config, stream, side);
  if (wish_is(memory, "cuda")) {
    wish->needs |= NEED_GPU;
    wish_take_gpu(wish, device ? device : "", bytes);
  }
  if (wish_is(memory, "igpu"))
    wish->needs |= NEED_IGPU;
}

/* "192.0.2.1:18515", "[fe80::1]:18515" */
static void wish_take_peer(struct doctor_wish *wish, const char *where)
{
  char host[64];

  if (!where || where[0] == '\0')
    return;
  if (where[0] == '[')
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(where + 1, "]"), where + 1);
  else
    snprintf(host, sizeof(host), "%.*s", (int)strcspn(where, ":"), where);
  if (strncmp(host, "127.", 4) != 0 && strcmp(host, "::1") != 0)
    wish_add_name(wish->peers, &wish->peer_count, host);
}

static void wish_take_cpus(struct doctor_wish *wish, const struct pst_config *config)
{
  const char *origin = pst_config_origin(config, "threads.cpus"), *cpu;
  char key[32];

  snprintf(wish->cpus_at, sizeof(wish->cpus_at), "%s", origin ? origin : "threads.cpus");
  for (; wish->cpu_count < DOCTOR_CPUS; wish->cpus[wish->cpu_count++] = (unsigned)atoi(cpu)) {
    snprintf(key, sizeof(key), "threads.cpus.%zu", wish->cpu_count);
    if (!(cpu = pst_config_get(config, key)))
      return;
  }
}

static void wish_take(struct doctor_wish *wish, const struct pst_config *config)
{
  wish->stream_count = pst_config_stream_count(config);
  wish_take_cpus(wish, config);
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++) {
    const char *stream = pst_config_stream_name(config, i);
    const uint64_t bytes =
        app_stream_number(config, stream, "ring") * app_stream_number(config, stream, "message");
    wish_take_side(wish, config, stream, "sender", bytes);
    wish_take_side(wish, config, stream, "receiver", bytes);
    wish->pinned_bytes += bytes;
  }
  if ((wish->needs & NEED_HUGE) != 0)
    doctor_wish_add_huge(wish);
  wish_take_peer(wish, pst_config_get(config, "control.connect"));
}

void doctor_wish_add_huge(struct doctor_wish *wish)
{
  wish->needs |= NEED_HUGE;
  wish->huge_bytes = wish->pinned_bytes + HUGE_OF_DPDK;
}

int doctor_read_wish(struct doctor_wish *wish, const char *file, char const *const *plugin_paths,
                     size_t count)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;

  for (size_t i = 0; i < count; i++)
    pst_plugin_path_add(plugin_paths[i]);
  wish->file = file;
  if (!file)
    return 0;
  if (pst_config_open_file(file, NULL, 0, &config, &error) != 0)
    return error.exit_status != 0 ? error.exit_status : PST_EXIT_USAGE;
  wish_take(wish, config);
  pst_config_close(config);
  return 0;
}
