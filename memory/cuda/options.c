/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin cuda, and its description. */
#include "options.h"

static const char *const allocators[] = {"malloc", "vmm", NULL};

static const struct pst_option options[] = {
    CUDA_OPTION_DEVICE("the first"),
    {
        .name = "allocator",
        .help = "How device memory is allocated. `malloc`: by cuMemAlloc, which every GPU has. "
                "`vmm`: by cuMemCreate and cuMemMap, with the flag for GPUDirect RDMA where "
                "the GPU has it.",
        .default_value = "malloc",
        .choices = allocators,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
    },
    CUDA_OPTION_COPIES,
};

static void cuda_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  cuda_check_device(check);
  facts->memory_kinds = 1u << PST_MEMORY_CUDA;
  facts->memory_lacks = PST_NEED_CPU_ACCESS;
}

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "cuda",
    .version = "1.0",
    .summary = "Memory of an NVIDIA GPU",
    .needs = CUDA_NEEDS,
    .rung = "hardware: tests/gpu/run, on an H100; without a GPU: tests/fakes/cuda",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = cuda_options_check,
};
PST_DESCRIPTION(description);
