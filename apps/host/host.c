/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine's facts, and remembers them. */
#include "host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cache.h"
#include "sources.h"

#define FILE_MOST (8u << 20)         /* of one file */
#define REMEMBERED_MOST (256u << 20) /* of all answers */

struct host {
  char *root;
  bool is_live;
  int folder;
  void *answers;              /* tsearch(3) */
  size_t remembered;          /* bytes of the answers */
  struct json_object *denied; /* of a recording: paths that only root could read */
};

/* ---- Opening below the root -------------------------------------------------------------------
 */

static int host_open_at(const struct host *host, const char *path, int flags)
{
  /* openat2(2) refuses flags that O_PATH has no use for. */
  const int more = flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  struct open_how how = {.flags = (uint64_t)(flags | more),
                         .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

  if (host->is_live)
    return openat(host->folder, path, flags | more);
  return (int)syscall(SYS_openat2, host->folder, path, &how, sizeof(how));
}

/* Opens the folder that the last part of `path` is in, and sets *last to that part. */
static int host_open_parent(const struct host *host, const char *path, const char **last)
{
  const char *slash = strrchr(path, '/');
  char parent[HOST_PATH_BYTES];

  *last = slash ? slash + 1 : path;
  snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  return host_open_at(host, parent, O_PATH | O_DIRECTORY);
}

static int host_read_file(const struct host *host, struct host_answer *answer)
{
  const int fd = host_open_at(host, answer->path, O_RDONLY);
  size_t room = 4096;
  ssize_t got = 0;

  if (fd < 0)
    return errno;
  if (!(answer->bytes = malloc(room + 1))) {
    close(fd);
    return ENOMEM;
  }
  while ((got = read(fd, answer->bytes + answer->length, room - answer->length)) > 0) {
    answer->length += (size_t)got;
    if (answer->length == room && room < FILE_MOST) {
      char *longer = realloc(answer->bytes, 2 * room + 1);
      if (!longer)
        break;
      answer->bytes = longer;
      room *= 2;
    }
  }
  const int error = got < 0 ? errno : answer->length >= FILE_MOST ? EFBIG : 0;
  close(fd);
  answer->bytes[answer->length] = '\0';
  return error;
}

static int host_read_link(const struct host *host, struct host_answer *answer)
{
  const char *last;
  const int fd = host_open_parent(host, answer->path, &last);

  if (fd < 0)
    return errno;
  if (!(answer->bytes = calloc(1, HOST_PATH_BYTES))) {
    close(fd);
    return ENOMEM;
  }
  const ssize_t got = readlinkat(fd, last, answer->bytes, HOST_PATH_BYTES - 1);
  const int error = got < 0 ? errno : 0;
  close(fd);
  answer->length = got < 0 ? 0 : (size_t)got;
  return error;
}

static int host_compare_names(const void *a, const void *b)
{
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

static int host_read_list(const struct host *host, struct host_answer *answer)
{
  const int fd = host_open_at(host, answer->path, O_RDONLY | O_DIRECTORY);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  struct host_names *names = &answer->names;

  if (!folder) {
    const int error = errno;
    if (fd >= 0)
      close(fd);
    return error;
  }
  for (const struct dirent *one; (one = readdir(folder)) != NULL;) {
    if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
      continue;
    char **longer = reallocarray(names->names, names->count + 1, sizeof(*longer));
    if (!longer)
      break;
    names->names = longer;
    if (!(names->names[names->count] = strdup(one->d_name)))
      break;
    names->count++;
  }
  closedir(folder);
  if (names->count > 0)
    qsort(names->names, names->count, sizeof(*names->names), host_compare_names);
  return 0;
}

static int host_look_for(const struct host *host, struct host_answer *answer)
{
  const int fd = host_open_at(host, answer->path, O_PATH);

  if (fd < 0)
    return errno;
  close(fd);
  return 0;
}

/* ---- Facts that are no files ------------------------------------------------------------------
 */

/* Asks this machine, or reads the recording's file. */
static int host_ask_facts(const struct host *host, struct host_answer *answer)
{
  struct host_answer file = {.path = answer->path};

  if (host->is_live) {
    for (size_t i = 0; i < host_source_count; i++)
      if (strcmp(host_sources[i].name, answer->path) == 0)
        return (answer->facts = host_sources[i].ask(answer->why)) ? 0 : ENODATA;
    snprintf(answer->why, sizeof(answer->why), "this build cannot ask for them");
    return ENODATA;
  }
  char path[HOST_PATH_BYTES];
  snprintf(path, sizeof(path), "penstock/%s.json", answer->path);
  file.path = path;
  const int error = host_read_file(host, &file);
  if (error == 0)
    answer->facts = json_tokener_parse(file.bytes);
  free(file.bytes);
  if (answer->facts && json_object_is_type(answer->facts, json_type_object)) {
    struct json_object *why;
    if (!json_object_object_get_ex(answer->facts, "unavailable", &why))
      return 0;
    snprintf(answer->why, sizeof(answer->why), "%s",
             json_object_is_type(why, json_type_string) ? json_object_get_string(why)
                                                        : "the recording does not say why");
    json_object_put(answer->facts);
    answer->facts = NULL;
    return ENODATA;
  }
  json_object_put(answer->facts);
  answer->facts = NULL;
  snprintf(answer->why, sizeof(answer->why), "the recording's %.120s %.100s", path,
           error ? strerror(error) : "is not a JSON object");
  return ENODATA;
}

/* ---- Remembering ------------------------------------------------------------------------------
 */

static int host_compare_answers(const void *a, const void *b)
{
  const struct host_answer *one = a, *other = b;

  return one->kind != other->kind ? (int)one->kind - (int)other->kind
                                  : strcmp(one->path, other->path);
}

static bool host_is_denied(const struct host *host, const char *path)
{
  struct json_object *all = NULL;

  if (!json_object_object_get_ex(host->denied, "paths", &all) ||
      !json_object_is_type(all, json_type_array))
    return false;
  for (size_t i = 0; i < json_object_array_length(all); i++) {
    struct json_object *one = json_object_array_get_idx(all, i);
    if (json_object_is_type(one, json_type_string) &&
        strcmp(json_object_get_string(one), path) == 0)
      return true;
  }
  return false;
}

static int host_read(const struct host *host, struct host_answer *answer)
{
  if (answer->kind != HOST_FACTS && host_is_denied(host, answer->path))
    return EACCES;
  switch (answer->kind) {
  case HOST_FILE:
    return host_read_file(host, answer);
  case HOST_LINK:
    return host_read_link(host, answer);
  case HOST_LIST:
    return host_read_list(host, answer);
  case HOST_EXISTS:
    return host_look_for(host, answer);
  case HOST_FACTS:
    return host_ask_facts(host, answer);
  }
  return EINVAL;
}

/* Frees what was read; the path stays. */
static void host_empty_answer(struct host_answer *answer)
{
  for (size_t i = 0; i < answer->names.count; i++)
    free(answer->names.names[i]);
  free(answer->names.names);
  answer->names = (struct host_names){0};
  json_object_put(answer->facts);
  answer->facts = NULL;
  free(answer->bytes);
  answer->bytes = NULL;
  answer->length = 0;
}

static void host_free_answer(void *at)
{
  struct host_answer *answer = at;

  host_empty_answer(answer);
  free(answer->path);
  free(answer);
}

/* Counts what an answer takes; one that is too much for all of them is empty, and an error. */
static void host_count_answer(struct host *host, struct host_answer *answer)
{
  size_t bytes = answer->length;

  for (size_t i = 0; i < answer->names.count; i++)
    bytes += sizeof(char *) + strlen(answer->names.names[i]) + 1;
  if (bytes > REMEMBERED_MOST - host->remembered) {
    host_empty_answer(answer);
    answer->error = EFBIG;
    return;
  }
  host->remembered += bytes;
}

/* The answer of a path, read now or before. NULL: out of memory. */
static struct host_answer *host_answer_of(struct host *host, enum host_kind kind, const char *path)
{
  struct host_answer wanted = {.kind = kind, .path = (char *)(uintptr_t)path};
  struct host_answer *const *found = tfind(&wanted, &host->answers, host_compare_answers);

  if (found)
    return *found;
  struct host_answer *answer = calloc(1, sizeof(*answer));
  if (!answer || !(answer->path = strdup(path))) {
    free(answer);
    return NULL;
  }
  answer->kind = kind;
  answer->error = host_read(host, answer);
  host_count_answer(host, answer);
  if (!tsearch(answer, &host->answers, host_compare_answers)) {
    host_free_answer(answer);
    return NULL;
  }
  return answer;
}

static struct host_answer *host_answer_to(struct host *host, enum host_kind kind,
                                          const char *format, va_list args)
{
  char path[HOST_PATH_BYTES];

  if (vsnprintf(path, sizeof(path), format, args) >= (int)sizeof(path)) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  struct host_answer *answer = host_answer_of(host, kind, path);
  errno = answer ? answer->error : ENOMEM;
  return answer;
}

struct host_walk {
  void (*each)(const struct host_answer *answer, void *to);
  void *to;
};

static void host_walk_one(const void *node, VISIT visit, void *closure)
{
  const struct host_walk *walk = closure;

  if (visit == postorder || visit == leaf)
    walk->each(*(struct host_answer *const *)node, walk->to);
}

void host_each_answer(struct host *host, void (*each)(const struct host_answer *answer, void *to),
                      void *to)
{
  struct host_walk walk = {each, to};

  twalk_r(host->answers, host_walk_one, &walk);
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

#define HOST_ANSWER(answer, kind)                                                                  \
  va_list args;                                                                                    \
  va_start(args, format);                                                                          \
  struct host_answer *answer = host_answer_to(host, kind, format, args);                           \
  va_end(args)

const char *host_text(struct host *host, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_FILE);
  if (!answer || answer->error)
    return NULL;
  size_t end = strlen(answer->bytes);
  /* Bytes behind a '\0' are no text, and stay as they are. */
  while (end > 0 && end == answer->length && isspace((unsigned char)answer->bytes[end - 1]))
    answer->bytes[--end] = '\0', answer->length--;
  return answer->bytes;
}

const void *host_bytes(struct host *host, size_t *length, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_FILE);
  *length = answer && !answer->error ? answer->length : 0;
  return answer && !answer->error ? answer->bytes : NULL;
}

bool host_number(struct host *host, int64_t *value, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_FILE);
  char *end;

  if (!answer || answer->error)
    return false;
  errno = 0;
  const int64_t number = strtoll(answer->bytes, &end, 0);
  if (end == answer->bytes || errno != 0)
    return false;
  *value = number;
  return true;
}

