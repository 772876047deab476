/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of memory/cuda: share support. */
#include "share_support.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 60

extern char **environ;

struct pst_host share_host;

/* ---- Steps of both processes ------------------------------------------------------ */

struct pst_memory *open_cuda(const char *device, bool vmm)
{
  const struct fake_option options[] = {
      {"device", device}, {"allocator", vmm ? "vmm" : "malloc"}, {NULL, NULL}};
  struct pst_memory_params params = {sizeof(params), 0, FAKE_OPTIONS(options)};
  struct pst_memory *made = NULL;
  return memory_ops()->open(&share_host, &params, &made) == 0 ? made : NULL;
}

bool alloc(struct pst_memory *memory, uint32_t purpose, struct pst_region *region)
{
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .purpose = purpose,
                                    .length = LENGTH,
                                    .needs = PST_NEED_EXPORT_FD,
                                    .label = "test"};
  *region = (struct pst_region){.struct_size = sizeof(*region)};
  return memory_ops()->alloc(memory, &params, region) == 0;
}

int work(struct pst_memory *memory, bool verify, uint64_t address, uint64_t length, uint64_t seed)
{
  struct pst_queue_params params = {sizeof(params), 2, 16, 0};
  struct pst_payload_row payload = {address, length, 3, 0, 1, 0};
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  struct pst_queue *queue;
  uint64_t ticket, done = 0;
  time_t until = time(NULL) + PATIENCE_S;
  int rc = memory_ops()->queue_open(memory, &params, &queue);
  if (rc)
    return rc;
  rc = verify ? memory_ops()->verify_rows(queue, seed, &payload, 1, &ticket)
              : memory_ops()->fill_rows(queue, seed, &payload, 1, &ticket);
  while (rc == 0 && done < ticket) {
    rc = time(NULL) > until ? -ETIMEDOUT : memory_ops()->queue_poll(queue, &done);
    sched_yield();
  }
  if (rc == 0)
    rc = memory_ops()->verify_result(queue, &result);
  memory_ops()->queue_close(queue);
  return rc == 0 && result.corrupted ? -EBADMSG : rc;
}

/* ---- The other process -------------------------------------------------------------- */

/* Export of the sharing process, or the error of one that could not export. */
struct offer {
  int code;
  struct pst_export out;
};

static void send_offer(int socket, const struct offer *offer)
{
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {(void *)(uintptr_t)offer, sizeof(*offer)};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (offer->out.fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &offer->out.fd, sizeof(int));
  }
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof(*offer))
    _exit(3);
}

static int answer(struct pst_memory *memory, struct pst_region *region, char asked)
{
  uint64_t at = region->address + OFFSET;
  if (asked == 'x') {
    memory_ops()->free_region(memory, region);
    return 0;
  }
  return work(memory, asked == 'v', at, PART, 6);
}

int be_the_other(int socket, const char *device, uint32_t kind)
{
  struct offer offer = {.out = {.struct_size = sizeof(offer.out), .fd = -1}};
  struct pst_memory *memory = open_cuda(device, kind == PST_EXPORT_VENDOR_FD);
  struct pst_region region = {0};
  uint32_t purpose = kind == PST_EXPORT_FD ? PST_ALLOC_STAGING : PST_ALLOC_NORMAL;
  char asked;
  if (!memory || !alloc(memory, purpose, &region))
    offer.code = -ENOMEM;
  if (offer.code == 0)
    offer.code = work(memory, false, region.address + OFFSET, PART, 5);
  if (offer.code == 0)
    offer.code = memory_ops()->export_region(memory, &region, kind, OFFSET, PART, &offer.out);
  send_offer(socket, &offer);
  if (offer.out.fd >= 0)
    close(offer.out.fd);
  while (offer.code == 0 && read(socket, &asked, 1) == 1) {
    int code = answer(memory, &region, asked);
    if (write(socket, &code, sizeof(code)) != sizeof(code))
      return 1;
  }
  if (memory) {
    memory_ops()->free_region(memory, &region);
    memory_ops()->close(memory);
  }
  return 0;
}

struct other spawn(const char *device, uint32_t kind, const char *script)
{
  struct other other;
  int pair[2];
  char number[16], kinds[16];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  assert_int_equal(fcntl(pair[1], F_SETFD, 0), 0);
  snprintf(number, sizeof(number), "%d", pair[1]);
  snprintf(kinds, sizeof(kinds), "%u", kind);
  const char *const arguments[] = {"other", "--other", number, device, kinds, NULL};
  const char *was = getenv("FAKE_CUDA");
  char *kept = was ? strdup(was) : NULL;
  if (script)
    setenv("FAKE_CUDA", script, 1);
  assert_int_equal(posix_spawn(&other.pid, "/proc/self/exe", NULL, NULL,
                               (char *const *)(uintptr_t)arguments, environ),
                   0);
  if (script && kept)
    setenv("FAKE_CUDA", kept, 1);
  else if (script)
    unsetenv("FAKE_CUDA");
  free(kept);
  close(pair[1]);
  other.socket = pair[0];
  return other;
}

struct pst_export take_offer(const struct other *other)
{
  char control[CMSG_SPACE(sizeof(int))];
  struct offer offer;
  struct iovec part = {&offer, sizeof(offer)};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  assert_int_equal(recvmsg(other->socket, &message, MSG_WAITALL), sizeof(offer));
  assert_int_equal(offer.code, 0);
  const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  offer.out.fd = -1;
  if (header)
    memcpy(&offer.out.fd, CMSG_DATA(header), sizeof(int));
  return offer.out;
}

int ask(const struct other *other, char what)
{
  int code = -EPIPE;
  assert_int_equal(write(other->socket, &what, 1), 1);
  assert_int_equal(read(other->socket, &code, sizeof(code)), sizeof(code));
  return code;
}

void leave(struct other *other, struct pst_export *out)
{
  int status;
  if (out->fd >= 0)
    close(out->fd);
  close(other->socket);
  assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
}

void end_by_force(struct other *other)
{
  int status;
  assert_int_equal(kill(other->pid, SIGKILL), 0);
  assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
  close(other->socket);
}
