/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of ucx whose peer is the input: its address, its keys, and its active messages, which
 * carry credits, too. UCX is not there: what the plugin asks of it is answered here, at once or in
 * an order that the input chooses. Whatever comes, the host gets messages that lie in the ring,
 * in the order of their places, and tokens that are not out yet; nothing counts that is for another
 * nonce.
 */
#include <stdarg.h>

#include "require.h"
#include "ucx/am.h"
#include "ucx/endpoint.h"
#include "ucx/fail.h"
#include "ucx/limits.h"
#include "ucx/link.h"
#include "ucx/mr.h"
#include "ucx/ops.h"
#include "ucx/receive.h"
#include "ucx/remote.h"
#include "ucx/ring.h"
#include "ucx/rma.h"
#include "ucx/rma_am.h"
#include "ucx/send.h"
#include "ucx/units.h"
#include "ucx/watch.h"

#define SLOTS 8u
#define SLOT_BYTES 256u
#define STRIDE 320u
#define REQUESTS 16u
#define OPERATIONS_MAX 256u
#define FETCHES_MAX 64u

static struct pst_device device;
static struct pst_worker worker;
static ucp_generic_dt_ops_t datatype;

static struct {
  struct pst_endpoint *endpoint;
  struct ucx_link *link;
  struct pst_ring *ring;
  struct pst_mr mr;
  uint8_t *memory; /* the ring, and as much again that is sent from */
  uint64_t tokens[SLOTS];
  uint32_t held;
  uint64_t given; /* MESSAGEs */
} own;

static struct {
  void *buffer;
  size_t bytes;
  void (*ended)(void *, ucs_status_t, size_t, void *);
  void *arg;
} fetches[FETCHES_MAX];
static uint32_t fetch_count;

static const uint8_t *input, *input_end;

static uint32_t take(void)
{
  return input < input_end ? *input++ : 0;
}

static uint32_t take_wide(void)
{
  const uint32_t low = take();
  return low | take() << 8;
}

/* ---- The host ------------------------------------------------------------------------------- */

static void host_log(const struct pst_host *host, int level, const char *format, ...)
{
  char line[2048];
  va_list list;
  (void)host, (void)level;
  va_start(list, format);
  vsnprintf(line, sizeof(line), format, list);
  va_end(list);
}

static uint64_t host_clock(const struct pst_host *host)
{
  static uint64_t now_ns;
  (void)host;
  return now_ns += 1000000;
}

static const struct pst_host host = {
    .struct_size = sizeof(host), .log = host_log, .clock_ns = host_clock};

/* ---- In UCX's place ------------------------------------------------------------------------- */

const char *ucs_status_string(ucs_status_t status)
{
  return status == UCS_OK ? "ok" : "an error";
}

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context,
                                   ucp_datatype_t *made)
{
  (void)context;
  datatype = *ops;
  *made = 1;
  return UCS_OK;
}

/* Reads the bytes that UCX would read. */
ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
  const struct ucx_header *head = header;
  (void)ep, (void)id;
  REQUIRE(header_length == sizeof(*head) && head->nonce == own.link->peer.nonce);
  if (buffer && count && param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE &&
      param->datatype == device.gather) {
    void *state = datatype.start_pack(NULL, buffer, count);
    const size_t bytes = datatype.packed_size(state);
    uint8_t *packed = malloc(bytes + 1);
    REQUIRE(packed && datatype.pack(state, 0, packed, bytes) == bytes);
    datatype.finish(state);
    free(packed);
  }
  return NULL;
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h ucp, void *descriptor, void *buffer,
                                      size_t count, const ucp_request_param_t *param)
{
  (void)ucp, (void)descriptor;
  REQUIRE((uint8_t *)buffer >= own.memory && count <= SLOT_BYTES &&
          (uint8_t *)buffer + count <= own.memory + (size_t)SLOTS * STRIDE);
  if (fetch_count == FETCHES_MAX)
    return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
  fetches[fetch_count].buffer = buffer;
  fetches[fetch_count].bytes = count;
  fetches[fetch_count].ended = param->cb.recv_am;
  fetches[fetch_count].arg = param->user_data;
  return &fetches[fetch_count++];
}

void ucp_request_free(void *request)
{
  (void)request;
}

unsigned ucp_worker_progress(ucp_worker_h ucp)
{
  (void)ucp;
  return 0;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **packed, size_t *size)
{
  (void)context, (void)memh, (void)packed, (void)size;
  return UCS_ERR_UNSUPPORTED;
}

