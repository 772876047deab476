/* SPDX-License-Identifier: Apache-2.0 */
/* The FILE of --json from the command's start to its end. */
#include "result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"
#include "log.h"
#include "result.h"
#include "signals.h"
#include "standard_output.h"
#include "util/printable.h"

#define RESULT_MAX (64 << 20) /* bytes; what is longer is no result */
#define FLAGS (ATOMIC_FILE_OVERWRITE | ATOMIC_FILE_LAST | ATOMIC_FILE_WHOLE)
#define INTERRUPTED_SECONDS 1 /* for the result of a command that a second signal ends */

/* The command's own FILE. */
static struct {
  const struct command *command;
  const struct arguments *arguments;
  pid_t process; /* that began it: a child of this process writes no result */
  int interrupted_fd;
  struct atomic_file last; /* the last result's: opened at first, since at the end there may be no
                              descriptor for it, and the sandbox allows no new file */
  int spare;               /* a descriptor for what is looked at before it is replaced; -1: none */
  pthread_mutex_t lock;    /* over what follows, and writing */
  bool is_written;
  int exit_status;                                        /* that was written */
  void (*add)(void *context, struct json_object *result); /* where a signal ends it */
  void *context;
} own = {
    .interrupted_fd = -1, .last = ATOMIC_FILE_INIT, .spare = -1, .lock = PTHREAD_MUTEX_INITIALIZER};

static int result_file_write_all(int fd, const char *text, size_t length)
{
  while (length > 0) {
    ssize_t put = write(fd, text, length);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return -errno;
    text += put;
    length -= (size_t)put;
  }
  return 0;
}

/* A copy, with a question mark for each byte that is not UTF-8, as JSON is (RFC 8259, 8.1): the
 * words of a command line and the names of files may be any bytes. NULL: out of memory. */
static char *result_file_utf8_copy(const char *text, size_t length)
{
  char *copy = malloc(length + 1);
  uint32_t code;

  for (size_t at = 0, n; copy && at < length; at += n) {
    n = pst_utf8_decode(text + at, length - at, &code);
    if (n > 0)
      memcpy(copy + at, text + at, n);
    else
      copy[at] = '?';
    n = n > 0 ? n : 1;
  }
  return copy;
}

/* Whether this is one result, and nothing else: all have these keys from the beginning. */
static bool result_file_is_result_text(const char *text, size_t length)
{
  static const struct {
    const char *key;
    enum json_type type;
  } keys[] = {{"format", json_type_int},
              {"penstock", json_type_string},
              {"command", json_type_string},
              {"ok", json_type_boolean}};
  struct json_tokener *tokener = json_tokener_new();

  if (!tokener)
    return false;
  struct json_object *root = json_tokener_parse_ex(tokener, text, (int)length), *value;
  bool is = true;
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
    is = is && json_object_object_get_ex(root, keys[i].key, &value) &&
         json_object_is_type(value, keys[i].type);
  for (size_t i = json_tokener_get_parse_end(tokener); i < length; i++)
    is = is && strchr(" \t\r\n", text[i]) && text[i] != '\0';
  json_object_put(root);
  json_tokener_free(tokener);
  return is;
}

static bool result_file_is_result(int fd, size_t length)
{
  char *text = length > RESULT_MAX ? NULL : malloc(length);
  ssize_t got = !text ? -1 : pread(fd, text, length, 0);
  bool is = got == (ssize_t)length && result_file_is_result_text(text, length);

  free(text);
  return is;
}

/* Replacing it would lose what is no older result. */
static const char *result_file_holds_other_data(int fd)
{
  struct stat st;

  if (fd < 0)
    return fd == -ENOENT ? NULL : "cannot be read, so it is unknown whether it is a result";
  bool is = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
            (st.st_size == 0 || result_file_is_result(fd, (size_t)st.st_size));

  return is ? NULL : "exists and is not the result of a command";
}

static int result_file_refuse(const char *path, const char *why)
{
  return app_log_fail(NULL, PST_EXIT_USAGE, -EEXIST,
                      "--json: %s %s, and the new result would replace it; name another file", path,
                      why);
}

/* That of the last result is open, once there is a first. */
static int result_file_open(struct atomic_file *output, const char *path, struct pst_error *error)
{
  int code;

  if (own.last.fd < 0)
    return app_atomic_file_open_over(output, "--json", path, FLAGS, result_file_holds_other_data,
                                     error);
  if (own.spare >= 0)
    close(own.spare);
  own.spare = -1;
  *output = own.last;
  own.last = (struct atomic_file)ATOMIC_FILE_INIT;
  code = app_atomic_file_look_again(output, "--json", result_file_holds_other_data, error);
  if (code < 0)
    app_atomic_file_discard(output);
  return code;
}

int app_result_write(struct json_object *result, const char *path, struct pst_error *error)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  size_t length = 0;
  int code, fd = STDOUT_FILENO;

  if (result && own.command && own.command->redact)
    own.command->redact(own.arguments, result);
  const char *json = !result ? NULL
                             : json_object_to_json_string_length(result,
                                                                 JSON_C_TO_STRING_PRETTY |
                                                                     JSON_C_TO_STRING_SPACED |
                                                                     JSON_C_TO_STRING_NOSLASHESCAPE,
                                                                 &length);
  char *text = !json ? NULL : result_file_utf8_copy(json, length);

  if (!text)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "--json: out of memory");
  if (strcmp(path, "-") != 0) {
    code = result_file_open(&output, path, error);
    if (code < 0) {
      free(text);
      return code;
    }
    fd = output.fd;
  }
  code = result_file_write_all(fd, text, length);
  if (code == 0)
    code = result_file_write_all(fd, "\n", 1);
  free(text);
  if (code < 0)
    app_log_fail(error, PST_EXIT_FAILED, code, "--json: cannot write %s: %s",
                 fd == STDOUT_FILENO ? "to standard output" : path,
                 fd == STDOUT_FILENO ? app_standard_output_cause(-code) : strerror(-code));
  else if (fd != STDOUT_FILENO)
    code = app_atomic_file_commit(&output, "--json", error);
  app_atomic_file_discard(&output);
  return code;
}

