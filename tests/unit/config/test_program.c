/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of a program's own in a configuration, and its checks. */
#include <errno.h>
#include <stdio.h>

#include "support.h"

static const char *const kinds[] = {"camera", "disk", NULL};
static const struct pst_option feed_keys[] = {
    {.name = "kind",
     .help = "Which.",
     .type = PST_OPTION_ENUM,
     .choices = kinds,
     .default_value = "camera"},
    {.name = "lens", .help = "Of a camera.", .type = PST_OPTION_STRING, .scope = 1u << 0},
    {.name = "room",
     .help = "Of a disk.",
     .type = PST_OPTION_SIZE,
     .default_value = "4 KiB",
     .max = 1 << 20,
     .scope = 1u << 1}};
static const struct pst_option wish_keys[] = {
    {.name = "at_least", .help = "A number.", .type = PST_CONFIG_NUMBER},
    {.name = "part", .help = "A share.", .type = PST_CONFIG_SHARE},
    {.name = "who", .help = "Needed.", .type = PST_OPTION_STRING, .flags = PST_OPTION_REQUIRED}};
/* Beside the library's. */
static const struct pst_option pace_keys[] = {
    {.name = "shots", .help = "Many.", .type = PST_OPTION_UINT, .default_value = "7", .max = 99}};
static const struct pst_option until_keys[] = {
    {.name = "until", .help = "When.", .type = PST_OPTION_DURATION, .default_value = "3 s"},
    {.name = "word", .help = "Said.", .type = PST_OPTION_STRING}};

static const struct pst_config_map maps[] = {
    {.name = "feed",
     .place = PST_CONFIG_SENDER,
     .summary = "Whence.",
     .help = "Whence it comes.",
     .shorthand = "kind",
     .keys = feed_keys,
     .key_count = 3,
     .foreign_default = "disk",
     .is_shared = 1},
    {.name = "wish",
     .place = PST_CONFIG_STREAM,
     .summary = "What.",
     .help = "What is wanted.",
     .keys = wish_keys,
     .key_count = 3},
    {.place = PST_CONFIG_SENDER, .keys = pace_keys, .key_count = 1, .is_shared = 1},
    {.place = PST_CONFIG_RECEIVER, .keys = until_keys, .key_count = 2, .only_foreign = 1},
    {.name = "sink",
     .place = PST_CONFIG_RECEIVER,
     .summary = "Another's.",
     .help = "Another program's."}};

static uint32_t streams_seen;

static void check(const struct pst_config_stream *stream)
{
  char path[64];

  snprintf(path, sizeof(path), "streams.%u.sender.feed.kind", stream->index);
  const char *kind = pst_config_get(stream->config, path);
  assert_true(stream->struct_size == sizeof(*stream));
  assert_string_equal(stream->transport, "loopback");
  streams_seen++;
  if (kind && strcmp(kind, "disk") == 0 && !stream->is_foreign)
    stream->report(stream, "sender.feed.room", "the disk of stream %u is full", stream->index);
}

static const struct pst_config_program program = {.struct_size = sizeof(program),
                                                  .map_count = sizeof(maps) / sizeof(maps[0]),
                                                  .maps = maps,
                                                  .check = check};

static int use_program(void **state)
{
  streams_seen = 0;
  return quiet(state) || pst_config_program(&program);
}

static void its_values_are_read_as_the_librarys_are(void **state)
{
  struct pst_config *config = load(HEAD "  sender: {feed: {lens: wide}}\n"
                                        "  wish: {at_least: 1.5, part: 10%, who: me}\n");

  (void)state;
  assert_int_equal(streams_seen, 1);
  assert_get(config, "streams.a.sender.feed.kind", "camera");
  assert_get(config, "streams.a.sender.feed.lens", "wide");
  assert_null(pst_config_get(config, "streams.a.sender.feed.room"));
  assert_true(pst_config_get_number(config, "streams.a.wish.at_least") == 1.5);
  assert_true(pst_config_get_number(config, "streams.a.wish.part") == 0.1);
  assert_string_equal(pst_config_origin(config, "streams.a.sender.feed.lens"), "t.yaml:4:25");
  pst_config_close(config);
}

