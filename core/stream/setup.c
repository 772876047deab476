/* SPDX-License-Identifier: Apache-2.0 */
/* What a session opens before its ends: threads, memories, devices, lanes. */
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../control/socket.h"
#include "session.h"

uint64_t round_up(uint64_t value, uint64_t step)
{
  return (value + step - 1) / step * step;
}

/* Append to an array of pointers that is counted by `count`. */
#define APPEND(array, count, item)                                                                 \
  ({                                                                                               \
    typeof(array) grown_ = realloc((array), ((count) + 1) * sizeof(*(array)));                     \
    if (grown_) {                                                                                  \
      grown_[(count)++] = (item);                                                                  \
      (array) = grown_;                                                                            \
    }                                                                                              \
    grown_ ? 0 : -ENOMEM;                                                                          \
  })

static int out_of_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the session");
}

int setup_plugin_note(struct pst_session *session, const struct loader_plugin *plugin)
{
  for (uint32_t i = 0; i < session->plugin_count; i++)
    if (session->plugins[i] == plugin)
      return 0;
  return APPEND(session->plugins, session->plugin_count, plugin);
}

bool setup_region_meets(const struct pst_region *region, uint32_t needs, const char **lacks)
{
  if ((needs & PST_NEED_CPU_ACCESS) && !region->host)
    *lacks = "memory that the CPU can touch";
  else if ((needs & PST_NEED_EXPORT_FD) && !(region->exports & PST_EXPORT_FD))
    *lacks = "memory that can be shared by a file descriptor";
  else if ((needs & PST_NEED_EXPORT_IPC) && !(region->exports & PST_EXPORT_IPC))
    *lacks = "memory with an IPC handle";
  else if ((needs & PST_NEED_PINNED) && !(region->flags & PST_REGION_PINNED))
    *lacks = "pinned memory";
  else
    return true;
  return false;
}

/* ---- Threads --------------------------------------------------------------------- */

static int open_thread(struct pst_session *session, uint32_t index, struct pst_error *error)
{
  const struct config *config = session->config;
  struct session_thread *thread = aligned_alloc(CACHE_LINE, sizeof(*thread));
  struct epoll_event event = {.events = EPOLLIN};

  if (!thread || APPEND(session->threads, session->thread_count, thread) < 0) {
    free(thread);
    return out_of_memory(error);
  }
  memset(thread, 0, sizeof(*thread));
  thread->session = session;
  thread->index = index;
  thread->cpu =
      config->workers.cpu_count ? (int)config->workers.cpus[index % config->workers.cpu_count] : -1;
  pthread_mutex_init(&thread->mail_lock, NULL);
  thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  event.data.fd = thread->wake_fd;
  if (thread->epoll_fd < 0 || thread->wake_fd < 0 ||
      epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, thread->wake_fd, &event) < 0)
    return pst_fail(error, PST_EXIT_FAILED, -errno,
                    "no descriptor for worker %u: %s; raise `ulimit -n`", index, strerror(errno));
  return 0;
}

static struct session_end *end_at(const struct pst_session *session, uint32_t i)
{
  /* Both sides alternate, so that with two threads each has one. */
  uint32_t pairs = session->out_count < session->in_count ? session->out_count : session->in_count;
  if (i < 2 * pairs)
    return i % 2 ? session->ins[i / 2] : session->outs[i / 2];
  i -= pairs;
  return i < session->out_count ? session->outs[i] : session->ins[i];
}

/* What goes to one thread: ends that share a ring or slots, and, unless the file
 * says how many threads there are, both ends of a stream in this process: what one
 * core has just written is in its cache, and a stream costs one core, not two.
 * Such a group has a number from 1, noted in one of two places for each stream. */
static uint32_t *group_of(const struct pst_session *session, const struct session_end *end,
                          uint32_t *groups)
{
  const char *share = end->is_sender ? end->config->sender.share : end->config->receiver.share;
  const struct session_stream *stream = session_stream_find(session, share ? share : end->name);
  bool together = session->config->workers.count == 0;

  return &groups[2 * (stream - session->streams) + (end->is_sender || together)];
}

