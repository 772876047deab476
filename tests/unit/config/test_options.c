/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/config/options.c. */
#include <errno.h>

#include "config/options.h"
#include "support.h"

static struct pst_options *make(const char *plugin, uint32_t kind)
{
  const struct pst_description *description = test_catalog.find(NULL, kind, plugin);
  struct pst_options *options = NULL;
  assert_int_equal(options_new(description->options, description->option_count, &options), 0);
  return options;
}

static struct pst_options *loopback(void)
{
  return make("loopback", PST_KIND_TRANSPORT);
}

static void defaults_are_filled_in(void **state)
{
  (void)state;
  struct pst_options *options = loopback();
  assert_int_equal(options_get_uint(options, "depth"), 4096);
  assert_int_equal(options_get_uint(options, "copy"), 0);
  assert_string_equal(options_get_string(options, "copy"), "auto");
  assert_int_equal(options_get_uint(options, "wait"), 1000000);
  assert_null(options_get_item(options, "names", 0));
  assert_false(options_is_set(options, "depth"));
  options_free(options);
}

static void values_are_read_by_type(void **state)
{
  (void)state;
  char why[256];
  struct pst_options *options = loopback();
  assert_int_equal(options_set(options, "copy", "reference", why, sizeof(why)), 0);
  assert_int_equal(options_set(options, "depth", "8 KiB", why, sizeof(why)), 0);
  assert_int_equal(options_set(options, "names", "a, b", why, sizeof(why)), 0);
  assert_int_equal(options_get_uint(options, "copy"), 2);
  assert_string_equal(options_get_string(options, "copy"), "reference");
  assert_int_equal(options_get_uint(options, "depth"), 8192);
  assert_string_equal(options_get_item(options, "names", 0), "a");
  assert_string_equal(options_get_item(options, "names", 1), "b");
  assert_null(options_get_item(options, "names", 2));
  assert_true(options_is_set(options, "names"));
  options_free(options);
}

static void refusals_say_why(void **state)
{
  (void)state;
  static const struct {
    const char *name, *text;
    int rc;
    const char *why;
  } samples[] = {
      {"dept", "1", -ENOENT, "unknown option \"dept\"; did you mean \"depth\"?"},
      {"zzz", "1", -ENOENT, "unknown option \"zzz\"; there are: copy, depth, burst, wait, names"},
      {"copy", "copi", -EINVAL,
       "\"copi\" is not one of auto, copy, reference; did you mean \"copy\"?"},
      {"depth", "8 kib", -EINVAL, "\"8 kib\" is not a size; did you mean the unit \"KiB\"?"},
      {"depth", "6 4KiB", -EINVAL,
       "\"6 4KiB\" is not a size; write a whole number of bytes, as in 8 KiB or 1462 B"},
      {"depth", "2 MiB", -ERANGE, "2 MiB is out of range; it takes 1 B to 1 MiB"},
      {"burst", "0", -ERANGE, "0 is out of range; it takes 1 to 128"},
      {"burst", "many", -EINVAL, "\"many\" is not a whole number; write digits only, as in 4096"},
      {"wait", "5", -EINVAL,
       "\"5\" is not a time; write a number with a unit (ns, us, ms, s, min, h), as in 250 ms"}};
  struct pst_options *options = loopback();
  for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
    char why[256] = "";
    assert_int_equal(options_set(options, samples[i].name, samples[i].text, why, sizeof(why)),
                     samples[i].rc);
    assert_string_equal(why, samples[i].why);
  }
  assert_int_equal(options_get_uint(options, "depth"), 4096);
  options_free(options);
}

static void a_list_is_no_scalar(void **state)
{
  (void)state;
  char why[256];
  const char *items[] = {"a,b", "c"};
  struct pst_options *options = loopback();
  assert_int_equal(options_set_list(options, "burst", items, 2, why, sizeof(why)), -EINVAL);
  assert_string_equal(why, "expected one value, found a list; it takes a whole number");
  assert_int_equal(options_set_list(options, "names", items, 2, why, sizeof(why)), 0);
  assert_string_equal(options_get_item(options, "names", 0), "a,b");
  options_free(options);
}

