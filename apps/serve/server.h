/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `penstock serve`: one thread, one node, many clients. A request is a job, which has a
 * block of memory while it needs one, and waits in turn where none is free; operations, too, are
 * posted in turn. Turns are fair by bytes (fair_queue.h), whatever each client has asked for. What
 * a job does to files goes by io.h, so that no client waits for another's disk.
 */
#ifndef APP_SERVE_SERVER_H
#define APP_SERVE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <penstock/penstock.h>

#include "buddy.h"
#include "fair_queue.h"
#include "io.h"
#include "partial_file.h"
#include "root.h"
#include "segments.h"
#include "wire.h"

#define SERVER_CHUNK_MAX (4u << 20)
#define SERVER_WINDOW 64u /* requests of one client under way */
#define SERVER_FILES 32u  /* of one client open at a time */
#define SERVER_SUMS 2u    /* of one client being computed at a time */
#define SERVER_OFFERS 16u
#define SERVER_PIECES 16u     /* of one operation, without --pieces */
#define SERVER_PIECES_MAX 30u /* the most that --pieces takes */

struct server_params {
  struct pst_node_params node; /* what the command line says of it */
  struct pst_area_params area; /* of MOVEs' memory */
  const char *root;            /* NULL: no files */
  bool read_only, overwrite, once;
  uint64_t in_flight, request_max, idle_ns, pieces;
  uint64_t file_max;              /* 0: the size of the file system */
  struct metrics_server *metrics; /* NULL: none are served */
};

struct server_totals {
  uint64_t clients, requests, refused, bytes_written, bytes_read; /* into, from clients */
  uint64_t files_read, files_written;
};

struct client;
struct job;

struct job_list {
  struct job *first, **last;
};

/* Jobs of one client that wait for a turn. */
struct line {
  struct fair_queue_entry turn;
  struct job_list jobs;
};

typedef void job_step(struct job *job);

/* Memory, and the queue of jobs that wait for a part of it. */
struct store {
  struct pst_area *area;
  struct buddy *pool;
  uint8_t *host; /* NULL: the CPU cannot touch it */
  struct patterns patterns;
  struct fair_queue turns;
  bool serving; /* turns are being given; whoever frees a block now need not */
};

struct open_file {
  bool used, writable;
  bool dead; /* it has ended or failed: it accepts only CLOSE */
  uint32_t jobs;
  int fd;
  struct stat stat; /* as it was when it was opened, to read */
  uint64_t size;
  struct root_data data;
  struct partial_file part; /* to write */
  struct extents extents;
  /* Digest of the bytes that CHECKs have summed with SERVE_FLAG_ON: [0, summed), or are summing. */
  struct digest_sha256 *sum;
  uint64_t summed;
  bool summing;
  bool rewritten; /* in what is summed */
};

struct job {
  struct job *next;
  struct client *client;
  struct serve_message asked; /* without name and entries */
  struct serve_message answer;
  struct open_file *file;
  struct store *store;
  uint64_t block; /* BUDDY_NONE */
  job_step *then; /* once what it waits for is there, or has ended well */
  struct io_request io;
  struct pst_operation operations[2];
  struct pst_area_piece pieces[SERVER_PIECES_MAX];
  uint32_t to_post, posted, ended; /* of the operations */
  int status;
  struct digest_sha256 *sum;
  job_step *told;      /* once the sum is in the answer */
  uint64_t cost;       /* of its turn */
  uint64_t at, length; /* CHECK, COMMIT: how far it has come */
  struct move_plan plan;
  uint64_t segment, segments;          /* MOVE: of this round: the first, how many */
  uint64_t numbers[SERVER_PIECES_MAX]; /* and which */
  struct pattern_work pattern;
  uint64_t began_ns;
  uint8_t *names; /* of the entries in the answer */
};

struct client {
  struct server *server;
  struct client *next;     /* of all */
  struct line waiting[2];  /* for memory, by store */
  struct line posts;       /* for their operations to be posted */
  struct job_list answers; /* for room */
  struct job_list sums;    /* to be summed */
  uint32_t summing;        /* of SERVER_SUMS */
  struct pst_peer *peer;
  bool gone, welcome, closing;
  bool busy; /* it said so, and nothing since */
  uint32_t jobs;
  uint64_t heard_ns, joined_ns, requests, bytes;
  struct open_file files[SERVER_FILES];
};

