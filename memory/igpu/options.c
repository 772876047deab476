/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin igpu, and its description. */
#include "options.h"
#include "igpu_options.h"

static const char *const caches[] = {"cached", "write_combined", NULL};

static const struct pst_option options[] = {
    CUDA_OPTION_DEVICE("the first that is integrated"),
    {
        .name = "cache",
        .help = "How the CPU maps the memory. `cached`: as usual; reads of the GPU snoop the "
                "CPU's caches. `write_combined`: uncached, so that the GPU need not snoop. The "
                "CPU then writes whole lines fast and reads slowly, and the memory cannot be "
                "shared with another process.",
        .default_value = "cached",
        .choices = caches,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "allow_discrete",
        .help = "`true`: accept a GPU with memory of its own, too. Its kernels then read each "
                "byte over PCIe; for such a GPU the memory plugin cuda is the right one.",
        .default_value = "false",
        .type = PST_OPTION_BOOL,
        .scope = PST_SCOPE_DEVICE,
    },
    CUDA_OPTION_COPIES,
};

static void igpu_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  cuda_check_device(check);
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
    .needs = CUDA_NEEDS,
    .rung = "hardware on a discrete GPU (H200), by allow_discrete; simulated: tests/fakes/cuda",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = igpu_options_check,
};
PST_DESCRIPTION(description);
