/* SPDX-License-Identifier: Apache-2.0 */
/* A model of what a client of `serve` may ask, by the messages alone. */
#include "server_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/penstock.h>

#include "serve/server.h"
#include "server_world.h"

#define KNOWN (64u << 10) /* bytes of a READ that are certainly WORLD_READ_BYTE */
#define PART ".penstock-part"

struct question {
  uint64_t tag, offset, length, region, place, size;
  uint32_t type, file, op, flags, crc, pieces;
  bool has_sha256, well_named;
  uint8_t sha256[SERVE_SHA256_BYTES];
  uint64_t moved; /* by its operations */
  bool shared;    /* they may have been another question's */
};

struct model_file {
  bool open, writable, committed;
  bool failed; /* a write to it */
  uint64_t size, summed;
  struct extent *come;
  uint32_t come_count;
};

struct model {
  struct question *questions; /* that are not answered, in order */
  uint32_t count, room;
  bool lost; /* it cannot be told what was answered */
  bool welcome;
  uint64_t chunk_max; /* as WELCOME says */
  struct model_file files[SERVER_FILES];
};

static struct {
  bool files, read_only;
  uint64_t request_max;
} started;

void model_begin(bool files, bool read_only, uint64_t request_max)
{
  started.files = files;
  started.read_only = read_only;
  started.request_max = request_max;
}

struct model *model_new(void)
{
  struct model *model = calloc(1, sizeof(*model));

  REQUIRE(model != NULL);
  return model;
}

void model_free(struct model *model)
{
  for (uint32_t i = 0; i < SERVER_FILES; i++)
    free(model->files[i].come);
  free(model->questions);
  free(model);
}

/* ---- Questions ---------------------------------------------------------------------------- */

/* One part of a name, as docs/howto/files.md has the rules. */
static bool is_part_legal(const char *part, size_t length)
{
  const size_t suffix = sizeof(PART) - 1;

  for (size_t i = 0; i < length; i++)
    if ((unsigned char)part[i] < ' ' || part[i] == 0x7f)
      return false;
  if (length > suffix && part[0] == '.' && memcmp(part + length - suffix, PART, suffix) == 0)
    return false;
  return length > 0 && length <= 240 && !(length <= 2 && memcmp(part, "..", length) == 0);
}

static bool is_name_legal(const struct serve_message *m)
{
  const char *name = (const char *)m->name;
  size_t begin = 0;

  if (m->type == SERVE_LIST && m->name_length == 0) /* the root */
    return true;
  for (size_t at = 0; at <= m->name_length; at++) {
    if (at < m->name_length && name[at] != '/')
      continue;
    if (!is_part_legal(name + begin, at - begin))
      return false;
    begin = at + 1;
  }
  return m->name_length <= 1024;
}

static bool has_name(uint32_t type)
{
  return type == SERVE_OPEN || type == SERVE_CREATE || type == SERVE_LIST || type == SERVE_MKDIR;
}

void model_said(struct model *model, const void *bytes, uint64_t length)
{
  static struct serve_message m;
  char why[SERVE_WHY_MAX];

  if (serve_decode(bytes, length, &m, why) < 0 || m.type == SERVE_HELLO)
    return;
  if (model->count == model->room) {
    model->room = 2 * model->room + 16;
    model->questions = reallocarray(model->questions, model->room, sizeof(*model->questions));
    REQUIRE(model->questions != NULL);
  }
  struct question *q = &model->questions[model->count++];
  *q = (struct question){.tag = m.tag,
                         .offset = m.offset,
                         .length = m.length,
                         .region = m.region,
                         .place = m.place,
                         .size = m.size,
                         .type = m.type,
                         .file = m.file,
                         .op = m.op,
                         .flags = m.flags,
                         .crc = m.crc,
                         .pieces = m.pieces,
                         .has_sha256 = m.has_sha256,
                         .well_named = !has_name(m.type) || is_name_legal(&m)};
  memcpy(q->sha256, m.sha256, sizeof(q->sha256));
}

/* False: there are several that it may be the answer to, or it is of what nobody decoded. */
static bool take_question(struct model *model, uint64_t tag, struct question *found)
{
  uint32_t count = 0, at = 0;

  for (uint32_t i = 0; i < model->count; i++)
    if (model->questions[i].tag == tag && count++ == 0)
      at = i;
  if (count != 1)
    return false;
  *found = model->questions[at];
  memmove(&model->questions[at], &model->questions[at + 1],
          (--model->count - at) * sizeof(*model->questions));
  return true;
}

static bool within(uint64_t offset, uint64_t length, uint64_t begin, uint64_t room)
{
  return offset >= begin && length <= room && offset - begin <= room - length;
}

