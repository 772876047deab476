/* SPDX-License-Identifier: Apache-2.0 */
/* Reports and facts of a plugin's check(), beside the stream. */
#include "support.h"

#define T "t.yaml:"
#define ASKED(options_) HEAD "  transport: {plugin: asked, options: {" options_ "}}\n"
#define SMALL "  message: 1000\n  ring: 100\n"

static void what_it_accepts(void **state)
{
  (void)state;
  pst_config_close(load(ASKED("address: 1.2.3.4") SMALL));
}

/* At the option, wherever the option was written. */
static void what_it_reports(void **state)
{
  const char *sets[] = {"streams.a.transport.options.address=foo", NULL};

  (void)state;
  assert_refused(ASKED("address: foo") SMALL,
                 T "4:49: transport plugin asked: address: \"foo\" is not an address");
  assert_non_null(strstr(refusal_sets(ASKED("") SMALL, sets),
                         "--set streams.a.transport.options.address=foo: transport plugin asked"));
}

static void sizes(void **state)
{
  (void)state;
  assert_refused(
      ASKED("") "  message: 1001\n  ring: 101\n",
      T "5:12: message: 1001 B is more than transport asked carries in one message; it takes at "
        "most 1000 B with these options\n" T
        "6:9: ring: 101 slots are more than transport asked can have; it takes at most 100");
}

static void refused_for(const char *text, const char *words)
{
  const char *report = refusal(text);

  if (!strstr(report, words))
    fail_msg("\"%s\" is not in \"%s\"", words, report);
}

static void capabilities(void **state)
{
  (void)state;
  refused_for(ASKED("") SMALL "  receiver:\n    assemble: {packets: 4}\n",
              T "8:15: assemble needs sequence numbers");
  refused_for(ASKED("") SMALL "  receiver:\n    assemble: {packets: 4, by: rtp_marker}\n",
              T "8:32: assemble: `by: rtp_marker` needs RTP's timestamps");
  refused_for(ASKED("") SMALL "  sender: {source: {type: pcap, file: x}}\n"
                              "  receiver: {sink: {type: pcap, file: y}}\n",
              T "8:20: sink: pcap needs the times of capture");
  refused_for(ASKED("") SMALL "  receiver:\n    intervals: true\n",
              T "8:16: intervals need the time of each message");
  refused_for(ASKED("") SMALL "- name: b\n  transport: asked\n" SMALL "  receiver: {share: a}\n",
              T "11:21: share needs rings that streams can share");
}

static void ends_differ(void **state)
{
  (void)state;
  assert_refused(HEAD
                 "  sender: {transport: loopback}\n  receiver: {transport: {plugin: unruled}}\n",
                 T "5:34: the sender's transport is loopback and the receiver's unruled, whose "
                   "wire forms are loopback and unruled; both ends need the same");
  pst_config_close(load("penstock: 1\ncontrol: none\nstreams:\n- name: a\n"
                        "  sender: {transport: loopback}\n"
                        "  receiver: {transport: {plugin: unruled}}\n"));
}

/* loopback has `depth` for the stream, and 4 KiB of it. cousin has it, too, and `mtu` alone. */
static void ends_of_one_wire_form(void **state)
{
  (void)state;
  pst_config_close(load(HEAD "  sender: {transport: loopback}\n"
                             "  receiver: {transport: {plugin: cousin, options: {mtu: 9000}}}\n"));
  assert_refused(HEAD "  sender: {transport: loopback}\n"
                      "  receiver: {transport: {plugin: cousin, options: {depth: 8 KiB}}}\n",
                 T
                 "5:59: option \"depth\" of loopback differs between sender and receiver, and both "
                 "must have the same; write it once, under the stream's \"transport\"");
}

static void captures(void **state)
{
  (void)state;
  assert_refused(HEAD "  receiver: {sink: {type: pcap, file: x}}\n",
                 T "4:20: sink: pcap writes what a pcap source captured, and the source here is "
                   "pattern; write \"source: {type: pcap, file: PATH}\" under \"sender\", or "
                   "another sink");
}

static void memories(void **state)
{
  (void)state;
  refused_for(HEAD "  receiver:\n    path: mapped\n",
              T "5:11: path: mapped needs memory that a GPU reads by a mapping");
}

/* A path that a transport never has with such memory, whatever the device. */
static void paths(void **state)
{
  (void)state;
  refused_for(
      ASKED("") SMALL "  receiver: {memory: cuda, path: direct}\n",
      T "7:34: path: direct is not possible: transport asked receives into memory that the CPU can "
        "touch, which memory cuda is not; write \"path: auto\", which stages");
  refused_for(ASKED("") SMALL "  sender: {memory: cuda, path: direct}\n",
              T "7:32: path: direct is not possible: transport asked sends from memory that the "
                "CPU can touch, which memory cuda is not");
  pst_config_close(load(ASKED("") SMALL "  receiver: {memory: cuda, path: mapped}\n"));
  pst_config_close(load(ASKED("") SMALL "  sender: {path: direct}\n"
                                        "  receiver: {path: direct}\n"));
  pst_config_close(load(ASKED("") SMALL "  sender: {memory: cuda, path: staged}\n"
                                        "  receiver: {memory: cuda, path: staged}\n"));
  pst_config_close(load(HEAD "  transport: loopback\n"
                             "  receiver: {memory: cuda, path: direct}\n"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_it_accepts), cmocka_unit_test(what_it_reports),
      cmocka_unit_test(sizes),           cmocka_unit_test(capabilities),
      cmocka_unit_test(ends_differ),     cmocka_unit_test(ends_of_one_wire_form),
      cmocka_unit_test(captures),        cmocka_unit_test(memories),
      cmocka_unit_test(paths),
  };
  return cmocka_run_group_tests(tests, quiet, NULL);
}