static void required_is_missing_until_set(void **state)
{
  (void)state;
  char why[256];
  struct pst_options *options = make("verbs", PST_KIND_TRANSPORT);
  assert_false(options_is_set(options, "device"));
  assert_int_equal(options_set(options, "device", "mlx5_0", why, sizeof(why)), 0);
  assert_true(options_is_set(options, "device"));
  assert_int_equal(
      options_set(options, "device", "a name of more than thirty-one bytes", why, sizeof(why)),
      -ERANGE);
  assert_string_equal(options_get_string(options, "device"), "mlx5_0");
  options_free(options);
}

static void a_clone_lives_by_itself(void **state)
{
  (void)state;
  char why[256];
  const char *name = NULL;
  struct pst_options *options = loopback(), *clone = NULL;
  assert_int_equal(options_set(options, "names", "x,y", why, sizeof(why)), 0);
  assert_int_equal(options_clone(options, &clone), 0);
  assert_true(options_agree(options, clone, UINT32_MAX, &name));
  assert_int_equal(options_set(clone, "burst", "3", why, sizeof(why)), 0);
  assert_true(options_agree(options, clone, PST_SCOPE_STREAM, &name));
  assert_false(options_agree(options, clone, PST_SCOPE_SENDER, &name));
  assert_string_equal(name, "burst");
  assert_int_equal(options_set(clone, "names", "z", why, sizeof(why)), 0);
  assert_string_equal(options_get_item(clone, "names", 0), "z");
  assert_int_equal(options_get_uint(clone, "burst"), 3);
  options_free(clone);
  assert_string_equal(options_get_item(options, "names", 1), "y");
  assert_int_equal(options_get_uint(options, "burst"), 64);
  options_free(options);
}

static void texts_are_canonical(void **state)
{
  (void)state;
  char why[256], text[64], tiny[3];
  struct pst_options *options = loopback();
  assert_int_equal(options_set(options, "depth", "8192", why, sizeof(why)), 0);
  assert_int_equal(options_text(options, "depth", text, sizeof(text)), 0);
  assert_string_equal(text, "8 KiB");
  assert_int_equal(options_set(options, "names", "[ one , two ]", why, sizeof(why)), 0);
  assert_int_equal(options_text(options, "names", text, sizeof(text)), 0);
  assert_string_equal(text, "one,two");
  assert_int_equal(options_text(options, "names", tiny, sizeof(tiny)), -ENOSPC);
  assert_int_equal(options_text(options, "nothing", text, sizeof(text)), -ENOENT);
  options_free(options);
}

static void a_broken_default_is_refused(void **state)
{
  (void)state;
  static const struct pst_option table[] = {
      {.name = "x", .default_value = "many", .type = PST_OPTION_UINT, .scope = PST_SCOPE_DEVICE}};
  struct pst_options *options = NULL;
  assert_int_equal(options_new(table, 1, &options), -EINVAL);
  assert_null(options);
}

static void asking_for_no_option_gives_nothing(void **state)
{
  (void)state;
  struct pst_options *options = loopback();
  assert_int_equal(options_get_uint(options, "nothing"), 0);
  assert_string_equal(options_get_string(options, "nothing"), "");
  assert_null(options_get_item(options, "nothing", 0));
  assert_int_equal(options_is_set(options, "nothing"), 0);
  options_free(options);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_are_filled_in),
                                     cmocka_unit_test(values_are_read_by_type),
                                     cmocka_unit_test(refusals_say_why),
                                     cmocka_unit_test(a_list_is_no_scalar),
                                     cmocka_unit_test(required_is_missing_until_set),
                                     cmocka_unit_test(a_clone_lives_by_itself),
                                     cmocka_unit_test(texts_are_canonical),
                                     cmocka_unit_test(a_broken_default_is_refused),
                                     cmocka_unit_test(asking_for_no_option_gives_nothing)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
