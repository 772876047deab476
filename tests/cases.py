#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the cases of one test program went, by what tests/run-case left in a folder.

usage: cases.py FOLDER    says which cases did not pass, and ends as the program is judged

A cmocka program tells its cases by an XML file, a Python one by a line each in PENSTOCK_CASES, any other
program is one case.
"""
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ET
from fnmatch import fnmatch

SKIPPED_STATUS = 77


def text_of(path):
    return path.read_text(errors="replace") if path.exists() else ""


def cmocka_cases(text):
    if "<failure" not in text and "<skipped" not in text:
        for case in text.split('<testcase name="')[1:]:
            yield "passed", case.partition('"')[0], ""
        return
    # Each group appends a document of its own.
    for document in re.findall(r"<testsuites>.*?</testsuites>", text, re.DOTALL):
        try:
            root = ET.fromstring(document)
        except ET.ParseError as error:
            yield "failed", "results", f"cannot be read: {error}"
            continue
        for case in root.iter("testcase"):
            failure = case.find("failure")
            if failure is not None:
                yield "failed", case.get("name"), (failure.text or "").strip()
            else:
                yield "passed" if case.find("skipped") is None else "skipped", case.get("name"), ""


def python_cases(text):
    for line in text.splitlines():
        yield tuple(json.loads(line))


def excused(cases, command):
    """Cases that fail in this environment for a known cause: PENSTOCK_KNOWN names a file of lines
    `PROGRAM | CASE | WORDS | why`. A failure that says these words counts as skipped; any other stays a failure.
    PENSTOCK_KNOWN_USED, where it is set, names the file that gets the lines that were needed."""
    path = os.environ.get("PENSTOCK_KNOWN")
    if not path or not any(case[0] == "failed" for case in cases):
        return cases
    programs = {os.path.basename(word) for word in command}
    with open(path) as file:
        known = [line.strip().split(" | ") for line in file if line.count(" | ") == 3 and line[0] != "#"]
    known = [row for row in known if row[0] in programs]
    out, used = [], []
    for outcome, case, said in cases:
        why = None
        for row in known:
            _, pattern, words, reason = row
            if outcome == "failed" and fnmatch(case, pattern) and fnmatch(said, f"*{words}*"):
                why = reason
                used.append(" | ".join(row) + "\n")
        out.append(("skipped", case, f"{why}. It said: {said}") if why else (outcome, case, said))
    if used and "PENSTOCK_KNOWN_USED" in os.environ:
        with open(os.environ["PENSTOCK_KNOWN_USED"], "a") as file:
            file.write("".join(used))
    return out


def judged(folder):
    """The command, the status that stands for its outcome, and its cases: (outcome, name, why)."""
    command = text_of(folder / "command").splitlines()
    status = int(text_of(folder / "status"))
    cases = [*cmocka_cases(text_of(folder / "xml")), *python_cases(text_of(folder / "lines"))]
    failed = status not in (0, SKIPPED_STATUS)
    if not cases:
        outcome = "failed" if failed else "skipped" if status == SKIPPED_STATUS else "passed"
        cases = [(outcome, os.path.basename(command[-1]), "")]
    elif failed and not any(case[0] == "failed" for case in cases):
        cases.append(("failed", "exit status", f"ended with {status} though no case failed"))
    known = excused(cases, command)
    if failed and known != cases and not any(case[0] == "failed" for case in known):
        status = 0 if any(case[0] == "passed" for case in known) else SKIPPED_STATUS
    return command, status, known


def record(folder):
    """Returns the record of a program that ended: its command, how many cases passed, failed and were skipped, its
    seconds by the clock and of CPUs."""
    command, _, cases = judged(folder)
    counts = {key: sum(case[0] == key for case in cases) for key in ("passed", "failed", "skipped")}
    spent = [int(minutes) * 60 + float(seconds)
             for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", text_of(folder / "times").splitlines()[1])]  # fmt: skip
    wall = (folder / "times").stat().st_mtime - (folder / "command").stat().st_mtime
    return dict(counts, command=command, wall=wall, cpu=sum(spent))


def keep_passed(build, runs):
    """How many cases of each command passed when it last ran, in a file: tests/arm64/test.py shows two builds beside
    each other. A command that several tests have, each with its environment, is one."""
    path = build / "meson-logs" / "passed.json"
    passed = json.loads(path.read_text()) if path.exists() else {}
    now = {}
    for run in runs:
        command = " ".join(run["command"]).replace(f"{build}/", "")
        now[command] = now.get(command, 0) + run["passed"]
    path.write_text(json.dumps(passed | now, indent=0))


def main():
    _, status, cases = judged(pathlib.Path(sys.argv[1]))
    for outcome, case, why in cases:
        if outcome != "passed":
            print(f"{outcome}: {case}: {why}", flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
