/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ucx. */
#include "support.h"

#include <stdlib.h>

#include "am.h"
#include "fail.h"
#include "link.h"
#include "receive.h"
#include "watch.h"

#define SOURCE_BYTES (1u << 20)
#define PEER_NONCE UINT64_C(0x1234)

struct fixture fixture;
static void *landing_bytes;

static struct pst_mr *open_mr(void *bytes, uint64_t length, uint32_t access)
{
  const struct pst_region region = {
      .struct_size = sizeof(region), .address = (uintptr_t)bytes, .host = bytes, .length = length};
  const struct pst_mr_params params = {
      .struct_size = sizeof(params), .access = access, .region = &region, .length = length};
  struct pst_mr *mr;

  assert_int_equal(ucx_mr_register(&fixture.device, &params, &mr), 0);
  return mr;
}

static void open_device(void)
{
  struct pst_device *device = &fixture.device;

  device->host = &fake_host;
  device->has_rma = true;
  device->memory_types = 1u << UCS_MEMORY_TYPE_HOST;
  assert_int_equal(ucx_am_datatype(&device->gather), UCS_OK);
  assert_int_equal(ucx_worker_open(device, 0, &fixture.worker), 0);
}

static void open_endpoint(void)
{
  const struct pst_ring_params ring = {.struct_size = sizeof(ring),
                                       .slots = SLOTS,
                                       .mr = fixture.landing,
                                       .stride = SLOT_BYTES,
                                       .payload_max = SLOT_BYTES,
                                       .endpoints = 1};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
                                       .cookie = COOKIE,
                                       .label = "unit",
                                       .requests = REQUESTS,
                                       .pieces = 4};

  assert_int_equal(ucx_ring_open(fixture.worker, &ring, &path, &fixture.ring), 0);
  params.ring = fixture.ring;
  assert_int_equal(ucx_endpoint_open(fixture.worker, &params, &fixture.endpoint), 0);
}

/* Connects to a peer on another host. */
static void connect_peer(void)
{
  struct {
    struct ucx_address head;
    uint8_t ucx[16];
  } address = {.head = {.magic = UCX_MAGIC,
                        .flags = UCX_ADDRESS_RECEIVES | UCX_ADDRESS_SENDS | UCX_ADDRESS_RMA,
                        .nonce = PEER_NONCE}};
  const struct pst_blob blob = {
      .struct_size = sizeof(blob), .bytes = &address, .length = sizeof(address)};
  const struct ucx_header hello = {.kind = UCX_HELLO,
                                   .position = PEER_SLOTS,
                                   .length = (uint32_t)SLOT_BYTES,
                                   .sequence = PEER_NONCE};
  struct pst_completion event;

  address.head.sum = ucx_blob_sum(&address, sizeof(address), offsetof(struct ucx_address, sum));
  assert_int_equal(ucx_endpoint_connect(fixture.endpoint, &blob), 0);
  assert_int_equal(poll_all(&event, 1), 0);
  assert_int_equal(fake_messages(UCX_HELLO), 1);
  assert_int_equal(fake_message(UCX_HELLO, 0)->header.nonce, PEER_NONCE);
  assert_int_equal(deliver(hello, NULL, 0), UCS_OK);
  assert_int_equal(poll_all(&event, 1), 1);
  assert_int_equal(event.kind, PST_COMPLETION_EVENT);
  assert_int_equal(event.code, PST_EVENT_CONNECTED);
}

static void open_fixture(void)
{
  fixture.bytes = malloc(SOURCE_BYTES);
  landing_bytes = calloc(SLOTS, SLOT_BYTES);
  assert_non_null(fixture.bytes);
  assert_non_null(landing_bytes);
  for (uint32_t i = 0; i < SOURCE_BYTES; i++)
    fixture.bytes[i] = (uint8_t)(i % 251);
  fake_log_clear();
  open_device();
  fixture.source = open_mr(fixture.bytes, SOURCE_BYTES,
                           PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_READ |
                               PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC);
  fixture.landing =
      open_mr(landing_bytes, SLOTS * SLOT_BYTES, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING);
  open_endpoint();
  connect_peer();
  fake_ucp.keeps = true;
}

/* Whatever UCX has under way goes with the connection. */
static void close_fixture(void)
{
  ucx_link_end(fixture.endpoint->link, -ECONNRESET);
  ucx_endpoint_free(fixture.endpoint);
  ucx_ring_close(fixture.worker, fixture.ring);
  ucx_worker_close(fixture.worker);
  ucx_mr_deregister(&fixture.device, fixture.source);
  ucx_mr_deregister(&fixture.device, fixture.landing);
  assert_int_equal(fake_ucp.workers, 0);
  free(fixture.bytes);
  free(landing_bytes);
  memset(&fixture, 0, sizeof(fixture));
  fake_ucp_reset();
}

int open_posix(void **state)
{
  (void)state;
  fake_ucp_reset();
  open_fixture();
  return 0;
}

int open_tcp(void **state)
{
  (void)state;
  fake_ucp_reset();
  fake_ucp.lanes = TCP_LANES;
  open_fixture();
  return 0;
}

int close_it(void **state)
{
  (void)state;
  close_fixture();
  return 0;
}

struct pst_remote *open_remote(uint64_t address, uint64_t length)
{
  struct {
    struct ucx_key head;
    uint8_t ucx[8];
  } key = {.head = {.magic = UCX_MAGIC,
                    .access = PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE |
                              PST_ACCESS_REMOTE_ATOMIC | UCX_KEY_BY_CPU,
                    .address = address,
                    .length = length}};
  const struct pst_blob blob = {.struct_size = sizeof(blob), .bytes = &key, .length = sizeof(key)};
  struct pst_remote *remote;

  key.head.sum = ucx_blob_sum(&key, sizeof(key), offsetof(struct ucx_key, sum));
  assert_int_equal(ucx_remote_open(fixture.endpoint, &blob, &remote), 0);
  return remote;
}

void post_one(uint64_t length, uint64_t number)
{
  const struct pst_request request = request_of(0, length, number);
  uint32_t why = PST_WAIT_NONE;

  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
}

struct pst_request request_of(uint64_t offset, uint64_t length, uint64_t number)
{
  return (struct pst_request){.opcode = PST_OP_SEND,
                              .local.mr = fixture.source,
                              .offset = offset,
                              .arg.length = length,
                              .cookie = 1000 + number,
                              .u.send.sequence = number};
}

static ucs_status_t give(struct ucx_header header, const void *data, size_t length, uint64_t flags)
{
  struct ucx_link *link = fixture.endpoint->link;
  const ucp_am_recv_param_t param = {.recv_attr = flags};

  header.nonce = link->nonce;
  return ucx_receive(link, &header, sizeof(header), (void *)(uintptr_t)data, length, &param);
}

ucs_status_t deliver(struct ucx_header header, const void *data, size_t length)
{
  return give(header, data, length, 0);
}

ucs_status_t deliver_offer(struct ucx_header header, const void *data, size_t length)
{
  return give(header, data, length, UCP_AM_RECV_ATTR_FLAG_RNDV);
}

uint32_t poll_all(struct pst_completion *out, uint32_t max)
{
  uint32_t n = 0;

  for (int got; n < max && (got = ucx_poll(fixture.worker, out + n, max - n)) > 0;)
    n += (uint32_t)got;
  return n;
}

bool is_lost_with(int32_t status)
{
  return ucx_link_status(fixture.endpoint->link) == status;
}
