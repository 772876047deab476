/* SPDX-License-Identifier: Apache-2.0 */
/* Each kind of mistake, with its exact place and what is said of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "support.h"

#define T "t.yaml:"

static void the_file(void **state)
{
  (void)state;
  assert_refused("", T "1:1: nothing is configured; the least is \"penstock: 1\" and one stream "
                       "with a name under \"streams:\"");
  assert_refused("# only a comment\n",
                 T "1:1: nothing is configured; the least is \"penstock: 1\" and one stream with a "
                   "name under \"streams:\"");
  assert_refused("[1]", T "1:1: expected a mapping; begin with the line \"penstock: 1\"");
  assert_refused("streams:\n- name: a\n",
                 T "1:1: \"penstock\" is missing; begin the file with the line \"penstock: 1\"");
  assert_refused("penstock: 1\n", T "1:1: there is no stream; write \"streams:\" and below it \"- "
                                    "name: packets\"");
  assert_refused("penstock: 1\nstreams: []\n",
                 T "2:10: there is no stream; write \"streams:\" and below it \"- name: packets\"");
  assert_refused("penstock: 1\nstreams: {a: 1}\n",
                 T "2:10: streams: expected a list; write each stream as \"- name: packets\"");
}

static void another_version_stops_there(void **state)
{
  (void)state;
  assert_refused("penstock: 2\nnew_key: 1\n",
                 T "1:11: the file's version is \"2\", and this penstock reads version 1; write "
                   "\"penstock: 1\", or take a penstock for that version");
  assert_refused("penstock: [1]\n",
                 T "1:11: the file's version is \"(no number)\", and this penstock reads version "
                   "1; write \"penstock: 1\", or take a penstock for that version");
}

static void unknown_keys(void **state)
{
  (void)state;
  assert_refused(HEAD "  rng: 4096\n",
                 T "4:3: unknown key \"rng\" in streams[]; did you mean \"ring\"?");
  assert_refused(HEAD "contrl: none\n",
                 T "4:1: unknown key \"contrl\" in the file; did you mean \"control\"?");
  assert_refused(HEAD "  rate: 5\n",
                 T "4:3: unknown key \"rate\" in streams[]; it belongs under streams[].sender");
  assert_refused(HEAD "threads: {xyzzy: 1}\n",
                 T "4:11: unknown key \"xyzzy\" in threads; there are: count, cpus, sleep_after");
  assert_refused(HEAD "  expect: {max_los: 0}\n",
                 T "4:12: unknown key \"max_los\" in streams[].expect; did you mean \"max_loss\"?");
  /* Columns count characters, not bytes. */
  assert_refused("penstock: 1\nstreams:\n- {expect: {via: \"é\"}, name: a, ring: z}\n",
                 T "3:39: ring: \"z\" is not a whole number; write digits only, as in 4096");
}

static void options_outside_of_options(void **state)
{
  (void)state;
  assert_refused(HEAD "  transport: {plugin: verbs, device: m0, options: {device: m0}}\n",
                 T "4:30: unknown key \"device\" in transport; options of the plugin stand under "
                   "\"options\"");
}

static void wrong_types(void **state)
{
  (void)state;
  assert_refused(HEAD "  ring: many\n",
                 T "4:9: ring: \"many\" is not a whole number; write digits only, as in 4096");
  assert_refused(HEAD "  ring: [1, 2]\n",
                 T "4:9: ring: expected one value, found a list; it takes a whole number");
  assert_refused(HEAD "  message: {a: 1}\n",
                 T "4:12: message: expected one value, found a mapping; it takes a size");
  assert_refused(HEAD "  sender: 5\n",
                 T "4:11: streams[].sender: expected a mapping (\"key: value\" lines), found a "
                   "single value");
  assert_refused(HEAD "  sender: {source: [file]}\n", T
                 "4:20: streams[].sender.source: expected a mapping (\"key: value\" lines) or the "
                 "type alone, found a list");
  assert_refused(HEAD "control: {insecure: yes}\n",
                 T "4:21: insecure: \"yes\" is not true or false; write true or false");
  assert_refused(HEAD "  receiver: {path: aut}\n",
                 T "4:20: path: \"aut\" is not one of auto, direct, mapped, staged; did you mean "
                   "\"auto\"?");
  assert_refused(HEAD "  sender: {source: files}\n", T
                 "4:20: type: \"files\" is not one of pattern, file, pcap; did you mean \"file\"?");
  assert_refused(HEAD "threads: {cpus: 3}\n",
                 T "4:17: cpus: expected a list of CPU numbers, as in [2, 3]");
  assert_refused(HEAD "threads: {cpus: [1, x]}\n",
                 T "4:21: cpus: \"x\" is not a whole number; write digits only, as in 4096");
}

