/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of control: address. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

/* 1: beyond loopback; 0; or why it cannot be said. */
static int address_is_remote(const char *host_port)
{
  struct socket_addresses addresses;
  char why[WIRE_TEXT_MAX + 1];
  int rc = socket_resolve(host_port, true, &addresses, why, sizeof(why));

  for (uint32_t i = 0; rc == 0 && i < addresses.count; i++)
    if (socket_is_remote(&addresses.at[i]))
      return 1;
  return rc;
}

static void test_loopback_is_not_remote(void **state)
{
  static const char *const local[] = {"127.0.0.1:18515", "127.8.9.10:1", "[::1]:18515",
                                      "[::ffff:127.0.0.1]:5", "localhost:18515"};

  (void)state;
  for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
    assert_int_equal(address_is_remote(local[i]), 0);
}

static void test_the_rest_is_remote(void **state)
{
  static const char *const remote[] = {
      "10.0.0.1:18515",    "0.0.0.0:18515",       "*:18515",    ":18515", "[::]:18515",
      "[2001:db8::1]:443", "[::ffff:10.0.0.1]:5", "128.0.0.1:1"};

  (void)state;
  for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
    assert_int_equal(address_is_remote(remote[i]), 1);
}

static void test_malformed(void **state)
{
  static const char *const wrong[] = {"",        "127.0.0.1",       "127.0.0.1:",       "::1:18515",
                                      "[::1]",   "127.0.0.1:65536", "127.0.0.1:18515x", "host:-1",
                                      "[::1:18", "host: 1",         "host:123456"};

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    assert_int_equal(address_is_remote(wrong[i]), -EINVAL);
}

static void test_unknown_name(void **state)
{
  int rc = address_is_remote("no-such-host.invalid:1");

  (void)state;
  assert_true(rc == -ENOENT || rc == -EHOSTUNREACH);
}

static void test_remote_needs_insecure(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct end *end = end_new();
    end_stream(end, "a", i == 0, NULL);
    end->params.connect = "192.0.2.1:18515";
    end->params.listen = "0.0.0.0:0";
    assert_int_equal(end_open(end), -EPERM);
    assert_int_equal(end->error.exit_status, PST_EXIT_USAGE);
    assert_non_null(strstr(end->error.text, "write `tls` under `control`"));
    assert_non_null(strstr(end->error.text, "control.insecure: true"));
    assert_null(end->control);
    end_close(end);
  }
}

static void test_insecure_warns(void **state)
{
  struct end *end = end_new();

  (void)state;
  log_clear();
  end_stream(end, "a", false, NULL);
  end->params.listen = "0.0.0.0:0";
  end->params.insecure = true;
  assert_int_equal(end_open(end), 0);
  assert_int_equal(log_count("control.insecure is set"), 1);
  end_close(end);
}

static void test_port_in_use(void **state)
{
  struct end *first = end_new();
  struct end *second = end_new();
  char address[32];

  (void)state;
  end_stream(first, "a", false, NULL);
  end_stream(second, "a", false, NULL);
  assert_int_equal(end_listen(first), 0);
  snprintf(address, sizeof(address), "127.0.0.1:%u", control_port(first->control));
  second->params.listen = address;
  assert_int_equal(end_open(second), -EADDRINUSE);
  assert_non_null(strstr(second->error.text, address));
  assert_non_null(strstr(second->error.text, "another receiver is running?"));
  assert_non_null(strstr(second->error.text, "control.address"));
  end_close(second);
  end_close(first);
}

static void test_not_an_address_of_this_host(void **state)
{
  struct end *end = end_new();

  (void)state;
  end_stream(end, "a", false, NULL);
  end->params.listen = "192.0.2.1:18515";
  end->params.insecure = true;
  assert_int_equal(end_open(end), -EADDRNOTAVAIL);
  assert_non_null(strstr(end->error.text, "own host"));
  end_close(end);
}

static void test_localhost_serves_both_families(void **state)
{
  struct end *receiver = end_new();
  struct end *sender = end_new();
  char address[32];

  (void)state;
  end_stream(receiver, "a", false, NULL);
  void *a = end_stream(sender, "a", true, NULL);
  snprintf(address, sizeof(address), "localhost:%u", unused_port());
  receiver->params.listen = address;
  assert_int_equal(end_open(receiver), 0);
  sender->params.connect = address;
  assert_int_equal(end_open(sender), 0);
  end_wait(sender, SEEN_PEER, a, 0);
  end_close(sender);
  end_close(receiver);
}

static void test_open_checks_streams(void **state)
{
  struct end *end = end_new();
  char name[200];

  (void)state;
  memset(name, 'n', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  end_stream(end, name, false, NULL);
  assert_int_equal(end_listen(end), -EINVAL);
  end_close(end);

  end = end_new();
  end_stream(end, "a", false, NULL);
  end_stream(end, "a", false, NULL);
  assert_int_equal(end_listen(end), -EEXIST);
  end_close(end);

  end = end_new();
  end_stream(end, "a", false, NULL);
  end->streams[0].address.length = CONTROL_ADDRESS_MAX + 1;
  assert_int_equal(end_listen(end), -E2BIG);
  end_close(end);
}

static void test_close_null(void **state)
{
  (void)state;
  control_close(NULL);
}

static int setup(void **state)
{
  (void)state;
  log_watch();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_loopback_is_not_remote),
      cmocka_unit_test(test_the_rest_is_remote),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_unknown_name),
      cmocka_unit_test(test_remote_needs_insecure),
      cmocka_unit_test(test_insecure_warns),
      cmocka_unit_test(test_port_in_use),
      cmocka_unit_test(test_not_an_address_of_this_host),
      cmocka_unit_test(test_localhost_serves_both_families),
      cmocka_unit_test(test_open_checks_streams),
      cmocka_unit_test(test_close_null),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
