/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of the plugins' descriptions. */
#ifndef CUDA_OPTIONS_H
#define CUDA_OPTIONS_H

#include <penstock/memory.h>
#include <penstock/plugin.h>

#define CUDA_NEEDS "NVIDIA's driver for CUDA 11.7 or later; nvcc when Penstock is built"

/* `first`: which GPU it is when none is named. */
#define CUDA_OPTION_DEVICE(first)                                                                  \
  {                                                                                                \
    .name = "device",                                                                              \
    .help = "The GPU: an index (0), a UUID or its beginning (GPU-5f2a), or a PCI address in "      \
            "any form (b7:00.0, 0000:b7:00.0, 00000000:B7:00.0, any function). Empty: " first      \
            ". CUDA_VISIBLE_DEVICES hides and renumbers devices.",                                 \
    .default_value = "", .max = 95, .type = PST_OPTION_STRING, .scope = PST_SCOPE_DEVICE,          \
  }

/* In the order of enum cuda_copies. */
static const char *const cuda_option_copies[] = {"auto", "strided", "gather", "each", NULL};

#define CUDA_OPTION_COPIES                                                                         \
  {                                                                                                \
    .name = "copies",                                                                              \
    .help = "How batches of small copies are submitted. `auto`: contiguous pieces are "            \
            "merged, pieces of equal stride become one copy, and a gathering kernel copies "       \
            "all others. `strided`, `gather`: always that way, where possible. `each`: one "       \
            "cuMemcpyAsync for each piece, for comparison.",                                       \
    .default_value = "auto", .choices = cuda_option_copies, .type = PST_OPTION_ENUM,               \
    .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING,                                        \
  }

/* device_option.c: reports a `device` that names no GPU. */
void cuda_check_device(const struct pst_check *check);

#endif
