/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of filters. */
#include "support.h"

#include <stdlib.h>

struct inner inner;
struct rig rig;
uint32_t last_wait;
struct pst_completion polled[64];

/* ---- The transport inside: its objects are addresses and nothing else ------------------ */

static char inner_device, inner_worker, inner_endpoint, inner_mrs[16];

static int device_open(const struct pst_host *host, const struct pst_open_params *params,
                       struct pst_device **device)
{
  (void)host, (void)params;
  *device = (struct pst_device *)&inner_device;
  return 0;
}

static void device_close(struct pst_device *device)
{
  assert_ptr_equal(device, &inner_device);
}

static int limits(struct pst_device *device, struct pst_limits *out)
{
  const struct pst_limits known = {
      .requests_max = 8192, .slot_alignment = 1, .send_needs = PST_NEED_PINNED};
  (void)device;
  pst_struct_write(out, &known, sizeof(known));
  return 0;
}

static int mr_register(struct pst_device *device, const struct pst_mr_params *params,
                       struct pst_mr **mr)
{
  (void)device, (void)params;
  if (inner.registers != 0)
    return inner.registers;
  *mr = (struct pst_mr *)&inner_mrs[inner.mrs++ % sizeof(inner_mrs)];
  return 0;
}

static void mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device, (void)mr;
}

static int worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  (void)device, (void)index;
  *worker = (struct pst_worker *)&inner_worker;
  return 0;
}

static void worker_close(struct pst_worker *worker)
{
  assert_ptr_equal(worker, &inner_worker);
}

static int endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                         struct pst_endpoint **endpoint)
{
  (void)worker;
  inner.endpoint_cookie = params->cookie;
  *endpoint = (struct pst_endpoint *)&inner_endpoint;
  return 0;
}

static int endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  (void)endpoint;
  inner.close_mode = mode;
  inner.close_deadline_ns = deadline_ns;
  return 0;
}

static int inner_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                      uint32_t *wait)
{
  assert_ptr_equal(endpoint, &inner_endpoint);
  if (inner.refuses != 0)
    return inner.refuses;
  uint32_t taken = n < inner.room ? n : inner.room;
  assert_true(inner.count + taken <= INNER_POSTED_MAX);
  for (uint32_t i = 0; i < taken; i++)
    inner.posted[inner.count++] = requests[i];
  inner.room -= taken;
  *wait = taken < n ? inner.wait : PST_WAIT_NONE;
  return taken || n == 0 ? (int)taken : -EAGAIN;
}

static int inner_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t n = inner.completion_count < max ? inner.completion_count : max;
  (void)worker;
  memcpy(completions, inner.completions, n * sizeof(*completions));
  inner.completion_count -= n;
  memmove(inner.completions, inner.completions + n,
          inner.completion_count * sizeof(*inner.completions));
  return (int)n;
}

static int arm(struct pst_worker *worker)
{
  (void)worker;
  return 0;
}

static int counters(struct pst_device *device, struct pst_worker *worker,
                    struct pst_endpoint *endpoint, struct pst_counter *out, uint32_t max)
{
  (void)device, (void)worker, (void)endpoint;
  if (max)
    out[0] = (struct pst_counter){"messages_sent", NULL, inner.counted, 0};
  return 1;
}

static const struct pst_transport_ops inner_ops = {
    .struct_size = sizeof(inner_ops),
    .open = device_open,
    .close = device_close,
    .limits = limits,
    .mr_register = mr_register,
    .mr_deregister = mr_deregister,
    .worker_open = worker_open,
    .worker_close = worker_close,
    .arm = arm,
    .endpoint_open = endpoint_open,
    .endpoint_close = endpoint_close,
    .post = inner_post,
    .poll = inner_poll,
    .counters = counters,
};

void inner_done(uint64_t n, int32_t status)
{
  inner.done += n;
  inner.completions[inner.completion_count++] =
      (struct pst_completion){.kind = PST_COMPLETION_DONE,
                              .code = PST_OP_SEND,
                              .status = status,
                              .endpoint = inner.endpoint_cookie,
                              .u.done = {inner.posted[inner.done - 1].cookie, n}};
}

void inner_event(uint8_t code, int32_t status)
{
  inner.completions[inner.completion_count++] =
      (struct pst_completion){.kind = PST_COMPLETION_EVENT,
                              .code = code,
                              .status = status,
                              .endpoint = inner.endpoint_cookie};
}

/* ---- The filter around it --------------------------------------------------------------- */

const struct pst_transport_ops *fault(void)
{
  return pst_plugin_v1.ops;
}

