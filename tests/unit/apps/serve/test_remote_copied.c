/* SPDX-License-Identifier: Apache-2.0 */
/* A server can write to the client's ring while an answer there is being decoded: what was checked
 * is what is used. */
#include <string.h>

#include "serve/client_connection.h"
#include "support.h"

static struct connection remote;
static struct pst_node_event event = {.kind = PST_NODE_MESSAGE};
static uint8_t ring[SERVE_MESSAGE_MAX];
static unsigned polled, scribbled;

int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max);
int __wrap_pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  (void)node;
  assert_true(max > 0);
  events[0] = event;
  polled++;
  return 1;
}

/* A wrong answer would close the peer: the test fails with the text. */
void __wrap_pst_peer_close(struct pst_peer *peer, int code, const char *text);
void __wrap_pst_peer_close(struct pst_peer *peer, int code, const char *text)
{
  (void)peer;
  (void)code;
  fail_msg("%s", text);
}

struct io_request *__wrap_serve_io_poll(struct io *io);
struct io_request *__wrap_serve_io_poll(struct io *io)
{
  (void)io;
  return NULL;
}

int __real_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX])
{
  memset(ring, 0xff, sizeof(ring));
  scribbled++;
  return __real_serve_decode(bytes, length, message, why);
}

static void step_with(const struct serve_message *message)
{
  size_t length = 0;

  assert_int_equal(serve_encode(message, ring, sizeof(ring), &length), 0);
  event.bytes = ring;
  event.length = length;
  assert_int_equal(serve_connection_step(&remote), 0);
}

static unsigned answered;

static void take(struct serve_pending *pending, const struct serve_message *answer)
{
  (void)pending;
  assert_int_equal(answer->type, SERVE_REFUSE);
  assert_string_equal(answer->text, "no such file");
  answered++;
}

static void test_an_answer_is_copied_first(void **state)
{
  struct serve_pending pending = {.wanted = SERVE_OPENED, .sent = true, .answered = take};
  const struct serve_message welcome = {.type = SERVE_WELCOME,
                                        .major = SERVE_MAJOR,
                                        .minor = SERVE_MINOR,
                                        .window = 7,
                                        .request_max = 1,
                                        .chunk_max = 1,
                                        .idle_ns = UINT64_MAX / 2};
  struct serve_message refusal = {.type = SERVE_REFUSE, .tag = 1, .code = 2};

  (void)state;
  remote.address = "the server";
  step_with(&welcome);
  assert_int_equal(remote.limits.type, SERVE_WELCOME);
  assert_int_equal(remote.limits.window, 7);
  strcpy(refusal.text, "no such file");
  remote.pending[0] = &pending;
  remote.under_way = 1;
  step_with(&refusal);
  assert_int_equal(answered, 1);
  assert_int_equal(polled, 2);
  assert_int_equal(scribbled, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_answer_is_copied_first)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