/* ---- Answers ------------------------------------------------------------------------------ */

static struct model_file *open_file(struct model *model, const struct question *q, bool writable)
{
  REQUIRE(q->file < SERVER_FILES && model->files[q->file].open);
  REQUIRE(model->files[q->file].writable == writable);
  REQUIRE(!model->files[q->file].committed);
  return &model->files[q->file];
}

static void require_range(const struct model_file *file, const struct question *q, uint64_t most)
{
  REQUIRE(q->length > 0 && q->length <= most && within(q->offset, q->length, 0, file->size));
}

static void require_moved(const struct question *q, uint64_t bytes)
{
  REQUIRE(q->shared || q->moved == bytes);
}

static void add(struct model_file *file, const struct question *q)
{
  file->come = reallocarray(file->come, file->come_count + 1, sizeof(*file->come));
  REQUIRE(file->come != NULL);
  file->come[file->come_count++] = (struct extent){q->offset, q->offset + q->length};
}

static int by_begin(const void *a, const void *b)
{
  const struct extent *one = a, *other = b;

  return one->begin < other->begin ? -1 : one->begin > other->begin;
}

static bool is_whole(struct model_file *file)
{
  uint64_t end = 0;

  if (file->come_count > 0)
    qsort(file->come, file->come_count, sizeof(*file->come), by_begin);
  for (uint32_t i = 0; i < file->come_count && file->come[i].begin <= end; i++)
    end = file->come[i].end > end ? file->come[i].end : end;
  return end >= file->size;
}

static void opened(struct model *model, const struct question *q, const struct serve_message *m)
{
  bool writable = m->type == SERVE_CREATED;

  REQUIRE(q->type == (writable ? SERVE_CREATE : SERVE_OPEN));
  REQUIRE(m->file < SERVER_FILES && !model->files[m->file].open);
  REQUIRE(!writable || !started.read_only);
  free(model->files[m->file].come);
  model->files[m->file] =
      (struct model_file){.open = true, .writable = writable, .size = writable ? q->size : m->size};
}

static void fetched(struct model *model, const struct question *q, const struct serve_message *m)
{
  const struct model_file *file = open_file(model, q, false);
  bool hole = m->flags & SERVE_FLAG_HOLE; /* all of it, however much was asked for */

  REQUIRE(q->type == SERVE_FETCH);
  require_range(file, q, model->chunk_max);
  REQUIRE(m->length > 0 && m->length <= (hole ? file->size - q->offset : q->length));
  require_moved(q, hole ? 0 : m->length);
}

static void stored(struct model_file *file, const struct question *q, uint64_t most)
{
  static uint8_t bytes[KNOWN];

  require_range(file, q, most);
  require_moved(q, q->length);
  memset(bytes, WORLD_READ_BYTE, sizeof(bytes));
  REQUIRE(q->length > KNOWN || q->crc == serve_digest_crc32c(bytes, q->length));
  add(file, q);
}

static void checked(struct model *model, const struct question *q, const struct serve_message *m)
{
  REQUIRE(q->type == SERVE_CHECK && q->file < SERVER_FILES);
  struct model_file *file = open_file(model, q, model->files[q->file].writable);

  if (file->size == 0)
    return;
  require_range(file, q, UINT64_MAX);
  if (q->flags & SERVE_FLAG_ON) {
    REQUIRE(q->offset == file->summed);
    file->summed += q->length;
  } else if (file->writable && q->has_sha256 &&
             memcmp(q->sha256, m->sha256, sizeof(q->sha256)) == 0) {
    add(file, q);
  }
}

static void moved(const struct question *q)
{
  REQUIRE(q->type == SERVE_MOVE && q->length > 0 && q->length <= started.request_max);
  REQUIRE(q->pieces > 0 && q->pieces <= q->length && q->pieces <= MOVE_PIECES_MAX);
  require_moved(q, q->length);
}

static void done(struct model *model, const struct question *q)
{
  if (q->type == SERVE_MKDIR) {
    REQUIRE(!started.read_only);
  } else if (q->type == SERVE_STORE) {
    stored(open_file(model, q, true), q, model->chunk_max);
  } else if (q->type == SERVE_HOLE) {
    require_range(open_file(model, q, true), q, INT64_MAX);
    add(open_file(model, q, true), q);
  } else if (q->type == SERVE_COMMIT) {
    struct model_file *file = open_file(model, q, true);
    REQUIRE(is_whole(file));
    file->committed = true;
  } else if (q->type == SERVE_CLOSE) {
    REQUIRE(q->file < SERVER_FILES && model->files[q->file].open);
    model->files[q->file].open = false;
  } else {
    REQUIRE(q->type == SERVE_PING);
  }
}

