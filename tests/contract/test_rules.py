#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Failures of penstock-contract quote the headers, and the build holds them to it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "core" / "include" / "penstock"
CONTRACT, FILTER, TRANSPORT = sys.argv[1:4]
# Its cases are this test's own, not those of the run.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("CMOCKA_") and name != "PENSTOCK_CASES"
}
CASES = ("token_that_is_not_out_is_refused", "poll_gives_no_more_than_there_is_room_for")


class Quotes(unittest.TestCase):
    def rules(self, source):
        """Status, errors and the table, of a source and a header that says two things."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "case.c").write_text(source)
            (folder / "said.h").write_text(
                "/* Closing NULL is\n * legal, and \"no\"\n * error. */\nint a; /* at least 1 */\n"
            )
            run = subprocess.run(
                [sys.executable, HERE / "rules.py", folder / "out.c", folder / "said.h"]
                + ["--", folder / "case.c"],
                capture_output=True,
                text=True,
            )
            made = folder / "out.c"
            return run.returncode, run.stderr, made.read_text() if made.exists() else ""

    def test_a_sentence_is_found_over_several_lines(self):
        status, errors, table = self.rules(
            'contract_rule("legal, and \\"no\\" "\n  "error.");\ncontract_rule("at least 1");\n'
        )
        self.assertEqual(status, 0, errors)
        self.assertIn('{"legal, and \\"no\\" error.", "said.h", 2}', table)
        self.assertIn('{"at least 1", "said.h", 4}', table)

    def test_what_no_header_says_is_not_built(self):
        status, errors, table = self.rules('\ncontract_rule("Closing NULL was legal");\n')
        self.assertNotEqual(status, 0)
        self.assertRegex(errors, r"case\.c:2: no header says: Closing NULL was legal")
        self.assertEqual(table, "")


class Failures(unittest.TestCase):
    def contract(self, *arguments, cases=CASES):
        run = subprocess.run(
            [CONTRACT, FILTER, "--inner", TRANSPORT, "--option", "mode=copy", *arguments]
            + [word for name in cases for word in ("--case", name)],
            capture_output=True,
            text=True,
            timeout=100,
            env={**ENVIRONMENT, "WRONG": "takes any token"},
        )
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def test_the_rule_is_named_with_its_place(self):
        output = self.contract(cases=CASES[:1])
        found = re.search(r"\[  RULE    \] --- transport\.h:(\d+): (.*)", output)
        self.assertIsNotNone(found, output)
        line = (HEADERS / "transport.h").read_text().splitlines()[int(found[1]) - 1]
        self.assertEqual(found[2], "-EINVAL: a token that is not out, which is a bug of the host.")
        self.assertIn(" ".join(found[2].split()[:3]), line)

    def test_the_first_failure_is_the_last_case(self):
        self.assertRegex(self.contract(), rf"OK \] {CASES[1]}")
        output = self.contract("--first-failure")
        self.assertRegex(output, rf"FAILED  \] {CASES[0]}")
        self.assertNotIn(CASES[1], output)


unittest.main(argv=sys.argv[:1])
