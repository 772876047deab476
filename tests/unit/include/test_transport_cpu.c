/* SPDX-License-Identifier: Apache-2.0 */
/* transport-cpu.h: registrations, rings and the life of an endpoint. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <penstock/transport-cpu.h>

#include "fake_host.h"

struct pst_device {
  const struct pst_host *host;
};

static const struct pst_limits limits = {.capabilities = PST_CAP_SEND,
                                         .message_max = 1000,
                                         .slot_alignment = 1,
                                         .slots_min = 1,
                                         .slots_max = 64,
                                         .requests_max = 32,
                                         .pieces_max = 2};
static struct pst_device device = {&fake_host};
static uint8_t memory[1000];

static int reset(void **state)
{
  (void)state;
  fake_log_clear();
  return 0;
}

static int register_range(uint64_t offset, uint64_t length, uint32_t access, void *host,
                          struct pst_mr **mr)
{
  const struct pst_region region = {
      .struct_size = sizeof(region), .host = host, .length = sizeof(memory)};
  struct pst_path_info path = {.struct_size = sizeof(path)};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = access,
                                       .region = &region,
                                       .offset = offset,
                                       .length = length,
                                       .path = &path};
  int rc = pst_cpu_mr_register(&device, &params, mr);
  assert_true((rc == -EOPNOTSUPP) == (path.reason[0] != 0));
  return rc;
}

static void registration_is_what_the_cpu_reaches(void **state)
{
  struct pst_mr *mr = NULL;

  (void)state;
  assert_int_equal(register_range(0, 10, 0, NULL, &mr), -EOPNOTSUPP);
  assert_string_equal(fake_log(), "");
  assert_int_equal(register_range(991, 10, 0, memory, &mr), -EINVAL);
  assert_null(mr);
  assert_int_equal(register_range(100, 50, PST_ACCESS_LOCAL_READ, memory, &mr), 0);
  assert_ptr_equal(pst_cpu_mr_of(mr)->base, memory + 100);
  assert_true(pst_cpu_mr_holds(NULL, mr, 0, 50, PST_ACCESS_LOCAL_READ));
  assert_false(pst_cpu_mr_holds(NULL, mr, 1, 50, PST_ACCESS_LOCAL_READ));
  assert_false(pst_cpu_mr_holds(NULL, mr, 0, 50, PST_ACCESS_LOCAL_WRITE));
  assert_true(pst_cpu_mr_holds(NULL, NULL, 9, 0, PST_ACCESS_LOCAL_READ));
  assert_false(pst_cpu_mr_holds(NULL, NULL, 0, 1, PST_ACCESS_LOCAL_READ));
  pst_cpu_mr_deregister(&device, mr);
}

static void pieces_are_gathered_in_their_order(void **state)
{
  struct pst_mr *mr = NULL;
  uint8_t to[8] = {0};

  (void)state;
  for (uint32_t i = 0; i < sizeof(memory); i++)
    memory[i] = (uint8_t)i;
  assert_int_equal(register_range(100, 50, PST_ACCESS_LOCAL_READ, memory, &mr), 0);
  const struct pst_piece pieces[] = {{mr, 5, 2, 0}, {NULL, 0, 0, 0}, {mr, 0, 3, 0}};
  struct pst_request request = {.piece_count = 3, .local.pieces = pieces, .arg.length = 5};
  pst_cpu_gather(to, &request);
  assert_memory_equal(to, ((uint8_t[]){105, 106, 100, 101, 102, 0, 0, 0}), 8);
  request = (struct pst_request){.local.mr = mr, .offset = 49, .arg.length = 1};
  pst_cpu_gather(to, &request);
  assert_int_equal(to[0], 149);
  request = (struct pst_request){.arg.length = 0};
  pst_cpu_gather(to, &request);
  pst_cpu_mr_deregister(&device, mr);
}

/* ---- Rings ---------------------------------------------------------------------------------- */

struct rig {
  struct pst_mr *mr;
  struct pst_places rings;
  struct pst_cpu_ring ring;
};

static void open_ring(struct rig *rig)
{
  *rig = (struct rig){0};
  assert_int_equal(
      register_range(100, 500, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING, memory, &rig->mr), 0);
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = 4,
                                         .mr = rig->mr,
                                         .base = 20,
                                         .stride = 100,
                                         .payload_max = 90,
                                         .headroom = 8,
                                         .endpoints = 1};
  assert_int_equal(pst_cpu_ring_open(&rig->ring, &fake_host, &rig->rings, &params, &limits), 0);
}

static void close_ring(struct rig *rig)
{
  pst_cpu_ring_close(&rig->ring, &rig->rings);
  pst_cpu_mr_deregister(&device, rig->mr);
  free(rig->rings.all);
}

static void ring_that_does_not_fit_leaves_nothing(void **state)
{
  struct pst_ring_params params = {.struct_size = sizeof(params), .slots = 4, .endpoints = 1};
  struct pst_places rings = {0};
  struct pst_cpu_ring ring = {0};

  (void)state;
  assert_int_equal(pst_cpu_ring_open(&ring, &fake_host, &rings, &params, &limits), -EINVAL);
  assert_null(rings.all);
  pst_cpu_ring_close(&ring, &rings);
}

