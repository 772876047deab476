#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that keep to no rule: refused with the reason, and the server serves on."""
import os
import re
import subprocess
import sys

from harness import BUILD, PROGRAM, ROOT, main, random_file, wait_until, yaml_stream
from netns import ORDINARY, reaches
from serving import MIB, PART, ServeCase, tree

HELLO = "hello 1"


class Strangers(ServeCase):
    def setUp(self):
        super().setUp()
        self.outside = self.folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        (self.root / "file").write_bytes(bytes(range(256)) * 64)
        (self.root / "folder").mkdir()
        os.symlink("../outside/secret", self.root / "link-out")
        os.symlink("../outside", self.root / "folder-out")
        os.symlink("file", self.root / "link-in")
        os.mkfifo(self.root / "fifo")
        self.before = tree(self.folder)
        self.serve()

    def assert_answers(self, lines, patterns, **options):
        answers = [line for line in self.stranger(*lines, **options) if line.rstrip() != "LEFT 0"]
        for line, answer, pattern in zip(lines, answers, patterns):
            self.assertRegex(answer, pattern, line)
        self.assertEqual(len(answers), len(patterns), answers)

    def test_names(self):
        cases = [
            ("..", r"EINVAL .*'\.\.'"), ("../outside/secret", r"EINVAL .*'\.\.'"), ("folder/../file", "EINVAL"),
            ("/etc/passwd", "EINVAL .*absolute"), ("folder//x", "EINVAL .*two in a row"), ("file/", "EINVAL"), ("./file", "EINVAL"),
            ("file%00", "EINVAL .*NUL"), ("a%0ab", "EINVAL .*newline"), ("a%1b[31m", "EINVAL .*control"), ("-", "EINVAL .*empty"),
            ("x" * 241, "ENAMETOOLONG .*240"), ("y/" * 500 + "z", "ENOENT"), (f".file{PART}", f"EINVAL .*{PART}"),
            ("link-out", "EXDEV .*leads out"), ("folder-out/secret", "EXDEV .*leads out"),
        ]  # fmt: skip
        for verb in ("open", "create", "list", "mkdir"):
            lines, patterns = [HELLO], ["WELCOME"]
            for name, wanted in cases:
                if (verb == "list" and name == "-") or (verb in ("create", "mkdir") and name == "link-out"):
                    continue
                lines.append(f"{verb} {name}")
                patterns.append("REFUSE " + wanted)
            with self.subTest(verb=verb):
                self.assert_answers(lines, patterns)
        # At a link's own name lies the link, which exists.
        self.assert_answers([HELLO, "create link-out 1", "mkdir link-out"], ["WELCOME", "REFUSE EEXIST", "REFUSE ELOOP"])
        self.assertEqual(tree(self.folder), self.before)
        self.assert_healthy()

    def test_kinds_of_files(self):
        self.assert_answers(
            [HELLO, "open link-in", "open folder", "open fifo", "open none", "list file", "create folder 1", "mkdir file"],
            ["WELCOME", "OPENED .*size 16384", "REFUSE EISDIR", "REFUSE ENOTSUP|REFUSE EOPNOTSUPP", "REFUSE ENOENT", "REFUSE ENOTDIR",
             "REFUSE EISDIR", "REFUSE EEXIST"])  # fmt: skip
        self.assert_healthy()

    def test_ranges(self):
        big = 2**62
        self.assert_answers(
            [HELLO, "open file", "fetch 0 0 16384 1 0", "fetch 0 16384 1 1 0", f"fetch 0 {big} {big} 1 0", f"fetch 0 1 {big} 1 0",
             "fetch 0 0 0 1 0", "fetch 0 0 4096 1 65535", f"fetch 0 0 4096 1 {big}", "fetch 0 0 4096 2 0", "fetch 0 0 4096 0 0",
             "fetch 7 0 1 1 0", "fetch 4000000000 0 1 1 0", "store 0 0 1 1 0 0", "check 0 0 16384", "check 0 1 16384", "commit 0",
             "close 0", "close 0", "fetch 0 0 1 1 0"],
            ["WELCOME", "OPENED", "FETCHED .*length 16384", "REFUSE ERANGE .*16384", "REFUSE (EFBIG|ERANGE)", "REFUSE (EFBIG|ERANGE)",
             "REFUSE EFBIG .*0 bytes", "REFUSE ERANGE .*beyond the region", "REFUSE ERANGE .*beyond the region",
             "REFUSE ENOENT .*no such region", "REFUSE ENOENT .*no such region", "REFUSE EBADF", "REFUSE EBADF", "REFUSE EBADF", "CHECKED",
             "REFUSE ERANGE", "REFUSE EBADF", "DONE", "REFUSE EBADF", "REFUSE EBADF"])  # fmt: skip
        self.assert_healthy()

    def test_moves(self):
        self.assert_answers(
            [HELLO, "move 1 65536 1 1 0", "move 2 65536 16 1 0", "move 1 65536 1 1 1", "move 1 0 1 1 0", f"move 1 {2**40} 1 1 0",
             "move 1 10 11 1 0", "move 1 65536 513 1 0", "move 1 8 1 9 0"],
            ["WELCOME", "MOVED", "MOVED", "REFUSE ERANGE", "REFUSE EINVAL .*the least is 1 B", "REFUSE EFBIG .*--request-max", "REFUSE EINVAL",
             "REFUSE EINVAL", "REFUSE ENOENT"])  # fmt: skip
        self.assert_answers([HELLO, "move 1 8 1 1 0"], ["WELCOME", "REFUSE ENOENT"], region=0)
        self.assert_healthy()

    def test_lies_about_a_file(self):
        """Bytes that were announced must come, and have the announced sum."""
        crc = int(self.stranger("crc 7 4096")[0].split()[1])
        self.assert_answers(
            [HELLO, "crc 7 4096", "create new 8192", f"store 0 0 4096 1 0 {crc + 1}", f"store 0 0 4096 1 0 {crc}", "commit 0",
             "fetch 0 0 4096 1 0",
             f"store 0 8191 2 1 0 {crc}", f"store 0 8192 1 1 0 {crc}", f"hole 0 4096 {2**62}", "hole 0 4096 4095", "commit 0", "hole 0 0 1",
             "create new 8192", "hole 0 8191 1", "commit 0", "commit 0", "close 0"],
            ["WELCOME", "crc", "CREATED", "REFUSE EBADMSG .*CRC32C", "DONE", "REFUSE EINVAL .*4096 of 8192", "REFUSE EBADF .*the other direction",
             "REFUSE ERANGE", "REFUSE ERANGE",
             "REFUSE (ERANGE|EFBIG)", "DONE", "REFUSE EINVAL .*8191 of 8192", "DONE", "REFUSE EBUSY", "DONE", "DONE", "REFUSE EBADF",
             "DONE"])  # fmt: skip
        self.assertEqual((self.root / "new").read_bytes(), b"\7" * 4096 + bytes(4096))
        self.assertEqual((self.root / "new").stat().st_mode & 0o111, 0)
        # One that goes before it has said all leaves no file.
        self.stranger(HELLO, "create half 8192", "hole 0 0 4096")
        self.assertFalse((self.root / "half").exists())
        self.assert_healthy()

    def test_sums_that_go_on(self):
        """From front to back, and void once what is summed is written again."""
        crc = int(self.stranger("crc 7 4096")[0].split()[1])
        store = f"store 0 0 4096 1 0 {crc}"
        self.assert_answers(
            [HELLO, "open file", "check 0 0 8192 64", "check 0 0 8192 64", "check 0 8193 1 64", "check 0 8192 8192 64", "check 0 16384 1 64",
             "check 0 0 16384", "close 0", "crc 7 4096", "create new 8192", store, "check 0 0 4096 64", store, "check 0 4096 4096 64",
             "hole 0 4096 4096", "commit 0", "close 0"],
            ["WELCOME", "OPENED", "CHECKED", "REFUSE EINVAL .*goes on at 8192", "REFUSE EINVAL .*goes on at 8192", "CHECKED", "REFUSE ERANGE",
             "CHECKED", "DONE", "crc", "CREATED", "DONE", "CHECKED", "DONE", "REFUSE EINVAL .*written again", "DONE", "DONE",
             "DONE"])  # fmt: skip
        self.assertEqual((self.root / "new").read_bytes(), b"\7" * 4096 + bytes(4096))
        self.assert_healthy()

    def test_leaving_at_any_point(self):
        """After each line of a session: nothing under a final name before its end."""
        crc = int(self.stranger("crc 7 4096")[0].split()[1])
        lines = [HELLO, "crc 7 4096", "create late 8192", f"store 0 0 4096 1 0 {crc}", "check 0 0 4096 64", "hole 0 4096 4096", "commit 0"]
        for count in range(1, len(lines)):
            self.stranger(*lines[:count])
            self.assertFalse((self.root / "late").exists(), lines[:count])
        self.stranger(*lines)
        self.assertEqual((self.root / "late").read_bytes(), b"\7" * 4096 + bytes(4096))
        self.assert_healthy()

    def test_too_many_files(self):
        lines = [HELLO] + ["open file"] * 33 + ["close 5", "open file"]
        patterns = ["WELCOME"] + ["OPENED"] * 32 + ["REFUSE EMFILE .*32", "DONE", "OPENED file 5"]
        self.assert_answers(lines, patterns)
        self.assert_healthy()

    def test_what_is_no_message(self):
        for line, wanted in (
            ("raw 00", "LEFT EPROTO .*not of this protocol"),
            ("raw ff", "LEFT EPROTO"),
            ("raw a1001863", "LEFT EPROTO .*no message type 99"),
            ("raw a20004", "LEFT EPROTO"),
            ("raw a200040501", "LEFT EPROTO .*DONE is not a message that clients send"),
            ("hello 1", "LEFT EPROTO .*HELLO"),
        ):
            with self.subTest(line=line):
                self.assert_answers([HELLO, line], ["WELCOME", wanted])
        self.assert_answers(["ping"], ["LEFT EPROTO .*before HELLO"])
        self.assert_answers(["hello 9"], ["LEFT EPROTO .*version 1.*9"])
        self.assert_healthy()

    def test_a_flood(self):
        """Bounded by the server: answered, or told what was too much."""
        answers = self.stranger(HELLO, "flood 20000")
        self.assertTrue(any(re.match("flooded|LEFT EPROTO .*requests are under way", line) for line in answers), answers)
        self.assert_healthy()

    def test_wake_ups(self):
        """As many as there can be, by a timer that would wait: no thread of the server does."""
        with subprocess.Popen([BUILD / "tests" / "e2e" / "stranger", self.address, "0"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=str(self.temporary))) as waker:  # fmt: skip
            try:
                waker.stdin.write(f"{HELLO}\nwakes 0\n")
                waker.stdin.flush()
                self.assertRegex(waker.stdout.readline(), "^WELCOME")
                self.assertRegex(waker.stdout.readline(), "^waking by [2-9]")
                for _ in range(3):
                    self.assert_healthy()
                self.assertIsNone(waker.poll())
            finally:
                waker.kill()
        self.wait_all_left()
        self.assert_healthy()

    def test_read_only(self):
        self.stop()
        self.serve("--read-only")
        self.assert_answers([HELLO, "create x 1", "mkdir x", "open file", "store 0 0 1 1 0 0"],
                            ["WELCOME", "REFUSE EROFS", "REFUSE EROFS", "OPENED", "REFUSE EROFS"])  # fmt: skip
        self.assertEqual(tree(self.folder), self.before)