static uint32_t usable_cores(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static uint32_t number_groups(const struct pst_session *session, uint32_t *groups)
{
  uint32_t ends = session->out_count + session->in_count;
  uint32_t count = 0;

  for (uint32_t i = 0; i < ends; i++) {
    uint32_t *group = group_of(session, end_at(session, i), groups);
    if (*group == 0)
      *group = ++count;
  }
  return count;
}

static int place_ends(struct pst_session *session, uint32_t *groups, struct pst_error *error)
{
  uint32_t ends = session->out_count + session->in_count;

  for (uint32_t i = 0; i < ends; i++) {
    struct session_end *end = end_at(session, i);
    uint32_t group = *group_of(session, end, groups);
    end->thread = session->threads[(group - 1) % session->thread_count];
    if (APPEND(end->thread->ends, end->thread->end_count, end) < 0)
      return out_of_memory(error);
  }
  return 0;
}

int setup_threads(struct pst_session *session, struct pst_error *error)
{
  uint32_t *groups = calloc(2 * (size_t)session->config->stream_count, sizeof(*groups));
  uint32_t wanted = session->config->workers.count;
  uint32_t count;
  int rc = 0;

  if (!groups)
    return out_of_memory(error);
  count = number_groups(session, groups);
  if (wanted == 0)
    wanted = usable_cores();
  if (wanted > count)
    wanted = count;
  for (uint32_t i = 0; i < wanted && rc == 0; i++)
    rc = open_thread(session, i, error);
  if (rc == 0)
    rc = place_ends(session, groups, error);
  free(groups);
  return rc;
}

/* Of a plugin's line, "transport udp: device: no such interface": where that option was written,
 * which may be --set; else where the plugin was. */
static const char *place_of(const void *context, const char *line)
{
  const struct config_plugin *plugin = context;
  const struct pst_description *description = plugin->description;
  const char *said = strstr(line, ": ");

  for (uint32_t i = 0; said && description && i < description->option_count; i++) {
    const char *name = description->options[i].name, *origin = plugin->option_marks[i].origin;
    size_t length = strlen(name);
    if (strncmp(said + 2, name, length) == 0 && strchr(": ", said[2 + length]) && origin &&
        strcmp(origin, "default") != 0)
      return origin;
  }
  return plugin->mark.origin;
}

/* ---- Memories ---------------------------------------------------------------------- */

int setup_memory(struct pst_session *session, const struct config_plugin *config,
                 struct session_memory **memory, struct pst_error *error)
{
  const struct loader_plugin *plugin;
  struct session_memory *entry;
  const char *differs;
  int rc = loader_load(PST_KIND_MEMORY, config->name, &plugin, error);

  if (rc < 0)
    return rc;
  for (uint32_t i = 0; i < session->memory_count; i++) {
    entry = session->memories[i];
    if (entry->plugin == plugin && options_equal(entry->options, config->options, ~0u, &differs)) {
      *memory = entry;
      return 0;
    }
  }
  entry = calloc(1, sizeof(*entry));
  if (!entry || setup_plugin_note(session, plugin) < 0) {
    free(entry);
    return out_of_memory(error);
  }
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = config->options};
  pst_log_place(place_of, config);
  rc = plugin->memory->open(plugin->host, &params, &entry->memory);
  pst_log_place(NULL, NULL);
  if (rc < 0) {
    free(entry);
    if (pst_fail_said(error, refusal_status(rc), rc) == rc)
      return rc;
    return pst_fail(error, refusal_status(rc), rc,
                    "%s: memory %s does not open: %s; `penstock plugins %s` tells what it needs",
                    config->mark.origin, config->name, strerror(-rc), config->name);
  }
  entry->plugin = plugin;
  entry->options = config->options;
  entry->info.struct_size = sizeof(entry->info);
  plugin->memory->describe(entry->memory, &entry->info);
  rc = loader_memory_add(entry->memory, plugin->memory);
  if (rc == 0 && APPEND(session->memories, session->memory_count, entry) < 0) {
    loader_memory_remove(entry->memory);
    rc = -ENOMEM;
  }
  if (rc < 0) {
    plugin->memory->close(entry->memory);
    free(entry);
    return out_of_memory(error);
  }
  *memory = entry;
  return 0;
}

/* ---- Devices ------------------------------------------------------------------------- */

