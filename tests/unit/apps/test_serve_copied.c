/* SPDX-License-Identifier: Apache-2.0 */
/* A client can write to its ring while a message there is being decoded: what was checked is what
 * is used. Over the fuzz target's node and files. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "notice.h"
#include "serve/server.h"
#include "server_model.h"
#include "server_world.h"
#include "signals.h"
#include "support.h"

static bool over;
static unsigned turn, scribbled;
static struct server server;
static struct pst_peer *peer;
static void *ring; /* of the message that the server takes now */
static size_t ring_length;

bool signals_stop(void)
{
  return over;
}

void __real_client_message(struct client *client, const void *bytes, uint64_t length);
void __wrap_client_message(struct client *client, const void *bytes, uint64_t length);
void __wrap_client_message(struct client *client, const void *bytes, uint64_t length)
{
  ring = (void *)(uintptr_t)bytes;
  ring_length = length;
  __real_client_message(client, bytes, length);
  ring = NULL;
}

int __real_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX])
{
  if (ring != NULL) {
    memset(ring, '\n', ring_length);
    ring = NULL; /* answers are decoded, too */
    scribbled++;
  }
  return __real_serve_decode(bytes, length, message, why);
}

static void say(const struct serve_message *message)
{
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  assert_int_equal(serve_encode(message, bytes, sizeof bytes, &length), 0);
  if (message->type != SERVE_HELLO)
    world_expect(peer, message->tag);
  world_say(peer, bytes, length);
}

bool world_turn(void)
{
  switch (turn++) {
  case 0:
    peer = world_join();
    say(&(struct serve_message){.type = SERVE_HELLO, .major = SERVE_MAJOR, .program = "0"});
    say(&(struct serve_message){
        .type = SERVE_MKDIR, .tag = 1, .name = (const uint8_t *)"folder", .name_length = 6});
    return true;
  case 1:
    return true;
  default:
    over = true;
    return false;
  }
}

static void test_a_message_is_copied_first(void **state)
{
  struct server_params params = {.listen = "",
                                 .memory = "host",
                                 .root = "root",
                                 .clients = WORLD_PEERS,
                                 .in_flight = 2 << 20,
                                 .request_max = 1 << 20,
                                 .idle_ns = UINT64_MAX};
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(mkdir("root", 0755), 0);
  notice_level(PST_LOG_ERROR);
  world_node_begin();
  model_begin(true, false, params.request_max);
  assert_int_equal(server_open(&params, &server, &error), 0);
  assert_int_equal(server_run(&server, -1), 0);
  world_require_answers();
  assert_int_equal(scribbled, 2);
  assert_int_equal(server.totals.refused, 0);
  server_close(&server);
  assert_int_equal(rmdir("root/folder"), 0);
  rmdir("root");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_message_is_copied_first)};

  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
