/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "notice.h"
#include "settings.h"

void bench_stream_name(const struct bench_case *c, bool back, char *name, size_t size)
{
  snprintf(name, size, "bench-%s%s", c->token, back ? "-back" : "");
}

int bench_session_open(const struct bench_side *side, const struct bench_case *c, uint32_t roles,
                       bool back, bool with_back, const char *control, bool insecure,
                       struct pst_session **session, struct pst_error *error)
{
  const struct pst_side_params end = {
      .memory = side->memory,
      .memory_options = side->memory_options,
      .memory_option_count = side->memory_option_count,
  };
  const struct pst_side_params host = {.memory = "host"};
  const struct pst_origins origins = {.struct_size = sizeof origins,
                                      .stream = "bench",
                                      .transport_option = settings_origins.transport_option,
                                      .memory_option = settings_origins.memory_option};
  struct pst_stream_params streams[2];
  const struct pst_stream_params *all[2] = {&streams[0], &streams[1]};
  const struct pst_config_params params = {
      .struct_size = sizeof params,
      .stream_count = with_back ? 2 : 1,
      .streams = all,
      .control = control,
      /* In process each end has a thread of its own. */
      .threads = roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER) ? (with_back ? 4 : 2) : 1,
      .insecure = insecure,
  };
  const struct pst_session_params roles_params = {.struct_size = sizeof roles_params,
                                                  .roles = roles};
  struct pst_config *config = NULL;
  char names[2][64];

  for (int i = 0; i < 2; i++) {
    bench_stream_name(c, i == 1 || back, names[i], sizeof names[i]);
    streams[i] = (struct pst_stream_params){
        .struct_size = sizeof streams[i],
        .ring = c->ring,
        .name = names[i],
        .message = c->size,
        .transport = side->transport,
        .transport_options = side->transport_options,
        .transport_option_count = side->transport_option_count,
        .sender = side->sends_from_host ? host : end,
        .receiver = end,
        .path = side->path,
        .origins = &origins,
    };
  }
  int result = pst_config_open_params(&params, &config, error);
  if (result == 0)
    result = pst_session_open(config, &roles_params, session, error);
  pst_config_close(config);
  return result;
}

void bench_choose_sender(struct bench_side *side)
{
  const struct bench_case c = {.op = BENCH_SEND, .size = 64, .ring = 16, .token = "0"};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;

  if (strcmp(side->memory, "host") == 0)
    return;
  notice_hush(true); /* what else is wrong, the streams will say */
  int result = bench_session_open(side, &c, PST_SESSION_SENDER, false, false, "127.0.0.1:1", false,
                                  &session, &error);
  if (result == 0) {
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    char name[64];
    bench_stream_name(&c, false, name, sizeof name);
    pst_sender_stats(pst_session_sender(session, name), &stats);
    side->sends_from_host = stats.path.path == PST_PATH_STAGED;
  }
  pst_session_close(session);
  notice_hush(false);
}

int bench_pin(int cpu)
{
  cpu_set_t set;

  if (cpu < 0)
    return 0;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  int code = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  if (code != 0)
    notice(PST_LOG_ERROR,
           "bench: --cpu %d: %s; `lscpu` lists those there are, `taskset -p $$` "
           "those allowed",
           cpu, strerror(code));
  return -code;
}

void bench_unpin(int cpu, cpu_set_t *pinned)
{
  cpu_set_t all;

  if (cpu < 0)
    return;
  pthread_getaffinity_np(pthread_self(), sizeof *pinned, pinned);
  memset(&all, 0xff, sizeof all);
  pthread_setaffinity_np(pthread_self(), sizeof all, &all);
}

void bench_repin(int cpu, const cpu_set_t *pinned)
{
  if (cpu >= 0)
    pthread_setaffinity_np(pthread_self(), sizeof *pinned, pinned);
}

int bench_session_start(struct pst_session *session, int cpu, struct pst_error *error)
{
  cpu_set_t pinned;

  bench_unpin(cpu, &pinned);
  int result = pst_session_start(session, error);
  bench_repin(cpu, &pinned);
  return result;
}
