/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's own calls as a stream would use them one by one: messages into the slots of a ring in
 * another process, which learns of each and gives the slots back.
 *
 *     bench-ucx-ways am|tag|put SIZE SLOTS MESSAGES CPU,CPU [cuda]
 *
 * am: UCX chooses between an eager message, which is copied into its slot, and a rendezvous; tag:
 * receives are posted for the slots; put: puts into the slots, a flush, and an active message that
 * says how many, for a quarter of the ring each. Prints messages a second.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define MESSAGE_ID 0u
#define CREDIT_ID 1u
#define UNDER_WAY_MAX 32u

enum way { AM, TAG, PUT };

static enum way way;
static bool is_on_gpu;
static uint64_t size, slots, messages;
static uint8_t *ring;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h memh;
static uint64_t received, given; /* by the receiver: messages; slots given back, at the sender */
static uint64_t told;            /* what the last credit said */
static uint32_t under_way;       /* requests of ours */
static uint64_t posted, flushed; /* puts */
static bool is_flushing;
static uint64_t credits[64]; /* UCX reads them until the message has gone */

struct remote {
  uint64_t address, worker_bytes, key_bytes;
};

static void need(bool holds, const char *what)
{
  if (holds)
    return;
  fprintf(stderr, "bench-ucx-ways: %s fails\n", what);
  exit(1);
}

static uint8_t *slot(uint64_t number)
{
  return ring + number % slots * size;
}

static void pin(int cpu)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  need(sched_setaffinity(0, sizeof(set), &set) == 0, "pinning");
}

static void swap(int socket, const void *ours, void *theirs, size_t bytes)
{
  need(write(socket, ours, bytes) == (ssize_t)bytes, "writing to the other end");
  need(recv(socket, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "reading from the other end");
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void ended(void *request, ucs_status_t status, void *arg)
{
  (void)arg;
  need(status == UCS_OK, "a request");
  ucp_request_free(request);
  under_way--;
}

static const ucp_request_param_t plain = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                          .cb.send = ended};

static void begun(ucs_status_ptr_t request)
{
  need(!UCS_PTR_IS_ERR(request), "starting a request");
  under_way += UCS_PTR_IS_PTR(request);
}

/* ---- The receiver --------------------------------------------------------------------------- */

static void fetched(void *request, ucs_status_t status, size_t length, void *arg)
{
  (void)length, (void)arg;
  need(status == UCS_OK, "a rendezvous");
  ucp_request_free(request);
  received++;
}

static ucs_status_t take_message(void *arg, const void *header, size_t header_bytes, void *data,
                                 size_t bytes, const ucp_am_recv_param_t *param)
{
  const ucp_request_param_t into = {.op_attr_mask =
                                        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMH,
                                    .cb.recv_am = fetched,
                                    .memh = memh};
  uint64_t number;

  (void)arg, (void)header_bytes;
  memcpy(&number, header, sizeof(number));
  if (way == PUT) {
    received = number;
    return UCS_OK;
  }
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker, data, slot(number), bytes, &into);
    need(!UCS_PTR_IS_ERR(request), "fetching");
    received += !request;
    return UCS_INPROGRESS;
  }
  memcpy(slot(number), data, bytes);
  received++;
  return UCS_OK;
}

static void post_tag(uint64_t number);

static void tagged(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
  (void)info, (void)arg;
  need(status == UCS_OK, "a receive");
  ucp_request_free(request);
  received++;
}

static void post_tag(uint64_t number)
{
  const ucp_request_param_t into = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                    UCP_OP_ATTR_FIELD_MEMH |
                                                    UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                    .cb.recv = tagged,
                                    .memh = memh};
  need(!UCS_PTR_IS_ERR(ucp_tag_recv_nbx(worker, slot(number), size, 0, 0, &into)), "a receive");
}

static void give_credit(uint64_t count)
{
  static uint32_t next;
  uint64_t *credit = &credits[next++ % 64];
  const ucp_request_param_t eager = {.op_attr_mask =
                                         UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
                                     .cb.send = ended,
                                     .flags = UCP_AM_SEND_FLAG_EAGER};
  *credit = count;
  begun(ucp_am_send_nbx(ep, CREDIT_ID, credit, sizeof(*credit), NULL, 0, &eager));
  told = count;
}

