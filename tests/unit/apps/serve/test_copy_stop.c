/* SPDX-License-Identifier: Apache-2.0 */
/* A signal ends `get` and `put` wherever they are, and before all files were through is a failure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/copy.h"
#include "support.h"

static struct copy copy;
static bool has_signal;
static unsigned left, steps; /* files that are still to be begun */
static bool lists;
static void (*at_step)(struct copy *copy);

bool __wrap_app_signals_stop(void);
bool __wrap_app_signals_stop(void)
{
  return has_signal;
}

int __wrap_serve_connection_open(const struct remote_params *params, int event_fd,
                                 struct connection *remote, struct pst_error *error);
int __wrap_serve_connection_open(const struct remote_params *params, int event_fd,
                                 struct connection *remote, struct pst_error *error)
{
  (void)params;
  (void)event_fd;
  (void)error;
  remote->limits.flags = SERVE_FLAG_FILES;
  remote->limits.chunk_max = 4096;
  return 0;
}

int __wrap_serve_connection_offer(struct connection *remote, const struct remote_params *params,
                                  uint64_t bytes, uint32_t access, struct pst_area **area,
                                  uint32_t *region, struct pst_error *error);
int __wrap_serve_connection_offer(struct connection *remote, const struct remote_params *params,
                                  uint64_t bytes, uint32_t access, struct pst_area **area,
                                  uint32_t *region, struct pst_error *error)
{
  (void)remote;
  (void)params;
  (void)bytes;
  (void)access;
  (void)area;
  (void)region;
  (void)error;
  return 0;
}

int __wrap_pst_area_range(const struct pst_area *area, struct pst_range *range);
int __wrap_pst_area_range(const struct pst_area *area, struct pst_range *range)
{
  (void)area;
  (void)range;
  return 0;
}

int __wrap_serve_connection_step(struct connection *remote);
int __wrap_serve_connection_step(struct connection *remote)
{
  (void)remote;
  assert_true(steps++ < 10);
  at_step(&copy);
  return 0;
}

void __wrap_serve_connection_close(struct connection *remote);
void __wrap_serve_connection_close(struct connection *remote)
{
  (void)remote;
}

static int open_ends(struct copy *opened)
{
  opened->listing = lists;
  return 0;
}

static void close_ends(struct copy *opened)
{
  (void)opened;
}

static int next(struct copy *of, struct transfer *t)
{
  (void)of;
  (void)t;
  return left > 0 ? (left--, 0) : -EAGAIN;
}

static void begin(struct transfer *t)
{
  (void)t;
}

static bool feed(struct transfer *t, struct slot *slot)
{
  (void)t;
  (void)slot;
  return false;
}

static const struct copy_ops ops = {.verb = "moved",
                                    .to = COPY_SERVER,
                                    .open = open_ends,
                                    .close = close_ends,
                                    .next = next,
                                    .begin = begin,
                                    .feed = feed,
                                    .finish = serve_transfer_end,
                                    .retry = begin};

static int run(void (*step)(struct copy *copy), unsigned files)
{
  static const struct copy_params params = {.chunk = 4096, .depth = 1, .quiet = true};

  has_signal = false;
  left = files;
  steps = 0;
  at_step = step;
  return serve_copy_run(&params, &ops, -1, &copy);
}

/* It is open only behind the signal. */
static void open_behind_signal(struct copy *of)
{
  of->first->size = 1;
  of->first->running = of->stopped;
  has_signal = true;
}

static void test_while_it_is_opened(void **state)
{
  (void)state;
  assert_int_equal(run(open_behind_signal, 1), -EINTR);
  assert_int_equal(copy.totals.failed, 1);
  assert_int_equal(copy.error.code, -EINTR);
  serve_copy_close(&copy);
}

static void retry_behind_signal(struct copy *of)
{
  if (of->stopped && !serve_transfer_waits(of->first))
    serve_transfer_end(of->first);
  has_signal = true;
}

static void test_while_another_writes_it(void **state)
{
  (void)state;
  assert_int_equal(run(retry_behind_signal, 1), -EINTR);
  assert_int_equal(copy.totals.failed, 1);
  assert_int_equal(copy.error.code, -EINTR);
  serve_copy_close(&copy);
}

static void signal_alone(struct copy *of)
{
  (void)of;
  has_signal = true;
}

static void test_between_two_files(void **state)
{
  (void)state;
  lists = true;
  assert_int_equal(run(signal_alone, 0), -EINTR);
  assert_non_null(strstr(copy.error.text,
                         "stopped by SIGINT; 0 files copied, --resume continues with the others"));
  serve_copy_close(&copy);
  lists = false;
}

static void end_and_signal(struct copy *of)
{
  of->first->running = has_signal = true;
  of->first->size = 0;
}

static void test_behind_the_last_file(void **state)
{
  (void)state;
  assert_int_equal(run(end_and_signal, 1), 0);
  assert_int_equal(copy.totals.failed, 0);
  assert_int_equal(copy.error.code, 0);
  serve_copy_close(&copy);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_while_it_is_opened),
      cmocka_unit_test(test_while_another_writes_it),
      cmocka_unit_test(test_between_two_files),
      cmocka_unit_test(test_behind_the_last_file),
  };

  quiet();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