struct server {
  const struct server_params *params;
  struct pst_node *node;
  struct io *io;
  int root;               /* -1 */
  struct store stores[2]; /* for files, for MOVE; the same where the memory is host's */
  struct store *files, *moves;
  struct fair_queue posts; /* of clients with operations to post */
  uint64_t chunk_max;
  struct client *clients;
  uint32_t client_count, io_under_way;
  uint32_t client_most; /* at a time, since memory was given back */
  uint64_t trimmed;     /* clients that there had been then */
  uint64_t trim_ns;     /* when memory is given back again; 0: not */
  uint64_t trim_until_ns;
  struct server_totals totals;
  bool stopping;
};

/* 0, or -errno with *error. */
int serve_server_open(const struct server_params *params, struct server *server,
                      struct pst_error *error);
void serve_server_close(struct server *server);
/* Until app_signals_stop(), or the first client has left with `once`; event_fd is readable after a
 * signal. */
int serve_server_run(struct server *server, int event_fd);
/* metrics.c: a page of what the server is, as long as it is open, NULL: out of memory; and what it
 * has done, which page NULL does without. */
struct metrics_page;
struct metrics_page *serve_metrics_page(const struct server *server);
void serve_metrics_add_totals(struct metrics_page *page, const struct server_totals *totals,
                              uint32_t clients);
void serve_metrics_publish(const struct server *server); /* both, with --metrics */

/* ---- Between server*.c and job*.c -------------------------------------------- */

/* server_client.c, server_requests.c */
void serve_client_joined(struct server *server, struct pst_peer *peer);
void serve_client_left(struct client *client, int status, const char *text);
void serve_client_message(struct client *client, const void *bytes, uint64_t length);
/* End the connection for this reason. */
void serve_client_end(struct client *client, int code, const char *format, ...) PST_PRINTF(3, 4);
void serve_client_check_idle(struct client *client, uint64_t now);
void serve_client_free(struct client *client);

/* job.c. A job ends by one of the first three, which free it. */
void serve_job_answer(struct job *job, uint32_t type);
void serve_job_refuse(struct job *job, int code, const char *format, ...) PST_PRINTF(3, 4);
void serve_job_flush_answers(struct client *client);
struct job *serve_job_new(struct client *client, const struct serve_message *asked);
/* Calls then() with a block of `bytes` bytes, now or later. */
void serve_job_with_block(struct job *job, struct store *store, uint64_t bytes, job_step *then);
void serve_job_release_block(struct job *job);
uint8_t *serve_job_bytes(const struct job *job);
void serve_job_io(struct job *job, enum io_op op, int fd, uint8_t *bytes, uint64_t length,
                  uint64_t offset, job_step *then);
/* From job->at on, at most `length` bytes of a file are added to a sum. */
void serve_job_sum(struct job *job, int fd, struct digest_sha256 *sum, bool to_grow,
                   uint64_t length, job_step *then);
/* WRITE or READ of `length` bytes of the block, or of job->pieces; a WRITE is flushed. */
void serve_job_move(struct job *job, uint8_t op, uint64_t length, uint32_t pieces, uint64_t place,
                    job_step *then);
/* Queues a client whose operations are to be posted; there may be room. */
void serve_job_posts(struct client *client);
/* Post some of what is to be posted, in turn. True: there is more to post. */
bool serve_job_post_some(struct server *server);
void serve_job_done(struct job *job, int status);   /* of one operation */
void serve_job_io_ended(struct job *job);           /* of its io */
void serve_job_drop_waiting(struct client *client); /* it has gone */
void serve_job_free(struct job *job);

/* jobs_file.c, jobs_folder.c, jobs_move.c, server_client.c: what is asked. */
job_step serve_job_fetch, serve_job_store, serve_job_hole, serve_job_check, serve_job_commit,
    serve_job_close, serve_job_start_move;
/* 0: it has been answered, or refused; -errno as of serve_file_error_refused(). */
int serve_job_open(struct job *job, const char *name);
int serve_job_create(struct job *job, const char *name);
int serve_job_list_folder(struct job *job, const char *name);
int serve_job_make_folder(struct job *job, const char *name);
void serve_file_drop(struct open_file *file);

#endif
