#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one test program (meson's --wrapper) and notes how its cases went.

A cmocka program tells its cases by an XML file, a Python one by a line each in
PENSTOCK_CASES, any other program is one case. Each run adds a line, a Python dictionary with its seconds by the
clock and of CPUs, to the file named by PENSTOCK_TEST_RECORDS.

It runs once for each of some 500 programs, most of which take a few milliseconds: it imports little.
"""
import os
import resource
import sys
import time

SKIPPED_STATUS = 77


def take(path):
    """The text of a file, which is removed; "" if there is none."""
    try:
        with open(path, errors="replace") as file:
            text = file.read()
        os.unlink(path)
        return text
    except FileNotFoundError:
        return ""


def cmocka_cases(text):
    if "<failure" not in text and "<skipped" not in text:
        for case in text.split('<testcase name="')[1:]:
            yield "passed", case.partition('"')[0], ""
        return
    import re
    import xml.etree.ElementTree as ET

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
    if text:
        import json
    for line in text.splitlines():
        yield tuple(json.loads(line))


def excused(cases, command):
    """Cases that fail in this environment for a known cause: PENSTOCK_KNOWN names a file of lines
    `PROGRAM | CASE | WORDS | why`. A failure that says these words counts as skipped; any other stays a failure."""
    path = os.environ.get("PENSTOCK_KNOWN")
    if not path or not any(case[0] == "failed" for case in cases):
        return cases
    from fnmatch import fnmatch

    programs = {os.path.basename(word) for word in command}
    with open(path) as file:
        known = [line.strip().split(" | ") for line in file if line.count(" | ") == 3 and line[0] != "#"]
    known = [row[1:] for row in known if row[0] in programs]
    out = []
    for outcome, case, said in cases:
        why = None
        for pattern, words, reason in known:
            if outcome == "failed" and fnmatch(case, pattern):
                why = reason if fnmatch(said, f"*{words}*") else why
        out.append(("skipped", case, f"{why}. It said: {said}") if why else (outcome, case, said))
    return out


def main():
    command = sys.argv[1:]
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"cases-{os.getpid()}-{time.time_ns()}")
    os.mkdir(folder, 0o700)
    xml, lines = os.path.join(folder, "cases.xml"), os.path.join(folder, "cases")
    environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="xml", CMOCKA_XML_FILE=xml, PENSTOCK_CASES=lines)
    preload = os.environ.get("PENSTOCK_TEST_PRELOAD")
    if preload:
        environment["LD_PRELOAD"] = ":".join(filter(None, (preload, environment.get("LD_PRELOAD"))))
    start = time.monotonic()
    child = os.posix_spawnp(command[0], command, environment)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    wall = time.monotonic() - start
    cases = [*cmocka_cases(take(xml)), *python_cases(take(lines))]
    os.rmdir(folder)

    failed = status not in (0, SKIPPED_STATUS)
    if not cases:
        outcome = "failed" if failed else "skipped" if status == SKIPPED_STATUS else "passed"
        cases = [(outcome, os.path.basename(command[-1]), "")]
    elif failed and not any(case[0] == "failed" for case in cases):
        cases.append(("failed", "exit status", f"ended with {status} though no case failed"))
    judged = excused(cases, command)
    if failed and judged != cases and not any(case[0] == "failed" for case in judged):
        status = 0 if any(case[0] == "passed" for case in judged) else SKIPPED_STATUS
    cases = judged
    for outcome, case, why in cases:
        if outcome != "passed":
            print(f"{outcome}: {case}: {why}", flush=True)

    records = os.environ.get("PENSTOCK_TEST_RECORDS")
    if records:
        counts = {key: sum(case[0] == key for case in cases) for key in ("passed", "failed", "skipped")}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = {"wall": round(wall, 2), "cpu": round(used.ru_utime + used.ru_stime, 2)}
        with open(records, "a") as file:
            file.write(f"{dict(counts, command=command, **times)}\n")
    sys.exit(128 - status if status < 0 else status)


if __name__ == "__main__":
    main()
