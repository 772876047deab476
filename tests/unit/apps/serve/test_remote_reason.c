/* SPDX-License-Identifier: Apache-2.0 */
/* A server that leaves while its client offers memory: the client reports the server's reason. */
#include <errno.h>
#include <string.h>

#include "serve/client_connection.h"
#include "support.h"

static unsigned polled;

int __wrap_pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                          struct pst_area **area, struct pst_error *error);
int __wrap_pst_node_alloc(struct pst_node *node, const struct pst_area_params *params,
                          struct pst_area **area, struct pst_error *error)
{
  (void)node;
  (void)params;
  (void)error;
  *area = NULL;
  return 0;
}

/* As of a peer that is leaving. */
int __wrap_pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset,
                          uint64_t length, uint32_t access, uint32_t *id);
int __wrap_pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset,
                          uint64_t length, uint32_t access, uint32_t *id)
{
  (void)peer;
  (void)area;
  (void)offset;
  (void)length;
  (void)access;
  (void)id;
  return -ENOTCONN;
}

/* The reason comes with the second poll. */
int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  (void)node;
  assert_true(max > 0);
  if (++polled < 2)
    return 0;
  events[0] = (struct pst_node_event){
      .kind = PST_NODE_LEFT, .status = -ESHUTDOWN, .text = "the server is stopping"};
  return 1;
}

struct io_request *__wrap_serve_io_poll(struct io *io);
struct io_request *__wrap_serve_io_poll(struct io *io)
{
  (void)io;
  return NULL;
}

static void test_a_server_that_leaves_has_its_reason_reported(void **state)
{
  struct connection remote = {.address = "127.0.0.1:1", .awake = 1};
  const struct remote_params params = {.address = "127.0.0.1:1", .area.memory = "host"};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area;
  uint32_t region;

  (void)state;
  assert_int_equal(serve_connection_offer(&remote, &params, 4096, PST_ACCESS_REMOTE_READ, &area,
                                          &region, &error),
                   -ESHUTDOWN);
  assert_int_equal(polled, 2);
  assert_non_null(strstr(error.text, "127.0.0.1:1: the server is stopping"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_server_that_leaves_has_its_reason_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
