/* SPDX-License-Identifier: Apache-2.0 */
/* Writes what was read of a machine as a folder that host_open() takes. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "redact.h"

#define LINKS_MOST 40
#define ID_LEAST 32 /* hex digits of a container's id, or of a machine's */

struct record {
  const struct host *host;
  int folder;
  struct redact *redact;
  struct json_object *denied; /* paths */
  int error;
};

static void record_fail(struct record *record, int error)
{
  if (record->error == 0)
    record->error = error;
}

/* The text with labels; the ids of containers, in the paths of control groups, become zeros. */
static char *record_redact(const struct record *record, const char *text)
{
  char *hidden = app_redact_text(record->redact, text);

  for (char *at = hidden; at && *at != '\0';) {
    const size_t digits = strspn(at, "0123456789abcdefABCDEF");
    if (digits >= ID_LEAST)
      memset(at, '0', digits);
    at += digits + (at[digits] != '\0');
  }
  return hidden;
}

/* Makes the folders above the last part of `path`, of a text that is redacted. */
static void record_make_folders(struct record *record, const char *path)
{
  char part[HOST_PATH_BYTES];

  for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
    if (slash > path && mkdirat(record->folder, part, 0755) < 0 && errno != EEXIST)
      record_fail(record, errno);
  }
}

static void record_write(struct record *record, const char *path, const void *bytes, size_t length)
{
  char *name = record_redact(record, path);

  if (!name)
    return record_fail(record, ENOMEM);
  record_make_folders(record, name);
  const int fd = openat(record->folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, bytes, length) != (ssize_t)length)
    record_fail(record, errno);
  if (fd >= 0)
    close(fd);
  free(name);
}

static void record_make_link(struct record *record, const char *path, const char *target)
{
  char *name = record_redact(record, path), *to = record_redact(record, target);

  if (name && to) {
    record_make_folders(record, name);
    if (symlinkat(to, record->folder, name) < 0 && errno != EEXIST)
      record_fail(record, errno);
  }
  free(name);
  free(to);
}

/* Takes the last part off `path`. */
static void record_go_up(char *path)
{
  char *slash = strrchr(path, '/');

  *(slash ? slash : path) = '\0';
}

/* Follows `path` part by part: makes each link that it leads through, as it is on the machine, and
 * writes into `real` the path without links. False: it leads nowhere. */
static bool record_follow(struct record *record, const char *path, char real[HOST_PATH_BYTES])
{
  char left[2 * HOST_PATH_BYTES], rest[2 * HOST_PATH_BYTES], part[256];
  unsigned links = 0;

  real[0] = '\0';
  snprintf(left, sizeof(left), "%s", path);
  for (char *at = left; *at != '\0';) {
    const size_t length = strcspn(at, "/");
    snprintf(part, sizeof(part), "%.*s", (int)length, at);
    at += length;
    at += *at == '/';
    if (part[0] == '\0' || strcmp(part, ".") == 0)
      continue;
    if (strcmp(part, "..") == 0) {
      record_go_up(real);
      continue;
    }
    char before[HOST_PATH_BYTES], target[HOST_PATH_BYTES];
    snprintf(before, sizeof(before), "%s", real);
    const size_t used = strlen(real);
    if (used + strlen(part) + 2 > HOST_PATH_BYTES)
      return false;
    snprintf(real + used, HOST_PATH_BYTES - used, "%s%s", used > 0 ? "/" : "", part);
    const ssize_t got = readlinkat(host_folder(record->host), real, target, sizeof(target) - 1);
    if (got < 0)
      continue;
    target[got] = '\0';
    if (++links > LINKS_MOST)
      return false;
    record_make_link(record, real, target);
    snprintf(rest, sizeof(rest), "%.500s/%.500s", target, at);
    snprintf(left, sizeof(left), "%s", rest);
    snprintf(real, HOST_PATH_BYTES, "%s", target[0] == '/' ? "" : before);
    at = left;
  }
  return true;
}

