/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes that a peer has no room to hear of, and memory after a close.
 *
 *     ucx-told PLUGIN
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#include "config/options.h"

/* More than UCX's queue of a receiver and what a link keeps beside it. */
#define SLOTS 1024
#define JUMP_NS UINT64_C(30000000000)
#define POLLS 2000
#define LONG_BYTES (UINT64_C(4) << 20)

static const char *const shared[] = {"tls=posix,self", NULL};
static const char *const fetched_shared[] = {"tls=posix,self", "rendezvous_from=4KiB", NULL};
static const char *const fetched_tcp[] = {"tls=tcp,self", "rendezvous_from=4KiB", NULL};
static struct contract_variant variant = {.name = "told", .apart = true};
static const struct contract_params small = {
    .endpoints = 1, .slots = SLOTS, .message = 64, .requests = SLOTS, .pieces = 1};
static const struct contract_params large = {
    .endpoints = 1, .slots = 4, .message = LONG_BYTES, .requests = 8, .pieces = 1};

/* ---- A peer with a full queue -------------------------------------------------------------- */

static uint64_t jump_ns;

static uint64_t later_ns(void)
{
  return contract_now_ns() + jump_ns;
}

/* Polls nothing until the parent says so, and then has to hear of the end. */
static void child(int socket)
{
  struct contract_side side = {0};
  struct contract_account account = {0};
  char go;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  contract_side_open(&variant, &small, false, true, &side);
  account.message = side.message;
  if (!contract_meet(&side, socket) || read(socket, &go, 1) != 1)
    _exit(3);
  contract_receive_until(&side, UINT64_MAX, &account);
  if (!account.gone)
    _exit(4);
  if (account.status != -ECONNRESET || account.wrong)
    _exit(5);
  _exit(write(socket, &go, 1) != 1);
}

static pid_t spawn(int *socket)
{
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(pair[0]);
    child(pair[1]);
  }
  close(pair[1]);
  *socket = pair[0];
  return pid;
}

/* One message each time: an active message each, until UCX has no room for another. */
static void fill_queue(struct contract_side *side)
{
  uint32_t wait = 0;
  for (uint64_t i = 0; i < SLOTS && wait != PST_WAIT_QUEUE; i++) {
    uint64_t offset = i % 32 * side->stride;
    contract_fill((uint8_t *)side->memory.region.host + offset, side->message, i);
    struct pst_request request = contract_send(side, offset, side->message, i);
    contract_post(side, 0, &request, 1, &wait);
  }
  assert_int_equal(wait, PST_WAIT_QUEUE);
}

static void close_endpoint(struct contract_side *side)
{
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_ABORT, 0), 0);
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  side->closed[0] = true;
}

static void close_rest(struct contract_side *side)
{
  side->image.ops->mr_deregister(side->device, side->mr);
  side->image.ops->close(side->device);
  contract_region_free(&side->memory);
  options_free(side->options);
  free(side->log);
  contract_posted_clear(&side->posted[0]);
}

static void child_hears(int socket, pid_t pid)
{
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  close(socket);
}