bool host_has(struct host *host, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_EXISTS);
  return answer && answer->error == 0;
}

const char *host_link(struct host *host, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_LINK);
  return answer && !answer->error ? answer->bytes : NULL;
}

const char *host_link_name(struct host *host, const char *format, ...)
{
  HOST_ANSWER(answer, HOST_LINK);
  if (!answer || answer->error)
    return NULL;
  const char *slash = strrchr(answer->bytes, '/');
  return slash ? slash + 1 : answer->bytes;
}

const struct host_names *host_list(struct host *host, const char *format, ...)
{
  static const struct host_names none;
  HOST_ANSWER(answer, HOST_LIST);
  return answer ? &answer->names : &none;
}

bool host_field(struct host *host, const char *path, const char *key, char *value, size_t size)
{
  const char *text = host_text(host, "%s", path);
  const size_t length = strlen(key);

  for (const char *line = text; line != NULL;
       line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    if (strncmp(line, key, length) != 0 ||
        (line[length] != ':' && !isblank((unsigned char)line[length])))
      continue;
    line += length;
    line += strspn(line, ": \t");
    snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
    return true;
  }
  return false;
}

bool host_has_module(struct host *host, const char *module)
{
  char name[64];

  snprintf(name, sizeof(name), "%s", module);
  for (char *c = name; *c != '\0'; c++)
    if (*c == '-')
      *c = '_';
  return host_has(host, "sys/module/%s", name);
}

