/* SPDX-License-Identifier: Apache-2.0 */
/* The command: its environment, its signals, its end. Beside it a thread does what the fabric's
 * faults do at a time. */
#include "launcher.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- environment ---- */

/* As meson installs it, and as it lies in the build. */
static const char *const library_folders[] = {SIMVERBS_LIBRARIES, "."};

static bool run_find_libraries(char folder[PATH_MAX])
{
  char program[PATH_MAX], file[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
  if (length < 0)
    return false;
  program[length] = '\0';
  *strrchr(program, '/') = '\0';
  for (size_t i = 0; i < sizeof(library_folders) / sizeof(library_folders[0]); i++) {
    if (snprintf(file, PATH_MAX, "%s/%s/libibverbs.so.1", program, library_folders[i]) >= PATH_MAX)
      continue;
    if (!access(file, R_OK) && realpath(file, folder)) {
      *strrchr(file, '/') = '\0';
      return realpath(file, folder);
    }
  }
  complain("there is no libibverbs.so.1 in %s/%s nor %s/%s: build or install it again", program,
           library_folders[0], program, library_folders[1]);
  return false;
}

static bool run_set_environment(const struct site *site, const char *host)
{
  char folder[PATH_MAX], *folders;
  if (!run_find_libraries(folder))
    return false;
  const char *before = getenv("LD_LIBRARY_PATH");
  bool has = before && *before;
  if (asprintf(&folders, "%s%s%s", folder, has ? ":" : "", has ? before : "") < 0)
    return false;
  bool set = !setenv("LD_LIBRARY_PATH", folders, 1) &&
             !setenv("PENSTOCK_SIMVERBS_FABRIC", site->path, 1) &&
             /* Processes move each other's bytes, which Landlock forbids. */
             !setenv("PENSTOCK_SANDBOX", "off", 0) &&
             (!host || !setenv("PENSTOCK_SIMVERBS_HOST", host, 1));
  free(folders);
  return set;
}

/* ---- what happens at a time ---- */

static _Atomic bool script_ends;

static void *run_script(void *unused)
{
  while (!atomic_load(&script_ends)) {
    uint32_t seen = atomic_load(&fab->script_bell);
    uint64_t next = fab_script_run();
    uint64_t wait = next ? fab_clock_real_ns(fab, next) : UINT64_MAX;
    struct timespec limit = {.tv_sec = (time_t)(wait / 1000000000),
                             .tv_nsec = (long)(wait % 1000000000)};
    if (wait && !atomic_load(&script_ends))
      syscall(SYS_futex, &fab->script_bell, FUTEX_WAIT, seen, wait == UINT64_MAX ? NULL : &limit,
              NULL, 0);
  }
  return unused;
}

static void run_end_script(pthread_t thread)
{
  atomic_store(&script_ends, true);
  atomic_fetch_add(&fab->script_bell, 1);
  syscall(SYS_futex, &fab->script_bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  pthread_join(thread, NULL);
}

/* ---- the process ---- */

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGWINCH, SIGCONT};

static void run_become(char *const argv[], const sigset_t *mask, pid_t launcher)
{
  /* A command whose launcher was killed would have nobody to end it. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher)
    _exit(LAUNCH_FAILED);
  sigprocmask(SIG_SETMASK, mask, NULL);
  execvp(argv[0], argv);
  int error = errno;
  complain("%s cannot be run: %s", argv[0], strerror(error));
  _exit(error == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_RUN);
}

/* Returns whether a signal was sent to this process alone: one from the terminal reaches the whole
 * process group, the command included. */
static bool run_came_to_us_alone(const siginfo_t *info)
{
  return info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
}

static int run_await(pid_t child, const sigset_t *signals)
{
  for (;;) {
    int status;
    siginfo_t info;
    if (waitpid(child, &status, WNOHANG) == child)
      return status;
    int number = sigwaitinfo(signals, &info);
    if (number > 0 && number != SIGCHLD && run_came_to_us_alone(&info) && info.si_pid != child)
      kill(child, number);
  }
}

int run_command(const struct site *site, const char *host, char *const argv[], int *killed_by)
{
  sigset_t signals, mask;
  pthread_t thread;
  *killed_by = 0;
  if (!run_set_environment(site, host))
    return LAUNCH_FAILED;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
    sigaddset(&signals, passed_on[i]);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &signals, &mask);
  pid_t launcher = getpid(), child = fork();
  if (!child)
    run_become(argv, &mask, launcher);
  if (child < 0 || pthread_create(&thread, NULL, run_script, NULL)) {
    complain("cannot create a process or thread: %s", strerror(errno));
    if (child > 0)
      kill(child, SIGKILL);
    return LAUNCH_FAILED;
  }
  int status = run_await(child, &signals);
  run_end_script(thread);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  if (WIFSIGNALED(status)) {
    *killed_by = WTERMSIG(status);
    return 128 + *killed_by;
  }
  return WEXITSTATUS(status);
}
