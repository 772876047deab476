# SPDX-License-Identifier: Apache-2.0
"""The result's file: at no time another run's, and written on every way out."""
import fcntl
import os
import pathlib
import re
import signal
import struct
import termios
import unittest

import result_schema
from harness import HAS_PCAP, Case, main, random_file, wait_until, yaml_stream

PIPE_BYTES = 65536  # that a FIFO takes (pipe(7))
OLDER = '{"ok": true, "exit_status": 0}\n'


def waiting_in(fifo):
    (count,) = struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, bytes(4)))
    return count


def wait_written(child, count):
    """Until it has written so many bytes, to whatever file."""
    def written():
        return int(re.search(r"^wchar: (\d+)", pathlib.Path(f"/proc/{child.pid}/io").read_text(), re.M)[1])
    wait_until(lambda: written() > count, 20, f"{count} bytes are written by {child}")


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
        (error,) = result["errors"]
        self.assertEqual((error["code"], error["where"]), ("running", None))
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
        wait_until(lambda: waiting_in(reader) == PIPE_BYTES, 20, "the FIFO is full")
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
        self.assertEqual([error["code"] for error in result["errors"]], ["interrupted"])

    def test_second_signal_writes_a_result_to_standard_output(self):
        child = self.blocked("--json", "-")
        self.assertEqual(result_schema.read(child.stdout)["exit_status"], 130)

    def test_command_that_never_begins_writes_a_result(self):
        for arguments in (("run", self.folder / "none.yaml"),
                          ("bench", "--transport", "none", "--memory", "host", "--size", "no"),
                          ("request", "write", "127.0.0.1:1", "--size", "no")):
            with self.subTest(command=arguments[0]):
                self.out.write_text(OLDER)
                child = self.run_program(*arguments, "--json", self.out, expect=2)
                result = self.result()
                self.assertIs(result["ok"], False)
                self.assertEqual((result["state"], result["exit_status"]), ("ended", 2))
                self.assertEqual(result["command"], arguments[0])
                (error,) = result["errors"]
                self.assertEqual(error["code"], "usage")
                self.assertIn(error["text"], child.stderr)

    def test_file_that_cannot_be_written_is_refused_before_anything_begins(self):
        child = self.run_program("run", "config/loopback.yaml", "--json", self.folder / "none" / "f",
                                 expect=2)
        self.assertRegex(child.stderr, r"--json.*none/f")
        self.assertNotIn("Got", child.stderr)


PART = ".got.bin.penstock-part"


