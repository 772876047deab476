#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests of a build for arm64, within tests/arm64/enter.py, and says what is not run, and why.

usage: test.py BUILD [all]    without `all`: those that take little time where everything is emulated
"""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EM_AARCH64 = (183).to_bytes(2, "little")
KNOWN = HERE / "emulation.txt"
# Where ./run test has its build.
HOST_BUILD = HERE.parent.parent / "build"
# Of each of these suites, all tests, or those of these names.
FEW = {"unit": ["*"], "contract": ["transport loopback-*", "contract-memory-*"], "e2e": ["e2e-igpu", "e2e-cuda"]}
ALL = {suite: ["*"] for suite in FEW}
# What takes long where everything is emulated, and is the same on any CPU.
LONG = {"deep", "stream assemble_schedules", "stream times"}
# Judges of speed, and what is for a GPU.
NO_SUITES = {"bench", "gpu", "judges"}


def not_run():
    """{pattern of a test's name: why}"""
    lines = [line.strip().split(" | ", 1) for line in KNOWN.read_text().splitlines() if line.startswith("test ")]
    return {name.removeprefix("test "): why for name, why in lines}


def chosen(build, suites, left_out):
    """Names of the tests to run, and {name: why} of those that cannot be."""
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", str(build)], check=True,
                                      capture_output=True, text=True).stdout)  # fmt: skip
    reasons, names, without = not_run(), [], {}
    for test in tests:
        name, its = test["name"], {suite.split(":")[-1] for suite in test["suite"]}
        if (its | {name}) & left_out or not any(fnmatch.fnmatch(name, one) for suite in its for one in suites.get(suite, [])):
            continue
        why = next((why for pattern, why in reasons.items() if fnmatch.fnmatch(name, pattern)), None)
        if why:
            without[name] = why
        else:
            names.append(name)
    return names, without


def of_other_machines(build):
    """What a host loads of this build that is not for aarch64; how much there is."""
    files = [build / "penstock", *build.glob("core/libpenstock.so.*[0-9]"),
             *(file for kind in ("transports", "filters", "memory") for file in build.glob(f"{kind}/*.so"))]  # fmt: skip
    return [file for file in files if file.read_bytes()[18:20] != EM_AARCH64], len(files)


def passed_of(build):
    """{command: how many of its cases passed}, guests and tests of speed apart."""
    path = build / "meson-logs" / "passed.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    return {command: count for command, count in known.items() if not re.search(r"\btests/(?:vm|bench|gpu)/", command)}


def show_beside_host(build):
    here, there = passed_of(build), passed_of(HOST_BUILD)
    if not there:
        print(f"no count of x86 beside it: no tests were run in {HOST_BUILD.name}/")
        return
    both = [command for command in here if command in there]
    print(f"beside x86, where {sum(there.values())} cases of {len(there)} tests passed: {len(both)} of these tests ran here, "
          f"with {sum(there[command] for command in both)} cases there and {sum(here[command] for command in both)} here")  # fmt: skip
    for command in both:
        if here[command] < there[command]:
            print(f"  {here[command]} of {there[command]}: {command[-100:]}")


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["all"]):
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    names, without = chosen(build, ALL, NO_SUITES) if sys.argv[2:] else chosen(build, FEW, NO_SUITES | LONG)
    command = [sys.executable, str(HERE.parent / "run-tests.py"), str(build), *names]
    run = subprocess.Popen(command, env=dict(os.environ, PENSTOCK_KNOWN=str(KNOWN)), stdout=subprocess.PIPE, text=True)
    last = ""
    for line in run.stdout:
        print(last, end="", flush=True)
        last = line
    for name, why in without.items():
        print(f"not run: {name}: {why}")
    wrong, count = of_other_machines(build)
    print(f"FAILED: not for aarch64: {wrong}" if wrong else f"passed: {count} files, for aarch64: program, library, plugins")
    passed, failed, skipped = (int(part.split()[0]) for part in last.split(", "))
    show_beside_host(build)
    print(f"{passed + (not wrong)} passed, {failed + bool(wrong)} failed, {skipped + len(without)} skipped")
    sys.exit(run.wait() or bool(wrong))


if __name__ == "__main__":
    main()
