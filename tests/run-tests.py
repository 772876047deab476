#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build folder and counts their cases, not their programs.

usage: run-tests.py BUILD [argument of `meson test`]...
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys

# Of meson's time limits, which are for a machine with nothing else to do. Given again, it replaces this.
PATIENCE = "4"
# Many tests wait for a time to pass: twice as many run at once as there are CPUs.
PROCESSES = str(2 * (os.cpu_count() or 1))
SLOWEST = 10
KEYS = ("passed", "failed", "skipped")


def logs(build):
    return list((build / "meson-logs").glob("testlog*.json"))  # meson adds the wrapper's name


def show_slowest(runs):
    print("the slowest, in seconds by the clock and of CPUs:")
    for run in sorted(runs, key=lambda run: -run["wall"])[:SLOWEST]:
        words = " ".join(pathlib.Path(word).name for word in run["command"] if not word.startswith("-"))
        print(f"{run['wall']:8.1f} {run['cpu']:8.1f}  {words[-90:]}")
    print(f"{'all':>8} {sum(run['cpu'] for run in runs):8.1f}")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    records = build / "meson-logs" / "cases.jsonl"
    records.unlink(missing_ok=True)
    for log in logs(build):
        log.unlink()
    wrapper = shlex.quote(str(pathlib.Path(__file__).resolve().with_name("count-cases.py")))
    command = ["meson", "test", "-C", str(build), "--wrapper", wrapper, "--print-errorlogs"]
    status = subprocess.run(
        [*command, "--timeout-multiplier", PATIENCE, "--num-processes", PROCESSES, *sys.argv[2:]],
        env=dict(os.environ, PENSTOCK_TEST_RECORDS=str(records)),
    ).returncode

    runs = [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []
    total = {key: sum(run[key] for run in runs) for key in KEYS}
    # A program that ran out of time was killed with its wrapper and left no record.
    programs = sum(len(log.read_text().splitlines()) for log in logs(build))
    total["failed"] += max(0, programs - len(runs))
    if status and not total["failed"]:
        total["failed"] = 1
    show_slowest(runs)
    print(", ".join(f"{total[key]} {key}" for key in KEYS))
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
