/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/config/override.c. */
#include <stdlib.h>

#include "support.h"

#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define TWO HEAD "  ring: 8\n- name: a.b\n  ring: 16\n"

static void check_set(const char *text, const char *set, const char *path, const char *expected)
{
  struct pst_config *config = load_sets(text, SETS(set));
  assert_get(config, path, expected);
  pst_config_close(config);
}

static void values_are_replaced_and_made(void **state)
{
  (void)state;
  check_set(TWO, "streams.a.ring=4096", "streams.a.ring", "4096");
  check_set(TWO, "streams.0.ring=4096", "streams.a.ring", "4096");
  check_set(TWO, "streams.1.ring=32", "streams.a.b.ring", "32");
  check_set(TWO, "streams.a.sender.source.seed=5", "streams.0.sender.source.seed", "5");
  check_set(TWO, "control.timeout=3 s", "control.timeout", "3 s");
  check_set(TWO, "threads.cpus=[1, 2]", "threads.cpus.1", "2");
  check_set(TWO, "streams.a.expect.max_loss=0.1%", "streams.a.expect.max_loss", "0.001");
  check_set(TWO, "streams.a.sender={count: 3}", "streams.a.sender.count", "3");
  check_set(TWO, "control=none", "control", "none");
  check_set(TWO, "streams.a.sender.memory.options.numa=\"1\"",
            "streams.a.sender.memory.options.numa", "1");
}

static void names_with_dots_are_found(void **state)
{
  (void)state;
  struct pst_config *config = load_sets(TWO, SETS("streams.a.b.ring=99"));
  assert_int_equal(config_of(config)->streams[0].ring, 8);
  assert_int_equal(config_of(config)->streams[1].ring, 99);
  assert_get(config, "streams.a.b.ring", "99");
  pst_config_close(config);
}

static void shorthands_are_written_out(void **state)
{
  (void)state;
  check_set(HEAD "  transport: loopback\n", "streams.a.transport.options.depth=1 KiB",
            "streams.a.transport.options.depth", "1 KiB");
  check_set(HEAD "  sender: {source: pattern}\n", "streams.a.sender.source.seed=4",
            "streams.a.sender.source.seed", "4");
  check_set(HEAD "control: none\n", "control.address=127.0.0.1:9", "control.listen", "127.0.0.1:9");
  check_set(HEAD "transport: {filters: [fault]}\n", "transport.filters.fault.options.drop=3",
            "streams.a.sender.transport.filters.fault.options.drop", "3");
}

static void later_sets_win(void **state)
{
  (void)state;
  struct pst_config *config = load_sets(HEAD, SETS("streams.a.ring=4", "streams.a.ring=5"));
  assert_get(config, "streams.a.ring", "5");
  pst_config_close(config);
}

static void an_empty_value_is_the_default(void **state)
{
  (void)state;
  check_set(TWO, "streams.a.ring=", "streams.a.ring", "128");
}

static void the_origin_shows_the_set(void **state)
{
  (void)state;
  char *text = NULL;
  struct pst_config *config = load_sets(HEAD, SETS("streams.a.ring=4096"));
  assert_int_equal(pst_config_effective(config, &text), 0);
  assert_non_null(strstr(text, "ring: 4096                              # --set "
                               "streams.a.ring=4096\n"));
  free(text);
  pst_config_close(config);
}

static void an_origin_stays_on_its_line(void **state)
{
  (void)state;
  char *text = NULL;
  struct pst_config *config = load_sets(HEAD, SETS("streams.a.ring=4096\n"));
  struct pst_config *again = NULL;
  assert_int_equal(pst_config_effective(config, &text), 0);
  again = load(text);
  assert_string_equal(pst_config_hash(config), pst_config_hash(again));
  free(text);
  pst_config_close(again);
  pst_config_close(config);
}

static void refusals(void **state)
{
  (void)state;
  static const struct {
    const char *set, *report;
  } samples[] = {
      {"streams.a.rng=5", "--set streams.a.rng=5: unknown key \"rng\" in streams[]; did you mean "
                          "\"ring\"?"},
      {"streams.a.sendr.ring=5", "--set streams.a.sendr.ring=5: unknown key \"sendr\" in "
                                 "streams[]; did you mean \"sender\"?"},
      {"streams.a.ring=1", "--set streams.a.ring=1: ring: 1 is out of range; it takes 2 to "
                           "16777216"},
      {"streams.zz.ring=1", "--set streams.zz.ring=1: \"zz\" is not in the list; there are: a"},
      {"streams.7.ring=1", "--set streams.7.ring=1: \"7\" is not in the list; there are: a"},
      {"ring", "--set ring: no value; write path=value, as in streams.packets.ring=4096"},
      {"=5", "--set =5: an empty name in the path; write it as in streams.packets.ring=4096"},
      {"threads..count=5", "--set threads..count=5: an empty name in the path; write it as in "
                           "streams.packets.ring=4096"},
      {"streams.a.name.x=5", "--set streams.a.name.x=5: \"name\" is a single value and has no keys "
                             "below it; shorten the path"},
      {"streams.a.sender.source.file=a: b", "--set streams.a.sender.source.file=a: b: the value "
                                            "reads as several; put it in quotes, or in [ ] or "
                                            "{ }"},
      {"streams.a.ring=[1", "--set streams.a.ring=[1: not YAML: while parsing a flow sequence, did "
                            "not find expected ',' or ']'; close the bracket, or put a comma "
                            "between the items"},
      {"control.address=[::1]:1",
       "--set control.address=[::1]:1: not YAML: while parsing a flow node, did not find expected "
       "node content; put quotes around a text that begins with [ or {; on a command line, inside "
       "those of the shell: '\"[::1]:18515\"'"},
      {"transport.filters.fault.options.drop=1",
       "--set transport.filters.fault.options.drop=1: the file has no filters, so no value of one "
       "can be set; add one to the file, or set the whole list as in filters=[{...}]"},
      {"streams.a.transport.options.dept=1",
       "--set streams.a.transport.options.dept=1: transport plugin loopback: unknown option "
       "\"dept\"; did you mean \"depth\"?"},
      {"streams.a.ring=!!int 5",
       "--set streams.a.ring=!!int 5: the tag \"tag:yaml.org,2002:int\" has no meaning here; "
       "remove it, types follow from the keys"},
      {"streams.a.ring=*x", "--set streams.a.ring=*x: the alias *x has no anchor &x above it"}};
  for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
    assert_string_equal(refusal_sets(HEAD, SETS(samples[i].set)), samples[i].report);
}

static void sets_come_behind_the_file(void **state)
{
  (void)state;
  assert_string_equal(
      refusal_sets(HEAD "  ring: x\n", SETS("streams.a.messag=1")),
      "t.yaml:4:9: ring: \"x\" is not a whole number; write digits only, as in "
      "4096\n--set streams.a.messag=1: unknown key \"messag\" in streams[]; did you "
      "mean \"message\"?");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_replaced_and_made),  cmocka_unit_test(names_with_dots_are_found),
      cmocka_unit_test(shorthands_are_written_out),    cmocka_unit_test(later_sets_win),
      cmocka_unit_test(an_empty_value_is_the_default), cmocka_unit_test(the_origin_shows_the_set),
      cmocka_unit_test(an_origin_stays_on_its_line),   cmocka_unit_test(refusals),
      cmocka_unit_test(sets_come_behind_the_file)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
