/* SPDX-License-Identifier: Apache-2.0 */
/* Input that means harm, or is no text at all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define T "t.yaml:"

static void assert_refused_bytes(const char *bytes, size_t length, const char *expected)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  /* On the heap, so that a byte read behind the end is seen. */
  char *copy = malloc(length ? length : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, length);
  assert_int_equal(
      config_load_text(copy, length, "t.yaml", NULL, 0, &test_catalog, &config, &error), -EINVAL);
  free(copy);
  assert_string_equal(error.text, expected);
}
#define REFUSED(bytes, expected) assert_refused_bytes(bytes, sizeof(bytes) - 1, expected)

static void billion_laughs(void **state)
{
  (void)state;
  char text[4096] = "penstock: 1\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; i++)
    snprintf(text + strlen(text), sizeof(text) - strlen(text),
             "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
             i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
  assert_refused(text, T "6:25: aliases stand for more than 50000 values; write the values out");
}

static void aliases_that_go_nowhere(void **state)
{
  (void)state;
  assert_refused(HEAD "  ring: *x\n", T "4:9: the alias *x has no anchor &x above it");
  assert_refused("penstock: 1\nstreams: &s [*s]\n",
                 T "2:14: the alias *s is inside its own anchor; write its value here");
}

static void anchors_are_bounded(void **state)
{
  (void)state;
  char *text = calloc(1, 16384);
  assert_non_null(text);
  strcpy(text, "penstock: 1\nx: [");
  for (int i = 0; i < 257; i++)
    sprintf(text + strlen(text), "&a%d 1, ", i);
  strcat(text, "1]\n");
  assert_non_null(strstr(refusal(text), "more than 256 anchors; write the values out"));
  free(text);
}

static void depth_is_bounded(void **state)
{
  (void)state;
  char text[256] = "x: ";
  for (int i = 0; i < 40; i++)
    strcat(text, "[");
  assert_refused(text, T "1:35: nested deeper than 32 levels; no key is that deep");
  assert_refused("a: &a [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\nb: [[[[[[[[[[[[[[[[*a]]]]]]]]]]]]]]]]\n",
                 T "2:20: this alias nests deeper than 32 levels; no key is that deep");
}

static void size_is_bounded(void **state)
{
  (void)state;
  size_t length = (4u << 20) + 1;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  char *text = malloc(length);
  assert_non_null(text);
  memset(text, ' ', length);
  assert_int_equal(
      config_load_text(text, length, "t.yaml", NULL, 0, &test_catalog, &config, &error), -EINVAL);
  assert_string_equal(error.text, "t.yaml: longer than 4 MiB; is this a configuration?");
  free(text);
}

static void keys_and_values_are_bounded(void **state)
{
  (void)state;
  size_t size = 4u << 20;
  char *text = calloc(1, size), *at = text;
  assert_non_null(text);
  for (int i = 0; i < 257; i++)
    at += sprintf(at, "k%d: 1\n", i);
  assert_refused(text, T "257:1: more than 256 keys in one mapping");
  at = text + sprintf(text, "penstock: 1\nstreams: [");
  for (int i = 0; i < 200001; i++)
    at += sprintf(at, "1,%s", i % 50 ? "" : "\n");
  assert_non_null(strstr(refusal(text), "more than 200000 values in one configuration; split it"));
  at = text + sprintf(text, "penstock: 1\nstreams: [");
  for (int i = 0; i < 4097; i++)
    at += sprintf(at, "{name: s%d},%s", i, i % 50 ? "" : "\n");
  strcpy(at, "]\n");
  assert_refused(text, T "2:10: streams: 4097 of them; at most 4096");
  free(text);
}

static void many_streams_are_legal(void **state)
{
  (void)state;
  char *text = calloc(1, 1u << 20), *at = text;
  assert_non_null(text);
  at += sprintf(at, "penstock: 1\nstreams: [");
  for (int i = 0; i < 4096; i++)
    at += sprintf(at, "{name: s%d},%s", i, i % 50 ? "" : "\n");
  strcpy(at, "]\n");
  struct pst_config *config = load(text);
  assert_int_equal(pst_config_stream_count(config), 4096);
  assert_get(config, "streams.s4095.ring", "128");
  pst_config_close(config);
  free(text);
}

static void bytes_that_are_no_text(void **state)
{
  (void)state;
  REFUSED("penstock: 1\n\0", T "2:1: found a NUL byte; is this a text file?");
  REFUSED("penstock: 1\nab\xff\n", T "2:3: found a byte that is not UTF-8; save the text as UTF-8");
  REFUSED("é\xc3", T "1:2: found a byte that is not UTF-8; save the text as UTF-8");
  REFUSED("\xc0\xaf", T "1:1: found a byte that is not UTF-8; save the text as UTF-8");
  REFUSED("\xed\xa0\x80", T "1:1: found a byte that is not UTF-8; save the text as UTF-8");
  REFUSED("\xff\xfep\0", T "1:1: found a byte that is not UTF-8; save the text as UTF-8");
  REFUSED("a: \x1b[31m\n", T "1:4: found a control character; remove it");
  REFUSED("a: 1\r\nb: \x7f", T "2:4: found a control character; remove it");
  assert_refused(HEAD "  sender: {share: \"a\\0b\"}\n",
                 T "4:19: the value holds a NUL byte; is this a text file?");
  assert_refused(HEAD "  sender: {share: \"\"}\n",
                 T "4:19: share: the text is empty; it takes 1 to 63 bytes");
}

static void a_byte_order_mark_is_legal(void **state)
{
  (void)state;
  pst_config_close(load("\xef\xbb\xbf" HEAD));
  pst_config_close(load("penstock: 1\r\nstreams:\r\n- name: a\r\n"));
}

static void yaml_that_is_not(void **state)
{
  (void)state;
  assert_refused("penstock: 1\nstreams:\n\t- name: a\n",
                 T "3:1: not YAML: while scanning for the next token, found character that cannot "
                   "start any token; indent with spaces, not tabs, and put quotes around a value "
                   "that begins with @, ` or %");
  assert_refused("penstock: 1\nstreams: [{name: a}\n",
                 T "3:1: not YAML: while parsing a flow sequence, did not find expected ',' or "
                   "']'; close the bracket, or put a comma between the items");
  assert_refused("a: b: c\n",
                 T "1:5: not YAML: mapping values are not allowed in this context; check the "
                   "indentation, and put quotes around a value that holds a colon and a space");
  assert_refused("penstock: 1\n---\npenstock: 1\n",
                 T "2:1: a second document begins here; keep one per file, without a further ---");
  assert_refused("penstock: 1\n[a]: 1\n",
                 T "2:1: expected a key (plain text), found a list or mapping");
  assert_refused(HEAD "  <<: {ring: 5}\n",
                 T "4:3: merge keys (<<) are not supported; write the keys out, or use a global "
                   "`transport`");
  assert_refused(HEAD "  ring: !!int 5\n",
                 T "4:9: the tag \"tag:yaml.org,2002:int\" has no meaning here; remove it, types "
                   "follow from the keys");
}

static void every_cut_of_a_file_ends(void **state)
{
  (void)state;
  static const char text[] =
      "penstock: 1\ntransport: {plugin: loopback, options: {names: [a, b]}}\n"
      "streams:\n- &x\n  name: \"a\\u00e9\"\n  sender: {source: *y}\n  "
      "receiver: 'z'\n...\n";
  for (size_t length = 0; length < sizeof(text); length++) {
    struct pst_config *config = NULL;
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    if (config_load_text(copy, length, "t.yaml", NULL, 0, &test_catalog, &config, NULL) == 0)
      pst_config_close(config);
    free(copy);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(billion_laughs),
                                     cmocka_unit_test(aliases_that_go_nowhere),
                                     cmocka_unit_test(anchors_are_bounded),
                                     cmocka_unit_test(depth_is_bounded),
                                     cmocka_unit_test(size_is_bounded),
                                     cmocka_unit_test(keys_and_values_are_bounded),
                                     cmocka_unit_test(many_streams_are_legal),
                                     cmocka_unit_test(bytes_that_are_no_text),
                                     cmocka_unit_test(a_byte_order_mark_is_legal),
                                     cmocka_unit_test(yaml_that_is_not),
                                     cmocka_unit_test(every_cut_of_a_file_ends)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