static void receive_all(void)
{
  for (uint64_t i = 0; way == TAG && i < slots && i < messages; i++)
    post_tag(i);
  give_credit(0); /* ready */
  uint64_t again = slots;
  while (told < messages) {
    ucp_worker_progress(worker);
    for (; way == TAG && again < messages && again < received + slots; again++)
      post_tag(again);
    if (received - told >= (slots + 3) / 4 || (received == messages && told < received))
      give_credit(received);
  }
}

/* ---- The sender ----------------------------------------------------------------------------- */

static bool is_ready;

static ucs_status_t take_credit(void *arg, const void *header, size_t header_bytes, void *data,
                                size_t bytes, const ucp_am_recv_param_t *param)
{
  (void)arg, (void)header_bytes, (void)data, (void)bytes, (void)param;
  memcpy(&given, header, sizeof(given));
  is_ready = true;
  return UCS_OK;
}

static void flush_ended(void *request, ucs_status_t status, void *arg)
{
  static uint64_t numbers[64];
  static uint32_t next;
  uint64_t *number = &numbers[next++ % 64];

  need(status == UCS_OK, "a flush");
  if (request)
    ucp_request_free(request);
  is_flushing = false;
  *number = flushed = (uint64_t)(uintptr_t)arg;
  begun(ucp_am_send_nbx(ep, MESSAGE_ID, number, sizeof(*number), NULL, 0, &plain));
}

static void flush(void)
{
  const ucp_request_param_t param = {.op_attr_mask =
                                         UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.send = flush_ended,
                                     .user_data = (void *)(uintptr_t)posted};
  ucs_status_ptr_t request;

  is_flushing = true;
  request = ucp_ep_flush_nbx(ep, &param);
  need(!UCS_PTR_IS_ERR(request), "a flush");
  if (!request)
    flush_ended(NULL, UCS_OK, (void *)(uintptr_t)posted);
}

static void send_one(uint64_t number, uint64_t address, ucp_rkey_h key)
{
  static uint64_t numbers[1024];
  uint64_t *header = &numbers[number % 1024];
  const ucp_request_param_t mapped = {.op_attr_mask =
                                          UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMH,
                                      .cb.send = ended,
                                      .memh = memh};
  *header = number;
  if (way == AM)
    begun(ucp_am_send_nbx(ep, MESSAGE_ID, header, sizeof(*header), slot(number), size, &mapped));
  else if (way == TAG)
    begun(ucp_tag_send_nbx(ep, slot(number), size, 0, &mapped));
  else
    begun(ucp_put_nbx(ep, slot(number), size, address + number % slots * size, key, &mapped));
  posted = number + 1;
}

static double send_all(uint64_t address, ucp_rkey_h key)
{
  struct timespec begin, end;
  uint64_t next = 0;

  while (!is_ready)
    ucp_worker_progress(worker);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  while (given < messages) {
    while (next < messages && next < given + slots && under_way < UNDER_WAY_MAX)
      send_one(next++, address, key);
    if (way == PUT && !is_flushing && posted != flushed &&
        (posted - flushed >= (slots + 3) / 4 || posted == messages || posted == given + slots))
      flush();
    ucp_worker_progress(worker);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}

/* ---- Both ----------------------------------------------------------------------------------- */

/* `call` points to the pointer to libcuda's function. */
static void bind_cuda(const char *name, void *call)
{
  static void *library;
  void *symbol;

  if (!library)
    library = dlopen("libcuda.so.1", RTLD_NOW);
  symbol = library ? dlsym(library, name) : NULL;
  need(symbol, name);
  memcpy(call, &symbol, sizeof(symbol));
}

/* The first GPU's, whose context is the thread's current one from here on. */
static uint8_t *gpu_memory(size_t bytes)
{
  int (*init)(unsigned int), (*retain)(void **, int), (*enter)(void *);
  int (*alloc)(uint64_t *, size_t);
  uint64_t address = 0;
  void *cuda = NULL;

  bind_cuda("cuInit", &init);
  bind_cuda("cuDevicePrimaryCtxRetain", &retain);
  bind_cuda("cuCtxSetCurrent", &enter);
  bind_cuda("cuMemAlloc_v2", &alloc);
  need(init(0) == 0 && retain(&cuda, 0) == 0 && enter(cuda) == 0 && alloc(&address, bytes) == 0,
       "memory of a GPU");
  return (uint8_t *)(uintptr_t)address;
}

static uint8_t *host_memory(size_t bytes)
{
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

  need(memory != MAP_FAILED, "mmap");
  memset(memory, 1, bytes);
  return memory;
}

static void open_ucx(bool is_receiver)
{
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA};
  const ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SINGLE};
  const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                        UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id = is_receiver ? MESSAGE_ID : CREDIT_ID,
                                          .cb = is_receiver ? take_message : take_credit};
  ring = is_on_gpu ? gpu_memory(slots * size) : host_memory(slots * size);
  const ucp_mem_map_params_t map = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
      .address = ring,
      .length = slots * size,
      .memory_type = is_on_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST};

  need(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
  need(ucp_worker_create(context, &single, &worker) == UCS_OK, "ucp_worker_create");
  need(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK, "the handler");
  need(ucp_mem_map(context, &map, &memh) == UCS_OK, "ucp_mem_map");
}

