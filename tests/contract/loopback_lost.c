/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of loopback takes shared memory away, offers more than there is, or hands over
 * descriptors that wait. Pages are taken away by a mapping of an empty file in their place:
 * whoever touches one has SIGBUS, as behind a punched hole that cannot be filled. */
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "harness.h"

/* Behind cmocka's macros, which it has names in common with. */
#undef fail
#include "../../transports/loopback/address.h"

#include <penstock/page.h>

#define ALARM_S 30

static struct contract_variant variant = {
    .name = "loopback-lost", .options = "mode=copy", .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = 16, .message = 4096, .requests = 64, .pieces = 1};
static const struct contract_params with_rma = {.endpoints = 1,
                                                .slots = 16,
                                                .message = 4096,
                                                .requests = 64,
                                                .pieces = 1,
                                                .roles_more = PST_ROLE_RMA};

static void *map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
  static void *(*real)(void *, size_t, int, int, int, off_t);
  if (!real) {
    void *found = dlsym(RTLD_NEXT, "mmap");
    memcpy(&real, &found, sizeof(real));
  }
  return real(at, bytes, prot, flags, fd, offset);
}

/* The plugin's, too: it is exported. Refuses as the kernel does under vm.overcommit_memory=2, where
 * what was at a fixed place is unmapped by then. */
static volatile bool is_overcommitted;
__attribute__((visibility("default"))) void *mmap(void *at, size_t bytes, int prot, int flags,
                                                  int fd, off_t offset)
{
  const int counted = MAP_PRIVATE | MAP_ANONYMOUS;
  if (!is_overcommitted || (flags & counted) != counted || !(prot & PROT_WRITE))
    return map(at, bytes, prot, flags, fd, offset);
  if (flags & MAP_FIXED)
    munmap(at, bytes);
  errno = ENOMEM;
  return MAP_FAILED;
}

struct range {
  void *at;
  size_t bytes;
};

/* Where this process has that file mapped, by address. Returns how often. */
static int mappings_of(int fd, struct range *ranges, int most)
{
  struct stat info;
  char line[512];
  int n = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  assert_non_null(maps);
  assert_int_equal(fstat(fd, &info), 0);
  while (fgets(line, sizeof(line), maps)) {
    uintptr_t begin, end;
    uint64_t inode;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %" SCNu64, &begin, &end, &inode) != 3 ||
        inode != (uint64_t)info.st_ino)
      continue;
    assert_true(n < most);
    ranges[n++] = (struct range){(void *)begin, end - begin}; // NOLINT(performance-no-int-to-ptr)
  }
  fclose(maps);
  return n;
}

static void take_away(const struct range *range)
{
  int fd = memfd_create("empty", MFD_CLOEXEC);
  assert_true(fd >= 0);
  assert_true(mmap(range->at, range->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                   0) == range->at);
  close(fd);
}

/* The sender's mapping of the receiver's ring. */
static struct range ring_of(struct contract_pair *pair)
{
  struct pst_blob blob;
  struct range ranges[2];
  contract_address(&pair->receiver, 0, &blob);
  assert_int_equal(mappings_of(blob.fds[LB_FD_RING], ranges, 2), 2);
  return ranges[ranges[0].at == pair->receiver.memory.region.host];
}

static void expect_lost(struct contract_side *victim)
{
  struct pst_completion gone =
      contract_await(victim, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -EFAULT);
  assert_int_equal(contract_complaints(), 1);
  assert_non_null(strstr(contract_complaint(), "SIGBUS"));
}

static void send_into_nothing(bool spare)
{
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  struct range ring = ring_of(pair);
  struct rlimit before, none;
  uint32_t wait;
  struct pst_request request = contract_send(&pair->sender, 0, 4096, 5);
  take_away(&ring);
  assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
  none = (struct rlimit){0, before.rlim_max};
  if (spare) /* no pages of its own can be promised */
    assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
  int taken = contract_post(&pair->sender, 0, &request, 1, &wait);
  assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
  assert_int_equal(taken, 1);
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, 1, 0);
  expect_lost(&pair->sender);
  assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -ECONNRESET);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_pair_close(pair);
}

static void ring_of_the_peers(void **state)
{
  (void)state;
  send_into_nothing(false);
}

static void ring_of_the_peers_without_memory(void **state)
{
  (void)state;
  send_into_nothing(true);
}

