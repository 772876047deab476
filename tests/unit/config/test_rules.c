/* SPDX-License-Identifier: Apache-2.0 */
/* Options that do not go together, by the rules of the plugin's table. */
#include "support.h"

#define T "t.yaml:"
#define RULED(options_) HEAD "  transport: {plugin: ruled, options: {" options_ "}}\n"

static void keeps(const char *text)
{
  pst_config_close(load(text));
}

static void what_must_be(void **state)
{
  (void)state;
  keeps(RULED("way: send"));
  keeps(RULED("qps: 4"));
  assert_refused(RULED("qps: 4, way: send"),
                 T "4:45: transport plugin ruled: `qps: 4` needs `way: write`, but here `way: "
                   "send` is set; change one of them (t.yaml:4:53)");
}

static void what_must_not_be(void **state)
{
  (void)state;
  keeps(RULED("beat: 0"));
  keeps(RULED("again: 5 s"));
  assert_refused(RULED("beat: 0, again: 5 s"),
                 T "4:56: transport plugin ruled: `again: 5 s` does not go with `beat: 0`: it "
                   "alone tells; change one of them (t.yaml:4:46)");
}

/* Values count, not how they are written; and a default counts as what is written, at the
 * place of what was. */
static void values_and_defaults(void **state)
{
  const char *sets[] = {"streams.a.transport.options.qps=2", NULL};

  (void)state;
  keeps(RULED("way: send, beat: 1000000 us"));
  assert_refused(RULED("way: send, beat: 2 s"),
                 T "4:45: transport plugin ruled: `way: send` needs `beat: 1000 ms`, but here "
                   "`beat: 2 s` is set; change one of them (t.yaml:4:57)");
  assert_non_null(
      strstr(refusal_sets(RULED("way: send"), sets),
             "`qps: 2` needs `way: write`, but here `way: send` is set; change one of them "
             "(t.yaml:4:45)"));
}

/* Each end by itself, with what it inherits; one finding for what both have. */
static void at_its_end(void **state)
{
  (void)state;
  keeps(RULED("port: 7, group: x"));
  assert_refused(RULED("port: 7"),
                 T "4:46: transport plugin ruled: `port: 7` does not go with `group: \"\"`; change "
                   "one of them");
  keeps(RULED("port: 7") "  receiver: {transport: {options: {group: x}}}\n");
  assert_refused(RULED("qps: 4") "  sender: {transport: {options: {way: send}}}\n",
                 T "4:45: transport plugin ruled: `qps: 4` needs `way: write`, but here `way: "
                   "send` is set; change one of them (t.yaml:5:39)");
  keeps(RULED("port: 8, to: 9"));
}

static void a_description_without_rules(void **state)
{
  (void)state;
  keeps(HEAD "  transport: {plugin: unruled, options: {qps: 4, way: send}}\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_must_be),
      cmocka_unit_test(what_must_not_be),
      cmocka_unit_test(values_and_defaults),
      cmocka_unit_test(at_its_end),
      cmocka_unit_test(a_description_without_rules),
  };
  return cmocka_run_group_tests(tests, quiet, NULL);
}