class Cut(Case):
    """A source that is cut short: the receiver knows it."""

    SOURCE = 60 << 20

    def setUp(self):
        super().setUp()
        self.source = random_file(self.folder / "source.bin", self.SOURCE)
        self.made = self.folder / "made"
        self.made.mkdir()

    def file_stream(self, transport="loopback", sender="", sink="file", rate="rate: 20 Mbps"):
        """One that would take 25 seconds."""
        return self.config(yaml_stream(
            "file", message="64 KiB", ring=16, transport=transport,
            sender=f"{{{rate}, source: {{type: file, file: {self.source}{sender}}}}}",
            receiver=f"{{sink: {{type: {sink}, file: {self.made / 'got.bin'}}}}}"))

    def assert_partial(self):
        """What came is there, whole, and not under the name that it was to have."""
        self.assertEqual([path.name for path in self.made.iterdir()], [PART])
        part = (self.made / PART).read_bytes()
        self.assertGreater(len(part), 0)
        self.assertEqual(part, self.source.read_bytes()[:len(part)])

    def assert_cut(self, name, why="signal"):
        result = self.result(name)
        self.assertIs(result["ok"], False)
        self.assertEqual(self.only_stream(result)["stopped"], why)

    def test_one_process(self):
        """An older part gives way, and a link of its name is not followed."""
        other = self.write("other", "untouched")
        (self.made / PART).symlink_to(other)
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                child = self.start("run", self.file_stream(), "--json", self.folder / "out.json")
                wait_written(child, 1 << 18)
                child.signal(number)
                self.assertEqual(child.wait(), 1, str(child))
                self.assertRegex(child.stderr,
                                 rf"source: \d+\.\d [KM]iB of 60\.0 MiB \(stopped by {number.name}\)")
                self.assertIn("stopping: draining messages in flight (up to 10 s); press ^C again", child.stderr)
                self.assert_cut("out.json")
                self.assert_partial()
        self.assertEqual(other.read_text(), "untouched")

    def test_two_processes(self):
        for transport in ("loopback", "{plugin: udp, options: {device: 127.0.0.1}}"):
            with self.subTest(transport=transport):
                path = self.file_stream(transport)
                if "udp" in transport:
                    path.write_text(path.read_text().replace("64 KiB", "32 KiB"))
                receiver = self.start("receive", path, "--json", self.folder / "in.json")
                sender = self.start("send", path, "--json", self.folder / "out.json")
                wait_written(receiver, 1 << 18)
                sender.signal(signal.SIGINT)
                self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}\n{receiver}")
                self.assertRegex(receiver.stderr, "sender was stopped before its source had ended")
                self.assert_cut("out.json")
                self.assert_cut("in.json")
                self.assert_partial()

    @unittest.skipUnless(HAS_PCAP, "built without libpcap")
    def test_capture(self):
        packet = struct.pack("<IIII", 1, 0, 1000, 1000) + bytes(1000)
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        self.source.write_bytes(head + packet * 20000)
        path = self.config(yaml_stream(
            message="1500 B", ring=64,
            sender=f"{{rate: 2 Mbps, source: {{type: pcap, file: {self.source}}}}}",
            receiver=f"{{sink: {{type: pcap, file: {self.made / 'got.bin'}}}}}"))
        child = self.start("run", path, "--json", self.folder / "out.json")
        wait_written(child, 1 << 15)
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        self.assertRegex(child.stderr, r"source: \d+ messages \(stopped by SIGINT\)")
        delivered = self.only_stream(self.result())["messages_delivered"]
        self.assertEqual((self.made / PART).stat().st_size, 24 + delivered * 1016)
        self.assert_cut("out.json")

    def test_what_was_asked_for_is_whole(self):
        """--count and --duration cut as asked; a source without an end ends by ^C."""
        for why, words in (("count", ["--count", 3]), ("duration", ["--duration", "100ms"])):
            with self.subTest(stopped=why):
                result, _ = self.run_json("run", self.file_stream(), *words)
                self.assertEqual(self.only_stream(result)["stopped"], why)
                self.assertEqual([path.name for path in self.made.iterdir()], ["got.bin"])
                (self.made / "got.bin").unlink()
        result, _ = self.run_json("run", self.file_stream(rate="rate: 0"))
        self.assertEqual(self.only_stream(result)["stopped"], "source_end")
        self.assertEqual((self.made / "got.bin").stat().st_size, self.SOURCE)
        (self.made / "got.bin").unlink()
        child = self.start("run", self.file_stream(sender=", loop: true"),
                           "--json", self.folder / "out.json")
        child.wait_line("messages of up to")
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 0, str(child))
        self.assertEqual(self.only_stream(self.result())["stopped"], "signal")
        self.assertEqual([path.name for path in self.made.iterdir()], ["got.bin"])

    def test_count_that_a_signal_cuts_is_short(self):
        path = self.config(yaml_stream(message="1000 B", sender="{rate: 1 Mbps, count: 1000000}"))
        receiver = self.start("receive", path, "--json", self.folder / "in.json")
        sender = self.start("send", path, "--json", self.folder / "out.json")
        receiver.wait_line("messages of up to")
        sender.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}\n{receiver}")
        self.assert_cut("in.json")

    def test_what_broke_off_says_who(self):
        path = self.file_stream()
        receiver = self.start("receive", path, "--json", self.folder / "in.json")
        sender = self.start("send", path)
        receiver.wait_line("messages of up to")
        sender.signal(signal.SIGKILL)
        self.assertEqual(receiver.wait(), 1, str(receiver))
        self.assert_cut("in.json", "peer")
        self.assertEqual([path.name for path in self.made.iterdir()], [])
        receiver = self.start("receive", path, "--json", self.folder / "in.json")
        sender = self.start("send", path, "--json", self.folder / "out.json")
        receiver.wait_line("messages of up to")
        receiver.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}\n{receiver}")
        self.assert_cut("in.json", "signal")
        self.assert_cut("out.json", "peer")


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


class Warnings(Case):
    def test_the_librarys_are_in_the_result_though_quiet(self):
        path = self.config(yaml_stream(message="1000 B", sender="{count: 10}"))
        for words in ((), ("-q",)):
            with self.subTest(words=words):
                receiver = self.start("receive", path, "--json", self.folder / "in.json", *words,
                                      "--set", f"control.address=0.0.0.0:{self.port}",
                                      "--set", "control.insecure=true")
                self.run_program("send", path, "--set", "control.insecure=true")
                self.assertEqual(receiver.wait(), 0, str(receiver))
                (warning,) = self.result("in.json")["warnings"]
                self.assertEqual((warning["code"], warning["where"]), ("log", None))
                said = f"penstock: warning: {warning['text']}"
                self.assertEqual(receiver.lines["stderr"].count(said), 0 if words else 1, str(receiver))


class StandardOutput(Case):
    """What was asked for and cannot be written is a failure of every command."""

    def commands(self):
        yield ("--help",)
        yield ("--version",)
        yield "run", "--help"
        yield "check", "config/loopback.yaml"
        yield ("plugins",)
        yield "plugins", "loopback"
        yield ("bench", "--transport", "loopback", "--memory", "host", "--size", "64",
               "--duration", "20ms", "--op", "send", "--bandwidth", "--in-process")
        yield ("run", "config/loopback.yaml", "--count", "10", "-q", "--json", "-")

    def test_every_command(self):
        with open("/dev/full", "w") as full:
            for words in self.commands():
                with self.subTest(command=" ".join(words)):
                    child = self.run_program(*words, expect=1, stdout_file=full)
                    self.assertRegex(child.stderr, "error: .*standard output")

    def test_request(self):
        server = self.start("serve", f"127.0.0.1:{self.port}", "--once")
        server.wait_line("(?i)serv")
        with open("/dev/full", "w") as full:
            child = self.run_program("request", "write", f"127.0.0.1:{self.port}", "--count", 1,
                                     "--json", self.folder / "out.json", expect=1, stdout_file=full)
        self.assertRegex(child.stderr, "error: .*standard output")
        self.assertEqual(self.result()["exit_status"], 1)


if __name__ == "__main__":
    main()
