/* SPDX-License-Identifier: Apache-2.0 */
/* Values of one level override those of the enclosing one; defaults. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

static const struct config_stream *stream(const struct pst_config *config, uint32_t index)
{
  return &config_of(config)->streams[index];
}

static void defaults(void **state)
{
  (void)state;
  struct pst_config *loaded = load(HEAD);
  const struct config *config = config_of(loaded);
  const struct config_stream *a = stream(loaded, 0);
  assert_int_equal(config->stream_count, 1);
  assert_string_equal(a->name, "a");
  assert_string_equal(a->origin, "t.yaml:3:3");
  assert_int_equal(a->message, 8192);
  assert_int_equal(a->stride, 0);
  assert_int_equal(a->ring, 128);
  assert_int_equal(a->timeout_ns, UINT64_C(5000000000));
  assert_string_equal(a->sender.transport.plugin.name, "loopback");
  assert_string_equal(a->sender.transport.plugin.origin, "default");
  assert_string_equal(a->receiver.memory.name, "host");
  assert_get(loaded, "streams.a.sender.source.type", "pattern");
  assert_get(loaded, "streams.a.sender.source.seed", "1");
  assert_get(loaded, "streams.a.receiver.sink.type", "verify");
  assert_int_equal(a->receiver.path, CONFIG_PATH_AUTO);
  assert_null(a->sender.share);
  assert_null(pst_config_origin(loaded, "streams.a.expect"));
  assert_string_equal(config->control.listen, "127.0.0.1:18515");
  assert_string_equal(config->control.connect, "127.0.0.1:18515");
  assert_false(config->control.none);
  assert_int_equal(config->control.connect_timeout_ns, UINT64_C(60000000000));
  assert_int_equal(config->control.heartbeat_ns, UINT64_C(500000000));
  assert_int_equal(config->threads.count, 0);
  assert_int_equal(config->threads.cpu_count, 0);
  pst_config_close(loaded);
}

static void every_key_is_stored(void **state)
{
  (void)state;
  struct pst_config *loaded =
      load("penstock: 1\n"
           "control: {listen: \"0.0.0.0:1\", connect: \"host:2\", insecure: true, timeout: 0, "
           "heartbeat: 1 s}\n"
           "threads: {count: 3, cpus: [4, 5], sleep_after: 10 ms}\n"
           "streams:\n"
           "- name: x.y-z_1\n"
           "  message: 1462 B\n"
           "  stride: 2 KiB\n"
           "  ring: 16\n"
           "  timeout: 3 s\n"
           "  sender: {memory: cuda, count: 9, rate: 68.75 Gbps, burst: 4 KiB, ring: 8,\n"
           "           source: {type: pcap, file: in, loop: true, timed: true}}\n"
           "  receiver: {path: staged, sink: {type: pcap, file: out, overwrite: true}}\n"
           "  expect: {path: direct, via: dma-buf, carrier: rdma, min_gbps: 1.25, max_loss: 0.1%,\n"
           "           max_corrupted: 1, max_duplicates: 2, max_reordered: 3, min_messages: 4,\n"
           "           verified: true}\n");
  const struct config *config = config_of(loaded);
  const struct config_stream *s = stream(loaded, 0);
  assert_string_equal(config->control.listen, "0.0.0.0:1");
  assert_string_equal(config->control.connect, "host:2");
  assert_true(config->control.insecure);
  assert_int_equal(config->control.connect_timeout_ns, 0);
  assert_int_equal(config->control.heartbeat_ns, 1000000000);
  assert_int_equal(config->threads.count, 3);
  assert_int_equal(config->threads.cpu_count, 2);
  assert_int_equal(config->threads.cpus[1], 5);
  assert_int_equal(config->threads.sleep_after_ns, 10000000);
  assert_string_equal(s->name, "x.y-z_1");
  assert_int_equal(s->message, 1462);
  assert_int_equal(s->stride, 2048);
  assert_int_equal(s->ring, 16);
  assert_int_equal(s->timeout_ns, UINT64_C(3000000000));
  assert_string_equal(s->sender.memory.name, "cuda");
  assert_get(loaded, "streams.0.sender.count", "9");
  assert_true(s->sender.rate_bps == UINT64_C(68750000000));
  assert_int_equal(s->sender.burst, 4096);
  assert_int_equal(s->sender.ring, 8);
  assert_get(loaded, "streams.0.sender.source.type", "pcap");
  assert_get(loaded, "streams.0.sender.source.file", "in");
  assert_int_equal(pst_config_get_uint(loaded, "streams.0.sender.source.loop"), 1);
  assert_int_equal(pst_config_get_uint(loaded, "streams.0.sender.source.timed"), 1);
  assert_int_equal(s->receiver.path, CONFIG_PATH_STAGED);
  assert_get(loaded, "streams.0.receiver.sink.type", "pcap");
  assert_get(loaded, "streams.0.receiver.sink.file", "out");
  assert_int_equal(pst_config_get_uint(loaded, "streams.0.receiver.sink.overwrite"), 1);
  assert_get(loaded, "streams.0.expect.verified", "true");
  assert_get(loaded, "streams.0.expect.path", "direct");
  assert_get(loaded, "streams.0.expect.via", "dma-buf");
  assert_get(loaded, "streams.0.expect.carrier", "rdma");
  assert_true(pst_config_get_number(loaded, "streams.0.expect.min_gbps") == 1.25);
  assert_true(pst_config_get_number(loaded, "streams.0.expect.max_loss") == 0.001);
  assert_get(loaded, "streams.0.expect.max_corrupted", "1");
  assert_get(loaded, "streams.0.expect.max_duplicates", "2");
  assert_get(loaded, "streams.0.expect.max_reordered", "3");
  assert_get(loaded, "streams.0.expect.min_messages", "4");
  pst_config_close(loaded);
}

static void options_merge_key_by_key(void **state)
{
  (void)state;
  struct pst_config *config =
      load("penstock: 1\n"
           "transport: {plugin: loopback, options: {depth: 8 KiB, burst: 2, copy: copy}}\n"
           "streams:\n"
           "- name: a\n"
           "  transport: {options: {depth: 16 KiB}}\n"
           "  sender: {transport: {plugin: loopback, options: {burst: 3}}}\n"
           "- name: b\n");
  const struct pst_options *sender = stream(config, 0)->sender.transport.plugin.options;
  const struct pst_options *receiver = stream(config, 0)->receiver.transport.plugin.options;
  const struct pst_options *other = stream(config, 1)->sender.transport.plugin.options;
  assert_int_equal(options_get_uint(sender, "depth"), 16384);
  assert_int_equal(options_get_uint(receiver, "depth"), 16384);
  assert_int_equal(options_get_uint(other, "depth"), 8192);
  assert_int_equal(options_get_uint(sender, "burst"), 3);
  assert_int_equal(options_get_uint(receiver, "burst"), 2);
  assert_string_equal(options_get_string(receiver, "copy"), "copy");
  assert_get(config, "streams.a.transport.options.depth", "16 KiB");
  assert_get(config, "streams.a.sender.transport.options.burst", "3");
  assert_get(config, "streams.b.transport.options.depth", "8 KiB");
  pst_config_close(config);
}

static void another_plugin_begins_afresh(void **state)
{
  (void)state;
  struct pst_config *config =
      load("penstock: 1\n"
           "transport: {plugin: loopback, options: {copy: copy, depth: 8 KiB}}\n"
           "streams:\n"
           "- name: a\n"
           "  transport: {plugin: verbs, options: {device: m0}}\n"
           "  sender: {transport: {options: {device: m1}}}\n"
           "  receiver: {transport: loopback}\n"
           "control: none\n");
  const struct config_stream *a = stream(config, 0);
  assert_string_equal(a->sender.transport.plugin.name, "verbs");
  assert_string_equal(options_get_string(a->sender.transport.plugin.options, "device"), "m1");
  assert_string_equal(a->receiver.transport.plugin.name, "loopback");
  assert_int_equal(options_get_uint(a->receiver.transport.plugin.options, "depth"), 4096);
  assert_string_equal(options_get_string(a->receiver.transport.plugin.options, "copy"), "auto");
  assert_string_equal(a->sender.transport.plugin.origin, "t.yaml:5:23");
  pst_config_close(config);
}

static void a_required_option_may_come_at_any_level(void **state)
{
  (void)state;
  struct pst_config *config = load("penstock: 1\n"
                                   "transport: verbs\n"
                                   "streams:\n"
                                   "- name: a\n"
                                   "  sender: {transport: {options: {device: x}}}\n"
                                   "  receiver: {transport: {options: {device: y}}}\n");
  assert_get(config, "streams.a.sender.transport.options.device", "x");
  assert_get(config, "streams.a.receiver.transport.options.device", "y");
  pst_config_close(config);
}

static void filters_stay_until_replaced(void **state)
{
  (void)state;
  struct pst_config *config =
      load("penstock: 1\n"
           "transport: {filters: [{plugin: fault, options: {drop: 7}}]}\n"
           "streams:\n"
           "- name: a\n"
           "  transport: {plugin: verbs, options: {device: x}}\n"
           "  receiver: {transport: {filters: []}}\n"
           "- name: b\n"
           "  sender: {transport: {filters: [fault, {plugin: fault, options: {drop: 2}}]}}\n");
  const struct config_stream *a = stream(config, 0), *b = stream(config, 1);
  assert_int_equal(a->sender.transport.filter_count, 1);
  assert_int_equal(options_get_uint(a->sender.transport.filters[0].options, "drop"), 7);
  assert_int_equal(a->receiver.transport.filter_count, 0);
  assert_int_equal(b->sender.transport.filter_count, 2);
  assert_int_equal(options_get_uint(b->sender.transport.filters[0].options, "drop"), 0);
  assert_int_equal(options_get_uint(b->sender.transport.filters[1].options, "drop"), 2);
  assert_int_equal(b->receiver.transport.filter_count, 1);
  pst_config_close(config);
}

static void shorthands(void **state)
{
  (void)state;
  struct pst_config *config =
      load("penstock: 1\ncontrol: none\nthreads: 2\ntransport: loopback\n"
           "streams:\n- name: a\n  sender: {memory: cuda, source: pattern}\n"
           "  receiver: {memory: host, sink: discard}\n");
  assert_true(config_of(config)->control.none);
  assert_int_equal(config_of(config)->threads.count, 2);
  assert_string_equal(stream(config, 0)->sender.memory.name, "cuda");
  assert_get(config, "streams.a.receiver.sink.type", "discard");
  assert_get(config, "control", "none");
  pst_config_close(config);
  config = load(HEAD "control: \"127.0.0.1:5\"\n");
  assert_string_equal(config_of(config)->control.connect, "127.0.0.1:5");
  pst_config_close(config);
}

static void nothing_is_as_if_not_written(void **state)
{
  (void)state;
  struct pst_config *plain = load(HEAD);
  struct pst_config *empty =
      load(HEAD "  ring:\n  message: ~\n  sender:\n  transport: {options: {depth: null}}\n"
                "  receiver: {sink: }\ncontrol:\nthreads: ~\ntransport:\n");
  assert_string_equal(pst_config_hash(plain), pst_config_hash(empty));
  assert_false(options_is_set(stream(empty, 0)->sender.transport.plugin.options, "depth"));
  pst_config_close(plain);
  pst_config_close(empty);
}

static void a_sharing_stream_takes_the_others_source(void **state)
{
  (void)state;
  struct pst_config *config =
      load(HEAD "  sender: {count: 5, rate: 1 Gbps, source: {seed: 9, length: 100}}\n"
                "- name: b\n  sender: {share: a}\n  receiver: {share: a}\n");
  const struct config_stream *b = stream(config, 1);
  assert_string_equal(b->sender.share, "a");
  assert_string_equal(b->receiver.share, "a");
  assert_true(b->sender.rate_bps == 1000000000);
  assert_null(pst_config_get(config, "streams.b.sender.source.seed"));
  pst_config_close(config);
}

static void a_ring_lasts_100_us_at_a_rate_that_is_known(void **state)
{
  (void)state;
  static const struct {
    const char *keys, *ring;
  } all[] = {
      {"message: 1462, sender: {rate: 1 Gbps}", "512"}, /* 1 MiB lasts longer */
      {"message: 1462, sender: {rate: 200 Gbps}", "2048"},
      {"message: 1462, sender: {rate: 400 Gbps}", "4096"},
      {"message: 64, sender: {rate: 400 Gbps}", "8192"},
      {"message: 1 MiB, sender: {rate: 400 Gbps}", "16"},
      {"message: 1 GiB, sender: {rate: 1000000 Gbps}", "2"}, /* one more would be 4 GiB */
      {"message: 1462, sender: {rate: 400 Gbps}, ring: 64", "64"},
      {"message: 1462, ring: 64", "64"},
      {"message: 1462", "512"}, /* from here on the link has a say */
      {"message: 1462, sender: {ring: 64}", "512"},
  };
  const size_t links_from = sizeof(all) / sizeof(all[0]) - 2;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    char text[256];
    snprintf(text, sizeof(text), "penstock: 1\nstreams:\n- {name: a, %s}\n", all[i].keys);
    struct pst_config *config = load(text);
    assert_get(config, "streams.a.ring", all[i].ring);
    assert_int_equal(stream(config, 0)->ring, strtoul(all[i].ring, NULL, 10));
    assert_int_equal(stream(config, 0)->ring_by_link, i >= links_from);
    assert_true(pst_config_get_uint(config, "streams.a.ring") == stream(config, 0)->ring);
    pst_config_close(config);
  }
}

