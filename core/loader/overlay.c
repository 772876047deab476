/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of "a call that is NULL is -EOPNOTSUPP":
 * a plugin's ops over a full table of refusals, so that no caller tests a pointer,
 * in the hot path least of all. */
#include "internal.h"

#include <errno.h>
#include <string.h>

/* One refusal each, of the op's own type: calling through another one is undefined. */
#define IGNORE1(name_, a_)                                                                         \
  static void no_##name_(a_ a)                                                                     \
  {                                                                                                \
    (void)a;                                                                                       \
  }
#define IGNORE2(name_, a_, b_)                                                                     \
  static void no_##name_(a_ a, b_ b)                                                               \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
  }
#define IGNORE3(name_, a_, b_, c_)                                                                 \
  static void no_##name_(a_ a, b_ b, c_ c)                                                         \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
  }
#define REFUSE1(name_, a_)                                                                         \
  static int no_##name_(a_ a)                                                                      \
  {                                                                                                \
    (void)a;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }
#define REFUSE2(name_, a_, b_)                                                                     \
  static int no_##name_(a_ a, b_ b)                                                                \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }
#define REFUSE3(name_, a_, b_, c_)                                                                 \
  static int no_##name_(a_ a, b_ b, c_ c)                                                          \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }
#define REFUSE4(name_, a_, b_, c_, d_)                                                             \
  static int no_##name_(a_ a, b_ b, c_ c, d_ d)                                                    \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
    (void)d;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }
#define REFUSE5(name_, a_, b_, c_, d_, e_)                                                         \
  static int no_##name_(a_ a, b_ b, c_ c, d_ d, e_ e)                                              \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
    (void)d;                                                                                       \
    (void)e;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }
#define REFUSE6(name_, a_, b_, c_, d_, e_, f_)                                                     \
  static int no_##name_(a_ a, b_ b, c_ c, d_ d, e_ e, f_ f)                                        \
  {                                                                                                \
    (void)a;                                                                                       \
    (void)b;                                                                                       \
    (void)c;                                                                                       \
    (void)d;                                                                                       \
    (void)e;                                                                                       \
    (void)f;                                                                                       \
    return -EOPNOTSUPP;                                                                            \
  }

/* clang-format off */
REFUSE3(transport_open, const struct pst_host *, const struct pst_open_params *, struct pst_device **)
IGNORE1(transport_close, struct pst_device *)
REFUSE2(transport_limits, struct pst_device *, struct pst_limits *)
REFUSE3(transport_mr_register, struct pst_device *, const struct pst_mr_params *, struct pst_mr **)
IGNORE2(transport_mr_deregister, struct pst_device *, struct pst_mr *)
REFUSE3(transport_mr_pack, struct pst_device *, struct pst_mr *, struct pst_blob *)
REFUSE3(transport_remote_open, struct pst_endpoint *, const struct pst_blob *, struct pst_remote **)
IGNORE2(transport_remote_close, struct pst_endpoint *, struct pst_remote *)
REFUSE3(transport_worker_open, struct pst_device *, uint32_t, struct pst_worker **)
IGNORE1(transport_worker_close, struct pst_worker *)
REFUSE1(transport_arm, struct pst_worker *)
REFUSE1(transport_event_fd, struct pst_worker *)
REFUSE4(transport_ring_open, struct pst_worker *, const struct pst_ring_params *, struct pst_path_info *, struct pst_ring **)
IGNORE2(transport_ring_close, struct pst_worker *, struct pst_ring *)
REFUSE3(transport_endpoint_open, struct pst_worker *, const struct pst_endpoint_params *, struct pst_endpoint **)
REFUSE2(transport_endpoint_address, struct pst_endpoint *, struct pst_blob *)
REFUSE2(transport_endpoint_connect, struct pst_endpoint *, const struct pst_blob *)
REFUSE2(transport_endpoint_path, struct pst_endpoint *, struct pst_path_info *)
REFUSE4(transport_post, struct pst_endpoint *, const struct pst_request *, uint32_t, uint32_t *)
REFUSE3(transport_poll, struct pst_worker *, struct pst_completion *, uint32_t)
REFUSE3(transport_release, struct pst_worker *, const uint64_t *, uint32_t)
REFUSE5(transport_counters, struct pst_device *, struct pst_worker *, struct pst_endpoint *, struct pst_counter *, uint32_t)
REFUSE3(transport_describe, struct pst_endpoint *, char *, size_t)
REFUSE1(transport_start, struct pst_device *)
REFUSE3(transport_endpoint_close, struct pst_endpoint *, uint32_t, uint64_t)

