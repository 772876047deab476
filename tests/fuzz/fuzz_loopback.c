/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint of loopback whose peer is the input: its address and its memory handle are changed,
 * shared memory (port, ring, gate) is written between calls, and by a thread while they run.
 * Whatever stands there, the host gets messages that lie in its ring, tokens that are not out yet,
 * and one DONE for each request.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "loopback/address.h"
#include "loopback/endpoint.h"
#include "loopback/mr.h"
#include "loopback/remote.h"
#include "loopback/rx.h"
#include "require.h"

#define SLOTS 8u
#define SLOT_BYTES 256u
#define REGION_BYTES 8192u
#define REQUESTS 16u
#define OPERATIONS_MAX 256u
#define NONE UINT32_MAX

struct file {
  int fd;
  uint8_t *at;
  uint64_t bytes;
};

static struct {
  struct file port, ring, gate, region;
  int wake, process;
} peer;

static struct {
  struct file memory;
  struct pst_device *device;
  struct pst_worker *worker;
  struct pst_mr *mr;
  struct pst_ring *ring;
  struct pst_endpoint *endpoint;
  struct pst_remote *remote;
  struct file port; /* as its peer has it */
  bool is_held[SLOTS];
  uint64_t tokens[SLOTS];
  uint64_t posted;
  bool is_closed;
} own;

static uint64_t now_ns;

/* ---- The host -------------------------------------------------------------------- */

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
  (void)host;
  return now_ns += 1000000;
}

static uint64_t host_option(const struct pst_options *options, const char *name)
{
  (void)options, (void)name;
  return LB_MODE_COPY;
}

static int host_export(const struct pst_host *host, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  (void)host, (void)region;
  out->kind = kind;
  out->fd = fcntl(own.memory.fd, F_DUPFD_CLOEXEC, 0);
  out->offset = offset;
  out->length = length;
  return out->fd < 0 ? -errno : 0;
}

static int host_import(const struct pst_host *host, const struct pst_region *near,
                       const struct pst_export *from, struct pst_region *far)
{
  (void)host, (void)near, (void)from, (void)far;
  return -EOPNOTSUPP;
}

static const struct pst_host host = {.struct_size = sizeof(host),
                                     .log = host_log,
                                     .clock_ns = host_clock,
                                     .option_uint = host_option,
                                     .region_export = host_export,
                                     .region_import = host_import};

static struct file file_make(uint64_t bytes)
{
  struct file file = {.fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING), .bytes = bytes};
  REQUIRE(file.fd >= 0 && ftruncate(file.fd, (off_t)bytes) == 0);
  REQUIRE(fcntl(file.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  file.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
  REQUIRE(file.at != MAP_FAILED);
  return file;
}

/* ---- Writes during polls ---------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct file scribbled; /* at NULL: nothing */

static void *scribble(void *unused)
{
  static const uint32_t values[] = {0, 1, 7, 8, 9, 256, 257, UINT32_MAX, UINT32_C(1) << 31};
  uint32_t state = 1;
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!scribbled.at)
      pthread_cond_wait(&changed, &lock);
    for (int i = 0; i < 256; i++) {
      state = state * 1664525 + 1013904223;
      uint64_t word = (state >> 8) % (scribbled.bytes / 4);
      ((volatile uint32_t *)(void *)scribbled.at)[word] = values[(state >> 4) % 9];
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
  }
  return NULL;
}