/* More than the spare pages are, touched by one call: each part is replaced as it is met. */
static void large_ring_without_memory(void **state)
{
  enum { MESSAGES = 12 };
  struct contract_params large = params;
  struct pst_request requests[MESSAGES];
  uint32_t wait;
  (void)state;
  large.message = 16384;
  struct contract_pair *pair = contract_pair_open(&variant, &large);
  contract_pair_connect(pair);
  struct range ring = ring_of(pair);
  for (uint32_t i = 0; i < MESSAGES; i++)
    requests[i] = contract_send(&pair->sender, 0, 16384, i + 1);
  take_away(&ring);
  is_overcommitted = true;
  int taken = contract_post(&pair->sender, 0, requests, MESSAGES, &wait);
  is_overcommitted = false;
  assert_int_equal(taken, MESSAGES);
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, MESSAGES, 0);
  expect_lost(&pair->sender);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_pair_close(pair);
}

/* At either end: each has it mapped. */
static void port(void **state)
{
  (void)state;
  for (int which = 0; which < 2; which++) {
    struct contract_pair *pair = contract_pair_open(&variant, &params);
    struct pst_blob blob;
    struct range ranges[2];
    contract_pair_connect(pair);
    contract_address(&pair->receiver, 0, &blob);
    assert_int_equal(mappings_of(blob.fds[LB_FD_PORT], ranges, 2), 2);
    take_away(&ranges[which]);
    struct pst_completion gone = {0};
    while (gone.status != -EFAULT) {
      contract_poll(&pair->sender);
      contract_poll(&pair->receiver);
      if (!contract_take(&pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone))
        contract_take(&pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone);
    }
    assert_int_equal(contract_complaints(), 1);
    contract_pair_close(pair);
  }
}

/* The messages that arrive lie in memory that the sender has, too. */
static void ring_of_ones_own(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  const struct pst_region *region = &pair->receiver.memory.region;
  struct range ring = {region->host, region->length};
  take_away(&ring);
  assert_int_equal(*(volatile uint8_t *)region->host, 0);
  expect_lost(&pair->receiver);
  struct pst_endpoint_params again = {.struct_size = sizeof(again),
                                      .roles = PST_ROLE_RECEIVER,
                                      .ring = pair->receiver.ring,
                                      .cookie = 7,
                                      .requests = 1};
  struct pst_endpoint *endpoint;
  pair->receiver.image.ops->endpoint_close(pair->receiver.endpoints[0], PST_CLOSE_ABORT, 0);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  pair->receiver.closed[0] = true;
  assert_int_equal(
      pair->receiver.image.ops->endpoint_open(pair->receiver.worker, &again, &endpoint), -EFAULT);
  contract_complaints();
  contract_pair_close(pair);
}

static int remote_of(struct contract_pair *pair, struct pst_blob *blob, struct pst_remote **remote)
{
  return pair->sender.image.ops->remote_open(pair->sender.endpoints[0], blob, remote);
}

static void pack(struct contract_pair *pair, uint8_t *bytes, size_t size, struct pst_blob *blob)
{
  const struct contract_side *far = &pair->receiver;
  *blob =
      (struct pst_blob){.struct_size = sizeof(*blob), .capacity = (uint32_t)size, .bytes = bytes};
  assert_int_equal(far->image.ops->mr_pack(far->device, far->mr, blob), 0);
}

static void range_of_the_peers(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &with_rma);
  struct pst_remote *remote;
  struct pst_blob blob;
  uint8_t bytes[1024];
  struct range ranges[4];
  contract_pair_connect(pair);
  struct range ring = ring_of(pair);
  pack(pair, bytes, sizeof(bytes), &blob);
  assert_int_equal(remote_of(pair, &blob, &remote), 0);
  int n = mappings_of(blob.fds[LB_FD_REGION], ranges, 4);
  for (int i = 0; i < n; i++)
    if (ranges[i].at != ring.at && ranges[i].at != pair->receiver.memory.region.host)
      take_away(&ranges[i]);
  assert_int_equal(n, 3);
  struct pst_request read = {.opcode = PST_OP_READ,
                             .local.mr = pair->sender.mr,
                             .arg.length = 64,
                             .cookie = 9,
                             .u.rma.remote = remote};
  contract_post_one(pair, &read);
  contract_await_done(&pair->sender, NULL, PST_OP_READ, 1, -ECONNRESET);
  expect_lost(&pair->sender);
  pair->sender.image.ops->remote_close(pair->sender.endpoints[0], remote);
  contract_pair_close(pair);
}

