/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA context that is current while UCX makes progress. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "cuda.h"
#include "device.h"
#include "endpoint.h"
#include "fake_host.h"
#include "link.h"
#include "mr.h"
#include "ops.h"
#include "worker.h"

#include <cmocka.h>

#define GPU_ADDRESS 0x7f0000000000u
#define ORDINAL 3
#define DEVICE 5
#define REGION_BYTES 65536u

static struct {
  bool is_loaded;
  const char *missing; /* a function that this driver does not have */
  int status;          /* of cuPointerGetAttributes */
  int libraries, retained, depth, pushes, rounds;
} fake;

static char context;

static int pointer_attributes(unsigned int count, int *attributes, void **values, uint64_t address)
{
  assert_int_equal(count, 1);
  assert_int_equal(attributes[0], 9);
  assert_int_equal(address, GPU_ADDRESS + 64);
  *(int *)values[0] = ORDINAL;
  return fake.status;
}
static int device_get(int *device, int ordinal)
{
  assert_int_equal(ordinal, ORDINAL);
  *device = DEVICE;
  return 0;
}
static int retain(void **made, int device)
{
  assert_int_equal(device, DEVICE);
  fake.retained++;
  *made = &context;
  return 0;
}
static int release(int device)
{
  assert_int_equal(device, DEVICE);
  fake.retained--;
  return 0;
}
static int push(void *pushed)
{
  assert_ptr_equal(pushed, &context);
  fake.depth++;
  fake.pushes++;
  return 0;
}
static int pop(void **popped)
{
  *popped = &context;
  fake.depth--;
  return 0;
}

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *library, const char *name);
int __wrap_dlclose(void *library);

void *__wrap_dlopen(const char *name, int flags)
{
  assert_string_equal(name, "libcuda.so.1");
  assert_true(flags & RTLD_NOLOAD);
  fake.libraries += fake.is_loaded;
  return fake.is_loaded ? &fake : NULL;
}
int __wrap_dlclose(void *library)
{
  assert_ptr_equal(library, &fake);
  fake.libraries--;
  return 0;
}
void *__wrap_dlsym(void *library, const char *name)
{
  static const struct {
    const char *name;
    void *call;
  } calls[] = {
      {"cuPointerGetAttributes", pointer_attributes},
      {"cuDeviceGet", device_get},
      {"cuDevicePrimaryCtxRetain", retain},
      {"cuDevicePrimaryCtxRelease_v2", release},
      {"cuCtxPushCurrent_v2", push},
      {"cuCtxPopCurrent_v2", pop},
  };

  assert_ptr_equal(library, &fake);
  if (fake.missing && strcmp(name, fake.missing) == 0)
    return NULL;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    if (strcmp(name, calls[i].name) == 0)
      return calls[i].call;
  return NULL;
}

/* These come before libucp's. */
ucs_status_t ucp_mem_map(ucp_context_h ucp, const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
  (void)ucp, (void)params;
  *memh = (ucp_mem_h)&fake;
  return UCS_OK;
}
ucs_status_t ucp_mem_unmap(ucp_context_h ucp, ucp_mem_h memh)
{
  (void)ucp, (void)memh;
  return UCS_OK;
}

unsigned ucp_worker_progress(ucp_worker_h ucp)
{
  (void)ucp;
  fake.rounds++;
  assert_int_equal(fake.depth, 1);
  return 0;
}

static char bytes[REGION_BYTES];
static const struct pst_region on_gpu = {.struct_size = sizeof(on_gpu),
                                         .address = GPU_ADDRESS,
                                         .length = REGION_BYTES},
                               on_host = {.struct_size = sizeof(on_host),
                                          .address = 1,
                                          .host = bytes,
                                          .length = REGION_BYTES};

static struct pst_mr *register_region(struct pst_device *device, const struct pst_region *region)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = PST_ACCESS_LOCAL_READ,
                                       .region = region,
                                       .offset = 64,
                                       .length = REGION_BYTES - 64,
                                       .path = &path};
  struct pst_mr *mr;

  assert_int_equal(ucx_mr_register(device, &params, &mr), 0);
  return mr;
}

static int reset(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  fake.is_loaded = true;
  return 0;
}

/* A poll enters and leaves the context; how often. */
static int pushes_of_a_poll(struct pst_device *device)
{
  struct pst_worker worker = {.device = device, .sleep_fd = -1, .watch_fd = -1};
  struct pst_completion completion;
  const int before = fake.pushes;

  worker.idle_turns = 1; /* no look at the clock */
  assert_int_equal(ucx_poll(&worker, &completion, 1), 0);
  assert_int_equal(fake.depth, 0);
  return fake.pushes - before;
}

static void post_makes_progress_in_it(struct pst_device *device)
{
  struct pst_worker worker = {.device = device};
  struct ucx_link link = {.stage.name = UCX_JOINED, .worker = &worker, .ams_under_way = 1};
  struct pst_endpoint endpoint = {
      .cpu.state = PST_CPU_UP, .cpu.params.requests = 1, .worker = &worker, .link = &link};
  uint32_t wait;

  assert_int_equal(ucx_post(&endpoint, NULL, 0, &wait), 0);
  assert_int_equal(fake.rounds, 1);
  assert_int_equal(fake.depth, 0);
}

static void it_is_current_once_a_gpus_memory_is_registered(void **state)
{
  struct pst_device device = {.host = &fake_host, .memory_types = UINT64_MAX};

  (void)state;
  struct pst_mr *host = register_region(&device, &on_host);
  assert_null(device.cuda);
  assert_int_equal(pushes_of_a_poll(&device), 0);
  struct pst_mr *first = register_region(&device, &on_gpu);
  struct pst_mr *second = register_region(&device, &on_gpu);
  assert_non_null(device.cuda);
  assert_int_equal(fake.retained, 1);
  assert_int_equal(pushes_of_a_poll(&device), 1);
  post_makes_progress_in_it(&device);
  ucx_mr_deregister(&device, first);
  ucx_mr_deregister(&device, second);
  ucx_mr_deregister(&device, host);
  ucx_cuda_close(device.cuda);
  assert_int_equal(fake.retained, 0);
  assert_int_equal(fake.libraries, 0);
}

static void ucx_does_without(void **state)
{
  static const char *const missing[] = {"cuPointerGetAttributes", "cuCtxPopCurrent_v2"};

  (void)state;
  fake.is_loaded = false;
  assert_null(ucx_cuda_open(GPU_ADDRESS + 64));
  fake.is_loaded = true;
  for (size_t i = 0; i < 2; i++) {
    fake.missing = missing[i];
    assert_null(ucx_cuda_open(GPU_ADDRESS + 64));
  }
  fake.missing = NULL;
  fake.status = 201; /* CUDA_ERROR_INVALID_CONTEXT: the address is not CUDA's */
  assert_null(ucx_cuda_open(GPU_ADDRESS + 64));
  assert_int_equal(fake.retained, 0);
  assert_int_equal(fake.libraries, 0);
  ucx_cuda_close(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(it_is_current_once_a_gpus_memory_is_registered, reset),
      cmocka_unit_test_setup(ucx_does_without, reset),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
