#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock init: every file that it writes passes `check`, and runs where this machine can."""
import itertools
import json
import os
import pty
import re
import socket
import subprocess
import unittest

import cuda_driver
import netns
from harness import BUILD, ON_UCX, Case, PATIENCE, PROGRAM, SIMULATED, main
from test_topo import record

HERE = {"links": [
    {"name": "va0", "index": 2, "mtu": 1500, "up": True, "carrier": True, "addresses": ["10.77.0.1/24"]},
    {"name": "vb0", "index": 3, "mtu": 1500, "up": True, "carrier": True, "addresses": ["10.77.0.2/24"]},
]}  # fmt: skip

NETWORK = {"links": [
    {"name": "eth0", "index": 2, "mtu": 9000, "up": True, "carrier": True, "speed_mbps": 100000,
     "addresses": ["192.0.2.1/24"]},
    {"name": "eth1", "index": 3, "mtu": 1500, "up": True, "carrier": True, "speed_mbps": 400000,
     "addresses": ["2001:db8::1/64"]},
    {"name": "eno1", "index": 4, "mtu": 1500, "up": True, "carrier": True, "speed_mbps": 1000, "addresses": []},
]}  # fmt: skip


class Init(Case):
    def dgx(self):
        root = self.folder / "machine"
        if not root.exists():
            record(root, {"penstock/network.json": json.dumps(NETWORK), "sys/class/net/eth1/speed": "400000"})
        return root

    def written(self, *words, command="receive", **options):
        """The text of a file that is written and passes `check --for` this command."""
        path = self.folder / f"{len(list(self.folder.glob('*.yaml')))}.yaml"
        self.run_program("init", *words, "-o", path, **options)
        self.run_program("check", path, "--for", command, "-q")
        return path

    def test_each_kind_passes_check(self):
        """Kinds, transports, adapters and memories of a machine with four GPUs: all, or where that takes long a third,
        in which each two values meet."""
        (self.folder / "in.bin").write_bytes(b"x")
        root, source, sink = self.dgx(), f"file:{self.folder / 'in.bin'}", f"file:{self.folder / 'out.bin'}"
        every = itertools.product(("camera", "instrument", "receive", "send"), ("eth0", "mlx5_1", "192.0.2.1"),
                                  ("", "udp", "ethernet", "verbs_rc", "ucx"), ("host", "gpu0", "0000:a1:00.0", "file"))  # fmt: skip
        for kind, adapter, transport, memory in itertools.islice(every, 0, None, 3 if PATIENCE > 1 else 1):
            if kind in ("camera", "instrument") and transport in ("verbs_rc", "ucx"):
                continue
            sends = kind == "send"
            place = (source if sends else sink) if memory == "file" else memory
            words = ["--root", root, "--as", kind, "--from", place if sends else adapter,
                     "--to", adapter if sends else place, "--rate", "2Gbps"]  # fmt: skip
            with self.subTest(words=words, transport=transport):
                path = self.written(*words, *(["--peer", "192.0.2.7"] if sends else []),
                                    *(["--transport", transport] if transport else []),
                                    command="send" if sends else "receive")  # fmt: skip
                path.unlink()

    def test_values_fit_the_machine(self):
        text = self.written("--root", self.dgx(), "--as", "receive", "--from", "eth0", "--to", "gpu0").read_text()
        for line in (r'  address: "192\.0\.2\.1:18515" ', r"  insecure: true ", r"  cpus: \[2\] .*NUMA node, isolated",
                     r"  plugin: verbs_rc ", r'    device: "mlx5_0" ', r'          device: "0000:13:00\.0" .*gpu0',
                     r"    message: 64 KiB ", r"      max_loss: 0 "):  # fmt: skip
            self.assertRegex(text, f"(?m)^{line}")
        text = self.written("--root", self.dgx(), "--as", "camera", "--from", "eth0", "--to", "host").read_text()
        for line in (r"    message: 8960 B ", r"          numa_node: 0 ", r'    device: "eth0" ', r"    ring: 4096 .*"):
            self.assertRegex(text, f"(?m)^{line}")
        text = self.written("--root", self.dgx(), "--as", "send", "--to", "eth1", "--peer", "2001:db8::2",
                            "--transport", "udp", command="send").read_text()  # fmt: skip
        for line in (r'  address: "\[2001:db8::2\]:18515" ', r"    message: 1436 B ", r"      rate: 5000 Mbps "):
            self.assertRegex(text, f"(?m)^{line}")

    def test_each_value_has_a_comment(self):
        text = self.written("--root", self.dgx(), "--as", "receive", "--from", "eth0", "--to", "gpu1").read_text()
        for line in text.splitlines():
            if re.match(r"\s*(?:- )?\w+: ", line):
                self.assertIn(" # ", line)
            if not line.startswith("# Written"):
                self.assertLessEqual(len(line), 101)

    def test_what_is_not_there(self):
        for words, said in ((("--as", "loopback", "--to", "gpu9"), "gpu3 (GH100 [H100 SXM5 80GB])"),
                            (("--as", "camera", "--from", "eth9"), "eth0 (192.0.2.1/24)"),
                            (("--as", "receive", "--from", "eno1"), "ip address add"),
                            (("--as", "receive", "--from", "eno1"), "eno1"),
                            (("--as", "camera", "--from", "eth0", "--to", "igpu"), "no such memory")):  # fmt: skip
            child = self.run_program("init", "--root", self.dgx(), *words, expect=3)
            self.assertIn(said, child.stderr)
            self.assertEqual(child.stdout, "")

    def test_wrong_words(self):
        for words, said in (((), "--as is missing (What is streamed): camera, instrument, "), (("--as", "camrea"), "did you mean 'camera'"),
                            (("--as", "camera"), "--from is missing (Adapter to receive on): eno1, eth0 (192.0.2.1/24)"),
                            (("--as", "send", "--to", "eth0"), "--peer is missing (Address of the receiver): 192.0.2.7, "),
                            (("--as", "camera", "--from", "eth0", "--transport", "ucx"), "udp and ethernet do"),
                            (("--as", "camera", "--from", "eth0", "--rate", "fast"), "10Gbps")):  # fmt: skip
            self.assertIn(said, self.run_program("init", "--root", self.dgx(), *words, expect=2).stderr)

    def test_peers(self):
        """An address or a name, which cannot add keys to the file."""
        send = ("--root", self.dgx(), "--as", "send", "--to", "eth0", "--transport", "udp", "--peer")
        for peer, address in (("[2001:db8::7]", "[2001:db8::7]"), ("192.0.2.7", "192.0.2.7"), ("far.example", "far.example")):
            self.assertIn(f'"{address}:18515"', self.written(*send, peer, command="send").read_text())
        for peer in ('a"', "a:1", "a b", "[]", "a\nb", "x" * 65, "x" * 600, "[[::1]]"):
            with self.subTest(peer):
                self.run_program("init", *send, peer, expect=2)

    def test_ports_that_carry_no_datagrams(self):
        root = record(self.folder / "small", {"penstock/network.json": json.dumps(NETWORK), "sys/class/net/eth0/mtu": "40",
                                              "sys/class/net/eth1/type": "32"})  # fmt: skip
        for words, said in ((("--from", "eth0", "--transport", "udp"), "MTU of eth0 is 40"),
                            (("--from", "eth1", "--transport", "ethernet"), "InfiniBand")):  # fmt: skip
            self.assertIn(said, self.run_program("init", "--root", root, "--as", "receive", *words, expect=3).stderr)

    def test_names_with_control_characters(self):
        network = {"links": [{"name": "e\x1b#x", "index": 9, "mtu": 1500, "up": True, "carrier": True, "addresses": ["192.0.2.9/24"]}]}
        root = record(self.folder / "odd", {"penstock/network.json": json.dumps(network)})
        text = self.run_program("init", "--root", root, "--as", "camera", "--from", "192.0.2.9").stdout
        self.assertIn('device: "e\\x1B#x"', text)
        self.assertNotIn("\x1b", text)

    def test_a_file_is_never_replaced(self):
        path = self.write("mine.yaml", "mine")
        child = self.run_program("init", "--as", "loopback", "-o", path, expect=2)
        self.assertIn("the file exists", child.stderr)
        self.assertEqual(path.read_text(), "mine")

    def test_it_asks_on_a_terminal(self):
        near, far = pty.openpty()
        path = self.folder / "asked.yaml"
        os.write(near, b"camera\nlo\n\n")
        self.assertEqual(subprocess.run([PROGRAM, "init", "-o", path], stdin=far, stderr=far, timeout=60).returncode, 0)
        os.close(far)
        said = os.read(near, 65536).decode()
        os.close(near)
        for question in ("What is streamed [loopback]", "Adapter to receive on", "Memory or file to receive into [host]"):
            self.assertIn(question, said)
        self.assertIn('device: "lo" ', path.read_text())

    def test_loopback_runs(self):
        path = self.written("--as", "loopback", command="run")
        result, _ = self.run_json("run", path, "--count", "1000")
        self.assert_accounted(self.only_stream(result))

    def test_two_processes_over_lo(self):
        """As written, but for the port, which tests share, and the rate."""
        sets = ["--set", f"control.address=127.0.0.1:{self.port}", "--set", "streams.packets.timeout=1min"]
        receive = self.written("--as", "receive", "--from", "lo", "--transport", "udp")
        send = self.written("--as", "send", "--to", "lo", "--transport", "udp", "--rate", "50Mbps", command="send")
        receiver = self.start("receive", receive, *sets, "--json", self.folder / "r.json")
        self.run_program("send", send, *sets, "--count", "500")
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.only_stream(self.result("r.json"))
        self.assertEqual(stream["messages_sent"], 500)
        self.assert_accounted(stream)

    def test_a_camera_over_lo(self):
        path = self.written("--as", "camera", "--from", "lo")
        receiver = self.start("receive", path, "--set", f"streams.camera.receiver.transport.options.port={self.port}",
                              "--set", "transport.options.device=127.0.0.1", "--set", "streams.camera.receiver.count=3")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as camera:
            number = 0
            while receiver.poll() is None:
                camera.sendto(bytes([0x80, 96]) + number.to_bytes(2, "big") + bytes(8) + b"x" * 100, ("127.0.0.1", self.port))
                number = (number + 1) % 65536
        self.assertEqual(receiver.wait(), 0, str(receiver))

    # ---- Files for devices, run on devices that stand for them ----

    def both(self, receive, send, sets=(), prefixes=((), ()), **options):
        """Runs two files with one another, as written but for `sets`; the receiver's stream."""
        words = [word for one in (*sets, "streams.packets.timeout=1min") for word in ("--set", one)]
        receiver = self.start("receive", receive, *words, "--json", self.folder / "r.json", prefix=prefixes[0], **options)
        sender = self.start("send", send, *words, "--count", "500", prefix=prefixes[1], **options)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.only_stream(self.result("r.json"))
        self.assertEqual((stream["messages_sent"], stream["verified"]), (500, stream["messages_delivered"]))
        self.assert_accounted(stream)
        return stream

    def pair(self, root, receiving, sending, transport, peer="192.0.2.1"):
        words = ("--root", root, "--transport", transport, "--rate", "50Mbps")
        return (self.written(*words, "--as", "receive", "--from", receiving),
                self.written(*words, "--as", "send", "--to", sending, "--peer", peer, command="send"))  # fmt: skip

    @property
    def near(self):
        """The fixture's CPUs, NUMA node and address are not this machine's."""
        return (f"control.address=127.0.0.1:{self.port}", "threads.cpus=[]",
                *(f"streams.packets.{end}.memory.options.numa_node=auto" for end in ("sender", "receiver")))  # fmt: skip

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_an_adapter_for_rdma(self):
        """mlx5_0 of the file is that of the simulated fabric; verbs_dc takes the same file."""
        files = self.pair(self.dgx(), "eth0", "eth0", "verbs_rc")
        for plugin in ("verbs_rc", "verbs_dc"):
            with self.subTest(plugin):
                fabric = (SIMULATED, "--fabric", f"init-{plugin}-{os.getpid()}")
                stream = self.both(*files, (*self.near, f"transport.plugin={plugin}"), (fabric, fabric))
                self.assertEqual((stream["path"], stream["carrier"]), ("direct", "rdma"))

    @unittest.skipUnless((BUILD / "transports" / "transport-ucx.so").exists(), "the plugin ucx is not built")
    def test_ucx_over_lo(self):
        files = (self.written("--as", "receive", "--from", "lo", "--transport", "ucx"),
                 self.written("--as", "send", "--to", "lo", "--transport", "ucx", command="send"))  # fmt: skip
        stream = self.both(*files, (f"control.address=127.0.0.1:{self.port}",), environment=ON_UCX)
        self.assertEqual(stream["messages_delivered"], 500)

    @unittest.skipUnless((BUILD / "transports" / "transport-ethernet.so").exists(), "the plugin ethernet is not built")
    def test_frames_between_two_namespaces(self):
        spaces = netns.Namespaces()
        self.addCleanup(spaces.close)
        if not spaces.reaches(BUILD / "transports" / "transport-ethernet.so"):
            self.skipTest("an ordinary user cannot read the plugin")
        files = {f"sys/class/net/{name}/{key}": text for name, index in (("va0", "2"), ("vb0", "3"))
                 for key, text in (("ifindex", index), ("mtu", "1500"), ("type", "1"), ("operstate", "up"))}  # fmt: skip
        root = record(self.folder / "veth", {**files, "penstock/network.json": json.dumps(HERE)})
        files = self.pair(root, "vb0", "va0", "ethernet", "10.77.0.2")
        self.folder.chmod(0o777)
        stream = self.both(*files, self.near[1:], (spaces.enter(netns.FAR), spaces.enter(netns.NEAR)))
        self.assertEqual(stream["messages_delivered"], 500)

    def test_a_gpu(self):
        """On the fake driver, whose GPU has another PCI address."""
        path = self.written("--root", self.dgx(), "--as", "loopback", "--to", "gpu0", command="run")
        words = ("--set", "threads.cpus=[]", "--set", "streams.packets.receiver.memory.options.device=0")
        result, _ = self.run_json("run", *cuda_driver.plugins(), path, *words, "--count", "1000",
                                  environment=cuda_driver.environment("delay_us=0"))  # fmt: skip
        stream = self.only_stream(result)
        self.assertEqual((stream["receiver"]["memory"], stream["verified"]), ("cuda", 1000))
        self.assert_accounted(stream)


if __name__ == "__main__":
    main()