/* The clock that ended such links runs far ahead. */
static void a_full_peer_hears_of_a_close(void **state)
{
  (void)state;
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct contract_side side = {0};
  int socket;
  char told;
  variant.option_list = shared;
  pid_t pid = spawn(&socket);
  contract_host_clock(later_ns);
  contract_side_open(&variant, &small, false, false, &side);
  assert_true(contract_meet(&side, socket));
  fill_queue(&side);
  close_endpoint(&side);
  jump_ns = JUMP_NS;
  for (int i = 0; i < POLLS; i++)
    contract_poll(&side);
  assert_int_equal(write(socket, "g", 1), 1);
  while (recv(socket, &told, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
    contract_poll(&side);
  child_hears(socket, pid);
  side.image.ops->worker_close(side.worker);
  close_rest(&side);
  jump_ns = 0;
  contract_host_clock(contract_now_ns);
  contract_complaints();
}

#define THREADS_MAX 16

/* The threads of this process, by number. */
struct threads {
  long at[THREADS_MAX];
  uint32_t count;
};

static void list_threads(struct threads *threads)
{
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  threads->count = 0;
  for (struct dirent *entry; (entry = readdir(folder));)
    if (entry->d_name[0] != '.') {
      assert_in_range(threads->count, 0, THREADS_MAX - 1);
      threads->at[threads->count++] = strtol(entry->d_name, NULL, 10);
    }
  closedir(folder);
}

static bool is_among(const struct threads *threads, long thread)
{
  for (uint32_t i = 0; i < threads->count; i++)
    if (threads->at[i] == thread)
      return true;
  return false;
}

static uint64_t blocked_by(long thread)
{
  char path[64], line[128];
  unsigned long long blocked = 0;
  snprintf(path, sizeof(path), "/proc/self/task/%ld/status", thread);
  FILE *status = fopen(path, "re");
  assert_non_null(status);
  while (fgets(line, sizeof(line), status) && sscanf(line, "SigBlk: %llx", &blocked) != 1)
    ;
  fclose(status);
  return blocked;
}

/* One has come since, and takes none of the signals that programs handle. */
static void one_came_and_blocks_signals(const struct threads *before)
{
  static const int handled[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
  struct threads now;
  uint32_t came = 0;
  list_threads(&now);
  for (uint32_t i = 0; i < now.count; i++) {
    if (is_among(before, now.at[i]))
      continue;
    came++;
    for (size_t k = 0; k < sizeof(handled) / sizeof(handled[0]); k++)
      assert_true(blocked_by(now.at[i]) >> (handled[k] - 1) & 1);
  }
  assert_int_equal(came, 1);
}

/* Nobody polls here any more: the device has the link, and a thread, which leaves signals to the
 * host's. */
static void a_full_peer_hears_of_a_close_behind_the_worker(void **state)
{
  (void)state;
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct contract_side side = {0};
  int socket;
  variant.option_list = shared;
  pid_t pid = spawn(&socket);
  contract_side_open(&variant, &small, false, false, &side);
  assert_true(contract_meet(&side, socket));
  fill_queue(&side);
  close_endpoint(&side);
  contract_host_clock(later_ns);
  jump_ns = JUMP_NS;
  struct threads before;
  list_threads(&before);
  side.image.ops->worker_close(side.worker);
  assert_int_equal(write(socket, "g", 1), 1);
  child_hears(socket, pid);
  one_came_and_blocks_signals(&before);
  close_rest(&side);
  jump_ns = 0;
  contract_host_clock(contract_now_ns);
  contract_complaints();
}

/* The peer is killed while the device waits for it: the device then closes without a wait. */
static void a_full_peer_that_dies_is_not_waited_for(void **state)
{
  (void)state;
  contract_rule(
      "Begin to close: the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of CLOCK_MONOTONIC at the latest.");
  struct contract_side side = {0};
  int socket;
  variant.option_list = shared;
  pid_t pid = spawn(&socket);
  contract_side_open(&variant, &small, false, false, &side);
  assert_true(contract_meet(&side, socket));
  fill_queue(&side);
  close_endpoint(&side);
  side.image.ops->worker_close(side.worker);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  close_rest(&side);
  close(socket);
  assert_int_equal(contract_complaints(), 0);
}

/* ---- Memory behind a close ------------------------------------------------------------------ */

static void forbid(struct contract_side *side, int prot)
{
  assert_int_equal(mprotect(side->memory.region.host, side->memory.region.length, prot), 0);
}

static struct contract_pair *begin_fetch(const char *const *options)
{
  variant.option_list = options;
  struct contract_pair *pair = contract_pair_open(&variant, &large);
  struct contract_side *side = &pair->sender;
  struct pst_request requests[4];
  uint32_t wait;
  contract_pair_connect(pair);
  for (uint32_t i = 0; i < 4; i++)
    requests[i] = contract_send(side, i * side->stride, side->message, i);
  assert_int_equal(contract_post(side, 0, requests, 4, &wait), 4);
  return pair;
}

/* The sender leaves after any part of its messages has been sent. */
static void sender_leaves(const char *const *options, uint32_t polls)
{
  struct contract_pair *pair = begin_fetch(options);
  for (; polls; polls--) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
  }
  close_endpoint(&pair->sender);
  forbid(&pair->sender, PROT_NONE);
  struct pst_completion gone =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ECONNRESET);
  for (int i = 0; i < POLLS; i++) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
  }
  forbid(&pair->sender, PROT_READ | PROT_WRITE);
  contract_pair_close(pair);
  contract_complaints();
}

static void receiver_leaves(const char *const *options, uint32_t polls)
{
  struct contract_pair *pair = begin_fetch(options);
  for (; polls; polls--) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
  }
  close_endpoint(&pair->receiver);
  pair->receiver.image.ops->ring_close(pair->receiver.worker, pair->receiver.ring);
  pair->receiver.ring = NULL;
  forbid(&pair->receiver, PROT_NONE);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  for (int i = 0; i < POLLS; i++) {
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
  }
  forbid(&pair->receiver, PROT_READ | PROT_WRITE);
  contract_pair_close(pair);
  contract_complaints();
}

static void memory_is_the_hosts_after_done(void **state)
{
  (void)state;
  contract_rule("SEND, WRITE the local buffer may be written again; nothing more is known");
  for (uint32_t polls = 1; polls < 4; polls++) {
    sender_leaves(fetched_shared, polls);
    sender_leaves(fetched_tcp, polls);
  }
}

static void memory_is_the_hosts_after_ring_close(void **state)
{
  (void)state;
  contract_rule("Called once all endpoints of the ring are closed. Its tokens become void.");
  for (uint32_t polls = 1; polls < 4; polls++) {
    receiver_leaves(fetched_shared, polls);
    receiver_leaves(fetched_tcp, polls);
  }
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(a_full_peer_hears_of_a_close),
      CONTRACT_CASE(a_full_peer_hears_of_a_close_behind_the_worker),
      CONTRACT_CASE(a_full_peer_that_dies_is_not_waited_for),
      CONTRACT_CASE(memory_is_the_hosts_after_done),
      CONTRACT_CASE(memory_is_the_hosts_after_ring_close),
  };

  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  return CONTRACT_MAIN("ucx tells", cases, &variant);
}
