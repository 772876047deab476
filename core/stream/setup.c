/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the threads, devices and lanes of a session before its ends; and finds its ends. */
#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/socket.h"

#include "receiver.h"
#include "sender.h"
#include "session.h"

static int setup_out_of_memory(struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the session");
}

struct pst_sender *pst_session_sender(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->sender : NULL;
}

struct pst_receiver *pst_session_receiver(struct pst_session *session, const char *name)
{
  const struct session_stream *stream = session_stream_find(session, name);
  return stream ? stream->receiver : NULL;
}

/* ---- Threads --------------------------------------------------------------------- */

static int setup_open_thread(struct pst_session *session, uint32_t index, struct pst_error *error)
{
  const struct config *config = session->config;
  struct session_thread *thread = aligned_alloc(CACHE_LINE, sizeof(*thread));

  if (!thread || ARRAY_APPEND(session->threads, session->thread_count, thread) < 0) {
    free(thread);
    return setup_out_of_memory(error);
  }
  memset(thread, 0, sizeof(*thread));
  thread->session = session;
  thread->index = index;
  thread->cpu =
      config->threads.cpu_count ? (int)config->threads.cpus[index % config->threads.cpu_count] : -1;
  int rc = engine_thread_open(&thread->base);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc,
                    "no descriptor for thread %u: %s; raise `ulimit -n`", index, strerror(-rc));
  return 0;
}

/* Returns the place of the number of an end's group; a group runs on one thread. Ends that share a
 * ring or slots form a group and, unless the file says how many threads there are, so do both ends
 * of a stream in this process: what one core has just written is in its cache, and a stream costs
 * one core, not two. The numbers begin with 1; 0: none yet. Each stream has two places. */
static uint32_t *setup_group_of(const struct pst_session *session, const struct session_end *end,
                                uint32_t *groups)
{
  const struct session_stream *stream =
      session_stream_find(session, end->share ? end->share : end->name);
  bool together = session->config->threads.count == 0;

  return &groups[2 * (stream - session->streams) + (end->ops->is_second || together)];
}

