/* SPDX-License-Identifier: Apache-2.0 */
/* penstock-simverbs: runs a program on the simulated device. */
#include "launcher.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_STRICT = 86, STATUS_USAGE = 2, STATUS_NOT_RUN = 127 };

static const char usage_text[] =
    "usage: penstock-simverbs [OPTIONS] COMMAND [ARGUMENT...]\n"
    "       penstock-simverbs ctl FABRIC VERB [ARGUMENT...]     (see `ctl FABRIC help`)\n"
    "       penstock-simverbs rm FABRIC\n"
    "Runs COMMAND with a simulated RDMA device in place of libibverbs and libmlx5.\n"
    "  --fabric NAME        join this fabric, making it if it is not there; without it,\n"
    "                       the command has a fabric of its own, which goes with it\n"
    "  --description FILE   what a new fabric is made of (YAML); default: one host with\n"
    "                       mlx5_0 (RoCE) and mlx5_1 (InfiniBand)\n"
    "  --host NAME          the host of the fabric to be on (default: its first)\n"
    "  --strict             report what hardware leaves undefined; exit status 86 if the\n"
    "                       command itself succeeds\n";

struct options {
  const char *fabric, *description, *host;
  bool strict;
};

void launcher_path(const char *name, char *path, size_t size)
{
  if (strchr(name, '/')) {
    snprintf(path, size, "%s", name);
    return;
  }
  const char *folder = "/dev/shm";
  if (access(folder, W_OK))
    folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  snprintf(path, size, "%s/penstock-simverbs.%u.%s", folder, getuid(), name);
}

static int describe(struct fabric *f, void *argument)
{
  const struct options *options = argument;
  int error = 0;
  if (options->description)
    error = launcher_describe(f, options->description);
  else
    fab_describe_default(f);
  if (options->strict)
    f->strict = 1;
  return error;
}

/* The folder of the libraries: beside this program in a build, in lib/ where it is installed. */
static int set_library_path(void)
{
  char self[PATH_MAX], folder[PATH_MAX + 64], all[3 * PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
  if (n < 0)
    return errno;
  self[n] = '\0';
  *strrchr(self, '/') = '\0';
  snprintf(folder, sizeof(folder), "%s/libibverbs.so.1", self);
  if (!access(folder, R_OK))
    snprintf(folder, sizeof(folder), "%s", self);
  else
    snprintf(folder, sizeof(folder), "%s/" SIMVERBS_LIBRARIES, self);
  const char *old = getenv("LD_LIBRARY_PATH");
  snprintf(all, sizeof(all), "%s%s%s", folder, old && *old ? ":" : "", old ? old : "");
  return setenv("LD_LIBRARY_PATH", all, 1) ? errno : 0;
}

static volatile sig_atomic_t child;

static void pass_on(int number)
{
  if (child > 0)
    kill(child, number);
}

static int run(char **command)
{
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, &action, NULL);
  /* From a terminal the command gets these itself. */
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  child = fork();
  if (child < 0) {
    fprintf(stderr, "penstock-simverbs: fork: %s\n", strerror(errno));
    return STATUS_NOT_RUN;
  }
  if (!child) {
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(command[0], command);
    fprintf(stderr, "penstock-simverbs: %s: %s\n", command[0], strerror(errno));
    _exit(STATUS_NOT_RUN);
  }
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int make_or_join(const char *path, struct options *options)
{
  int error = fab_create(path, describe, options);
  if (error == EEXIST && options->fabric) {
    if (options->description)
      fprintf(stderr, "penstock-simverbs: %s is there already: --description is not read\n",
              options->fabric);
    error = 0;
    /* Whoever makes it may not be through. */
    for (int tries = 0; (error = fab_open(path)) == EPROTO && tries < 1000; tries++)
      usleep(1000);
  }
  if (error)
    fprintf(stderr, "penstock-simverbs: the fabric %s: %s%s\n", path, strerror(error),
            error == EPROTO ? " (made by another version? remove it: penstock-simverbs rm)" : "");
  return error;
}

static int parse(int argc, char **argv, struct options *options)
{
  static const struct option known[] = {
      {"fabric", required_argument, NULL, 'f'}, {"description", required_argument, NULL, 'd'},
      {"host", required_argument, NULL, 'h'},   {"strict", no_argument, NULL, 's'},
      {"help", no_argument, NULL, 'H'},         {NULL, 0, NULL, 0}};
  int c;
  while ((c = getopt_long(argc, argv, "+", known, NULL)) != -1) {
    switch (c) {
    case 'f':
      options->fabric = optarg;
      break;
    case 'd':
      options->description = optarg;
      break;
    case 'h':
      options->host = optarg;
      break;
    case 's':
      options->strict = true;
      break;
    case 'H':
      fputs(usage_text, stdout);
      exit(0);
    default:
      return STATUS_USAGE;
    }
  }
  if (optind < argc)
    return 0;
  fputs(usage_text, stderr);
  return STATUS_USAGE;
}

int main(int argc, char **argv)
{
  char path[PATH_MAX], own[32];
  if (argc > 2 && !strcmp(argv[1], "ctl"))
    return launcher_ctl(argc - 2, argv + 2);
  if (argc == 3 && !strcmp(argv[1], "rm")) {
    launcher_path(argv[2], path, sizeof(path));
    if (!unlink(path))
      return 0;
    fprintf(stderr, "penstock-simverbs: %s: %s\n", path, strerror(errno));
    return 1;
  }
  struct options options = {0};
  int status = parse(argc, argv, &options);
  if (status)
    return status;
  snprintf(own, sizeof(own), "own.%d", getpid());
  launcher_path(options.fabric ? options.fabric : own, path, sizeof(path));
  if (make_or_join(path, &options))
    return STATUS_NOT_RUN;
  setenv("PENSTOCK_SIMVERBS_FABRIC", path, 1);
  if (options.host)
    setenv("PENSTOCK_SIMVERBS_HOST", options.host, 1);
  int error = set_library_path();
  if (error) {
    fprintf(stderr, "penstock-simverbs: %s\n", strerror(error));
    return STATUS_NOT_RUN;
  }
  uint64_t reports = atomic_load(&fab->counters[FAB_STRICT_REPORTS]);
  status = run(argv + optind);
  reports = atomic_load(&fab->counters[FAB_STRICT_REPORTS]) - reports;
  if (!options.fabric)
    unlink(path);
  return !status && reports ? STATUS_STRICT : status;
}