/* A result without what only the command itself knows. text NULL: what the program said last. */
static int result_file_write_bare(int exit_status, enum finding finding, const char *text)
{
  struct json_object *result = app_result_new(own.command, own.arguments, NULL);

  if (text)
    app_finding_add(app_result_errors(result), finding, NULL, text);
  if (exit_status == SIGNALS_EXIT && own.add)
    own.add(own.context, result);
  if (exit_status >= 0)
    app_result_finish(result, exit_status);
  int code = app_result_write(result, own.arguments->json, NULL);
  json_object_put(result);
  return code;
}

static void result_file_end_now(int number)
{
  (void)number;
  _exit(SIGNALS_EXIT);
}

/* A thread, for a handler may not do it: the second signal ends the program at once, whatever its
 * other threads wait for. */
static void *result_file_write_interrupted(void *unused)
{
  uint64_t count;

  (void)unused;
  while (read(own.interrupted_fd, &count, sizeof(count)) < 0 && errno == EINTR)
    ;
  /* The command may be writing its own result, and to a FIFO that nobody reads. */
  signal(SIGALRM, result_file_end_now);
  alarm(INTERRUPTED_SECONDS);
  pthread_mutex_lock(&own.lock);
  if (own.is_written)
    _exit(own.exit_status);
  result_file_write_bare(SIGNALS_EXIT, FINDING_INTERRUPTED, "ended at once by a second signal");
  _exit(SIGNALS_EXIT);
}

void app_result_interrupted(void (*add)(void *context, struct json_object *result), void *context)
{
  pthread_mutex_lock(&own.lock);
  own.add = add;
  own.context = context;
  pthread_mutex_unlock(&own.lock);
}

int app_result_watch(void)
{
  pthread_t thread;

  if (!own.command)
    return 0;
  own.interrupted_fd = eventfd(0, EFD_CLOEXEC);
  if (own.interrupted_fd < 0)
    return -errno;
  int code = pthread_create(&thread, NULL, result_file_write_interrupted, NULL);
  if (code != 0)
    return -code;
  pthread_setname_np(thread, "pst-json");
  pthread_detach(thread);
  app_signals_last(own.interrupted_fd);
  return 0;
}

int app_result_begin(const struct command *command, const struct arguments *arguments)
{
  struct stat st = {0};
  /* A file that is not regular gets one result, not two; opening a FIFO would wait for its
   * reader. */
  bool is_stream =
      strcmp(arguments->json, "-") == 0 ||
      (stat(arguments->json, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));

  if (is_stream && S_ISBLK(st.st_mode))
    return result_file_refuse(arguments->json, "is a block device");
  if (is_stream && strcmp(arguments->json, "-") != 0 &&
      app_atomic_file_look("--json", arguments->json, NULL) < 0)
    return -EACCES;
  if (!is_stream && command->names_file && command->names_file(arguments, arguments->json))
    return result_file_refuse(arguments->json, "is what the command reads or writes");
  own.command = command;
  own.arguments = arguments;
  own.process = getpid();
  struct atomic_file last = ATOMIC_FILE_INIT;
  int ready = 0, code = is_stream
                            ? 0
                            : app_atomic_file_open_over(&last, "--json", arguments->json, FLAGS,
                                                        result_file_holds_other_data, NULL);
  if (code == 0 && !is_stream)
    code = result_file_write_bare(-1, FINDING_RUNNING,
                                  "the command has not ended: it is running, or it was killed");
  if (code < 0)
    app_atomic_file_discard(&last);
  else
    own.last = last;
  if (code == 0 && !is_stream) {
    own.spare = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ready = own.spare < 0 ? -errno : 0;
  }
  if (code == 0 && ready == 0 && !command->forks && (command->options & OPTION_SANDBOX) == 0)
    ready = app_result_watch();
  if (ready < 0) {
    app_log(PST_LOG_ERROR,
            "--json: cannot prepare to write %s at the end: %s; raise the limits of this process "
            "(ulimit -a: open files, processes, virtual memory)",
            arguments->json, strerror(-ready));
    result_file_write_bare(PST_EXIT_FAILED, FINDING_FAILED, NULL);
    code = -ENOMEM;
  }
  return code;
}

int app_result_conclude(struct json_object *result, const char *path, int exit_status)
{
  int status = app_standard_output_end(exit_status);

  if (status != exit_status)
    app_finding_add(app_result_errors(result), FINDING_OUTPUT, NULL, app_log_last_error());
  app_result_finish(result, status);
  pthread_mutex_lock(&own.lock);
  if (app_result_write(result, path, NULL) < 0)
    status = app_finding_worse(status, PST_EXIT_FAILED);
  own.is_written = true;
  own.exit_status = status;
  pthread_mutex_unlock(&own.lock);
  json_object_put(result);
  return status;
}

int app_result_end(int exit_status)
{
  int code = 0;

  if (!own.command || own.process != getpid())
    return 0;
  pthread_mutex_lock(&own.lock);
  if (!own.is_written)
    code = result_file_write_bare(exit_status, FINDING_FAILED, NULL);
  own.is_written = true;
  own.exit_status = code < 0 ? app_finding_worse(exit_status, PST_EXIT_FAILED) : exit_status;
  pthread_mutex_unlock(&own.lock);
  return code;
}