static sigjmp_buf out_of_it;

static void jump(int number, siginfo_t *info, void *context)
{
  (void)number, (void)info, (void)context;
  siglongjmp(out_of_it, 1);
}

/* A SIGBUS outside a peer's memory goes to the handler that was there before. */
static void memory_of_others(void **state)
{
  (void)state;
  struct sigaction ours = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO}, before, now;
  struct contract_side side = {0};
  struct range other = {NULL, pst_page_size()};
  sigemptyset(&ours.sa_mask);
  assert_int_equal(sigaction(SIGBUS, &ours, &before), 0);
  contract_side_open(&variant, &params, false, true, &side);
  assert_int_equal(sigaction(SIGBUS, NULL, &now), 0);
  assert_true(now.sa_sigaction != jump);
  other.at = mmap(NULL, other.bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(other.at != MAP_FAILED);
  take_away(&other);
  volatile bool jumped = true;
  if (sigsetjmp(out_of_it, 1) == 0) {
    (void)*(volatile uint8_t *)other.at;
    jumped = false;
  }
  assert_true(jumped);
  contract_side_close(&side);
  assert_int_equal(sigaction(SIGBUS, &before, &now), 0);
  assert_true(now.sa_sigaction == jump); /* nothing of the plugin's is left */
  munmap(other.at, other.bytes);
}

static int sparse(uint64_t bytes)
{
  int fd = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return fd;
}

/* A range is mapped, not the file that it lies in; and no more than a machine can have. */
static void files_without_end(void **state)
{
  (void)state;
  const uint64_t bytes = UINT64_C(1) << 45;
  struct contract_pair *pair = contract_pair_open(&variant, &with_rma);
  struct pst_remote *remote;
  struct pst_blob blob;
  struct lb_remote_blob handle;
  uint8_t raw[1024];
  contract_pair_connect(pair);
  pack(pair, raw, sizeof(raw), &blob);
  memcpy(&handle, raw, sizeof(handle));
  blob.fds[LB_FD_REGION] = sparse(bytes);
  const uint64_t before = contract_mapped_bytes();
  handle.offset = bytes - 8192;
  handle.length = 4096;
  memcpy(raw, &handle, sizeof(handle));
  assert_int_equal(remote_of(pair, &blob, &remote), 0);
  assert_true(contract_mapped_bytes() - before < UINT64_C(1) << 20);
  pair->sender.image.ops->remote_close(pair->sender.endpoints[0], remote);
  handle.offset = 0;
  handle.length = bytes - 8192;
  memcpy(raw, &handle, sizeof(handle));
  assert_int_equal(remote_of(pair, &blob, &remote), -ENOMEM);
  assert_int_equal(contract_complaints(), 1);
  close(blob.fds[LB_FD_REGION]);
  contract_pair_close(pair);
}

/* A node's peer says how long its ring is, and this end's memory pays for what it writes there. */
static void ring_without_memory(void **state)
{
  (void)state;
  struct contract_side receiver = {0};
  struct pst_blob blob;
  struct lb_address address;
  struct stat info;
  contract_side_open(&variant, &with_rma, true, true, &receiver);
  contract_address(&receiver, 0, &blob);
  memcpy(&address, blob.bytes, sizeof(address));
  blob.fds[LB_FD_RING] = sparse(UINT64_C(4) << 30);
  address.ring_offset = 0;
  address.stride = UINT64_C(256) << 20;
  memcpy(blob.bytes, &address, sizeof(address));
  assert_int_equal(contract_connect_one(&variant, &with_rma, &blob), -EPROTO);
  assert_int_equal(contract_complaints(), 1);
  address.stride = UINT64_C(2) << 20;
  memcpy(blob.bytes, &address, sizeof(address));
  assert_int_equal(contract_connect_one(&variant, &with_rma, &blob), 0);
  assert_int_equal(fstat(blob.fds[LB_FD_RING], &info), 0);
  assert_int_equal(info.st_blocks, 0);
  close(blob.fds[LB_FD_RING]);
  contract_side_close(&receiver);
}

