# SPDX-License-Identifier: Apache-2.0
"""The result's file: at no time another run's, and written on every way out."""
import json
import os
import signal

from harness import Case, main, yaml_stream

OLDER = '{"ok": true, "exit_status": 0}\n'


class ResultFile(Case):
    def setUp(self):
        super().setUp()
        self.out = self.write("out.json", OLDER)

    def endless(self, **options):
        """A run that does not end by itself, once it has announced its stream."""
        path = self.config(yaml_stream(message="1462 B", ring=256))
        child = self.start("run", path, "--json", self.out, **options)
        child.wait_line("packets: ")
        return child

    def test_killed_run_leaves_no_older_result(self):
        child = self.endless()
        child.signal(signal.SIGKILL)
        child.wait()
        result = self.result()
        self.assertIs(result["ok"], False)
        self.assertEqual(result["state"], "running")
        self.assertIsNone(result["exit_status"])
        self.assertIn("not ended", result["error"])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["out.json", "stream.yaml", "tmp"])

    def blocked(self, *arguments, **options):
        """A run whose drain cannot end by itself, as its sink is never read."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        sink = f"{{sink: {{type: file, file: {fifo}}}}}"
        path = self.config(yaml_stream(message="64 KiB", ring=16, receiver=sink))
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        child = self.start("run", path, *arguments, **options)
        child.wait_line(r"Got \d+")
        child.signal(signal.SIGINT)
        child.wait_line("stopping")
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 130, str(child))
        return child

    def test_second_signal_writes_a_result(self):
        self.blocked("--json", self.out)
        result = self.result()
        self.assertIs(result["ok"], False)
        self.assertEqual((result["state"], result["exit_status"]), ("ended", 130))

    def test_second_signal_writes_a_result_to_standard_output(self):
        child = self.blocked("--json", "-")
        self.assertEqual(json.loads(child.stdout)["exit_status"], 130)

    def test_command_that_never_begins_writes_a_result(self):
        for arguments in (("run", self.folder / "none.yaml"),
                          ("bench", "--transport", "none", "--memory", "host", "--size", "no"),
                          ("request", "127.0.0.1:1", "write", "--size", "no")):
            with self.subTest(command=arguments[0]):
                self.out.write_text(OLDER)
                self.run_program(*arguments, "--json", self.out, expect=2)
                result = self.result()
                self.assertIs(result["ok"], False)
                self.assertEqual((result["state"], result["exit_status"]), ("ended", 2))
                self.assertEqual(result["command"], arguments[0])

    def test_file_that_cannot_be_written_is_refused_before_anything_begins(self):
        child = self.run_program("run", "config/loopback.yaml", "--json", self.folder / "none" / "f",
                                 expect=2)
        self.assertRegex(child.stderr, r"--json.*none/f")
        self.assertNotIn("Got", child.stderr)


def lossy(ppm, plugin="udp, options: {device: 127.0.0.1}"):
    return (f"{{plugin: {plugin}, "
            f"filters: [{{plugin: fault, options: {{drop_ppm: {ppm}}}}}]}}")


class Loss(Case):
    def pair(self, *parts, **streams):
        """A receiver and a sender, ended; both."""
        path = self.config(yaml_stream(message="1000 B", sender="{count: 500, rate: 100 Mbps}",
                                       **streams))
        receiver = self.start("receive", path, "--json", self.folder / "in.json", *parts)
        sender = self.start("send", path, "--json", self.folder / "out.json", *parts)
        sender.wait(), receiver.wait()
        return receiver, sender

    def test_nothing_arrived_is_a_failure_at_both_ends(self):
        for transport in (lossy(1000000), lossy(1000000, "loopback")):
            for expect in ({}, {"expect": "{max_loss: 100%, max_duplicates: 0}"}):
                with self.subTest(transport=transport, **expect):
                    ends = self.pair(transport=transport, **expect)
                    for child in ends:
                        self.assertEqual(child.status, 1, str(child))
                        self.assertRegex(child.stderr, "error: .*none of 500 messages sent arrived")
                    self.assertIs(self.result("in.json")["ok"], False)
                    self.assertIs(self.result()["ok"], False)

    def test_both_ends_judge_loss(self):
        for most, status in (("1%", 4), ("100%", 0)):
            with self.subTest(most=most):
                ends = self.pair(transport=lossy(500000), expect=f"{{max_loss: {most}}}")
                self.assertEqual([end.status for end in ends], [status] * 2, f"{ends[0]}\n{ends[1]}")
                for name in ("in.json", "out.json"):
                    (judged,) = self.only_stream(self.result(name))["expect"]
                    self.assertEqual((judged["key"], judged["met"]), ("max_loss", status == 0))

    def test_the_sender_has_the_receivers_final_counts(self):
        self.pair(transport=lossy(500000), expect="{max_loss: 100%}")
        received, sent = (self.only_stream(self.result(name)) for name in ("in.json", "out.json"))
        for key in ("messages_sent", "messages_delivered", "bytes_delivered", "dropped", "loss",
                    "duplicates", "reordered", "verified", "corrupted"):
            self.assertEqual(received[key], sent[key], key)

    def test_a_loss_that_nobody_judges_is_warned_of_though_quiet(self):
        for child in self.pair("-q", transport=lossy(500000)):
            self.assertEqual(child.status, 0, str(child))
            self.assertRegex(child.stderr, "^penstock: warning: packets: .*max_loss.*$")
        for child in self.pair("-q", transport=lossy(500000), expect="{max_loss: 100%}"):
            self.assertEqual(child.stderr, "", str(child))
        for child in self.pair("-q", transport="loopback"):
            self.assertEqual(child.stderr, "", str(child))


if __name__ == "__main__":
    main()
