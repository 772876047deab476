/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that a report hides, and texts that it keeps. */
#include "support.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redact.h"

/* The host and the user whose names app_redact_open() reads. */
int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
  snprintf(name, size, "%s", "rack7.lab.example.org");
  return 0;
}

static int set_up(void **state)
{
  setenv("HOME", "/srv/people/jane", 1);
  *state = app_redact_open();
  return !*state;
}

static int tear_down(void **state)
{
  app_redact_close(*state);
  return 0;
}

static void assert_hidden(struct redact *redact, const char *text, const char *expected)
{
  char *made = app_redact_text(redact, text);

  assert_string_equal(made, expected);
  char *again = app_redact_text(redact, made);
  assert_string_equal(again, expected);
  free(made);
  free(again);
}

static void addresses(void **state)
{
  assert_hidden(*state, "GID 3, 10.9.0.2 (RoCE v2): why", "GID 3, ipv4-1 (RoCE v2): why");
  assert_hidden(*state, "to 10.9.0.2:18515, then 10.9.0.3.", "to ipv4-1:18515, then ipv4-2.");
  assert_hidden(*state, "::ffff:10.9.0.3, 0:0:0:0:0:FFFF:10.9.0.3", "ipv4-2, ipv4-2");
  assert_hidden(*state, "GID 0, fe80::5054:ff:fe12:3456: the port's",
                "GID 0, link-local-1: the port's");
  assert_hidden(*state, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "link-local-1");
  assert_hidden(*state, "[2001:db8::9]:99 [2001:DB8:0::9]", "[ipv6-1]:99 [ipv6-1]");
  assert_hidden(*state, "device=fe80::1%eth0,x=192.0.2.7/24",
                "device=link-local-2%eth0,x=ipv4-3/24");
}

static void hardware(void **state)
{
  assert_hidden(*state, "52:54:00:12:34:56 52-54-00-12-34-56", "mac-1 mac-1");
  assert_hidden(*state, "enx525400123456 of enp1s0", "enx-mac-1 of enp1s0");
  assert_hidden(*state, "node_guid 0c42:a103:0001:2345, 0x0c42a10300012345",
                "node_guid guid-1, guid-1");
  assert_hidden(*state, "device=GPU-8a7f2b3c-1d2e-3f40-5a6b-7c8d9e0f1a2b!", "device=GPU-uuid-1!");
  assert_hidden(*state, "serial MT2112X01234.", "serial serial-1.");
}

static void names(void **state)
{
  app_redact_host(*state, "node-b");
  app_redact_host(*state, "192.0.2.9");
  assert_hidden(*state, "rack7 and RACK7.lab.example.org to node-b, not node-bc or brack7",
                "host-2 and host-1 to host-3, not node-bc or brack7");
  assert_hidden(*state, "/srv/people/jane/build/penstock.so: /srv/people/janet",
                "~/build/penstock.so: /srv/people/janet");
}

/* These are what a report is read for. */
static void kept(void **state)
{
  static const char *const words[] = {"ok",  "skipped",  "unknown",  "failed",   "udp",  "ethernet",
                                      "ucx", "verbs_rc", "verbs_dc", "loopback", "cuda", "igpu"};
  static const char *const texts[] = {
      "mlx5_0 port 1 active, Ethernet, 200 Gbit/s, PCI 0000:3b:00.0, firmware 20.31.1014",
      "127.0.0.1 ::1 :: 0.0.0.0",
      "libibverbs.so.1.14.39.0",
      "2026-11-29T07:12:23Z",
      "1462 B, 12.30 Gbps, 1.050 M/s; rkey 0x1234, QP 65602, vendor_err 0x81",
      "3b:00.0 12:34:56 0x7f00deadbeef MT28908 MT_0000000223 MT4123",
      "host memory, the server's device, std::string",
      "ok, skipped, unknown, failed: udp, ethernet, ucx, verbs_rc, verbs_dc, loopback, cuda, igpu",
  };

  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    app_redact_host(*state, words[i]);
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    assert_hidden(*state, texts[i], texts[i]);
}

/* A host that is called as the words of a sentence are. */
static void common_words(void **state)
{
  struct json_object *object = json_object_new_object();

  app_redact_host(*state, "host");
  app_redact_host(*state, "b");
  json_object_object_add(object, "hostname", json_object_new_string("host"));
  json_object_object_add(object, "text", json_object_new_string("b: host memory"));
  app_redact_json(*state, object);
  assert_string_equal(json_object_get_string(json_object_object_get(object, "hostname")), "host-3");
  assert_string_equal(json_object_get_string(json_object_object_get(object, "text")),
                      "b: host memory");
  json_object_put(object);
}

static void objects(void **state)
{
  struct json_object *object = json_tokener_parse(
      "{'a': ['10.0.0.1', {'b': '10.0.0.1 of 10.0.0.2', 'n': 3, 'none': null}], 'hostname': 'x'}");

  app_redact_json(*state, object);
  app_redact_json(*state, object);
  assert_string_equal(
      json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
      "{\"a\":[\"ipv4-1\",{\"b\":\"ipv4-1 of ipv4-2\",\"n\":3,\"none\":null}],\"hostname\":\"host-3\"}");
  json_object_put(object);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(addresses, set_up, tear_down),
      cmocka_unit_test_setup_teardown(hardware, set_up, tear_down),
      cmocka_unit_test_setup_teardown(names, set_up, tear_down),
      cmocka_unit_test_setup_teardown(kept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(common_words, set_up, tear_down),
      cmocka_unit_test_setup_teardown(objects, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
