#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock bench --all-pairs under a real Slurm of four nodes: exits 77 where there is none."""
import os
import pathlib
import subprocess
import sys
import unittest

from harness import LEAKS_OF_OTHERS, PROGRAM, Case, main

CLUSTER = pathlib.Path(__file__).resolve().parent / "slurm-cluster"
RANK = 'a=127.0.1.$((SLURM_PROCID+1)); exec "$@" --endpoint address=$a,transport.device=$a'
BENCH = ("bench", "--all-pairs", "--transport", "udp", "--memory", "host", "--size", "1KiB", "--duration", "400ms",
         "--transport-option", "sndbuf=16KiB")  # fmt: skip


class Slurm(Case):
    def srun(self, *arguments):
        """By four ranks on four nodes; that the test's cluster is not there skips the test."""
        home = self.folder / "slurm"
        home.mkdir()
        log = self.folder / "log"
        # Slurm's daemons would hold a pipe open.
        with log.open("w") as output:
            status = subprocess.run(
                ["timeout", "90", CLUSTER, home, "timeout", "60", "srun", "-N4", "-n4", *arguments],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                env={**os.environ, "TMPDIR": str(self.temporary), **LEAKS_OF_OTHERS}).returncode  # fmt: skip
        if status == 77:
            raise unittest.SkipTest(log.read_text().strip())
        self.assertEqual(status, 0, log.read_text())
        subprocess.run(["rm", "-rf", home], check=True)
        return log.read_text()

    def test_a_slow_link_between_nodes_is_named(self):
        def attempt():
            said = self.srun("--mpi=pmix", "sh", "-c", RANK, "sh", PROGRAM, *BENCH, "--json", self.folder / "out.json",
                             "--heat-map", self.folder / "out.svg")  # fmt: skip
            pairs = self.result()["bench"]["all_pairs"]
            self.assertEqual(pairs["ranks"], 4)
            links = [(slow["from"], slow["to"]) for slow in pairs["outliers"] if slow["what"] == "link"]
            if links[:1] != [(1, 3)]:
                return said
            self.assertRegex(said, r"(?m)^slow: link from rank 1 \(.*\) to 3 \(.*\): 0\.00\d+ Gbps")
            return None

        self.in_one_of_three(attempt)


if __name__ == "__main__":
    main()
