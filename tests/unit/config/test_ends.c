/* SPDX-License-Identifier: Apache-2.0 */
/* pst_config_check(): what the ends that a process opens lack, though the file is right. */
#include <stdio.h>

#include <penstock/penstock.h>

#include "support.h"

#define T "t.yaml:"
#define BOTH ((uint32_t)PST_SESSION_SENDER | PST_SESSION_RECEIVER)
#define STREAM(name_, options_)                                                                    \
  "- name: " name_ "\n  transport: {plugin: placed, options: {" options_ "}}\n"
#define STREAMS "penstock: 1\nstreams:\n"

struct found {
  char text[4096];
  int count;
};

static void note(void *context, const char *text)
{
  struct found *found = context;
  const size_t length = strlen(found->text);

  snprintf(found->text + length, sizeof(found->text) - length, "%s%s", length ? "\n" : "", text);
  found->count++;
}

/* The ends of these roles, of the streams named (NULL: all), have these findings. */
static void assert_found(const char *text, uint32_t roles, const char *const *streams,
                         const char *expected)
{
  struct pst_config *config = load(text);
  struct found found = {.count = 0};
  struct pst_session_params params = {
      .struct_size = sizeof(params), .roles = roles, .streams = streams};

  while (streams && streams[params.stream_count])
    params.stream_count++;
  int count = pst_config_check(config, &params, note, &found);
  assert_string_equal(found.text, expected);
  assert_int_equal(count, found.count);
  pst_config_close(config);
}

static void nothing_is_found(void **state)
{
  (void)state;
  assert_found(STREAMS STREAM("a", "takes: p, to: x, at: x, family: f"), PST_SESSION_SENDER, NULL,
               "");
  assert_found(STREAMS STREAM("a", "to: x, at: x, family: f"), BOTH, NULL, "");
  assert_found(STREAMS "- name: a\n  transport: loopback\n", BOTH, NULL, "");
}

static void without_control_there_is_one_end(void **state)
{
  static const char text[] = "penstock: 1\ncontrol: none\nstreams:\n- name: a\n"
                             "  transport: {plugin: asked, options: {address: 1.2.3.4}}\n"
                             "  message: 1000\n  ring: 100\n";

  (void)state;
  assert_found(text, BOTH, NULL,
               T "2:10: `control: none` is for one end, whose peer is not Penstock; run `penstock "
                 "receive` or `penstock send`, or leave it out to run both ends in one process");
  assert_found(text, PST_SESSION_RECEIVER, NULL, "");
  assert_found(text, PST_SESSION_SENDER, NULL, T "5:23: asked: to: is missing");
}

static void a_plugin_reports_what_one_process_alone_has(void **state)
{
  (void)state;
  assert_found(STREAMS STREAM("a", "family: near"), BOTH, NULL, "");
  assert_found(STREAMS STREAM("a", "family: near"), PST_SESSION_RECEIVER, NULL,
               T "4:23: placed: family: \"near\" reaches no other process");
}

/* Another process receives into memory that it maps: where its ring is in the memory itself. */
static void a_ring_is_shared_by_a_descriptor(void **state)
{
  static const char text[] = STREAMS "- name: a\n  transport: placed\n  receiver:\n"
                                     "    memory: closed\n";

  (void)state;
  assert_found(text, BOTH, NULL, "");
  assert_found(text, PST_SESSION_SENDER, NULL, "");
  assert_found(text, PST_SESSION_RECEIVER, NULL,
               T "6:13: transport placed receives from another process only into memory that a "
                 "file descriptor can share, which memory closed with these options is not; take "
                 "another memory, or the defaults of its options");
}

static void who_shares_needs_the_other(void **state)
{
  static const char text[] = STREAMS "- name: a\n  transport: loopback\n"
                                     "- name: b\n  transport: loopback\n"
                                     "  receiver: {share: a}\n";
  static const char *const one[] = {"b", NULL}, *const other[] = {"a", NULL},
                           *const two[] = {"a", "b", NULL};

  (void)state;
  assert_found(text, BOTH, NULL, "");
  assert_found(text, BOTH, two, "");
  assert_found(text, BOTH, other, "");
  assert_found(text, PST_SESSION_SENDER, one, "");
  assert_found(text, PST_SESSION_RECEIVER, one,
               T "7:21: share: stream \"a\" is not among those that are named; name both with "
                 "--stream");
}

