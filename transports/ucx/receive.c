/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages of a peer: their bytes go into slots, in any order; MESSAGEs are reported in the
 * order of their SENDs. Every field from a peer is checked before it is used. */
#include "receive.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "device.h"
#include "endpoint.h"
#include "fail.h"
#include "link.h"
#include "mr.h"
#include "ring.h"
#include "rma_am.h"
#include "slots.h"
#include "stage.h"
#include "wire.h"
#include "worker.h"

ucs_status_t ucx_receive_refuse(struct ucx_link *link, const char *why)
{
  if (!ucx_link_is_lost(link))
    UCX_TELL(link->endpoint, PST_LOG_ERROR,
             "the peer breaks the protocol: %s; it is disconnected. Give both ends the same "
             "release of Penstock",
             why);
  ucx_link_end(link, -EPROTO);
  return UCS_OK;
}

static struct ucx_arrival *ucx_receive_arrival_at(const struct ucx_link *link, uint64_t position)
{
  return &link->arrivals[position & link->arrival_mask];
}

/* A message that begins to arrive, and its slot. NULL: the peer had no credit for it. */
static struct ucx_arrival *ucx_receive_begin(struct ucx_link *link, const struct ucx_header *header,
                                             uint64_t position, uint64_t length)
{
  struct pst_endpoint *endpoint = link->endpoint;
  struct ucx_rx *rx = &endpoint->rx;
  struct pst_cpu_ring *ring = endpoint->cpu.ring;
  struct ucx_arrival *arrival;

  if (!ring || position < rx->head || position >= rx->share.granted ||
      length > ring->params.payload_max)
    return NULL;
  arrival = ucx_receive_arrival_at(link, position);
  if (arrival->is_open)
    return NULL;
  assert(ring->slots.free_count > 0); /* what was granted is kept */
  arrival->is_open = true;
  arrival->slot = ucx_slots_take(link->ring);
  arrival->length = (uint32_t)length;
  arrival->left = length;
  arrival->writes = header->writes;
  if (position >= rx->highest)
    rx->highest = position + 1;
  return arrival;
}

static const uint8_t *ucx_receive_copy_whole(const struct pst_endpoint *endpoint,
                                             struct ucx_arrival *arrival, const uint8_t *from)
{
  memcpy(pst_cpu_slot(endpoint->cpu.ring, arrival->slot), from, arrival->length);
  arrival->left = 0;
  return from + arrival->length;
}

static ucs_status_t ucx_receive_run(struct ucx_link *link, const struct ucx_header *header,
                                    const uint8_t *data, size_t bytes)
{
  if ((uint64_t)header->count * header->length != bytes)
    return ucx_receive_refuse(link, "messages whose lengths do not add up to the bytes received");
  for (uint32_t i = 0; i < header->count; i++) {
    struct ucx_arrival *arrival =
        ucx_receive_begin(link, header, header->position + i, header->length);
    if (!arrival)
      return ucx_receive_refuse(link, "a message without credit, or longer than a slot");
    arrival->sequence = header->sequence + i;
    arrival->meta = 0;
    data = ucx_receive_copy_whole(link->endpoint, arrival, data);
  }
  return UCS_OK;
}

static ucs_status_t ucx_receive_list(struct ucx_link *link, const struct ucx_header *header,
                                     const uint8_t *data, size_t bytes)
{
  const size_t records = header->count * sizeof(struct ucx_record);
  const uint8_t *at = data + records;
  struct ucx_record record;

  if (records > bytes)
    return ucx_receive_refuse(link, "a list that is cut short");
  for (uint32_t i = 0; i < header->count; i++) {
    memcpy(&record, data + i * sizeof(record), sizeof(record));
    if (record.length > bytes - (size_t)(at - data))
      return ucx_receive_refuse(link, "a list whose messages are longer than the bytes received");
    struct ucx_arrival *arrival =
        ucx_receive_begin(link, header, header->position + i, record.length);
    if (!arrival)
      return ucx_receive_refuse(link, "a message without credit, or longer than a slot");
    arrival->sequence = record.sequence;
    arrival->meta = record.meta;
    at = ucx_receive_copy_whole(link->endpoint, arrival, at);
  }
  return UCS_OK;
}