static void its_keys_are_checked_with_place_and_nearest_name(void **state)
{
  (void)state;
  assert_refused(HEAD "  sender: {feed: {lenz: x}}\n  wish: {who: me}\n",
                 "t.yaml:4:19: unknown key \"lenz\" in streams[].sender.feed; did you mean "
                 "\"lens\"?");
  assert_refused(HEAD "  sender: {fed: camera}\n  wish: {who: me}\n",
                 "t.yaml:4:12: unknown key \"fed\" in streams[].sender; did you mean \"feed\"?");
  assert_refused(HEAD "  feed: camera\n  wish: {who: me}\n",
                 "t.yaml:4:3: unknown key \"feed\" in streams[]; it belongs under "
                 "streams[].sender");
  assert_refused(HEAD "  lens: wide\n  wish: {who: me}\n",
                 "t.yaml:4:3: unknown key \"lens\" in streams[]; it belongs under "
                 "streams[].sender.feed");
  assert_refused(HEAD "  sender: {feed: {room: 1 KiB}}\n  wish: {who: me}\n",
                 "t.yaml:4:19: \"room\" is not for feeds of type camera; remove it");
  assert_refused(HEAD "  sender: {feed: radio}\n  wish: {who: me}\n",
                 "t.yaml:4:18: kind: \"radio\" is not one of camera, disk");
  assert_refused(HEAD "  wish: {part: 2, who: me}\n",
                 "t.yaml:4:16: part: 2 is out of range; it takes 0 to 1, or 0% to 100%");
  assert_refused(HEAD "  wish: {part: 1}\n",
                 "t.yaml:4:9: \"who\" is missing in streams[].wish; it takes a text");
}

static void beside_share_it_is_the_other_streams(void **state)
{
  (void)state;
  assert_refused(HEAD "  wish: {who: me}\n- name: b\n  wish: {who: me}\n"
                      "  sender: {share: a, feed: camera}\n",
                 "t.yaml:7:22: \"feed\" has no effect beside \"share\", which takes it from the "
                 "other stream; remove it");
}

static void its_check_says_where(void **state)
{
  (void)state;
  assert_refused(HEAD "  wish: {who: me}\n  sender:\n    feed: {kind: disk, room: 8 KiB}\n",
                 "t.yaml:6:30: the disk of stream 0 is full");
  assert_refused(HEAD "  wish: {who: me}\n  sender:\n    feed: disk\n",
                 "t.yaml:6:11: the disk of stream 0 is full");
}

static void its_default_may_be_another_without_control(void **state)
{
  struct pst_config *config = load("control: none\n" HEAD "  wish: {who: me}\n");

  (void)state;
  assert_get(config, "streams.a.sender.feed.kind", "disk");
  assert_get(config, "streams.a.sender.feed.room", "4 KiB");
  pst_config_close(config);
}

static void another_programs_is_passed_over(void **state)
{
  struct pst_config *with = load(HEAD "  wish: {who: me}\n  receiver: {sink: {any: [thing]}}\n");
  struct pst_config *without = load(HEAD "  wish: {who: me}\n");

  (void)state;
  assert_null(pst_config_origin(with, "streams.a.receiver.sink"));
  assert_string_equal(pst_config_hash(with), pst_config_hash(without));
  pst_config_close(with);
  pst_config_close(without);
}

static void without_a_program_there_is_nothing_of_it(void **state)
{
  struct pst_config *config;

  (void)state;
  assert_int_equal(pst_config_program(NULL), 0);
  config = load(HEAD);
  assert_null(pst_config_origin(config, "streams.a.sender.feed"));
  assert_int_equal(streams_seen, 0);
  pst_config_close(config);
  assert_non_null(strstr(refusal(HEAD "  sender: {feed: camera}\n"),
                         "unknown key \"feed\" in streams[].sender; there are: share, "));
  assert_non_null(strstr(refusal(HEAD "  sender: {source: file}\n"), "unknown key \"source\""));
  assert_non_null(strstr(refusal(HEAD "  receiver: {sink: verify}\n"), "unknown key \"sink\""));
  assert_non_null(strstr(refusal(HEAD "  expect: {path: direct}\n"), "unknown key \"expect\""));
}

