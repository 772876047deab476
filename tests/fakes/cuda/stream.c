/* SPDX-License-Identifier: Apache-2.0 */
/* The fake CUDA driver: streams and events. */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t time_ns)
{
  struct timespec t = {(time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
    ;
}

static bool copy_rows(const struct cuda_copy_2d *copy)
{
  for (size_t row = 0; row < copy->height; row++) {
    uint64_t from = copy->source_device + row * copy->source_pitch;
    uint64_t to = copy->destination_device + row * copy->destination_pitch;
    uint8_t *source = fake_reach(from, copy->width);
    uint8_t *destination = fake_reach(to, copy->width);
    /* Pageable memory: whoever submitted it waits. */
    source = source ? source : (uint8_t *)(uintptr_t)copy->source_host;
    destination = destination ? destination : copy->destination_host;
    if (!source || !destination)
      return false;
    memmove(destination, source, copy->width);
    fake_spoil(destination, copy->width);
  }
  return true;
}

void fake_job_ranges(const struct fake_job *job, fake_visit *visit, void *context)
{
  const struct cuda_copy_2d *copy = &job->copy;
  if (job->work == FAKE_GATE) {
    visit(context, job->address, sizeof(job->value), false);
    return;
  }
  if (job->work == FAKE_KERNEL) {
    job->function->ranges(job->args, visit, context);
    return;
  }
  for (size_t row = 0; row < copy->height; row++) {
    visit(context, copy->source_device + row * copy->source_pitch, copy->width, false);
    visit(context, copy->destination_device + row * copy->destination_pitch, copy->width, true);
  }
}

/* Ranges that were written, to be told of when the mutex is free. */
struct written {
  struct written *next;
  uint64_t address, length;
};

static void note_written(void *context, uint64_t address, uint64_t length, bool writes)
{
  struct written **list = context, *one = writes ? malloc(sizeof(*one)) : NULL;
  if (!one)
    return;
  *one = (struct written){*list, address, length};
  *list = one;
}

static void tell_written(const struct fake_job *job)
{
  struct written *list = NULL, *next;
  pthread_mutex_lock(&fake.mutex);
  fake_job_ranges(job, note_written, &list);
  pthread_mutex_unlock(&fake.mutex);
  for (; list; list = next) {
    next = list->next;
    fake_wrote(list->address, list->length);
    free(list);
  }
}

static void run(struct fake_job *job)
{
  bool right = job->work == FAKE_KERNEL ? job->function->run(job->args) : copy_rows(&job->copy);
  if (right && fake_config.late_writes)
    tell_written(job);
  if (right)
    return;
  pthread_mutex_lock(&fake.mutex);
  fake.lost = fake.lost ? fake.lost : CUDA_ILLEGAL_ADDRESS;
  pthread_mutex_unlock(&fake.mutex);
}

/* The mutex is held. */
static void event_drop(cuda_event event)
{
  if (--event->under_way == 0 && event->destroyed)
    free(event);
}

/* The mutex is held. */
static void finish(cuda_stream stream, struct fake_job *job)
{
  if (job->work == FAKE_MARK && job->event->done < job->generation)
    job->event->done = job->generation;
  if (job->event)
    event_drop(job->event);
  stream->first = job->next;
  if (!stream->first)
    stream->last = &stream->first;
  free(job);
  pthread_cond_broadcast(&fake.changed);
}

/* The mutex is held, but while it looks and sleeps. */
static void pass_gate(const struct fake_job *job)
{
  bool open = false;
  while (!open && !fake.lost) {
    const uint32_t *word = (const uint32_t *)fake_bytes(job->address, sizeof(*word));
    open = !word || __atomic_load_n(word, __ATOMIC_ACQUIRE) >= job->value;
    pthread_mutex_unlock(&fake.mutex);
    if (!open)
      sleep_until(now_ns() + 100000);
    pthread_mutex_lock(&fake.mutex);
  }
}

static void *work(void *argument)
{
  cuda_stream stream = argument;
  pthread_mutex_lock(&fake.mutex);
  for (;;) {
    struct fake_job *job = stream->first;
    if (!job && stream->closing)
      break;
    if (!job) {
      pthread_cond_wait(&fake.changed, &fake.mutex);
      continue;
    }
    if (job->work == FAKE_WAIT) {
      while (job->event->done < job->generation && !fake.lost)
        pthread_cond_wait(&fake.changed, &fake.mutex);
    } else if (job->work == FAKE_GATE) {
      pass_gate(job);
    } else if (job->work == FAKE_KERNEL && fake.kernels < job->group && !fake.lost) {
      pthread_cond_wait(&fake.changed, &fake.mutex);
      continue;
    } else if (job->work != FAKE_MARK && !fake.lost) {
      pthread_mutex_unlock(&fake.mutex);
      sleep_until(job->due_ns);
      run(job);
      pthread_mutex_lock(&fake.mutex);
    }
    finish(stream, job);
  }
  struct CUstream_st **at = &fake.streams;
  while (*at != stream)
    at = &(*at)->next;
  *at = stream->next;
  free(stream);
  pthread_mutex_unlock(&fake.mutex);
  return NULL;
}

cuda_status fake_StreamCreate(cuda_stream *stream, unsigned int flags)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (flags & ~CUDA_STREAM_NON_BLOCKING)
    return CUDA_INVALID_VALUE;
  cuda_stream made = calloc(1, sizeof(*made));
  if (!made)
    return CUDA_OUT_OF_MEMORY;
  made->context = fake_current();
  made->last = &made->first;
  if (pthread_create(&made->thread, NULL, work, made) != 0) {
    free(made);
    return CUDA_OPERATING_SYSTEM;
  }
  pthread_mutex_lock(&fake.mutex);
  made->next = fake.streams;
  fake.streams = made;
  pthread_mutex_unlock(&fake.mutex);
  *stream = made;
  return CUDA_SUCCESS;
}

/* Does not wait for the stream's work: the stream's thread frees the stream after it. */
cuda_status fake_StreamDestroy(cuda_stream stream)
{
  pthread_mutex_lock(&fake.mutex);
  pthread_t thread = stream->thread;
  bool idle = !stream->first;
  stream->closing = true;
  pthread_cond_broadcast(&fake.changed);
  pthread_mutex_unlock(&fake.mutex);
  if (idle)
    pthread_join(thread, NULL);
  else
    pthread_detach(thread);
  return CUDA_SUCCESS;
}

cuda_status fake_StreamSynchronize(cuda_stream stream)
{
  pthread_mutex_lock(&fake.mutex);
  while (stream->first)
    pthread_cond_wait(&fake.changed, &fake.mutex);
  cuda_status status = fake.lost;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

/* ---- Submitting ------------------------------------------------------------------ */

/* The mutex is held. */
static void push(cuda_stream stream, struct fake_job *job)
{
  job->due_ns = now_ns() + fake_config.delay_ns;
  *stream->last = job;
  stream->last = &job->next;
  pthread_cond_broadcast(&fake.changed);
}

static cuda_status submit(cuda_stream stream, const struct fake_job *like)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (!stream || stream->context != fake_current())
    return CUDA_INVALID_CONTEXT;
  struct fake_job *job = malloc(sizeof(*job));
  if (!job)
    return CUDA_OUT_OF_MEMORY;
  *job = *like;
  pthread_mutex_lock(&fake.mutex);
  if (++fake.submitted == fake_config.lost_after)
    fake.lost = CUDA_LAUNCH_FAILED;
  if (job->work == FAKE_KERNEL)
    job->group = (fake.kernels++ / fake_config.together + 1) * fake_config.together;
  push(stream, job);
  status = fake.lost;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

/* Whether a side of a copy is all in one range, in none, or across the edge of one, which the
 * driver refuses. */
enum side { APART, WITHIN, ACROSS };
static enum side side_of(uint64_t address, uint64_t pitch, const struct cuda_copy_2d *copy)
{
  uint64_t end = address + (copy->height - 1) * pitch + copy->width;
  enum side side = APART;
  pthread_mutex_lock(&fake.mutex);
  for (struct fake_range *r = fake.ranges; r; r = r->next)
    if (address >= r->address && end <= r->address + r->length)
      side = WITHIN;
    else if (address < r->address + r->length && end > r->address && side == APART)
      side = ACROSS;
  pthread_mutex_unlock(&fake.mutex);
  return side;
}

/* Pageable memory makes a copy wait for its end, as the driver's own buffer does. */
static cuda_status submit_copy(struct fake_job *job, cuda_stream stream)
{
  struct cuda_copy_2d *copy = &job->copy;
  if (fake_config.no_copies)
    return CUDA_NOT_PERMITTED;
  pthread_mutex_lock(&fake.mutex);
  copy->source_device = fake_seen(copy->source_device);
  copy->destination_device = fake_seen(copy->destination_device);
  pthread_mutex_unlock(&fake.mutex);
  enum side source = side_of(copy->source_device, copy->source_pitch, copy);
  enum side destination = side_of(copy->destination_device, copy->destination_pitch, copy);
  if (source + destination == APART || source == ACROSS || destination == ACROSS)
    return CUDA_INVALID_VALUE;
  bool pageable = source == APART || destination == APART;
  if (source == APART)
    copy->source_host = (const void *)(uintptr_t)copy->source_device;
  if (destination == APART)
    copy->destination_host = (void *)(uintptr_t)copy->destination_device;
  if (pageable && copy->height > 1)
    return CUDA_NOT_SUPPORTED;
  cuda_status status = submit(stream, job);
  return status == CUDA_SUCCESS && pageable ? fake_StreamSynchronize(stream) : status;
}

cuda_status fake_MemcpyAsync(cuda_pointer destination, cuda_pointer source, size_t length,
                             cuda_stream stream)
{
  struct fake_job job = {.work = FAKE_COPY,
                         .copy = {.source_device = source,
                                  .destination_device = destination,
                                  .width = length,
                                  .height = 1}};
  return submit_copy(&job, stream);
}

cuda_status fake_Memcpy2DAsync(const struct cuda_copy_2d *copy, cuda_stream stream)
{
  struct fake_job job = {.work = FAKE_COPY_2D, .copy = *copy};
  if (copy->source_type != CUDA_MEMORYTYPE_UNIFIED ||
      copy->destination_type != CUDA_MEMORYTYPE_UNIFIED || copy->source_pitch < copy->width ||
      copy->destination_pitch < copy->width || copy->source_x || copy->source_y ||
      copy->destination_x || copy->destination_y || copy->height == 0)
    return CUDA_INVALID_VALUE;
  return submit_copy(&job, stream);
}

cuda_status fake_LaunchKernel(cuda_function function, unsigned int grid_x, unsigned int grid_y,
                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                              unsigned int block_z, unsigned int shared, cuda_stream stream,
                              void **params, void **extra)
{
  struct fake_job job = {.work = FAKE_KERNEL, .function = function};
  if (grid_x == 0 || grid_y == 0 || grid_y > 65535 || grid_z != 1 || block_x == 0 ||
      block_x > 1024 || block_y != 1 || block_z != 1 || shared || extra)
    return CUDA_INVALID_VALUE;
  if (fake_config.no_copies && strcmp(function->name, "pst_gather") == 0)
    return CUDA_NOT_PERMITTED;
  memcpy(job.args, params[0], function->args_size);
  return submit(stream, &job);
}

cuda_status fake_stream_gate(cuda_stream stream, uint64_t address, uint32_t value)
{
  struct fake_job job = {.work = FAKE_GATE, .address = address, .value = value};
  return address % sizeof(value) || !fake_reach(address, sizeof(value)) ? CUDA_INVALID_VALUE
                                                                        : submit(stream, &job);
}

/* ---- Events ----------------------------------------------------------------------- */

cuda_status fake_EventCreate(cuda_event *event, unsigned int flags)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (flags & ~(CUDA_EVENT_BLOCKING_SYNC | CUDA_EVENT_DISABLE_TIMING))
    return CUDA_INVALID_VALUE;
  *event = calloc(1, sizeof(**event));
  return *event ? CUDA_SUCCESS : CUDA_OUT_OF_MEMORY;
}

cuda_status fake_EventDestroy(cuda_event event)
{
  pthread_mutex_lock(&fake.mutex);
  event->destroyed = true;
  event->under_way++;
  event_drop(event);
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}

static cuda_status push_event(cuda_stream stream, cuda_event event, enum fake_work kind)
{
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (!stream || stream->context != fake_current())
    return CUDA_INVALID_HANDLE;
  struct fake_job *job = calloc(1, sizeof(*job));
  if (!job)
    return CUDA_OUT_OF_MEMORY;
  job->work = kind;
  job->event = event;
  pthread_mutex_lock(&fake.mutex);
  job->generation = kind == FAKE_MARK ? ++event->recorded : event->recorded;
  event->under_way++;
  push(stream, job);
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}

cuda_status fake_EventRecord(cuda_event event, cuda_stream stream)
{
  return push_event(stream, event, FAKE_MARK);
}

cuda_status fake_StreamWaitEvent(cuda_stream stream, cuda_event event, unsigned int flags)
{
  return flags ? CUDA_INVALID_VALUE : push_event(stream, event, FAKE_WAIT);
}

cuda_status fake_EventQuery(cuda_event event)
{
  pthread_mutex_lock(&fake.mutex);
  cuda_status status = fake.lost                        ? fake.lost
                       : event->done >= event->recorded ? CUDA_SUCCESS
                                                        : CUDA_NOT_READY;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

cuda_status fake_EventSynchronize(cuda_event event)
{
  pthread_mutex_lock(&fake.mutex);
  while (event->done < event->recorded && !fake.lost)
    pthread_cond_wait(&fake.changed, &fake.mutex);
  cuda_status status = fake.lost;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}