static ucs_status_t ucx_receive_part(struct ucx_link *link, const struct ucx_header *header,
                                     const uint8_t *data, size_t bytes)
{
  const struct pst_endpoint *endpoint = link->endpoint;
  struct ucx_arrival *arrival = NULL;

  if (header->position >= endpoint->rx.head && header->position < endpoint->rx.share.granted)
    arrival = ucx_receive_arrival_at(link, header->position);
  if (arrival && !arrival->is_open) {
    arrival = ucx_receive_begin(link, header, header->position, header->length);
    if (arrival) {
      arrival->sequence = header->sequence;
      arrival->meta = header->meta;
    }
  }
  if (!arrival || arrival->link || arrival->length != header->length || bytes > arrival->left ||
      !pst_range_holds(arrival->length, header->offset, bytes))
    return ucx_receive_refuse(link, "a part that belongs to no message");
  memcpy(pst_cpu_slot(endpoint->cpu.ring, arrival->slot) + header->offset, data, bytes);
  arrival->left -= bytes;
  return UCS_OK;
}

/* ---- Fetched messages ---------------------------------------------------------------------- */

static void ucx_receive_fetch_end(struct ucx_link *link, struct ucx_arrival *arrival,
                                  ucs_status_t status)
{
  if (status == UCS_OK)
    arrival->left = 0;
  else
    ucx_link_fail(link, status, "a rendezvous");
}

static void ucx_receive_fetched(void *request, ucs_status_t status, size_t length, void *arg)
{
  struct ucx_arrival *arrival = arg;
  struct ucx_link *link = arrival->link;

  (void)length;
  ucp_request_free(request);
  link->fetches--;
  ucx_receive_fetch_end(link, arrival, status);
}

/* Takes a message whose bytes have come with its header into its slot, or lets UCX fetch them
 * there. */
static ucs_status_t ucx_receive_whole(struct ucx_link *link, const struct ucx_header *header,
                                      void *descriptor, size_t bytes)
{
  struct pst_endpoint *endpoint = link->endpoint;
  struct ucx_arrival *arrival;
  ucs_status_ptr_t request;

  if (bytes != header->length ||
      !(arrival = ucx_receive_begin(link, header, header->position, header->length)))
    return ucx_receive_refuse(link, "a message without credit, or longer than a slot");
  arrival->sequence = header->sequence;
  arrival->meta = header->meta;
  arrival->link = link;
  const struct pst_mr *mr = (const struct pst_mr *)endpoint->cpu.ring->params.mr;
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                      UCP_OP_ATTR_FIELD_MEMH,
      .cb.recv_am = ucx_receive_fetched,
      .user_data = arrival,
      .datatype = ucp_dt_make_contig(1),
      .memory_type = mr->type,
      .memh = mr->memh,
  };
  request = ucp_am_recv_data_nbx(link->ucp, descriptor,
                                 pst_cpu_slot(endpoint->cpu.ring, arrival->slot), bytes, &param);
  if (UCS_PTR_IS_PTR(request))
    link->fetches++;
  else
    ucx_receive_fetch_end(link, arrival, UCS_PTR_STATUS(request));
  return UCS_INPROGRESS;
}

/* ---- Control ------------------------------------------------------------------------------- */

static void ucx_receive_hello(struct ucx_link *link, const struct ucx_header *header)
{
  struct pst_endpoint *endpoint = link->endpoint;

  struct ucx_stage joined = {.name = UCX_JOINED};

  /* Before endpoint_connect the link of a hello is not known; the peer's answer to ours repeats it.
   * A peer that has left gets no answer. */
  if ((link->stage.name != UCX_CONNECTING && link->stage.name != UCX_JOINED) ||
      header->sequence != link->peer.nonce)
    return;
  if (link->stage.name == UCX_CONNECTING) {
    joined.greeting = link->stage.greeting;
    ucx_enter(link, joined);
    endpoint->tx.length_max = header->length;
  }
  if (header->position > endpoint->tx.limit)
    endpoint->tx.limit = header->position;
  if (!(header->flags & UCX_HEADER_ANSWER))
    link->stage.greeting.answer = UCX_OWED;
}

