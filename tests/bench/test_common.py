# SPDX-License-Identifier: Apache-2.0
"""The benches' own arithmetic, on numbers whose answer is known."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common


def coverage(n, k):
    """That the k-th least (from 0) and its mirror hold the median between them."""
    return 1 - 2 * sum(math.comb(n, i) for i in range(k + 1)) * 0.5**n


class Interval(unittest.TestCase):
    def test_seven_need_all(self):
        self.assertEqual(common.interval([5, 1, 7, 2, 6, 3, 4]), (4, 1, 7))

    def test_nine_leave_out_the_outermost(self):
        self.assertEqual(common.interval(range(1, 10)), (5, 2, 8))

    def test_it_is_the_narrowest_that_covers(self):
        for n in range(7, 60):
            _, low, _ = common.interval(range(n))
            self.assertGreaterEqual(coverage(n, low), 0.95, n)
            self.assertLess(coverage(n, low + 1), 0.95, n)

    def test_an_even_number_has_its_median_between_two(self):
        self.assertEqual(common.interval([1, 2, 3, 4, 5, 6, 7, 8])[0], 4.5)


class Row(unittest.TestCase):
    def test_ratios_are_of_pairs_not_of_medians(self):
        made = common.row("c", "messages/s", [2, 8, 2] * 3, [1, 4, 2] * 3, "peer")
        self.assertEqual((made["ratio"], made["penstock"], made["peer"]), (2, 2, 2))
        self.assertNotIn("goal", made)

    def test_a_goal_is_met_when_the_interval_reaches_it_and_the_median_is_near(self):
        def met(ratios):
            return common.row("c", "x", ratios, [1] * len(ratios), "peer", 1.0)["met"]

        self.assertTrue(met([1.1] * 9))
        self.assertTrue(met([0.96] * 5 + [1.01] * 4))
        self.assertFalse(met([0.96] * 9))  # near, but the interval stays below
        self.assertFalse(met([0.9] * 5 + [1.1] * 4))  # reaches it, the median is far

    def test_the_table_has_a_line_a_row_and_says_what_was_missed(self):
        rows = [common.row("c", "messages/s", [1e6] * 7, [2e6] * 7, "peer", 1.0)]
        lines = common.table(rows).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("1.000 M", lines[1])
        self.assertIn("MISSED", lines[1])


    def test_a_figure_of_nobody_else_has_the_same_keys(self):
        alone = common.alone("c", "ms", 3.14159)
        beside = common.row("c", "ms", [1] * 7, [2] * 7, "peer")
        self.assertEqual(set(beside) - set(alone), {"peer_name", "pairs"})
        self.assertEqual({alone[key] for key in ("peer", "ratio", "low", "high")}, {None})
        self.assertEqual(common.table([alone]).splitlines()[1].split(), ["c", "ms", "3.14"])
        lines = common.table([alone, beside]).splitlines()
        self.assertEqual((len(lines), lines[1].split()), (3, ["c", "ms", "3.14"]))

    def test_percentiles(self):
        self.assertEqual(common.percentile(range(100), 0.5), 50)
        self.assertEqual(common.percentile(range(100), 0.99), 99)
        self.assertEqual(common.percentile([7], 0.99), 7)


class Load(unittest.TestCase):
    def test_what_others_used_is_what_is_not_ours(self):
        self.assertAlmostEqual(common.others_share(10.0, 12.5, 2.0, 1.0), 0.5)
        self.assertEqual(common.others_share(10.0, 11.0, 2.0, 1.0), 0.0)

    def test_load_that_nobody_waits_for_is_none(self):
        cpus = {0, 1}
        self.assertFalse(common.is_disturbed(0.04, None, cpus, 1.0))
        self.assertFalse(common.is_disturbed(0.04, 0.9, cpus, 1.0))
        self.assertFalse(common.is_disturbed(1.5, 0.04, cpus, 1.0))
        self.assertTrue(common.is_disturbed(1.5, 0.09, cpus, 1.0))
        self.assertTrue(common.is_disturbed(1.5, None, cpus, 1.0))

    def test_two_on_one_core_wait_for_each_other(self):
        turn = "import os, time; os.sched_setaffinity(0, {%d}); end = time.monotonic() + 0.4\n"
        turn = turn % min(os.sched_getaffinity(0)) + "while time.monotonic() < end: pass"
        start = time.monotonic()
        with common.Waits() as waits:
            both = [subprocess.Popen([sys.executable, "-c", turn]) for _ in range(2)]
            for one in both:
                one.wait()
        self.assertGreater(waits.share(time.monotonic() - start), 0.2)

    def test_it_looks_seldom_to_spare_the_measured_program(self):
        looks, children, start = [], common.children, time.monotonic()
        common.children = lambda: looks.append(1) or children()
        try:
            with common.Waits():
                time.sleep(0.35)
        finally:
            common.children = children
        self.assertLessEqual(len(looks), (time.monotonic() - start) / 0.1)

    def test_a_loaded_machine_is_refused(self):
        clock = iter(range(100))
        saved = common.busy_seconds, common.TRIES
        common.busy_seconds, common.TRIES = lambda cpus: next(clock), 1
        try:
            with self.assertRaises(common.Loaded):
                common.undisturbed(lambda: sum(range(1000)), {0, 1})
        finally:
            common.busy_seconds, common.TRIES = saved


class Programs(unittest.TestCase):
    def test_one_that_is_not_built_is_named_with_what_builds_it(self):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name)
            with self.assertRaisesRegex(common.Missing, f"no {name}/tests/bench/bench-copy: `ninja -C {name}` builds it"):
                common.program(build, "bench-copy")
            (build / "penstock").touch()
            self.assertEqual(common.program(build), build / "penstock")


if __name__ == "__main__":
    unittest.main()
