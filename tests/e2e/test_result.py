# SPDX-License-Identifier: Apache-2.0
"""The result's file: at no time another run's, and written on every way out."""
import fcntl
import os
import pathlib
import re
import signal
import stat
import struct
import termios
import unittest

import result_schema
from harness import HAS_PCAP, SANITIZED, Case, main, random_file, wait_until, yaml_stream

PIPE_BYTES = 65536  # that a FIFO takes (pipe(7))
OLDER = '{"format": 1, "penstock": "0.1.0", "command": "run", "ok": true, "exit_status": 0}\n'


def waiting_in(fifo):
    (count,) = struct.unpack("i", fcntl.ioctl(fifo, termios.FIONREAD, bytes(4)))
    return count


def wait_written(child, count):
    """Until it has written so many bytes, to whatever file."""
    def written():
        return int(re.search(r"^wchar: (\d+)", pathlib.Path(f"/proc/{child.pid}/io").read_text(), re.M)[1])
    wait_until(lambda: written() > count, 20, f"{count} bytes are written by {child}")


def wait_caught(child, number):
    """Until this signal asks for an orderly end."""
    def caught():
        status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
        return int(re.search(r"^SigCgt:\s*(\w+)", status, re.M)[1], 16) >> (number - 1) & 1
    wait_until(caught, 20, f"{child} takes {number.name}")


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

    def drains(self, number, *arguments, **options):
        """A run that was asked to stop, and whose drain cannot end by itself, as nobody reads its
        sink; and the sink's other end."""
        fifo = self.folder / "fifo"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        sink = f"{{sink: {{type: file, file: {fifo}}}}}"
        path = self.config(yaml_stream(message="64 KiB", ring=16, receiver=sink))
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        child = self.start("run", path, *arguments, **options)
        wait_until(lambda: waiting_in(reader) == PIPE_BYTES, 20, "the FIFO is full")
        child.signal(number)
        child.wait_line("stopping")
        return child, reader

    def blocked(self, *arguments, **options):
        child, _ = self.drains(signal.SIGINT, *arguments, **options)
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 130, str(child))
        return child

    def test_a_terminal_that_closes_twice_asks_once(self):
        """A shell passes on the SIGHUP that the kernel sends, too."""
        child, reader = self.drains(signal.SIGHUP, "--json", self.out)
        with child.stopped():
            child.signal(signal.SIGHUP)
        os.set_blocking(reader, True)
        while os.read(reader, PIPE_BYTES):
            pass
        self.assertEqual(child.wait(), 0, str(child))
        self.assertEqual(self.only_stream(self.result())["stopped"], "signal")

    def test_second_signal_writes_a_result(self):
        self.blocked("--json", self.out)
        result = self.result()
        self.assertIs(result["ok"], False)
        self.assertEqual((result["state"], result["exit_status"]), ("ended", 130))
        self.assertEqual([error["code"] for error in result["errors"]], ["interrupted"])
        stream = self.only_stream(result)
        self.assertEqual((stream["name"], stream["ok"], stream["stopped"]), ("packets", False, "signal"))
        self.assertEqual({key for key, value in stream.items() if isinstance(value, (int, float)) and value is not False},
                         {"size_bytes", "ring_slots"}, "nobody has looked at counts")  # fmt: skip

    def test_second_signal_writes_a_result_to_standard_output(self):
        for name in ("-", "/dev/stdout"):
            with self.subTest(json=name):
                child = self.blocked("--json", name)
                self.assertEqual(result_schema.read(child.stdout)["exit_status"], 130)

    def test_command_that_never_begins_writes_a_result(self):
        for status, code, where, arguments in (
            (2, "usage", None, ("run", self.folder / "none.yaml")),
            (2, "usage", "--coutn", ("run", "config/loopback.yaml", "--coutn", 5)),
            (2, "usage", "--duration", ("receive", "config/loopback.yaml", "--duration", "soon")),
            (2, "usage", None, ("send", "config/loopback.yaml", "config/udp.yaml")),
            (2, "usage", "--clients", ("serve", "--clients")),
            (2, "usage", None, ("get", "127.0.0.1:1")),
            (2, "usage", "--set transport=none", ("run", "config/loopback.yaml", "--set", "transport=none")),
            (2, "usage", "--size", ("bench", "--transport", "none", "--memory", "host", "--size", "no")),
            (2, "usage", "--size", ("request", "write", "127.0.0.1:1", "--size", "no")),
            (2, "usage", "--json", ("request", "write", "127.0.0.1:1", "--json", self.out)),
            (1, "peer", None, ("request", "write", "127.0.0.1:1")),
            (1, "peer", None, ("get", "127.0.0.1:1", "name")),
            (1, "peer", None, ("put", "127.0.0.1:1", "README.md")),
            (3, "unavailable", None, ("run", "config/loopback.yaml", "--set", "streams.packets.ring=1000000",
                           "--set", "streams.packets.message=1 GiB")),
        ):
            with self.subTest(command=arguments):
                self.out.write_text(OLDER)
                # Else an option that lacks its value takes what follows.
                words = ("--json", self.out, *arguments[1:])
                child = self.run_program(arguments[0], *words, expect=status)
                result = self.result()
                self.assertIs(result["ok"], False)
                self.assertEqual((result["state"], result["exit_status"]), ("ended", status))
                self.assertEqual(result["command"], arguments[0])
                (error,) = result["errors"]
                self.assertEqual((error["code"], error["where"]), (code, where))
                self.assertIn(error["text"], child.stderr)

    def test_file_that_is_named_behind_what_is_wrong_is_written(self):
        for name, words in ((self.out, ("--coutn", 5)), (self.out, ("config/udp.yaml",)),
                            ("-", ("-x",)), ("/dev/stdout", ("-x",))):
            with self.subTest(json=name, words=words):
                self.out.write_text(OLDER)
                child = self.run_program("run", "config/loopback.yaml", *words, "--json", name, expect=2)
                result = self.result() if name == self.out else result_schema.read(child.stdout)
                self.assertEqual((result["ok"], result["exit_status"]), (False, 2))
                self.assertIn(result["errors"][0]["text"], child.stderr)

    def refused(self, *words, keeps):
        """With status 2; what lies in a file stays there."""
        before = keeps.read_bytes()
        with self.subTest(words=words):
            child = self.run_program(*words, expect=2)
            self.assertRegex(child.stderr, r"--json.*; name another file")
            self.assertEqual(keeps.read_bytes(), before)

    def test_what_a_command_reads_or_writes_is_not_its_result(self):
        source = self.write("source.bin", "data")
        sink = self.folder / "sink.bin"
        path = self.config(yaml_stream(
            "file", sender=f"{{source: {{type: file, file: {source}}}}}",
            receiver=f"{{sink: {{type: file, file: {sink}, overwrite: true}}}}"))
        run = ("run", path, "--json")
        self.refused(*run, path, keeps=path)
        self.refused(*run, path, "--coutn", "1", keeps=path)
        self.refused(*run, source, keeps=source)
        (self.folder / "way").symlink_to(self.folder)
        self.refused(*run, self.folder / "way" / "sink.bin", keeps=source)
        sink.write_bytes(b"data of another")
        self.refused(*run, sink, keeps=sink)
        run_again = self.folder / "again.json"
        self.run_program("run", "config/loopback.yaml", "--count", "1", "--json", run_again)
        again = run_again.read_text()
        for text in (again * 2, again + "notes", again[:-20], '{"format": 1, "penstock": "my notes"}'):
            sink.write_text(text)
            self.refused(*run, sink, keeps=sink)
        self.run_program("run", "config/loopback.yaml", "--count", "1", "--json", run_again)
        for words, keeps in ((("put", "127.0.0.1:1", source, "--json", source), source),
                             (("put", "127.0.0.1:1", self.out, "--json", self.out), self.out),
                             (("put", "127.0.0.1:1", self.folder, "--recursive", "--json", self.out), self.out),
                             (("get", "127.0.0.1:1", "a/out.json", "--to", self.folder, "--json", self.out), self.out),
                             (("get", "127.0.0.1:1", "x", "--to", self.out, "--json", self.out), self.out)):
            self.refused(*words, keeps=keeps)

    def test_what_came_meanwhile_is_kept(self):
        child = self.endless()
        self.out.write_text("of another program")
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        self.assertRegex(child.stderr, r"--json.*out.json exists and is not the result of a command")
        self.assertEqual(self.out.read_text(), "of another program")

    @unittest.skipIf(SANITIZED, "a sanitizer takes address space by the terabyte")
    def test_who_may_start_no_thread_has_a_result(self):
        """The stack of a thread does not fit."""
        self.out.write_text(OLDER)
        child = self.run_program("run", "config/loopback.yaml", "--json", self.out, expect=1,
                                 environment={"PENSTOCK_SANDBOX": "auto"},  # Landlock is tried in a thread
                                 prefix=("prlimit", f"--stack={1 << 30}", f"--as={1 << 29}"))
        self.assertIn("--json: cannot prepare to write", child.stderr)
        result = self.result()
        self.assertEqual((result["state"], result["exit_status"]), ("ended", 1))
        self.assertIn(result["errors"][0]["text"], child.stderr)

    def test_who_may_open_few_files_has_a_result(self):
        """Whatever the command has open when it ends, or fails to open."""
        few = 4  # standard streams, and one more
        for limit in (*range(few, 20), 64):
            with self.subTest(limit=limit):
                self.out.write_text(OLDER)
                child = self.run_program("get", "127.0.0.1:1", "name", "--json", self.out, expect=None,
                                         prefix=("prlimit", f"--nofile={limit}"))
                self.assertIn(child.status, (1, 2, 3), str(child))
                if "cannot create" in child.stderr:  # nothing has begun
                    self.assertEqual(self.out.read_text(), OLDER)
                    self.assertIn("ulimit -n", child.stderr)
                    continue
                result = self.result()
                self.assertEqual((result["state"], result["exit_status"]), ("ended", child.status), str(child))
                self.assertIn(result["errors"][0]["text"], child.stderr)
        self.assertEqual(self.result()["errors"][0]["code"], "peer")

    def test_a_value_that_was_forgotten_takes_no_option(self):
        self.out.write_text(OLDER)
        child = self.run_program("run", "config/loopback.yaml", "--duration", "--json", self.out, expect=2)
        self.assertIn("option '--duration' needs a value", child.stderr)
        self.assertEqual(self.result()["errors"][0]["code"], "usage")
        for words in (("--json", "--count", "5"), ("--set", "--json", self.out)):
            with self.subTest(words):
                self.out.write_text(OLDER)
                self.run_program("run", "config/loopback.yaml", "--bogus", *words, expect=2)
                self.assertFalse(pathlib.Path("--count").exists())
                if self.out in words:
                    self.assertEqual(self.result()["errors"][0]["code"], "usage")

    @unittest.skipIf(os.getuid() != 0, "root alone can be two users")
    def test_a_fifo_of_another_user_is_refused_before_anything_begins(self):
        folder = self.folder / "all"
        folder.mkdir()
        folder.chmod(0o1777)
        fifo, link = folder / "fifo", self.folder / "link"
        os.mkfifo(fifo)
        os.chown(fifo, 65534, 65534)
        link.symlink_to(fifo)
        for out in (fifo, link):
            with self.subTest(out):
                child = self.run_program("run", "config/loopback.yaml", "--json", out, expect=2)
                self.assertIn(f"--json: {out} is a FIFO of user 65534 in a sticky folder", child.stderr)
                self.assertNotIn("sent = ", child.stderr)

    def test_an_empty_file_that_cannot_be_read_is_no_result(self):
        self.out.write_text("")
        self.out.chmod(0o200)
        child = self.run_program("run", "config/loopback.yaml", "--json", self.out, expect=2,
                                 prefix=("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ())  # fmt: skip
        self.assertIn("cannot be read, so it is unknown whether it is a result", child.stderr)

    def test_the_option_is_where_a_stream_is_not_there(self):
        result, _ = self.run_json("run", "config/loopback.yaml", "--stream", "nope", expect=2)
        (error,) = result["errors"]
        self.assertEqual(error["where"], "--stream")
        self.assertRegex(error["text"], "^config/loopback.yaml has no stream 'nope'")

    def test_a_result_has_the_mode_of_the_one_that_it_replaces(self):
        """A file that was closed to others stays closed."""
        for mode in (0o600, 0o640, 0o666):
            self.out.write_text(OLDER)
            self.out.chmod(mode)
            self.run_program("get", "127.0.0.1:1", "name", "--json", self.out, expect=1)
            self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), mode)

    @unittest.skipIf(os.getuid() != 0, "root alone can be two users")
    def test_a_result_of_another_user_in_a_folder_of_all(self):
        """/tmp, say, which is sticky: nothing is left beside what cannot be replaced."""
        shared = self.folder / "shared"
        shared.mkdir()
        self.folder.chmod(0o755)
        shared.chmod(0o1777)
        out = shared / "r.json"
        out.write_text(OLDER)
        os.chown(out, 65534, 65534)
        out.chmod(0o644)
        child = self.run_program("get", "127.0.0.1:1", "name", "--json", out, expect=2,
                                 prefix=("setpriv", "--reuid=65533", "--clear-groups", "--regid=65533"))
        self.assertRegex(child.stderr, f"--json: cannot replace {out}: .*another user.*name a file elsewhere")
        self.assertEqual([path.name for path in shared.iterdir()], ["r.json"])
        self.assertEqual(out.read_text(), OLDER)

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
        """The messages that came are there, whole, and not under the name that the file was to have."""
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
        nohup = (signal.SIGHUP, signal.SIGINT)  # the first is ignored
        for number, prefix, sent in ((signal.SIGINT, (), ()), (signal.SIGTERM, (), ()), (signal.SIGHUP, (), ()),
                                     (signal.SIGINT, ("nohup",), nohup)):
            with self.subTest(signal=number.name, prefix=prefix):
                child = self.start("run", self.file_stream(), "--json", self.folder / "out.json", prefix=prefix)
                wait_written(child, 1 << 18)
                with child.stopped():  # they come all at once
                    for each in sent or (number,):
                        child.signal(each)
                self.assertEqual(child.wait(), 1, str(child))
                self.assertRegex(child.stderr,
                                 rf"source: \d+\.\d [KM]iB of 60\.0 MiB \(stopped by {number.name}\)")
                self.assertIn("stopping: draining messages in flight (up to 10 s); press ^C again", child.stderr)
                self.assert_cut("out.json")
                self.assert_partial()
        self.assertEqual(other.read_text(), "untouched")

    def test_a_part_that_cannot_be_kept_is_not_called_kept(self):
        (self.made / PART / "x").mkdir(parents=True)
        child = self.start("run", self.file_stream(), "--json", self.folder / "out.json")
        wait_written(child, 1 << 18)
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        self.assertRegex(child.stderr, rf"cannot keep the part that came as \S*{PART}: Is a directory")
        self.assertNotIn("is kept", child.stderr)
        self.assert_cut("out.json", "failure")

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

    def test_before_the_sink_has_a_reader(self):
        fifo = self.made / "got.bin"
        os.mkfifo(fifo)
        child = self.start("run", self.file_stream(), "--json", self.folder / "out.json")
        wait_caught(child, signal.SIGINT)
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        (error,) = self.result()["errors"]
        self.assertEqual(error["code"], "stopped")
        self.assertIn(f"sink: stopped by SIGINT while {fifo} had no reader", error["text"])

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
        wait_written(receiver, 1 << 18)
        sender.signal(signal.SIGKILL)
        self.assertEqual(receiver.wait(), 1, str(receiver))
        self.assert_cut("in.json", "peer")
        self.assert_partial()
        (self.made / PART).unlink()
        receiver = self.start("receive", path, "--json", self.folder / "in.json")
        sender = self.start("send", path, "--json", self.folder / "out.json")
        wait_written(receiver, 1 << 18)
        receiver.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}\n{receiver}")
        self.assert_cut("in.json", "signal")
        self.assert_cut("out.json", "peer")
        self.assert_partial()
        self.assertIn(f"the part that came is kept as {self.made / PART}", receiver.stderr)


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
    def setUp(self):
        super().setUp()
        self.plugins = self.folder / "plugins"
        self.plugins.mkdir()
        (self.plugins / "transport-loopback.so").write_text("no plugin")

    def assert_listed(self, result, child, said, server=False):
        """said: how often it was written, too."""
        text = f"{self.plugins}/transport-loopback.so: not an ELF file; install it again"
        texts = [text, f"server: {text}"] if server else [text]
        self.assertEqual([(warning["code"], warning["text"], warning["where"])
                          for warning in result["warnings"] if warning["code"] != "shared_cpu"],
                         [("log", text, None) for text in texts])
        self.assertEqual(child.lines["stderr"].count(f"penstock: warning: {text}"), said, str(child))

    def test_the_librarys_are_in_the_result_whatever_is_written(self):
        path = self.config(yaml_stream(message="1000 B", sender="{count: 10}"))
        for words, level, said in (((), "", 1), (("-q",), "", 0), ((), "error", 0), ((), "warn", 1)):
            with self.subTest(words=words, level=level):
                result, child = self.run_json("run", path, "--plugin-path", self.plugins, *words,
                                              environment={"PENSTOCK_LOG": level})
                self.assert_listed(result, child, said)

    def test_of_both_ends_of_bench(self):
        for words, level, said in (((), "", 0), ((), "warn", 2), (("--in-process",), "", 0)):
            with self.subTest(words=words, level=level):
                result, child = self.run_json(
                    "bench", "--transport", "loopback", "--memory", "host", "--size", 64, "--duration", "10ms",
                    "--op", "send", "--bandwidth", "--plugin-path", self.plugins, *words,
                    environment={"PENSTOCK_LOG": level})
                self.assert_listed(result, child, said, server=not words)