static ucs_status_t ucx_receive_bye(struct ucx_link *link, const struct ucx_header *header)
{
  const bool is_answer = header->flags & UCX_HEADER_ANSWER;

  if (link->stage.name == UCX_LEAVING) {
    if (!is_answer)
      link->stage.leaving.answer = UCX_OWED;
    else if (link->stage.leaving.bye == UCX_SAID)
      link->stage.leaving.bye = UCX_HEARD;
    return UCS_OK;
  }
  /* The first one counts. */
  if (is_answer || (link->stage.name != UCX_CONNECTING && link->stage.name != UCX_JOINED))
    return UCS_OK;
  if (header->position > link->endpoint->rx.share.granted)
    return ucx_receive_refuse(link, "a BYE that counts more messages than it had credit for");
  ucx_enter(link, (struct ucx_stage){
                      .name = UCX_LEFT,
                      .left = {.total = header->position,
                               .until_ns = ucx_now_ns(link->worker->device) + UCX_LINGER_NS,
                               .is_aborted = header->flags & UCX_HEADER_ABORT,
                               .was_joined = link->stage.name == UCX_JOINED}});
  return UCS_OK;
}

/* Handles HELLO, CREDIT, FLUSH and other messages without payload. One that breaks the protocol
 * ends the link. */
static ucs_status_t ucx_receive_control(struct ucx_link *link, const struct ucx_header *header)
{
  struct pst_endpoint *endpoint = link->endpoint;

  switch (header->kind) {
  case UCX_HELLO:
    ucx_receive_hello(link, header);
    return UCS_OK;
  case UCX_CREDIT:
    if (header->position > endpoint->tx.limit)
      endpoint->tx.limit = header->position;
    return UCS_OK;
  case UCX_FLUSH:
    if (header->position > endpoint->rx.flush_asked)
      endpoint->rx.flush_asked = header->position;
    if (header->writes > endpoint->rx.flush_writes)
      endpoint->rx.flush_writes = header->writes;
    endpoint->rx.owes_flushed = true;
    return UCS_OK;
  case UCX_FLUSHED:
    if (header->position > endpoint->tx.position || header->sequence > link->writes_begun)
      return ucx_receive_refuse(link, "an answer to more than was sent");
    if (header->position > endpoint->tx.flush_known)
      endpoint->tx.flush_known = header->position;
    if (header->sequence > endpoint->tx.writes_known)
      endpoint->tx.writes_known = header->sequence;
    return UCS_OK;
  case UCX_VOID:
    return UCS_OK;
  default:
    return ucx_receive_refuse(link, "an unknown kind of message");
  }
}

ucs_status_t ucx_receive(void *arg, const void *header, size_t header_length, void *data,
                         size_t length, const ucp_am_recv_param_t *param)
{
  struct ucx_link *link = arg;
  const bool is_offer = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  struct ucx_header head;

  if (header_length != sizeof(head) || ucx_link_is_lost(link))
    return UCS_OK;
  memcpy(&head, header, sizeof(head));
  if (head.nonce != link->nonce)
    return UCS_OK;
  if (head.kind == UCX_BYE)
    return ucx_receive_bye(link, &head);
  if (!link->endpoint)
    return UCS_OK;
  link->endpoint->waits_since_ns = 0;
  if (is_offer != (head.kind == UCX_WHOLE))
    return ucx_receive_refuse(link, "a rendezvous where there is none");
  if (is_offer)
    return ucx_receive_whole(link, &head, data, length);
  if (length && link->ring && !link->ring->by_cpu && head.kind != UCX_HELLO &&
      head.kind < UCX_WRITE)
    return ucx_receive_refuse(link, "bytes for memory that the CPU does not reach");
  if (head.kind == UCX_RUN)
    return ucx_receive_run(link, &head, data, length);
  if (head.kind == UCX_LIST)
    return ucx_receive_list(link, &head, data, length);
  if (head.kind == UCX_PART)
    return ucx_receive_part(link, &head, data, length);
  if (head.kind >= UCX_WRITE && head.kind <= UCX_FOUND) {
    const char *wrong = ucx_rma_am_receive(link, &head, data, length);
    return wrong ? ucx_receive_refuse(link, wrong) : UCS_OK;
  }
  return ucx_receive_control(link, &head);
}

