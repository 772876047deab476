/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of a benchmark's streams, and the CPUs of their threads. */
#include "sessions.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "pin.h"

#define NAME_BYTES 64

const struct pst_origins bench_origins = {.struct_size = sizeof(bench_origins),
                                          .stream = "bench",
                                          .transport_option = "--transport-option",
                                          .memory_option = "--memory-option",
                                          .insecure = "--insecure"};

static const char *bench_sessions_stream_name(const struct bench_case *c, unsigned direction,
                                              char name[NAME_BYTES])
{
  snprintf(name, NAME_BYTES, "bench-%s%s", c->token, direction == BENCH_BACK ? "-back" : "");
  return name;
}

struct pst_sender *bench_sender(struct pst_session *session, const struct bench_case *c,
                                unsigned direction)
{
  char name[NAME_BYTES];
  return pst_session_sender(session, bench_sessions_stream_name(c, direction, name));
}

struct pst_receiver *bench_receiver(struct pst_session *session, const struct bench_case *c,
                                    unsigned direction)
{
  char name[NAME_BYTES];
  return pst_session_receiver(session, bench_sessions_stream_name(c, direction, name));
}

int bench_session_open(const struct bench_side *side, const struct bench_case *c, uint32_t roles,
                       unsigned directions, const char *control, const struct link_access *access,
                       struct pst_session **session, struct pst_error *error)
{
  const struct pst_side_params end = {
      .memory = side->memory,
      .memory_options = side->memory_options,
      .memory_option_count = side->memory_option_count,
  };
  const struct pst_side_params host = {.memory = "host"};
  const uint32_t count = directions == (BENCH_OUT | BENCH_BACK) ? 2 : 1;
  struct pst_stream_params streams[2];
  const struct pst_stream_params *all[2] = {&streams[0], &streams[1]};
  const struct pst_config_params params = {
      .struct_size = sizeof(params),
      .stream_count = count,
      .streams = all,
      .control = control,
      /* In process each end has a thread of its own. */
      .threads = roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER) ? 2 * count : 1,
      .insecure = access && access->insecure,
      .tls = access ? access->tls : NULL,
  };
  const struct pst_session_params roles_params = {.struct_size = sizeof(roles_params),
                                                  .roles = roles};
  struct pst_config *config = NULL;
  char names[2][NAME_BYTES];

  for (uint32_t i = 0; i < count; i++) {
    streams[i] = (struct pst_stream_params){
        .struct_size = sizeof(streams[i]),
        .ring = c->ring,
        .name = bench_sessions_stream_name(c, count == 2 ? 1u << i : directions, names[i]),
        .message = c->size,
        .transport = side->transport,
        .transport_options = side->transport_options,
        .transport_option_count = side->transport_option_count,
        .sender = side->sends_from_host ? host : end,
        .receiver = end,
        .path = side->path,
        .origins = &bench_origins,
    };
  }
  int rc = pst_config_open_params(&params, &config, error);
  if (rc == 0)
    rc = pst_session_open(config, &roles_params, session, error);
  pst_config_close(config);
  return rc;
}

void bench_choose_sender(struct bench_plan *plan)
{
  struct bench_side *side = &plan->side;
  struct bench_case c = {.op = BENCH_SEND, .ring = 2, .token = "0"};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;

  if (strcmp(side->memory, "host") == 0)
    return;
  for (uint32_t i = 0; i < plan->size_count; i++)
    if (plan->sizes[i] > c.size)
      c.size = plan->sizes[i];
  app_log_hush(true); /* what else is wrong, the streams will say */
  int rc = bench_session_open(side, &c, PST_SESSION_SENDER, BENCH_OUT, "127.0.0.1:1", NULL,
                              &session, &error);
  if (rc == 0) {
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    pst_sender_stats(bench_sender(session, &c, BENCH_OUT), &stats);
    side->sends_from_host = stats.path.path == PST_PATH_STAGED;
  }
  pst_session_close(session);
  app_log_hush(false);
}

int bench_pin(int cpu)
{
  int rc = pin_thread(cpu);

  if (rc < 0)
    app_log(PST_LOG_ERROR,
            "bench: --cpu %d: %s; `lscpu` lists the CPUs, `taskset -p $$` "
            "those that are allowed",
            cpu, strerror(-rc));
  return rc;
}

void bench_unpin(int cpu, cpu_set_t *pinned)
{
  cpu_set_t all;

  if (cpu < 0)
    return;
  pthread_getaffinity_np(pthread_self(), sizeof(*pinned), pinned);
  memset(&all, 0xff, sizeof(all));
  pthread_setaffinity_np(pthread_self(), sizeof(all), &all);
}

void bench_repin(int cpu, const cpu_set_t *pinned)
{
  if (cpu >= 0)
    pthread_setaffinity_np(pthread_self(), sizeof(*pinned), pinned);
}

int bench_streams_open(const struct bench_plan *plan, const struct bench_case *c, uint32_t roles,
                       unsigned directions, const char *host, uint16_t port, int cpu,
                       struct pst_session **session, struct pst_error *error)
{
  char control[96];
  cpu_set_t pinned;

  snprintf(control, sizeof(control), "%s:%u", host ? host : "", port);
  int rc = bench_session_open(&plan->side, c, roles, directions, host ? control : NULL,
                              host ? &plan->access : NULL, session, error);
  if (rc < 0)
    return rc;
  bench_unpin(cpu, &pinned);
  rc = pst_session_start(*session, error);
  bench_repin(cpu, &pinned);
  return rc;
}
