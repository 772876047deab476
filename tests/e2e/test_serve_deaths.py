#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve and its clients, killed in each state, one after the other: nothing half-written has a
name, what is left is gone on with, and a server that was not killed is as it was."""
import contextlib
import ctypes
import os
import signal
import unittest

from harness import BUILD, FEWER, SANITIZED, main, random_file, wait_until
from serving import MIB, PART, ServeCase, sha256

HELLO = "hello 1"
STEPS_MAX = 400
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


class Clients(ServeCase):
    """At each message of a session: once it is answered, and while it is not."""

    def sessions(self, crc):
        yield [HELLO, "crc 7 4096", "create NAME 8192", f"store 0 0 4096 1 0 {crc}", "check 0 0 4096 64", "hole 0 4096 4096", "commit 0",
               "close 0"]  # fmt: skip
        yield [HELLO, "open file", "fetch 0 0 65536 1 0", "check 0 0 65536", "close 0"]
        yield [HELLO, "move 1 65536 3 1 0", "move 2 65536 1 1 0", "list -", "mkdir NAME", "ping"]

    def test_killed_in_each_state(self):
        self.serve()
        random_file(self.root / "file", MIB)
        crc = int(self.stranger("crc 7 4096")[0].split()[1])
        self.wait_all_left()
        before = self.descriptors()
        number = 0
        for session in self.sessions(crc):
            for at in range(len(session) + 1):
                for last in ([], ["!" + session[at]]) if at < len(session) else ([],):
                    number += 1
                    if number % FEWER:
                        continue
                    target = self.root / f"new-{number}"
                    lines = [line.replace("NAME", target.name) for line in session[:at] + last]
                    with self.subTest(lines=lines):
                        self.stranger(*lines, "die", status=-signal.SIGKILL)
                        self.wait_all_left()
                        self.assert_healthy()
                        if target.is_file():
                            self.assertTrue(any("commit" in line for line in lines))
                            self.assertEqual(target.read_bytes(), b"\7" * 4096 + bytes(4096))
        self.wait_all_left()
        wait_until(lambda: self.descriptors() <= before, 20, "no descriptor is left")
        self.stop()
        self.assert_nothing_left()


@unittest.skipIf(SANITIZED, "what is preloaded comes before the sanitizer")
class Steps(ServeCase):
    """Right before each call on files of the one who writes, or reads, the file."""

    def dying(self, step, begins):
        library = str(BUILD / "tests" / "e2e" / "libdies.so")
        emulated = os.environ.get("QEMU_SET_ENV")  # tests/arm64: LD_PRELOAD=..., and what comes before that
        preload = {"QEMU_SET_ENV": emulated.replace("=", f"={library}:", 1)} if emulated else {"LD_PRELOAD": library}
        return {**preload, "DIES_AT": str(step), "DIES_FROM": begins}

    def copy(self, verb):
        return [verb, self.address, "file", "--chunk", "64KiB", "--depth", 2, "--overwrite"]

    def assert_whole_or_not_there(self, target):
        if target.exists():
            self.assertEqual(sha256(target), self.sum)

    def resume(self, verb, target):
        child = self.run_program(*self.copy(verb), "--resume", "--sha256", cwd=self.here)
        self.assertEqual(sha256(target), self.sum, str(child))
        self.assertFalse(target.with_name(f".{target.name}{PART}").exists())
        target.unlink()

    def begin(self, verb):
        source, target = (self.root, self.here) if verb == "get" else (self.here, self.root)
        self.sum = sha256(random_file(source / "file", 300 * 1024 + 7))
        return target / "file"

    def kill_servers(self, verb, begins):
        target = self.begin(verb)
        for step in range(1, STEPS_MAX, FEWER):
            self.serve("--overwrite", environment=self.dying(step, begins))
            client = self.start(*self.copy(verb), cwd=self.here)
            if client.wait() == 0:  # it may die behind the last answer, or never
                self.server.signal(signal.SIGTERM)
            if self.server.wait() == 0:
                return step
            self.assertEqual(self.server.status, -signal.SIGKILL, f"{self.server}\n{client}")
            self.assert_whole_or_not_there(target)
            self.serve("--overwrite")
            self.resume(verb, target)
            self.stop()
        self.fail("it has not come to its end")

    def kill_clients(self, verb, begins):
        target = self.begin(verb)
        self.serve("--overwrite")
        for step in range(1, STEPS_MAX, FEWER):
            client = self.start(*self.copy(verb), cwd=self.here, environment=self.dying(step, begins))
            if client.wait() == 0:
                return step
            self.assertEqual(client.wait(), -signal.SIGKILL, str(client))
            self.wait_let_go(target, target.with_name(f".{target.name}{PART}"))
            self.assert_whole_or_not_there(target)
            self.assert_healthy()
            self.resume(verb, target)
        self.fail("it has not come to its end")

    def test_a_server_that_writes(self):
        self.assertGreater(self.kill_servers("put", PART), 15)

    def test_a_server_that_reads(self):
        self.assertGreater(self.kill_servers("get", "file"), 5)

    def test_a_client_that_writes(self):
        self.assertGreater(self.kill_clients("get", PART), 15)

    def test_a_client_that_reads(self):
        self.assertGreater(self.kill_clients("put", "file"), 5)


@unittest.skipIf(SANITIZED, "a sanitizer traces the process itself")
class Standstill(ServeCase):
    """The thread that serves stands still, and the server's control channel goes on."""

    @contextlib.contextmanager
    def still(self):
        pid = self.server.pid
        trace = ctypes.CDLL(None, use_errno=True).ptrace
        trace.restype = ctypes.c_long
        if trace(PTRACE_SEIZE, pid, None, None) < 0:
            self.skipTest(f"ptrace: {os.strerror(ctypes.get_errno())}")
        trace(PTRACE_INTERRUPT, pid, None, None)
        os.waitpid(pid, WALL)
        try:
            yield
        finally:
            self.assertEqual(trace(PTRACE_DETACH, pid, None, None), 0)

    def request(self, timeout):
        words = ("request", "write", self.address, "--size", "4KiB", "--duration", "60", "--timeout", timeout)
        client = self.start(*words)
        self.wait_joined(1)
        return client

    def test_timeout(self):
        self.serve()
        client = self.request("3s")
        with self.still():
            self.assertEqual(client.wait(), 1, str(client))
        self.assertRegex(str(client), "the server is connected, but has not answered for 4.5 s; look at its log")
        self.wait_all_left()
        self.assert_healthy()

    def test_one_signal(self):
        self.serve()
        client = self.request("1h")
        with self.still():
            client.signal(signal.SIGTERM)
            self.assertEqual(client.wait(), 1, str(client))
        self.assertIn("stopped by SIGTERM", str(client))
        self.wait_all_left()
        self.assert_healthy()


if __name__ == "__main__":
    main(side_by_side=3)
