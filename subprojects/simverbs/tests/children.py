# SPDX-License-Identifier: Apache-2.0
"""Programs as children of a test: their lines, their ends, and the runner that counts cases. Penstock's
own end-to-end tests stand on it, too.

Nothing here sleeps for a fixed time: it waits for a line, an exit or a condition, and each wait has
a deadline.
"""
import contextlib
import errno
import fcntl
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("SIMVERBS_BUILD", ROOT / "build")).resolve()
SANITIZED = os.environ.get("PENSTOCK_SANITIZED") == "1"
# A sanitized program is several times slower, an emulated one more (PENSTOCK_PATIENCE), and machines that test are
# often busy.
PATIENCE = int(os.environ.get("PENSTOCK_PATIENCE", 5 if SANITIZED else 1))
# Tests that try many like cases, or move many bytes, do one in so many: for an emulated machine.
FEWER = int(os.environ.get("PENSTOCK_FEWER", 1))
# A deadline of a wait ends what hangs; it judges no speed, and any process may wait for a CPU.
HANGS = 240


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
    """A running program. Its lines are collected as they come."""

    def __init__(self, *arguments, program, cwd=None, environment=None, stdout_file=None, prefix=()):
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


class Case(unittest.TestCase):
    """A folder and a port of its own, and no child left running."""

    maxDiff = None
    root = None  # where programs run; None: where the test does
    child = Child

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="e2e-"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.port = free_port()
        self.children = []

    def tearDown(self):
        for child in self.children:
            child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *arguments, **options):
        options.setdefault("cwd", self.root)
        environment = {"TMPDIR": str(self.temporary), **options.pop("environment", {})}
        child = self.child(*arguments, environment=environment, **options)
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


def alone(case):
    """Marks a case or a class that judges speed, and so needs the machine for itself. PENSTOCK_ALONE=1
    runs such cases only, 0 all but such."""
    case.is_alone = True
    return case


class _Loader(unittest.TestLoader):
    def getTestCaseNames(self, testCaseClass):
        names = super().getTestCaseNames(testCaseClass)
        wanted = os.environ.get("PENSTOCK_ALONE")
        return [name for name in names if wanted is None or self._is_alone(testCaseClass, name) == (wanted == "1")]

    @staticmethod
    def _is_alone(cls, name):
        return getattr(cls, "is_alone", False) or getattr(getattr(cls, name), "is_alone", False)


class _SideBySide:
    """A runner of cases that wait more than they work: several processes take them one by one, and
    show what a case printed when it has ended. A class with fixtures of its own is one of them."""

    def __init__(self, processes):
        self.processes = processes

    def run(self, suite):
        units = list(self._units(suite))
        numbers, fill = os.pipe()
        with open(fill, "wb") as pipe:  # it has room for all
            pipe.write(b"".join(number.to_bytes(2, "little") for number in range(len(units))))
        with tempfile.TemporaryFile("w+") as counts:
            sys.stdout.flush()
            workers = [self._fork(units, numbers, counts) for _ in range(self.processes)]
            statuses = [os.waitpid(worker, 0)[1] for worker in workers]
            counts.seek(0)
            rows = [tuple(map(int, line.split())) for line in counts]
        os.close(numbers)
        self.testsRun, failed, self.skipped = (sum(column) for column in zip((0, 0, 0), *rows))
        self.failed = failed + sum(status != 0 for status in statuses)
        return self

    def _units(self, suite):
        for part in suite:
            if isinstance(part, unittest.TestCase) or self._has_fixtures(part):
                yield part
            else:
                yield from self._units(part)

    @staticmethod
    def _has_fixtures(suite):
        return any(isinstance(case, unittest.TestCase) and
                   type(case).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__ for case in suite)

    def _fork(self, units, numbers, counts):
        worker = os.fork()
        if worker:
            return worker
        status = 1
        try:
            random.seed()
            shown = os.dup(1)
            while number := os.read(numbers, 2):
                self._run_unit(units[int.from_bytes(number, "little")], shown, counts)
            status = 0
        finally:
            os._exit(status)

    @staticmethod
    def _run_unit(unit, shown, counts):
        with tempfile.TemporaryFile() as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            result = unittest.TextTestRunner(resultclass=_Result, verbosity=2, stream=sys.stdout).run(
                unittest.TestSuite([unit]))  # fmt: skip
            sys.stdout.flush()
            printed.seek(0)
            fcntl.lockf(counts, fcntl.LOCK_EX)
            with open(os.dup(shown), "wb") as output:
                shutil.copyfileobj(printed, output)
            counts.seek(0, os.SEEK_END)
            counts.write(f"{result.testsRun} {len(result.failures) + len(result.errors)} {len(result.skipped)}\n")
            counts.flush()
            fcntl.lockf(counts, fcntl.LOCK_UN)


def main(side_by_side=1):
    """Runs the cases that the command line names, or all; so many at once, where they wait more than
    they work."""
    is_alone = os.environ.get("PENSTOCK_ALONE") == "1"
    if side_by_side > 1 and not is_alone:
        run = _run(_SideBySide(side_by_side))
        counts = run.testsRun, run.failed, run.skipped
    else:
        run = _run(unittest.TextTestRunner(resultclass=_Result, verbosity=2, stream=sys.stdout))
        counts = run.testsRun, len(run.failures) + len(run.errors), len(run.skipped)
    print(f"{counts[0] - counts[1] - counts[2]} passed, {counts[1]} failed, {counts[2]} skipped")
    sys.exit(1 if counts[1] else 0)


def _run(runner):
    return unittest.main(module="__main__", testLoader=_Loader(), testRunner=runner, exit=False).result
