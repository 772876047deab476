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
# Many tests wait for a time to pass: one more than there are CPUs runs at once.
PROCESSES = str((os.cpu_count() or 1) + 1)
KEYS = ("passed", "failed", "skipped")


def logs(build):
    return list((build / "meson-logs").glob("testlog*.json"))  # meson adds the wrapper's name


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
    print(", ".join(f"{total[key]} {key}" for key in KEYS))
    sys.exit(1 if total["failed"] else 0)


if __name__ == "__main__":
    main()
