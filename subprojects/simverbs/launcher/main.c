/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock-simverbs`: its command line. */
#include "launcher.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nearest.h"

static const char help[] =
    "usage: penstock-simverbs [OPTION]... COMMAND [ARGUMENT]...\n"
    "       penstock-simverbs ctl FABRIC ACTION ...    (penstock-simverbs ctl --help)\n"
    "\n"
    "Runs a command, unchanged, on simulated RDMA devices: libibverbs, libmlx5 and librdmacm\n"
    "are those of a fabric in shared memory. Needs no RDMA hardware and no privilege.\n"
    "\n"
    "  --fabric NAME       join the fabric of this name, or make it: launchers in two terminals\n"
    "                      meet on it. Default: the fabric of the launcher around, or a new one\n"
    "                      for this command alone\n"
    "  --fabric FILE.yaml  the fabric that this file describes: hosts, subnets, routers, faults\n"
    "  --own               make a new fabric, even if the one of FILE.yaml exists already\n"
    "  --host NAME         the host that the command runs on (default: the first one described)\n"
    "  --strict            report mistakes that hardware punishes only later: a buffer changed\n"
    "                      while it was posted, objects left at the end\n"
    "  --engine eager      work runs in the call that posts it (default)\n"
    "  --engine deferred   work runs later, on another thread\n"
    "  --clock real|manual|FACTOR\n"
    "                      the clock of all timers: real time (default), time that only `ctl\n"
    "                      FABRIC advance TIME` moves, or FACTOR times as fast as real\n"
    "  --log LEVEL         on stderr: 0 nothing, 1 errors (default), 2 also each loss and its\n"
    "                      cause, 3 also changes of state\n"
    "  --help              print this\n"
    "\n"
    "The last launcher that leaves a fabric removes it. The launcher passes signals on to the\n"
    "command; if the launcher is killed, the command is killed too.\n"
    "\n"
    "Exit status: that of the command, or its signal; 86 if the command succeeded but --strict\n"
    "had something to report; 125 if the launcher failed; 126 if the command cannot be run; 127\n"
    "if there is no such command.\n";

void complain(const char *format, ...)
{
  va_list args;
  fputs("penstock-simverbs: ", stderr);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}

struct launch {
  const char *fabric, *host, *log;
  struct describe_options options;
};

static int main_wrong(const char *what, const char *text, const char *remedy)
{
  complain("%s \"%s\"; %s", what, text, remedy);
  return LAUNCH_FAILED;
}

static int main_take_option(struct launch *launch, int option)
{
  switch (option) {
  case 'f':
    launch->fabric = optarg;
    return 0;
  case 'h':
    launch->host = optarg;
    return 0;
  case 'o':
    launch->options.own = true;
    return 0;
  case 's':
    launch->options.strict = 1;
    return 0;
  case 'e':
    if (strcmp(optarg, "eager") && strcmp(optarg, "deferred"))
      return main_wrong("there is no engine", optarg, "take eager or deferred");
    launch->options.engine = *optarg == 'e' ? FAB_ENGINE_EAGER : FAB_ENGINE_DEFERRED;
    return 0;
  case 'c':
    if (fab_clock_set(NULL, optarg))
      return main_wrong("there is no clock", optarg,
                        "take real, manual, or how many times as fast as real, as in 1000");
    launch->options.clock = optarg;
    return 0;
  case 'l':
    if (strlen(optarg) != 1 || *optarg < '0' || *optarg > '3')
      return main_wrong("there is no log level", optarg, "take 0, 1, 2 or 3");
    launch->log = optarg;
    return 0;
  default:
    complain("see penstock-simverbs --help");
    return LAUNCH_FAILED;
  }
}

static bool main_is_host(const char *host)
{
  const char *names[FAB_HOSTS];
  for (uint32_t i = 0; i < fab->hosts; i++) {
    names[i] = fab->host[i];
    if (!strcmp(names[i], host))
      return true;
  }
  const char *near = nearest_name(host, names, fab->hosts);
  if (near)
    complain("the fabric \"%s\" has no host \"%s\"; did you mean \"%s\"?", fab->name, host, near);
  else
    complain("the fabric \"%s\" has no host \"%s\"; its first is \"%s\"", fab->name, host,
             names[0]);
  return false;
}

/* Ends as the command did. */
static int main_end(int status, int killed_by, uint64_t reports)
{
  if (reports)
    complain("strict mode has reported %llu time%s", (unsigned long long)reports,
             reports == 1 ? "" : "s");
  if (!killed_by)
    return reports && !status ? LAUNCH_STRICT : status;
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(killed_by, SIG_DFL);
  raise(killed_by);
  return status;
}

static int main_launch_command(struct launch *launch, char *const argv[])
{
  struct site site;
  if (launch->log)
    setenv("PENSTOCK_SIMVERBS_LOG", launch->log, 1);
  if (site_enter(launch->fabric, &launch->options, &site)) {
    site_leave(&site);
    return LAUNCH_FAILED;
  }
  int status = LAUNCH_FAILED, killed_by = 0;
  uint64_t reports = 0;
  if (!launch->host || main_is_host(launch->host)) {
    uint64_t before = atomic_load(&fab->counters[FAB_STRICT_REPORTS]);
    status = run_command(&site, launch->host, argv, &killed_by);
    if (fab->strict)
      reports = atomic_load(&fab->counters[FAB_STRICT_REPORTS]) - before;
  }
  site_leave(&site);
  return main_end(status, killed_by, reports);
}

int main(int argc, char *argv[])
{
  static const struct option options[] = {
      {"fabric", required_argument, NULL, 'f'},
      {"host", required_argument, NULL, 'h'},
      {"own", no_argument, NULL, 'o'},
      {"strict", no_argument, NULL, 's'},
      {"engine", required_argument, NULL, 'e'},
      {"clock", required_argument, NULL, 'c'},
      {"log", required_argument, NULL, 'l'},
      {"help", no_argument, NULL, 'H'},
      {NULL, 0, NULL, 0},
  };
  struct launch launch = {.options = {.strict = -1, .engine = -1}};
  if (argc > 1 && !strcmp(argv[1], "ctl"))
    return ctl_main(argc - 1, argv + 1);
  int option;
  while ((option = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
    if (option == 'H')
      return fputs(help, stdout) < 0;
    int status = main_take_option(&launch, option);
    if (status)
      return status;
  }
  if (optind == argc) {
    fputs(help, stderr);
    return LAUNCH_FAILED;
  }
  return main_launch_command(&launch, argv + optind);
}
