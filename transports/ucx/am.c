/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages: from a link's pools, to UCX, and back. */
#include "am.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "endpoint.h"
#include "fail.h"
#include "link.h"
#include "units.h"
#include "wire.h"
#include "worker.h"

/* From this many bytes on, copying a block costs more than a close that has to wait for it. */
#define AM_READ_FROM 8192u

void ucx_ams_reset(struct ucx_link *link)
{
  link->free_ams = link->free_controls = NULL;
  link->ams_under_way = link->controls_under_way = 0;
  for (uint32_t i = 0; i < link->window + UCX_CONTROLS; i++) {
    struct ucx_am *am = &link->ams[i];
    struct ucx_am **pool = i < link->window ? &link->free_ams : &link->free_controls;
    am->has_unit = false;
    am->link = link;
    am->next = *pool;
    *pool = am;
    if (i < link->window) {
      am->sources = link->sources + i * UCX_SOURCES_MAX;
      am->records = link->records + i * UCX_BATCH_MAX;
    }
  }
}

int ucx_ams_open(struct ucx_link *link, bool with_payload)
{
  const uint32_t window = with_payload ? UCX_WINDOW : 0;

  link->window = window;
  link->ams = calloc(window + UCX_CONTROLS, sizeof(*link->ams));
  link->sources = calloc(window * UCX_SOURCES_MAX + 1, sizeof(*link->sources));
  link->records = calloc(window * UCX_BATCH_MAX + 1, sizeof(*link->records));
  if (!link->ams || !link->sources || !link->records)
    return -ENOMEM;
  ucx_ams_reset(link);
  return 0;
}

void ucx_ams_close(struct ucx_link *link)
{
  free(link->ams);
  free(link->gathered);
  free(link->sources);
  free(link->records);
}

void ucx_ams_gather(struct ucx_link *link, uint64_t bytes)
{
  assert(!link->ams_under_way && !link->gathered);
  if (!link->window || !(link->gathered = malloc(link->window * bytes)))
    return;
  link->part_max = bytes;
  for (uint32_t i = 0; i < link->window; i++)
    link->ams[i].gathered = link->gathered + i * bytes;
}

uint32_t ucx_am_sources(ucp_dt_iov_t *to, const struct pst_request *request)
{
  struct pst_piece one;
  uint32_t count, n = 0;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  for (uint32_t i = 0; i < count; i++)
    if (pieces[i].length)
      to[n++] =
          (ucp_dt_iov_t){pst_cpu_mr_of(pieces[i].mr)->base + pieces[i].offset, pieces[i].length};
  return n;
}

struct ucx_am *ucx_am_take(struct ucx_link *link)
{
  struct ucx_am *am = link->free_ams;

  if (!am)
    return NULL;
  link->free_ams = am->next;
  link->ams_under_way++;
  memset(&am->header, 0, sizeof(am->header));
  am->bytes = 0;
  am->source_count = 0;
  am->has_unit = false;
  am->is_void = am->is_read = false;
  return am;
}

void ucx_am_give(struct ucx_am *am)
{
  struct ucx_link *link = am->link;

  am->has_unit = false;
  if (am->sources) {
    am->next = link->free_ams;
    link->free_ams = am;
    link->ams_under_way--;
  } else {
    am->next = link->free_controls;
    link->free_controls = am;
    link->controls_under_way--;
  }
}

static struct ucx_units *ucx_am_units_of(const struct ucx_am *am)
{
  struct ucx_tx *tx = &am->link->endpoint->tx;

  return am->header.kind == UCX_WRITE ? &tx->writes : &tx->sends;
}

static void ucx_am_end(struct ucx_am *am, ucs_status_t status)
{
  struct ucx_link *link = am->link;

  if (am->has_unit && link->endpoint)
    ucx_unit_end(ucx_am_units_of(am), am->unit,
                 status == UCS_OK ? 0
                                  : (ucx_link_status(link) ? ucx_link_status(link) : -ECONNRESET));
  ucx_am_give(am);
  if (status != UCS_OK)
    ucx_link_fail(link, status, "an active message");
}

static void ucx_am_ended(void *request, ucs_status_t status, void *arg)
{
  ucp_request_free(request);
  ucx_am_end(arg, status);
}

/* ---- The datatype: UCX asks for bytes [offset, offset + most) of an active message. */

static void *ucx_am_pack_begin(void *context, const void *buffer, size_t count)
{
  (void)context, (void)count;
  return (void *)(uintptr_t)buffer;
}

static size_t ucx_am_packed_bytes(void *state)
{
  return ((const struct ucx_am *)state)->bytes;
}

/* Copies the bytes of a message from `offset` on, at most `most`, for UCX. A void message is all
 * zeros. */
static size_t ucx_am_pack(void *state, size_t offset, void *to, size_t most)
{
  const struct ucx_am *am = state;
  uint8_t *at = to;
  size_t left;

  if (most > am->bytes - offset)
    most = am->bytes - offset;
  if (am->is_void) {
    memset(to, 0, most);
    return most;
  }
  left = most;
  for (uint32_t i = 0; i < am->source_count && left; i++) {
    size_t length = am->sources[i].length;
    if (offset >= length) {
      offset -= length;
      continue;
    }
    length -= offset;
    if (length > left)
      length = left;
    memcpy(at, (const uint8_t *)am->sources[i].buffer + offset, length);
    at += length;
    left -= length;
    offset = 0;
  }
  return most;
}