static void units_and_ranges(void **state)
{
  (void)state;
  assert_refused(HEAD "  message: 8 KIB\n",
                 T "4:12: message: \"8 KIB\" is not a size; did you mean the unit \"KiB\"?");
  assert_refused(HEAD "  timeout: 5\n",
                 T "4:12: timeout: \"5\" is not a time; write a number with a unit (ns, us, ms, s, "
                   "min, h), as in 250 ms");
  assert_refused(HEAD "  sender: {rate: 1 Gbit/s}\n",
                 T "4:18: rate: \"1 Gbit/s\" is not a rate; write a number of bits per second, as "
                   "in 68.75 Gbps");
  assert_refused(HEAD "  message: 0\n",
                 T "4:12: message: 0 is out of range; it takes 1 B to 1 GiB");
  assert_refused(HEAD "  message: 2 GiB\n",
                 T "4:12: message: 2 GiB is out of range; it takes 1 B to 1 GiB");
  assert_refused(HEAD "  ring: 1\n", T "4:9: ring: 1 is out of range; it takes 2 to 16777216");
  assert_refused(HEAD "  sender: {ring: 1}\n",
                 T "4:18: ring: 1 is out of range; it takes 2 to 16777216, or 0 for the stream's "
                   "ring");
  assert_refused(HEAD "  sender: {count: 99999999999999999999}\n",
                 T "4:19: count: 99999999999999999999 is out of range; it takes at most 2^64 - 1");
  assert_refused(HEAD "threads: {count: 1025}\n",
                 T "4:18: count: 1025 is out of range; it takes 0 to 1024");
  assert_refused(HEAD "  expect: {max_loss: 101%}\n",
                 T "4:22: max_loss: 101% is out of range; it takes 0 to 1, or 0% to 100%");
  assert_refused(HEAD "  expect: {min_gbps: -1}\n",
                 T "4:22: min_gbps: \"-1\" is not a number; write a number that is not negative, "
                   "as in 68.5");
  assert_refused(HEAD "  message: 4096\n  stride: 4095\n",
                 T "5:11: stride: 4095 B is less than the message of 4096 B; slots would overlap");
  assert_refused(HEAD "  message: 64\n  sender: {source: {length: 65}}\n",
                 T "5:29: length: 65 B is more than the stream's message of 64 B; raise "
                   "\"message\"");
  assert_refused(HEAD "  timeout: 999 ms\n",
                 T "4:12: timeout: 999 ms is less than two heartbeats of 0.5 s, so that a living "
                   "peer would look dead; raise it, or lower \"heartbeat\" under \"control\"");
}

static void plugins(void **state)
{
  (void)state;
  assert_refused(HEAD "  transport: lopback\n",
                 T "4:14: no transport plugin is called \"lopback\"; did you mean \"loopback\"?");
  assert_refused(HEAD "  sender: {memory: quux}\n",
                 T "4:20: no memory plugin is called \"quux\"; there are: closed, host, cuda");
  assert_refused(HEAD "  transport: fault\n",
                 T "4:14: \"fault\" is a filter plugin; this key takes a transport");
  assert_refused(HEAD "  transport: {options: {dept: 1}}\n",
                 T "4:25: transport plugin loopback: unknown option \"dept\"; did you mean "
                   "\"depth\"?");
  assert_refused(HEAD "  transport: {options: {depth: 2 MiB}}\n",
                 T "4:32: depth: 2 MiB is out of range; it takes 1 B to 1 MiB");
  assert_refused(HEAD "  transport: {options: {burst: [1]}}\n",
                 T "4:32: burst: expected one value, found a list; it takes a whole number");
  assert_refused(HEAD "  transport: {options: {burst: {a: 1}}}\n",
                 T "4:32: burst: expected one value, found a mapping");
  assert_refused(HEAD "  transport: {options: [1]}\n",
                 T "4:24: options: expected a mapping (\"name: value\" lines)");
  assert_refused(HEAD "  transport: verbs\n",
                 T "4:14: the option \"device\" of transport plugin verbs is missing; Name the "
                   "device.");
  assert_refused(HEAD "  transport: {filters: fault}\n",
                 T "4:24: filters: expected a list: [name], or \"- plugin: name\" lines");
  assert_refused(HEAD "  transport: {filters: [{options: {drop: 1}}]}\n",
                 T "4:25: \"plugin\" is missing in a filter; write its name");
  assert_refused(HEAD "  transport: {filters: [faul]}\n",
                 T "4:25: no filter plugin is called \"faul\"; did you mean \"fault\"?");
}

