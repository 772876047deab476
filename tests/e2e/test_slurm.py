#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock bench --all-pairs under a real Slurm of four nodes: exits 77 where there is none."""
import os
import pathlib
import subprocess
import sys
import unittest

from harness import LEAKS_OF_OTHERS, PROGRAM, Case, main, need_plugin

CLUSTER = pathlib.Path(__file__).resolve().parent / "slurm-cluster"
SLOW = r"(?m)^slow: link from %s 1(\.[01])? \(n1 eth[01]\) to 3(\.1)? \(n3 eth1\): 0\.00\d+ Gbps"


class Slurm(Case):
    def srun(self, *arguments, nodes=4):
        """By four ranks; that the test's cluster is not there skips the test. Returns the output of the ranks,
        and the matrix."""
        home = self.folder / "slurm"
        home.mkdir()
        log = self.folder / "log"
        # Slurm's daemons would hold a pipe open.
        with log.open("w") as output:
            status = subprocess.run(
                ["timeout", "400", CLUSTER, home, "timeout", "240", "srun", "-N", str(nodes), "-n4", "-O", "--mpi=pmix",
                 PROGRAM, "bench", "--all-pairs", "--memory", "host", "--wait", "200s", *arguments, "--json", self.folder / "out.json"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.folder,
                env={**os.environ, "TMPDIR": str(self.temporary), **LEAKS_OF_OTHERS}).returncode  # fmt: skip
        if status == 77:
            raise unittest.SkipTest(log.read_text().strip())
        self.assertEqual(status, 0, log.read_text())
        subprocess.run(["rm", "-rf", home], check=True)
        pairs = self.result()["bench"]["all_pairs"]
        self.assertEqual(pairs["ranks"], 4)
        for i, row in enumerate(pairs["matrix"]):
            for j, value in enumerate(row):
                strangers = pairs["ends"][i]["rank"] != pairs["ends"][j]["rank"]
                self.assertEqual(value is not None, strangers, pairs["matrix"])
        return log.read_text(), pairs

    def names_the_slow_link(self, said, pairs, whole):
        """None, or what it says instead. A link that another program slows down may be named behind it; and the route
        to the other node's eth1 is by n1's, from whichever endpoint."""
        links = [[pairs["ends"][slow[key]] for key in ("from", "to")] for slow in pairs["outliers"] if slow["what"] == "link"]
        if not links or (links[0][0]["hostname"], links[0][1]["hostname"], links[0][1]["adapter"]) != ("n1", "n3", "eth1"):
            return said
        self.assertRegex(said, SLOW % whole)
        return None

    def test_over_loopback(self):
        _, pairs = self.srun("--transport", "loopback", "--duration", "50ms", nodes=1)
        self.assertEqual({(end["hostname"], end["adapter"]) for end in pairs["ends"]}, {("n0", None)})

    def test_a_slow_link_between_two_adapters_is_named(self):
        """Two adapters in each node, by UDP."""

        def attempt():
            said, pairs = self.srun("--insecure", "--transport", "udp", "--size", "1KiB", "--duration", "400ms",
                                    "--transport-option", "sndbuf=16KiB", "--endpoint", "address=eth0",
                                    "--endpoint", "address=eth1", "--heat-map", self.folder / "out.svg")  # fmt: skip
            self.assertEqual([(end["hostname"], end["adapter"]) for end in pairs["ends"]],
                             [(f"n{n}", f"eth{i}") for n in range(4) for i in range(2)])  # fmt: skip
            self.assertIn(">n1 eth1  <", (self.folder / "out.svg").read_text())
            return self.names_the_slow_link(said, pairs, "endpoint")

        self.in_one_of_three(attempt)

    def test_a_slow_link_is_named_over_tcp(self):
        """By UCX."""
        need_plugin("ucx")

        def attempt():
            said, pairs = self.srun("--insecure", "--transport", "ucx", "--size", "8KiB", "--duration", "200ms",
                                    "--ring", "16", "--transport-option", "tls=tcp", "--transport-option",
                                    "net_devices=eth1", "--endpoint", "address=eth1")  # fmt: skip
            return self.names_the_slow_link(said, pairs, "rank")

        self.in_one_of_three(attempt)


if __name__ == "__main__":
    os.environ.update(UCX_TCP_SNDBUF="16k", UCX_TCP_RCVBUF="16k")  # a slow link is full at once
    main()
