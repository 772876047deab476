/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/memory.h>
#include <penstock/plugin.h>

#include "wanted.h"

static const char *const allocators[] = {"malloc", "vmm", NULL};
static const char *const copies[] = {"auto", "strided", "gather", "each", NULL};

static const struct pst_option options[] = {
    {
        .name = "device",
        .help = "The GPU: an index (0), a UUID or its beginning (GPU-5f2a), or a PCI address in "
                "any form (b7:00.0, 0000:b7:00.0, 00000000:B7:00.0, any function). Empty: the "
                "first. CUDA_VISIBLE_DEVICES hides and renumbers devices.",
        .default_value = "",
        .max = 95,
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "allocator",
        .help = "What device memory is made of. malloc: cuMemAlloc, which every GPU has. vmm: "
                "cuMemCreate and cuMemMap, made for GPUDirect RDMA where the GPU offers that.",
        .default_value = "malloc",
        .choices = allocators,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "copies",
        .help = "How batches of small copies are submitted. auto: contiguous pieces merged, equal "
                "strides as one copy, anything else by a kernel that gathers. strided, gather: "
                "always so, where possible. each: one cuMemcpyAsync a piece, to compare with.",
        .default_value = "auto",
        .choices = copies,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
        .flags = PST_OPTION_TESTING,
    },
};

static void check_options(const struct pst_check *check, struct pst_facts *facts)
{
  const char *device = check->option_string(check->options, "device");
  struct cuda_wanted wanted;

  if (!cuda_wanted_parse(device, &wanted))
    check->report(check, "device", "\"%s\" is %s", device, cuda_wanted_refusal(device));
  facts->memory_kinds = 1u << PST_MEMORY_CUDA;
  facts->memory_lacks = PST_NEED_CPU_ACCESS | PST_NEED_EXPORT_FD;
}

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "cuda",
    .version = "1.0",
    .summary = "Memory of an NVIDIA GPU",
    .needs = "NVIDIA's driver for CUDA 11.7 or later; nvcc when Penstock is built",
    .rung = "hardware: tests/gpu/run, on an H100; without a GPU: tests/fakes/cuda",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = check_options,
};
PST_DESCRIPTION(description);
