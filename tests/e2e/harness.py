# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the program as a child, its lines, its leftovers.

Nothing here sleeps for a fixed time: it waits for a line, an exit or a condition,
and each wait has a deadline.
"""
import contextlib
import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import result_schema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "penstock"
FAKES = BUILD / "tests" / "fakes"
SANITIZED = os.environ.get("PENSTOCK_SANITIZED") == "1"
HAS_PCAP = os.environ.get("PENSTOCK_PCAP", "1") == "1"
# A sanitized program is several times slower, and machines that test are often busy.
PATIENCE = 5 if SANITIZED else 1
# A deadline of a wait ends what hangs; it judges no speed, and any process may wait for a CPU.
HANGS = 120


def wait_until(condition, seconds, what):
    """Poll until condition() is true; its value. Fails after the deadline: so many seconds, HANGS
    of them at least."""
    seconds = max(seconds, HANGS)
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds * PATIENCE} s still not: {what}")
        time.sleep(0.01)


claims = []  # held to this process's end


def claim(port):
    """Whether this port is ours alone among the tests of this network namespace."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0penstock-test-port-{port}")
    except OSError:
        holder.close()
        return False
    claims.append(holder)
    return True


def is_free(port):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as probe:
                    probe.bind((host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def free_port(count=1):
    """A port that is free, and so are the next ones, `count` in all, by TCP and by UDP: below
    those that the kernel gives to connections and tests to nobody else."""
    for _ in range(1000):
        first = random.randrange(10000, 32000)
        ports = range(first, first + count)
        if all(is_free(port) for port in ports) and all(claim(port) for port in ports):
            return first
    raise AssertionError("no free ports")


# Under nohup a program that is started here would ignore it, too; one with a handler does not.
signal.signal(signal.SIGHUP, lambda *_: None)


class Child:
    """A running penstock, or another program. Its lines are collected as they come."""

    def __init__(self, *arguments, cwd=None, environment=None, stdout_file=None, prefix=(),
                 program=PROGRAM):
        self.command = [*prefix, str(program), *map(str, arguments)]
        self.process = subprocess.Popen(
            self.command,
            cwd=cwd,
            env=dict(os.environ, **(environment or {})),
            stdin=subprocess.DEVNULL,
            stdout=stdout_file or subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self.pid = self.process.pid
        self.started = time.monotonic()
        self.lines = {"stdout": [], "stderr": []}
        self.usage = None
        self.status = None
        self.readers = [
            threading.Thread(target=self._collect, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
            if stream
        ]
        for reader in self.readers:
            reader.start()

    def _collect(self, name, stream):
        for line in stream:
            self.lines[name].append(line.rstrip("\n"))

    @property
    def stdout(self):
        return "\n".join(self.lines["stdout"])

    @property
    def stderr(self):
        return "\n".join(self.lines["stderr"])

    def __str__(self):
        return f"$ {' '.join(self.command)}\n[exit {self.status}]\n{self.stdout}\n{self.stderr}"

    def wait_line(self, pattern, seconds=HANGS):
        """The first match of pattern in a line of stderr."""

        def search():
            ended = self.poll() is not None  # first: what it said before is looked at, too
            for line in list(self.lines["stderr"]):
                match = re.search(pattern, line)
                if match:
                    return match
            if ended:
                raise AssertionError(f"ended without a line like {pattern!r}\n{self}")
            return None

        try:
            return wait_until(search, seconds, f"a line like {pattern!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self}") from None

    def poll(self):
        if self.status is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._ended(status, usage)
        return self.status

    def _ended(self, status, usage):
        self.status = os.waitstatus_to_exitcode(status)
        self.process.returncode = self.status
        self.usage = usage
        self.seconds = time.monotonic() - self.started
        for reader in self.readers:
            reader.join(HANGS)

    def wait(self, seconds=60):
        """The exit status."""
        try:
            wait_until(lambda: self.poll() is not None, seconds, "ended")
        except AssertionError as error:
            self.kill()
            raise AssertionError(f"{error}\n{self}") from None
        return self.status

    def sockets(self):
        """Inodes of the sockets it has open."""
        inodes = set()
        for path in pathlib.Path(f"/proc/{self.pid}/fd").glob("*"):
            try:
                match = re.match(r"socket:\[(\d+)\]", os.readlink(path))
            except OSError:
                continue
            if match:
                inodes.add(match[1])
        return inodes

    def signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    @contextlib.contextmanager
    def stopped(self):
        """Meanwhile it stands still: what is sent to it comes all at once."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
            self._ended(status, usage)
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def unix_sockets():
    """Inode and name of each Unix socket there is."""
    with open("/proc/net/unix") as table:
        fields = [line.split() for line in table][1:]
    return {row[6]: row[7] if len(row) > 7 else "" for row in fields}


def shared_memory():
    folder = pathlib.Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


class Case(unittest.TestCase):
    """A folder and a port of its own, and no child left running."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.port = free_port()
        self.children = []
        self.shared_memory_before = shared_memory()
        self.sockets = set()

    def tearDown(self):
        for child in self.children:
            child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *arguments, **options):
        options.setdefault("cwd", ROOT)
        environment = {"TMPDIR": str(self.temporary), **options.pop("environment", {})}
        child = Child(*arguments, environment=environment, **options)
        self.children.append(child)
        return child

    def run_program(self, *arguments, expect=0, seconds=60, **options):
        """Run to the end; the child. expect: the exit status it must have."""
        child = self.start(*arguments, **options)
        status = child.wait(seconds)
        if expect is not None:
            self.assertEqual(status, expect, str(child))
        return child

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def result(self, name="out.json"):
        """The result in this file; each that a test reads must be as the schema says."""
        return result_schema.read((self.folder / name).read_text())

    def run_json(self, *arguments, expect=0, **options):
        """Run with --json; the result and the child."""
        out = self.folder / "out.json"
        child = self.run_program(*arguments, "--json", out, expect=expect, **options)
        self.assertTrue(out.exists(), f"no result was written\n{child}")
        return self.result(), child

    def config(self, streams, name="stream.yaml", top=""):
        """A YAML file whose control channel is this test's; streams: YAML of the list."""
        return self.write(
            name,
            "penstock: 1\n"
            f'control: {{address: "127.0.0.1:{self.port}"}}\n'
            "transport: {plugin: loopback}\n"
            f"{top}"
            "streams:\n" + "".join(f"  {line}\n" for line in streams.strip("\n").splitlines()),
        )

    def assert_accounted(self, stream):
        """Every byte: sent == delivered + dropped, none wrong."""
        dropped = sum(stream["dropped"].values())
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"] + dropped, stream)
        self.assertEqual(stream["corrupted"], 0, stream)

    def assert_nothing_left(self, *folders):
        """No temporary file, shared memory or socket is left behind."""
        for folder in (self.temporary, *folders):
            self.assertEqual(sorted(path.name for path in folder.iterdir()), [], folder)
        left = {name for name in shared_memory() - self.shared_memory_before if ours(name)}
        self.assertEqual(left, set(), "/dev/shm")
        left = {inode: name for inode, name in unix_sockets().items() if inode in self.sockets}
        self.assertEqual(left, {}, "Unix sockets")

    def in_one_of_three(self, attempt):
        """What other programs spoil that take the CPU away for as long as a run lasts, and a fault
        spoils each time: attempt() gives None, or why not; what must never be it asserts."""
        for _ in range(3):
            why = attempt()
            if why is None:
                return
        self.fail(f"in none of three runs; in the last: {why}")

    def only_stream(self, result):
        (stream,) = result["streams"]
        return stream


def ours(name):
    # Simulated fabrics belong to their launchers, which may run beside, for another test; so may
    # a fuzzer.
    if name.startswith(("penstock-simverbs", "penstock-fuzz-")):
        return False
    return "penstock" in name.lower() or name.startswith("pst")


def random_file(path, length):
    """Random bytes that cost little to make: blocks of them, each with its number."""
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        written = 0
        while written < length:
            head = written.to_bytes(8, "little")
            part = (head + block[8:])[: length - written]
            file.write(part)
            written += len(part)
    return path


def yaml_stream(name="packets", **parts):
    """One item of `streams`, from flow-style strings. Peers that wait for a CPU are not dead."""
    parts = {"timeout": "1 min", **parts}
    lines = [f"- name: {name}"]
    lines += [f"  {key}: {value}" for key, value in parts.items()]
    return "\n".join(lines) + "\n"


class _Result(unittest.TextTestResult):
    """Also notes each case in the file that the runner counts."""

    def _note(self, outcome, test, why=""):
        path = os.environ.get("PENSTOCK_CASES")
        if path:
            with open(path, "a") as file:
                file.write(json.dumps([outcome, test.id(), why]) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._note("passed", test)

    def addError(self, test, err):
        super().addError(test, err)
        self._note("failed", test, str(err[1]))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note("failed", test, str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note("skipped", test, reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note("failed", subtest, str(err[1]))


def main():
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=2, stream=sys.stdout)
    run = unittest.main(module="__main__", testRunner=runner, exit=False).result
    counts = (run.testsRun, len(run.failures) + len(run.errors), len(run.skipped))
    print(f"{counts[0] - counts[1] - counts[2]} passed, {counts[1]} failed, {counts[2]} skipped")
    sys.exit(0 if run.wasSuccessful() else 1)