/* Returns the peer's ring, and its key. */
static uint64_t meet(int socket, ucp_rkey_h *key)
{
  ucp_address_t *address;
  size_t address_bytes, key_bytes;
  void *packed;
  uint8_t ours[4096] = {0}, theirs[4096];
  struct remote head, far;

  need(ucp_worker_get_address(worker, &address, &address_bytes) == UCS_OK, "the address");
  need(ucp_rkey_pack(context, memh, &packed, &key_bytes) == UCS_OK, "the key");
  need(sizeof(head) + address_bytes + key_bytes <= sizeof(ours), "room for the address");
  head = (struct remote){(uintptr_t)ring, address_bytes, key_bytes};
  memcpy(ours, &head, sizeof(head));
  memcpy(ours + sizeof(head), address, address_bytes);
  memcpy(ours + sizeof(head) + address_bytes, packed, key_bytes);
  swap(socket, ours, theirs, sizeof(ours));
  memcpy(&far, theirs, sizeof(far));
  const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                  .address = (const ucp_address_t *)(theirs + sizeof(far))};
  need(ucp_ep_create(worker, &params, &ep) == UCS_OK, "ucp_ep_create");
  need(ucp_ep_rkey_unpack(ep, theirs + sizeof(far) + far.worker_bytes, key) == UCS_OK, "the key");
  return far.address;
}

static enum way way_of(const char *name)
{
  static const char *const names[] = {"am", "tag", "put"};

  for (int i = 0; i < 3; i++)
    if (strcmp(name, names[i]) == 0)
      return (enum way)i;
  fprintf(stderr, "bench-ucx-ways: %s is none of am, tag, put\n", name);
  exit(2);
}

int main(int argc, char **argv)
{
  int ends[2], cpus[2];
  ucp_rkey_h key;

  is_on_gpu = argc == 7 && strcmp(argv[6], "cuda") == 0;
  if ((argc != 6 && !is_on_gpu) || sscanf(argv[5], "%d,%d", &cpus[0], &cpus[1]) != 2) {
    fprintf(stderr, "usage: bench-ucx-ways am|tag|put SIZE SLOTS MESSAGES CPU,CPU [cuda]\n");
    return 2;
  }
  way = way_of(argv[1]);
  size = strtoull(argv[2], NULL, 10);
  slots = strtoull(argv[3], NULL, 10);
  messages = strtoull(argv[4], NULL, 10);
  need(size && slots && messages && slots <= 1024, "SIZE, SLOTS, MESSAGES: at most 1024 slots;");
  need(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  const pid_t child = fork();
  const bool is_receiver = child == 0;
  const int socket = ends[is_receiver];
  need(child >= 0, "fork");
  close(ends[!is_receiver]);
  if (is_receiver)
    prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin(cpus[is_receiver]);
  open_ucx(is_receiver);
  const uint64_t address = meet(socket, &key);
  char over = 0;
  if (is_receiver) {
    receive_all();
    struct timeval patience = {.tv_usec = 1};
    need(setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0,
         "a timeout");
    while (recv(socket, &over, 1, 0) != 1) /* the last credit goes by progress */
      ucp_worker_progress(worker);
    _exit(0);
  }
  const double seconds = send_all(address, key);
  printf("%.0f\n", (double)messages / seconds);
  fflush(stdout);
  need(write(socket, &over, 1) == 1, "the end");
  waitpid(child, NULL, 0);
  return 0;
}