static bool same_transport(const struct config_transport *a, const struct config_transport *b)
{
  const char *differs;

  if (strcmp(a->plugin.name, b->plugin.name) != 0 || a->filter_count != b->filter_count ||
      !options_equal(a->plugin.options, b->plugin.options, PST_SCOPE_DEVICE | PST_SCOPE_STREAM,
                     &differs))
    return false;
  for (uint32_t i = 0; i < a->filter_count; i++)
    if (strcmp(a->filters[i].name, b->filters[i].name) != 0 ||
        !options_equal(a->filters[i].options, b->filters[i].options, ~0u, &differs))
      return false;
  return true;
}

static const struct config_transport *transport_of(const struct session_end *end)
{
  return end->is_sender ? &end->config->sender.transport : &end->config->receiver.transport;
}

static struct session_device *device_of(const struct pst_session *session,
                                        const struct config_transport *transport)
{
  for (uint32_t i = 0; i < session->device_count; i++)
    if (same_transport(session->devices[i]->config, transport))
      return session->devices[i];
  return NULL;
}

static int note_device(struct pst_session *session, struct session_end *end,
                       struct pst_error *error)
{
  const struct config_transport *transport = transport_of(end);
  struct session_device *device = device_of(session, transport);

  if (!device) {
    device = calloc(1, sizeof(*device));
    if (!device || APPEND(session->devices, session->device_count, device) < 0) {
      free(device);
      return out_of_memory(error);
    }
    device->config = transport;
    device->plan.struct_size = sizeof(device->plan);
  }
  end->device = device;
  return 0;
}

/* A thread with an end on the device is a worker of it. */
static uint32_t count_workers(const struct pst_session *session,
                              const struct session_device *device)
{
  uint32_t workers = 0;

  for (uint32_t t = 0; t < session->thread_count; t++) {
    const struct session_thread *thread = session->threads[t];
    for (uint32_t e = 0; e < thread->end_count; e++)
      if (thread->ends[e]->device == device) {
        workers++;
        break;
      }
  }
  return workers;
}

static void plan_end(const struct session_end *end)
{
  struct pst_plan *plan = &end->device->plan;
  const struct config_stream *config = end->config;

  if (config->message > plan->message_max)
    plan->message_max = config->message;
  plan->pieces = 1;
  if (end->is_one_sided) {
    plan->rma++;
    plan->domains += !end->is_sender;
    if (end->is_sender && initiator_depth() > plan->requests)
      plan->requests = initiator_depth();
  } else if (end->is_sender) {
    const struct pst_sender *leader =
        config->sender.share ? pst_session_sender(end->session, config->sender.share) : NULL;
    uint32_t slots = sender_slots(leader ? leader->end.config : config);
    plan->senders++;
    if (slots + 1 > plan->requests)
      plan->requests = slots + 1;
  } else {
    plan->receivers++;
    if (!config->receiver.share) {
      plan->rings++;
      plan->domains++;
      plan->ring_slots += config->ring;
    }
  }
}

/* Nobody has said why. With filters, any of them may have refused. */
static int unopened(const struct config_transport *config, int rc, struct pst_error *error)
{
  char filters[256] = "";
  size_t at = 0;

  for (uint32_t i = 0; i < config->filter_count && at < sizeof(filters); i++)
    at += (size_t)snprintf(filters + at, sizeof(filters) - at, "%s%s",
                           i ? ", " : ", or one of its filters: ", config->filters[i].name);
  return pst_fail(error, refusal_status(rc), rc,
                  "%s: transport %s%s does not open: %s; `penstock plugins NAME` tells what each "
                  "needs",
                  config->plugin.mark.origin, config->plugin.name, filters, strerror(-rc));
}

/* Where `control` listens, in numbers; "": everywhere, nowhere, or the name is not found, which
 * control reports. */
