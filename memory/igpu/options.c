/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/memory.h>
#include <penstock/plugin.h>

#include "igpu_options.h"
#include "wanted.h"

static const char *const caches[] = {"cached", "write_combined", NULL};
static const char *const copies[] = {"auto", "strided", "gather", "each", NULL};

static const struct pst_option options[] = {
    {
        .name = "device",
        .help = "The GPU: an index (0), a UUID or its beginning (GPU-5f2a), or a PCI address in "
                "any form (b7:00.0, 0000:b7:00.0, 00000000:B7:00.0, any function). Empty: the "
                "first that is integrated. CUDA_VISIBLE_DEVICES hides and renumbers devices.",
        .default_value = "",
        .max = 95,
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "cache",
        .help = "How the CPU sees the memory. cached: as all memory; the GPU's reads look into "
                "the CPU's caches. write_combined: past the caches, so that the GPU need not; the "
                "CPU writes whole lines fast and reads slowly, and no other process can have it.",
        .default_value = "cached",
        .choices = caches,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "allow_discrete",
        .help = "true: a GPU with memory of its own will do, too. Its kernels then read every "
                "byte over PCIe; memory cuda is what such a GPU is for.",
        .default_value = "false",
        .type = PST_OPTION_BOOL,
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
  facts->memory_kinds = 1u << PST_MEMORY_MAPPED;
  facts->memory_lacks = PST_NEED_EXPORT_DMABUF;
  if (check->option_uint(check->options, "cache") == IGPU_WRITE_COMBINED)
    facts->memory_lacks |= PST_NEED_EXPORT_FD;
}

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "igpu",
    .version = "1.0",
    .summary = "Host memory that an integrated NVIDIA GPU maps: no copy between NIC and kernel",
    .needs = "NVIDIA's driver for CUDA 11.7 or later; nvcc when Penstock is built",
    .rung = "hardware on a discrete GPU (H200), by allow_discrete; simulated: tests/fakes/cuda",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = check_options,
};
PST_DESCRIPTION(description);