class Floods(ServeCase):
    """Another user of the host, where the tests run as root, keeps nobody away."""

    def flood(self, port):
        script = str(ROOT / "tests" / "e2e" / "flood.py")
        prefix = [*(ORDINARY if reaches(PROGRAM) else []), sys.executable, "-B"]
        child = self.start(port, program=script, prefix=prefix)
        child.wait_line("flooding")
        return child

    def test_serve(self):
        random_file(self.root / "file", MIB)
        self.serve()
        self.get("file")
        before = self.descriptors()
        flood = self.flood(self.address.split(":")[1])
        for _ in range(3):
            self.get("file", "--overwrite", "--sha256")
        self.assertIsNone(flood.poll(), str(flood))
        flood.kill()
        wait_until(lambda: self.descriptors() <= before, 20, "what it had is closed")
        self.assertEqual(self.count("has joined"), 4)
        self.assertGreater(self.count("has not shown"), 0)
        self.assertLess(self.count("warning: control: "), 200, "it fills the log")
        self.stop()

    def pass_sockets(self, kind):
        random_file(self.root / "file", MIB)
        self.serve()
        self.get("file")
        before = self.descriptors()
        script = str(ROOT / "tests" / "e2e" / "flood.py")
        flood = self.start(self.address.split(":")[1], kind, program=script, prefix=[sys.executable, "-B"])
        flood.wait_line("flooding")
        return before, flood

    def assert_well_again(self, before):
        wait_until(lambda: self.descriptors() <= before, 20, "what it had is closed")
        self.get("file", "--overwrite", "--sha256")
        self.assert_healthy()
        self.stop()

    def test_sockets_that_linger(self):
        """More than there are threads that close: nobody else notices."""
        before, flood = self.pass_sockets("linger")
        for _ in range(3):
            self.get("file", "--overwrite", "--sha256")
        self.assertLess(self.descriptors(), before + 100, "descriptors pile up")
        self.assertIsNone(flood.poll(), str(flood))
        flood.kill()
        self.assert_well_again(before)

    def test_sockets_in_sockets(self):
        """Closes that nobody can hasten: no more descriptors are taken until they end."""
        before, flood = self.pass_sockets("nested")
        line = "descriptors that came from peers cannot be closed"
        wait_until(lambda: self.count(line) > 0, 20, "it takes no more")
        self.assertLess(self.descriptors(), before + 1500, "descriptors pile up")
        flood.kill()
        self.assert_well_again(before)

    def test_insecure_lets_them_in(self):
        if not ORDINARY or not reaches(PROGRAM):
            self.skipTest(f"no other user who reaches {PROGRAM}")
        random_file(self.root / "file", MIB)
        taken = self.folder / "taken"
        taken.mkdir()
        taken.chmod(0o777)
        os.chmod(self.folder, 0o755)
        self.serve("--insecure")
        words = ("get", self.address, "file", "--to", taken / "file")
        child = self.run_program(*words, expect=1, prefix=ORDINARY)
        self.assertIn("belongs to user 0, this end to user 65534", child.stderr)
        self.run_program(*words, "--insecure", prefix=ORDINARY)
        self.assertEqual((taken / "file").read_bytes(), (self.root / "file").read_bytes())
        self.get("file")

    def test_receive(self):
        path = self.config(yaml_stream(message="1 KiB", sender="{count: 20000}", ring=64, receiver="{sink: verify}"))
        receiver = self.start("receive", path)
        receiver.wait_line("waiting at")
        flood = self.flood(self.port)
        self.run_program("send", path)
        self.assertEqual(receiver.wait(), 0, str(receiver))
        self.assertIsNone(flood.poll(), str(flood))


if __name__ == "__main__":
    main(side_by_side=3)