void model_answered(struct model *model, const struct serve_message *m)
{
  struct question q;

  if (m->type == SERVE_WELCOME) {
    model->welcome = true;
    model->chunk_max = m->chunk_max;
    return;
  }
  REQUIRE(model->welcome);
  model->lost |= !take_question(model, m->tag, &q);
  if (model->lost)
    return;
  REQUIRE(m->type == SERVE_REFUSE || q.well_named);
  REQUIRE(m->type == SERVE_REFUSE || q.type == SERVE_PING || q.type == SERVE_MOVE || started.files);
  switch (m->type) {
  case SERVE_OPENED:
  case SERVE_CREATED:
    opened(model, &q, m);
    break;
  case SERVE_FETCHED:
    fetched(model, &q, m);
    break;
  case SERVE_CHECKED:
    checked(model, &q, m);
    break;
  case SERVE_MOVED:
    moved(&q);
    break;
  case SERVE_LISTED:
    REQUIRE(q.type == SERVE_LIST);
    break;
  case SERVE_DONE:
    done(model, &q);
    break;
  default:
    REQUIRE(m->type == SERVE_REFUSE && m->code != 0 && m->text[0] != '\0');
    if (q.type == SERVE_CLOSE && m->code == ESTALE) /* closed, and was changed */
      done(model, &q);
    break;
  }
}

/* ---- The server's actions ----------------------------------------------------------------- */

static bool moves(const struct question *q, uint8_t op)
{
  if (q->type == SERVE_MOVE)
    return op == (q->op == SERVE_OP_WRITE ? PST_OP_WRITE : PST_OP_READ);
  return q->type == (op == PST_OP_WRITE ? SERVE_FETCH : SERVE_STORE);
}

void model_posted(struct model *model, uint8_t op, uint64_t region, uint64_t place, uint64_t length)
{
  struct question *first = NULL;

  if (model->lost)
    return;
  for (uint32_t i = 0; i < model->count; i++) {
    struct question *q = &model->questions[i];
    if (!moves(q, op) || q->region != region || !within(place, length, q->place, q->length))
      continue;
    if (first)
      first->shared = q->shared = true;
    else
      first = q;
  }
  REQUIRE(first != NULL);
  first->moved += length;
}

/* Requires that a file which gets its name now has the sum that the peer said, as far as it is read
 * here. */
static void require_sum(const struct question *q, const struct model_file *file, int fd)
{
  uint8_t bytes[WORLD_SUMMED], sum[SERVE_SHA256_BYTES];
  struct stat stat;

  if (q->type != SERVE_COMMIT || !q->has_sha256 || file->size == 0 || file->size > sizeof(bytes))
    return;
  REQUIRE(fstat(fd, &stat) == 0);
  if (!S_ISREG(stat.st_mode)) /* its folder */
    return;
  REQUIRE((uint64_t)stat.st_size == file->size);
  REQUIRE(pread(fd, bytes, file->size, 0) == (ssize_t)file->size);
  serve_digest_sha256_of(bytes, file->size, sum);
  REQUIRE(memcmp(sum, q->sha256, sizeof(sum)) == 0);
}

static bool asks_for(const struct question *q, const struct model_file *file,
                     const struct io_request *r)
{
  if (r->op == IO_SYNC)
    return q->type == SERVE_COMMIT;
  if (q->type == SERVE_COMMIT)
    return r->op == IO_SUM && within(r->offset, r->length, 0, file->size);
  if (q->type != (r->op == IO_READ ? SERVE_FETCH : r->op == IO_WRITE ? SERVE_STORE : SERVE_CHECK))
    return false;
  return !(r->op == IO_WRITE && file->failed) &&
         within(r->offset, r->length, q->offset, q->length) &&
         within(r->offset, r->length, 0, file->size);
}

void model_io(const struct model *model, const struct io_request *r, bool behind)
{
  bool asked = false;

  if (model->lost || behind)
    return;
  for (uint32_t i = 0; i < model->count; i++) {
    const struct question *q = &model->questions[i];
    if (q->file >= SERVER_FILES || !model->files[q->file].open ||
        !asks_for(q, &model->files[q->file], r))
      continue;
    asked = true;
    if (r->op == IO_SYNC && model->count == 1)
      require_sum(q, &model->files[q->file], r->fd);
  }
  REQUIRE(asked);
}

void model_io_ended(struct model *model, uint32_t file, const struct io_request *r, bool behind)
{
  if (!model->lost && !behind && r->op == IO_WRITE && r->result < 0)
    model->files[file].failed = true;
}
