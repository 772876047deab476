/* SPDX-License-Identifier: Apache-2.0 */
/* The template, as it would go on under a later minor: more calls, capabilities and
 * fields than the host may know of. */
#include <penstock/memory.h>

/* It exports a table of this file's. */
#undef PST_PLUGIN
#define PST_PLUGIN(probe_, ops_) PST_STATIC_ASSERT(sizeof(ops) == sizeof(*(ops_)), "its table")
#include "template.c"

static int later_call(void *object, uint64_t argument)
{
  (void)object, (void)argument;
  return 0;
}

/* What the host's minor does not have reads as zero, and has no room. */
static int later_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                       struct pst_region *region)
{
  struct pst_region made = {.struct_size = sizeof(made)};
  struct pst_alloc_params read;
  pst_struct_read(&read, sizeof(read), params);
  for (int i = 0; i < 3; i++)
    if (read.later[i])
      return refuse(memory->host, "what the host did not write is not zero");
  int rc = ops.alloc(memory, &read, &made);
  memset(made.later, 0xff, sizeof(made.later));
  if (rc == 0)
    pst_struct_write(region, &made, sizeof(made));
  return rc;
}

static struct pst_memory_ops later_ops;

__attribute__((constructor)) static void later_fill(void)
{
  later_ops = ops;
  later_ops.capabilities |= PST_MEMORY_CAP_LATER;
  later_ops.alloc = later_alloc;
  later_ops.later = later_call;
}

PST_PLUGIN_EXTERN const struct pst_plugin pst_plugin_v1 = {.struct_size = sizeof(pst_plugin_v1),
                                                           .abi_minor = PST_ABI_MINOR,
                                                           .description = &pst_description_v1,
                                                           .probe = probe,
                                                           .ops = &later_ops};
