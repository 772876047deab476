/* SPDX-License-Identifier: Apache-2.0 */
/* A client can write to its ring while a message there is being decoded: what was checked is what
 * is used. Over the fuzz target's node and files. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_script.h"
#include "support.h"

static unsigned turn, scribbled;
static struct server server;
static struct pst_peer *peer;
static void *ring; /* of the message that the server takes now */
static size_t ring_length;

void __real_serve_client_message(struct client *client, const void *bytes, uint64_t length);
void __wrap_serve_client_message(struct client *client, const void *bytes, uint64_t length);
void __wrap_serve_client_message(struct client *client, const void *bytes, uint64_t length)
{
  ring = (void *)(uintptr_t)bytes;
  ring_length = length;
  __real_serve_client_message(client, bytes, length);
  ring = NULL;
}

int __real_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX]);
int __wrap_serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                        char why[SERVE_WHY_MAX])
{
  if (ring) {
    memset(ring, '\n', ring_length);
    ring = NULL; /* answers are decoded, too */
    scribbled++;
  }
  return __real_serve_decode(bytes, length, message, why);
}

bool world_turn(void)
{
  switch (turn++) {
  case 0:
    peer = world_join();
    script_say_hello(peer);
    script_say(peer, &(struct serve_message){.type = SERVE_MKDIR,
                                             .tag = 1,
                                             .name = (const uint8_t *)"folder",
                                             .name_length = 6});
    return true;
  case 1:
    return true;
  default:
    script_end();
    return false;
  }
}

static void test_a_message_is_copied_first(void **state)
{
  (void)state;
  assert_int_equal(mkdir("root", 0755), 0);
  script_run(&server, (struct server_params){.root = "root",
                                             .in_flight = 2 << 20,
                                             .request_max = 1 << 20,
                                             .idle_ns = UINT64_MAX});
  world_require_answers();
  assert_int_equal(scribbled, 2);
  assert_int_equal(server.totals.refused, 0);
  serve_server_close(&server);
  assert_int_equal(rmdir("root/folder"), 0);
  rmdir("root");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_message_is_copied_first)};

  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
