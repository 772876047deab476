#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests of a build for arm64, within tests/arm64/enter.py, and says what is not run, and why.

usage: test.py BUILD          what qemu-aarch64 can do, with fewer rounds of what repeats itself
       test.py BUILD DISK     all rounds; what qemu-aarch64 cannot do runs in an emulated machine with this disk

Each test of x86 that needs neither guest nor GPU runs here, or has a row with the reason. A row that nothing needs
is a failure.
"""
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

import host_options
import machine
from machine import cases

HERE = pathlib.Path(__file__).resolve().parent
EM_AARCH64 = (183).to_bytes(2, "little")
KNOWN = HERE / "emulation.txt"
# Factors for meson's time limits, and for those within tests.
PATIENCE, PATIENCE_INSIDE = "12", "3"
CALLS = "tests/arm64/libcalls.so"
# Where ./run test has its build.
HOST_BUILD = HERE.parent.parent / "build"
# PENSTOCK_FEWER: tests do one in so many of like cases, rounds and messages, but with `all`.
FEWER = "4"
# Guests of x86, and what is for a GPU.
NEVER = {"vm", "gpu"}
# A row whose reason begins so is for what fails at times.
AT_TIMES = "at times: "


def rows(path):
    """Reads such a file: of tests {pattern of a name: why}, of programs {name: patterns of cases}."""
    lines = [line.strip().split(" | ") for line in path.read_text().splitlines() if line and line[0] != "#"]
    tests = {row[0].removeprefix("test "): row[1] for row in lines if len(row) == 2}
    return tests, {row[0]: [other[1] for other in lines if other[0] == row[0]] for row in lines if len(row) == 4}


def of_cases(test, patterns):
    """The test with these of its cases alone, where its program can pick them; else None. unittest knows no subtests,
    which a pattern names behind a blank."""
    if "*" in patterns or not any(word.endswith(".py") for word in test["cmd"]):
        return None
    return dict(test, cmd=test["cmd"] + [word for pattern in patterns for word in ("-k", pattern.split(" ")[0])])


def tests_of(build):
    """Those that need neither guest nor GPU."""
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", str(build)], check=True,
                                      capture_output=True, text=True).stdout)  # fmt: skip
    for test in tests:
        test["suites"] = {suite.split(":")[-1] for suite in test["suite"]}
    return [test for test in tests if not test["suites"] & NEVER]


def why_not(name, reasons):
    return next((why for pattern, why in reasons.items() if fnmatch.fnmatch(name, pattern)), None)


def chosen(build, has_machine):
    """The tests to run here, those to run in the machine, and {name: why} of those that cannot be run."""
    reasons, programs = rows(KNOWN)
    reasons_inside = rows(machine.KNOWN)[0]
    here, inside, without = [], [], {}
    for test in tests_of(build):
        name = test["name"]
        cases_of = next((programs[word] for word in map(os.path.basename, test["cmd"]) if word in programs), None)
        why, why_inside = why_not(name, reasons), why_not(name, reasons_inside)
        if not has_machine:
            if why:
                without[name] = why
            else:
                here.append(test)
        elif why_inside and why:
            without[name] = why_inside
        elif why_inside:
            here.append(test)
        elif why or cases_of:
            part = None if why else of_cases(test, cases_of)
            inside.append(part or test)
            here += [test] if part else []
        else:
            here.append(test)
    return here, inside, without


def without_need(here, used):
    """Rows that excused nothing though their program ran, and rows of tests that are not there."""
    lines = [line.strip() for line in KNOWN.read_text().splitlines() if line and line[0] != "#"]
    ran = {os.path.basename(word) for test in here for word in test["cmd"]}
    for line in lines:
        row = line.split(" | ")
        if len(row) == 4 and row[0] in ran and line not in used and not row[3].startswith(AT_TIMES):
            yield line


def without_reason(names, without):
    """Tests that x86's build has, and that neither ran here nor have a reason."""
    if not (HOST_BUILD / "build.ninja").exists():
        return
    reasons = rows(KNOWN)[0]
    for test in tests_of(HOST_BUILD):
        if test["name"] not in names | set(without) and not why_not(test["name"], reasons):
            yield test["name"]