bool host_kernel_is(struct host *host, unsigned major, unsigned minor)
{
  const char *release = host_text(host, "proc/sys/kernel/osrelease");
  unsigned a, b;

  return release && sscanf(release, "%u.%u", &a, &b) == 2 &&
         (a > major || (a == major && b >= minor));
}

const char *host_boot_parameter(struct host *host, const char *name)
{
  static _Thread_local char value[256];
  const char *line = host_text(host, "proc/cmdline");
  const size_t length = strlen(name);
  bool found = false;

  while (line && *line != '\0') {
    const size_t word = strcspn(line, " \n");
    if (strncmp(line, name, length) == 0 && (word == length || line[length] == '=')) {
      snprintf(value, sizeof(value), "%.*s", word > length ? (int)(word - length - 1) : 0,
               word > length ? line + length + 1 : "");
      found = true; /* the last one counts */
    }
    line += word;
    line += strspn(line, " \n");
  }
  return found ? value : NULL;
}

struct json_object *host_facts(struct host *host, const char *name, const char **why)
{
  const struct host_answer *answer = host_answer_of(host, HOST_FACTS, name);

  if (why)
    *why = !answer ? "out of memory" : answer->why;
  return answer ? answer->facts : NULL;
}

/* ---- The machine ------------------------------------------------------------------------------
 */