static void token_is_released_once(void **state)
{
  struct rig rig;
  uint64_t tokens[2];

  (void)state;
  open_ring(&rig);
  assert_ptr_equal(pst_cpu_slot(&rig.ring, 2), memory + 100 + 20 + 200 + 8);
  for (uint32_t i = 0; i < 2; i++) {
    tokens[i] = pst_token(rig.ring.number, pst_slots_take(&rig.ring.slots));
    assert_int_equal(pst_cpu_release(&fake_host, &rig.rings, &tokens[i], 1), -EINVAL);
    rig.ring.slots.out[i] = 1;
  }
  assert_non_null(strstr(fake_log(), "which is not out"));
  assert_int_equal(pst_cpu_release(&fake_host, &rig.rings, tokens, 2), 0);
  assert_int_equal(pst_cpu_release(&fake_host, &rig.rings, tokens, 1), -EINVAL);
  rig.ring.slots.out[0] = 1;
  tokens[0] += UINT64_C(1) << (32 + PST_PLACE_BITS); /* of the next ring in its place */
  assert_int_equal(pst_cpu_release(&fake_host, &rig.rings, tokens, 1), -EINVAL);
  close_ring(&rig);
}

/* ---- Endpoints ------------------------------------------------------------------------------ */

static struct pst_endpoint_params params_of(struct rig *rig)
{
  return (struct pst_endpoint_params){.struct_size = sizeof(struct pst_endpoint_params),
                                      .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER,
                                      .ring = (struct pst_ring *)&rig->ring,
                                      .cookie = 9,
                                      .label = "camera",
                                      .requests = 4,
                                      .message_max = 80};
}

static void ring_has_no_more_endpoints_than_it_was_opened_for(void **state)
{
  struct pst_cpu_endpoint one = {0}, two = {0};
  struct rig rig;

  (void)state;
  open_ring(&rig);
  const struct pst_endpoint_params params = params_of(&rig);
  assert_int_equal(pst_cpu_endpoint_open(&one, &fake_host, &params, &limits, NULL), 0);
  assert_null(one.params.label);
  assert_int_equal(pst_cpu_endpoint_open(&two, &fake_host, &params, &limits, NULL), -EINVAL);
  assert_non_null(strstr(fake_log(), "as many endpoints as it was opened for"));
  pst_cpu_endpoint_end(&two);
  assert_int_equal(rig.ring.endpoints, 1);
  pst_cpu_endpoint_end(&one);
  two = (struct pst_cpu_endpoint){0};
  assert_int_equal(pst_cpu_endpoint_open(&two, &fake_host, &params, &limits, NULL), 0);
  rig.ring.params.endpoints = 2;
  assert_int_equal(pst_cpu_endpoint_open(&one, &fake_host, &params, &limits, NULL), 0);
  assert_int_equal(rig.ring.endpoints, 2);
  pst_cpu_endpoint_end(&one);
  pst_cpu_endpoint_end(&two);
  assert_int_equal(rig.ring.endpoints, 0);
  two = (struct pst_cpu_endpoint){0};
  assert_int_equal(pst_cpu_endpoint_open(&two, &fake_host, &params, &limits, "not here"), -EINVAL);
  assert_non_null(strstr(fake_log(), "not here"));
  close_ring(&rig);
}

static void events_come_in_their_order(void **state)
{
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 3};
  struct pst_completion out[4];
  struct pst_cpu_endpoint one = {0};
  struct rig rig;

  (void)state;
  open_ring(&rig);
  const struct pst_endpoint_params params = params_of(&rig);
  assert_int_equal(pst_cpu_endpoint_open(&one, &fake_host, &params, &limits, NULL), 0);
  assert_false(pst_cpu_endpoint_is_pending(&one));
  assert_int_equal(pst_cpu_may_post(&one), -ENOTCONN);
  pst_cpu_endpoint_up(&one);
  assert_true(pst_cpu_endpoint_is_pending(&one));
  assert_int_equal(pst_cpu_may_post(&one), -ENOTCONN);
  assert_int_equal(pst_cpu_endpoint_poll(&one, out, 0), 0);
  assert_int_equal(pst_cpu_endpoint_poll(&one, out, 4), 1);
  assert_int_equal(out[0].code, PST_EVENT_CONNECTED);
  assert_int_equal(out[0].endpoint, 9);
  assert_int_equal(pst_cpu_may_post(&one), 0);
  pst_dones_add(&one.dones, &flush);
  pst_cpu_endpoint_down(&one, -ECONNRESET);
  pst_cpu_endpoint_down(&one, 0);
  assert_int_equal(pst_cpu_may_post(&one), -ECONNRESET);
  assert_int_equal(pst_cpu_endpoint_close((struct pst_endpoint *)&one, PST_CLOSE_DRAIN, 0), 0);
  assert_int_equal(pst_cpu_endpoint_close((struct pst_endpoint *)&one, PST_CLOSE_DRAIN, 0),
                   -EALREADY);
  assert_int_equal(pst_cpu_may_post(&one), -ENOTCONN);
  assert_int_equal(pst_cpu_endpoint_poll_end(&one, out, 4), 1); /* no CLOSED before its DONE */
  assert_int_equal(out[0].code, PST_EVENT_DISCONNECTED);
  assert_int_equal(out[0].status, -ECONNRESET);
  assert_int_equal(pst_cpu_endpoint_poll(&one, out, 4), 1);
  assert_int_equal(out[0].kind, PST_COMPLETION_DONE);
  assert_int_equal(pst_cpu_endpoint_poll_end(&one, out, 0), 0);
  assert_int_not_equal(one.state, PST_CPU_CLOSED);
  assert_int_equal(pst_cpu_endpoint_poll_end(&one, out, 4), 1);
  assert_int_equal(out[0].code, PST_EVENT_CLOSED);
  assert_int_equal(one.state, PST_CPU_CLOSED);
  pst_cpu_endpoint_end(&one);
  close_ring(&rig);
}

