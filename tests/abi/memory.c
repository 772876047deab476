/* SPDX-License-Identifier: Apache-2.0 */
/* A memory plugin of stubs: the header compiles and links alone. */
#define FIXTURE_KIND PST_KIND_MEMORY
#include "fixture.h"

static int stub_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  (void)host, (void)params, (void)memory;
  return -ENODEV;
}

static void stub_close(struct pst_memory *memory)
{
  (void)memory;
}

static int stub_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct pst_region *region)
{
  (void)memory, (void)params, (void)region;
  return -ENOMEM;
}

static void stub_free_region(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory, (void)region;
}

static int stub_flush(struct pst_memory *memory, const struct pst_region *region)
{
  (void)memory, (void)region;
  return 0;
}

extern const struct pst_memory_ops fixture_ops;
const struct pst_memory_ops fixture_ops = {
    .struct_size = FIXTURE_OPS_SIZE,
    .capabilities = FIXTURE_CAPABILITIES,
    .open = stub_open,
    .close = stub_close,
    .alloc = stub_alloc,
    .free_region = stub_free_region,
    .flush = stub_flush,
};

FIXTURE_PLUGIN();
