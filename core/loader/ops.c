/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of both kinds of plugin: which must be there, and a refusal in the place of each
 * that is not, so that no caller tests a pointer, in the hot path least of all. */
#include "ops.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "reason.h"

/* Beside the capabilities, among what needs an operation. */
#define ALWAYS (UINT64_C(1) << 63)

#define CAP(name_) PST_CAP_##name_
#define MEMORY(name_) PST_MEMORY_CAP_##name_
#define ONE_SIDED (CAP(WRITE) | CAP(READ) | CAP(ATOMIC))
#define QUEUES (MEMORY(COPY) | MEMORY(PATTERN) | MEMORY(CHECKSUM))

/* A row for each operation, which REFUSE() gives an error to return, IGNORE() nothing: its name,
 * what needs it, its parameters. */
/* clang-format off */
#define TRANSPORT_OPS(REFUSE, IGNORE)                                                              \
  REFUSE(transport, open, ALWAYS,                                                                  \
         (const struct pst_host *a, const struct pst_open_params *b, struct pst_device **c))       \
  IGNORE(transport, close, ALWAYS, (struct pst_device *a))                                         \
  REFUSE(transport, limits, ALWAYS, (struct pst_device *a, struct pst_limits *b))                  \
  REFUSE(transport, mr_register, ALWAYS,                                                           \
         (struct pst_device *a, const struct pst_mr_params *b, struct pst_mr **c))                 \
  IGNORE(transport, mr_deregister, ALWAYS, (struct pst_device *a, struct pst_mr *b))               \
  REFUSE(transport, mr_pack, ONE_SIDED,                                                            \
         (struct pst_device *a, struct pst_mr *b, struct pst_blob *c))                             \
  REFUSE(transport, remote_open, ONE_SIDED,                                                        \
         (struct pst_endpoint *a, const struct pst_blob *b, struct pst_remote **c))                \
  IGNORE(transport, remote_close, ONE_SIDED, (struct pst_endpoint *a, struct pst_remote *b))       \
  REFUSE(transport, worker_open, ALWAYS,                                                           \
         (struct pst_device *a, uint32_t b, struct pst_worker **c))                                \
  IGNORE(transport, worker_close, ALWAYS, (struct pst_worker *a))                                  \
  REFUSE(transport, arm, CAP(WAKEUP), (struct pst_worker *a))                                      \
  REFUSE(transport, event_fd, CAP(WAKEUP), (struct pst_worker *a))                                 \
  REFUSE(transport, ring_open, CAP(SEND) | CAP(SHARED_RING),                                       \
         (struct pst_worker *a, const struct pst_ring_params *b, struct pst_path_info *c,          \
          struct pst_ring **d))                                                                    \
  IGNORE(transport, ring_close, CAP(SEND), (struct pst_worker *a, struct pst_ring *b))             \
  REFUSE(transport, endpoint_open, ALWAYS,                                                         \
         (struct pst_worker *a, const struct pst_endpoint_params *b, struct pst_endpoint **c))     \
  REFUSE(transport, endpoint_address, ALWAYS, (struct pst_endpoint *a, struct pst_blob *b))        \
  REFUSE(transport, endpoint_connect, ALWAYS, (struct pst_endpoint *a, const struct pst_blob *b))  \
  REFUSE(transport, endpoint_path, ALWAYS, (struct pst_endpoint *a, struct pst_path_info *b))      \
  REFUSE(transport, post, ALWAYS,                                                                  \
         (struct pst_endpoint *a, const struct pst_request *b, uint32_t c, uint32_t *d))           \
  REFUSE(transport, poll, ALWAYS, (struct pst_worker *a, struct pst_completion *b, uint32_t c))    \
  REFUSE(transport, release, CAP(SEND) | CAP(LEND),                                                \
         (struct pst_worker *a, const uint64_t *b, uint32_t c))                                    \
  REFUSE(transport, counters, 0,                                                                   \
         (struct pst_device *a, struct pst_worker *b, struct pst_endpoint *c,                      \
          struct pst_counter *d, uint32_t e))                                                      \
  REFUSE(transport, describe, 0, (struct pst_endpoint *a, char *b, size_t c))                      \
  REFUSE(transport, start, 0, (struct pst_device *a))                                              \
  REFUSE(transport, endpoint_close, ALWAYS, (struct pst_endpoint *a, uint32_t b, uint64_t c))