void ucp_rkey_buffer_release(void *packed)
{
  (void)packed;
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *packed, ucp_rkey_h *rkey)
{
  (void)ep;
  (void)*(const volatile uint8_t *)packed; /* it has a byte at least */
  *rkey = (ucp_rkey_h)own.memory;
  return UCS_OK;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
  REQUIRE(rkey == (ucp_rkey_h)own.memory);
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t address,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
  (void)ep, (void)buffer, (void)count, (void)address, (void)rkey, (void)param;
  return NULL;
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t address,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
  return ucp_put_nbx(ep, buffer, count, address, rkey, param);
}

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer,
                                   size_t count, uint64_t address, ucp_rkey_h rkey,
                                   const ucp_request_param_t *param)
{
  (void)opcode;
  return ucp_put_nbx(ep, buffer, count, address, rkey, param);
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
  return ucp_put_nbx(ep, NULL, 0, 0, NULL, param);
}

/* ---- In place of the plugin's own that need it ---------------------------------------------- */

/* No field of an accepted address lies behind its end. */
int ucx_link_connect(struct ucx_link *link, const void *address, size_t length)
{
  static uint64_t sum;
  (void)link;
  REQUIRE(length > 0);
  sum += ucx_sum(address, length);
  return sum == 1 ? -EPROTO : 0;
}

bool ucx_identity_is_near(const struct ucx_identity *a, const struct ucx_identity *b)
{
  return a->pid_namespace == b->pid_namespace;
}

int ucx_watch_open(const struct ucx_identity *a, const struct ucx_identity *peer, int *pidfd)
{
  (void)a, (void)pidfd;
  return peer->pid > INT32_MAX ? -EPROTO : 0;
}

int ucx_watch_begin(int watch_fd, int pidfd, struct ucx_link *link)
{
  (void)watch_fd, (void)pidfd, (void)link;
  return 0;
}

void ucx_watch_forget(int watch_fd, int pidfd)
{
  (void)watch_fd, (void)pidfd;
}

void ucx_watch_end(int pidfd)
{
  (void)pidfd;
}

/* Permits one-sided access to the memory behind the ring, which holds no message. */
void *ucx_mr_enter(struct pst_device *of, uint64_t address, uint64_t length, uint32_t access)
{
  const uint64_t base = (uintptr_t)own.memory + (uint64_t)SLOTS * STRIDE;
  (void)of, (void)access;
  return address >= base && pst_range_holds((uint64_t)SLOTS * STRIDE, address - base, length)
             ? own.memory + (address - (uintptr_t)own.memory)
             : NULL;
}

void ucx_mr_leave(struct pst_device *of)
{
  (void)of;
}

/* ---- The endpoint --------------------------------------------------------------------------- */

static void open_ring(void)
{
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = SLOTS,
                                         .mr = &own.mr,
                                         .stride = STRIDE,
                                         .payload_max = SLOT_BYTES,
                                         .endpoints = 1};

  own.memory = malloc((size_t)2 * SLOTS * STRIDE);
  own.mr = (struct pst_mr){
      .cpu = {.base = own.memory,
              .length = (uint64_t)2 * SLOTS * STRIDE,
              .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING},
      .by_cpu = true};
  own.ring = calloc(1, sizeof(*own.ring));
  REQUIRE(own.memory && own.ring);
  memset(own.memory, 0, (size_t)2 * SLOTS * STRIDE);
  REQUIRE(pst_cpu_ring_open(&own.ring->cpu, &host, &worker.rings, &params, ucx_limits_known()) ==
          0);
  own.ring->by_cpu = true;
  REQUIRE(ucx_shares_open(&own.ring->shares, SLOTS, 1, 0) == 0);
}

