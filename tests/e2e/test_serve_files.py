#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""get and put: equality, holes, names, resuming what was killed, full disks, little memory."""
import contextlib
import fcntl
import os
import pathlib
import pty
import random
import re
import signal
import subprocess
import unittest

import result_schema
from harness import BUILD, FEWER, SANITIZED, main, random_file, wait_until
from memory_limit import Cgroup, is_in_memory
from serving import MIB, PART, ServeCase, parts, sha256, tree

KILLS = int(os.environ.get("PENSTOCK_SERVE_KILLS", 3 if SANITIZED or FEWER > 1 else 5))
KILLED_MIB = int(os.environ.get("PENSTOCK_SERVE_KILLED_MIB", 32))
LARGE_MIB = int(os.environ.get("PENSTOCK_SERVE_LARGE_MIB", 128 // FEWER))


def sparse_file(path):
    """2 MiB of data in 64."""
    with open(path, "wb") as file:
        file.truncate(64 * MIB)
        for at in (5 * MIB + 1, 40 * MIB):
            file.seek(at)
            file.write(os.urandom(MIB))
    return path


class Copies(ServeCase):
    def test_lengths_at_the_edges(self):
        self.serve()
        lengths = (0, 1, 4095, 4096, 4097, MIB - 1, MIB, MIB + 1, 9 * MIB + 13)
        for length in lengths:
            random_file(self.root / f"{length}", length)
        self.get(*map(str, lengths), "--sha256")
        self.assertEqual(tree(self.root), tree(self.here))
        self.put(*map(str, lengths), "--to", "up/", "--sha256")
        self.assertEqual(tree(self.here), tree(self.root / "up"))
        self.stop()
        self.assert_nothing_left()

    def test_chunks_and_depths(self):
        self.serve("--in-flight", "4MiB")
        for chunk, depth, length in (("4KiB", 1, 2 * MIB), ("64KiB", 64, 20 * MIB), ("16MiB", 3, 20 * MIB), (12345, 5, 5 * MIB)):
            with self.subTest(chunk=chunk, depth=depth):
                random_file(self.root / "file", length + 7)
                self.get("file", "--chunk", chunk, "--depth", depth, "--overwrite")
                self.assertEqual(sha256(self.here / "file"), sha256(self.root / "file"))
                self.put("file", "--chunk", chunk, "--depth", depth, "--to", f"up-{depth}")
                self.assertEqual(sha256(self.here / "file"), sha256(self.root / f"up-{depth}"))

    def make_tree(self, folder):
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "empty").mkdir()
        for number in range(150):
            random_file(folder / "a" / f"f{number}", number * 37)
        random_file(folder / "a" / "b" / "large", 5 * MIB + 1)
        (folder / "a" / "b" / "runs").write_text("#!/bin/sh\n")
        (folder / "a" / "b" / "runs").chmod(0o755)
        sparse_file(folder / "sparse")
        (folder / "spaces and ümlauts").write_text("x")
        (folder / "link").symlink_to("/etc/passwd")
        os.mkfifo(folder / "fifo")
        random_file(folder / f".left{PART}", 10)

    def assert_same_tree(self, one, other):
        left = {name: value for name, value in tree(one).items() if not name.endswith(PART) and name != "link"}
        self.assertEqual(left, tree(other))
        for name in ("a/b/runs", "a/b/large"):
            self.assertEqual(os.access(one / name, os.X_OK), os.access(other / name, os.X_OK))
        self.assertLess((other / "sparse").stat().st_blocks * 512, 4 * MIB)

    def test_a_bar_on_a_terminal(self):
        """Where standard error is one, and gone when all is there."""
        self.serve()
        random_file(self.root / "file", 4 * MIB)
        ours, theirs = pty.openpty()
        with open(ours, "rb", buffering=0) as terminal:
            with open(theirs, "wb", buffering=0) as standard_error:
                child = subprocess.Popen([BUILD / "penstock", "get", self.address, "file", "--chunk", "4KiB", "--depth", "1"],
                                         cwd=self.here, stderr=standard_error)  # fmt: skip
            self.addCleanup(child.kill)
            shown = b""
            with contextlib.suppress(OSError):  # EIO is the end of a terminal's file
                while piece := terminal.read(4096):
                    shown += piece
        self.assertEqual(child.wait(), 0, shown)
        bars = re.findall(rb"\r\[#*\.*\] +\d+% [\d.]+ of 4\.19 MB, [\d.]+ .?B/s, [01] files? done\x1b\[K", shown)
        self.assertTrue(bars, shown)
        self.assertTrue(shown.split(bars[-1])[1].startswith(b"\r\x1b[Kgot 1 file, 4194304 bytes"), shown)
        # Not into a file.
        self.assertNotIn("\r", self.get("file", "--overwrite").stderr)

    def test_folders(self):
        self.serve()
        self.make_tree(self.root / "data")
        child = self.get("data", "--recursive", "--sha256")
        self.assert_same_tree(self.root / "data", self.here / "data")
        self.assertIn("2 left out", child.stderr)
        self.put("data", "--recursive", "--to", "copy", "--sha256")
        self.assert_same_tree(self.here / "data", self.root / "copy" / "data")
        (self.here / "all").mkdir()
        self.get(".", "--recursive", "--to", "all")
        self.assert_same_tree(self.root / "data", self.here / "all" / "data")
        self.assert_same_tree(self.root / "data", self.here / "all" / "copy" / "data")

    def test_names_that_nobody_can_ask_for(self):
        self.serve()
        names = ["new\nline", "\x1b[31mred", "long" * 62]
        for side in (self.root, self.here):
            folder = side / "data"
            folder.mkdir()
            (folder / "good").write_text("good")
            (folder / f".unfinished{PART}").write_text("half")
            for name in names:
                (folder / name).write_text("never seen")
            (folder / "a\nfolder").mkdir()
            (folder / "a\nfolder" / "in it").write_text("nor this")
        # Each is reported as a failure, on one line without control characters.
        (self.here / "new").mkdir()
        said = self.get("data", "--recursive", "--to", "new", expect=1).stderr
        sent = self.put("data", "--recursive", "--to", "new", expect=1).stderr
        self.assertRegex(said, r"got 1 file, .* \| 4 failed")
        self.assertRegex(sent, r"put 1 file, .* \| 1 left out \| 4 failed")
        for text in (said, sent):
            for name in ("new?line", "?[31mred", "long" * 62, "a?folder"):
                self.assertRegex(text, re.escape(f"data/{name}: "))
            self.assertNotIn("\x1b", text)
        for side in (self.root, self.here):
            self.assertEqual(sorted(tree(side / "new")), ["data", "data/good"])

    def test_what_exists_stays(self):
        self.serve()
        (self.root / "file").write_text("the server's")
        (self.here / "file").write_text("ours")
        self.assertIn("--overwrite", self.get("file", expect=1).stderr)
        self.assertIn("--overwrite", self.put("file", expect=1).stderr)
        # The server has the last word.
        self.assertIn("--overwrite", self.put("file", "--overwrite", expect=1).stderr)
        self.assertEqual((self.root / "file").read_text(), "the server's")
        self.assertEqual((self.here / "file").read_text(), "ours")
        self.get("file", "--overwrite")
        self.assertEqual((self.here / "file").read_text(), "the server's")
        self.stop()
        (self.here / "file").write_text("ours")
        self.serve("--overwrite")
        self.put("file", "--overwrite")
        self.assertEqual((self.root / "file").read_text(), "ours")
        self.assertEqual(parts(self.folder), [])

    def test_resume_of_a_folder_passes_over_what_is_through(self):
        self.serve()
        for side in (self.root, self.here):
            (side / "data" / "sub").mkdir(parents=True)
        for name, bytes_ in {"empty": b"", "same": os.urandom(3 * MIB + 17), "sub/small": b"12345"}.items():
            for side in (self.root, self.here):
                (side / "data" / name).write_bytes(bytes_)
        for source, there, copy in ((self.root, self.here, self.get), (self.here, self.root, self.put)):
            with self.subTest(copy=copy.__name__):
                random_file(source / "data" / "missing", 2 * MIB)
                # As long, and of one byte another; and of another length.
                for name, change in (("other", 1), ("longer", 0)):
                    bytes_ = bytearray(os.urandom(MIB))
                    (source / "data" / name).write_bytes(bytes_)
                    bytes_[-1] ^= change
                    (there / "data" / name).write_bytes(bytes_ + b"x" * (1 - change))
                kept = {name: (there / "data" / name).read_bytes() for name in ("other", "longer")}
                child = copy("data", "--recursive", "--resume", "--json", "r.json", expect=1)
                for name in kept:
                    self.assertRegex(child.stderr, f"data/{name}: it exists .*--overwrite")
                    self.assertEqual((there / "data" / name).read_bytes(), kept[name])
                    (there / "data" / name).unlink()
                    (source / "data" / name).unlink()
                done = result_schema.read((self.here / "r.json").read_text())["copy"]
                self.assertEqual((done["files"], done["failed"]), (4, 2))
                self.assertEqual(done["bytes_moved"], 2 * MIB)
                self.assertEqual(done["bytes_resumed"], 3 * MIB + 17 + 5)
                child = copy("data", "--recursive", "--resume")
                self.assertRegex(child.stderr, f"4 files, .* {5 * MIB + 22} bytes were there")
                self.assertEqual(tree(self.root / "data"), tree(self.here / "data"))
                for side in (source, there):
                    (side / "data" / "missing").unlink()
        self.assertEqual(parts(self.folder), [])

    def test_one_that_fails_lets_the_others_go_on(self):
        self.serve()
        for name in ("one", "three"):
            random_file(self.root / name, 100000)
        child = self.get("one", "two", "three", expect=1)
        self.assertRegex(child.stderr, "two: .*No such file")
        self.assertEqual(tree(self.root), tree(self.here))

    def test_a_folder_that_is_missing(self):
        """Which one, and that it is to be created; nothing is, at either end."""
        self.serve()
        for side in (self.root, self.here):
            for name in ("one", "two"):
                (side / name).touch()
        gone = "No such file or directory; create the folder"
        for names, to, said in ((("one",), "new/", f"--to new/: {gone}"),
                                (("one",), "new/name", f"--to new: {gone}"),
                                (("one", "two"), "new", f"--to new: {gone}"),
                                (("one",), "two/", "--to two/: Not a directory; a file stands")):  # fmt: skip
            with self.subTest(get=names, to=to):
                self.assertIn(said, self.get(*names, "--to", to, expect=2).stderr)
        for to in ("new/name", "new/folder/"):
            with self.subTest(put=to):
                said = self.put("one", "--to", to, expect=1).stderr
                self.assertIn("the folder that it would lie in is not there; create it at the server first", said)
        for side in (self.root, self.here):
            self.assertEqual(sorted(tree(side)), ["one", "two"])

    def test_a_result_is_json_whatever_bytes_a_name_has(self):
        self.serve()
        name = b"a\xffb\xc3\xa4\xe2"
        (self.root / os.fsdecode(name)).write_bytes(b"12345")
        self.get(os.fsdecode(name), "--json", "r.json")
        done = result_schema.read((self.here / "r.json").read_bytes())
        self.assertIn("a?b\u00e4?", done["command_line"])
        self.assertEqual(done["copy"]["files"], 1)

    def test_read_only_and_no_files(self):
        self.serve("--read-only")
        random_file(self.here / "file", 1000)
        self.assertIn("--read-only", self.put("file", expect=1).stderr)
        self.assertEqual(tree(self.root), {})
        self.stop()
        self.serve(root=False)
        self.assertIn("--root", self.get("file", expect=1).stderr)

    def test_where_io_uring_is_forbidden(self):
        """The server says what it does instead."""
        forbid = ("import ctypes,os,struct,sys\n"
                  "libc=ctypes.CDLL(None,use_errno=True)\n"
                  "code=b''.join(struct.pack('HBBI',*f) for f in ((0x20,0,0,0),(0x15,0,1,425),(6,0,0,0x50001),(6,0,0,0x7fff0000)))\n"
                  "buffer=ctypes.create_string_buffer(code)\n"
                  "program=ctypes.create_string_buffer(struct.pack('HxxxxxxP',4,ctypes.addressof(buffer)))\n"
                  "assert libc.prctl(38,1,0,0,0)==0 and libc.prctl(22,2,program,0,0)==0\n"
                  "os.execvp(sys.argv[1],sys.argv[1:])\n")  # fmt: skip
        self.serve(prefix=["python3", "-c", forbid])
        self.assertIn("threads, since io_uring", self.server.stderr)
        random_file(self.root / "file", 7 * MIB + 3)
        self.get("file", "--sha256", "--json", "r.json", prefix=["python3", "-c", forbid])
        self.assertEqual(result_schema.read((self.here / "r.json").read_text())["copy"]["io"], "threads")
        self.put("file", "--to", "up", "--sha256")
        self.assertEqual(sha256(self.root / "up"), sha256(self.root / "file"))

    def test_a_file_that_changes_meanwhile(self):
        """Shorter, or written to, while it is read: refused, and nothing under its name."""
        self.serve()

        def cut(verb, source, target):
            """None, or that it was through before."""
            random_file(source, 64 * MIB)
            target.unlink(missing_ok=True)
            client = self.start(verb, self.address, source.name, "--chunk", "4KiB", "--depth", 1, cwd=self.here)
            wait_until(lambda: parts(target.parent) or client.poll() is not None, 20, "it has begun")
            size = source.stat().st_size
            os.truncate(source, MIB)
            if client.wait() == 0:
                self.assertEqual(target.stat().st_size, size)
                return str(client)
            self.assertEqual(client.status, 1, str(client))
            self.assertRegex(client.stderr, "became shorter|was changed")
            self.assertFalse(target.exists())
            return None

        self.in_one_of_three(lambda: cut("get", self.root / "file", self.here / "file"))
        self.in_one_of_three(lambda: cut("put", self.here / "other", self.root / "other"))
        self.assert_healthy()


def size_of(path):
    """-1: there is none, or no more."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1


class Interrupted(ServeCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(4711)
        self.serve("--overwrite")
        self.source = random_file(self.folder / "source", KILLED_MIB * MIB + 4321)
        self.sum = sha256(self.source)

    def kill_and_resume(self, victim_of, command, target):
        """Killed when a random share of the bytes is there, again and again; then resumed."""
        part = target.with_name(f".{target.name}{PART}")
        resumed = tries = 0
        while tries < KILLS or (resumed == 0 and tries < 10 * KILLS):  # each time it may be faster
            tries += 1
            share = self.random.random()
            client = self.start(*command, cwd=self.here)
            wanted = share * self.source.stat().st_size
            wait_until(lambda: size_of(part) >= wanted or client.poll() is not None, 60, "that much is there")
            victim_of(client)
            client.kill()
            if self.server.poll() is not None:
                self.serve("--overwrite")
                command[1] = self.address
            self.wait_let_go(part, target)
            if not part.exists():  # it was faster
                self.assertEqual(sha256(target), self.sum)
                target.unlink()
                continue
            out = self.folder / "resumed.json"
            child = self.run_program(*command, "--resume", "--sha256", "--json", out, cwd=self.here, seconds=60 + KILLED_MIB // 8)
            self.assertEqual(sha256(target), self.sum, str(child))
            self.assertFalse(part.exists())
            resumed += self.result("resumed.json")["copy"]["bytes_resumed"]
            target.unlink()
        self.assertGreater(resumed, 0)

    def test_get_killed(self):
        os.link(self.source, self.root / "file")
        self.kill_and_resume(lambda client: None, ["get", self.address, "file"], self.here / "file")

    def test_put_killed(self):
        os.link(self.source, self.here / "file")
        self.kill_and_resume(lambda client: None, ["put", self.address, "file"], self.root / "file")

    def test_server_killed(self):
        os.link(self.source, self.here / "file")
        self.kill_and_resume(lambda client: self.server.kill(), ["put", self.address, "file"], self.root / "file")

    def test_requests_under_way_are_reported_when_the_server_goes(self):
        os.link(self.source, self.here / "file")

        def lose():
            client = self.start("put", self.address, "file", "--resume", cwd=self.here)
            part = self.root / f".file{PART}"
            wait_until(lambda: part.exists() or client.poll() is not None, 60, "something is there")
            self.server.kill()
            if client.wait() == 0:  # it was faster
                self.serve("--overwrite")
                (self.root / "file").unlink()
                return str(client)
            self.assertRegex(client.stderr, "file: .*lost the peer.*; --resume continues it")
            self.assertEqual(client.stderr.count("penstock: error:"), 1, str(client))
            self.assertRegex(client.stderr, r"put 0 files, 0 bytes .* \| 1 failed")
            return None

        self.in_one_of_three(lose)

    def test_a_server_that_goes_is_reported_once_for_all(self):
        many = self.root / "many"
        many.mkdir()
        for i in range(40):
            os.link(self.source, many / f"file{i}")
        client = self.start("get", self.address, "many", "--recursive", cwd=self.here)
        wait_until(lambda: (self.here / "many").exists() or client.poll() is not None, 60, "it has begun")
        self.server.kill()
        self.assertEqual(client.wait(), 1, str(client))
        self.assertRegex(client.stderr, r"lost the peer.*; \d+ files? copied, --resume continues with the others")
        self.assertEqual(client.stderr.count("penstock: error:"), 1, str(client))

    def test_what_was_left_may_be_of_another_file(self):
        """The part that was left is compared with the file, not trusted."""
        os.link(self.source, self.root / "file")
        with open(self.source, "rb") as source, open(self.here / f".file{PART}", "wb") as part:
            os.fchmod(part.fileno(), 0o600)  # as one is made; what others can read is not resumed
            part.write(source.read(20 * MIB))
            part.seek(7 * MIB + 5)
            part.write(b"other")
            part.seek(30 * MIB)
            part.write(os.urandom(3 * MIB))
        self.get("file", "--resume", "--json", self.folder / "out.json")
        self.assertEqual(sha256(self.here / "file"), self.sum)
        resumed = self.result()["copy"]["bytes_resumed"]
        self.assertGreater(resumed, 15 * MIB)
        self.assertLess(resumed, 20 * MIB)

    def test_holes_where_data_was_left(self):
        sparse_file(self.root / "sparse")
        random_file(self.here / f".sparse{PART}", 80 * MIB)
        self.get("sparse", "--resume", "--sha256")
        self.assertEqual(sha256(self.here / "sparse"), sha256(self.root / "sparse"))
        random_file(self.root / f".up{PART}", 80 * MIB)
        self.put("sparse", "--to", "up", "--resume", "--sha256")
        self.assertEqual(sha256(self.here / "sparse"), sha256(self.root / "up"))
        self.assertLess((self.root / "up").stat().st_blocks * 512, 4 * MIB)

    def test_a_signal_leaves_what_can_be_resumed(self):
        name = "a: file"
        os.link(self.source, self.root / name)
        part = self.here / f".{name}{PART}"

        def attempt():
            (self.here / name).unlink(missing_ok=True)
            client = self.start("get", self.address, name, "--chunk", "4KiB", "--depth", 1, "--json", "out.json",
                                cwd=self.here)  # fmt: skip
            wait_until(lambda: size_of(part) > 0 or client.poll() is not None, 20,
                       "it has begun")  # fmt: skip
            client.signal(signal.SIGINT)
            if client.wait() == 0:  # it was faster
                return str(client)
            self.assertEqual(client.status, 1, str(client))
            self.assertIn("--resume", client.stderr)
            result = self.result("here/out.json")
            self.assertEqual([(error["code"], error["where"]) for error in result["errors"]],
                             [("stopped", f"client:{name}")])
            self.assertEqual(result["copy"]["stopped"], "signal")
            return None

        self.in_one_of_three(attempt)
        self.get(name, "--resume")
        self.assertEqual(sha256(self.here / name), self.sum)

    def test_two_at_the_same_file(self):
        """Only one writes it."""
        for name in ("one", "two"):
            os.link(self.source, self.here / name)
        clients = [self.start("put", self.address, name, "--to", "same", "--chunk", "64KiB", cwd=self.here) for name in ("one", "two")]
        statuses = sorted(client.wait() for client in clients)
        self.assertIn(statuses, ([0, 1],), "\n".join(map(str, clients)))
        loser = clients[0] if clients[0].status else clients[1]
        self.assertRegex(loser.stderr, "another transfer|exists")
        self.assertEqual(sha256(self.root / "same"), self.sum)


class Planted(ServeCase):
    """Files that another user has put where they are in the way."""

    def test_files_exchanged_for_links(self):
        """After the folder was read: what a link leads to is not the user's to give away."""
        names = [f"f{i:02}" for i in range(40)]
        secret = self.folder / "secret"
        secret.write_bytes(b"SECRET")
        (self.here / "d").mkdir()
        (self.root / "d").mkdir()
        for name in names:
            (self.here / "d" / name).write_bytes(b"mine")
        # Others are writing all of them at the server: some of them wait, and the rest is not begun.
        held = [open(self.root / "d" / f".{name}{PART}", "wb") for name in names]
        for part in held:
            os.fchmod(part.fileno(), 0o600)
            fcntl.flock(part, fcntl.LOCK_EX)
        self.serve()
        client = self.start("put", self.address, "d", "--recursive", cwd=self.here)
        begun = wait_until(lambda: self.opened_by(client), 20, "put has begun")
        for name in set(names) - begun:
            path = self.here / "d" / name
            path.unlink()
            path.symlink_to(secret)
        for name, part in zip(names, held):
            (self.root / "d" / f".{name}{PART}").unlink()
            part.close()
        self.assertEqual(client.wait(), 1, str(client))
        self.assertNotIn(b"SECRET", [path.read_bytes() for path in (self.root / "d").iterdir()])
        self.assertIn("it was replaced while the folder was read", client.stderr)

    def opened_by(self, client):
        """Names of the folder's files that it has open, once it has as many as it ever has."""
        folder = pathlib.Path(f"/proc/{client.pid}/fd")
        names = set()
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                target = pathlib.Path(os.readlink(path))
                if target.parent == self.here / "d":
                    names.add(target.name)
        return names if len(names) == 8 else None

    @unittest.skipIf(os.getuid() != 0, "root alone can give a file to another user")
    def test_parts_of_another_user(self):
        """A process that has such a file open reads what is written to it, and owns the result."""
        self.serve()
        for folder, other, copy in ((self.root, self.here, self.put), (self.here, self.root, self.get)):
            part = folder / f".file{PART}"
            (other / "file").write_bytes(b"SECRET")
            part.touch()
            os.chown(part, 65534, 65534)
            part.chmod(0o666)
            child = copy("file", "--resume", expect=1)
            self.assertIn("belongs to another user; remove it", child.stderr)
            self.assertEqual(part.read_bytes(), b"")
            self.assertFalse((folder / "file").exists())
            part.unlink()
            copy("file")
            self.assertEqual((folder / "file").stat().st_uid, 0)
            for path in (folder, other):
                (path / "file").unlink()


class Bounded(ServeCase):
    """64 MiB at each end, the server's memory for clients included."""

    def setUp(self):
        super().setUp()
        self.cgroups = []

    def tearDown(self):
        for child in self.children:
            child.kill()
        for cgroup in self.cgroups:
            # A killed process may be counted in the control group a moment longer.
            wait_until(lambda: self.removed(cgroup), 10, "the cgroup is gone")
        super().tearDown()

    @staticmethod
    def removed(cgroup):
        with contextlib.suppress(OSError):
            cgroup.remove()
        return not cgroup.folder.exists()

    def there_and_back(self, server=(), client=()):
        self.serve("--in-flight", "16MiB", "--overwrite", prefix=server)
        source = random_file(self.root / "large", LARGE_MIB * MIB + 17)
        wanted = sha256(source)
        got = self.get("large", "--sha256", seconds=300, prefix=client)
        self.assertEqual(sha256(self.here / "large"), wanted)
        put = self.put("large", "--to", "again", "--sha256", seconds=300, prefix=client)
        self.assertEqual(sha256(self.root / "again"), wanted)
        self.stop()
        return got, put, self.server

    def test_what_each_process_had_at_most(self):
        """RLIMIT_DATA counts all memory of a process's own, stacks included, but not the region
        that it shares with its peer: 16 MiB at the server, 8 at the client. A sanitizer maps far
        more than it uses."""
        peak = 160 * 1024 if SANITIZED else 64 * 1024  # KiB
        limit = [] if SANITIZED else ["prlimit", f"--data={48 * MIB}"]
        for process in self.there_and_back(limit, limit):
            self.assertLess(process.usage.ru_maxrss, peak)

    def test_in_cgroups_that_allow_no_more(self):
        """The page cache counts too: what is written has to get to the disk in time."""
        if is_in_memory(self.folder):
            self.skipTest(f"{self.folder} is memory; set TMPDIR to a folder on a disk")
        for name in ("server", "client"):
            try:
                self.cgroups.append(Cgroup((256 if SANITIZED else 64) * MIB, name))
            except OSError as error:
                self.skipTest(str(error))
        self.there_and_back(*(cgroup.prefix() for cgroup in self.cgroups))
        for cgroup in self.cgroups:
            self.assertEqual(cgroup.killed(), 0)
            # The group must have been near its limit, or the test would show nothing.
            self.assertGreater(cgroup.peak() or LARGE_MIB * MIB, min(LARGE_MIB, 60) * MIB // 2)


class FullDisk(ServeCase):
    mounted = None

    def mount(self, folder):
        run = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "penstock-test", folder], capture_output=True, text=True)
        if run.returncode:
            self.skipTest(f"cannot mount a small file system: {run.stderr.strip()}")
        self.mounted = folder

    def tearDown(self):
        for child in self.children:
            child.kill()
        if self.mounted:
            # A write by io_uring of a killed process may hold the mount a moment longer.
            wait_until(lambda: subprocess.run(["umount", self.mounted]).returncode == 0, 10, "unmounted")
        super().tearDown()

    def test_at_the_server(self):
        self.mount(self.root)
        self.serve()
        random_file(self.here / "large", 64 * MIB)
        random_file(self.here / "small", MIB)
        child = self.put("large", expect=1)
        self.assertRegex(child.stderr, "is more than the server's file system holds, 8388608 bytes")
        self.stop()
        self.serve("--file-max", "64MiB")
        child = self.put("large", expect=1)
        self.assertRegex(child.stderr, "error: server:large: writing it: No space left on device; what there was of it is "
                                       "removed; at the server, free space there")
        self.put("small")
        self.assertEqual(tree(self.root), {"small": sha256(self.here / "small")})
        self.assert_healthy()

    def test_at_the_client(self):
        self.mount(self.here)
        self.serve()
        random_file(self.root / "large", 64 * MIB)
        child = self.get("large", expect=1)
        self.assertRegex(child.stderr, "error: client:large: writing it: No space left on device; what there was of it is "
                                       "removed; free space there, or name a folder elsewhere")
        self.assertEqual(list(self.here.iterdir()), [])
        self.assert_healthy()


