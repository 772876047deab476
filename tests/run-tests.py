#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build folder and counts their cases, not their programs.

usage: run-tests.py BUILD [argument of `meson test`]...

PENSTOCK_TEST_PAGE_SIZE, where it is set (65536), is the page size of the machine that the tests see:
tests/fakes/page_size stands before the C library.

Programs that failed, if few, run once more, one at a time, with nothing beside them. What passes then
counts as passed, and a line that begins with "second run:" names it: a test, or the machine, that is
to be looked at. What a sanitizer, an assertion or a signal ended is failed for good.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import cases

# Factor for meson's time limits, which suit an idle machine. The option on the command line replaces it.
PATIENCE = "4"
# Many tests wait for a time to pass: twice as many run at once as there are CPUs.
PROCESSES = str(2 * (os.cpu_count() or 1))
SLOWEST = 10
# More programs than these fail because of a fault, not because of what ran beside them.
SECOND_RUNS = 6
NOT_BY_CHANCE = re.compile(r"Sanitizer|runtime error:|Assertion [`']|Segmentation fault|SIG(SEGV|ABRT|BUS)")
KEYS = ("passed", "failed", "skipped")


def logs(build):
    return list((build / "meson-logs").glob("testlog*.json"))  # meson adds the wrapper's name


def show_slowest(runs):
    print("the slowest, in seconds by the clock and of CPUs:")
    for run in sorted(runs, key=lambda run: -run["wall"])[:SLOWEST]:
        words = " ".join(pathlib.Path(word).name for word in run["command"] if not word.startswith("-"))
        print(f"{run['wall']:8.1f} {run['cpu']:8.1f}  {words[-90:]}")
    print(f"{'all':>8} {sum(run['cpu'] for run in runs):8.1f}")


def test_runs(build):
    return [json.loads(line) for log in logs(build) for line in log.read_text().splitlines()]


def run_meson(build, records, *arguments):
    """Runs tests; returns meson's exit status, its log, and what tests/run-case recorded of those that ended."""
    shutil.rmtree(records, ignore_errors=True)
    records.mkdir(parents=True)
    for log in logs(build):
        log.unlink()
    wrapper = shlex.quote(str(pathlib.Path(__file__).resolve().with_name("run-case")))
    command = ["meson", "test", "-C", str(build), "--wrapper", wrapper, "--print-errorlogs"]
    environment = dict(os.environ, PENSTOCK_TEST_RECORDS=str(records))
    if "PENSTOCK_TEST_PAGE_SIZE" in environment:
        environment["PENSTOCK_TEST_PRELOAD"] = str(build / "tests" / "fakes" / "libpage_size.so")
    status = subprocess.run([*command, "--timeout-multiplier", PATIENCE, *arguments], env=environment).returncode
    runs = [cases.record(folder) for folder in records.iterdir() if (folder / "times").exists()]
    return status, test_runs(build), runs


def kept(arguments):
    """Returns the arguments that hold for second runs, too: patience, and the suites, of which one may be left out
    unless it is named."""
    pairs = zip(arguments, arguments[1:])
    return [word for pair in pairs if pair[0] in ("--timeout-multiplier", "--suite") for word in pair]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    arguments = sys.argv[2:]
    records = build / "meson-logs" / "cases"
    status, tests, runs = run_meson(build, records, "--num-processes", PROCESSES, *arguments)

    failed = [test for test in tests if test["result"] in ("FAIL", "TIMEOUT", "ERROR")]
    by_chance = [test for test in failed if not NOT_BY_CHANCE.search(test.get("stdout", "") + test.get("stderr", ""))]
    if by_chance and len(failed) <= SECOND_RUNS:
        # "project:suites / name", and what meson takes is "project:name".
        names = [re.sub(r":.*? / ", ":", test["name"], count=1) for test in by_chance]
        print("second runs, one at a time: " + ", ".join(names), flush=True)
        status, again, second = run_meson(
            build, records, "--no-rebuild", "--num-processes", "1", *kept(arguments), *names
        )
        commands = [run["command"] for run in second]
        runs = [run for run in runs if not (run["failed"] and run["command"] in commands)] + second
        for test in again:
            if test["result"] == "OK":
                print(f"second run: {test['name']} passed alone, and had failed beside others")

    cases.keep_passed(build, runs)
    total = {key: sum(run[key] for run in runs) for key in KEYS}
    # A program that ran out of time was killed with its wrapper and left no record.
    total["failed"] += max(0, len(tests) - len(runs))
    if status and not total["failed"]:
        total["failed"] = 1
    show_slowest(runs)
    print(", ".join(f"{total[key]} {key}" for key in KEYS))
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
