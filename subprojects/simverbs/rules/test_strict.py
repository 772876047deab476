# SPDX-License-Identifier: Apache-2.0
"""Strict mode on receives, and on what a program leaves behind."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, Case, main  # noqa: E402

LAUNCHER = BUILD / "penstock-simverbs"
CHILD = BUILD / "rules/sim_strict_child"


class Strict(Case):
    def launch(self, *words, expect):
        return self.run_program("--strict", CHILD, *words, program=LAUNCHER, expect=expect).stderr

    def test_receive_written_to_while_posted(self):
        for queue in ("own", "shared"):
            with self.subTest(queue=queue):
                self.assertIn("written to while it was posted", self.launch("while", queue, expect=86))

    def test_receive_written_to_and_flushed(self):
        child = self.launch("flushed", expect=86)
        self.assertIn("receive 0x5 ", child)
        self.assertRegex(child, r"reported 1 time$")

    def test_receive_written_to_before_and_after(self):
        for mode in ("before", "after"):
            for queue in ("own", "shared"):
                with self.subTest(mode=mode, queue=queue):
                    self.launch(mode, queue, expect=0)

    def test_objects_left(self):
        self.assertRegex(self.launch("left", expect=86), r"mlx5_0 is open .* 1 PD, 2 MR, 0 MW, 2 CQ, 2 QP")


if __name__ == "__main__":
    main()
