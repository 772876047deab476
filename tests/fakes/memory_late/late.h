/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory plugin `late`, for tests. Its NORMAL regions have an address that
 * faults when the CPU touches it; the bytes are in a mapping of their own, known
 * only to the threads that do the queues' work, one thread a queue. Work is done
 * in order, `delay` after its submission at the earliest and at `rate`.
 *
 * It watches its callers: a source in host memory that changes between a copy's
 * submission and its execution fails the batch, a region freed under work that
 * is on its way and objects left over at close() are errors in the log.
 *
 * An application's own order of work, `native`, is an atomic_int of its own: its work is done
 * when that is not 0.
 *
 * One mutex guards all of it and is never held while bytes move.
 */
#ifndef LATE_LATE_H
#define LATE_LATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/memory-util.h>

#define LATE_FENCES_MAX 4096u

struct late_region {
  struct late_region *next;
  uint64_t address;
  uint64_t length;
  uint8_t *bytes; /* where the plugin's own threads touch it */
  void *reserved; /* the mapping that `address` is of */
  uint64_t reserved_length;
  int fd;             /* STAGING: its memfd; NORMAL: -1 */
  uint32_t under_way; /* pieces of unfinished batches that lie in it */
};

struct pst_memory {
  const struct pst_host *host;
  uint64_t delay_ns;
  uint64_t rate; /* bytes a second; 0: not limited */
  uint64_t room; /* pieces of a queue under way; 0: not limited */
  char fail[16]; /* the operation that fails */
  uint64_t left; /* calls of it until it does */
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* anything at all; on CLOCK_MONOTONIC */
  struct late_region *regions;
  struct pst_queue *queues;
  uint32_t fences; /* not released */
};

struct pst_fence {
  uint32_t references; /* the caller's, and those of queued marks and waits */
  bool passed;
  bool failed;
  const atomic_int *native; /* NULL: of a queue */
};

enum late_work { LATE_COPY, LATE_FILL, LATE_VERIFY, LATE_MARK, LATE_WAIT };

/* A piece of a copy, or a payload in `destination`. */
struct late_piece {
  uint8_t *source;
  uint8_t *destination;
  uint64_t length;
  uint64_t sequence;
  uint64_t checksum;              /* of the source at submission, when `watched` */
  bool watched;                   /* the source is the CPU's to spoil */
  struct late_region *regions[2]; /* of source and destination; NULL: foreign */
};

struct late_job {
  struct late_job *next;
  enum late_work work;
  uint64_t ticket;
  uint64_t due_ns;
  uint64_t seed;
  uint64_t bytes;
  struct pst_fence *fence; /* MARK, WAIT */
  /* Host memory that this job will write: a later copy may find it changed. */
  uintptr_t written_low, written_high;
  uint32_t n;
  struct late_piece pieces[];
};

struct pst_queue {
  struct pst_queue *next;
  struct pst_memory *memory;
  uint32_t batches;
  uint32_t pieces;
  pthread_t thread;
  bool closing;
  bool failed;
  uint64_t submitted;
  uint64_t finished;
  uint64_t under_way;     /* pieces */
  struct late_job *first; /* under way or to come */
  struct late_job **last;
  struct pst_verify_result found;
  struct pst_verify_result reported;
};

#define late_error(memory, ...) (memory)->host->log((memory)->host, PST_LOG_ERROR, __VA_ARGS__)

/* region.c */
int late_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
void late_free_region(struct pst_memory *memory, struct pst_region *region);
int late_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
/* The region that holds all of the range, or NULL; `partly`: one holds some of
 * it. The mutex is held. */
struct late_region *late_region_find(const struct pst_memory *memory, uint64_t address,
                                     uint64_t length, bool *partly);

/* submit.c */
int late_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket);
int late_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
int late_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);

/* queue.c */
int late_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
void late_queue_close(struct pst_queue *queue);
int late_queue_poll(struct pst_queue *queue, uint64_t *done);
int late_verify_result(struct pst_queue *queue, struct pst_verify_result *result);
/* Hand a job to the queue's thread. The mutex is held. */
void late_queue_push(struct pst_queue *queue, struct late_job *job);

/* work.c: what a queue's thread does for a job, the mutex not held. False: a
 * watched source has changed; said in the log. */
bool late_work(const struct pst_memory *memory, const struct late_job *job,
               struct pst_verify_result *found);
uint64_t late_checksum(const uint8_t *bytes, uint64_t length);

/* fence.c */
int late_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
int late_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
int late_fence_query(struct pst_memory *memory, struct pst_fence *fence);
void late_fence_release(struct pst_memory *memory, struct pst_fence *fence);
/* One reference less. The mutex is held. */
void late_fence_drop(struct pst_fence *fence);

uint64_t late_now_ns(void);
/* This call of `operation` is the one to fail. The mutex is held. */
bool late_fails(struct pst_memory *memory, const char *operation);

#endif