bool host_is_live(const struct host *host)
{
  return host->is_live;
}

const char *host_root(const struct host *host)
{
  return host->root;
}

int host_folder(const struct host *host)
{
  return host->folder;
}

static void host_read_denied(struct host *host)
{
  struct host_answer file = {.path = (char *)(uintptr_t) "penstock/denied.json"};

  if (host_read_file(host, &file) == 0)
    host->denied = json_tokener_parse(file.bytes);
  free(file.bytes);
}

/* Is the folder a recording, and can this kernel keep its links inside? */
static bool host_is_recording(const struct host *host, char why[HOST_WHY_BYTES])
{
  const int fd = host_open_at(host, "proc", O_PATH | O_DIRECTORY);

  if (fd >= 0)
    close(fd);
  else if (errno == ENOSYS || errno == EPERM)
    snprintf(why, HOST_WHY_BYTES,
             "%.120s cannot be read: openat2(2), which keeps links inside, needs Linux 5.6: %s",
             host->root, strerror(errno));
  else
    snprintf(
        why, HOST_WHY_BYTES,
        "%.140s is not a recording: it has no folder proc; `penstock doctor --record` makes one",
        host->root);
  return fd >= 0;
}

struct host *host_open(const char *root, char why[HOST_WHY_BYTES])
{
  struct host *host = calloc(1, sizeof(*host));

  if (!host || !(host->root = strdup(root ? root : "/"))) {
    free(host);
    snprintf(why, HOST_WHY_BYTES, "out of memory");
    return NULL;
  }
  host->is_live = !root;
  host->folder = open(host->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (host->folder < 0) {
    snprintf(why, HOST_WHY_BYTES, "cannot open the folder %.160s: %s", host->root, strerror(errno));
    host_close(host);
    return NULL;
  }
  if (!host->is_live && !host_is_recording(host, why)) {
    host_close(host);
    return NULL;
  }
  if (!host->is_live)
    host_read_denied(host);
  return host;
}

void host_close(struct host *host)
{
  if (!host)
    return;
  tdestroy(host->answers, host_free_answer);
  json_object_put(host->denied);
  if (host->folder >= 0)
    close(host->folder);
  free(host->root);
  free(host);
}
