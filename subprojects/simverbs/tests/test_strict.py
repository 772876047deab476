# SPDX-License-Identifier: Apache-2.0
"""Strict mode: a buffer that changes while it is posted is reported, by both engines."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, Case, main  # noqa: E402

LAUNCHER = BUILD / "penstock-simverbs"
CHILD = BUILD / "tests/strict_child"
REPORT = "changed while it was posted"


class Strict(Case):
    def launch(self, mode, *options, expect):
        return self.run_program(*options, CHILD, mode, program=LAUNCHER, expect=expect)

    def test_changed_while_posted(self):
        for engine in ("eager", "deferred"):
            with self.subTest(engine=engine):
                child = self.launch("changed", "--strict", "--engine", engine, expect=86)
                self.assertIn(REPORT, child.stderr)
                self.assertIn("penstock-simverbs: strict mode has reported 1 time", child.stderr)

    def test_changed_after_its_completion(self):
        self.assertEqual(self.launch("later", "--strict", expect=0).stderr, "")

    def test_kept(self):
        self.assertEqual(self.launch("kept", "--strict", expect=0).stderr, "")

    def test_only_if_asked_for(self):
        self.assertEqual(self.launch("changed", expect=0).stderr, "")

    def test_switched_on_at_run_time(self):
        script = f"{LAUNCHER} ctl . strict on && {CHILD} changed"
        child = self.run_program("sh", "-c", script, program=LAUNCHER, expect=86)
        self.assertIn(REPORT, child.stderr)


if __name__ == "__main__":
    main()
