/* SPDX-License-Identifier: Apache-2.0 */
/* The effective configuration: complete, valid input, and the same again. */
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

static const char *const samples[] = {
    HEAD,
    HEAD "control: none\nthreads: {count: 3, cpus: [1, 2]}\n",
    HEAD "control: {listen: \"127.0.0.1:0\", connect: \"localhost:7\"}\n",
    HEAD "  expect: {path: staged, max_loss: 0.00037, min_gbps: 1e3, verified: true}\n",
    HEAD
    "  sender: {memory: {plugin: cuda, options: {device: \"a \\\"b\\\" \\\\ é\\_\\N\\L# :\"}}}\n",
    HEAD "  transport: {options: {names: [a, \"b, c\", \"\", \"~\", \"true\", \"[\"]}}\n",
    HEAD "  transport: {filters: [fault, {plugin: fault, options: {drop: 3}}]}\n",
    HEAD "  receiver: {memory: {plugin: cuda, options: {device: m}}}\n",
    HEAD "- name: b\n  sender: {share: a}\n  receiver: {share: a, sink: discard}\n",
    HEAD "  sender: {source: {type: file, file: \"-x y\", loop: true}}\n"
         "  receiver: {sink: {type: file, file: \"null\", overwrite: true}}\n",
    HEAD
    "- name: b\n"
    "transport: {plugin: loopback, options: {depth: 8 KiB, burst: 2, wait: 2 s, copy: copy}}\n",
    HEAD "  sender: {transport: {plugin: verbs, options: {device: m0, mtu: 1024}}}\n"
         "control: none\n",
    HEAD "  receiver: {transport: {plugin: verbs, options: {device: m0, mtu: 1024}}}\n"
         "control: none\n",
    HEAD "  sender: {transport: {plugin: verbs, options: {device: m0, mtu: 1024}}}\n"
         "  receiver: {transport: {plugin: verbs, options: {device: m1, mtu: 1024}}}\n",
    HEAD "  sender: {transport: {options: {device: m0}}}\n"
         "  receiver: {transport: loopback}\ntransport: verbs\ncontrol: none\n"};

static void reads_back_to_the_same(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
    struct pst_error error = PST_ERROR_INIT;
    struct pst_config *first = NULL, *second = NULL;
    char *text = NULL, *again = NULL;
    if (config_load_text(samples[i], strlen(samples[i]), "t.yaml", NULL, 0, &test_catalog, &first,
                         &error))
      fail_msg("sample %zu: %s", i, error.text);
    assert_int_equal(pst_config_effective(first, &text), 0);
    second = load(text);
    if (strcmp(pst_config_hash(first), pst_config_hash(second)) != 0) {
      pst_config_effective(second, &again);
      fail_msg("sample %zu:\n%s---\n%s", i, text, again);
    }
    free(text);
    pst_config_close(first);
    pst_config_close(second);
  }
}

static void every_value_has_its_origin(void **state)
{
  (void)state;
  char *text = NULL;
  struct pst_config *config = load(HEAD "  ring: 16\n  transport: {options: {depth: 8192}}\n");
  assert_int_equal(pst_config_effective(config, &text), 0);
  assert_non_null(strstr(text, "    ring: 16                                # t.yaml:4:9\n"));
  assert_non_null(strstr(text, "        depth: 8 KiB                        # t.yaml:5:32\n"));
  assert_non_null(strstr(text, "    message: 8 KiB                          # default\n"));
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (line[strlen(line) - 1] != ':' && !strstr(line, "  # "))
      fail_msg("no origin: %s", line);
  free(text);
  pst_config_close(config);
}

static void options_stand_where_they_may(void **state)
{
  (void)state;
  struct pst_config *config =
      load(HEAD "transport: {options: {depth: 8 KiB, burst: 2, wait: 2 s}}\n");
  assert_get(config, "streams.a.transport.options.depth", "8 KiB");
  assert_get(config, "streams.a.sender.transport.options.burst", "2");
  assert_get(config, "streams.a.receiver.transport.options.wait", "2 s");
  assert_null(pst_config_get(config, "streams.a.sender.transport.options.wait"));
  assert_null(pst_config_get(config, "streams.a.sender.transport.options.depth"));
  pst_config_close(config);
}

static void the_hash_is_of_values_alone(void **state)
{
  (void)state;
  struct pst_config *plain = load(HEAD);
  struct pst_config *same = load("# a comment\n\npenstock: 1\nstreams:\n  - name:   \"a\"\n"
                                 "    message: 8192 B\n    ring: 128\n");
  struct pst_config *other = load(HEAD "  ring: 1025\n");
  assert_int_equal(strlen(pst_config_hash(plain)), 64);
  assert_int_equal(strspn(pst_config_hash(plain), "0123456789abcdef"), 64);
  assert_string_equal(pst_config_hash(plain), pst_config_hash(same));
  assert_string_not_equal(pst_config_hash(plain), pst_config_hash(other));
  pst_config_close(plain);
  pst_config_close(same);
  pst_config_close(other);
}