/* Nothing is received with this datatype. */
static ucs_status_t ucx_am_unpack(void *state, size_t offset, const void *from, size_t count)
{
  (void)state, (void)offset, (void)from, (void)count;
  return UCS_ERR_UNSUPPORTED;
}

static void ucx_am_pack_end(void *state)
{
  (void)state;
}

ucs_status_t ucx_am_datatype(ucp_datatype_t *datatype)
{
  static const ucp_generic_dt_ops_t ops = {
      .start_pack = ucx_am_pack_begin,
      .start_unpack = (void *(*)(void *, void *, size_t))ucx_am_pack_begin,
      .packed_size = ucx_am_packed_bytes,
      .pack = ucx_am_pack,
      .unpack = ucx_am_unpack,
      .finish = ucx_am_pack_end,
  };

  return ucp_dt_create_generic(&ops, NULL, datatype);
}

/* ---- To UCX ----------------------------------------------------------------------------- */

static void ucx_am_address_to_peer(struct ucx_link *link, struct ucx_header *header)
{
  header->nonce = link->peer.nonce;
  header->writes = link->writes_begun;
}

/* Handles what ucp_am_send_nbx() returned. */
static void ucx_am_sent(struct ucx_am *am, ucs_status_ptr_t request)
{
  if (!request)
    ucx_am_end(am, UCS_OK);
  else if (UCS_PTR_IS_ERR(request))
    ucx_am_end(am, UCS_PTR_STATUS(request));
}

/* One block, which UCX can hand over as it lies: a datatype goes in pieces of a lane's own buffer.
 */
static void ucx_am_send_block(struct ucx_am *am, const void *block)
{
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
      .cb.send = ucx_am_ended,
      .user_data = am,
      .flags = UCP_AM_SEND_FLAG_EAGER,
      .memory_type = UCS_MEMORY_TYPE_HOST,
  };

  ucx_am_address_to_peer(am->link, &am->header);
  ucx_am_sent(am, ucp_am_send_nbx(am->link->ep, UCX_AM_ID, &am->header, sizeof(am->header), block,
                                  am->bytes, &param));
}

void ucx_am_send_gathered(struct ucx_am *am)
{
  ucx_am_send_block(am, am->gathered);
}

void ucx_am_send(struct ucx_am *am)
{
  if (am->gathered) {
    am->is_read = am->source_count == 1 && am->bytes >= AM_READ_FROM;
    if (!am->is_read)
      ucx_am_pack(am, 0, am->gathered, am->bytes);
    ucx_am_send_block(am, am->is_read ? am->sources[0].buffer : am->gathered);
    return;
  }
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS,
      .cb.send = ucx_am_ended,
      .user_data = am,
      .datatype = am->link->worker->device->gather,
      .flags = UCP_AM_SEND_FLAG_EAGER,
  };

  ucx_am_address_to_peer(am->link, &am->header);
  ucx_am_sent(
      am, ucp_am_send_nbx(am->link->ep, UCX_AM_ID, &am->header, sizeof(am->header), am, 1, &param));
}

void ucx_am_offer(struct ucx_am *am, ucs_memory_type_t type, ucp_mem_h memh)
{
  ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS |
                      UCP_OP_ATTR_FIELD_MEMORY_TYPE,
      .cb.send = ucx_am_ended,
      .user_data = am,
      .datatype = am->source_count == 1 ? ucp_dt_make_contig(1) : ucp_dt_make_iov(),
      .flags = UCP_AM_SEND_FLAG_RNDV,
      .memory_type = type,
  };
  const bool is_one = am->source_count == 1;

  if (is_one && memh) {
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memh;
  }
  am->is_read = true;
  ucx_am_address_to_peer(am->link, &am->header);
  ucx_am_sent(am, ucp_am_send_nbx(am->link->ep, UCX_AM_ID, &am->header, sizeof(am->header),
                                  is_one ? am->sources[0].buffer : am->sources,
                                  is_one ? am->sources[0].length : am->source_count, &param));
}

/* Short ones go while UCX still keeps those of the datatype, until it has wired up. HELLO is to
 * find that out, and so is sent as these are. */
static void ucx_am_send_hello(struct ucx_am *am)
{
  am->bytes = UCX_HELLO_BYTES;
  am->is_void = true;
  ucx_am_send(am);
}

bool ucx_am_control(struct ucx_link *link, const struct ucx_header *header)
{
  struct ucx_am *am = link->free_controls;

  if (!am)
    return false;
  const ucp_request_param_t param = {
      .op_attr_mask =
          UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
      .cb.send = ucx_am_ended,
      .user_data = am,
      .flags = UCP_AM_SEND_FLAG_EAGER,
  };
  link->free_controls = am->next;
  link->controls_under_way++;
  am->header = *header;
  ucx_am_address_to_peer(link, &am->header);
  if (header->kind == UCX_HELLO)
    ucx_am_send_hello(am);
  else
    ucx_am_sent(
        am, ucp_am_send_nbx(link->ep, UCX_AM_ID, &am->header, sizeof(am->header), NULL, 0, &param));
  return true;
}

void ucx_ams_void(struct ucx_link *link, int32_t status)
{
  for (uint32_t i = 0; link->ams_under_way && i < link->window; i++) {
    struct ucx_am *am = &link->ams[i];
    if (!am->has_unit || am->is_read)
      continue;
    if (link->endpoint)
      ucx_unit_end(ucx_am_units_of(am), am->unit, status);
    am->header.kind = UCX_VOID;
    am->is_void = true;
    am->has_unit = false;
  }
}
