/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ucx: fake ucp. */
#include "fake_ucp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fake_ucp fake_ucp;

static const ucp_generic_dt_ops_t *datatype_ops;
static char one_worker, one_ep, one_memh, one_datatype[16];
static const char address[16] = "an address of it";

void fake_ucp_reset(void)
{
  for (uint32_t i = 0; i < fake_ucp.count; i++)
    free(fake_ucp.requests[i].bytes);
  memset(&fake_ucp, 0, sizeof(fake_ucp));
  fake_ucp.lanes = "lane[0]: 0:posix/memory.0 md[0]\nam_send: 0..<egr/short>..93..<egr/bcopy>..8256"
                   "..<rndv>..(inf)\n";
}

static void pack(struct fake_request *request)
{
  void *state = datatype_ops->start_pack(NULL, request->source, 1);

  request->length = datatype_ops->packed_size(state);
  request->bytes = malloc(request->length + 1);
  assert_non_null(request->bytes);
  /* As a lane does: in pieces. */
  for (size_t at = 0; at < request->length;) {
    const size_t most = request->length - at < 1000 ? request->length - at : 1000;
    at += datatype_ops->pack(state, at, request->bytes + at, most);
  }
  datatype_ops->finish(state);
}

void fake_end(struct fake_request *request, ucs_status_t status)
{
  assert_true(request->is_open);
  request->is_open = false;
  if (request->by_datatype && !request->bytes)
    pack(request);
  if (request->kind == FAKE_FETCH)
    request->fetched(request, status, request->length, request->arg);
  else
    request->ended(request, status, request->arg);
}

static struct fake_request *find(enum fake_kind kind, int message, uint32_t n)
{
  for (uint32_t i = 0; i < fake_ucp.count; i++) {
    struct fake_request *request = &fake_ucp.requests[i];
    if (request->kind == kind && (message < 0 || request->header.kind == message) && n-- == 0)
      return request;
  }
  return NULL;
}

static struct fake_request *must_find(enum fake_kind kind, int message, uint32_t n)
{
  struct fake_request *found = find(kind, message, n);

  assert_non_null(found);
  return found;
}

struct fake_request *fake_request(enum fake_kind kind, uint32_t n)
{
  return must_find(kind, -1, n);
}

struct fake_request *fake_message(enum ucx_kind kind, uint32_t n)
{
  return must_find(FAKE_AM, (int)kind, n);
}

uint32_t fake_count(enum fake_kind kind)
{
  uint32_t n = 0;

  while (find(kind, -1, n))
    n++;
  return n;
}

uint32_t fake_messages(enum ucx_kind kind)
{
  uint32_t n = 0;

  while (find(FAKE_AM, (int)kind, n))
    n++;
  return n;
}

static ucs_status_ptr_t begin(enum fake_kind kind, const ucp_request_param_t *param,
                              struct fake_request **made)
{
  assert_true(fake_ucp.count < FAKE_REQUESTS_MAX);
  struct fake_request *request = &fake_ucp.requests[fake_ucp.count];

  if (fake_ucp.refuses != UCS_OK)
    return UCS_STATUS_PTR(fake_ucp.refuses);
  fake_ucp.count++;
  request->kind = kind;
  request->flags = param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS ? param->flags : 0;
  request->arg = param->user_data;
  request->ended = param->cb.send;
  request->memory_type = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE
                             ? param->memory_type
                             : UCS_MEMORY_TYPE_UNKNOWN;
  request->memh = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH ? param->memh : NULL;
  request->pieces = 1;
  request->is_open = fake_ucp.keeps;
  *made = request;
  return fake_ucp.keeps ? (ucs_status_ptr_t)request : NULL;
}

/* ---- Contexts, workers, endpoints ---------------------------------------------------------- */

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params,
                               ucp_worker_h *worker)
{
  (void)context, (void)params;
  fake_ucp.workers++;
  *worker = (ucp_worker_h)(void *)&one_worker;
  return UCS_OK;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
  (void)worker;
  assert_true(fake_ucp.workers-- > 0);
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker,
                                            const ucp_am_handler_param_t *param)
{
  (void)worker, (void)param;
  return UCS_OK;
}

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **to, size_t *length)
{
  (void)worker;
  *to = (ucp_address_t *)(uintptr_t)address;
  *length = sizeof(address);
  return UCS_OK;
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *given)
{
  (void)worker, (void)given;
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
  (void)worker;
  fake_ucp.progressed++;
  return 0;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
  (void)worker, (void)params;
  fake_ucp.eps++;
  *ep = (ucp_ep_h)(void *)&one_ep;
  return UCS_OK;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
  (void)ep, (void)param;
  return NULL;
}