static void a_sharing_stream_takes_the_others_ring(void **state)
{
  (void)state;
  static const char *const shares[] = {"sender: {share: b}", "receiver: {share: b}"};
  for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
    char text[256];
    snprintf(text, sizeof(text),
             "penstock: 1\nstreams:\n- {name: a, message: 1462, %s}\n"
             "- {name: b, message: 1462, sender: {rate: 400 Gbps}}\n",
             shares[i]);
    struct pst_config *config = load(text);
    assert_get(config, "streams.a.ring", "4096");
    assert_int_equal(stream(config, 0)->ring, 4096);
    assert_false(stream(config, 0)->ring_by_link); /* the other's rate */
    pst_config_close(config);
  }
}

static void aliases_stand_for_their_anchors(void **state)
{
  (void)state;
  struct pst_config *config =
      load("penstock: 1\nstreams:\n- {name: a, ring: &r 77, sender: &s {count: 3, memory: cuda}}\n"
           "- {name: b, ring: *r, sender: *s}\n");
  assert_int_equal(stream(config, 1)->ring, 77);
  assert_get(config, "streams.b.sender.count", "3");
  assert_string_equal(stream(config, 1)->sender.memory.name, "cuda");
  pst_config_close(config);
}

static void a_held_config_outlives_its_closing(void **state)
{
  (void)state;
  struct pst_config *config = load(HEAD);
  config_hold(config);
  pst_config_close(config);
  assert_string_equal(pst_config_stream_name(config, 0), "a");
  assert_null(pst_config_stream_name(config, 1));
  assert_int_equal(pst_config_stream_count(config), 1);
  pst_config_close(config);
  pst_config_close(NULL);
}

