/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what goes is still in use: queued work counts until it is done, which the program
 * learns by an event or by waiting for the stream. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

static const char *work_name(const struct fake_job *job)
{
  return job->work == FAKE_KERNEL    ? job->function->name
         : job->work == FAKE_COPY_2D ? "a copy of rows"
         : job->work == FAKE_GATE    ? "a wait for a value"
                                     : "a copy";
}

static void report(const char *call, const char *what, const struct fake_job *job)
{
  fprintf(stderr,
          "fake libcuda: %s of %s that queued work (%s) uses: what then happens is undefined; wait "
          "for an event behind that work first\n",
          call, what, work_name(job));
  abort();
}

struct part {
  uint64_t begin, end;
  bool touched;
};

static void look(void *context, uint64_t address, uint64_t length, bool writes)
{
  struct part *part = context;
  (void)writes;
  part->touched |= length && address < part->end && address + length > part->begin;
}

static bool moves_bytes(const struct fake_job *job)
{
  return job->work != FAKE_MARK && job->work != FAKE_WAIT;
}

/* The mutex is held. After the device is lost nothing is done any more; but what has begun is
 * waited for. */
static bool settled(void)
{
  if (!fake.lost)
    return false;
  for (struct CUstream_st *s = fake.streams; s;)
    if (s->first) {
      pthread_cond_wait(&fake.changed, &fake.mutex);
      s = fake.streams;
    } else {
      s = s->next;
    }
  return true;
}

void fake_check_range(const char *call, uint64_t address, uint64_t length)
{
  char what[64];
  snprintf(what, sizeof(what), "%llu bytes at 0x%llx", (unsigned long long)length,
           (unsigned long long)address);
  pthread_mutex_lock(&fake.mutex);
  if (!settled())
    for (struct CUstream_st *s = fake.streams; s; s = s->next)
      for (const struct fake_job *job = s->first; job; job = job->next) {
        struct part part = {address, address + length, false};
        if (moves_bytes(job))
          fake_job_ranges(job, look, &part);
        if (part.touched)
          report(call, what, job);
      }
  pthread_mutex_unlock(&fake.mutex);
}

void fake_check_module(cuda_module module)
{
  pthread_mutex_lock(&fake.mutex);
  if (!settled())
    for (struct CUstream_st *s = fake.streams; s; s = s->next)
      for (const struct fake_job *job = s->first; job; job = job->next)
        if (job->work == FAKE_KERNEL && job->function->module == module)
          report("cuModuleUnload", "a module", job);
  pthread_mutex_unlock(&fake.mutex);
}
