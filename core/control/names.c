/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"
#include "util/clock.h"

#define NAMES_SHOWN 8

struct list {
  char *text;
  size_t size;
  size_t at;
  uint32_t count;
};

static void append(struct list *list, const char *name)
{
  if (list->count++ >= NAMES_SHOWN || list->at >= list->size)
    return;
  int n =
      snprintf(list->text + list->at, list->size - list->at, "%s%s", list->at ? ", " : "", name);
  list->at += (size_t)n;
}

static void finish(struct list *list)
{
  if (list->count > NAMES_SHOWN && list->at < list->size)
    snprintf(list->text + list->at, list->size - list->at, " and %u more",
             list->count - NAMES_SHOWN);
}

void names_list(const struct control *control, bool senders, enum stream_state state, char *text,
                size_t size)
{
  struct list list = {.text = text, .size = size};

  text[0] = '\0';
  for (uint32_t i = 0; i < control->stream_count; i++) {
    const struct stream *s = &control->streams[i];
    if (s->is_sender == senders && s->state == state)
      append(&list, s->name);
  }
  finish(&list);
}

void names_of_peer(const struct control *control, const struct peer *peer, char *text, size_t size)
{
  struct list list = {.text = text, .size = size};

  text[0] = '\0';
  for (uint32_t i = 0; i < control->stream_count; i++) {
    if (control->streams[i].peer == peer)
      append(&list, control->streams[i].name);
  }
  finish(&list);
}

void seconds_text(uint64_t ns, char text[24])
{
  double seconds = (double)ns / (double)PST_NS_PER_S;

  snprintf(text, 24, seconds < 1 ? "%.3g s" : "%.4g s", seconds);
}

int blob_copy(const struct pst_blob *from, struct pst_blob *to)
{
  struct pst_blob copy = {.struct_size = sizeof copy, .fds = {-1, -1, -1, -1}};
  int rc;

  if (from->length > CONTROL_ADDRESS_MAX || from->fd_count > WIRE_FDS_MAX)
    return -E2BIG;
  copy.length = copy.capacity = from->length;
  copy.bytes = malloc(from->length ? from->length : 1);
  if (!copy.bytes)
    return -ENOMEM;
  if (from->length > 0)
    memcpy(copy.bytes, from->bytes, from->length);
  while (copy.fd_count < from->fd_count) {
    int fd = fcntl(from->fds[copy.fd_count], F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
      rc = -errno;
      blob_free(&copy);
      return rc;
    }
    copy.fds[copy.fd_count++] = fd;
  }
  *to = copy;
  return 0;
}

void blob_free(struct pst_blob *blob)
{
  free(blob->bytes);
  for (uint32_t i = 0; i < blob->fd_count; i++)
    close(blob->fds[i]);
  *blob = (struct pst_blob){.struct_size = sizeof *blob};
}
