#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pyverbs' own tests (Debian's python3-pyverbs and rdma-core) on the simulated device.

pyverbs.txt says of each how it goes: passes, or skips or fails and why that is out of scope. A test
that goes otherwise fails here, also one that begins to pass, so that the list stays true.

usage: test_pyverbs.py [--write FILE]    to note how they go now, for the list
"""
import fnmatch
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from judge import ETHERNET, Judge, main, sanitizer_runtime
from children import PATIENCE

HERE = pathlib.Path(__file__).resolve().parent
TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
# pyverbs is built for Debian's own Python, which need not be the first one on PATH.
PYTHON = "/usr/bin/python3"
# Longest that one test may take, which waits for a completion that does not come for 10 s.
SECONDS = 60
OUTCOMES = ("passes", "skips", "fails", "dies", "hangs")
# In the list alone: the outcome depends on the machine, so that nothing follows from it.
VARIES = "varies"


# The release of rdma-core whose tests pyverbs.txt names.
VERSION = "44"


def available():
    probe = [PYTHON, "-c", "import pyverbs"]
    if not os.path.exists(PYTHON) or subprocess.run(probe, stderr=subprocess.DEVNULL).returncode:
        return "pyverbs is not installed: apt-get install python3-pyverbs"
    if not TESTS.is_dir():
        return f"{TESTS} is not there: apt-get install rdma-core"
    query = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "python3-pyverbs"], capture_output=True, text=True)
    if query.stdout.split(".")[0] != VERSION:
        return f"pyverbs.txt is of rdma-core {VERSION}, installed is {query.stdout}"
    return None


def unpack(folder):
    for path in TESTS.iterdir():
        if path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder)


class Run:
    """All tests, in as many processes as die or hang, and one."""

    def __init__(self, device, seconds=SECONDS * PATIENCE):
        self.device = device
        self.seconds = seconds
        self.outcomes = {}

    def __call__(self):
        with tempfile.TemporaryDirectory(prefix="pyverbs-") as name:
            folder = pathlib.Path(name)
            tests = folder / "tests"
            tests.mkdir()
            unpack(tests)
            records = folder / "records"
            records.touch()
            while not self.finished(records, self.child(tests, records)):
                pass
        return self.outcomes

    def child(self, tests, records):
        """Runs what is left; the exit status, or "hangs" where a test took too long."""
        command = [PYTHON, str(HERE / "pyverbs_child.py"), str(tests), str(records), self.device]
        environment = {**os.environ, **sanitizer_runtime(), "PYTHONDONTWRITEBYTECODE": "1"}
        log = records.with_name("log")
        with open(log, "w") as out:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out, text=True,
                                       env=environment, start_new_session=True)
            process.stdin.write("\n".join(self.outcomes))
            process.stdin.close()
            last = (0, time.monotonic())
            while process.poll() is None:
                size = records.stat().st_size
                if size != last[0]:
                    last = (size, time.monotonic())
                if time.monotonic() - last[1] > self.seconds:
                    os.killpg(process.pid, 9)
                    process.wait()
                    return "hangs"
                time.sleep(0.05)
        self.tail = log.read_text(errors="replace")[-2000:]
        return process.returncode

    def finished(self, records, status):
        begun = None
        lines = [json.loads(line) for line in records.read_text().splitlines()]
        for line in lines:
            if line[0] == "begin":
                begun = line[1]
            elif line[0] == "end":
                self.outcomes[line[1]] = (line[2], line[3])
                begun = None
        if lines and lines[-1][0] == "finished":
            return True
        if begun is None:
            raise AssertionError(f"pyverbs ended with {status} outside of any test\n{self.tail}")
        self.outcomes[begun] = ("hangs", "") if status == "hangs" else ("dies", f"exit status {status}")
        records.write_text("")
        return False


def read_list(path):
    """(pattern, outcome, why) of each line; the first pattern that fits counts."""
    rules = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fields = line.split(None, 2)
        if not fields or line.startswith("#"):
            continue
        where = f"{path.name}:{number}"
        if len(fields) < 2 or fields[0] not in (*OUTCOMES, VARIES):
            raise AssertionError(f"{where}: an outcome ({', '.join(OUTCOMES)}), a test, and why")
        why = fields[2] if len(fields) > 2 else ""
        if fields[0] != "passes" and not why:
            raise AssertionError(f"{where}: says not why {fields[1]} is out of scope")
        rules.append([fields[1], fields[0], why, where, 0])
    return rules


def judge(outcomes, rules):
    """Returns the outcomes that differ from the list, a line each."""
    wrong = []
    for test, (outcome, detail) in outcomes.items():
        rule = next((rule for rule in rules if fnmatch.fnmatchcase(test, rule[0])), None)
        if rule:
            rule[4] += 1
        if not rule:
            wrong.append(f"{test} {outcome} ({detail}), and the list does not name it")
        elif rule[1] not in (outcome, VARIES):
            wrong.append(f"{test} {outcome} ({detail}), and {rule[3]} says: {rule[1]} {rule[2]}".rstrip())
    wrong += [f"{rule[3]}: {rule[0]} is no test that there is" for rule in rules if not rule[4]]
    return wrong


class Pyverbs(Judge):
    def test_as_the_list_says(self):
        why = available()
        if why:
            self.skipTest(why)
        outcomes = Run(ETHERNET)()
        rules = read_list(HERE / "pyverbs.txt")
        wrong = judge(outcomes, rules)
        counts = {name: sum(outcome[0] == name for outcome in outcomes.values()) for name in OUTCOMES}
        print(", ".join(f"{count} {name}" for name, count in counts.items()))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.assertGreater(counts["passes"], 100)


class List(unittest.TestCase):
    """The judge of the judges: a change in either direction is seen."""

    RULES = [["a.passing", "passes", "", "list:1", 0], ["a.*", "skips", "no steering", "list:2", 0]]

    def judged(self, **outcomes):
        given = {f"a.{name}": (outcome, "") for name, outcome in outcomes.items()}
        return judge(given, [list(rule) for rule in self.RULES])

    def test_as_listed(self):
        self.assertEqual(self.judged(passing="passes", other="skips"), [])

    def test_one_that_passed_fails(self):
        self.assertEqual(len(self.judged(passing="fails", other="skips")), 1)

    def test_one_that_was_skipped_passes(self):
        self.assertEqual(len(self.judged(passing="passes", other="passes")), 1)

    def test_one_that_is_gone(self):
        self.assertEqual(len(self.judged(passing="passes")), 1)

    def test_one_that_is_new(self):
        self.assertEqual(len(judge({"b.new": ("passes", "")}, [])), 1)


def write_list(path):
    with open(path, "w") as file:
        for test, (outcome, why) in Run(ETHERNET)().items():
            file.write(f"{outcome:6} {test} {' '.join(why.split())}".rstrip() + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        sys.exit(write_list(sys.argv[2]))
    main()