static void open_link(void)
{
  own.link = calloc(1, sizeof(*own.link));
  REQUIRE(own.link && ucx_ams_open(own.link, true) == 0);
  own.link->worker = &worker;
  own.link->peer.pidfd = own.link->efd = -1;
  own.link->nonce = 0x0123456789abcdef;
  own.link->peer.nonce = 0x1122334455667788;
  own.link->stage.name = UCX_JOINED;
  own.link->line = UCX_LINE_OPEN;
  own.link->part_max = 512;
  own.link->whole_from = UINT64_MAX;
  own.link->arrivals = calloc(SLOTS, sizeof(*own.link->arrivals));
  own.link->arrival_mask = SLOTS - 1;
  own.link->ring = own.ring;
  REQUIRE(own.link->arrivals && ucx_rma_am_open(own.link) == 0);
  ucx_ams_gather(own.link, 512);
  REQUIRE(own.link->gathered);
  own.link->by_messages = true;
  own.link->op_count = REQUESTS + 2;
  own.link->ops = calloc(own.link->op_count, sizeof(*own.link->ops));
  own.link->op_pieces = calloc(own.link->op_count, sizeof(*own.link->op_pieces));
  REQUIRE(own.link->ops && own.link->op_pieces);
  for (uint32_t i = 0; i < own.link->op_count; i++) {
    own.link->ops[i].pieces = &own.link->op_pieces[i];
    own.link->ops[i].next = own.link->free_ops;
    own.link->free_ops = &own.link->ops[i];
  }
}

static void open_endpoint(void)
{
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles =
                                                 PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
                                             .ring = own.ring,
                                             .cookie = 1,
                                             .requests = REQUESTS,
                                             .pieces = 2,
                                             .message_max = SLOT_BYTES};
  struct pst_endpoint *made = calloc(1, sizeof(*made));

  REQUIRE(made);
  REQUIRE(pst_cpu_endpoint_open(&made->cpu, &host, &params, ucx_limits_known(), NULL) == 0);
  made->worker = &worker;
  made->link = own.link;
  made->pieces_max = 2;
  pst_cpu_enter(&made->cpu, PST_CPU_UP);
  made->tx.length_max = SLOT_BYTES;
  ucx_share_begin(&own.ring->shares, &made->rx.share);
  made->tx.flushing_end = &made->tx.flushing;
  REQUIRE(ucx_units_open(&made->tx.sends, REQUESTS + 1) == 0);
  REQUIRE(ucx_units_open(&made->tx.writes, REQUESTS + 1) == 0);
  own.link->endpoint = made;
  own.link->ep = (ucp_ep_h)own.memory; /* never looked into */
  own.endpoint = made;
}

static void begin(void)
{
  memset(&own, 0, sizeof(own));
  memset(&worker, 0, sizeof(worker));
  device.host = &host;
  worker.device = &device;
  fetch_count = 0;
  REQUIRE(device.gather || ucx_am_datatype(&device.gather) == UCS_OK);
  open_ring();
  open_link();
  open_endpoint();
}

/* ---- Actions of the peer -------------------------------------------------------------------- */

/* Exactly so long: a byte behind it is a finding. */
static uint8_t *take_bytes(size_t bytes)
{
  uint8_t *made = malloc(bytes ? bytes : 1);
  REQUIRE(made);
  for (size_t i = 0; i < bytes; i++)
    made[i] = (uint8_t)take();
  return made;
}

static uint64_t place(void)
{
  const uint32_t how = take();
  if (how == 255)
    return UINT64_MAX - take();
  if (how >= 128)
    return own.link->endpoint->tx.position + how - 192;
  return own.link->endpoint->rx.head + how - 4;
}

/* An address near our memory; the number of a READ of ours, perhaps. */
static void one_sided(struct ucx_header *header)
{
  header->sequence += (uintptr_t)own.memory + (uint64_t)SLOTS * STRIDE - 8;
  header->writes = take() & 1;
  if (header->kind == UCX_DATA || header->kind == UCX_FOUND)
    header->position = own.link->ops[take() % own.link->op_count].number;
}

static void message_comes(void)
{
  struct ucx_header header = {.kind = (uint8_t)(take() % (UCX_FOUND + 2)),
                              .flags = (uint8_t)(take() & 7)};
  const uint32_t how = take();
  ucp_am_recv_param_t param = {.recv_attr = how & 1 ? UCP_AM_RECV_ATTR_FLAG_RNDV : 0};
  const uint64_t head = own.endpoint->rx.highest, limit = own.endpoint->tx.limit;

  header.count = (uint16_t)take();
  header.length = how & 2 ? UINT32_MAX - take() : take_wide();
  header.position = place();
  header.sequence = how & 4 ? own.link->peer.nonce : take();
  if (header.kind >= UCX_WRITE && header.kind < UCX_FOUND + 1)
    one_sided(&header);
  header.offset = how & 8 ? UINT64_MAX - take() : take_wide();
  header.nonce = own.link->nonce ^ (how & 16);
  const size_t bytes = how & 32 ? (size_t)header.count * header.length % 4096 : take_wide() % 1024;
  uint8_t *data = take_bytes(param.recv_attr ? 0 : bytes);
  ucx_receive(own.link, &header, sizeof(header) - (how & 64 ? 1 : 0), data, bytes, &param);
  free(data);
  if (how & (16 | 64))
    REQUIRE(own.endpoint->rx.highest == head && own.endpoint->tx.limit == limit);
}

