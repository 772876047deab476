/* SPDX-License-Identifier: Apache-2.0 */
/* The examples that are shipped are right, and read back to the same. */
#include <stdlib.h>

#include "support.h"

static void example(const char *path)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL, *again = NULL;
  char *text = NULL;
  if (config_load_file(path, NULL, 0, &test_catalog, &config, &error))
    fail_msg("%s", error.text);
  assert_int_equal(pst_config_effective(config, &text), 0);
  again = load(text);
  assert_string_equal(pst_config_hash(config), pst_config_hash(again));
  free(text);
  pst_config_close(config);
  pst_config_close(again);
}

static void loopback(void **state)
{
  (void)state;
  example(PST_EXAMPLES "/loopback.yaml");
}

static void loopback_file(void **state)
{
  (void)state;
  example(PST_EXAMPLES "/loopback-file.yaml");
}

static void loopback_pcap(void **state)
{
  (void)state;
  example(PST_EXAMPLES "/loopback-pcap.yaml");
}

static void loopback_many(void **state)
{
  (void)state;
  example(PST_EXAMPLES "/loopback-many.yaml");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(loopback), cmocka_unit_test(loopback_file),
                                     cmocka_unit_test(loopback_pcap),
                                     cmocka_unit_test(loopback_many)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
