/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and its like: the first ends in order, the second at once. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static atomic_int received, number;
static _Atomic(struct pst_session *) woken;
static atomic_int event = -1;
static atomic_int last = -1;
static _Atomic pid_t last_process;

static void signals_handle(int signal)
{
  int code = errno;
  uint64_t one = 1;

  /* A terminal that goes sends SIGHUP, its shell another: no more is asked for by the second. */
  if (signal == SIGHUP && atomic_load(&received) > 0)
    return;
  if (atomic_load(&number) == 0)
    atomic_store(&number, signal);
  int before = atomic_fetch_add(&received, 1), fd = atomic_load(&last);
  if (before == 1 && fd >= 0 && atomic_load(&last_process) == getpid() &&
      write(fd, &one, sizeof(one)) == sizeof(one)) {
    errno = code;
    return;
  }
  if (before > 0)
    _exit(SIGNALS_EXIT);
  struct pst_session *session = atomic_load(&woken);
  if (session)
    pst_session_wake(session);
  ssize_t written = write(atomic_load(&event), &one, sizeof(one));
  (void)written; /* an event counter that is full wakes all the same */
  errno = code;
}

/* Takes SIGHUP, unless it is ignored: a program that was started to outlive its terminal (nohup(1))
 * ignores it. */
static int signals_take_hangup(const struct sigaction *ours)
{
  struct sigaction before;

  if (sigaction(SIGHUP, NULL, &before) < 0)
    return -errno;
  if (before.sa_handler == SIG_IGN)
    return 0;
  return sigaction(SIGHUP, ours, NULL) < 0 ? -errno : 0;
}

int app_signals_open(int event_fd)
{
  /* Without SA_RESTART, so that waiting for the reader of a FIFO ends too. */
  struct sigaction ours = {.sa_handler = signals_handle}, ignore = {.sa_handler = SIG_IGN};

  atomic_store(&event, event_fd);
  sigemptyset(&ours.sa_mask);
  sigemptyset(&ignore.sa_mask);
  if (sigaction(SIGINT, &ours, NULL) < 0 || sigaction(SIGTERM, &ours, NULL) < 0 ||
      sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGXFSZ, &ignore, NULL) < 0)
    return -errno;
  int code = signals_take_hangup(&ours);
  if (code < 0)
    return code;
  uint64_t one = 1;
  if (app_signals_stop() && event_fd >= 0 && write(event_fd, &one, sizeof(one)) < 0)
    return -errno;
  return 0;
}

void app_signals_last(int event_fd)
{
  atomic_store(&last_process, getpid());
  atomic_store(&last, event_fd);
}

void app_signals_session(struct pst_session *session)
{
  atomic_store(&woken, session);
}

const char *app_signals_name(void)
{
  const int first = atomic_load(&number);
  return first == SIGTERM ? "SIGTERM" : first == SIGHUP ? "SIGHUP" : "SIGINT";
}

bool app_signals_stop(void)
{
  return atomic_load(&received) > 0;
}
