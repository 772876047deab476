#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one test program (meson's --wrapper) and notes how its cases went.

A cmocka program tells its cases by an XML file, a Python one by a line each in
PENSTOCK_CASES, any other program is one case. Each run adds a line of JSON, with its seconds by the
clock and of CPUs, to the file named by PENSTOCK_TEST_RECORDS.
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

SKIPPED_STATUS = 77


def cmocka_cases(path):
    if not path.exists():
        return
    # Each group appends a document of its own.
    text = path.read_text(errors="replace")
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


def python_cases(path):
    if path.exists():
        for line in path.read_text().splitlines():
            yield tuple(json.loads(line))


def main():
    command = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="cases-") as name:
        folder = pathlib.Path(name)
        environment = dict(
            os.environ,
            CMOCKA_MESSAGE_OUTPUT="xml",
            CMOCKA_XML_FILE=str(folder / "cases.xml"),
            PENSTOCK_CASES=str(folder / "cases"),
        )
        start = time.monotonic()
        status = subprocess.run(command, env=environment).returncode
        wall = time.monotonic() - start
        cases = [*cmocka_cases(folder / "cases.xml"), *python_cases(folder / "cases")]

    failed = status not in (0, SKIPPED_STATUS)
    if not cases:
        outcome = "failed" if failed else "skipped" if status == SKIPPED_STATUS else "passed"
        cases = [(outcome, pathlib.Path(command[-1]).name, "")]
    elif failed and not any(case[0] == "failed" for case in cases):
        cases.append(("failed", "exit status", f"ended with {status} though no case failed"))
    for outcome, case, why in cases:
        if outcome != "passed":
            print(f"{outcome}: {case}: {why}", flush=True)

    records = os.environ.get("PENSTOCK_TEST_RECORDS")
    if records:
        counts = {key: sum(case[0] == key for case in cases) for key in ("passed", "failed", "skipped")}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = {"wall": round(wall, 2), "cpu": round(used.ru_utime + used.ru_stime, 2)}
        line = json.dumps({"command": command, **counts, **times}) + "\n"
        with open(records, "a") as file:
            file.write(line)
    sys.exit(128 - status if status < 0 else status)


if __name__ == "__main__":
    main()