/* Makes what stands at `path` in its kind: a folder, an empty file, a link. */
static void record_make_place(struct record *record, const char *path)
{
  char real[HOST_PATH_BYTES];
  struct stat st;

  if (!record_follow(record, path, real) || real[0] == '\0' ||
      fstatat(host_folder(record->host), real, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return;
  char *name = record_redact(record, real);
  if (!name)
    return record_fail(record, ENOMEM);
  record_make_folders(record, name);
  if (S_ISDIR(st.st_mode)) {
    mkdirat(record->folder, name, 0755);
  } else {
    const int fd = openat(record->folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
      close(fd);
  }
  free(name);
}

/* A PCI device's serial number, which is made of its MAC address: capability 3 of PCI Express'
 * extended ones, which begin at 256. */
static void record_hide_serial(uint8_t *config, size_t length)
{
  size_t at = 256;

  for (unsigned left = 96; left > 0 && at >= 256 && at + 12 <= length; left--) {
    if (config[at] == 3 && config[at + 1] == 0)
      memset(config + at + 4, 0, 8);
    at = ((size_t)config[at + 3] << 8 | config[at + 2]) >> 4;
  }
}

static void record_file(struct record *record, const struct host_answer *answer)
{
  const size_t end = strlen(answer->path);
  char real[HOST_PATH_BYTES];

  if (!record_follow(record, answer->path, real))
    return;
  if (end > 7 && strcmp(answer->path + end - 7, "/config") == 0)
    record_hide_serial((uint8_t *)answer->bytes, answer->length);
  if (memchr(answer->bytes, '\0', answer->length)) { /* no text: a config space, a device tree */
    record_write(record, real, answer->bytes, answer->length);
    return;
  }
  /* A PCI device's regions are numbers as long as a GUID. */
  const bool is_numbers = end > 9 && strcmp(answer->path + end - 9, "/resource") == 0;
  char *text = is_numbers ? strdup(answer->bytes) : record_redact(record, answer->bytes);
  if (!text)
    return record_fail(record, ENOMEM);
  record_write(record, real, text, strlen(text));
  free(text);
}

static void record_facts(struct record *record, const struct host_answer *answer)
{
  struct json_object *facts = NULL;
  char path[HOST_PATH_BYTES];

  snprintf(path, sizeof(path), "penstock/%s.json", answer->path);
  if (answer->facts) {
    json_object_deep_copy(answer->facts, &facts, NULL);
  } else {
    facts = json_object_new_object();
    json_object_object_add(facts, "unavailable", json_object_new_string(answer->why));
  }
  app_redact_json(record->redact, facts);
  const char *text = json_object_to_json_string_ext(facts, JSON_C_TO_STRING_PRETTY);
  record_write(record, path, text, strlen(text));
  json_object_put(facts);
}

/* Writes one answer in the recording, by its kind. */
static void record_one(const struct host_answer *answer, void *to)
{
  struct record *record = to;
  char path[2 * HOST_PATH_BYTES];

  if (answer->kind == HOST_FACTS)
    return record_facts(record, answer);
  if (answer->error == EACCES || answer->error == EPERM) {
    json_object_array_add(record->denied, json_object_new_string(answer->path));
    return;
  }
  if (answer->error)
    return;
  switch (answer->kind) {
  case HOST_FILE:
    record_file(record, answer);
    return;
  case HOST_LIST:
    record_make_place(record, answer->path);
    for (size_t i = 0; i < answer->names.count; i++) {
      snprintf(path, sizeof(path), "%s/%s", answer->path, answer->names.names[i]);
      record_make_place(record, path);
    }
    return;
  case HOST_LINK:
  case HOST_EXISTS:
    record_make_place(record, answer->path);
    return;
  case HOST_FACTS:
    return;
  }
}

int host_record(struct host *host, const char *folder, char why[HOST_WHY_BYTES])
{
  struct record record = {.host = host, .redact = app_redact_open()};
  struct json_object *denied = json_object_new_object();

  record.denied = json_object_new_array();
  json_object_object_add(denied, "paths", record.denied);
  if (mkdir(folder, 0755) < 0) {
    const int error = errno;
    snprintf(why, HOST_WHY_BYTES, "cannot make the folder %.160s: %s", folder, strerror(error));
    app_redact_close(record.redact);
    json_object_put(denied);
    return -error;
  }
  record.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (record.folder < 0)
    record_fail(&record, errno);
  else
    host_each_answer(host, record_one, &record);
  const char *text = json_object_to_json_string_ext(denied, JSON_C_TO_STRING_PRETTY);
  if (record.error == 0)
    record_write(&record, "penstock/denied.json", text, strlen(text));
  if (record.error)
    snprintf(why, HOST_WHY_BYTES, "cannot write below %.160s: %s", folder, strerror(record.error));
  if (record.folder >= 0)
    close(record.folder);
  app_redact_close(record.redact);
  json_object_put(denied);
  return -record.error;
}
