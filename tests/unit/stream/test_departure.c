/* SPDX-License-Identifier: Apache-2.0 */
/* Times of departure, as a transport sees them that keeps them: filter_departing refuses wrong
 * ones. */
#include "support.h"

#define MESSAGES 2000u
#define RATE "80 Mbps"
#define RATE_BPS 80000000u

/* Both of the text's streams, or the first alone. */
static void stream_through(const char *text, int streams)
{
  static const char *const names[] = {"a", "b"};
  uint64_t sent = 0, received[2] = {0}, bytes = 0, began;
  bool more[2] = {true, streams > 1};
  struct run run;

  open_text(&run, text);
  start(&run);
  began = now_ns();
  while (more[0] || more[1]) {
    feed(pst_session_sender(run.session, "a"), &sent, MESSAGES);
    for (int i = 0; i < streams; i++)
      more[i] = more[i] && drain(pst_session_receiver(run.session, names[i]), &received[i]);
    in_time(&run);
  }
  for (uint64_t s = 0; s + 1 < MESSAGES; s++) /* the last leaves when the line is free */
    bytes += s * 37 % 1001;
  assert_true(now_ns() - began >= bytes * 8 * 1000 / (RATE_BPS / 1000000));
  for (int i = 0; i < streams; i++)
    check_counts(pst_session_sender(run.session, names[i]),
                 pst_session_receiver(run.session, names[i]), MESSAGES);
  close_run(&run);
}

static void each_message_has_the_time_that_the_rate_gives(void **state)
{
  (void)state;
  stream_through("penstock: 1\n"
                 "transport: {plugin: loopback, filters: [{plugin: departing, options: {rate: "
                 "80000000}}]}\n"
                 "threads: {count: 1}\n"
                 "streams:\n"
                 "  - {name: a, message: 1000 B, ring: 64, sender: {rate: " RATE "}}\n",
                 1);
}

static void without_a_rate_there_are_no_times(void **state)
{
  uint64_t sent = 0, received = 0;
  struct run run;

  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: {plugin: loopback, filters: [departing]}\n"
                  "threads: {count: 1}\n"
                  "streams: [{name: a, message: 1000 B, ring: 64}]\n");
  start(&run);
  do {
    feed(pst_session_sender(run.session, "a"), &sent, MESSAGES);
    in_time(&run);
  } while (drain(pst_session_receiver(run.session, "a"), &received));
  check_counts(pst_session_sender(run.session, "a"), pst_session_receiver(run.session, "a"),
               MESSAGES);
  close_run(&run);
}

static void a_leg_that_keeps_no_times_gets_none(void **state)
{
  (void)state;
  stream_through("penstock: 1\n"
                 "threads: {count: 1}\n"
                 "streams:\n"
                 "  - {name: a, message: 1000 B, ring: 64, sender: {rate: " RATE "},\n"
                 "     transport: {plugin: loopback, filters: [departing]}}\n"
                 "  - {name: b, message: 1000 B, ring: 64, sender: {share: a},\n"
                 "     transport: {plugin: loopback}}\n",
                 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_message_has_the_time_that_the_rate_gives),
      cmocka_unit_test(without_a_rate_there_are_no_times),
      cmocka_unit_test(a_leg_that_keeps_no_times_gets_none),
  };
  return cmocka_run_group_tests_name("stream_departure", tests, use_fakes, NULL) ? 1 : 0;
}
