/* SPDX-License-Identifier: Apache-2.0 */
/* UCX in a process that the loader has opened it in: no signal is UCX's, and no byte of the C
 * library's memory calls has changed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "config/config.h"
#include "config/options.h"
#include "loader/loader.h"
#include "util/log.h"

#define BYTES 32u

static const char *const calls[] = {"mmap",  "munmap", "mremap", "madvise",
                                    "shmat", "shmdt",  "brk",    "sbrk"};
static const int signals[] = {SIGHUP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

static void own_handler(int number)
{
  (void)number;
}

static void copy_calls(uint8_t to[][BYTES])
{
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    const void *at = dlsym(RTLD_DEFAULT, calls[i]);
    assert_non_null(at);
    memcpy(to[i], at, BYTES);
  }
}

/* A device and a worker with an endpoint: all that has constructors and hooks has run. */
static void use_ucx(const struct loader_plugin *plugin)
{
  const struct pst_plan plan = {.struct_size = sizeof(plan), .workers = 1, .senders = 1, .rma = 1};
  struct pst_endpoint_params endpoint_params = {.struct_size = sizeof(endpoint_params),
                                                .roles = PST_ROLE_SENDER,
                                                .cookie = 1,
                                                .requests = 1,
                                                .message_max = 64};
  struct pst_open_params params = {.struct_size = sizeof(params), .plan = &plan};
  struct pst_options *options;
  struct pst_device *device;
  struct pst_worker *worker;
  struct pst_endpoint *endpoint;

  assert_int_equal(
      options_new(plugin->description->options, plugin->description->option_count, &options), 0);
  params.options = options;
  endpoint_params.options = options;
  assert_int_equal(plugin->transport->open(plugin->host, &params, &device), 0);
  assert_int_equal(plugin->transport->worker_open(device, 0, &worker), 0);
  assert_int_equal(plugin->transport->endpoint_open(worker, &endpoint_params, &endpoint), 0);
  plugin->transport->worker_close(worker);
  loader_defer_drain(plugin);
  plugin->transport->close(device);
  options_free(options);
}

static void nothing_of_the_process_is_changed(void **state)
{
  uint8_t before[8][BYTES], after[8][BYTES];
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;
  const struct sigaction own = {.sa_handler = own_handler};
  struct sigaction found, former[5];

  (void)state;
  for (int i = 0; i < 5; i++)
    assert_int_equal(sigaction(signals[i], i == 1 ? &own : NULL, &former[i]), 0);
  copy_calls(before);
  assert_int_equal(loader_load(PST_KIND_TRANSPORT, "ucx", &plugin, &error), 0);
  use_ucx(plugin);
  copy_calls(after);
  assert_memory_equal(before, after, sizeof(before));
  for (int i = 0; i < 5; i++) {
    assert_int_equal(sigaction(signals[i], NULL, &found), 0);
    assert_ptr_equal(found.sa_handler, i == 1 ? own_handler : former[i].sa_handler);
  }
  sigaction(SIGSEGV, &former[1], NULL);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_of_the_process_is_changed)};
  char folder[4096];

  if (argc != 2 || strlen(argv[1]) >= sizeof(folder))
    return 2;
  strcpy(folder, argv[1]);
  char *slash = strrchr(folder, '/');
  if (slash)
    *slash = 0;
  setenv("PENSTOCK_PLUGIN_PATH", folder, 1);
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
