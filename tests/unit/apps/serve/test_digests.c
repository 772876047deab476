/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that one client asks for: few are computed at a time, and all are. Over the fuzz target's
 * node and files. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server_script.h"
#include "support.h"

#define SUMS 20u
#define FILE_BYTES (UINT64_C(1) << 40) /* all of it a hole: many steps */
#define SUM_BYTES (UINT64_C(16) << 20)

static unsigned turn;
static uint32_t most;
static struct server server;
static struct pst_peer *peer;

bool world_turn(void)
{
  switch (turn++) {
  case 0:
    peer = world_join();
    script_say_hello(peer);
    script_say(
        peer, &(struct serve_message){
                  .type = SERVE_OPEN, .tag = 1, .name = (const uint8_t *)"hole", .name_length = 4});
    return true;
  case 1:
    for (uint32_t i = 0; i < SUMS; i++)
      script_say(peer, &(struct serve_message){.type = SERVE_CHECK,
                                               .tag = 2 + i,
                                               .offset = i * SUM_BYTES,
                                               .length = SUM_BYTES});
    return true;
  default:
    if (world_io_under_way() > most)
      most = world_io_under_way();
    if (world_io_under_way() > 0) {
      world_io_end(0, WORLD_IO_ENDS);
      return true;
    }
    script_end();
    return false;
  }
}

static void test_a_clients_sums_take_turns(void **state)
{
  (void)state;
  assert_int_equal(mkdir("root", 0755), 0);
  int fd = open("root/hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, FILE_BYTES), 0);
  close(fd);
  script_run(&server, (struct server_params){.root = "root",
                                             .in_flight = 2 << 20,
                                             .request_max = 1 << 20,
                                             .idle_ns = UINT64_MAX});
  world_require_answers();
  assert_int_equal(most, SERVER_SUMS);
  serve_server_close(&server);
  unlink("root/hole");
  rmdir("root");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_clients_sums_take_turns)};
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