static void find_local_address(const struct pst_session *session, char text[NI_MAXHOST])
{
  struct socket_addresses found;
  char why[256];

  text[0] = '\0';
  if (session->in_count == 0 || session->out_count || session->config->control.none ||
      socket_resolve(session->config->control.listen, true, &found, why, sizeof(why)) < 0 ||
      socket_is_any(&found.at[0]))
    return;
  if (getnameinfo((const struct sockaddr *)&found.at[0].storage, found.at[0].length, text,
                  NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
    text[0] = '\0';
}

int setup_device(struct pst_session *session, struct session_device *device,
                 struct pst_error *error)
{
  const struct config_transport *config = device->config;
  uint32_t levels = config->filter_count + 1;
  struct pst_open_params params[17];
  const struct loader_plugin *plugin;
  char local_address[NI_MAXHOST];
  int rc = loader_load(PST_KIND_TRANSPORT, config->plugin.name, &plugin, error);

  if (rc == 0 && levels > 17)
    rc = pst_fail(error, PST_EXIT_USAGE, -E2BIG, "%s: more than 16 filters",
                  config->plugin.mark.origin);
  if (rc == 0 && setup_plugin_note(session, plugin) < 0)
    rc = out_of_memory(error);
  if (rc < 0)
    return rc;
  device->plugin = plugin;
  find_local_address(session, local_address);
  params[0] = (struct pst_open_params){.struct_size = sizeof(params[0]),
                                       .options = config->plugin.options,
                                       .plan = &device->plan,
                                       .local_address = local_address[0] ? local_address : NULL};
  for (uint32_t i = 1; i < levels; i++) {
    const struct config_plugin *filter = &config->filters[config->filter_count - i];
    params[i] = (struct pst_open_params){.struct_size = sizeof(params[i]),
                                         .options = filter->options,
                                         .plan = &device->plan,
                                         .inner = plugin->transport,
                                         .inner_host = plugin->host,
                                         .inner_params = &params[i - 1]};
    rc = loader_load(PST_KIND_FILTER, filter->name, &plugin, error);
    if (rc == 0 && setup_plugin_note(session, plugin) < 0)
      rc = out_of_memory(error);
    if (rc < 0)
      return rc;
  }
  device->ops = plugin->transport;
  pst_log_place(place_of, &config->plugin);
  rc = device->ops->open(plugin->host, &params[levels - 1], &device->device);
  pst_log_place(NULL, NULL);
  if (rc < 0 && pst_fail_said(error, refusal_status(rc), rc) == rc)
    return rc;
  if (rc < 0)
    return unopened(config, rc, error);
  device->limits.struct_size = sizeof(device->limits);
  rc = device->ops->limits(device->device, &device->limits);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s tells no limits: %s",
                    config->plugin.name, strerror(-rc));
  if (device->plan.workers > device->limits.workers_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ERANGE,
                    "transport %s has at most %u workers a device, the configuration makes %u; set "
                    "workers.count",
                    config->plugin.name, device->limits.workers_max, device->plan.workers);
  return 0;
}

static int open_lane(struct session_thread *thread, struct session_device *device,
                     struct session_lane **lane, struct pst_error *error)
{
  struct epoll_event event = {.events = EPOLLIN};
  struct session_lane *entry;
  int rc;

  for (uint32_t i = 0; i < thread->lane_count; i++)
    if (thread->lanes[i]->device == device) {
      *lane = thread->lanes[i];
      return 0;
    }
  entry = calloc(1, sizeof(*entry));
  if (!entry)
    return out_of_memory(error);
  rc = device->ops->worker_open(device->device, device->next_worker, &entry->worker);
  if (rc < 0) {
    free(entry);
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "transport %s opens no worker %u: %s",
                    device->plugin->name, device->next_worker, strerror(-rc));
  }
  device->next_worker++;
  entry->thread = thread;
  entry->device = device;
  entry->ops = device->ops;
  entry->messages = entry->completions;
  entry->event_fd = -1;
  if (device->limits.capabilities & PST_CAP_WAKEUP)
    entry->event_fd = device->ops->event_fd(entry->worker);
  event.data.fd = entry->event_fd;
  if (entry->event_fd >= 0 &&
      epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, entry->event_fd, &event) < 0)
    entry->event_fd = -1;
  if (APPEND(thread->lanes, thread->lane_count, entry) < 0) {
    device->ops->worker_close(entry->worker);
    free(entry);
    return out_of_memory(error);
  }
  *lane = entry;
  return 0;
}

