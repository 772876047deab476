// SPDX-License-Identifier: Apache-2.0
// Attributes of devices and ports.
#include "front.h"

#include <errno.h>
#include <string.h>

static size_t front_query_least(size_t a, size_t b)
{
  return a < b ? a : b;
}

int front_query_device_ex(struct ibv_context *context,
                          const struct ibv_query_device_ex_input *input,
                          struct ibv_device_attr_ex *attr, size_t attr_len)
{
  struct ibv_device_attr_ex all;

  if (input && input->comp_mask)
    return EINVAL;
  memset(&all, 0, sizeof(all));
  int error = sim_query_device(sim_context_of(context), &all);
  if (error)
    return error;
  // A program built against a later verbs.h has more fields, one against an earlier less.
  memset(attr, 0, attr_len);
  memcpy(attr, &all, front_query_least(attr_len, sizeof(all)));
  return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
  struct ibv_device_attr_ex all;
  int error = front_query_device_ex(context, NULL, &all, sizeof(all));

  if (!error)
    *attr = all.orig_attr;
  return error;
}

int front_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                     size_t attr_len)
{
  struct ibv_port_attr all;

  memset(&all, 0, sizeof(all));
  int error = sim_query_port(sim_context_of(context), port, &all);
  if (error)
    return error;
  memset(attr, 0, attr_len);
  memcpy(attr, &all, front_query_least(attr_len, sizeof(all)));
  return 0;
}

// Programs built before verbs.h had the inline function pass the structure that ended here.
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
  return front_query_port(context, port, (struct ibv_port_attr *)attr,
                          offsetof(struct ibv_port_attr, port_cap_flags2));
}

int front_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
  if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
    return EOPNOTSUPP;
  uint64_t now_ns = sim_clock_ns(sim_context_of(context));
  // A tick of the device's clock is a nanosecond here.
  values->raw_clock.tv_sec = 0;
  values->raw_clock.tv_nsec = (long)now_ns;
  return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
  struct ibv_gid_entry found;

  if (flags || entry_size < sizeof(found))
    return EINVAL;
  memset(&found, 0, sizeof(found));
  int error = sim_query_gid(sim_context_of(context), port, index, &found);
  if (error)
    return error;
  memset(entry, 0, entry_size);
  memcpy(entry, &found, sizeof(found));
  return 0;
}

// As the kernel tells old callers: an empty entry is a GID of zeros.
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
  struct ibv_gid_entry entry;
  int error = EINVAL;

  memset(&entry, 0, sizeof(entry));
  if (index >= 0)
    error = sim_query_gid(sim_context_of(context), port, (unsigned)index, &entry);
  if (error && error != ENODATA)
    return SIM_FAIL(error, -1);
  *gid = entry.gid;
  return 0;
}

// The private interface of libibverbs, which librdmacm and pyverbs link to.
enum ibv_gid_type_sysfs {
  IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
  IBV_GID_TYPE_SYSFS_ROCE_V2,
};
SIM_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                                  enum ibv_gid_type_sysfs *type);

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
                       enum ibv_gid_type_sysfs *type)
{
  struct ibv_gid_entry entry;

  memset(&entry, 0, sizeof(entry));
  int error = sim_query_gid(sim_context_of(context), port, index, &entry);
  if (error && error != ENODATA)
    return SIM_FAIL(error, -1);
  bool second = !error && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
  *type = second ? IBV_GID_TYPE_SYSFS_ROCE_V2 : IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
  return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
  struct ibv_device_attr_ex device;
  size_t count = 0;

  if (flags || entry_size < sizeof(struct ibv_gid_entry))
    return -EINVAL;
  int error = front_query_device_ex(context, NULL, &device, sizeof(device));
  if (error)
    return -error;
  for (unsigned port = 1; port <= device.orig_attr.phys_port_cnt; port++) {
    struct ibv_port_attr attr;
    error = front_query_port(context, (uint8_t)port, &attr, sizeof(attr));
    for (int i = 0; !error && i < attr.gid_tbl_len; i++) {
      struct ibv_gid_entry entry;
      if (_ibv_query_gid_ex(context, port, (uint32_t)i, &entry, 0, sizeof(entry)))
        continue;
      if (count == max_entries)
        return -EINVAL;
      char *place = (char *)entries + count++ * entry_size;
      memset(place, 0, entry_size);
      memcpy(place, &entry, sizeof(entry));
    }
    if (error)
      return -error;
  }
  return (ssize_t)count;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
  int error =
      index < 0 ? EINVAL : sim_query_pkey(sim_context_of(context), port, (unsigned)index, pkey);

  return error ? SIM_FAIL(error, -1) : 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
  __be16 found;

  for (int i = 0; ibv_query_pkey(context, port, i, &found) == 0; i++) {
    if (found == pkey)
      return i;
  }
  return -1;
}
