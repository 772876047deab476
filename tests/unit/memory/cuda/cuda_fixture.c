/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of memory/cuda: cuda fixture. */
#include "cuda_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static struct pst_host host;
struct pst_memory *memory;
struct pst_queue *queue;
struct pst_region near, far;

static int library_open(const struct pst_host *self, const char *soname, void **handle)
{
  (void)self;
  *handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  return *handle ? 0 : -ENOENT;
}

struct pst_memory *open_cuda(const struct fake_option *options)
{
  struct pst_memory_params params = {sizeof(params), 0, FAKE_OPTIONS(options)};
  struct pst_memory *made = NULL;
  fake_log_clear();
  if (memory_ops()->open(&host, &params, &made) != 0)
    fail_msg("%s", fake_log());
  return made;
}

struct pst_region take(uint32_t purpose, uint64_t length)
{
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_alloc_params params = {
      .struct_size = sizeof(params), .purpose = purpose, .length = length, .label = "test"};
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), 0);
  return region;
}

struct pst_queue *queue_new(void)
{
  struct pst_queue_params params = {sizeof(params), 16, 512, 0};
  struct pst_queue *made = NULL;
  assert_int_equal(memory_ops()->queue_open(memory, &params, &made), 0);
  return made;
}

int setup(void **state)
{
  (void)state;
  memory = open_cuda(OPTIONS({"device", "0"}));
  queue = queue_new();
  near = take(PST_ALLOC_STAGING, LENGTH);
  far = take(PST_ALLOC_NORMAL, LENGTH);
  return 0;
}

int teardown(void **state)
{
  (void)state;
  memory_ops()->queue_close(queue);
  memory_ops()->free_region(memory, &near);
  memory_ops()->free_region(memory, &far);
  fake_log_clear();
  memory_ops()->close(memory);
  assert_string_equal(fake_log(), "");
  return 0;
}

void finish(struct pst_queue *on, uint64_t ticket)
{
  uint64_t done = 0;
  while (done < ticket) {
    assert_int_equal(memory_ops()->queue_poll(on, &done), 0);
    sched_yield();
  }
}

uint64_t copy(struct pst_queue *on, const struct pst_copy_row *pieces, uint32_t n)
{
  uint64_t ticket = 0;
  assert_int_equal(memory_ops()->copy_rows(on, pieces, n, &ticket), 0);
  return ticket;
}

const struct pst_host *cuda_host(void)
{
  return &host;
}

int cuda_absent(void)
{
  struct pst_probe probe = {.struct_size = sizeof(probe)};
  host = fake_host;
  host.library_open = library_open;
  if (pst_plugin_v1.probe(&host, &probe) == 0)
    return 0;
  fprintf(stderr, "%s; %s\n", probe.reason, probe.remedy);
  const char *required = getenv("PENSTOCK_REQUIRE");
  return required && strstr(required, "cuda") ? 1 : 77;
}