static void both_ends_name_one_place(void **state)
{
  static const char text[] = STREAMS STREAM("a", "to: there, at: here");

  (void)state;
  assert_found(text, PST_SESSION_SENDER, NULL, "");
  assert_found(text, PST_SESSION_RECEIVER, NULL, "");
  assert_found(STREAMS STREAM("a", "to: there"), BOTH, NULL, "");
  assert_found(text, BOTH, NULL,
               T "4:45: placed: to: the receiver listens on here only (its option `at`), but the "
                 "sender sends to there; leave `to` out, or change one of them");
}

/* Where the families differ, the places do so, too, and are not reported beside them. */
static void both_ends_are_of_one_family(void **state)
{
  (void)state;
  assert_found(STREAMS "- name: a\n"
                       "  sender: {transport: {plugin: placed, options: {family: f, to: x}}}\n"
                       "  receiver: {transport: {plugin: placed, options: {family: g, at: y}}}\n",
               BOTH, NULL,
               T "4:58: placed: family: the sender uses f, the receiver g (its option "
                 "`family`); change one of them");
}

static void a_process_has_a_place_once(void **state)
{
  static const char text[] = STREAMS STREAM("a", "takes: p") STREAM("b", "takes: p");
  static const char *const one[] = {"b", NULL};

  (void)state;
  assert_found(text, PST_SESSION_SENDER, one, "");
  assert_found(text, PST_SESSION_SENDER, NULL,
               T "6:48: placed: takes: the sender of stream \"a\" uses p already (" T
                 "4:48), and a process has it only once; choose another");
  /* Each is reported once, against the first in the file. */
  assert_found(text, BOTH, NULL,
               T "4:48: placed: takes: the sender of stream \"a\" uses p already (" T
                 "4:48), and a process has it only once; choose another\n" T
                 "6:48: placed: takes: the sender of stream \"a\" uses p already (" T
                 "4:48), and a process has it only once; choose another\n" T
                 "6:48: placed: takes: the sender of stream \"a\" uses p already (" T
                 "4:48), and a process has it only once; choose another");
}

static void a_whole_and_its_part_clash(void **state)
{
  (void)state;
  assert_found(STREAMS STREAM("a", "takes: p/1") STREAM("b", "takes: p/2") STREAM("c", "takes: pq"),
               PST_SESSION_RECEIVER, NULL, "");
  assert_found(STREAMS STREAM("a", "takes: p/1") STREAM("b", "takes: p"), PST_SESSION_RECEIVER,
               NULL,
               T "6:48: placed: takes: the receiver of stream \"a\" uses p/1 already (" T
                 "4:48), and a process has it only once; choose another");
}

static void those_that_all_share_do_not_clash(void **state)
{
  (void)state;
  assert_found(STREAMS STREAM("a", "takes: p, shares: true") STREAM("b", "takes: p, shares: true"),
               PST_SESSION_RECEIVER, NULL, "");
  assert_found(STREAMS STREAM("a", "takes: p, shares: true") STREAM("b", "takes: p"),
               PST_SESSION_RECEIVER, NULL,
               T "6:48: placed: takes: the receiver of stream \"a\" uses p already (" T
                 "4:48), and a process has it only once; choose another");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_found),
      cmocka_unit_test(without_control_there_is_one_end),
      cmocka_unit_test(a_plugin_reports_what_one_process_alone_has),
      cmocka_unit_test(a_ring_is_shared_by_a_descriptor),
      cmocka_unit_test(who_shares_needs_the_other),
      cmocka_unit_test(both_ends_name_one_place),
      cmocka_unit_test(both_ends_are_of_one_family),
      cmocka_unit_test(a_process_has_a_place_once),
      cmocka_unit_test(a_whole_and_its_part_clash),
      cmocka_unit_test(those_that_all_share_do_not_clash),
  };

  return cmocka_run_group_tests(tests, quiet, NULL);
}
