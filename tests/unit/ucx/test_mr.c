/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is registered with UCX, and memory that core stages instead. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "device.h"
#include "fake_host.h"
#include "mr.h"
#include "ops.h"

#include <cmocka.h>

#define GPU_ADDRESS 0x7f0000000000u
#define REGION_BYTES 65536u

static struct {
  uint32_t maps, unmaps;
  ucs_memory_type_t type;
  const void *address;
} fake;

/* These come before libucp's. */
ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
  (void)context;
  fake.maps++;
  fake.type = params->memory_type;
  fake.address = params->address;
  *memh = (ucp_mem_h)&fake;
  return UCS_OK;
}
ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
  (void)context;
  assert_ptr_equal(memh, &fake);
  fake.unmaps++;
  return UCS_OK;
}

static char bytes[REGION_BYTES];
static const struct pst_region on_gpu = {.struct_size = sizeof(on_gpu),
                                         .address = GPU_ADDRESS,
                                         .length = REGION_BYTES},
                               on_host = {.struct_size = sizeof(on_host),
                                          .address = 1,
                                          .host = bytes,
                                          .length = REGION_BYTES};

struct row {
  const char *transports;
  uint64_t direct_from, send_max;
  const struct pst_region *region;
  int rc;
  const char *word; /* in the reason */
};

/* Its own UCX has CUDA. */
static const struct row rows[] = {
    {"self tcp posix cuda_ipc", 0, 1462, &on_gpu, -EOPNOTSUPP, "out of a GPU"},
    {"self tcp posix cuda_ipc", 0, 1u << 30, &on_gpu, -EOPNOTSUPP, "without RDMA"},
    {"self rc_mlx5", 0, 1462, &on_gpu, -EOPNOTSUPP, "`direct_from` is 1048576"},
    {"self rc_mlx5", 0, 1u << 20, &on_gpu, 0, ""},
    {"self tcp posix cuda_ipc", 1u << 20, 1u << 20, &on_gpu, 0, ""},
    {"self tcp posix cuda_ipc", 1u << 20, (1u << 20) - 1, &on_gpu, -EOPNOTSUPP, "1048575 bytes"},
    /* A ring, and what WRITEs are read from: core cannot stage these here. */
    {"self tcp posix cuda_ipc", 0, 0, &on_gpu, 0, ""},
    {"self tcp posix cuda_ipc", 0, 1462, &on_host, 0, ""},
};

static int register_with(uint64_t memory_types, const struct row *row, struct pst_path_info *path)
{
  struct pst_device device = {
      .host = &fake_host, .memory_types = memory_types, .direct_from = row->direct_from};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = PST_ACCESS_LOCAL_READ,
                                       .region = row->region,
                                       .offset = 64,
                                       .length = REGION_BYTES - 64,
                                       .path = path,
                                       .send_max = row->send_max};
  struct pst_mr *mr = NULL;
  int rc;

  strcpy(device.transports, row->transports);
  memset(&fake, 0, sizeof(fake));
  *path = (struct pst_path_info){.struct_size = sizeof(*path)};
  rc = ucx_mr_register(&device, &params, &mr);
  if (rc < 0)
    assert_null(mr);
  else
    ucx_mr_deregister(&device, mr);
  return rc;
}

static void short_messages_out_of_a_gpu_are_staged(void **state)
{
  struct pst_path_info path;

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const struct row *row = &rows[i];
    assert_int_equal(register_with(UINT64_MAX, row, &path), row->rc);
    assert_non_null(strstr(path.reason, row->word));
    assert_int_equal(fake.maps, row->rc == 0);
    assert_int_equal(fake.unmaps, row->rc == 0);
    if (row->rc < 0)
      continue;
    assert_int_equal(path.path, PST_PATH_DIRECT);
    assert_int_equal(fake.type, row->region->host ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_CUDA);
    assert_int_equal((uintptr_t)fake.address,
                     (row->region->host ? (uintptr_t)bytes : GPU_ADDRESS) + 64);
  }
}

static void a_ucx_without_cuda_is_reported(void **state)
{
  const struct row row = {"self rc_mlx5", 0, 0, &on_gpu, -EOPNOTSUPP, "has no CUDA support"};
  struct pst_path_info path;

  (void)state;
  assert_int_equal(register_with(1u << UCS_MEMORY_TYPE_HOST, &row, &path), row.rc);
  assert_non_null(strstr(path.reason, row.word));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_messages_out_of_a_gpu_are_staged),
      cmocka_unit_test(a_ucx_without_cuda_is_reported),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
