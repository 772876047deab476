#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A build without hwloc, libpci, libnl and libmicrohttpd: what needs them ends with 3 and the reason, and doctor says what it cannot tell."""
import json
import pathlib
import shutil

from harness import ROOT, Case, main
from machines import unpack

MACHINES = pathlib.Path(__file__).resolve().parent / "machines"
LOOPBACK = ROOT / "config" / "loopback.yaml"


class Bare(Case):
    def cannot_tell(self, folder):
        """{check: why} of what doctor cannot tell of a recording."""
        result, _ = self.run_json("doctor", "--root", str(folder))
        return {one["check"]: one["why"] for one in result["findings"] if one["verdict"] == "cannot tell"}

    def test_without_hwloc(self):
        for words in (("topo",), ("init", "--as", "loopback")):
            child = self.run_program(*words, expect=3)
            self.assertIn("this build has no hwloc; install libhwloc-dev and build again with -Dhwloc=enabled", child.stderr)
            self.assertEqual(child.stdout, "")

    def test_without_libmicrohttpd(self):
        child = self.run_program("run", LOOPBACK, "--count", "1", "--metrics", "127.0.0.1:0", expect=3)
        self.assertIn("--metrics: this build has no libmicrohttpd; build with libmicrohttpd-dev", child.stderr)
        self.run_program("run", LOOPBACK, "--count", "1", "--set", f"control.address=127.0.0.1:{self.port}")

    def test_without_libpci(self):
        folder = self.folder / "dgx"
        unpack((MACHINES / "dgx-h100.txt").read_text(), folder)
        why = "built without libpci"
        self.assertEqual(self.cannot_tell(folder), {"acs": why, "relaxed-ordering": why, "pcie-reads": why})

    def test_without_libnl(self):
        """This machine is recorded without its links; of another with adapters, doctor then lacks these."""
        recorded, folder = self.folder / "recorded", self.folder / "dgx"
        self.run_program("doctor", "--record", str(recorded), expect=None)
        self.assertEqual(json.loads((recorded / "penstock/network.json").read_text()), {"unavailable": "built without libnl"})
        unpack((MACHINES / "dgx-h100.txt").read_text(), folder)
        shutil.copy(recorded / "penstock/network.json", folder / "penstock/network.json")
        unknown = self.cannot_tell(folder)
        self.assertEqual({check for check, why in unknown.items() if why == "built without libnl"},
                         {"mtu", "flow-control", "priority", "hop-limit"})  # fmt: skip

    def test_this_machine(self):
        child = self.run_program("doctor", "-v", expect=None)
        self.assertIn(child.process.returncode, (0, 1), str(child))
        self.assertRegex(child.stdout, r"(?m)^  ok +kernel ")


if __name__ == "__main__":
    main()
