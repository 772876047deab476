#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests as on a machine whose pages have 64 KiB, and says what is not run, and why.

usage: pages.py BUILD [argument of run-tests.py]...
"""
import json
import os
import pathlib
import subprocess
import sys

PAGE_SIZE = "65536"
# Tests that run the same code as another test are left out.
SUITES, LEFT_OUT = {"unit", "contract"}, {"deep", "same-code"}
# The memory plugins, and a transport that registers memory, in the whole program; UCX by TCP.
MORE = {"e2e-igpu", "e2e-verbs", "contract of ucx over tcp, failures by UCX", "ucx many peers over tcp",
        "ucx ends what it cuts off", "ucx fetches from a sender that aborts"}  # fmt: skip


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = sys.argv[1]
    tests = json.loads(subprocess.run(["meson", "introspect", "--tests", build], check=True,
                                      capture_output=True, text=True).stdout)  # fmt: skip
    names = []
    for test in tests:
        name, its = test["name"], {suite.split(":")[-1] for suite in test["suite"]}
        is_chosen = its & SUITES and not its & LEFT_OUT and (" ucx" not in f" {name}" or name.startswith("ucx-"))
        if is_chosen or name in MORE:
            names.append(name)
    print("not run: UCX over shared memory: with the fake, UCX fails to unpack its own addresses", flush=True)
    runner = pathlib.Path(__file__).resolve().with_name("run-tests.py")
    os.environ["PENSTOCK_TEST_PAGE_SIZE"] = PAGE_SIZE
    os.execv(sys.executable, [sys.executable, str(runner), build, *sys.argv[2:], *names])


if __name__ == "__main__":
    main()