static void options_of_the_wrong_side(void **state)
{
  (void)state;
  assert_refused(HEAD "  sender: {transport: {options: {wait: 1 ms}}}\n",
                 T "4:34: option \"wait\" of loopback is the receiver's; write it under "
                   "\"receiver\"");
  assert_refused(HEAD "  receiver: {transport: {options: {burst: 1}}}\n",
                 T "4:36: option \"burst\" of loopback is the sender's; write it under \"sender\"");
  assert_refused(HEAD "  sender: {transport: {options: {depth: 1}}}\n",
                 T "4:34: option \"depth\" of loopback is agreed between both ends; write it under "
                   "the stream's \"transport\"");
  assert_refused(HEAD "  receiver: {transport: {filters: [{plugin: fault, options: {drop: 1}}]}}\n",
                 T "4:62: option \"drop\" of fault is the sender's; write it under \"sender\"");
}

static void ends_that_disagree(void **state)
{
  (void)state;
  assert_refused(
      HEAD "  sender: {transport: {plugin: verbs, options: {device: a, mtu: 1024}}}\n"
           "  receiver: {transport: {plugin: verbs, options: {device: b, mtu: 2048}}}\n",
      T "5:67: option \"mtu\" of verbs differs between sender and receiver, and both must have the "
        "same; write it once, under the stream's \"transport\"");
}

static void names_of_streams(void **state)
{
  (void)state;
  assert_refused("penstock: 1\nstreams:\n- message: 1\n",
                 T "3:3: \"name\" is missing in streams[]; it takes a text");
  assert_refused(
      "penstock: 1\nstreams:\n- name: a b\n",
      T "3:9: name: \"a b\" has characters other than letters, digits, _ . and -; remove them");
  assert_refused("penstock: 1\nstreams:\n- name: a\n- name: b\n- name: a\n",
                 T "5:9: name: \"a\" is the name of another stream, too (t.yaml:3:3); give this "
                   "one another name");
  assert_refused("penstock: 1\nstreams:\n- name: "
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
                 T "3:9: name: the text is too long; it takes 1 to 63 bytes");
  assert_refused("penstock: 1\nstreams:\n-\n", T "3:2: an empty stream; give it a name at least");
}

static void sources_and_sinks(void **state)
{
  (void)state;
  assert_refused(HEAD "  sender: {source: {type: file}}\n  receiver: {sink: discard}\n",
                 T "4:20: \"file\" is missing in streams[].sender.source; it takes a text");
  assert_refused(HEAD "  receiver: {sink: pcap}\ncontrol: none\n", T
                 "4:20: \"file\" is missing in streams[].receiver.sink; it takes a text\n" T
                 "4:20: sink: pcap needs the times of capture and the link type from a sender "
                 "with source: {type: pcap}, and \"control: none\" has no such sender; write "
                 "\"sink: {type: file, file: PATH}\" under \"receiver\", or capture with tcpdump");
  assert_refused(HEAD "  sender: {source: {file: x}}\n",
                 T "4:21: \"file\" is not for sources of type pattern; remove it");
  assert_refused(HEAD "  sender: {source: {type: file, file: x, timed: true}}\n"
                      "  receiver: {sink: discard}\n",
                 T "4:42: \"timed\" is not for sources of type file; remove it");
  assert_refused(HEAD "  sender: {source: {type: file, file: x}}\n",
                 T "4:20: sink: verify checks the pattern source, and the source here is file; "
                   "write \"sink: discard\" or \"sink: {type: file, file: PATH}\" under "
                   "\"receiver\"");
}

static void sharing(void **state)
{
  (void)state;
  assert_refused(HEAD "  sender: {share: a}\n",
                 T "4:19: share: a stream cannot share with itself; name another stream");
  assert_refused(HEAD "- name: other\n  receiver: {share: othr}\n",
                 T "5:21: share: no stream is called \"othr\"; did you mean \"other\"?");
  assert_refused(HEAD "- name: b\n  sender: {share: a}\n- name: c\n  sender: {share: b}\n",
                 T "7:19: share: stream \"b\" itself shares with \"a\"; name that one, there are "
                   "no chains");
  assert_refused(HEAD "  message: 64\n  ring: 16\n- name: b\n  ring: 32\n  receiver: {share: a}\n",
                 T "8:21: share: message differs from that of stream \"a\": 8192 here, 64 there; "
                   "make them the same\n" T "8:21: share: ring differs from that of stream \"a\": "
                   "32 here, 16 there; make them the same");
  assert_refused(HEAD "- name: b\n  sender: {share: a, memory: cuda}\n",
                 T "5:19: share: memory differs from that of stream \"a\": cuda here, host there; "
                   "make them the same");
  assert_refused(HEAD "  receiver: {memory: {options: {numa: 0}}}\n"
                      "- name: b\n  receiver: {share: a}\n",
                 T "6:21: share: memory option \"numa\" differs from that of stream \"a\": auto "
                   "here, 0 there; make them the same");
  assert_refused(HEAD "- name: b\n  sender: {share: a, source: pattern, rate: 5}\n",
                 T "5:22: \"source\" has no effect beside \"share\", which takes it from the other "
                   "stream; remove it\n" T "5:39: \"rate\" has no effect beside \"share\", which "
                   "takes it from the other stream; remove it");
}

