#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock topo: this machine, and a recorded one, as text, JSON and a picture."""
import os
import re
import resource
import xml.dom.minidom

from harness import PATIENCE, ROOT, Case, main

DGX = ROOT / "tests" / "unit" / "apps" / "topo" / "dgx.xml"

FILES = {
    "sys/class/net/eth0/ifindex": "2", "sys/class/net/eth0/mtu": "9000", "sys/class/net/eth0/speed": "100000",
    "sys/class/net/eth0/operstate": "up", "sys/class/net/eth0/type": "1",
    "sys/class/net/lo/ifindex": "1", "sys/class/net/lo/mtu": "65536", "sys/class/net/lo/type": "772",
    "sys/devices/system/cpu/isolated": "2-3", "proc/version": "Linux",
}  # fmt: skip


def record(folder, files=None, topology=DGX):
    """A recorded machine below the folder."""
    for name, text in {**FILES, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (folder / "penstock").mkdir(exist_ok=True)
    (folder / "penstock" / "topology.xml").write_text(topology.read_text())
    return folder


class Topo(Case):
    def recorded(self):
        return record(self.folder / "machine")

    def test_this_machine_in_a_second(self):
        """A second of a CPU: others may have the rest."""
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = self.run_program("topo").stdout
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
        self.assertLess(took, 1 if PATIENCE == 1 else 10)
        self.assertRegex(out, r"(?m)^NUMA node 0: .*, CPUs 0")
        self.assertRegex(out, r"(?m)^  lo: .*MTU 65536")

    def test_the_result_fits_the_schema(self):
        result, _ = self.run_json("topo")
        self.assertEqual([node["number"] for node in result["topo"]["nodes"]][:1], [0])
        (lo,) = [adapter for adapter in result["topo"]["adapters"] if adapter["name"] == "lo"]
        self.assertEqual((lo["link"], lo["pci"]), ("loopback", None))

    def test_a_recorded_machine(self):
        root = self.recorded()
        out = self.run_program("topo", "--root", root).stdout
        self.assertIn("NUMA node 0: 1007.6 GiB, CPUs 0-7,16-23 (isolated: 2-3)\n", out)
        self.assertIn("  eth0 mlx5_0  0000:14:00.0  MT2910 Family [ConnectX-7]  up, 100 Gbps, MTU 9000\n", out)
        rows = dict(re.findall(r"(?m)^(\w+) +((?:(?:PIX|PXB|PHB|NODE|SYS) +)+)$", out))
        self.assertEqual({name: row.split() for name, row in rows.items()}, {
            "eno1": ["NODE", "NODE", "SYS", "SYS"], "eth0": ["PIX", "NODE", "SYS", "SYS"],
            "eth1": ["NODE", "PXB", "SYS", "SYS"], "eth2": ["NODE", "PXB", "SYS", "SYS"],
            "ib0": ["SYS", "SYS", "PIX", "NODE"], "mlx5_4": ["SYS", "SYS", "NODE", "PHB"]})  # fmt: skip
        self.assertIn("  gpu0: adapter eth0 (PIX), CPU 2 (isolated)\n  gpu1: adapter eth1 (PXB), CPU 3 (isolated)\n", out)
        result, _ = self.run_json("topo", "--root", root)
        gpus = {gpu["name"]: gpu for gpu in result["topo"]["gpus"]}
        self.assertIn("lo", [adapter["name"] for adapter in result["topo"]["adapters"]])
        self.assertEqual(gpus["gpu3"]["distances"],
                         {"eno1": "SYS", "eth0": "SYS", "eth1": "SYS", "eth2": "SYS", "ib0": "NODE", "mlx5_4": "PHB"})
        self.assertEqual((gpus["gpu2"]["use_adapter"], gpus["gpu2"]["use_cpus"]), ("ib0", [8, 9, 10, 11]))

    def test_a_picture(self):
        svg = self.folder / "machine.svg"
        self.run_program("topo", "--root", self.recorded(), "--svg", svg)
        drawn = xml.dom.minidom.parse(str(svg)).documentElement
        words = [node.firstChild.data for node in drawn.getElementsByTagName("text")]
        for word in ("NUMA node 1 · 1007.6 GiB", "eth0 · mlx5_0", "gpu3", "0000:a1:00.0", "PXB"):
            self.assertIn(word, words)
        self.assertEqual(words.count("PIX"), 3, "two pairs, and what it means")
        # Nothing is outside, and nothing is fetched.
        width, height = (int(drawn.getAttribute(name)) for name in ("width", "height"))
        for box in drawn.getElementsByTagName("rect")[1:]:
            x, y, w, h = (int(box.getAttribute(name)) for name in ("x", "y", "width", "height"))
            self.assertTrue(0 <= x <= x + w <= width and 0 <= y <= y + h <= height, box.toxml())
        self.assertNotRegex(svg.read_text(), r"href|url\(|@import")

    def test_hostile_recordings(self):
        """A topology that leads elsewhere, is a pipe, is not XML, is not there: a status each time."""
        root = self.recorded()
        topology = root / "penstock" / "topology.xml"
        for make in (lambda: topology.symlink_to(DGX), lambda: os.mkfifo(topology), lambda: topology.write_text("<topology"),
                     lambda: topology.write_bytes(b"\0" * 9_000_000), lambda: None):  # fmt: skip
            topology.unlink(missing_ok=True)
            make()
            self.assertIn("topology.xml", self.run_program("topo", "--root", root, expect=1).stderr)

    def test_no_name_steers_a_terminal(self):
        root = record(self.folder / "machine", {
            "penstock/network.json": '{"links": [{"name": "e\\u001b[2J", "addresses": [null, "a\\u009bb"]}, {"name": "a b"}]}',
            "sys/class/net/eth0/operstate": "u\x1b[31m",
        })  # fmt: skip
        svg = self.folder / "machine.svg"
        out = self.run_program("topo", "--root", root, "--svg", svg).stdout
        self.assertIn("e?[2J", out)
        self.assertNotRegex(out, "[\x00-\x09\x0b-\x1f\x7f-\x9f]|a b:")
        xml.dom.minidom.parse(str(svg))
        self.assertNotIn("\x1b", svg.read_text())

    def test_what_cannot_be_read(self):
        child = self.run_program("topo", "--root", self.folder / "nothing", expect=2)
        self.assertIn("nothing", child.stderr)
        self.run_program("topo", "--svg", self.folder / "no" / "x.svg", expect=2)


if __name__ == "__main__":
    main()
