/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that a hardware check runs: their lines and counters. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define TEXT_MAX ((size_t)1 << 20) /* of a stream: more than a sweep's JSON */
#define READ_BYTES 16384
#define NOT_STARTED 127

/* ---- Words ----------------------------------------------------------------------------------- */

static void hardware_child_take_word(struct child_words *words, char *word)
{
  if (!word || words->count == CHILD_WORDS) {
    free(word);
    words->is_short = true;
    return;
  }
  words->words[words->count++] = word;
}

void hardware_child_word(struct child_words *words, const char *format, ...)
{
  va_list args;
  char *word;

  va_start(args, format);
  hardware_child_take_word(words, vasprintf(&word, format, args) < 0 ? NULL : word);
  va_end(args);
}

void hardware_child_split(struct child_words *words, const char *text)
{
  while (text && text[0] != '\0') {
    const size_t length = strcspn(text, " ");
    hardware_child_take_word(words, strndup(text, length));
    text += length + (text[length] == ' ');
  }
}

static bool hardware_child_is_plain(const char *word)
{
  return word[0] != '\0' &&
         word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                           "-_=./:,+@%[]")] == '\0';
}

void hardware_child_line(const struct child_words *words, const char *environment, char *line,
                         size_t size)
{
  size_t used = (size_t)snprintf(line, size, "%s", environment ? environment : "");

  for (size_t i = 0; i < words->count && used < size; i++) {
    const char *quote = hardware_child_is_plain(words->words[i]) ? "" : "'";
    used += (size_t)snprintf(line + used, size - used, "%s%s%s%s", used > 0 ? " " : "", quote,
                             words->words[i], quote);
  }
}

void hardware_child_words_free(struct child_words *words)
{
  for (size_t i = 0; i < words->count; i++)
    free(words->words[i]);
  *words = (struct child_words){.count = 0};
}

/* ---- Counters -------------------------------------------------------------------------------- */

#define L1_MISSES                                                                                  \
  (PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_READ << 8 |                                    \
   PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct {
  uint32_t type;
  uint64_t config;
} counters[CHILD_COUNTERS] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HW_CACHE, L1_MISSES},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
};
const char *const hardware_child_counter_names[CHILD_COUNTERS] = {"cycles", "instructions",
                                                                  "l1d_misses", "llc_misses"};

/* From its execve() on, its threads' included, in user space: what kernel.perf_event_paranoid of 2
 * allows to everyone (perf_event_open(2)). */