static void bare_keys_stand_beside_the_librarys(void **state)
{
  struct pst_config *config = load(HEAD "  wish: {who: me}\n  sender: {shots: 12, ring: 8}\n");

  (void)state;
  assert_int_equal(pst_config_get_uint(config, "streams.a.sender.shots"), 12);
  assert_null(pst_config_origin(config, "streams.a.receiver.until"));
  pst_config_close(config);
  config = load(
      "penstock: 1\ncontrol: none\nstreams:\n- name: a\n  wish: {who: me}\n  receiver: {word: go}\n");
  assert_int_equal(pst_config_get_uint(config, "streams.a.sender.shots"), 7);
  assert_int_equal(pst_config_get_uint(config, "streams.a.receiver.until"), 3000000000);
  assert_string_equal(pst_config_get(config, "streams.a.receiver.word"), "go");
  pst_config_close(config);
  assert_non_null(strstr(refusal(HEAD "  sender: {shots: 100}\n"),
                         "shots: 100 is out of range; it takes 0 to 99"));
  assert_non_null(strstr(refusal(HEAD "  receiver: {until: 1 s}\n"),
                         "\"until\" is for \"control: none\"; with a control channel the sender "
                         "ends the stream; remove it"));
  assert_non_null(strstr(refusal(HEAD "- name: b\n  sender: {share: a, shots: 3}\n"),
                         "\"shots\" has no effect beside \"share\", which takes it from the other "
                         "stream; remove it"));
  assert_non_null(
      strstr(refusal(HEAD "  receiver: {shots: 1}\n"), "it belongs under streams[].sender"));
}

static void assert_unfit(struct pst_config_map map, int code)
{
  const struct pst_config_program unfit = {
      .struct_size = sizeof(unfit), .map_count = 1, .maps = &map};

  assert_int_equal(pst_config_program(&unfit), code);
}

static void what_cannot_be_is_refused(void **state)
{
  struct pst_config_map many[9] = {maps[0]};
  const struct pst_config_program nine = {
      .struct_size = sizeof(nine), .map_count = 9, .maps = many};
  struct pst_config_map map = maps[0];

  (void)state;
  assert_int_equal(pst_config_program(&nine), -ENOSPC);
  map.place = 4;
  assert_unfit(map, -EINVAL);
  map = maps[0];
  map.name = "memory"; /* the library's */
  assert_unfit(map, -EINVAL);
  map = maps[0];
  map.shorthand = "lenz";
  assert_unfit(map, -EINVAL);
  map = maps[0];
  map.only_foreign = 1; /* of bare keys alone */
  assert_unfit(map, -EINVAL);
  map = maps[2];
  map.place = PST_CONFIG_RECEIVER; /* whose `share` is another */
  assert_unfit(map, -EINVAL);
  map = maps[2];
  map.help = "Words.";
  assert_unfit(map, -EINVAL);
  map = maps[2];
  map.keys =
      &(struct pst_option){.name = "ring", .help = "The library's.", .type = PST_OPTION_UINT};
  assert_unfit(map, -EINVAL);
  struct pst_option bare[24] = {{.name = NULL}};
  char names[24][16];
  for (int i = 0; i < 24; i++) {
    snprintf(names[i], sizeof(names[i]), "k%d", i);
    bare[i] = (struct pst_option){.name = names[i], .help = "A key.", .type = PST_OPTION_UINT};
  }
  map = maps[2];
  map.keys = bare;
  map.key_count = 24;
  assert_unfit(map, -ENOSPC);
  map = maps[1];
  map.keys = &(struct pst_option){.name = "all", .help = "All.", .type = PST_OPTION_LIST};
  map.key_count = 1;
  assert_unfit(map, -EINVAL);
  assert_unfit(maps[0], 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(its_values_are_read_as_the_librarys_are, use_program),
      cmocka_unit_test_setup(its_keys_are_checked_with_place_and_nearest_name, use_program),
      cmocka_unit_test_setup(beside_share_it_is_the_other_streams, use_program),
      cmocka_unit_test_setup(its_check_says_where, use_program),
      cmocka_unit_test_setup(its_default_may_be_another_without_control, use_program),
      cmocka_unit_test_setup(another_programs_is_passed_over, use_program),
      cmocka_unit_test_setup(without_a_program_there_is_nothing_of_it, use_program),
      cmocka_unit_test_setup(bare_keys_stand_beside_the_librarys, use_program),
      cmocka_unit_test_setup(what_cannot_be_is_refused, use_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
