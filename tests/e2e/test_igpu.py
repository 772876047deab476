#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program with host memory that a GPU maps: on the fake driver, whose first device is
integrated; with PENSTOCK_CUDA=real on the machine's, by `allow_discrete`."""
import unittest

from cuda_driver import IS_REAL, counting, environment, plugins, scripted
from harness import BUILD, Case, main, yaml_stream

LOOPBACK = "config/loopback-igpu.yaml"
UDP = "config/udp-igpu.yaml"
OPTIONS = "streams.packets.receiver.memory.options"
LEAVE = ["--set", f"{OPTIONS}.allow_discrete=true"] if IS_REAL else []
# Copies are refused: what arrives has been placed where the kernel reads it.
SCRIPT = "integrated=1,delay_us=100,no_copies"


class Igpu(Case):
    def stream_of(self, *arguments, script=SCRIPT):
        result, child = self.run_json("run", *plugins(), *arguments, environment=environment(script))
        stream = self.only_stream(result)
        self.assertEqual(stream["verified"], stream["messages_delivered"], child.stderr)
        self.assertEqual(stream["corrupted"], 0)
        self.assert_accounted(stream)
        return stream

    def refused(self, script, *arguments, expect=3):
        child = self.run_program("run", *plugins(), LOOPBACK, "--count", 1000, *arguments, expect=expect,
                                 environment=environment(script))  # fmt: skip
        return child.stderr

    def test_loopback(self):
        for cache in ("cached", "write_combined"):
            for script in (SCRIPT, f"{SCRIPT},apart"):
                with self.subTest(cache=cache, script=script):
                    stream = self.stream_of(LOOPBACK, "--count", 20000, *LEAVE, "--set", f"{OPTIONS}.cache={cache}",
                                            script=script)  # fmt: skip
                    self.assertEqual((stream["path"], stream["messages_delivered"]), ("mapped", 20000))
                    self.assertEqual(stream["receiver"]["memory"], "igpu")

    def test_udp(self):
        stream = self.stream_of(UDP, "--count", 5000, *LEAVE, "--set", "streams.packets.sender.rate=200 Mbps",
                                "--set", "streams.packets.expect.max_loss=100%")  # fmt: skip
        self.assertEqual((stream["path"], stream["carrier"]), ("mapped", "udp"))

    def counted(self, script, *arguments):
        """The one stream of a run, and how many copies its process submitted to the driver."""
        count = self.folder / "copies"
        result, child = self.run_json("run", *plugins(), *arguments, environment=counting(script, count))
        stream = self.only_stream(result)
        self.assertEqual((stream["verified"], stream["corrupted"]), (stream["messages_delivered"], 0), child.stderr)
        return stream, int(count.read_text())

    def test_no_copy_is_submitted(self):
        """The driver's calls are counted: into memory that the GPU maps no copy, into its own some."""
        script = "integrated=1,delay_us=50"
        for file, *more in ((LOOPBACK, ), (UDP, "--set", "streams.packets.sender.rate=200 Mbps",
                                           "--set", "streams.packets.expect.max_loss=100%")):  # fmt: skip
            with self.subTest(file=file):
                stream, copies = self.counted(script, file, *LEAVE, "--count", 5000, *more)
                self.assertEqual((stream["path"], copies), ("mapped", 0))
                self.assertGreater(stream["verified"], 0)
        file = self.config(yaml_stream(message="1462 B", ring=512, transport="{plugin: loopback, options: {mode: copy}}",
                                       receiver="{memory: cuda, sink: verify}"))  # fmt: skip
        stream, copies = self.counted(script, file, "--count", 20000)
        self.assertEqual((stream["path"], stream["verified"]), ("staged", 20000))
        self.assertGreater(copies, 0)

    @unittest.skipUnless((BUILD / "transports" / "transport-ethernet.so").exists(), "built without DPDK")
    def test_ethernet(self):
        common = [*plugins(), "config/ethernet-igpu.yaml", *LEAVE, "--set", f"control.address=127.0.0.1:{self.port}",
                  "--set", f"transport.options.socket={self.folder}/s", "--set", "streams.packets.timeout=1 min",
                  "--set", "streams.packets.expect.max_loss=100%"]  # fmt: skip
        receiver = self.start("receive", *common, "--json", self.folder / "out.json", environment=environment(SCRIPT))
        self.run_program("send", *common, "--count", 5000, "--set", "streams.packets.sender.rate=200 Mbps")
        self.assertEqual(receiver.wait(), 0, receiver)
        stream = self.only_stream(self.result())
        self.assertEqual((stream["path"], stream["via"], stream["corrupted"]), ("mapped", "memif, slots", 0))
        self.assertGreater(stream["verified"], 0)
        self.assert_accounted(stream)

    def test_two_processes(self):
        """By the descriptor of a registered memfd, which the sender maps and writes."""
        common = [*plugins(), LOOPBACK, *LEAVE, "--set", f"control.address=127.0.0.1:{self.port}",
                  "--set", "streams.packets.timeout=1 min"]  # fmt: skip
        receiver = self.start("receive", *common, environment=environment(SCRIPT))
        self.run_program("send", *common, "--count", 30000)
        self.assertEqual(receiver.wait(), 0, receiver)
        self.assertRegex(receiver.stderr, r"30000 verified, 0 corrupted \| .* \| mapped")

    def test_frames(self):
        file = self.config(yaml_stream(
            name="packets", message="1000 B", ring=1024, transport="{plugin: loopback, options: {mode: copy}}",
            receiver="{memory: {plugin: igpu, options: {allow_discrete: true}}, path: auto, sink: verify, "
            "assemble: {packets: 16}}"))  # fmt: skip
        result, _ = self.run_json("run", *plugins(), file, "--count", 3200,
                                  environment=environment("integrated=1,delay_us=50"))  # fmt: skip
        stream = self.only_stream(result)
        self.assertEqual((stream["verified"], stream["corrupted"]), (3200, 0))

    def test_host_memory_is_not_lent_to_it(self):
        """By reference the bytes are in the sender's memory, which the GPU does not see: they are copied."""
        reference = ["--set", "transport.options.mode=reference"]
        stream = self.stream_of(LOOPBACK, *LEAVE, "--count", 5000, *reference, "--set", "streams.packets.receiver.path=auto",
                                "--set", "streams.packets.expect.path=staged", script="integrated=1,delay_us=50")  # fmt: skip
        self.assertEqual(stream["path"], "staged")
        self.assertIn("hands over host memory of its own", stream["path_reason"])
        self.assertIn("hands over host memory of its own", self.refused(SCRIPT, *LEAVE, *reference))

    def test_cuda_to_igpu_and_back(self):
        """Two streams of one process: each sender's slots are pinned by its own plugin and by the receiver's."""
        igpu, cuda = "{plugin: igpu, options: {allow_discrete: true}}", "{plugin: cuda}"
        file = self.config("".join(
            f"- name: {name}\n  message: 1462 B\n  ring: 512\n  timeout: 1 min\n"
            "  transport: {plugin: loopback, options: {mode: reference}}\n"
            f"  sender: {{memory: {sender}}}\n  receiver: {{memory: {receiver}, sink: verify}}\n"
            for name, sender, receiver in (("there", cuda, igpu), ("back", igpu, cuda))))  # fmt: skip
        result, child = self.run_json("run", *plugins(), file, "--count", 20000,
                                      environment=environment("integrated=1,delay_us=50"))  # fmt: skip
        for stream in result["streams"]:
            self.assertEqual((stream["verified"], stream["corrupted"]), (20000, 0), stream["name"])
        self.assertEqual([stream["name"] for stream in result["streams"]], ["there", "back"])
        self.assertNotIn("cannot be pinned", child.stderr)

    @scripted
    def test_a_discrete_gpu_takes_leave(self):
        text = self.refused("integrated=0")
        self.assertIn("Fake GPU (0000:b7:00.0) is discrete: it has memory of its own, and would read this plugin's over "
                      "PCIe; take memory cuda, or write `allow_discrete: true`; integrated here: none", text)  # fmt: skip
        self.assertIn("is discrete, coherent with the host (Grace): it has memory of its own, and would read this "
                      "plugin's over NVLink-C2C", self.refused("integrated=0,page_tables"))  # fmt: skip
        stream = self.stream_of(LOOPBACK, "--count", 1000, "--set", f"{OPTIONS}.allow_discrete=true", script="no_copies")
        self.assertEqual(stream["path"], "mapped")

    @scripted
    def test_a_machine_with_both(self):
        both = "devices=2,integrated=1"
        text = self.refused(both, "--set", f"{OPTIONS}.device=1")
        self.assertIn("integrated here: 0 (Fake GPU, 0000:b7:00.0)", text)
        child = self.run_program("run", *plugins(), "config/loopback-cuda.yaml", "--count", 1000,
                                 environment=environment(both))  # fmt: skip
        self.assertIn("Fake GPU is integrated: no NIC writes into cuMemAlloc's memory there", child.stderr)
        self.assertIn("Take memory igpu: the NIC writes its host memory, and kernels read it, without a copy. "
                      "Discrete GPUs here: 1 (Fake GPU, 0000:b8:00.0)", child.stderr)  # fmt: skip
        child = self.run_program("run", *plugins(), "config/loopback-cuda.yaml", "--count", 1000,
                                 environment=environment("integrated=0"))  # fmt: skip
        self.assertNotIn("integrated", child.stderr)

    @scripted
    def test_the_platform_is_named(self):
        root = self.folder / "root"
        tree = root / "proc" / "device-tree"
        tree.mkdir(parents=True)
        (tree / "compatible").write_bytes(b"nvidia,p3740-0002+p3701-0008\0nvidia,p3701-0008\0nvidia,tegra234\0")
        on_it = {**environment("devices=2,integrated=1"), "PENSTOCK_TEST_ROOT": str(root)}
        child = self.run_program("plugins", *plugins(), "igpu", environment=on_it)
        self.assertIn("memory igpu 1.0: usable", child.stdout)
        self.assertIn("Orin (tegra234), integrated; a NIC reaches pinned host memory as it does any host memory, and "
                      "cuMemAlloc's memory by nv-p2p alone, whose module (nvidia-p2p) is not loaded", child.stdout)  # fmt: skip
        self.assertNotIn("0000:b8:00.0", child.stdout)  # discrete
        child = self.run_program("plugins", *plugins(), "cuda", environment=on_it)
        self.assertIn("integrated: memory igpu is what a NIC and its kernels both reach", child.stdout)
        child = self.run_program("plugins", *plugins(), "igpu", environment=environment("integrated=0"))
        self.assertIn("is discrete", child.stdout)
        self.assertIn("allow_discrete: true", child.stdout)

    def test_what_the_file_says_is_checked(self):
        for change, expected in ((f"{OPTIONS}.cache=uncached", "cached, write_combined"),
                                 (f"{OPTIONS}.device=eth0", "not a name of a GPU"),
                                 ("streams.packets.receiver.path=direct", "`path: direct` asked for, but here it is mapped")):  # fmt: skip
            with self.subTest(change=change):
                expect = 3 if "path=" in change else 2
                self.assertIn(expected, self.refused(SCRIPT, *LEAVE, "--set", change, expect=expect))


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main(side_by_side=3)