static void control_addresses(void **state)
{
  (void)state;
  assert_refused(HEAD "control: {listen: \"0.0.0.0:18515\"}\n",
                 T "4:19: listen: \"0.0.0.0:18515\" is beyond loopback, where peers need "
                   "credentials; write \"tls\" under \"control\", or \"insecure: true\" where "
                   "whoever reaches it may take part");
  assert_refused(HEAD "control: 127.0.0.1\n",
                 T "4:10: address: \"127.0.0.1\" has no port; write host:port, as in "
                   "127.0.0.1:18515");
  assert_refused(HEAD "control: \"::1:5\"\n",
                 T "4:10: address: \"::1:5\" is an IPv6 address without brackets; write "
                   "[address]:port, as in [::1]:18515");
  assert_refused(HEAD "control: localhost:99999\n",
                 T "4:10: address: \"localhost:99999\" has a port out of range; it takes 1 to "
                   "65535");
  assert_refused(HEAD "control: {connect: \":5\"}\n",
                 T "4:20: connect: \":5\" has no host; write host:port, as in 127.0.0.1:18515");
  pst_config_close(load(HEAD "control: {listen: \"[::1]:0\", connect: \"localhost:5\"}\n"));
  pst_config_close(load(HEAD "control: {address: \"far:5\", insecure: true}\n"));
}

static void all_findings_in_order(void **state)
{
  (void)state;
  assert_refused("penstock: 1\nthreads: {count: x}\nstreams:\n- name: a\n  ring: 0\n  rng: 5\n"
                 "  ring: 7\n",
                 T "2:18: count: \"x\" is not a whole number; write digits only, as in 4096\n" T
                   "5:9: ring: 0 is out of range; it takes 2 to 16777216\n" T
                   "6:3: unknown key \"rng\" in streams[]; did you mean \"ring\"?\n" T
                   "7:3: duplicate key \"ring\"; it stands on line 5 already");
}

static void findings_are_bounded(void **state)
{
  (void)state;
  char text[2048] = "penstock: 1\nstreams:\n- name: a\n";
  for (int i = 0; i < 30; i++)
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "q%d: 1\n", i);
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  assert_int_equal(
      config_load_text(text, strlen(text), "t.yaml", NULL, 0, &test_catalog, &config, &error),
      -EINVAL);
  assert_string_equal(pst_log_last_error(), "and 10 more findings; correct these first");
}

static void without_an_error_to_fill(void **state)
{
  (void)state;
  struct pst_config *config = NULL;
  assert_int_equal(config_load_text("x", 1, NULL, NULL, 0, NULL, &config, NULL), -EINVAL);
  assert_int_equal(config_load_text(NULL, 0, NULL, NULL, 0, NULL, &config, NULL), -EINVAL);
  assert_null(config);
}

static void files_that_cannot_be_read(void **state)
{
  (void)state;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  assert_int_equal(config_load_file("/nonexistent/x.yaml", NULL, 0, &test_catalog, &config, &error),
                   -ENOENT);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_string_equal(error.text,
                      "cannot read the configuration /nonexistent/x.yaml: No such file or "
                      "directory; give the path of a YAML file, or - for standard input");
  assert_int_equal(config_load_file("/", NULL, 0, &test_catalog, &config, NULL), -EISDIR);
  assert_null(config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_file),
                                     cmocka_unit_test(another_version_stops_there),
                                     cmocka_unit_test(unknown_keys),
                                     cmocka_unit_test(options_outside_of_options),
                                     cmocka_unit_test(wrong_types),
                                     cmocka_unit_test(units_and_ranges),
                                     cmocka_unit_test(plugins),
                                     cmocka_unit_test(options_of_the_wrong_side),
                                     cmocka_unit_test(ends_that_disagree),
                                     cmocka_unit_test(names_of_streams),
                                     cmocka_unit_test(sources_and_sinks),
                                     cmocka_unit_test(sharing),
                                     cmocka_unit_test(control_addresses),
                                     cmocka_unit_test(all_findings_in_order),
                                     cmocka_unit_test(findings_are_bounded),
                                     cmocka_unit_test(without_an_error_to_fill),
                                     cmocka_unit_test(files_that_cannot_be_read)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