/* What `receiver.share` saves. */
static int check_shared(const struct session_device *device, struct pst_error *error)
{
  const struct config_plugin *plugin = &device->config->plugin;

  if (device->limits.rings_max && device->plan.rings > device->limits.rings_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ENOSPC,
                    "%s: transport %s has at most %u rings a device, the streams have %u; let some "
                    "share one (`receiver.share`), or run fewer",
                    plugin->mark.origin, plugin->name, device->limits.rings_max,
                    device->plan.rings);
  if (device->limits.domains_max && device->plan.domains > device->limits.domains_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ENOSPC,
                    "%s: transport %s has at most %u domains a device, one for each receiver or "
                    "region that peers reach, and the streams have %u; let some share a ring "
                    "(`receiver.share`), or run fewer",
                    plugin->mark.origin, plugin->name, device->limits.domains_max,
                    device->plan.domains);
  return 0;
}

static int count_end(struct session_end *end, struct pst_error *error)
{
  struct session_device *device = end->device;
  const struct pst_limits *limits = &device->limits;
  const char *reason = limits->endpoints_reason;
  const bool is_full =
      ++device->end_count > limits->device_endpoints_max && limits->device_endpoints_max;

  if (++end->lane->end_count <= limits->endpoints_max && !is_full)
    return 0;
  return pst_fail(
      error, PST_EXIT_UNAVAILABLE, -ENOSPC,
      "stream %s: transport %s has at most %u endpoints a %s%s%s%s; %srun fewer streams", end->name,
      device->plugin->name, is_full ? limits->device_endpoints_max : limits->endpoints_max,
      is_full ? "device" : "worker", reason[0] ? " (" : "", reason, reason[0] ? ")" : "",
      is_full ? "" : "raise workers.count, or ");
}

int setup_devices(struct pst_session *session, struct pst_error *error)
{
  uint32_t ends = session->out_count + session->in_count;
  int rc = 0;

  for (uint32_t i = 0; i < ends && rc == 0; i++)
    rc = note_device(session, end_at(session, i), error);
  for (uint32_t i = 0; i < ends && rc == 0; i++)
    plan_end(end_at(session, i));
  for (uint32_t i = 0; i < session->device_count && rc == 0; i++) {
    struct session_device *device = session->devices[i];
    device->plan.workers = count_workers(session, device);
    if (session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER))
      device->plan.flags |= PST_PLAN_IN_PROCESS;
    if (session->config->workers.sleep_after_ns)
      device->plan.flags |= PST_PLAN_SLEEP;
    rc = setup_device(session, device, error);
    if (rc == 0)
      rc = check_shared(device, error);
  }
  for (uint32_t i = 0; i < ends && rc == 0; i++) {
    struct session_end *end = end_at(session, i);
    rc = open_lane(end->thread, end->device, &end->lane, error);
    if (rc == 0)
      rc = count_end(end, error);
  }
  return rc;
}

/* ---- The end ---------------------------------------------------------------------------- */

static void close_thread(struct session_thread *thread)
{
  for (uint32_t i = 0; i < thread->lane_count; i++)
    free(thread->lanes[i]);
  if (thread->epoll_fd >= 0)
    close(thread->epoll_fd);
  if (thread->wake_fd >= 0)
    close(thread->wake_fd);
  pthread_mutex_destroy(&thread->mail_lock);
  free(thread->lanes);
  free(thread->ends);
  free(thread);
}

void setup_close_workers(struct pst_session *session)
{
  for (uint32_t i = 0; i < session->plugin_count; i++)
    loader_defer_drain(session->plugins[i]);
  for (uint32_t t = 0; t < session->thread_count; t++)
    for (uint32_t l = 0; l < session->threads[t]->lane_count; l++) {
      struct session_lane *lane = session->threads[t]->lanes[l];
      for (uint32_t buffer = 1; buffer < SESSION_LENT_MAX; buffer++)
        if (lane->lent[buffer].region)
          lane_forget_lent(lane, buffer);
      lane->ops->worker_close(lane->worker);
    }
}

void setup_close(struct pst_session *session)
{
  for (uint32_t i = 0; i < session->device_count; i++) {
    struct session_device *device = session->devices[i];
    if (device->device)
      device->ops->close(device->device);
    free(device);
  }
  for (uint32_t i = 0; i < session->memory_count; i++) {
    struct session_memory *memory = session->memories[i];
    loader_memory_remove(memory->memory);
    memory->plugin->memory->close(memory->memory);
    free(memory);
  }
  for (uint32_t i = 0; i < session->thread_count; i++)
    close_thread(session->threads[i]);
  free(session->devices);
  free(session->memories);
  free(session->threads);
  free(session->plugins);
}