CLOSED = ("sh", "-c", 'exec "$@" >&-', "sh")  # without standard output


class StandardOutput(Case):
    """Output that was asked for and cannot be written is a failure of every command."""

    def setUp(self):
        super().setUp()
        self.full = open("/dev/full", "w")
        self.addCleanup(self.full.close)

    def assert_said(self, child):
        self.assertEqual(child.wait(), 1, str(child))
        self.assertRegex(child.stderr, "error: .*standard output")

    def test_every_command(self):
        listed = re.findall(r"^  (\w+) ", self.run_program("--help").stdout.split("Examples")[0], re.M)
        self.assertEqual(len(set(listed) - {"penstock"}), 17)
        for words in (
            ("--help",), ("help",), ("help", "streams.ring"), ("schema",), ("--version",), ("version",), *((name, "--help") for name in listed if name != "penstock"),
            ("check", "config/loopback.yaml"), ("plugins",), ("plugins", "loopback"),
            ("bench", "--transport", "loopback", "--memory", "host", "--size", "64", "--duration", "20ms",
             "--op", "send", "--bandwidth", "--in-process"),
            ("run", "config/loopback.yaml", "--count", "10", "-q", "--json", "-"),
            ("run", "config/loopback.yaml", "--coutn", "10", "--json", "-"),
        ):
            with self.subTest(command=" ".join(words)):
                self.assert_said(self.start(*words, stdout_file=self.full))
                closed = self.start(*words, prefix=CLOSED)
                self.assert_said(closed)
                self.assertRegex(closed.stderr, "standard output: it is closed")
        self.run_program("run", "config/loopback.yaml", "--count", "10", prefix=CLOSED)
        child = self.run_program("run", "config/loopback.yaml", "--json", "/dev/stdout", prefix=CLOSED, expect=2)
        self.assertIn("--json: cannot write to /dev/stdout", child.stderr)

    def test_both_ends_of_a_stream(self):
        path = self.config(yaml_stream(sender="{count: 10}"))
        ends = [self.start(role, path, "--json", "-", stdout_file=self.full) for role in ("receive", "send")]
        for child in ends:
            self.assert_said(child)

    def test_server_and_its_clients(self):
        address = f"127.0.0.1:{self.port}"
        server = self.start("serve", address, "--root", self.folder, "--json", "-", stdout_file=self.full)
        server.wait_line("(?i)serv")
        self.write("there", "some bytes")
        child = self.start("request", "write", address, "--count", 1, "--json", self.folder / "out.json",
                           stdout_file=self.full)
        self.assert_said(child)
        self.assertEqual(self.result()["exit_status"], 1)
        for words in (("get", address, "there", "--to", self.folder / "here"),
                      ("put", address, "README.md")):
            self.assert_said(self.start(*words, "--json", "-", stdout_file=self.full))
        server.signal(signal.SIGTERM)
        self.assert_said(server)


if __name__ == "__main__":
    main(side_by_side=3)