static void fetch_ends(void)
{
  const uint32_t at = fetch_count ? take() % fetch_count : 0;
  if (!fetch_count)
    return;
  const bool fails = take() == 1;
  if (!fails)
    memset(fetches[at].buffer, 0x5a, fetches[at].bytes);
  fetches[at].ended(&fetches[at], fails ? UCS_ERR_IO_ERROR : UCS_OK, fetches[at].bytes,
                    fetches[at].arg);
  fetches[at] = fetches[--fetch_count];
}

static void address_comes(bool is_key)
{
  const size_t sum_at = is_key ? offsetof(struct ucx_key, sum) : offsetof(struct ucx_address, sum);
  const size_t least = is_key ? sizeof(struct ucx_key) : sizeof(struct ucx_address);
  const bool is_mended = take() & 1;
  const size_t length = take_wide() % 512;
  uint8_t *bytes = take_bytes(length);
  const struct pst_blob blob = {.struct_size = sizeof(blob),
                                .length = (uint32_t)length,
                                .capacity = (uint32_t)length,
                                .bytes = bytes};
  struct pst_remote *remote = NULL;
  int rc;

  if (is_mended && length >= least) {
    const uint32_t magic = UCX_MAGIC;
    memcpy(bytes, &magic, sizeof(magic));
    const uint64_t sum = ucx_blob_sum(bytes, length, sum_at);
    memcpy(bytes + sum_at, &sum, sizeof(sum));
  }
  if (is_key) {
    rc = ucx_remote_open(own.endpoint, &blob, &remote);
    REQUIRE((rc == 0) == (remote != NULL));
    ucx_remote_close(own.endpoint, remote);
  } else {
    const uint64_t nonce = own.link->peer.nonce;
    const struct ucx_stage before = own.link->stage;
    own.link->stage = (struct ucx_stage){.name = UCX_NEW};
    rc = ucx_endpoint_connect(own.endpoint, &blob);
    REQUIRE(rc == 0 || rc == -EPROTO || rc == -ENOTCONN || rc == -EHOSTUNREACH);
    REQUIRE(rc == 0 || own.link->peer.nonce == nonce);
    if (rc < 0 || before.name >= UCX_LEFT)
      own.link->stage = before;
    own.endpoint->tx.must_fetch = false; /* what is sent by rendezvous is not read here */
  }
  free(bytes);
}

/* ---- Calls of the host ---------------------------------------------------------------------- */

static void poll_once(uint32_t max)
{
  struct pst_completion out[SLOTS];
  const uint32_t n = ucx_receive_take(own.endpoint, out, max > SLOTS ? SLOTS : max);

  REQUIRE(own.held + n <= SLOTS);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t offset = out[i].u.message.offset;
    REQUIRE(out[i].kind == PST_COMPLETION_MESSAGE && out[i].u.message.length <= SLOT_BYTES);
    REQUIRE(offset % STRIDE == 0 && offset / STRIDE < SLOTS);
    for (uint32_t other = 0; other < own.held; other++)
      REQUIRE(own.tokens[other] != out[i].u.message.token);
    own.tokens[own.held++] = out[i].u.message.token;
  }
  own.given += n;
  REQUIRE(own.endpoint->rx.head == own.given);
  REQUIRE(own.endpoint->rx.head <= own.endpoint->rx.share.granted);
}

static void give_back(void)
{
  if (!own.held)
    return;
  const uint32_t at = take() % own.held;
  const uint64_t token = own.tokens[at];
  own.tokens[at] = own.tokens[--own.held];
  REQUIRE(pst_slots_release(&own.ring->cpu.slots, pst_token_slot(token)));
  ucx_share_release(&own.ring->shares, pst_token_slot(token));
}

static void take_dones(void)
{
  struct pst_dones *dones = &own.endpoint->cpu.dones;
  struct pst_completion done[4];

  ucx_units_retire(&own.endpoint->tx.sends, PST_OP_SEND, dones);
  ucx_units_retire(&own.endpoint->tx.writes, PST_OP_WRITE, dones);
  while (pst_dones_take(dones, 1, done, 4))
    ;
}