#define MEMORY_OPS(REFUSE, IGNORE)                                                                 \
  REFUSE(memory, open, ALWAYS,                                                                     \
         (const struct pst_host *a, const struct pst_memory_params *b, struct pst_memory **c))     \
  IGNORE(memory, close, ALWAYS, (struct pst_memory *a))                                            \
  REFUSE(memory, describe, 0, (struct pst_memory *a, struct pst_memory_info *b))                   \
  REFUSE(memory, alloc, ALWAYS,                                                                    \
         (struct pst_memory *a, const struct pst_alloc_params *b, struct pst_region *c))           \
  IGNORE(memory, free_region, ALWAYS, (struct pst_memory *a, struct pst_region *b))                \
  REFUSE(memory, host_register, MEMORY(HOST_REGISTER),                                             \
         (struct pst_memory *a, void *b, uint64_t c))                                              \
  IGNORE(memory, host_unregister, MEMORY(HOST_REGISTER),                                           \
         (struct pst_memory *a, void *b, uint64_t c))                                              \
  REFUSE(memory, export_region, MEMORY(EXPORT),                                                    \
         (struct pst_memory *a, const struct pst_region *b, uint32_t c, uint64_t d, uint64_t e,    \
          struct pst_export *f))                                                                   \
  REFUSE(memory, import_region, MEMORY(IMPORT),                                                    \
         (struct pst_memory *a, const struct pst_export *b, struct pst_region *c))                 \
  REFUSE(memory, queue_open, QUEUES,                                                               \
         (struct pst_memory *a, const struct pst_queue_params *b, struct pst_queue **c))           \
  IGNORE(memory, queue_close, QUEUES, (struct pst_queue *a))                                       \
  REFUSE(memory, queue_poll, QUEUES, (struct pst_queue *a, uint64_t *b))                           \
  REFUSE(memory, copy_rows, MEMORY(COPY),                                                          \
         (struct pst_queue *a, const struct pst_copy_row *b, uint32_t c, uint64_t *d))             \
  REFUSE(memory, fill_rows, MEMORY(PATTERN),                                                       \
         (struct pst_queue *a, uint64_t b, const struct pst_payload_row *c, uint32_t d,            \
          uint64_t *e))                                                                            \
  REFUSE(memory, verify_rows, MEMORY(PATTERN),                                                     \
         (struct pst_queue *a, uint64_t b, const struct pst_payload_row *c, uint32_t d,            \
          uint64_t *e))                                                                            \
  REFUSE(memory, verify_result, MEMORY(PATTERN),                                                   \
         (struct pst_queue *a, struct pst_verify_result *b))                                       \
  REFUSE(memory, fence_record, MEMORY(FENCE),                                                      \
         (struct pst_memory *a, struct pst_queue *b, void *c, struct pst_fence **d))               \
  REFUSE(memory, fence_wait, MEMORY(FENCE),                                                        \
         (struct pst_memory *a, struct pst_fence *b, struct pst_queue *c, void *d))                \
  REFUSE(memory, fence_query, MEMORY(FENCE), (struct pst_memory *a, struct pst_fence *b))          \
  IGNORE(memory, fence_release, MEMORY(FENCE), (struct pst_memory *a, struct pst_fence *b))        \
  REFUSE(memory, flush, MEMORY(FLUSH), (struct pst_memory *a, const struct pst_region *b))         \
  REFUSE(memory, sum_range, MEMORY(CHECKSUM),                                                      \
         (struct pst_queue *a, uint64_t b, uint64_t c, uint32_t *d, uint64_t *e))                  \
  REFUSE(memory, adopt_region, MEMORY(ADOPT),                                                      \
         (struct pst_memory *a, const struct pst_adopt_params *b, struct pst_region *c))
/* clang-format on */

/* One function each, of the operation's own type: calling through another one is undefined. */
#define DEFINE_REFUSE(kind_, op_, needs_, parameters_)                                             \
  static int ops_no_##kind_##_##op_ parameters_                                                    \
  {                                                                                                \
    return -EOPNOTSUPP;                                                                            \
  }
#define DEFINE_IGNORE(kind_, op_, needs_, parameters_)                                             \
  static void ops_no_##kind_##_##op_ parameters_                                                   \
  {                                                                                                \
  }