class Refused(ServeCase):
    """One fault is one message: the cause, the place, and what helps."""

    def refused(self, verb, *words, where, said, code="failed", expect=1):
        child = self.run_program(verb, self.address, *words, "--json", "r.json", cwd=self.here, expect=expect)
        (error,) = result_schema.read((self.here / "r.json").read_text())["errors"]
        self.assertEqual((error["where"], error["code"]), (where, code))
        self.assertRegex(error["text"], said)
        self.assertEqual(child.stderr.count("penstock: error:"), 1, str(child))
        self.assertIn(error["text"], child.stderr)
        place = where if where != "--to" else "--to "
        self.assertRegex(child.stderr, f"error: {re.escape(place)}")
        return child

    def test_folders_that_cannot_be_made(self):
        """All that should go into them is left out."""
        self.serve("--overwrite")
        for side in (self.root, self.here):
            (side / "data" / "sub" / "deep").mkdir(parents=True)
            for name in ("one", "sub/two", "sub/deep/three"):
                (side / "data" / name).write_text("x")
        link = "a symbolic link has that name, and is not followed; remove the link "
        for side, verb, where, at in ((self.root, "put", "server:", "at the server"),
                                      (self.here, "get", "client:", "here")):
            other = "or choose another destination \\(--to\\)"
            for name in ("data", "data/sub"):
                kept = side / "kept"
                (side / name).rename(kept)
                for make, said in ((lambda path: path.symlink_to("/tmp"), f"^{link}{at}, {other}$"),
                                   (lambda path: path.write_text(""), f"^a file has that name.*; remove it {at}, {other}$")):
                    with self.subTest(verb=verb, name=name, said=said):
                        make(side / name)
                        child = self.refused(verb, "data", "--recursive", "--overwrite", where=where + name, said=said)
                        self.assertIn("1 file," if name == "data/sub" else "0 files,", child.stderr)
                        (side / name).unlink()
                kept.rename(side / name)
        # That of --to, for all of them.
        (self.root / "to").symlink_to("/tmp")
        self.refused("put", "data", "data/one", "--recursive", "--to", "to", where="server:to", said=f"^{link}at the server")

    def test_parts_that_are_planted(self):
        """The part is named: it is what has to go."""
        self.serve()
        for side, verb, where, at in ((self.root, "put", "server:U/a", "at the server"), (self.here, "get", "client:U/a", "here")):
            other = self.here if side == self.root else self.root
            (side / "U").mkdir()
            (other / "a").write_text("x")
            for plant in (lambda path: path.symlink_to("/etc/passwd"), os.mkfifo, pathlib.Path.mkdir):
                with self.subTest(verb=verb):
                    part = side / "U" / f".a{PART}"
                    plant(part)
                    self.refused(verb, "a", "--to", "U/a", where=where,
                                 said=f"its unfinished part beside it, .a{PART}, is not a regular file .*; remove it {at}$")
                    part.rmdir() if part.is_dir() and not part.is_symlink() else part.unlink()
            (other / "a").unlink()

    def test_files_that_are_not_there(self):
        self.serve()
        (self.here / "a").write_text("x")
        (self.root / "a").write_text("y")
        (self.root / "folder").mkdir()
        (self.here / "folder" / "a").mkdir(parents=True)
        gone = "No such file or directory"
        self.refused("put", "nope", where="client:nope", said=f"^{gone}; check its path$")
        self.refused("put", "a/b", where="client:a/b", said="^Not a directory; its path leads through a file; check it$")
        self.refused("put", "folder", where="client:folder", said="^it is a folder .--recursive")
        self.refused("get", "nope", where="server:nope", said=f"^{gone} below the server's root; check the name$")
        self.refused("get", "folder", where="server:folder", said="^it is a folder .--recursive")
        self.refused("put", "a", "--to", "new/a", where="server:new/a", said="not there; create it at the server first$")
        self.refused("get", "a", where="client:a", said="^it exists and is not replaced .--overwrite allows it.$")
        self.refused("get", "a", "--to", "folder/..", where="client:folder/../a", said="^it exists")
        self.refused("get", "a", "--to", "folder/", where="client:folder/a", said="^a folder has that name; choose another")
        self.refused("get", "a", "--to", "new/", where="--to", said=f"^--to new/: {gone}; create", code="usage", expect=2)
        self.refused("get", "../a", where="server:../a", said="cannot be parts of a name", code="usage", expect=2)
        self.refused("put", "a", "--to", "/a", where="--to", said="^--to /a: it is absolute", code="usage", expect=2)

    def test_which_end_lacks_overwrite(self):
        (self.here / "a").write_text("x")
        (self.root / "a").write_text("y")
        self.serve()
        self.refused("put", "a", where="server:a", said=r"\(--overwrite at both ends allows it\)$")
        self.refused("put", "a", "--overwrite", where="server:a", said=r"\(start the server with --overwrite, too, to allow it\)$")
        self.stop()
        self.serve("--overwrite")
        self.refused("put", "a", where="server:a", said=r"\(--overwrite allows it\)$")

    def test_a_server_that_takes_no_files(self):
        """Once for all of them."""
        self.serve("--read-only")
        for name in ("a", "b"):
            (self.here / name).write_text("x")
        child = self.run_program("put", self.address, "a", "b", cwd=self.here, expect=1)
        self.assertEqual(child.stderr.count("penstock: error:"), 1, str(child))
        self.assertRegex(child.stderr, "it was started with --read-only; start it without")

    def test_more_errors_than_a_result_lists(self):
        """A folder may hold any number of what fails; all are counted, and standard error has all."""
        self.serve()
        count = 1200
        (self.root / "data").mkdir()
        (self.here / "data").mkdir()
        for i in range(count):
            (self.root / "data" / f"f{i}").touch()
            (self.here / "data" / f"f{i}").touch()
        child = self.get("data", "--recursive", "--json", "r.json", expect=1)
        result = result_schema.read((self.here / "r.json").read_text())
        self.assertEqual((result["copy"]["failed"], result["copy"]["stopped"]), (count, "failure"))
        self.assertEqual(len({error["where"] for error in result["errors"]}), 1001)
        self.assertEqual(result["errors"][-1]["text"], "200 more failed; standard error has named them")
        self.assertEqual(child.stderr.count("penstock: error:"), count)


class Limits(ServeCase):
    def test_a_root_that_was_removed(self):
        """The error says that the root is gone, not that it is empty; the server goes on."""
        self.serve()
        (self.here / "file").write_bytes(b"x")
        self.root.rmdir()
        for words in (("get", self.address, "run7"), ("put", self.address, "file"), ("get", self.address, "", "--recursive")):
            child = self.run_program(*words, cwd=self.here, expect=1)
            self.assertRegex(child.stderr, "the server's root is gone")

    def test_a_file_size_limit(self):
        """RLIMIT_FSIZE: the write's own error, not a signal's."""
        self.serve()
        random_file(self.root / "file", 48 * MIB)
        # The limit also holds for the region's shared memory.
        child = self.start("get", self.address, "file", cwd=self.here,
                           prefix=["prlimit", f"--fsize={16 * MIB}"])  # fmt: skip
        self.assertEqual(child.wait(), 1, str(child))
        self.assertRegex(child.stderr, "(?i)file too large")
        self.assertFalse((self.here / "file").exists())


if __name__ == "__main__":
    main(side_by_side=4)
