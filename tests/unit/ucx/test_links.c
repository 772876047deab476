/* SPDX-License-Identifier: Apache-2.0 */
/* Links whose peers live and have no room for the BYE: those beyond the bound are given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "fake_host.h"
#include "link.h"
#include "worker.h"

#include <cmocka.h>

#define TOO_MANY 3u
#define LINGER_NS UINT64_C(2000000000)

/* No link of these has a ucp_worker, so that nothing is asked of UCX. */
static void add_stuck(struct pst_worker *worker)
{
  static char any;
  struct ucx_link *link = calloc(1, sizeof(*link));

  assert_non_null(link);
  link->worker = worker;
  link->ep = (ucp_ep_h)(void *)&any;
  link->efd = -1;
  link->peer.pidfd = dup(STDERR_FILENO);
  assert_true(link->peer.pidfd >= 0);
  link->stage = (struct ucx_stage){.name = UCX_LEAVING, .leaving = {.bye = UCX_OWED}};
  link->line = UCX_LINE_OPEN;
  link->next = worker->leaving;
  worker->leaving = link;
}

static uint32_t count_leaving(const struct pst_worker *worker)
{
  uint32_t count = 0;

  for (const struct ucx_link *link = worker->leaving; link; link = link->next)
    count++;
  return count;
}

static uint32_t count_lines(const char *log)
{
  uint32_t count = 0;

  for (; (log = strchr(log, '\n')); log++)
    count++;
  return count;
}

static void only_those_too_many_are_given_up(void **state)
{
  struct pst_device device = {.host = &fake_host, .linger_ns = LINGER_NS};
  struct pst_worker worker = {.device = &device, .watch_fd = -1, .sleep_fd = -1, .timer_fd = -1};

  (void)state;
  for (uint32_t i = 0; i < UCX_UNTOLD_MAX + TOO_MANY; i++)
    add_stuck(&worker);
  ucx_links_step(&worker, LINGER_NS - 1);
  assert_int_equal(count_leaving(&worker), UCX_UNTOLD_MAX + TOO_MANY);
  fake_log_clear();
  ucx_links_step(&worker, LINGER_NS);
  assert_int_equal(count_leaving(&worker), UCX_UNTOLD_MAX);
  assert_int_equal(count_lines(fake_log()), TOO_MANY);
  ucx_links_step(&worker, UINT64_MAX - 1);
  assert_int_equal(count_leaving(&worker), UCX_UNTOLD_MAX);
  ucx_links_free(&worker);
}

static void who_has_left_is_not_waited_for(void **state)
{
  struct pst_device device = {.host = &fake_host, .linger_ns = LINGER_NS};
  struct pst_worker worker = {.device = &device, .watch_fd = -1, .sleep_fd = -1, .timer_fd = -1};

  (void)state;
  add_stuck(&worker);
  worker.leaving->stage.leaving.until_ns = UCX_LINGER_NS;
  worker.leaving->stage.leaving.answer = UCX_OWED;
  assert_int_equal(ucx_links_clock_ns(&worker), UCX_LINGER_NS);
  ucx_links_step(&worker, UCX_LINGER_NS - 1);
  assert_int_equal(count_leaving(&worker), 1);
  worker.leaving->is_shared = true;
  ucx_links_step(&worker, 0);
  assert_int_equal(count_leaving(&worker), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_those_too_many_are_given_up),
      cmocka_unit_test(who_has_left_is_not_waited_for),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
