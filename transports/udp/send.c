/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From slots to the kernel. Headers are built in an array beside the slots; messages
 * of equal length go into one buffer, which the kernel or the network card cuts
 * (UDP_SEGMENT); up to UDP_SEND_BUFFERS of them go with one system call. The kernel
 * copies, so that every request is done when it was taken.
 */
#include <assert.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <unistd.h>

#include "../datagram/post.h"
#include "endpoint.h"
#include "ops.h"
#include "send.h"
#include "socket.h"

#define RETRIES 8 /* after errors that tell of earlier messages */

int udp_tx_open(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  const struct dg_device *device = &endpoint->worker->device->dg;
  struct udp_tx *tx = calloc(1, sizeof(*tx));

  if (!tx)
    return -ENOMEM;
  tx->guard = -1;
  endpoint->tx = tx;
  endpoint->dg.sender = &tx->dg;
  tx->gso = device->host->option_uint(options, "gso");
  return dg_sender_open(&tx->dg, device, options);
}

void udp_tx_close(struct pst_endpoint *endpoint)
{
  if (endpoint->tx && endpoint->tx->guard >= 0)
    close(endpoint->tx->guard);
  if (endpoint->tx)
    dg_sender_close(&endpoint->tx->dg);
  free(endpoint->tx);
}

struct batch {
  uint32_t buffers;
  uint32_t parts;
  uint32_t headers;
  uint32_t bytes; /* of the last buffer */
  uint32_t size;  /* of the datagrams in it */
  bool is_closed; /* the last buffer takes no more */
  uint64_t time;  /* when the last buffer leaves, by the kernel's clock; 0: at once */
  uint64_t next;  /* when the next message does */
};

static uint32_t udp_send_add_payload(struct udp_tx *tx, struct batch *batch,
                                     const struct pst_request *request)
{
  uint32_t sum = 0;
  uint32_t count;
  struct pst_piece one;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  for (uint32_t i = 0; i < count; i++) {
    if (pieces[i].length == 0)
      continue;
    uint8_t *at = pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset;
    tx->parts[batch->parts++] = (struct iovec){at, pieces[i].length};
    if (tx->dg.sums)
      sum += dg_byte_sum(at, pieces[i].length);
  }
  return sum;
}

/* Begin another buffer, or go on in the last? */
static bool udp_send_goes_on(const struct udp_tx *tx, const struct batch *batch, uint32_t size)
{
  return tx->gso && batch->buffers && !batch->is_closed && size && size <= batch->size &&
         size <= tx->mtu && batch->size <= tx->mtu &&
         tx->counts[batch->buffers - 1] < UDP_SEGMENTS_MAX &&
         batch->bytes + size <= UDP_DATAGRAM_MAX;
}

static void udp_send_add_control(struct msghdr *header, uint8_t *room, int level, int type,
                                 const void *value, uint32_t bytes)
{
  struct cmsghdr *control = (struct cmsghdr *)(void *)(room + header->msg_controllen);

  assert(header->msg_controllen + CMSG_SPACE(bytes) <= UDP_SEND_CONTROL);
  control->cmsg_level = level;
  control->cmsg_type = type;
  control->cmsg_len = CMSG_LEN(bytes);
  memcpy(CMSG_DATA(control), value, bytes);
  header->msg_control = room;
  header->msg_controllen += CMSG_SPACE(bytes);
}

static void udp_send_end_buffer(struct udp_tx *tx, const struct batch *batch)
{
  if (!batch->buffers)
    return;
  uint32_t at = batch->buffers - 1;
  struct msghdr *header = &tx->vector[at].msg_hdr;
  uint16_t size = (uint16_t)batch->size;

  header->msg_iovlen = (size_t)(tx->parts + batch->parts - header->msg_iov);
  if (tx->counts[at] > 1)
    udp_send_add_control(header, tx->control[at], SOL_UDP, UDP_SEGMENT, &size, sizeof(size));
  if (batch->time)
    udp_send_add_control(header, tx->control[at], SOL_SOCKET, SCM_TXTIME, &batch->time,
                         sizeof(batch->time));
}

/* A message that has a time of its own shares no buffer. Returns what RTP's clock is to say of it.
 */
static uint64_t udp_send_begin_timed(const struct udp_tx *tx, struct batch *batch,
                                     const struct pst_request *request, uint64_t now_ns)
{
  const uint64_t departure_ns = request->u.send.departure_ns;

  batch->next = udp_departures_time(&tx->departures, departure_ns);
  batch->is_closed |= batch->next != batch->time;
  return departure_ns ? departure_ns : now_ns;
}

