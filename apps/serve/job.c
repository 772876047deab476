/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of all jobs: memory in turn, operations, files' reads and writes, an answer. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define POST_BYTES (1u << 20) /* posted between two looks at what else there is to do */

static void serve_job_push(struct job_list *list, struct job *job)
{
  job->next = NULL;
  if (!list->first)
    list->last = &list->first;
  *list->last = job;
  list->last = &job->next;
}

static struct job *serve_job_pull(struct job_list *list)
{
  struct job *job = list->first;

  if (job)
    list->first = job->next;
  return job;
}

struct job *serve_job_new(struct client *client, const struct serve_message *asked)
{
  struct job *job = calloc(1, sizeof(*job));

  if (!job)
    return NULL;
  job->client = client;
  job->asked = *asked;
  job->asked.name = NULL; /* it lies in the message, which goes */
  job->asked.entry_count = 0;
  job->block = BUDDY_NONE;
  client->jobs++;
  client->requests++;
  client->server->totals.requests++;
  return job;
}

void serve_job_free(struct job *job)
{
  struct client *client = job->client;

  serve_job_release_block(job);
  serve_digest_sha256_close(job->sum);
  if (job->file)
    job->file->jobs--;
  free(job->names);
  free(job);
  client->jobs--;
  if (client->gone && client->jobs == 0)
    serve_client_free(client);
}

/* ---- Answers ------------------------------------------------------------------------- */

/* False: there is no room now. */
static bool serve_job_send_answer(struct job *job)
{
  struct client *client = job->client;
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  if (client->gone || client->closing)
    return true;
  int rc = serve_encode(&job->answer, bytes, sizeof(bytes), &length);
  if (rc == 0)
    rc = pst_peer_send(client->peer, bytes, length);
  if (rc < 0 && rc != -EAGAIN && rc != -ENOTCONN) /* LEFT comes, and says why */
    serve_client_end(client, rc, "the server cannot answer");
  return rc != -EAGAIN;
}

void serve_job_answer(struct job *job, uint32_t type)
{
  struct client *client = job->client;

  serve_job_release_block(job);
  job->answer.type = type;
  job->answer.tag = job->asked.tag;
  if (client->answers.first || !serve_job_send_answer(job))
    serve_job_push(&client->answers, job);
  else
    serve_job_free(job);
}

void serve_job_refuse(struct job *job, int code, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  vsnprintf(job->answer.text, sizeof(job->answer.text), format, args);
  va_end(args);
  job->answer.code = (uint32_t)-code;
  job->client->server->totals.refused++;
  serve_job_answer(job, SERVE_REFUSE);
}

void serve_job_flush_answers(struct client *client)
{
  while (client->answers.first && serve_job_send_answer(client->answers.first))
    serve_job_free(serve_job_pull(&client->answers));
}

/* ---- Turns ------------------------------------------------------------------------------ */

static void serve_job_line_up(struct fair_queue *turns, struct line *line, struct job *job,
                              uint64_t cost)
{
  job->cost = cost;
  serve_job_push(&line->jobs, job);
  serve_queue_join(turns, &line->turn, line->jobs.first->cost);
}

/* Returns the job whose turn it is. */
static struct job *serve_job_next(struct fair_queue *turns)
{
  struct fair_queue_entry *turn = serve_queue_next(turns);

  return turn ? FROM(struct line, turn, turn)->jobs.first : NULL;
}

static void serve_job_leave_line(struct fair_queue *turns, struct line *line)
{
  serve_job_pull(&line->jobs);
  serve_queue_spend(turns, line->jobs.first ? line->jobs.first->cost : 0);
}

/* ---- Memory, in turn ------------------------------------------------------------------- */

static struct line *serve_job_line_at(struct client *client, const struct store *store)
{
  return &client->waiting[store - client->server->stores];
}

/* Until the next one finds no block: it shall not wait for ever while smaller ones go past it. */
static void serve_turns(struct store *store)
{
  struct job *job;

  if (store->serving)
    return;
  store->serving = true;
  while ((job = serve_job_next(&store->turns))) {
    uint64_t block = serve_buddy_take(store->pool, job->length);
    if (block == BUDDY_NONE)
      break;
    serve_job_leave_line(&store->turns, serve_job_line_at(job->client, store));
    job->block = block;
    job->then(job);
  }
  store->serving = false;
}

void serve_job_with_block(struct job *job, struct store *store, uint64_t bytes, job_step *then)
{
  job->store = store;
  job->length = bytes;
  job->then = then;
  serve_job_line_up(&store->turns, serve_job_line_at(job->client, store), job, bytes);
  serve_turns(store);
}

void serve_job_release_block(struct job *job)
{
  if (job->block == BUDDY_NONE)
    return;
  serve_buddy_give(job->store->pool, job->block);
  job->block = BUDDY_NONE;
  serve_turns(job->store);
}

uint8_t *serve_job_bytes(const struct job *job)
{
  return job->store->host + job->block;
}

/* ---- Operations on the client's region -------------------------------------------------- */

void serve_job_posts(struct client *client)
{
  struct line *posts = &client->posts;

  if (posts->jobs.first)
    serve_queue_join(&client->server->posts, &posts->turn, posts->jobs.first->cost);
}

