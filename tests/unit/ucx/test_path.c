/* SPDX-License-Identifier: Apache-2.0 */
/* A lane that is slower than what this host has is seen, with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "device.h"
#include "link.h"
#include "path.h"
#include "worker.h"

#include <cmocka.h>

struct row {
  const char *what;
  const char *transports, *lanes;
  bool is_here, peer_mode;
  enum ucx_peer_failure option;
  int level;
  const char *words[2]; /* in the text */
};

static const struct row rows[] = {
    {"shared memory is used",
     "self tcp posix cma",
     "posix/memory cma/memory",
     true,
     false,
     UCX_FAILURE_AUTO,
     0,
     {NULL}},
    {"a lane less, by UCX's own choice",
     "self tcp posix sysv cma",
     "posix/memory",
     true,
     false,
     UCX_FAILURE_AUTO,
     0,
     {NULL}},
    {"UCX's failure handling",
     "self tcp posix cma",
     "tcp/lo",
     true,
     true,
     UCX_FAILURE_UCX,
     PST_LOG_INFO,
     {"(posix cma)", "`peer_failure: auto`"}},
    {"the peer has none",
     "self tcp posix",
     "tcp/lo",
     true,
     true,
     UCX_FAILURE_AUTO,
     PST_LOG_INFO,
     {"posix", "the same `tls`"}},
    {"neither has", "self tcp", "tcp/lo", true, true, UCX_FAILURE_UCX, 0, {NULL}},
    {"shared memory is for one host",
     "tcp posix cma",
     "tcp/eth0",
     false,
     true,
     UCX_FAILURE_AUTO,
     0,
     {NULL}},
    {"RDMA that is up",
     "self tcp rc_verbs ud_verbs posix",
     "tcp/eth0",
     false,
     true,
     UCX_FAILURE_AUTO,
     PST_LOG_WARN,
     {"tcp/eth0", "(rc_verbs ud_verbs)"}},
    {"no lanes yet", "self tcp rc_verbs posix", "", false, true, UCX_FAILURE_AUTO, 0, {NULL}},
    {"no lanes yet, on this host", "self tcp posix", "", true, true, UCX_FAILURE_UCX, 0, {NULL}},
    {"RDMA is used",
     "tcp rc_verbs ud_verbs",
     "rc_verbs/mlx5_0:1",
     false,
     true,
     UCX_FAILURE_AUTO,
     0,
     {NULL}},
    {"another kind of RDMA is used",
     "tcp dc_mlx5 rc_mlx5",
     "rc_mlx5/mlx5_0:1 tcp/eth0",
     false,
     true,
     UCX_FAILURE_AUTO,
     0,
     {NULL}},
};

static void what_is_lost_is_reported(void **state)
{
  struct pst_device device;
  struct pst_worker worker = {.device = &device};
  struct ucx_link link = {.worker = &worker};
  char text[UCX_LOST_BYTES];

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    const struct row *row = &rows[i];
    memset(&device, 0, sizeof(device));
    snprintf(device.transports, sizeof(device.transports), "%s", row->transports);
    device.peer_failure = row->option;
    snprintf(link.lanes, sizeof(link.lanes), "%s", row->lanes);
    link.peer.is_here = row->is_here;
    link.peer.by_ucx = row->peer_mode;
    const int level = ucx_path_lost(&link, text, sizeof(text));
    if (level != row->level)
      print_error("%s: %s\n", row->what, text);
    assert_int_equal(level, row->level);
    assert_int_equal(text[0] != 0, level != 0);
    for (int word = 0; word < 2 && row->words[word]; word++)
      assert_non_null(strstr(text, row->words[word]));
  }
}

/* The remedy is at its end. */
static void the_longest_is_not_cut(void **state)
{
  struct pst_device device = {.transports =
                                  "tcp rc_verbs rc_mlx5 dc_mlx5 ud_verbs ud_mlx5 rc_other",
                              .peer_failure = UCX_FAILURE_UCX};
  struct pst_worker worker = {.device = &device};
  struct ucx_link link = {.worker = &worker,
                          .lanes = "tcp/a-name-that-is-long tcp/another-one tcp/eth0"};
  char text[UCX_LOST_BYTES];

  (void)state;
  assert_int_equal(ucx_path_lost(&link, text, sizeof(text)), PST_LOG_WARN);
  assert_non_null(strstr(text, "tells why"));
}

static void messages_go_straight_into_a_gpu_by_rdma(void **state)
{
  struct pst_device device = {.transports = "self tcp posix cuda_copy cuda_ipc"};

  (void)state;
  assert_int_equal(ucx_direct_from(&device), UINT64_MAX);
  snprintf(device.transports, sizeof(device.transports), "self tcp rc_mlx5");
  assert_int_equal(ucx_direct_from(&device), 1u << 20);
  device.direct_from = 1;
  assert_int_equal(ucx_direct_from(&device), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_lost_is_reported),
      cmocka_unit_test(the_longest_is_not_cut),
      cmocka_unit_test(messages_go_straight_into_a_gpu_by_rdma),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
