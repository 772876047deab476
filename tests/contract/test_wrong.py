#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_wrong.py HOW CASE RULE COMMAND...: the plugin that COMMAND tries is wrong in the way HOW. CASE
fails for it, no other case does, and the failure quotes RULE, the sentence that is broken."""
import os
import re
import subprocess
import sys

HOW, CASE, RULE = sys.argv[1:4]
COMMAND = [*sys.argv[4:], "--case", CASE, "--first-failure"]
# Two threads at once are what it takes to find these.
OF_TWO_CPUS = ["looks once before it sleeps"]
# Cases of the run are this test's own, not those of the program.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("CMOCKA_") and name != "PENSTOCK_CASES"
}
# cmocka's handler reports a crash, and allocates; the thread sanitizer would complain of that.
ENVIRONMENT["TSAN_OPTIONS"] = ":".join(
    filter(None, [os.environ.get("TSAN_OPTIONS"), "report_signal_unsafe=0"])
)


def main():
    if HOW in OF_TWO_CPUS and len(os.sched_getaffinity(0)) < 2:
        print(f"{HOW}: needs two CPUs, and this process may use one")
        sys.exit(77)
    run = subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=170, env={**ENVIRONMENT, "WRONG": HOW}
    )
    output = run.stdout + run.stderr
    failed = set(re.findall(r"\[  FAILED  \] (\w+)$", output, re.MULTILINE))
    quoted = re.findall(r"\[  RULE    \] --- \S+:\d+: (.*)", output)
    wrong = []
    if run.returncode != 1:
        wrong.append(f"exit status {run.returncode}, not 1")
    if failed != {CASE}:
        wrong.append(f"the cases that failed are {sorted(failed)}, not {CASE}")
    if quoted != [RULE]:
        wrong.append(f"the rules quoted are {quoted}, not {[RULE]}")
    if wrong:
        sys.exit("\n".join([output, *wrong]))


main()