static void *ask_for_origins(void *config)
{
  intptr_t wrong = 0;
  for (int i = 0; i < 1000; i++) {
    const char *origin = pst_config_origin(config, "streams.a");
    wrong += !origin || strcmp(origin, "t.yaml:3:3") != 0;
  }
  return (void *)wrong;
}

static void threads_may_ask_at_once(void **state)
{
  (void)state;
  struct pst_config *config = load(HEAD);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask_for_origins, config), 0);
  for (int i = 0; i < 2; i++) {
    void *wrong = config;
    assert_int_equal(pthread_join(threads[i], &wrong), 0);
    assert_null(wrong);
  }
  pst_config_close(config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(defaults),
                                     cmocka_unit_test(every_key_is_stored),
                                     cmocka_unit_test(options_merge_key_by_key),
                                     cmocka_unit_test(another_plugin_begins_afresh),
                                     cmocka_unit_test(a_required_option_may_come_at_any_level),
                                     cmocka_unit_test(filters_stay_until_replaced),
                                     cmocka_unit_test(shorthands),
                                     cmocka_unit_test(nothing_is_as_if_not_written),
                                     cmocka_unit_test(a_sharing_stream_takes_the_others_source),
                                     cmocka_unit_test(a_ring_lasts_100_us_at_a_rate_that_is_known),
                                     cmocka_unit_test(a_sharing_stream_takes_the_others_ring),
                                     cmocka_unit_test(aliases_stand_for_their_anchors),
                                     cmocka_unit_test(threads_may_ask_at_once),
                                     cmocka_unit_test(a_held_config_outlives_its_closing)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