static void descriptors_that_wait(void **state)
{
  (void)state;
  struct contract_side receiver = {0};
  struct pst_blob good, bad;
  int pair[2], pipes[2];
  contract_side_open(&variant, &with_rma, true, true, &receiver);
  contract_address(&receiver, 0, &good);
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  const int fds[] = {pair[0], pipes[0], pipes[1], eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  for (int i = 0; i < 4; i++)
    for (int which = LB_FD_PROCESS; which <= LB_FD_WAKE; which++) {
      bad = good;
      bad.fds[which] = fds[i];
      assert_int_equal(contract_connect_one(&variant, &with_rma, &bad), -EPROTO);
    }
  assert_int_equal(contract_complaints(), 8);
  assert_int_equal(contract_connect_one(&variant, &with_rma, &good), 0);
  close(fds[3]);
  for (int i = 0; i < 2; i++) {
    close(pair[i]);
    close(pipes[i]);
  }
  contract_side_close(&receiver);
}

/* As the end of an asynchronous read does: it brings the counter of an eventfd to the last value,
 * which no write can. Other kinds of file are refused. */
static void signal_end_of_io(int fd)
{
  aio_context_t context = 0;
  char byte;
  int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  struct iocb read_one = {.aio_lio_opcode = IOCB_CMD_PREAD,
                          .aio_fildes = (uint32_t)zeros,
                          .aio_buf = (uintptr_t)&byte,
                          .aio_nbytes = 1,
                          .aio_flags = IOCB_FLAG_RESFD,
                          .aio_resfd = (uint32_t)fd};
  struct iocb *all = &read_one;
  assert_true(zeros >= 0);
  if (syscall(SYS_io_setup, 1, &context) == 0) {
    syscall(SYS_io_submit, context, 1L, &all);
    syscall(SYS_io_destroy, context); /* waits for the read */
  }
  close(zeros);
}

/* Does to a wake-up's descriptor what its owner can do to make a writer wait. */
static void spoil_wake(int fd)
{
  const struct itimerspec never = {.it_value = {.tv_sec = 1000000}};
  const uint64_t most = UINT64_MAX - 2; /* of an eventfd that began with 1 */
  (void)!write(fd, &most, sizeof(most));
  signal_end_of_io(fd);
  timerfd_settime(fd, 0, &never, NULL);
  assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
}

static void wake_up_that_would_wait(void **state)
{
  (void)state;
  const struct contract_params sleepy = {
      .endpoints = 1, .slots = 16, .message = 256, .requests = 64, .pieces = 1, .sleep = true};
  struct contract_pair *pair = contract_pair_open(&variant, &sleepy);
  const struct pst_transport_ops *ops = pair->receiver.image.ops;
  struct pst_worker *worker = pair->receiver.worker;
  struct pst_request request = contract_send(&pair->sender, 0, 64, 3);
  struct pst_blob blob;
  contract_pair_connect(pair);
  contract_address(&pair->receiver, 0, &blob);
  int fd = blob.fds[LB_FD_WAKE];
  spoil_wake(fd);
  alarm(ALARM_S); /* a wake-up that waits, waits for ever */
  /* Each loss is reported once, or a worker would never sleep again. */
  struct pollfd readable = {.fd = ops->event_fd(worker), .events = POLLIN};
  while (ops->arm(worker) != 0)
    contract_poll(&pair->receiver);
  assert_int_equal(poll(&readable, 1, 0), 0);
  contract_post_one(pair, &request);
  assert_int_equal(poll(&readable, 1, contract_deadline_ns / 1000000), 1);
  struct pst_completion message = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  alarm(0);
  contract_release(&pair->receiver, &message);
  contract_pair_close(pair);
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(ring_of_the_peers),
      cmocka_unit_test(ring_of_the_peers_without_memory),
      cmocka_unit_test(large_ring_without_memory),
      cmocka_unit_test(port),
      cmocka_unit_test(ring_of_ones_own),
      cmocka_unit_test(range_of_the_peers),
      cmocka_unit_test(memory_of_others),
      cmocka_unit_test(files_without_end),
      cmocka_unit_test(ring_without_memory),
      cmocka_unit_test(descriptors_that_wait),
      cmocka_unit_test(wake_up_that_would_wait),
  };
  return cmocka_run_group_tests_name("loopback: memory that is lost", cases, NULL, NULL) ? 1 : 0;
}