/* clang-format on */
static const struct pst_transport_ops no_transport = {
    .struct_size = sizeof(struct pst_transport_ops),
    .open = no_transport_open,
    .close = no_transport_close,
    .limits = no_transport_limits,
    .mr_register = no_transport_mr_register,
    .mr_deregister = no_transport_mr_deregister,
    .mr_pack = no_transport_mr_pack,
    .remote_open = no_transport_remote_open,
    .remote_close = no_transport_remote_close,
    .worker_open = no_transport_worker_open,
    .worker_close = no_transport_worker_close,
    .arm = no_transport_arm,
    .event_fd = no_transport_event_fd,
    .ring_open = no_transport_ring_open,
    .ring_close = no_transport_ring_close,
    .endpoint_open = no_transport_endpoint_open,
    .endpoint_address = no_transport_endpoint_address,
    .endpoint_connect = no_transport_endpoint_connect,
    .endpoint_path = no_transport_endpoint_path,
    .post = no_transport_post,
    .poll = no_transport_poll,
    .release = no_transport_release,
    .counters = no_transport_counters,
    .describe = no_transport_describe,
    .start = no_transport_start,
    .endpoint_close = no_transport_endpoint_close,
};

/* clang-format off */
REFUSE3(memory_open, const struct pst_host *, const struct pst_memory_params *, struct pst_memory **)
IGNORE1(memory_close, struct pst_memory *)
REFUSE2(memory_describe, struct pst_memory *, struct pst_memory_info *)
REFUSE3(memory_alloc, struct pst_memory *, const struct pst_alloc_params *, struct pst_region *)
IGNORE2(memory_free_region, struct pst_memory *, struct pst_region *)
REFUSE3(memory_host_register, struct pst_memory *, void *, uint64_t)
IGNORE3(memory_host_unregister, struct pst_memory *, void *, uint64_t)
REFUSE6(memory_export_region, struct pst_memory *, const struct pst_region *, uint32_t, uint64_t, uint64_t, struct pst_export *)
REFUSE3(memory_import_region, struct pst_memory *, const struct pst_export *, struct pst_region *)
REFUSE3(memory_queue_open, struct pst_memory *, const struct pst_queue_params *, struct pst_queue **)
IGNORE1(memory_queue_close, struct pst_queue *)
REFUSE2(memory_queue_poll, struct pst_queue *, uint64_t *)
REFUSE2(memory_verify_result, struct pst_queue *, struct pst_verify_result *)
REFUSE4(memory_fence_record, struct pst_memory *, struct pst_queue *, void *, struct pst_fence **)
REFUSE4(memory_fence_wait, struct pst_memory *, struct pst_fence *, struct pst_queue *, void *)
REFUSE2(memory_fence_query, struct pst_memory *, struct pst_fence *)
IGNORE2(memory_fence_release, struct pst_memory *, struct pst_fence *)
REFUSE2(memory_flush, struct pst_memory *, const struct pst_region *)
REFUSE4(memory_sum_batch, struct pst_queue *, struct pst_sum *, uint32_t, uint64_t *)
REFUSE3(memory_adopt_region, struct pst_memory *, const struct pst_adopt_params *, struct pst_region *)
REFUSE4(memory_copy_rows, struct pst_queue *, const struct pst_copy_row *, uint32_t, uint64_t *)
REFUSE5(memory_fill_rows, struct pst_queue *, uint64_t, const struct pst_payload_row *, uint32_t, uint64_t *)
REFUSE5(memory_verify_rows, struct pst_queue *, uint64_t, const struct pst_payload_row *, uint32_t, uint64_t *)

/* clang-format on */
static const struct pst_memory_ops no_memory = {
    .struct_size = sizeof(struct pst_memory_ops),
    .open = no_memory_open,
    .close = no_memory_close,
    .describe = no_memory_describe,
    .alloc = no_memory_alloc,
    .free_region = no_memory_free_region,
    .host_register = no_memory_host_register,
    .host_unregister = no_memory_host_unregister,
    .export_region = no_memory_export_region,
    .import_region = no_memory_import_region,
    .queue_open = no_memory_queue_open,
    .queue_close = no_memory_queue_close,
    .copy_rows = no_memory_copy_rows,
    .fill_rows = no_memory_fill_rows,
    .verify_rows = no_memory_verify_rows,
    .queue_poll = no_memory_queue_poll,
    .verify_result = no_memory_verify_result,
    .fence_record = no_memory_fence_record,
    .fence_wait = no_memory_fence_wait,
    .fence_query = no_memory_fence_query,
    .fence_release = no_memory_fence_release,
    .flush = no_memory_flush,
    .sum_batch = no_memory_sum_batch,
    .adopt_region = no_memory_adopt_region,
};

/* Both tables: a head, then nothing but function pointers. */
static void overlay(void *out, size_t size, const void *ops)
{
  void (*op)(void);

  ((struct ops_head *)out)->capabilities = ((const struct ops_head *)ops)->capabilities;
  for (size_t at = sizeof(struct ops_head); at < size; at += sizeof op) {
    memcpy(&op, (const char *)ops + at, sizeof op);
    if (op)
      memcpy((char *)out + at, &op, sizeof op);
  }
}

void overlay_transport(const struct pst_transport_ops *ops, struct pst_transport_ops *out)
{
  *out = no_transport;
  overlay(out, sizeof *out, ops);
}

void overlay_memory(const struct pst_memory_ops *ops, struct pst_memory_ops *out)
{
  *out = no_memory;
  overlay(out, sizeof *out, ops);
}