void ucp_ep_print_info(ucp_ep_h ep, FILE *file)
{
  (void)ep;
  fputs(fake_ucp.lanes, file);
}

/* ---- Requests ------------------------------------------------------------------------------ */

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context,
                                   ucp_datatype_t *datatype)
{
  (void)context;
  datatype_ops = ops;
  *datatype = (ucp_datatype_t)(uintptr_t)one_datatype | UCP_DATATYPE_GENERIC;
  return UCS_OK;
}

void ucp_dt_destroy(ucp_datatype_t datatype)
{
  (void)datatype;
}

void ucp_request_free(void *request)
{
  assert_false(((struct fake_request *)request)->is_open);
}

/* The sources of one, as they are now. */
static void copy_sources(struct fake_request *request, const void *buffer, size_t count)
{
  const ucp_dt_iov_t *iov = buffer;
  uint8_t *at;

  request->length = 0;
  for (size_t i = 0; request->pieces > 1 && i < count; i++)
    request->length += iov[i].length;
  if (request->pieces == 1)
    request->length = count;
  at = request->bytes = malloc(request->length + 1);
  assert_non_null(at);
  for (size_t i = 0; request->pieces > 1 && i < count; at += iov[i++].length)
    memcpy(at, iov[i].buffer, iov[i].length);
  if (request->pieces == 1 && count)
    memcpy(at, buffer, count);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
  const bool has_datatype = param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE;
  struct fake_request *request;
  ucs_status_ptr_t result = begin(FAKE_AM, param, &request);

  (void)ep;
  assert_int_equal(id, UCX_AM_ID);
  assert_int_equal(header_length, sizeof(request->header));
  if (UCS_PTR_IS_ERR(result))
    return result;
  memcpy(&request->header, header, sizeof(request->header));
  request->source = buffer;
  request->by_datatype =
      has_datatype && (param->datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC;
  if (has_datatype && param->datatype == ucp_dt_make_iov())
    request->pieces = count;
  if (!request->by_datatype)
    copy_sources(request, buffer, count);
  else if (!result)
    pack(request);
  return result;
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *descriptor, void *buffer,
                                      size_t count, const ucp_request_param_t *param)
{
  struct fake_request *request;
  ucs_status_ptr_t result = begin(FAKE_FETCH, param, &request);

  (void)worker;
  if (UCS_PTR_IS_ERR(result))
    return result;
  request->fetched = param->cb.recv_am;
  request->source = descriptor;
  request->destination = buffer;
  request->length = count;
  memcpy(buffer, descriptor, count);
  return result;
}

static ucs_status_ptr_t copy(enum fake_kind kind, void *local, size_t count, uint64_t remote,
                             const ucp_request_param_t *param)
{
  struct fake_request *request;
  ucs_status_ptr_t result = begin(kind, param, &request);

  if (UCS_PTR_IS_ERR(result))
    return result;
  request->destination = local;
  request->source = local;
  request->length = count;
  request->remote = remote;
  return result;
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
  (void)ep, (void)rkey;
  return copy(FAKE_PUT, (void *)(uintptr_t)buffer, count, remote, param);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
  (void)ep, (void)rkey;
  return copy(FAKE_GET, buffer, count, remote, param);
}

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *operand,
                                   size_t count, uint64_t remote, ucp_rkey_h rkey,
                                   const ucp_request_param_t *param)
{
  (void)ep, (void)opcode, (void)rkey, (void)count;
  return copy(FAKE_ATOMIC, (void *)(uintptr_t)operand, 8, remote, param);
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
  (void)ep;
  return copy(FAKE_FLUSH, NULL, 0, 0, param);
}

/* ---- Memory -------------------------------------------------------------------------------- */

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
  (void)context, (void)params;
  *memh = (ucp_mem_h)(void *)&one_memh;
  return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
  (void)context, (void)memh;
  return UCS_OK;
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *packed, ucp_rkey_h *rkey)
{
  (void)ep;
  *rkey = (ucp_rkey_h)(uintptr_t)packed;
  return UCS_OK;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
  (void)rkey;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **packed, size_t *size)
{
  static char key[8] = "a key";

  (void)context, (void)memh;
  *packed = key;
  *size = sizeof(key);
  return UCS_OK;
}

void ucp_rkey_buffer_release(void *packed)
{
  (void)packed;
}
