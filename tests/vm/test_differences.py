#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulated RDMA device beside soft-RoCE, status by status: each difference is
explained. Needs no guest."""
import difflib
import fnmatch
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import BUILD, main  # noqa: E402

LAUNCHER = BUILD / "subprojects" / "simverbs" / "penstock-simverbs"
SIMULATED = HERE / "statuses-simulated.txt"


def answers(text):
    """Case: its lines."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, answer = line.partition(": ")
            found.setdefault(name, []).append(answer)
    return found


def differing():
    soft, simulated = (answers((HERE / f"statuses-{of}.txt").read_text()) for of in ("rxe", "simulated"))
    return {name for name in soft | simulated if soft.get(name) != simulated.get(name)}


def explained():
    """The patterns of cases on the page."""
    rows = [line for line in (HERE / "differences.md").read_text().splitlines() if line.startswith("| `")]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row.split("|")[1])]


class Differences(unittest.TestCase):
    maxDiff = None

    def test_the_simulated_device_answers_as_its_table_says(self):
        command = [LAUNCHER, BUILD / "tests" / "vm" / "statuses"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)
        found = f"# the simulated device: penstock-simverbs build/tests/vm/statuses\n{run.stdout}"
        kept = BUILD / "tests" / "vm" / SIMULATED.name
        kept.write_text(found)
        recorded = SIMULATED.read_text() if SIMULATED.exists() else ""
        lines = (recorded.splitlines(), found.splitlines())
        difference = list(difflib.unified_diff(*lines, "recorded", "found", lineterm="", n=0))
        self.assertEqual(difference, [], f"if it is right, copy {kept} over {SIMULATED}")

    def test_each_difference_is_explained(self):
        patterns = explained()
        unexplained = [name for name in sorted(differing()) if not any(fnmatch.fnmatch(name, p) for p in patterns)]
        self.assertEqual(unexplained, [])

    def test_each_explanation_is_of_a_difference(self):
        cases = differing()
        self.assertEqual([p for p in explained() if not fnmatch.filter(cases, p)], [])

    def test_no_explanation_is_of_what_does_not_differ(self):
        same = set(answers((HERE / "statuses-rxe.txt").read_text())) - differing()
        self.assertEqual({name: p for p in explained() for name in fnmatch.filter(same, p)}, {})


if __name__ == "__main__":
    main()