static void values_are_had_by_path(void **state)
{
  (void)state;
  struct pst_config *config = load(HEAD "  sender: {rate: 68.75 Gbps}\n"
                                        "  expect: {min_gbps: 1.5, max_loss: 1%, verified: true}\n"
                                        "control: {timeout: 250 ms, insecure: true}\n");
  assert_get(config, "streams.a.sender.source.type", "pattern");
  assert_get(config, "streams.0.name", "a");
  assert_true(pst_config_get_uint(config, "streams.a.sender.rate") == UINT64_C(68750000000));
  assert_int_equal(pst_config_get_uint(config, "control.timeout"), 250000000);
  assert_int_equal(pst_config_get_uint(config, "control.insecure"), 1);
  assert_int_equal(pst_config_get_uint(config, "streams.a.message"), 8192);
  assert_int_equal(pst_config_get_uint(config, "streams.a.sender.transport.options.burst"), 64);
  assert_int_equal(pst_config_get_uint(config, "streams.a.transport.options.depth"), 4096);
  assert_get(config, "streams.a.expect.min_gbps", "1.5");
  assert_true(pst_config_get_number(config, "streams.a.expect.min_gbps") == 1.5);
  assert_true(pst_config_get_number(config, "streams.a.expect.max_loss") == 0.01);
  assert_true(pst_config_get_number(config, "streams.a.message") == 8192);
  assert_null(pst_config_get(config, "streams.a.expect.via"));
  assert_null(pst_config_get(config, "streams.a.sender"));
  assert_null(pst_config_get(config, "streams.b.ring"));
  assert_null(pst_config_get(config, "streams.a.ring.x"));
  assert_null(pst_config_get(config, ""));
  assert_null(pst_config_get(config, "."));
  assert_int_equal(pst_config_get_uint(config, "nothing"), 0);
  pst_config_close(config);
}

static void numbers_are_printed_as_people_write_them(void **state)
{
  static const char *const rows[][2] = {{"5000", "5000"}, {"5e3", "5000"},
                                        {"400", "400"},   {"0", "0"},
                                        {"2.5", "2.5"},   {"123456.75", "123456.75"}};
  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    char text[128];
    snprintf(text, sizeof(text), HEAD "  expect: {min_gbps: %s}\n", rows[i][0]);
    struct pst_config *config = load(text);
    assert_get(config, "streams.a.expect.min_gbps", rows[i][1]);
    pst_config_close(config);
  }
}

static void streams_are_found_by_the_longest_name(void **state)
{
  (void)state;
  struct pst_config *config = load("penstock: 1\nstreams:\n"
                                   "- {name: a.ring, ring: 2}\n- {name: b, ring: 4}\n"
                                   "- {name: a, ring: 8}\n- {name: \"1\", ring: 16}\n"
                                   "- {name: a.ring.x, ring: 32}\n");
  assert_get(config, "streams.a.ring.ring", "2");
  assert_get(config, "streams.a.message", "8 KiB");
  assert_get(config, "streams.a.stride", "0");
  assert_get(config, "streams.a.ring.x.ring", "32");
  assert_get(config, "streams.b.ring", "4");
  assert_get(config, "streams.1.ring", "16"); /* a name goes before a place */
  assert_get(config, "streams.2.ring", "8");
  assert_null(pst_config_get(config, "streams.a.ring"));
  assert_null(pst_config_get(config, "streams.c.ring"));
  assert_null(pst_config_get(config, "streams.a."));
  assert_null(pst_config_get(config, "streams."));
  assert_null(pst_config_get(config, "streams"));
  pst_config_close(config);
}

/* A line for each key: "path|type|values|default|only for|help". */
static void write_key(void *context, const struct pst_config_key *key)
{
  fprintf(context, "%s%s%s%s|%s|%s|%s|%s|%s\n", key->plugin ? key->plugin->name : "",
          key->plugin ? ":" : "", key->path, key->is_map ? "{}" : "", key->type, key->values,
          key->default_words ? key->default_words : key->default_value,
          key->only_for ? key->only_for : "", key->help);
}

static void every_key_is_reported(void **state)
{
  (void)state;
  static const char *const lines[] = {
      "\nstreams[].sender.source{}|mapping|",
      "\nstreams[].expect.min_gbps|number||||",
      "\nstreams[].ring|whole number|2 to 16777216|by `message` and `rate`||",
      "\nstreams[].sender.source.file|text|1 to 4095 bytes||`file` and `pcap`|Path of",
      "\nstreams[].sender|mapping||||The sending end.",
      "\nfault:drop|whole number||0||One in so many.",
      "\nverbs:device|text|at most 31 bytes|||Name the device.",
      "\ncuda:{}|mapping|"};
  char *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_non_null(file);
  config_keys(&test_catalog, write_key, file);
  fclose(file);
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
    if (!strstr(text, lines[i]))
      fail_msg("not reported: %s; all: %s", lines[i], text);
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_back_to_the_same),
                                     cmocka_unit_test(every_value_has_its_origin),
                                     cmocka_unit_test(options_stand_where_they_may),
                                     cmocka_unit_test(the_hash_is_of_values_alone),
                                     cmocka_unit_test(values_are_had_by_path),
                                     cmocka_unit_test(numbers_are_printed_as_people_write_them),
                                     cmocka_unit_test(streams_are_found_by_the_longest_name),
                                     cmocka_unit_test(every_key_is_reported)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