/* False: there is no room for it in this batch. */
static bool udp_send_add(struct pst_endpoint *endpoint, struct batch *batch,
                         const struct pst_request *request, uint64_t now_ns)
{
  struct udp_tx *tx = endpoint->tx;
  uint32_t header = endpoint->dg.header_bytes;
  uint32_t size = header + (uint32_t)request->arg.length;
  uint32_t parts = 1 + (request->piece_count ? request->piece_count : 1u);
  if (__builtin_expect(tx->departures.are_kept, 0))
    now_ns = udp_send_begin_timed(tx, batch, request, now_ns);
  bool same = udp_send_goes_on(tx, batch, size);

  if (batch->parts + parts > UDP_SEND_IOVECS || (!same && batch->buffers == UDP_SEND_BUFFERS))
    return false;
  if (!same) {
    udp_send_end_buffer(tx, batch);
    tx->counts[batch->buffers] = 0;
    tx->vector[batch->buffers++].msg_hdr = (struct msghdr){.msg_iov = tx->parts + batch->parts};
    batch->bytes = 0;
    batch->size = size;
    batch->is_closed = false;
    batch->time = batch->next;
  }
  uint8_t *at = tx->headers[batch->headers];
  if (header) {
    tx->parts[batch->parts++] = (struct iovec){at, header};
    batch->headers++;
  }
  const uint32_t first = batch->parts;
  dg_sender_header(&tx->dg, request->u.send.sequence, udp_send_add_payload(tx, batch, request),
                   now_ns, at);
  if (tx->dg.tag)
    dg_tag_sign(tx->dg.tag, at, header - DG_TAG_BYTES, &tx->parts[first], batch->parts - first);
  tx->counts[batch->buffers - 1]++;
  batch->bytes += size;
  assert(batch->headers <= batch->parts && batch->parts <= UDP_SEND_IOVECS);
  assert(!same || (batch->bytes <= UDP_DATAGRAM_MAX && size <= batch->size));
  batch->is_closed = size < batch->size; /* only the last may be shorter */
  return true;
}

/* Returns what to do after sendmmsg() took nothing: 0 again, 1 the first buffer is lost, or -errno:
 * -EAGAIN, or the request cannot be taken. */
static int udp_send_after_error(struct pst_endpoint *endpoint, int error, uint32_t attempt)
{
  struct udp_tx *tx = endpoint->tx;

  switch (error) {
  case EAGAIN:
    tx->blocked = true;
    return -EAGAIN;
  case ENOBUFS:
  case ENOMEM:
    tx->is_throttled = true;
    tx->throttled++;
    return -EAGAIN;
  case EINTR:
    return 0;
  case EINVAL:
  case EIO:
    if (!tx->gso)
      return -error;
    tx->gso = false;
    UDP_TELL(
        endpoint, PST_LOG_INFO,
        "the network device cannot cut buffers (UDP_SEGMENT: %s); messages are sent one by one",
        strerror(error));
    return 0;
  case EMSGSIZE:
    udp_socket_told(endpoint, error);
    if (attempt < 2)
      return 0; /* laid out again for its MTU */
    return UDP_REFUSE(endpoint, -EMSGSIZE,
                      "a message is longer than the %u bytes that a packet of this path has room "
                      "for, its header included: make `message` smaller, or set dont_fragment: "
                      "false",
                      tx->mtu);
  case ECONNREFUSED:
    udp_socket_errors(endpoint); /* of an earlier message */
    return attempt < RETRIES ? 0 : -EAGAIN;
  default:
    if (attempt == 0) { /* perhaps of an earlier one */
      udp_socket_errors(endpoint);
      return 0;
    }
    udp_socket_told(endpoint, error);
    return 1;
  }
}

/* Lay out as many SENDs as one call takes, and hand them over. Returns how many requests
 * were taken; *rc: why no more. */
static uint32_t udp_send_some(struct pst_endpoint *endpoint, const struct pst_request *requests,
                              uint32_t n, uint64_t now_ns, uint32_t attempt, int *rc)
{
  struct udp_tx *tx = endpoint->tx;
  struct batch batch = {0};
  uint32_t taken = 0;
  int wrong = 0;

  for (uint32_t i = 0; i < n && requests[i].opcode == PST_OP_SEND; i++) {
    wrong = dg_send_check(&endpoint->dg, &requests[i]);
    if (wrong || !udp_send_add(endpoint, &batch, &requests[i], now_ns))
      break;
  }
  udp_send_end_buffer(tx, &batch);
  if (batch.buffers == 0) {
    *rc = wrong;
    return 0;
  }
  int sent = sendmmsg(endpoint->fd, tx->vector, batch.buffers, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent <= 0) {
    *rc = udp_send_after_error(endpoint, errno, attempt);
    if (*rc != 1)
      return 0;
    *rc = 0;
    tx->unreachable += tx->counts[0];
    return tx->counts[0];
  }
  for (int i = 0; i < sent; i++)
    taken += tx->counts[i];
  assert(taken && taken <= n);
  for (uint32_t i = 0; i < taken; i++)
    tx->bytes += requests[i].arg.length;
  tx->messages += taken;
  return taken;
}

static uint32_t udp_send_post_sends(struct dg_endpoint *end, const struct pst_request *requests,
                                    uint32_t n, uint64_t now_ns, int *rc)
{
  struct pst_endpoint *endpoint = (struct pst_endpoint *)end;
  uint32_t taken = 0, attempt = 0;

  while (taken < n && requests[taken].opcode == PST_OP_SEND && *rc == 0) {
    uint32_t some = udp_send_some(endpoint, requests + taken, n - taken, now_ns, attempt, rc);
    attempt = some ? 0 : attempt + 1;
    taken += some;
  }
  if (taken)
    pst_dones_push(&end->cpu.dones, PST_OP_SEND, 0, requests[taken - 1].cookie, taken);
  return taken;
}

int udp_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
             uint32_t *wait)
{
  if (endpoint->tx) {
    endpoint->tx->blocked = endpoint->tx->is_throttled = false;
    if (endpoint->tx->departures.is_tai)
      udp_departures_begin(endpoint);
  }
  return dg_post(&endpoint->dg, requests, n, wait, udp_send_post_sends);
}