void ucx_receive_end(struct pst_endpoint *endpoint)
{
  struct ucx_link *link = endpoint->link;
  struct pst_ring *ring = link->ring;
  uint32_t fetched = 0;

  for (uint64_t at = endpoint->rx.head; at < endpoint->rx.highest; at++) {
    struct ucx_arrival *arrival = ucx_receive_arrival_at(link, at);
    if (!arrival->is_open)
      continue;
    if (arrival->link && arrival->left) {
      fetched++;
      continue;
    }
    arrival->is_open = false;
    ucx_slots_give(ring, arrival->slot);
  }
  ucx_share_end(&ring->shares, &endpoint->rx.share, ring->cpu.slots.out, fetched);
}

/* ---- To the host --------------------------------------------------------------------------- */

bool ucx_receive_is_pending(const struct pst_endpoint *endpoint)
{
  const struct ucx_arrival *arrival;

  if (!endpoint->cpu.ring)
    return false;
  arrival = ucx_receive_arrival_at(endpoint->link, endpoint->rx.head);
  return arrival->is_open && !arrival->left && arrival->writes <= endpoint->link->writes_come;
}

uint32_t ucx_receive_take(struct pst_endpoint *endpoint, struct pst_completion *out, uint32_t max)
{
  struct ucx_rx *rx = &endpoint->rx;
  struct pst_ring *ring = (struct pst_ring *)endpoint->cpu.ring;
  uint32_t n = 0;

  while (n < max && ucx_receive_is_pending(endpoint)) {
    struct ucx_arrival *arrival = ucx_receive_arrival_at(endpoint->link, rx->head++);
    pst_cpu_message_write(&out[n], &endpoint->cpu, arrival->slot, arrival->length);
    out[n].flags = PST_HAS_SEQUENCE | PST_HAS_META;
    out[n].u.message.sequence = arrival->sequence;
    out[n].u.message.meta = arrival->meta;
    ring->cpu.slots.out[arrival->slot] = 1;
    ucx_share_take(&ring->shares, &rx->share, arrival->slot);
    arrival->is_open = false;
    arrival->link = NULL;
    rx->bytes += arrival->length;
    n++;
  }
  rx->messages += n;
  return n;
}

/* Slots that the peer does not know of yet. */
static uint64_t ucx_receive_credit_due(const struct pst_endpoint *endpoint)
{
  const struct pst_ring *ring = (const struct pst_ring *)endpoint->cpu.ring;
  const struct ucx_rx *rx = &endpoint->rx;

  if (!ring || endpoint->cpu.state != PST_CPU_UP)
    return 0;
  return ucx_share_more(&ring->shares, &rx->share, rx->share.granted - rx->highest);
}

static void ucx_receive_send_credit(struct pst_endpoint *endpoint)
{
  struct pst_ring *ring = (struct pst_ring *)endpoint->cpu.ring;
  struct ucx_share *share = &endpoint->rx.share;
  const uint64_t due = ucx_receive_credit_due(endpoint);
  const struct ucx_header credit = {.kind = UCX_CREDIT, .position = share->granted + due};

  if (due && ucx_am_control(endpoint->link, &credit))
    ucx_share_grant(&ring->shares, share, due);
}

/* All that a FLUSH of the peer's is about. */
static bool ucx_receive_has_what_is_asked(const struct pst_endpoint *endpoint)
{
  for (uint64_t at = endpoint->rx.head; at < endpoint->rx.flush_asked; at++) {
    const struct ucx_arrival *arrival = ucx_receive_arrival_at(endpoint->link, at);
    if (at >= endpoint->rx.highest || !arrival->is_open || arrival->left)
      return false;
  }
  return endpoint->rx.flush_writes <= endpoint->link->writes_come;
}

bool ucx_receive_owes(const struct pst_endpoint *endpoint)
{
  return ucx_receive_credit_due(endpoint) ||
         (endpoint->rx.owes_flushed && ucx_receive_has_what_is_asked(endpoint));
}

void ucx_receive_step(struct pst_endpoint *endpoint)
{
  struct ucx_rx *rx = &endpoint->rx;

  ucx_receive_send_credit(endpoint);
  if (rx->owes_flushed && ucx_receive_has_what_is_asked(endpoint)) {
    const struct ucx_header answer = {
        .kind = UCX_FLUSHED, .position = rx->flush_asked, .sequence = rx->flush_writes};
    rx->owes_flushed = !ucx_am_control(endpoint->link, &answer);
  }
}