static int hardware_child_open_counter(size_t i, pid_t pid)
{
  struct perf_event_attr attr = {
      .type = counters[i].type,
      .size = sizeof(attr),
      .config = counters[i].config,
      .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
      .disabled = 1,
      .inherit = 1,
      .enable_on_exec = 1,
      .exclude_kernel = 1,
      .exclude_hv = 1,
  };

  return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void hardware_child_count(struct child *child)
{
  for (size_t i = 0; i < CHILD_COUNTERS; i++)
    child->counter_fds[i] = hardware_child_open_counter(i, child->pid);
}

bool hardware_child_can_count(void)
{
  const int fd = hardware_child_open_counter(0, 0);

  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

void hardware_child_counters(const struct child *child, double values[CHILD_COUNTERS])
{
  for (size_t i = 0; i < CHILD_COUNTERS; i++) {
    uint64_t read_of[3] = {0}; /* value, time enabled, time running */
    const int fd = child->counter_fds[i];
    bool is_read = fd >= 0 && read(fd, read_of, sizeof(read_of)) == sizeof(read_of);
    /* Where there are more counters than the CPU has, each counts a share of the time. */
    values[i] = is_read && read_of[2] > 0
                    ? (double)read_of[0] * ((double)read_of[1] / (double)read_of[2])
                    : -1;
  }
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* A contract that sees cmocka's variables writes its results where hardware-check does not read. */
static bool hardware_child_is_for_cmocka(const char *variable)
{
  return strncmp(variable, "CMOCKA_", strlen("CMOCKA_")) == 0;
}

static char **hardware_child_environment_with(const char *more)
{
  size_t count = 0;

  while (environ[count])
    count++;
  char **made = calloc(count + 2, sizeof(*made));
  if (!made)
    return NULL;
  size_t used = 0;
  const size_t name = more ? strcspn(more, "=") + 1 : 0;
  for (size_t i = 0; i < count; i++)
    if (!hardware_child_is_for_cmocka(environ[i]) &&
        (!more || strncmp(environ[i], more, name) != 0))
      made[used++] = environ[i];
  if (more)
    made[used] = (char *)(uintptr_t)more;
  return made;
}

/* In the child, where another thread of the parent may have held any lock: system calls alone. */
static void hardware_child_become(const struct child_words *words, char *const *environment,
                                  const int fds[2], int go, pid_t parent)
{
  static const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
  char byte;

  for (size_t i = 0; i < sizeof(stopping) / sizeof(stopping[0]); i++)
    signal(stopping[i], SIG_DFL);
  /* The terminal's ^C is the parent's, which passes it on once. */
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
      dup2(nothing, STDIN_FILENO) < 0 || dup2(fds[0], STDOUT_FILENO) < 0 ||
      dup2(fds[1], STDERR_FILENO) < 0)
    _exit(NOT_STARTED);
  while (read(go, &byte, 1) < 0 && errno == EINTR)
    ;
  if (words->is_own)
    execve("/proc/self/exe", words->words, environment);
  else
    execvpe(words->words[0], words->words, environment);
  _exit(NOT_STARTED);
}

static int hardware_child_fork_with(struct child *child, const struct child_words *words,
                                    char *const *environment, const int fds[2], bool is_counted)
{
  const pid_t parent = getpid();
  int go[2];

  if (pipe2(go, O_CLOEXEC) < 0)
    return -errno;
  child->pid = fork();
  const int code = child->pid < 0 ? -errno : 0;
  if (child->pid == 0) {
    close(go[1]);
    hardware_child_become(words, environment, fds, go[0], parent);
  }
  close(go[0]);
  if (code == 0 && is_counted)
    hardware_child_count(child);
  close(go[1]); /* it goes on */
  if (code < 0)
    child->pid = 0;
  return code;
}

int hardware_child_start(struct child *child, const struct child_words *words,
                         const char *environment, bool is_counted)
{
  char **whole = hardware_child_environment_with(environment);
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  int code = !whole || words->is_short || words->count == 0 ? -ENOMEM : 0;

  *child = CHILD_NONE;
  if (code == 0 && (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0))
    code = -errno;
  if (code == 0)
    code = hardware_child_fork_with(child, words, whole, (int[2]){out[1], err[1]}, is_counted);
  free(whole);
  if (out[1] >= 0)
    close(out[1]);
  if (err[1] >= 0)
    close(err[1]);
  child->out.fd = out[0];
  child->err.fd = err[0];
  if (code < 0)
    hardware_child_end(child);
  else {
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
  }
  return code;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Keeps the last part. */
static void hardware_child_keep(struct child_text *text, const char *bytes, size_t length)
{
  if (text->length + length > TEXT_MAX) {
    const size_t half = text->length < TEXT_MAX / 2 ? text->length : TEXT_MAX / 2;
    memmove(text->bytes, text->bytes + text->length - half, half);
    text->length = half;
  }
  char *longer = realloc(text->bytes, text->length + length + 1);
  if (!longer)
    return;
  memcpy(longer + text->length, bytes, length);
  text->bytes = longer;
  text->length += length;
  longer[text->length] = '\0';
}

static void hardware_child_take(struct child_text *text)
{
  char bytes[READ_BYTES];

  while (text->fd >= 0) {
    const ssize_t got = read(text->fd, bytes, sizeof(bytes));
    if (got > 0) {
      hardware_child_keep(text, bytes, (size_t)got);
      continue;
    }
    if (got < 0 && errno == EINTR)
      continue;
    if (got == 0 || errno != EAGAIN) {
      close(text->fd);
      text->fd = -1;
    }
    return;
  }
}

void hardware_child_pump(struct child *child, uint64_t ns)
{
  struct pollfd fds[2] = {{child->out.fd, POLLIN, 0}, {child->err.fd, POLLIN, 0}};

  if (child->has_ended || child->pid == 0)
    return;
  if (child->out.fd >= 0 || child->err.fd >= 0)
    poll(fds, 2, (int)(ns / NS_PER_MS));
  else
    poll(NULL, 0, 1); /* its end follows */
  const bool ended = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
  hardware_child_take(&child->out);
  hardware_child_take(&child->err);
  child->has_ended = ended;
}

void hardware_child_signal(const struct child *child, int number)
{
  if (child->pid > 0 && !child->has_ended)
    kill(child->pid, number);
}

static void hardware_child_free_text(struct child_text *text)
{
  if (text->fd >= 0)
    close(text->fd);
  free(text->bytes);
}

void hardware_child_end(struct child *child)
{
  hardware_child_signal(child, SIGKILL);
  while (child->pid > 0 && !child->has_ended && waitpid(child->pid, &child->status, 0) < 0 &&
         errno == EINTR)
    ;
  hardware_child_free_text(&child->out);
  hardware_child_free_text(&child->err);
  for (size_t i = 0; i < CHILD_COUNTERS; i++)
    if (child->counter_fds[i] >= 0)
      close(child->counter_fds[i]);
  *child = CHILD_NONE;
}

void hardware_child_how_ended(const struct child *child, char *text, size_t size)
{
  if (!child->has_ended)
    snprintf(text, size, "still running");
  else if (WIFSIGNALED(child->status))
    snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(child->status),
             strsignal(WTERMSIG(child->status)));
  else if (WEXITSTATUS(child->status) == NOT_STARTED)
    snprintf(text, size, "it could not be started");
  else
    snprintf(text, size, "status %d", WEXITSTATUS(child->status));
}

const char *hardware_child_error_in(const char *line)
{
  static const char *const starts[] = {"penstock: error: ", "[  ERROR   ] --- "};

  for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
    if (strncmp(line, starts[i], strlen(starts[i])) == 0)
      return line + strlen(starts[i]);
  return NULL;
}

bool hardware_child_has_said(const struct child *child, const char *start, const char *words)
{
  for (const char *at = child->err.bytes; at && at[0] != '\0'; at += at[0] == '\n') {
    const char *found =
        strncmp(at, start, strlen(start)) == 0 ? strstr(at + strlen(start), words) : NULL;
    at += strcspn(at, "\n");
    if (found && found < at)
      return true;
  }
  return false;
}

void hardware_child_last_error(const struct child *child, char *text, size_t size)
{
  const char *last = "";
  bool is_error = false;

  for (const char *at = child->err.bytes; at && at[0] != '\0';
       at += strcspn(at, "\n"), at += at[0] == '\n') {
    const char *error = hardware_child_error_in(at);
    if (error || !is_error)
      last = error ? error : at;
    is_error |= error != NULL;
  }
  snprintf(text, size, "%.*s", (int)strcspn(last, "\n"), last);
}

int hardware_child_exit_status(const struct child *child)
{
  return child->has_ended && WIFEXITED(child->status) ? WEXITSTATUS(child->status) : -1;
}