/* False: there is no room, and ROOM will come. */
static bool serve_job_post(struct job *job)
{
  struct client *client = job->client;
  int n = pst_peer_post(client->peer, job->operations + job->posted, job->to_post - job->posted);

  if (n > 0)
    job->posted += (uint32_t)n;
  if (n >= 0 && job->posted < job->to_post)
    return false;
  serve_job_leave_line(&client->server->posts, &client->posts);
  if (n > 0)
    return true;
  job->status = n;
  job->to_post = job->posted;
  if (job->ended == job->posted)
    serve_job_done(job, 1);
  return true;
}

bool serve_job_post_some(struct server *server)
{
  uint64_t bytes = 0;
  struct job *job;

  while (bytes < POST_BYTES && (job = serve_job_next(&server->posts))) {
    struct fair_queue_entry *turn = &job->client->posts.turn;
    bytes += job->cost;
    if (!serve_job_post(job))
      serve_queue_leave(&server->posts, turn);
  }
  return server->posts.first != NULL;
}

void serve_job_move(struct job *job, uint8_t op, uint64_t length, uint32_t pieces, uint64_t place,
                    job_step *then)
{
  struct pst_operation *move = &job->operations[0], *flush = &job->operations[1];

  *move = (struct pst_operation){.op = op,
                                 .piece_count = (uint16_t)pieces,
                                 .id = (uint32_t)job->asked.region,
                                 .cookie = (uint64_t)(uintptr_t)job,
                                 .area = pieces > 0 ? NULL : job->store->area,
                                 .pieces = pieces > 0 ? job->pieces : NULL,
                                 .offset = pieces > 0 ? 0 : job->block,
                                 .remote_offset = place,
                                 .length = length};
  *flush = (struct pst_operation){.op = PST_OP_FLUSH, .cookie = move->cookie};
  job->then = then;
  job->to_post = op == PST_OP_WRITE ? 2 : 1;
  job->posted = job->ended = 0;
  job->status = 0;
  serve_job_line_up(&job->client->server->posts, &job->client->posts, job, length);
}

static const char *serve_job_refusal_of(int status)
{
  switch (status) {
  case -ENOENT:
    return "no such region is offered";
  case -ERANGE:
    return "it reaches beyond the region that is offered";
  case -EACCES:
    return "the region is not offered for it, or was withdrawn";
  case -EOPNOTSUPP:
    return "the transport has no such operation";
  default:
    return strerror(-status);
  }
}

/* status 1: nothing has ended, the posting has failed. */
void serve_job_done(struct job *job, int status)
{
  if (status < 0 && job->status == 0)
    job->status = status;
  job->ended += status <= 0;
  if (job->ended < job->to_post)
    return;
  if (job->status < 0)
    serve_job_refuse(job, job->status, "%s of %llu bytes at %llu of region %llu: %s",
                     job->operations[0].op == PST_OP_WRITE ? "a WRITE" : "a READ",
                     (unsigned long long)job->operations[0].length,
                     (unsigned long long)job->operations[0].remote_offset,
                     (unsigned long long)job->asked.region, serve_job_refusal_of(job->status));
  else
    job->then(job);
}

/* ---- Files' reads and writes ------------------------------------------------------------- */

static void serve_job_begin_io(struct job *job)
{
  job->client->server->io_under_way++;
  serve_io_submit(job->client->server->io, &job->io);
}

void serve_job_io(struct job *job, enum io_op op, int fd, uint8_t *bytes, uint64_t length,
                  uint64_t offset, job_step *then)
{
  job->io =
      (struct io_request){.op = op, .fd = fd, .bytes = bytes, .length = length, .offset = offset};
  job->then = then;
  serve_job_begin_io(job);
}

/* A client's sums take turns, a step each, so that however many it asks for leave the threads that
 * read and sum to the others. */
static void serve_job_begin_sums(struct client *client)
{
  while (client->sums.first && client->summing < SERVER_SUMS) {
    client->summing++;
    serve_job_begin_io(serve_job_pull(&client->sums));
  }
}

void serve_job_sum(struct job *job, int fd, struct digest_sha256 *sum, bool to_grow,
                   uint64_t length, job_step *then)
{
  job->io = (struct io_request){
      .op = IO_SUM, .fd = fd, .sum = sum, .to_grow = to_grow, .length = length, .offset = job->at};
  job->then = then;
  serve_job_push(&job->client->sums, job);
  serve_job_begin_sums(job->client);
}

void serve_job_io_ended(struct job *job)
{
  struct client *client = job->client;

  client->server->io_under_way--;
  if (job->io.op == IO_SUM) {
    client->summing--;
    serve_job_begin_sums(client);
  }
  if (client->gone)
    serve_job_free(job);
  else
    job->then(job);
}

static void serve_job_drop(struct job_list *list)
{
  struct job *job;

  while ((job = serve_job_pull(list)))
    serve_job_free(job);
}

void serve_job_drop_waiting(struct client *client)
{
  struct server *server = client->server;

  for (uint32_t i = 0; i < 2; i++) {
    serve_queue_leave(&server->stores[i].turns, &client->waiting[i].turn);
    serve_job_drop(&client->waiting[i].jobs);
  }
  serve_queue_leave(&server->posts, &client->posts.turn);
  serve_job_drop(&client->posts.jobs);
  serve_job_drop(&client->sums);
  serve_job_drop(&client->answers);
}
