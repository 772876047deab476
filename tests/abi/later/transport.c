/* SPDX-License-Identifier: Apache-2.0 */
/* The template, as it would go on under a later minor: more calls, capabilities and
 * limits than the host may know of. */
#include <penstock/transport.h>

/* It exports a table of this file's. */
#undef PST_PLUGIN
#define PST_PLUGIN(probe_, ops_) PST_STATIC_ASSERT(sizeof(ops) == sizeof(*(ops_)), "its table")
#include "template.c"

static int later_call(void *object, uint64_t argument)
{
  (void)object, (void)argument;
  return 0;
}

/* What the host's minor does not have reads as zero. */
static int later_open(const struct pst_host *host, const struct pst_open_params *params,
                      struct pst_device **device)
{
  struct pst_open_params read;
  struct pst_plan plan;
  pst_struct_read(&read, sizeof(read), params);
  pst_struct_read(&plan, sizeof(plan), read.plan);
  for (int i = 0; i < 3; i++)
    if (read.later[i] || plan.later[i])
      return -EINVAL;
  return ops.open(host, params, device);
}

static int later_limits(struct pst_device *device, struct pst_limits *limits)
{
  struct pst_limits made = {.struct_size = sizeof(made)};
  int rc = ops.limits(device, &made);
  made.capabilities |= PST_CAP_LATER;
  memset(made.later, 0xff, sizeof(made.later));
  if (rc == 0)
    pst_struct_write(limits, &made, sizeof(made));
  return rc;
}

static int later_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  struct pst_path_info made = {.struct_size = sizeof(made)};
  int rc = ops.endpoint_path(endpoint, &made);
  memset(made.later, 0xff, sizeof(made.later));
  if (rc == 0)
    pst_struct_write(path, &made, sizeof(made));
  return rc;
}

static struct pst_transport_ops later_ops;

__attribute__((constructor)) static void later_fill(void)
{
  later_ops = ops;
  later_ops.capabilities |= PST_CAP_LATER;
  later_ops.open = later_open;
  later_ops.limits = later_limits;
  later_ops.endpoint_path = later_endpoint_path;
  later_ops.later = later_call;
}

PST_PLUGIN_EXTERN const struct pst_plugin pst_plugin_v1 = {.struct_size = sizeof(pst_plugin_v1),
                                                           .abi_minor = PST_ABI_MINOR,
                                                           .description = &pst_description_v1,
                                                           .probe = probe,
                                                           .ops = &later_ops};