static void scribble_on(struct file file)
{
  pthread_mutex_lock(&lock);
  scribbled = file;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

/* ---- Input --------------------------------------------------------------------------- */

static const uint8_t *input, *input_end;

static uint32_t take(void)
{
  return input < input_end ? *input++ : 0;
}

static uint64_t take_value(void)
{
  static const uint64_t values[] = {0,          1,         SLOTS,          SLOTS + 1, SLOT_BYTES,
                                    UINT32_MAX, INT64_MAX, UINT64_MAX - 1, UINT64_MAX};
  uint32_t which = take();
  return which < 9 ? values[which] : (uint64_t)which << (take() % 64);
}

static void change(void *bytes, size_t size)
{
  for (uint32_t n = take() % 4; n > 0; n--) {
    uint64_t value = take_value();
    uint32_t at = take() % (uint32_t)(size / 4) * 4;
    memcpy((uint8_t *)bytes + at, &value, size - at < 8 ? size - at : 8);
  }
}

static void poke(const struct file *file)
{
  uint64_t value = take_value();
  uint64_t at = take() * 4 % (file->bytes - 8);
  memcpy(file->at + at, &value, 8);
}

/* ---- One life -------------------------------------------------------------------------- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  uint64_t capacity;
  pthread_t thread;
  struct pst_plan plan = {.struct_size = sizeof(plan)};
  struct pst_open_params open = {.struct_size = sizeof(open), .plan = &plan};
  (void)argc, (void)argv;
  peer.port = file_make(lb_port_bytes(SLOTS, &capacity));
  peer.ring = file_make(SLOTS * SLOT_BYTES);
  peer.gate = file_make(sizeof(struct lb_gate_page));
  peer.region = file_make(REGION_BYTES);
  own.memory = file_make(REGION_BYTES);
  peer.process = (int)syscall(SYS_pidfd_open, getpid(), 0);
  REQUIRE(peer.process >= 0);
  REQUIRE(lb_open(&host, &open, &own.device) == 0);
  REQUIRE(lb_worker_open(own.device, 0, &own.worker) == 0);
  struct pst_region region = {.struct_size = sizeof(region),
                              .host = own.memory.at,
                              .address = (uintptr_t)own.memory.at,
                              .length = REGION_BYTES,
                              .page_size = 4096,
                              .exports = PST_EXPORT_FD};
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .region = &region,
                             .length = REGION_BYTES,
                             .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                       PST_ACCESS_RING | LB_REMOTE_ACCESS};
  REQUIRE(lb_mr_register(own.device, &mr, &own.mr) == 0);
  REQUIRE(pthread_create(&thread, NULL, scribble, NULL) == 0);
  return 0;
}

static void meet(void)
{
  uint8_t bytes[sizeof(struct lb_address)];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  struct lb_address address = {.magic = LB_ADDRESS_MAGIC,
                               .version = LB_VERSION,
                               .nonce = {1, 2},
                               .id = 3,
                               .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
                               .slots = SLOTS,
                               .port_bytes = peer.port.bytes,
                               .stride = SLOT_BYTES,
                               .payload_max = SLOT_BYTES};
  const int fds[] = {peer.process, peer.wake, peer.port.fd, peer.ring.fd};
  change(&address, sizeof(address));
  memcpy(bytes, &address, sizeof(address));
  blob.length = sizeof(bytes) - (take() == 255);
  blob.fd_count = take() == 255 ? 3 : 4;
  uint32_t turned = take();
  for (uint32_t i = 0; i < 4; i++)
    blob.fds[i] = fds[turned == 255 ? (i + 1) % 4 : i];
  lb_endpoint_connect(own.endpoint, &blob);
}

static void begin(void)
{
  uint8_t bytes[sizeof(struct lb_address)];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  struct lb_port *port = (struct lb_port *)(void *)peer.port.at;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_ring_params ring = {.struct_size = sizeof(ring),
                                 .slots = SLOTS,
                                 .mr = own.mr,
                                 .stride = SLOT_BYTES,
                                 .payload_max = SLOT_BYTES,
                                 .endpoints = 1};
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
                                       .cookie = 1,
                                       .requests = REQUESTS,
                                       .message_max = SLOT_BYTES,
                                       .label = "fuzzed"};
  memset(peer.port.at, 0, peer.port.bytes);
  memset(peer.gate.at, 0, peer.gate.bytes);
  ((struct lb_gate_page *)(void *)peer.gate.at)->gate.open = 1;
  uint32_t *free_slots =
      (uint32_t *)(void *)(peer.port.at + sizeof(*port) + SLOTS * sizeof(struct lb_desc));
  for (uint32_t i = 0; i < SLOTS; i++)
    free_slots[i] = i;
  atomic_store(&port->free_head, SLOTS);
  atomic_store(&port->state, LB_STATE_ATTACHED);
  peer.wake = lb_wake_open();
  memset(own.is_held, 0, sizeof(own.is_held));
  own.posted = 0;
  own.is_closed = false;
  own.remote = NULL;
  REQUIRE(lb_ring_open(own.worker, &ring, &path, &own.ring) == 0);
  params.ring = own.ring;
  REQUIRE(lb_endpoint_open(own.worker, &params, &own.endpoint) == 0);
  REQUIRE(lb_endpoint_address(own.endpoint, &blob) == 0);
  own.port.bytes = peer.port.bytes;
  own.port.at =
      mmap(NULL, own.port.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, blob.fds[LB_FD_PORT], 0);
  REQUIRE(own.port.at != MAP_FAILED);
}

static void open_remote(void)
{
  uint8_t bytes[sizeof(struct lb_remote_blob)];
  struct pst_blob blob = {.struct_size = sizeof(blob),
                          .capacity = sizeof(bytes),
                          .length = sizeof(bytes),
                          .fd_count = 2,
                          .bytes = bytes};
  struct lb_remote_blob handle = {.magic = LB_REMOTE_MAGIC,
                                  .version = LB_VERSION,
                                  .access = LB_REMOTE_ACCESS,
                                  .nonce = {1, 2},
                                  .id = 4,
                                  .length = REGION_BYTES,
                                  .kind = PST_EXPORT_FD};
  if (own.is_closed || own.remote)
    return;
  change(&handle, sizeof(handle));
  memcpy(bytes, &handle, sizeof(handle));
  blob.fds[LB_FD_VALID] = peer.gate.fd;
  blob.fds[LB_FD_REGION] = peer.region.fd;
  lb_remote_open(own.endpoint, &blob, &own.remote);
}

static void on_message(const struct pst_completion *message)
{
  uint32_t place = 0;
  REQUIRE(message->u.message.length <= SLOT_BYTES);
  REQUIRE(message->u.message.offset % SLOT_BYTES == 0);
  REQUIRE(message->u.message.offset / SLOT_BYTES < SLOTS);
  place = (uint32_t)(message->u.message.offset / SLOT_BYTES);
  REQUIRE(!own.is_held[place]);
  own.is_held[place] = true;
  own.tokens[place] = message->u.message.token;
}

static void poll_once(uint32_t max)
{
  struct pst_completion completions[16];
  int n = lb_poll(own.worker, completions, max);
  REQUIRE(n >= 0 && (uint32_t)n <= max);
  for (int i = 0; i < n; i++) {
    const struct pst_completion *one = &completions[i];
    REQUIRE(one->endpoint == 1);
    if (one->kind == PST_COMPLETION_MESSAGE)
      on_message(one);
    if (one->kind == PST_COMPLETION_DONE) {
      REQUIRE(one->u.done.count > 0 && one->u.done.count <= own.posted);
      own.posted -= one->u.done.count;
    }
    if (one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_CLOSED) {
      own.is_closed = true;
      own.remote = NULL;
    }
  }
}

static void post(uint8_t opcode)
{
  struct pst_request requests[4] = {{0}};
  uint32_t n = 1 + take() % 4, wait = 0;
  if (own.is_closed || (opcode != PST_OP_SEND && !own.remote))
    return;
  for (uint32_t i = 0; i < n; i++) {
    requests[i].opcode = opcode;
    requests[i].local.mr = own.mr;
    requests[i].offset = 4096;
    requests[i].arg.length = take();
    requests[i].cookie = i;
    if (opcode == PST_OP_SEND)
      continue;
    requests[i].u.rma.remote = own.remote;
    requests[i].u.rma.offset = take() * 64u;
  }
  int taken = lb_post(own.endpoint, requests, n, &wait);
  REQUIRE(taken <= (int)n);
  for (int i = 0; i < taken && opcode != PST_OP_SEND; i++)
    REQUIRE(requests[i].u.rma.offset + requests[i].arg.length <= REGION_BYTES ||
            (opcode == PST_OP_FETCH_ADD && requests[i].u.rma.offset <= REGION_BYTES - 8));
  if (taken > 0)
    own.posted += (uint64_t)taken;
  REQUIRE(own.posted <= REQUESTS);
}

static void give_back(void)
{
  for (uint32_t i = 0; i < SLOTS; i++)
    if (own.is_held[i]) {
      own.is_held[i] = false;
      REQUIRE(lb_release(own.worker, &own.tokens[i], 1) == 0);
    }
}

/* As an honest peer does. */
static void send_one(void)
{
  struct lb_port *port = (struct lb_port *)(void *)own.port.at;
  struct lb_desc *descs = (struct lb_desc *)(port + 1);
  uint64_t head = atomic_load(&port->desc_head);
  descs[head % SLOTS].slot = take() % (SLOTS + 1);
  descs[head % SLOTS].length = take() * 2;
  atomic_store(&port->desc_head, head + 1);
}

static void operate(void)
{
  static const uint8_t opcodes[] = {PST_OP_SEND, PST_OP_READ, PST_OP_WRITE, PST_OP_FETCH_ADD};
  uint32_t what = take() % 12;
  if (what < 4) {
    post(opcodes[what]);
  } else if (what == 4) {
    poke(&own.port);
  } else if (what == 5) {
    poke(&peer.port);
  } else if (what == 6) {
    poke(&peer.gate);
  } else if (what == 7) {
    give_back();
  } else if (what == 8) {
    send_one();
  } else if (what == 9) {
    lb_arm(own.worker);
  } else if (what == 10) {
    open_remote();
  } else {
    poll_once(1 + take() % 16);
  }
}

static void end(void)
{
  if (!own.is_closed)
    lb_endpoint_close(own.endpoint, PST_CLOSE_ABORT, 0);
  for (int i = 0; i < 100 && !own.is_closed; i++)
    poll_once(16);
  REQUIRE(own.is_closed && own.posted == 0);
  scribble_on((struct file){0});
  give_back();
  lb_ring_close(own.worker, own.ring);
  munmap(own.port.at, own.port.bytes);
  close(peer.wake);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  input = data;
  input_end = data + size;
  begin();
  uint32_t scribbles = take();
  meet();
  poll_once(16);
  if (scribbles == 1)
    scribble_on(own.port);
  if (scribbles == 2)
    scribble_on(peer.port);
  for (uint32_t i = 0; i < OPERATIONS_MAX && input < input_end; i++)
    operate();
  end();
  return 0;
}
