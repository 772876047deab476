/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the application had before: operations from it and into it, and offers of it, within
 * a process and to another. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#include <penstock/page.h>

#define PAGE pst_page_size()
#define ALL (64 * PAGE)
#define AT (8 * PAGE) /* of the descriptor, where it is mapped from */

/* A memfd as an application may have it. */
struct own {
  int fd;
  uint8_t *bytes;
};

static struct own make_own(void)
{
  struct own own = {.fd = memfd_create("own", MFD_CLOEXEC | MFD_ALLOW_SEALING)};

  assert_true(own.fd >= 0);
  assert_int_equal(ftruncate(own.fd, ALL), 0);
  assert_int_equal(fcntl(own.fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  own.bytes = mmap(NULL, ALL - AT, PROT_READ | PROT_WRITE, MAP_SHARED, own.fd, AT);
  assert_ptr_not_equal(own.bytes, MAP_FAILED);
  return own;
}

static void drop_own(const struct own *own)
{
  munmap(own->bytes, ALL - AT);
  close(own->fd);
}

static struct pst_register_params params_of(const void *bytes, uint64_t length, int fd,
                                            uint64_t fd_offset)
{
  return (struct pst_register_params){.struct_size = sizeof(struct pst_register_params),
                                      .address = (uint64_t)(uintptr_t)bytes,
                                      .length = length,
                                      .fd = fd,
                                      .fd_offset = fd_offset};
}

static struct pst_area *area_over(struct side *side, const void *bytes, uint64_t length, int fd,
                                  uint64_t fd_offset)
{
  const struct pst_register_params params = params_of(bytes, length, fd, fd_offset);
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area = NULL;

  if (pst_node_register(side->node, &params, &area, &error) < 0)
    fail_msg("%s", error.text);
  return area;
}

static void run(struct side *side, uint8_t op, uint32_t id, struct pst_area *area, uint64_t offset,
                uint64_t length)
{
  const struct pst_operation o = {.op = op,
                                  .id = id,
                                  .area = area,
                                  .offset = offset,
                                  .remote_offset = offset,
                                  .length = length};

  assert_int_equal(pst_peer_post(side->peer, &o, 1), 1);
  assert_int_equal(await(side, NULL, PST_NODE_DONE).status, 0);
}

static void written_and_read_in_place(void **state)
{
  struct own own = make_own();
  uint8_t *heap = malloc(2 * PAGE);
  struct pair pair;

  (void)state;
  pair_open(&pair, NULL, NULL);
  struct pst_area *theirs = area_over(&pair.client, own.bytes + 100, PAGE, own.fd, AT + 100);
  /* Any memory will do at the end that posts. */
  struct pst_area *ours = area_over(&pair.server, heap + 1, PAGE, -1, 0);
  uint32_t id =
      offer(&pair.client, &pair.server, theirs, PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE);
  memset(heap, 'a', 2 * PAGE);
  memset(own.bytes, 'b', 2 * PAGE);
  run(&pair.server, PST_OP_WRITE, id, ours, 1000, 96);
  assert_int_equal(own.bytes[100 + 999], 'b');
  assert_int_equal(own.bytes[100 + 1000], 'a');
  assert_int_equal(own.bytes[100 + 1095], 'a');
  assert_int_equal(own.bytes[100 + 1096], 'b');
  run(&pair.server, PST_OP_READ, id, ours, 2000, 500);
  assert_int_equal(heap[1 + 1999], 'a');
  assert_int_equal(heap[1 + 2000], 'b');
  assert_int_equal(heap[1 + 2499], 'b');
  assert_int_equal(heap[1 + 2500], 'a');
  assert_int_equal(pst_area_free(theirs), -EBUSY);
  assert_int_equal(pst_peer_withdraw(pair.client.peer, id), 0);
  assert_int_equal(pst_area_free(theirs), 0);
  assert_int_equal(pst_area_free(ours), 0);
  assert_int_equal(own.bytes[100 + 1000], 'a'); /* as it was */
  assert_int_equal(heap[1 + 2000], 'b');
  pair_close(&pair);
  drop_own(&own);
  free(heap);
}

static void expect_refusal(struct side *side, const struct pst_register_params *params, int code,
                           const char *why)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_area *area = NULL;

  assert_int_equal(pst_node_register(side->node, params, &area, &error), code);
  assert_null(area);
  if (!strstr(error.text, why))
    fail_msg("'%s' does not say '%s'", error.text, why);
}

static void what_cannot_be_is_refused(void **state)
{
  struct own own = make_own();
  uint8_t *heap = aligned_alloc(PAGE, PAGE);
  struct pst_register_params params;
  struct pair pair;
  uint32_t id;

  (void)state;
  pair_open(&pair, NULL, NULL);
  params = params_of(heap, 0, -1, 0);
  expect_refusal(&pair.client, &params, -EINVAL, "empty or wraps around");
  params = params_of(own.bytes, PAGE, own.fd, 0);
  expect_refusal(&pair.client, &params, -EINVAL, "not mapped there");
  params = params_of(heap, PAGE, own.fd, AT);
  expect_refusal(&pair.client, &params, -EINVAL, "not mapped there");
  params = params_of((void *)PAGE, PAGE, -1, 0);
  expect_refusal(&pair.client, &params, -EFAULT, "not all of it is mapped");
  params = params_of(heap, PAGE, -1, 0);
  params.memory = "late"; /* a memory that takes none but its own */
  expect_refusal(&pair.client, &params, -EOPNOTSUPP, "registers only memory that it has allocated");
  params = params_of(heap, PAGE, -1, 0);
  params.struct_size = 8;
  expect_refusal(&pair.client, &params, -EINVAL, "struct_size");
  /* Peers in other processes could not reach it, and loopback says so before any comes. */
  struct pst_area *area = area_over(&pair.client, heap, PAGE, -1, 0);
  assert_int_equal(pst_peer_offer(pair.client.peer, area, 0, PAGE, PST_ACCESS_REMOTE_READ, &id),
                   -EOPNOTSUPP);
  assert_int_equal(pst_area_free(area), 0);
  pair_close(&pair);
  drop_own(&own);
  free(heap);
}

/* The other process: offers its memory, and checks it when a message asks for it. */
static int be_the_client(int port_pipe)
{
  struct pst_node_params params = some_params();
  struct pst_error error = PST_ERROR_INIT;
  struct own own = make_own();
  struct side side;
  char address[32];
  uint16_t port = 0;
  uint32_t id = 0;

  if (read(port_pipe, &port, sizeof(port)) != sizeof(port))
    return 2;
  snprintf(address, sizeof(address), "127.0.0.1:%u", port);
  side_open(&side, &params);
  if (pst_node_connect(side.node, address, &side.peer, &error) < 0)
    return 3;
  await(&side, NULL, PST_NODE_JOINED);
  struct pst_area *area = area_over(&side, own.bytes + 5, PAGE, own.fd, AT + 5);
  if (pst_peer_offer(side.peer, area, 10, 1000, PST_ACCESS_REMOTE_WRITE, &id) < 0)
    return 4;
  await(&side, NULL, PST_NODE_MESSAGE);
  for (uint32_t i = 0; i < PAGE; i++)
    if (own.bytes[5 + i] != (i >= 10 && i < 1010 ? 'x' : 0))
      return 5;
  side_close(&side);
  drop_own(&own);
  return 0;
}

static void another_process_reaches_it(void **state)
{
  struct pst_node_params params = some_params();
  struct side server;
  int pipes[2], status = 0;

  (void)state;
  params.listen = "127.0.0.1:0";
  assert_int_equal(pipe(pipes), 0);
  pid_t pid = fork();
  if (pid == 0)
    _exit(be_the_client(pipes[0]));
  side_open(&server, &params);
  uint16_t port = pst_node_port(server.node);
  assert_int_equal(write(pipes[1], &port, sizeof(port)), sizeof(port));
  server.peer = await(&server, NULL, PST_NODE_JOINED).peer;
  struct pst_node_event offered = await(&server, NULL, PST_NODE_OFFERED);
  assert_int_equal(offered.length, 1000);
  struct pst_area *area = area_of(&server, PAGE);
  memset(bytes_of(area), 'x', PAGE);
  run(&server, PST_OP_WRITE, offered.id, area, 0, 1000);
  assert_int_equal(pst_peer_send(server.peer, "done", 4), 0);
  await(&server, NULL, PST_NODE_LEFT);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  side_close(&server);
  close(pipes[0]);
  close(pipes[1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_process_reaches_it), /* before there are threads */
      cmocka_unit_test(written_and_read_in_place),
      cmocka_unit_test(what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
