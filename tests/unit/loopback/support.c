/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of loopback. */
#include "support.h"

struct rig rig;
struct pst_completion polled[64];
uint32_t last_wait;
static int polled_count;

int reset(void **state)
{
  (void)state;
  rig = (struct rig){0};
  fake_log_clear();
  fake_clock_ns = 1000000000;
  return 0;
}

int teardown(void **state)
{
  (void)state;
  lb_ring_close(rig.worker, rig.ring);
  lb_worker_close(rig.worker);
  lb_mr_deregister(rig.device, rig.from);
  lb_mr_deregister(rig.device, rig.into);
  lb_close(rig.device);
  return 0;
}

struct pst_mr *register_region(const struct pst_region *region, uint32_t access)
{
  const struct pst_mr_params params = {
      .struct_size = sizeof(params), .access = access, .region = region, .length = region->length};
  struct pst_mr *mr = NULL;
  assert_int_equal(lb_mr_register(rig.device, &params, &mr), 0);
  return mr;
}

static struct pst_mr *register_all(uint8_t *memory, uint32_t access)
{
  const struct pst_region region = {
      .struct_size = sizeof(region), .host = memory, .length = MEMORY};
  return register_region(&region, access);
}

void open_device_on(const struct pst_host *host, enum lb_mode mode)
{
  const struct fake_option options[] = {{"mode", mode == LB_MODE_COPY ? "copy" : "reference"},
                                        {NULL, NULL}};
  const struct pst_plan plan = {.struct_size = sizeof(plan), .flags = PST_PLAN_IN_PROCESS};
  const struct pst_open_params params = {
      .struct_size = sizeof(params), .options = FAKE_OPTIONS(options), .plan = &plan};
  assert_int_equal(lb_open(host, &params, &rig.device), 0);
  assert_int_equal(lb_worker_open(rig.device, 0, &rig.worker), 0);
  rig.from = register_all(rig.source, PST_ACCESS_LOCAL_READ);
  rig.into = register_all(rig.target, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING);
}

void open_device(enum lb_mode mode)
{
  open_device_on(&fake_host, mode);
}

int open_ring(uint32_t slots, uint32_t endpoints, struct pst_ring **ring)
{
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = slots,
                                         .mr = rig.into,
                                         .base = 16,
                                         .stride = STRIDE,
                                         .payload_max = PAYLOAD,
                                         .headroom = 4,
                                         .endpoints = endpoints};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  return lb_ring_open(rig.worker, &params, &path, ring);
}

int open_endpoint(uint32_t roles, struct pst_ring *ring, struct pst_endpoint **endpoint)
{
  const bool sends = roles & (PST_ROLE_SENDER | PST_ROLE_RMA);
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles = roles,
                                             .ring = ring,
                                             .cookie = sends ? SENDER_COOKIE : RECEIVER_COOKIE,
                                             .label = "camera",
                                             .requests = sends ? 256 : 0,
                                             .pieces = 4,
                                             .message_max = PAYLOAD,
                                             .timeout_ns = 5000000000};
  return lb_endpoint_open(rig.worker, &params, endpoint);
}

static void connect_to(struct pst_endpoint *endpoint, struct pst_endpoint *peer)
{
  struct lb_address bytes;
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = &bytes};
  assert_int_equal(lb_endpoint_address(peer, &blob), 0);
  assert_int_equal(lb_endpoint_connect(endpoint, &blob), 0);
}

void setup(enum lb_mode mode, uint32_t slots)
{
  open_device(mode);
  assert_int_equal(open_ring(slots, 1, &rig.ring), 0);
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &rig.receiver), 0);
  assert_int_equal(open_endpoint(PST_ROLE_SENDER, NULL, &rig.sender), 0);
  connect_to(rig.sender, rig.receiver);
  connect_to(rig.receiver, rig.sender);
  assert_int_equal(poll_all(), 2);
  assert_int_equal(polled[0].code, PST_EVENT_CONNECTED);
  assert_int_equal(polled[1].code, PST_EVENT_CONNECTED);
}

void setup_rma(const struct pst_host *host)
{
  open_device_on(host, LB_MODE_COPY);
  assert_int_equal(open_endpoint(PST_ROLE_RMA, NULL, &rig.receiver), 0);
  assert_int_equal(open_endpoint(PST_ROLE_RMA, NULL, &rig.sender), 0);
  connect_to(rig.sender, rig.receiver);
  connect_to(rig.receiver, rig.sender);
  assert_int_equal(poll_all(), 2);
}

void pack(struct pst_mr *mr, struct lb_remote_blob *bytes)
{
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(*bytes), .bytes = bytes};
  assert_int_equal(lb_mr_pack(rig.device, mr, &blob), 0);
  assert_int_equal(blob.length, sizeof(*bytes));
}

int open_remote(const struct lb_remote_blob *bytes, struct pst_remote **remote)
{
  struct lb_remote_blob copy = *bytes;
  const struct pst_blob blob = {.struct_size = sizeof(blob),
                                .capacity = sizeof(copy),
                                .length = sizeof(copy),
                                .bytes = &copy};
  return lb_remote_open(rig.sender, &blob, remote);
}

struct pst_remote *reach(struct pst_mr *mr)
{
  struct lb_remote_blob bytes;
  struct pst_remote *remote = NULL;
  pack(mr, &bytes);
  assert_int_equal(open_remote(&bytes, &remote), 0);
  return remote;
}

void close_endpoint(struct pst_endpoint *endpoint)
{
  assert_int_equal(lb_endpoint_close(endpoint, PST_CLOSE_ABORT, 0), 0);
  while (!find(PST_COMPLETION_EVENT, PST_EVENT_CLOSED))
    assert_true(poll_all() > 0);
}

int poll_all(void)
{
  polled_count = lb_poll(rig.worker, polled, 64);
  return polled_count;
}

int messages(void)
{
  int all = poll_all(), n = 0;
  for (int i = 0; i < all; i++)
    if (polled[i].kind == PST_COMPLETION_MESSAGE)
      polled[n++] = polled[i];
  return n;
}

struct pst_request send_of(uint64_t sequence, uint64_t length)
{
  return (struct pst_request){.opcode = PST_OP_SEND,
                              .local.mr = rig.from,
                              .offset = sequence % 64 * 64,
                              .arg.length = length,
                              .cookie = 1000 + sequence,
                              .u.send.sequence = sequence,
                              .u.send.meta = ~sequence};
}

int post(uint32_t n)
{
  struct pst_request requests[64];
  assert_true(n <= 64);
  for (uint32_t i = 0; i < n; i++)
    requests[i] = send_of(rig.posted + i, 40);
  /* Bytes of a message that is under way, by reference, are not written again. */
  for (uint32_t i = 0; i < 64; i++)
    memset(rig.source + i * 64, (int)i, 64);
  int rc = lb_post(rig.sender, requests, n, &last_wait);
  if (rc > 0)
    rig.posted += (uint64_t)rc;
  return rc;
}

const struct pst_completion *find(uint8_t kind, uint8_t code)
{
  for (int i = 0; i < polled_count; i++)
    if (polled[i].kind == kind && polled[i].code == code)
      return &polled[i];
  return NULL;
}

int release(uint64_t token)
{
  return lb_release(rig.worker, &token, 1);
}