#define NO_OP(kind_, op_, needs_, parameters_) .op_ = ops_no_##kind_##_##op_,
#define OP_RULE(kind_, op_, needs_, parameters_)                                                   \
  {#op_, offsetof(struct pst_##kind_##_ops, op_), needs_},

#pragma GCC diagnostic ignored "-Wunused-parameter"
TRANSPORT_OPS(DEFINE_REFUSE, DEFINE_IGNORE)
MEMORY_OPS(DEFINE_REFUSE, DEFINE_IGNORE)

static const struct pst_transport_ops no_transport = {.struct_size = sizeof(no_transport),
                                                      TRANSPORT_OPS(NO_OP, NO_OP)};
static const struct pst_memory_ops no_memory = {.struct_size = sizeof(no_memory),
                                                MEMORY_OPS(NO_OP, NO_OP)};

struct op_rule {
  const char *op;
  size_t offset;
  uint64_t needs; /* ALWAYS, or each of these capabilities needs it */
};
static const struct op_rule transport_rules[] = {TRANSPORT_OPS(OP_RULE, OP_RULE){NULL, 0, 0}};
static const struct op_rule memory_rules[] = {MEMORY_OPS(OP_RULE, OP_RULE){NULL, 0, 0}};

/* Capabilities that need an operation, in the order in which gaps are reported. */
struct op_need {
  uint64_t bit;
  const char *name;
};
static const struct op_need transport_needs[] = {
    {ALWAYS, NULL},
    {CAP(SEND), "SEND"},
    {CAP(WRITE), "WRITE"},
    {CAP(READ), "READ"},
    {CAP(ATOMIC), "ATOMIC"},
    {CAP(LEND), "LEND"},
    {CAP(SHARED_RING), "SHARED_RING"},
    {CAP(WAKEUP), "WAKEUP"},
    {0, NULL},
};
static const struct op_need memory_needs[] = {
    {ALWAYS, NULL},
    {MEMORY(COPY), "COPY"},
    {MEMORY(PATTERN), "PATTERN"},
    {MEMORY(FENCE), "FENCE"},
    {MEMORY(EXPORT), "EXPORT"},
    {MEMORY(IMPORT), "IMPORT"},
    {MEMORY(HOST_REGISTER), "HOST_REGISTER"},
    {MEMORY(FLUSH), "FLUSH"},
    {MEMORY(CHECKSUM), "CHECKSUM"},
    {MEMORY(ADOPT), "ADOPT"},
    {0, NULL},
};

static bool ops_has(const struct ops_head *head, size_t offset)
{
  void (*op)(void);

  memcpy(&op, (const char *)head + offset, sizeof(op));
  return op != NULL;
}

int ops_check(uint32_t kind, const void *ops, struct loader_reason *why)
{
  const struct ops_head *head = ops;
  bool is_memory = kind == PST_KIND_MEMORY;
  const struct op_rule *rules = is_memory ? memory_rules : transport_rules;
  const struct op_need *need = is_memory ? memory_needs : transport_needs;
  const char *type = is_memory ? "pst_memory_ops" : "pst_transport_ops";
  size_t size = is_memory ? sizeof(struct pst_memory_ops) : sizeof(struct pst_transport_ops);

  if (!head)
    return loader_reject(why, -EPROTO, "has no struct %s", type);
  int rc = check_size(type, head->struct_size, size, why);
  for (; rc == 0 && need->bit; need++)
    for (size_t i = 0; rc == 0 && rules[i].op; i++) {
      if (!(rules[i].needs & need->bit & (head->capabilities | ALWAYS)) ||
          ops_has(head, rules[i].offset))
        continue;
      rc = need->name ? loader_reject(why, -EPROTO, "announces %s but its op %s is NULL",
                                      need->name, rules[i].op)
                      : loader_reject(why, -EPROTO, "the mandatory op %s is NULL", rules[i].op);
    }
  return rc;
}

/* Both tables: a head, then nothing but function pointers. */
static void ops_overlay(void *out, size_t size, const void *ops)
{
  ((struct ops_head *)out)->capabilities = ((const struct ops_head *)ops)->capabilities;
  for (size_t at = sizeof(struct ops_head); at < size; at += sizeof(void (*)(void)))
    if (ops_has(ops, at))
      memcpy((char *)out + at, (const char *)ops + at, sizeof(void (*)(void)));
}

void ops_overlay_transport(const struct pst_transport_ops *ops, struct pst_transport_ops *out)
{
  *out = no_transport;
  ops_overlay(out, sizeof(*out), ops);
}

void ops_overlay_memory(const struct pst_memory_ops *ops, struct pst_memory_ops *out)
{
  *out = no_memory;
  ops_overlay(out, sizeof(*out), ops);
}