#ifndef NDEBUG
/* In a child, which an assertion ends. */
static bool may_enter(struct pst_cpu_endpoint from, enum pst_cpu_state to)
{
  int status = 0;
  pid_t child = fork();

  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    pst_cpu_enter(&from, to);
    _exit(from.state == to ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  return status == 0;
}

static void states_follow_their_diagram(void **state)
{
  /* To: NEW, MEETING, UP, DOWN, CLOSED. */
  static const char *const follows[] = {[PST_CPU_NEW] = ".MUDC",
                                        [PST_CPU_MEETING] = "..UDC",
                                        [PST_CPU_UP] = "..UDC",
                                        [PST_CPU_DOWN] = "....C",
                                        [PST_CPU_CLOSED] = "....."};

  (void)state;
  for (int from = PST_CPU_NEW; from <= PST_CPU_CLOSED; from++)
    for (int to = PST_CPU_NEW; to <= PST_CPU_CLOSED; to++)
      if (may_enter((struct pst_cpu_endpoint){.state = from}, to) != (follows[from][to] != '.'))
        fail_msg("from state %d to %d", from, to);
  assert_false(may_enter(
      (struct pst_cpu_endpoint){.state = PST_CPU_DOWN, .owes_disconnected = true}, PST_CPU_CLOSED));
}
#endif

static void requests_are_those_of_its_role(void **state)
{
  struct pst_cpu_endpoint one = {.params = {.roles = PST_ROLE_SENDER, .message_max = 80}};
  struct pst_request request = {.opcode = PST_OP_FLUSH};
  struct pst_mr *mr = NULL;

  (void)state;
  assert_int_equal(register_range(0, 100, PST_ACCESS_LOCAL_READ, memory, &mr), 0);
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 60), 0);
  request = (struct pst_request){.opcode = PST_OP_SEND, .local.mr = mr, .arg.length = 60};
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 60), 0);
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 59), -EMSGSIZE);
  request.arg.length = 81;
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 90), -EMSGSIZE);
  one.params.message_max = 0; /* not told: the peer's alone */
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 90), 0);
  request.opcode = PST_OP_WRITE;
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 90), -EINVAL);
  request.opcode = PST_OP_SEND;
  one.params.roles = PST_ROLE_RECEIVER;
  assert_int_equal(pst_cpu_request_check(&one, &request, 2, 90), -EINVAL);
  pst_cpu_mr_deregister(&device, mr);
}

static void message_says_where_it_lies(void **state)
{
  struct pst_cpu_endpoint one = {0};
  struct pst_completion out;
  struct rig rig;

  (void)state;
  open_ring(&rig);
  const struct pst_endpoint_params params = params_of(&rig);
  assert_int_equal(pst_cpu_endpoint_open(&one, &fake_host, &params, &limits, NULL), 0);
  pst_cpu_message_write(&out, &one, 3, 17);
  assert_int_equal(out.kind, PST_COMPLETION_MESSAGE);
  assert_int_equal(out.endpoint, 9);
  assert_int_equal(out.u.message.token, pst_token(rig.ring.number, 3));
  assert_int_equal(out.u.message.offset, 20 + 300 + 8);
  assert_int_equal(out.u.message.length, 17);
  assert_int_equal(out.u.message.buffer, 0);
  pst_cpu_endpoint_end(&one);
  close_ring(&rig);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, reset)
  const struct CMUnitTest tests[] = {
      CASE(registration_is_what_the_cpu_reaches),
      CASE(pieces_are_gathered_in_their_order),
      CASE(ring_that_does_not_fit_leaves_nothing),
      CASE(token_is_released_once),
      CASE(ring_has_no_more_endpoints_than_it_was_opened_for),
      CASE(events_come_in_their_order),
#ifndef NDEBUG
      CASE(states_follow_their_diagram),
#endif
      CASE(requests_are_those_of_its_role),
      CASE(message_says_where_it_lies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
