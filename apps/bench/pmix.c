/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx, by its library's own calls. */
#include "pmix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_PMIX
#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "signals.h"

#define LIBRARY "libpmix.so.2"
#define KEY "penstock.bench.all-pairs"
#define TEXT_MAX 256
#define LOOK_NS (50 * NS_PER_MS) /* how often a signal is looked for */
#define AGAIN_NS (100 * NS_PER_MS)

struct bench_pmix {
  pmix_status_t (*finalize)(const pmix_info_t *, size_t);
  pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
  pmix_status_t (*commit)(void);
  pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                       pmix_value_t **);
  pmix_status_t (*get_nb)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
                          pmix_value_cbfunc_t, void *);
  pmix_proc_t self;
  pthread_mutex_t lock; /* of what a thread of the library's answers with */
  bool is_answered;
  pmix_status_t status;
  char text[TEXT_MAX];
};

/* A request that has timed out may be answered until the process ends. */
static struct bench_pmix the_job = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool bench_pmix_bind(struct bench_pmix *pmix, void *library,
                            pmix_status_t (**init)(pmix_proc_t *, pmix_info_t *, size_t))
{
  *(void **)init = dlsym(library, "PMIx_Init");
  *(void **)&pmix->finalize = dlsym(library, "PMIx_Finalize");
  *(void **)&pmix->put = dlsym(library, "PMIx_Put");
  *(void **)&pmix->commit = dlsym(library, "PMIx_Commit");
  *(void **)&pmix->get = dlsym(library, "PMIx_Get");
  *(void **)&pmix->get_nb = dlsym(library, "PMIx_Get_nb");
  return *init && pmix->finalize && pmix->put && pmix->commit && pmix->get && pmix->get_nb;
}

static int bench_pmix_job_size(struct bench_pmix *pmix, uint32_t *ranks)
{
  pmix_proc_t job = pmix->self;
  pmix_value_t *value = NULL;
  int rc = -EIO;

  job.rank = PMIX_RANK_WILDCARD;
  if (pmix->get(&job, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS || !value)
    return rc;
  if (value->type == PMIX_UINT32) {
    *ranks = value->data.uint32;
    rc = 0;
  }
  free(value);
  return rc;
}

int bench_pmix_open(struct bench_pmix **pmix, uint32_t *rank, uint32_t *ranks, char *why,
                    size_t size)
{
  pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);

  if (!getenv("PMIX_RANK") || !getenv("PMIX_NAMESPACE")) {
    snprintf(why, size, "no launcher with PMIx has started it");
    return -ENOENT;
  }
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    snprintf(why, size, "%s", dlerror());
    return -EOPNOTSUPP;
  }
  if (!bench_pmix_bind(&the_job, library, &init)) {
    snprintf(why, size, "%s lacks calls of PMIx", LIBRARY);
    return -EOPNOTSUPP;
  }
  const pmix_status_t status = init(&the_job.self, NULL, 0);
  if (status != PMIX_SUCCESS) {
    snprintf(why, size, "PMIx_Init: status %d", status);
    return -EIO;
  }
  if (bench_pmix_job_size(&the_job, ranks) < 0) {
    snprintf(why, size, "PMIx does not say how many ranks there are");
    bench_pmix_close(&the_job);
    return -EIO;
  }
  *rank = the_job.self.rank;
  *pmix = &the_job;
  return 0;
}

int bench_pmix_put(struct bench_pmix *pmix, const char *text)
{
  char copy[TEXT_MAX];
  pmix_value_t value = {.type = PMIX_STRING, .data.string = copy};

  snprintf(copy, sizeof(copy), "%s", text);
  return pmix->put(PMIX_GLOBAL, KEY, &value) == PMIX_SUCCESS && pmix->commit() == PMIX_SUCCESS
             ? 0
             : -EIO;
}

/* On a thread of the library. */
static void bench_pmix_take_answer(pmix_status_t status, pmix_value_t *value, void *context)
{
  struct bench_pmix *pmix = context;

  pthread_mutex_lock(&pmix->lock);
  pmix->status = status;
  if (status == PMIX_SUCCESS && value && value->type == PMIX_STRING)
    snprintf(pmix->text, sizeof(pmix->text), "%s", value->data.string);
  pmix->is_answered = true;
  pthread_mutex_unlock(&pmix->lock);
}

static bool bench_pmix_is_answered(struct bench_pmix *pmix)
{
  pthread_mutex_lock(&pmix->lock);
  const bool answered = pmix->is_answered;
  pthread_mutex_unlock(&pmix->lock);
  return answered;
}

static int bench_pmix_wait(struct bench_pmix *pmix, uint64_t until_ns)
{
  const struct timespec look = {.tv_nsec = LOOK_NS};

  while (!bench_pmix_is_answered(pmix)) {
    if (app_signals_stop())
      return -EINTR;
    if (app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    nanosleep(&look, NULL);
  }
  return 0;
}

int bench_pmix_get(struct bench_pmix *pmix, uint64_t until_ns, char *text, size_t size)
{
  const struct timespec again = {.tv_nsec = AGAIN_NS};
  pmix_proc_t first = pmix->self;

  first.rank = 0;
  for (;;) {
    pmix->is_answered = false;
    pmix->text[0] = '\0';
    if (pmix->get_nb(&first, KEY, NULL, 0, bench_pmix_take_answer, pmix) != PMIX_SUCCESS)
      return -EIO;
    int rc = bench_pmix_wait(pmix, until_ns);
    if (rc < 0)
      return rc;
    if (pmix->text[0] != '\0') {
      snprintf(text, size, "%s", pmix->text);
      return 0;
    }
    /* Rank 0 has not said it yet, to a server that does not wait for it. */
    if (pmix->status != PMIX_ERR_NOT_FOUND)
      return -EIO;
    nanosleep(&again, NULL);
  }
}

void bench_pmix_close(struct bench_pmix *pmix)
{
  if (pmix)
    pmix->finalize(NULL, 0);
}

#else

int bench_pmix_open(struct bench_pmix **pmix, uint32_t *rank, uint32_t *ranks, char *why,
                    size_t size)
{
  (void)pmix, (void)rank, (void)ranks;
  snprintf(why, size, "this program is built without PMIx");
  return getenv("PMIX_RANK") ? -EOPNOTSUPP : -ENOENT;
}

int bench_pmix_put(struct bench_pmix *pmix, const char *text)
{
  (void)pmix, (void)text;
  return -EIO;
}

int bench_pmix_get(struct bench_pmix *pmix, uint64_t until_ns, char *text, size_t size)
{
  (void)pmix, (void)until_ns, (void)text, (void)size;
  return -EIO;
}

void bench_pmix_close(struct bench_pmix *pmix)
{
  (void)pmix;
}
#endif