int try_open(const struct fake_option *options, uint32_t senders, struct pst_device **device)
{
  const struct pst_plan plan = {
      .struct_size = sizeof(plan), .senders = senders, .message_max = 256};
  const struct pst_open_params within = {.struct_size = sizeof(within), .plan = &plan};
  const struct pst_open_params params = {.struct_size = sizeof(params),
                                         .options = FAKE_OPTIONS(options),
                                         .plan = &plan,
                                         .inner = &inner_ops,
                                         .inner_host = &fake_host,
                                         .inner_params = &within};
  return fault()->open(&fake_host, &params, device);
}

int try_endpoint(uint32_t requests, struct pst_endpoint **endpoint)
{
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles = PST_ROLE_SENDER,
                                             .cookie = 77,
                                             .requests = requests,
                                             .pieces = 2,
                                             .message_max = 256};
  return fault()->endpoint_open(rig.worker, &params, endpoint);
}

void setup(uint32_t requests, const struct fake_option *options)
{
  struct pst_region region = {.struct_size = sizeof(region),
                              .kind = PST_MEMORY_HOST,
                              .host = rig.memory,
                              .length = sizeof(rig.memory)};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = PST_ACCESS_LOCAL_READ,
                                       .region = &region,
                                       .length = sizeof(rig.memory)};
  assert_int_equal(try_open(options, 1, &rig.device), 0);
  assert_int_equal(fault()->mr_register(rig.device, &params, &rig.mr), 0);
  assert_int_equal(fault()->worker_open(rig.device, 0, &rig.worker), 0);
  assert_int_equal(try_endpoint(requests, &rig.endpoint), 0);
  inner_event(PST_EVENT_CONNECTED, 0);
  assert_int_equal(poll_all(), 1);
}

int reset(void **state)
{
  (void)state;
  inner = (struct inner){.room = UINT32_MAX, .wait = PST_WAIT_CREDIT};
  rig = (struct rig){0};
  for (size_t i = 0; i < sizeof(rig.memory); i++)
    rig.memory[i] = (uint8_t)(i * 7);
  fake_log_clear();
  fake_clock_ns = 1000000000;
  return 0;
}

int teardown(void **state)
{
  (void)state;
  if (rig.worker)
    fault()->worker_close(rig.worker);
  fault()->close(rig.device);
  return 0;
}

struct pst_request send_of(uint64_t sequence, uint64_t length)
{
  return (struct pst_request){.opcode = PST_OP_SEND,
                              .local.mr = rig.mr,
                              .arg.length = length,
                              .cookie = 1000 + sequence,
                              .u.send.sequence = sequence};
}

int post(uint32_t n)
{
  struct pst_request requests[256];
  assert_true(n <= 256);
  for (uint32_t i = 0; i < n; i++)
    requests[i] = send_of(rig.posted + i, 100);
  int rc = fault()->post(rig.endpoint, requests, n, &last_wait);
  if (rc > 0)
    rig.posted += (uint64_t)rc;
  return rc;
}

int poll_all(void)
{
  return fault()->poll(rig.worker, polled, 64);
}

void expect_done(uint64_t last, uint64_t count, int32_t status)
{
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].kind, PST_COMPLETION_DONE);
  assert_int_equal(polled[0].code, PST_OP_SEND);
  assert_int_equal(polled[0].status, status);
  assert_int_equal(polled[0].endpoint, 77);
  assert_int_equal(polled[0].u.done.cookie, 1000 + last);
  assert_int_equal(polled[0].u.done.count, count);
}

void expect_posted(uint32_t from, uint32_t n, const uint64_t *sequences)
{
  assert_int_equal(inner.count, from + n);
  for (uint32_t i = 0; i < n; i++)
    assert_int_equal(inner.posted[from + i].u.send.sequence, sequences[i]);
}

uint64_t counter(const char *name)
{
  struct pst_counter all[128];
  int n = fault()->counters(rig.device, rig.worker, rig.endpoint, all, 128);
  assert_in_range(n, 1, 128);
  for (int i = 0; i < n; i++)
    if (strcmp(all[i].name, name) == 0)
      return all[i].value;
  fail_msg("no counter is named %s", name);
  return 0;
}

uint64_t next_of(enum fault_kind kind, uint64_t from)
{
  const struct fault_plan *plan = &rig.device->plan;
  for (;; from++) {
    uint64_t at = (fault_draw(plan, from) >> 32) * FAULT_MILLION >> 32;
    if (at < plan->below[kind] && at >= (kind > FAULT_DROP ? plan->below[kind - 1] : 0))
      return from;
  }
}
