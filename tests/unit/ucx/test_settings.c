/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the plugin as UCX's configuration, by UCX's own reader. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_host.h"
#include "settings.h"

#include <cmocka.h>

#define ITEMS_MAX 3u

static const char *const *items; /* of the option `ucx`, behind them NULL */

static const char *option_item(const struct pst_options *options, const char *name, uint32_t index)
{
  (void)options;
  assert_string_equal(name, "ucx");
  return index < ITEMS_MAX && items[index] ? items[index] : NULL;
}

static int read_with(const struct fake_option *list, ucp_config_t **config)
{
  struct pst_host host = fake_host;

  host.option_item = option_item;
  fake_log_clear();
  return ucx_settings_read(&host, FAKE_OPTIONS(list), config);
}

/* Has it this line, "UCX_TLS=tcp"? */
static bool has_line(const ucp_config_t *config, const char *line)
{
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  bool has;

  assert_non_null(file);
  ucp_config_print(config, file, NULL, UCS_CONFIG_PRINT_CONFIG);
  fclose(file);
  char *at = strstr(text, line);
  has = at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
  free(text);
  return has;
}

static void options_become_ucxs(void **state)
{
  static const struct fake_option list[] = {{"tls", "tcp,self"}, {"net_devices", "lo"}, {0}};
  static const char *const given[ITEMS_MAX + 1] = {"MAX_RNDV_RAILS=3", "UCX_RNDV_THRESH=4096"};
  ucp_config_t *config;

  (void)state;
  items = given;
  assert_int_equal(read_with(list, &config), 0);
  assert_true(has_line(config, "UCX_TLS=tcp,self"));
  assert_true(has_line(config, "UCX_NET_DEVICES=lo"));
  assert_true(has_line(config, "UCX_MAX_RNDV_RAILS=3"));
  assert_true(has_line(config, "UCX_RNDV_THRESH=4K"));
  assert_string_equal(fake_log(), "");
  ucp_config_release(config);
}

static void options_come_before_the_environment(void **state)
{
  static const struct fake_option none[] = {{0}}, list[] = {{"tls", "posix"}, {0}};
  static const char *const given[ITEMS_MAX + 1] = {NULL};
  ucp_config_t *config;

  (void)state;
  items = given;
  assert_int_equal(setenv("UCX_TLS", "tcp", 1), 0);
  assert_int_equal(read_with(none, &config), 0);
  assert_true(has_line(config, "UCX_TLS=tcp"));
  ucp_config_release(config);
  assert_int_equal(read_with(list, &config), 0);
  assert_true(has_line(config, "UCX_TLS=posix"));
  ucp_config_release(config);
  assert_int_equal(unsetenv("UCX_TLS"), 0);
}

static void what_ucx_does_not_take_is_refused(void **state)
{
  static const struct fake_option none[] = {{0}};
  static const struct {
    const char *const given[ITEMS_MAX + 1];
    int rc;
    const char *word;
  } rows[] = {
      {{"MAX_RNDV_RAIL=2"}, -EOPNOTSUPP, "the nearest is MAX_RNDV_RAILS"},
      {{"UCX_TSL=tcp"}, -EOPNOTSUPP, "the nearest is TLS"},
      {{"MAX_RNDV_RAILS=many"}, -EOPNOTSUPP, "UCX does not take MAX_RNDV_RAILS=many"},
      {{"MAX_RNDV_RAILS=2", "RNDV_THRES=1"}, -EOPNOTSUPP, "the nearest is RNDV_THRESH"},
      {{"MAX_RNDV_RAILS"}, -EINVAL, ""},
  };
  ucp_config_t *config;

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    items = rows[i].given;
    assert_int_equal(read_with(none, &config), rows[i].rc);
    assert_non_null(strstr(fake_log(), rows[i].word));
  }
}

static void variables_are_named_and_not_cut(void **state)
{
  char text[64], room[16];

  (void)state;
  assert_int_equal(clearenv(), 0);
  ucx_settings_environment(text, sizeof(text));
  assert_string_equal(text, "");
  assert_int_equal(setenv("UCX_TLS", "tcp", 1), 0);
  assert_int_equal(setenv("UCXX_TLS", "tcp", 1), 0);
  assert_int_equal(setenv("UCX_NET_DEVICES", "lo", 1), 0);
  ucx_settings_environment(text, sizeof(text));
  assert_non_null(strstr(text, "UCX_TLS"));
  assert_non_null(strstr(text, "UCX_NET_DEVICES"));
  assert_null(strstr(text, "UCXX"));
  assert_null(strchr(text, '='));
  ucx_settings_environment(room, sizeof(room)); /* the longer one has no room */
  assert_string_equal(room, "UCX_TLS");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_become_ucxs),
      cmocka_unit_test(options_come_before_the_environment),
      cmocka_unit_test(what_ucx_does_not_take_is_refused),
      cmocka_unit_test(variables_are_named_and_not_cut),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