static void send_some(void)
{
  struct pst_request requests[4] = {0};
  struct pst_dones *dones = &own.endpoint->cpu.dones;
  const uint32_t n = 1 + take() % 4;
  uint32_t why = 0, taken;

  for (uint32_t i = 0; i < n; i++) {
    requests[i].opcode = PST_OP_SEND;
    requests[i].local.mr = &own.mr;
    requests[i].offset = (uint64_t)(SLOTS + take() % SLOTS) * STRIDE;
    requests[i].arg.length = take();
    requests[i].cookie = i + 1;
  }
  if (ucx_link_is_lost(own.link) || ucx_send_check(own.endpoint, requests) < 0)
    return;
  const uint64_t before = own.endpoint->tx.position, limit = own.endpoint->tx.limit;
  taken = ucx_send_start(own.endpoint, requests, n, &why);
  REQUIRE(taken <= n && own.endpoint->tx.position == before + taken);
  REQUIRE(taken <= limit - before);
  dones->outstanding += taken;
  take_dones();
}

/* One-sided requests of ours: post() would have judged them. */
static void ask_some(void)
{
  static const uint8_t opcodes[] = {PST_OP_WRITE, PST_OP_READ, PST_OP_FETCH_ADD,
                                    PST_OP_COMPARE_SWAP, PST_OP_FLUSH};
  static struct pst_remote remote = {.length = UINT64_MAX, .by_cpu = true};
  struct pst_request request = {.opcode = opcodes[take() % 5],
                                .local.mr = &own.mr,
                                .offset = (uint64_t)(SLOTS + take() % SLOTS) * STRIDE,
                                .cookie = 1};
  struct pst_dones *dones = &own.endpoint->cpu.dones;
  uint32_t why = 0;

  if (ucx_link_is_lost(own.link) || pst_dones_room(dones, 1) == 0)
    return;
  if (request.opcode == PST_OP_WRITE || request.opcode == PST_OP_READ)
    request.arg.length = take();
  if (request.opcode == PST_OP_WRITE || request.opcode == PST_OP_READ)
    request.u.rma.remote = &remote;
  else if (request.opcode != PST_OP_FLUSH)
    request.u.atomic.remote = &remote;
  if (!ucx_rma_may_start(own.endpoint, &request, &why))
    return;
  dones->outstanding++;
  ucx_rma_start(own.endpoint, &request);
  take_dones();
}

/* No slot is lost, and none is two messages'. */
static void count_slots(void)
{
  uint32_t open = 0;
  for (uint32_t i = 0; i < SLOTS; i++)
    open += own.link->arrivals[i].is_open;
  REQUIRE(own.ring->cpu.slots.free_count + own.held + open == SLOTS);
  REQUIRE(own.endpoint->tx.flush_known <= own.endpoint->tx.position);
}

static void operate(void)
{
  const uint32_t what = take() % 16;

  if (what < 7)
    message_comes();
  else if (what == 7)
    fetch_ends();
  else if (what == 8)
    give_back();
  else if (what == 9)
    send_some();
  else if (what == 10 && !ucx_link_is_lost(own.link)) {
    ucx_rma_step(own.endpoint);
    ucx_rma_am_step(own.endpoint);
    ucx_receive_step(own.endpoint);
    take_dones();
  } else if (what == 13)
    ask_some();
  else if (what == 11)
    address_comes(false);
  else if (what == 12)
    address_comes(true);
  else
    poll_once(1 + take() % SLOTS);
}

static void end(void)
{
  while (fetch_count)
    fetch_ends();
  ucx_receive_end(own.endpoint);
  while (own.held)
    give_back();
  free(own.endpoint->tx.sends.at);
  free(own.endpoint->tx.writes.at);
  pst_cpu_endpoint_end(&own.endpoint->cpu);
  ucx_shares_close(&own.ring->shares);
  pst_cpu_ring_close(&own.ring->cpu, &worker.rings);
  free(worker.rings.all);
  ucx_ams_close(own.link);
  ucx_rma_am_close(own.link);
  free(own.link->op_pieces);
  free(own.link->ops);
  free(own.link->arrivals);
  free(own.link);
  free(own.endpoint);
  free(own.ring);
  free(own.memory);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  input = data;
  input_end = data + size;
  begin();
  for (uint32_t i = 0; i < OPERATIONS_MAX && input < input_end; i++) {
    operate();
    count_slots();
  }
  end();
  return 0;
}
