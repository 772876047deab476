/* SPDX-License-Identifier: Apache-2.0 */
/* UCX as far as the plugin calls it, without a network: it keeps what is sent, and the test says
 * when a request ends. Its functions come before libucp's. */
#ifndef FAKE_UCP_H
#define FAKE_UCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "wire.h"

#define FAKE_REQUESTS_MAX 256u
#define FAKE_BYTES_MAX 70000u

enum fake_kind { FAKE_AM, FAKE_FETCH, FAKE_PUT, FAKE_GET, FAKE_FLUSH, FAKE_ATOMIC };

/* A call of the plugin's, in order. */
struct fake_request {
  enum fake_kind kind;
  bool is_open; /* fake_end() ends it */
  uint32_t flags;
  bool by_datatype; /* packed by the plugin's callback when it ends, else when it is sent */
  ucs_memory_type_t memory_type;
  ucp_mem_h memh; /* NULL: none was given */
  size_t pieces;  /* of an I/O vector; else 1 */
  struct ucx_header header;
  size_t length;
  uint8_t *bytes; /* of an active message that has been packed */
  const void *source;
  void *destination;
  uint64_t remote;
  ucp_send_nbx_callback_t ended;
  ucp_am_recv_data_nbx_callback_t fetched;
  void *arg;
};

struct fake_ucp {
  struct fake_request requests[FAKE_REQUESTS_MAX];
  uint32_t count;
  bool keeps; /* a request goes on until fake_end(); else it ends at once */
  ucs_status_t refuses;
  const char *lanes; /* what ucp_ep_print_info() says */
  uint32_t workers, eps, progressed;
};

extern struct fake_ucp fake_ucp;

/* All is as at the start; no request is open. */
void fake_ucp_reset(void);
/* UCX is through with it. */
void fake_end(struct fake_request *request, ucs_status_t status);
/* The n-th of this kind; the test fails where there is none. */
struct fake_request *fake_request(enum fake_kind kind, uint32_t n);
/* The n-th active message of this kind. */
struct fake_request *fake_message(enum ucx_kind kind, uint32_t n);
uint32_t fake_count(enum fake_kind kind);
uint32_t fake_messages(enum ucx_kind kind);

#endif