def of_other_machines(build):
    """Returns the files that a host loads of this build and that are not for aarch64; and how many it loads."""
    files = [build / "penstock", *build.glob("core/libpenstock.so.*[0-9]"),
             *(file for kind in ("transports", "filters", "memory") for file in build.glob(f"{kind}/*.so"))]  # fmt: skip
    return [file for file in files if file.read_bytes()[18:20] != EM_AARCH64], len(files)


def passed_of(build):
    """{command: how many of its cases passed}, guests and tests of speed apart."""
    path = build / "meson-logs" / "passed.json"
    passed = {}
    for command, count in (json.loads(path.read_text()) if path.exists() else {}).items():
        if not re.search(r"\btests/(?:vm|bench|gpu)/", command):
            whole = command.partition(" -k ")[0]  # and of_cases()
            if "-fsyntax-only" in whole:  # each machine has a compiler of its own
                whole = re.sub(r"^\S*?(g\+\+|gcc|clang\+\+|clang) (?:--(?:sysroot|target)=\S+ )*", r"\1 ", whole)
            passed[whole] = passed.get(whole, 0) + count
    return passed


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


def run_here(build, tests, fewer):
    """Runs tests by qemu-aarch64: passed, failed, skipped; and the rows that were needed."""
    command = [sys.executable, str(HERE.parent / "run-tests.py"), str(build), "--timeout-multiplier", PATIENCE,
               *(test["name"] for test in tests)]  # fmt: skip
    host_options.start(build / "host-options")
    used = build / "meson-logs" / "known-used"
    used.unlink(missing_ok=True)
    cross = (build.parent / f"{build.name}-sysroot" / "root").resolve()
    environment = dict(os.environ, PENSTOCK_PATIENCE=PATIENCE_INSIDE, PENSTOCK_FEWER=fewer,
                       PENSTOCK_KNOWN=str(KNOWN), PENSTOCK_KNOWN_USED=str(used),
                       QEMU_SET_ENV=f"LD_PRELOAD={build / CALLS}", CC=f"aarch64-linux-gnu-gcc --sysroot={cross}")  # fmt: skip
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    last = ""
    for line in run.stdout:
        print(last, end="", flush=True)
        last = line
    if run.wait() not in (0, 1):
        sys.exit(last)
    return [int(part.split()[0]) for part in last.split(", ")], used.read_text().splitlines() if used.exists() else []


def run_inside(build, disk, tests):
    """Runs tests in the machine: passed, failed, skipped. A test that left no record has failed."""
    print(f"\n{len(tests)} tests in an emulated machine", flush=True)
    runs = machine.run(build, disk, tests)
    cases.keep_passed(build, runs)
    passed, failed, skipped = (sum(run[key] for run in runs) for key in ("passed", "failed", "skipped"))
    print(f"in the machine: {passed} passed, {failed} failed, {skipped} skipped, {len(tests) - len(runs)} tests did not end")
    return passed, failed + len(tests) - len(runs), skipped


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    build, disk = (pathlib.Path(word).resolve() for word in (sys.argv[1], sys.argv[-1]))
    has_machine = len(sys.argv) == 3
    here, inside, without = chosen(build, has_machine)
    (passed, failed, skipped), used = run_here(build, here, "1" if has_machine else FEWER)
    if inside:
        passed, failed, skipped = map(sum, zip((passed, failed, skipped), run_inside(build, disk, inside)))
    for name, why in without.items():
        print(f"not run: {name}: {why}")
    others, count = of_other_machines(build)
    wrong = [f"not for aarch64: {path}" for path in others]
    wrong += [f"emulation.txt has a row that nothing needs: {line}" for line in without_need(here, used)]
    wrong += [f"x86 runs this test, and emulation.txt has no reason why it did not run here: {name}"
              for name in without_reason({test["name"] for test in here + inside}, without)]  # fmt: skip
    print("\n".join(f"FAILED: {line}" for line in wrong) or f"passed: {count} files, for aarch64: program, library, plugins")
    show_beside_host(build)
    print(f"{passed + (not wrong)} passed, {failed + len(wrong)} failed, {skipped + len(without)} skipped")
    sys.exit(failed > 0 or bool(wrong))


if __name__ == "__main__":
    main()
