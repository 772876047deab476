/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a rank, and the text by which the others find rank 0. */
#include "exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "pmix.h"
#include "signals.h"

#define LOOK_NS (50 * NS_PER_MS)

/* Variables of launchers: rank and number of ranks. The first pair that is set counts. */
static const struct {
  const char *rank, *ranks;
} variables[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"PMI_RANK", "PMI_SIZE"},
    {"PMIX_RANK", NULL},
};

static bool bench_exchange_number(const char *text, uint32_t most, uint32_t *number)
{
  uint64_t read;

  if (!text || app_arguments_count(text, &read) < 0 || read > most)
    return false;
  *number = (uint32_t)read;
  return true;
}

static const char *bench_exchange_variable(bool of_all)
{
  const char *value = NULL;

  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && !value; i++) {
    const char *name = of_all ? variables[i].ranks : variables[i].rank;
    if (name)
      value = getenv(name);
  }
  return value;
}

bool bench_exchange_rank(const struct arguments *arguments, uint32_t *rank)
{
  const char *written = arguments->bench[BENCH_RANK];

  return bench_exchange_number(written ? written : bench_exchange_variable(false),
                               BENCH_RANKS_MAX - 1, rank);
}

/* A job of Slurm's has a file of its own. */
static void bench_exchange_name_file(const char *folder, struct exchange *exchange)
{
  const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");

  snprintf(exchange->path, sizeof(exchange->path), "%s/penstock-all-pairs%s%s%s%s", folder,
           job ? "-" : "", job ? job : "", job && step ? "." : "", job && step ? step : "");
}

static int bench_exchange_open_folder(const struct arguments *arguments, const char *folder,
                                      struct exchange *exchange, struct pst_error *error)
{
  const char *written = arguments->bench[BENCH_RANKS];
  struct stat status;

  if (!bench_exchange_rank(arguments, &exchange->rank) ||
      !bench_exchange_number(written ? written : bench_exchange_variable(true), BENCH_RANKS_MAX,
                             &exchange->ranks))
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "bench: --exchange: the rank of this process is unknown: no launcher sets "
                        "it; give --rank N --ranks M, with N below M and M at most %u",
                        BENCH_RANKS_MAX);
  if (strlen(folder) > sizeof(exchange->path) / 2)
    return app_log_fail(
        error, PST_EXIT_USAGE, -ENAMETOOLONG,
        "bench: --exchange: the path %.60s... is too long; name a folder with a shorter one",
        folder);
  if (stat(folder, &status) < 0 || !S_ISDIR(status.st_mode))
    return app_log_fail(error, PST_EXIT_USAGE, -ENOTDIR,
                        "bench: --exchange %s: there is no such folder; make one that all ranks "
                        "see and only you can write to",
                        folder);
  bench_exchange_name_file(folder, exchange);
  return 0;
}

int bench_exchange_open(const struct arguments *arguments, struct exchange *exchange,
                        struct pst_error *error)
{
  const char *folder = arguments->bench[BENCH_EXCHANGE];
  char why[256];
  int rc = 0;

  *exchange = (struct exchange){.rank = 0};
  if (folder) {
    rc = bench_exchange_open_folder(arguments, folder, exchange, error);
  } else {
    rc = bench_pmix_open(&exchange->pmix, &exchange->rank, &exchange->ranks, why, sizeof(why));
    if (rc < 0)
      return app_log_fail(error, rc == -EOPNOTSUPP ? PST_EXIT_UNAVAILABLE : PST_EXIT_USAGE, rc,
                          "bench: --all-pairs: no key-value exchange: %s; start the ranks by "
                          "mpirun or srun --mpi=pmix, or give --exchange DIR, a folder that "
                          "all of them see",
                          why);
  }
  if (rc == 0 && (exchange->ranks < 2 || exchange->ranks > BENCH_RANKS_MAX ||
                  exchange->rank >= exchange->ranks))
    rc = app_log_fail(
        error, PST_EXIT_USAGE, -EINVAL,
        "bench: --all-pairs: rank %u of %u is not possible; --all-pairs takes 2 to %u ranks",
        exchange->rank, exchange->ranks, BENCH_RANKS_MAX);
  return rc;
}

static int bench_exchange_write(struct exchange *exchange, const char *text)
{
  char temporary[sizeof(exchange->path) + 8];
  const size_t length = strlen(text);
  int rc = 0;

  snprintf(temporary, sizeof(temporary), "%s.new", exchange->path);
  unlink(temporary);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    return -errno;
  if (write(fd, text, length) != (ssize_t)length || fsync(fd) < 0)
    rc = errno != 0 ? -errno : -EIO;
  close(fd);
  if (rc == 0 && rename(temporary, exchange->path) < 0)
    rc = -errno;
  if (rc < 0)
    unlink(temporary);
  return rc;
}

int bench_exchange_put(struct exchange *exchange, const char *text, struct pst_error *error)
{
  int rc =
      exchange->pmix ? bench_pmix_put(exchange->pmix, text) : bench_exchange_write(exchange, text);

  exchange->is_written = rc == 0 && !exchange->pmix;
  if (rc == 0)
    return 0;
  if (exchange->pmix)
    return app_log_fail(
        error, PST_EXIT_FAILED, rc,
        "bench: the launcher's key-value exchange does not take this rank's address");
  return app_log_fail(error, PST_EXIT_FAILED, rc, "bench: %s: %s", exchange->path, strerror(-rc));
}

/* -EAGAIN: there is none yet. A file of another user's is none of this job. */
static int bench_exchange_read(const struct exchange *exchange, char text[EXCHANGE_TEXT_MAX])
{
  struct stat status;
  int fd = open(exchange->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

  if (fd < 0)
    return errno == ENOENT || errno == ESTALE ? -EAGAIN : -errno;
  ssize_t got = -1;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid())
    got = read(fd, text, EXCHANGE_TEXT_MAX - 1);
  else
    errno = EPERM;
  int rc = got < 0 ? -errno : got == 0 ? -EAGAIN : 0;
  close(fd);
  text[got > 0 ? got : 0] = '\0';
  return rc;
}

int bench_exchange_get(struct exchange *exchange, uint64_t until_ns, char text[EXCHANGE_TEXT_MAX],
                       struct pst_error *error)
{
  const struct timespec look = {.tv_nsec = LOOK_NS};
  int rc;

  if (exchange->pmix) {
    rc = bench_pmix_get(exchange->pmix, until_ns, text, EXCHANGE_TEXT_MAX);
    return rc == -EIO
               ? app_log_fail(
                     error, PST_EXIT_FAILED, rc,
                     "bench: the launcher's key-value exchange no longer has rank 0's address")
               : rc;
  }
  while ((rc = bench_exchange_read(exchange, text)) == -EAGAIN) {
    if (app_signals_stop())
      return -EINTR;
    if (app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    nanosleep(&look, NULL);
  }
  if (rc == -EPERM)
    return app_log_fail(
        error, PST_EXIT_FAILED, rc,
        "bench: %s belongs to another user; give a folder that only you can write to",
        exchange->path);
  return rc < 0 ? app_log_fail(error, PST_EXIT_FAILED, rc, "bench: %s: %s", exchange->path,
                               strerror(-rc))
                : 0;
}

void bench_exchange_close(struct exchange *exchange)
{
  if (exchange->is_written)
    unlink(exchange->path);
  bench_pmix_close(exchange->pmix);
  *exchange = (struct exchange){.rank = 0};
}