static uint32_t setup_usable_cores(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static uint32_t setup_number_groups(const struct pst_session *session, uint32_t *groups)
{
  uint32_t count = 0;

  for (uint32_t i = 0; i < session->end_count; i++) {
    uint32_t *group = setup_group_of(session, session->ends[i], groups);
    if (*group == 0)
      *group = ++count;
  }
  return count;
}

static int setup_place_ends(struct pst_session *session, uint32_t *groups, struct pst_error *error)
{

  for (uint32_t i = 0; i < session->end_count; i++) {
    struct session_end *end = session->ends[i];
    uint32_t group = *setup_group_of(session, end, groups);
    end->thread = session->threads[(group - 1) % session->thread_count];
    if (ARRAY_APPEND(end->thread->ends, end->thread->end_count, end) < 0)
      return setup_out_of_memory(error);
  }
  return 0;
}

int setup_threads(struct pst_session *session, struct pst_error *error)
{
  uint32_t *groups = calloc(2 * (size_t)session->config->stream_count, sizeof(*groups));
  uint32_t wanted = session->config->threads.count;
  uint32_t count;
  int rc = 0;

  if (!groups)
    return setup_out_of_memory(error);
  count = setup_number_groups(session, groups);
  if (wanted == 0)
    wanted = setup_usable_cores();
  if (wanted > count)
    wanted = count;
  for (uint32_t i = 0; i < wanted && rc == 0; i++)
    rc = setup_open_thread(session, i, error);
  if (rc == 0)
    rc = setup_place_ends(session, groups, error);
  free(groups);
  return rc;
}

/* ---- Devices ------------------------------------------------------------------------- */

static bool setup_same_transport(const struct config_transport *a, const struct config_transport *b)
{
  const char *differs;

  if (strcmp(a->plugin.name, b->plugin.name) != 0 || a->filter_count != b->filter_count ||
      !options_agree(a->plugin.options, b->plugin.options, PST_SCOPE_DEVICE | PST_SCOPE_STREAM,
                     &differs))
    return false;
  for (uint32_t i = 0; i < a->filter_count; i++)
    if (strcmp(a->filters[i].name, b->filters[i].name) != 0 ||
        !options_agree(a->filters[i].options, b->filters[i].options, ~0u, &differs))
      return false;
  return true;
}

static struct engine_device *setup_device_of(const struct pst_session *session,
                                             const struct config_transport *transport)
{
  for (uint32_t i = 0; i < session->engine.device_count; i++)
    if (setup_same_transport(session->engine.devices[i]->config, transport))
      return session->engine.devices[i];
  return NULL;
}

/* The rings of a device share its link. */
static void setup_size_rings(struct engine_device *device, uint64_t link_bps)
{
  const struct pst_session *session = device->fit_context;

  for (uint32_t i = 0; i < session->config->stream_count; i++) {
    struct pst_receiver *receiver = session->streams[i].receiver;
    if (receiver && receiver->end.device == device)
      receiver_size_ring(receiver, link_bps);
  }
}

static int setup_note_device(struct pst_session *session, struct session_end *end,
                             struct pst_error *error)
{
  end->device = setup_device_of(session, end->transport);
  if (end->device)
    return 0;
  end->device = engine_device_add(&session->engine);
  if (!end->device)
    return setup_out_of_memory(error);
  end->device->config = end->transport;
  end->device->fit_plan = setup_size_rings;
  end->device->fit_context = session;
  return 0;
}

/* A thread with an end on the device is a worker of it. */
static uint32_t setup_count_workers(const struct pst_session *session,
                                    const struct engine_device *device)
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

static void setup_plan_end(const struct session_end *end)
{
  struct pst_plan *plan = &end->device->plan;

  if (end->config->message > plan->message_max)
    plan->message_max = end->config->message;
  plan->pieces = 1;
  end->ops->plan(end, plan);
}

/* Finds the address that `control` listens on, in numbers. "": all addresses, none, or the name is
 * not found, which control reports. */
static void setup_find_local_address(const struct pst_session *session, char text[NI_MAXHOST])
{
  struct socket_addresses found;
  char why[256];

  text[0] = '\0';
  if ((session->roles & PST_SESSION_SENDER) || session->config->control.none ||
      socket_resolve(session->config->control.listen, true, &found, why, sizeof(why)) < 0 ||
      socket_is_any(&found.at[0]))
    return;
  if (getnameinfo((const struct sockaddr *)&found.at[0].storage, found.at[0].length, text,
                  NI_MAXHOST, NULL, 0, NI_NUMERICHOST) != 0)
    text[0] = '\0';
}

/* Checks that streams with `receiver.share` can share a ring. */
static int setup_check_shared(const struct engine_device *device, struct pst_error *error)
{
  const struct config_plugin *plugin = &device->config->plugin;

  if (device->limits.rings_max && device->plan.rings > device->limits.rings_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ENOSPC,
                    "%s: transport %s has at most %u rings a device, the streams have %u; let some "
                    "share one (`receiver.share`), or run fewer",
                    plugin->origin, plugin->name, device->limits.rings_max, device->plan.rings);
  if (device->limits.domains_max && device->plan.domains > device->limits.domains_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ENOSPC,
                    "%s: transport %s has at most %u domains a device, one for each receiver or "
                    "region that peers reach, and the streams have %u; let some share a ring "
                    "(`receiver.share`), or run fewer",
                    plugin->origin, plugin->name, device->limits.domains_max, device->plan.domains);
  return 0;
}

static int setup_check_end(struct session_end *end, struct pst_error *error)
{
  struct engine_device *device = end->device;
  const struct pst_limits *limits = &device->limits;
  const char *reason = limits->endpoints_reason;
  const bool is_full =
      ++device->end_count > limits->device_endpoints_max && limits->device_endpoints_max;

  if (end->config->message > limits->message_max)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EMSGSIZE,
                    "stream %s: message: %lu B is more than transport %s carries in one: %lu B",
                    end->name, end->config->message, device->plugin->name, limits->message_max);
  if (++end->lane->end_count <= limits->endpoints_max && !is_full)
    return 0;
  return pst_fail(
      error, PST_EXIT_UNAVAILABLE, -ENOSPC,
      "stream %s: transport %s has at most %u endpoints a %s%s%s%s; %srun fewer streams", end->name,
      device->plugin->name, is_full ? limits->device_endpoints_max : limits->endpoints_max,
      is_full ? "device" : "worker", reason[0] ? " (" : "", reason, reason[0] ? ")" : "",
      is_full ? "" : "raise threads.count, or ");
}

/* Plans and opens the devices of all ends, each shared where options are equal. On failure the
 * session closes them. */
int setup_devices(struct pst_session *session, struct pst_error *error)
{
  char local[NI_MAXHOST];
  int rc = 0;

  setup_find_local_address(session, local);
  for (uint32_t i = 0; i < session->end_count && rc == 0; i++)
    rc = setup_note_device(session, session->ends[i], error);
  for (uint32_t i = 0; i < session->end_count && rc == 0; i++)
    setup_plan_end(session->ends[i]);
  for (uint32_t i = 0; i < session->engine.device_count && rc == 0; i++) {
    struct engine_device *device = session->engine.devices[i];
    device->plan.workers = setup_count_workers(session, device);
    if (session_has_both(session))
      device->plan.flags |= PST_PLAN_IN_PROCESS;
    if (session->config->threads.sleep_after_ns)
      device->plan.flags |= PST_PLAN_SLEEP;
    rc = engine_device_open(&session->engine, device, local[0] ? local : NULL, error);
    if (rc == 0 && !session->config->control.none)
      rc = engine_device_check_told(device, false, error);
    if (rc == 0)
      rc = setup_check_shared(device, error);
  }
  for (uint32_t i = 0; i < session->end_count && rc == 0; i++) {
    struct session_end *end = session->ends[i];
    rc = lane_open(end->thread, end->device, &end->lane, error);
    if (rc == 0)
      rc = setup_check_end(end, error);
  }
  return rc;
}

/* ---- The end ---------------------------------------------------------------------------- */

static void setup_close_thread(struct session_thread *thread)
{
  for (uint32_t i = 0; i < thread->lane_count; i++)
    free(thread->lanes[i]);
  engine_thread_close(&thread->base);
  free(thread->lanes);
  free(thread->ends);
  free(thread);
}

void setup_close(struct pst_session *session)
{
  engine_close(&session->engine);
  for (uint32_t i = 0; i < session->thread_count; i++)
    setup_close_thread(session->threads[i]);
  free(session->threads);
}
