/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two processes of a test beside the transport, and a stream between them. */
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

bool contract_swap_out(int socket, const struct pst_blob *blob)
{
  char control[CMSG_SPACE(4 * sizeof(int))] = {0};
  uint32_t length = blob->length;
  struct iovec parts[] = {{&length, sizeof(length)}, {blob->bytes, blob->length}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  if (blob->fd_count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(blob->fd_count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(blob->fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), blob->fds, blob->fd_count * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)(sizeof(length) + blob->length);
}

bool contract_swap_in(int socket, struct pst_blob *blob, uint8_t *bytes, uint32_t capacity)
{
  char control[CMSG_SPACE(4 * sizeof(int))];
  uint32_t length;
  struct iovec part = {&length, sizeof(length)};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  if (n != sizeof(length) || length > capacity ||
      recv(socket, bytes, length, MSG_WAITALL) != (ssize_t)length)
    return false;
  *blob = (struct pst_blob){
      .struct_size = sizeof(*blob), .length = length, .capacity = capacity, .bytes = bytes};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header) {
    blob->fd_count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(blob->fds, CMSG_DATA(header), blob->fd_count * sizeof(int));
  }
  return true;
}

static bool connected(struct contract_side *side)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion event;
  while (!contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED, &event)) {
    if (contract_now_ns() > deadline)
      return false;
    for (uint32_t i = 0; i < side->logged; i++)
      if (side->log[i].kind == PST_COMPLETION_EVENT && side->log[i].code == PST_EVENT_DISCONNECTED)
        return false;
    contract_poll(side);
  }
  return true;
}

bool contract_meet(struct contract_side *side, int socket)
{
  uint8_t bytes[16384];
  struct pst_blob blob;
  contract_address(side, 0, &blob);
  if (!contract_swap_out(socket, &blob) || !contract_swap_in(socket, &blob, bytes, sizeof(bytes)) ||
      contract_connect(side, 0, &blob) != 0)
    return false;
  for (uint32_t i = 0; i < blob.fd_count; i++)
    close(blob.fds[i]);
  return connected(side);
}

static void look_for_departure(struct contract_side *side, struct contract_account *account)
{
  struct pst_completion gone;
  if (!contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone))
    return;
  account->gone = true;
  account->status = gone.status;
}

/* In post order: behind the first SEND that failed none can have succeeded. */
void contract_account_done(struct contract_account *account, const struct pst_completion *done)
{
  const int status = done->status;
  if ((status != 0 && status != -ECONNRESET && status != -ETIMEDOUT) ||
      (status == 0 && account->done_status != 0))
    account->unlike++;
  account->done_status = status;
  account->done += done->u.done.count;
}

void contract_send_until(struct contract_side *side, uint64_t count,
                         struct contract_account *account)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  bool refused = false;
  while (!account->gone && (account->posted < count || account->done < account->posted) &&
         contract_now_ns() < deadline) {
    struct pst_completion done;
    uint32_t wait;
    if (account->posted < count && !refused && account->posted - account->done < 32) {
      uint64_t offset = account->posted % 32 * side->stride;
      contract_fill((uint8_t *)side->memory.region.host + offset, account->message,
                    account->posted);
      struct pst_request request = contract_send(side, offset, account->message, account->posted);
      int rc = contract_post(side, 0, &request, 1, &wait);
      if (rc == 1)
        account->posted++;
      else if (rc != -EAGAIN)
        refused = true;
    }
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &done)) {
      contract_account_done(account, &done);
      deadline = contract_now_ns() + contract_deadline_ns;
    }
    look_for_departure(side, account);
  }
}

void contract_receive_until(struct contract_side *side, uint64_t count,
                            struct contract_account *account)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (!account->gone && account->delivered < count && contract_now_ns() < deadline) {
    struct pst_completion message;
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
      if (message.u.message.sequence != account->delivered ||
          message.u.message.length != account->message ||
          !contract_verify(contract_payload(side, &message), account->message, account->delivered))
        account->wrong++;
      account->delivered++;
      deadline = contract_now_ns() + contract_deadline_ns;
      side->image.ops->release(side->worker, &message.u.message.token, 1);
    }
    look_for_departure(side, account);
  }
}
