#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport verbs_rc in the real program, on the simulated device."""
import filecmp
import json
import os
import re
import signal
import subprocess
import unittest

from harness import FAKES, SIMULATED, Case, child_of, main, random_file, wait_until, yaml_stream

OPTIONS = {"device": "mlx5_0", "timeout": 10, "keepalive": "100 ms"}


@unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
class Verbs(Case):
    def setUp(self):
        super().setUp()
        self.fabric = f"e2e-{os.getpid()}"

    def prefix(self):
        return {"prefix": (SIMULATED, "--fabric", self.fabric)}

    def verbs_config(self, **parts):
        options = ", ".join(f"{key}: {value}" for key, value in OPTIONS.items())
        path = self.config(yaml_stream(**{"message": "1462 B", "ring": 256, "timeout": "60 s", **parts}))
        transport = f"transport: {{plugin: verbs_rc, options: {{{options}}}}}"
        path.write_text(path.read_text().replace("transport: {plugin: loopback}", transport))
        return path

    def test_one_process(self):
        self.run_program("run", self.verbs_config(), "--count", "20000", "--json",
                         self.folder / "out.json", **self.prefix())  # fmt: skip
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_delivered"], 20000)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assertEqual((stream["path"], stream["via"], stream["carrier"]), ("direct", "dma", "rdma"))

    def test_two_processes(self):
        path = self.verbs_config()
        receiver = self.start("receive", path, "--json", self.folder / "out.json", **self.prefix())
        sender = self.start("send", path, "--count", "20000", **self.prefix())
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (20000, 20000))
        self.assertEqual(stream["dropped"], {})

    def test_what_the_ends_have_agreed_on(self):
        """The smaller MTU, and with `-v` how each sees the connection; GIDs that do not go together."""
        path = self.verbs_config()
        small = ("--set", "transport.options.mtu=512")
        receiver = self.start("receive", path, "-v", *small, **self.prefix())
        sender = self.start("send", path, "-v", "--count", "1000", **self.prefix())
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        for end, packets in ((sender, r" \(3 packets a message\)"), (receiver, "")):
            self.assertRegex(str(end), r"packets: connected: mlx5_0 port 1, QP \d+ to QP \d+ of \S+, MTU 512"
                                       f"{packets}, hop limit 64,.*GID 3, ")  # fmt: skip
        self.assertRegex(str(receiver), r"packets: connected: .*, 256 slots, 15 us of 200 Gbit/s, ")
        receiver = self.start("receive", path, "--set", "transport.options.gid_index=0", **self.prefix())
        sender = self.start("send", path, "--count", "1000", **self.prefix())
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}{receiver}")
        self.assertRegex(str(sender), "one end's GID is RoCE v1, the other's RoCE v2; set gid_index")

    def test_gids_of_vlans_and_of_other_namespaces(self):
        """A VLAN's address, where the netdev under it has none; and this namespace's own, in a pod."""
        vlan = ('{gid: "fe80::1", ifindex: 2}', '{gid: "::ffff:192.0.2.1", vlan: 100, ifindex: 5}')
        pod = ('{gid: "fe80::1", ifindex: 1}', '{gid: "::ffff:192.0.2.1", ifindex: 1}', '{gid: "::ffff:127.0.0.1"}')
        cases = (("mlx5_0", vlan, r"GID 1, 192\.0\.2\.1 \(RoCE v2\): a VLAN's"),
                 ("", pod, r"GID 2, 127\.0\.0\.1 \(RoCE v2\): the port's only routable"),
                 ("lo", pod, r"mlx5_0 port 1,.*GID 2, 127\.0\.0\.1 \(RoCE v2\): of the netdev that device names"))  # fmt: skip
        for i, (device, gids, words) in enumerate(cases):
            with self.subTest(device=device, gids=gids):
                fabric = self.folder / f"gids-{os.getpid()}-{i}.yaml"
                fabric.write_text(
                    "simverbs: 1\nsubnets: [{name: a}, {name: b}]\nhosts:\n  - name: one\n    devices:\n"
                    "      - {name: other0, ports: [{subnet: b, state: down, gids: [{gid: \"::ffff:192.0.2.9\", ifindex: 1}]}]}\n"
                    f"      - {{name: mlx5_0, ports: [{{subnet: a, netdev: lo, gids: [{', '.join(gids)}]}}]}}\n")  # fmt: skip
                self.fabric = str(fabric)
                child = self.run_program("run", self.verbs_config(), "-v", "--count", "1000", "--set",
                                         f"transport.options.device={device}", **self.prefix())  # fmt: skip
                self.assertRegex(str(child), words)

    def test_one_end_alone_has_reconnect(self):
        """Each end says so, before anything fails; where both have it, or neither, nobody does."""
        path = self.verbs_config()
        has = ("--set", "transport.options.reconnect=20s")
        ours, theirs = "this end has `reconnect`, and the peer does not", "the peer has `reconnect`, and this end does not"
        for sends, receives in ((True, False), (False, True), (True, True), (False, False)):
            with self.subTest(sends=sends, receives=receives):
                receiver = self.start("receive", path, *has * receives, **self.prefix())
                sender = self.start("send", path, "--count", "1000", *has * sends, **self.prefix())
                self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
                for end, own in ((sender, sends), (receiver, receives)):
                    said = re.findall(r"warning: .*packets: (.*); the connection ends the first time it fails; "
                                      "give both ends `reconnect`", str(end))  # fmt: skip
                    self.assertEqual(said, [ours if own else theirs] if sends != receives else [], str(end))

    def test_either_is_killed(self):
        path = self.verbs_config()
        for victim in (0, 1):
            receiver = self.start("receive", path, **self.prefix())
            sender = self.start("send", path, **self.prefix())
            try:
                receiver.wait_line(r"Got \d{2,}")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{sender}") from None
            both = (receiver, sender)
            # The launcher stands before the program: its child is what dies.
            os.kill(child_of(both[victim].pid), signal.SIGKILL)
            both[victim].wait()
            self.assertEqual(both[1 - victim].wait(30), 1, str(both[1 - victim]))
        # And afterwards all is as before.
        self.run_program("run", path, "--duration", "0.2", **self.prefix())

    def test_either_device_is_lost(self):
        """Both ends name the end whose device it was: neither says that the other is gone."""
        for host, role in (("left", "sender"), ("right", "receiver")):
            with self.subTest(host=host):
                fabric = self.folder / f"{host}-{os.getpid()}.yaml"
                fabric.write_text("simverbs: 1\nhosts:\n"
                                  "  - {name: left, devices: [{name: mlx5_0}]}\n"
                                  "  - {name: right, devices: [{name: mlx5_0}]}\n"
                                  f"faults:\n  - {{do: remove-device, on: {host}/mlx5_0, from: left, after: 3000}}\n")  # fmt: skip
                path = self.verbs_config()
                on = {name: {"prefix": (SIMULATED, "--fabric", str(fabric), "--host", name)} for name in ("left", "right")}
                receiver = self.start("receive", path, **on["right"])
                sender = self.start("send", path, **on["left"])
                self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}{receiver}")
                for end in (sender, receiver):
                    self.assertIn(f"the {role}'s device of transport verbs_rc has failed", str(end))
                    self.assertNotRegex(str(end), r"\) (is gone|ended)")

    def test_link_that_is_down_for_a_while(self):
        """5 s of the fabric's clock, twice; each message arrives once, by either operation, and over several queue
        pairs."""
        for operation, qps in (("write", 1), ("send", 1), ("write", 4)):
            with self.subTest(operation=operation, qps=qps):
                self.fabric = f"e2e-{os.getpid()}-{operation}-{qps}"
                path = self.verbs_config()
                path.write_text(path.read_text().replace(
                    "device: mlx5_0", f"device: mlx5_0, operation: {operation}, qps: {qps}, reconnect: 20 s"))  # fmt: skip
                receiver = self.start("receive", path, "--json", self.folder / "out.json", **self.prefix())
                sender = self.start("send", path, **self.prefix())
                receiver.wait_line(r"Got \d{2,}")
                for _ in range(2):
                    seen = str(sender).count("is re-established")
                    for action in (("clock", "20"), ("port-down", "host/mlx5_0/1", "--for", "5s")):
                        subprocess.run([SIMULATED, "ctl", self.fabric, *action], check=True)
                    wait_until(lambda: str(sender).count("is re-established") > seen, 30, "the connection")
                os.kill(child_of(sender.pid), signal.SIGINT)
                self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
                stream = self.only_stream(self.result())
                self.assert_accounted(stream)
                self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
                self.assertEqual((stream["verified"], stream["duplicates"]), (stream["messages_delivered"], 0))

    def test_queue_pairs_of_a_provider_without_locks(self):
        """The thread that polls resets a queue pair: mlx5 ends the process where another does."""
        path = self.verbs_config()
        path.write_text(path.read_text().replace("device: mlx5_0", "device: mlx5_0, reconnect: 20 s"))
        single = {"environment": {"MLX5_SINGLE_THREADED": "1"}, **self.prefix()}
        receiver = self.start("receive", path, "--json", self.folder / "out.json", **single)
        sender = self.start("send", path, **single)
        receiver.wait_line(r"Got \d{2,}")
        for action in (("clock", "20"), ("port-down", "host/mlx5_0/1", "--for", "5s")):
            subprocess.run([SIMULATED, "ctl", self.fabric, *action], check=True)
        wait_until(lambda: "is re-established" in str(sender), 30, "the connection")
        os.kill(child_of(sender.pid), signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        self.assert_accounted(self.only_stream(self.result()))

    def test_served_files_and_regions(self):
        root = self.folder / "root"
        root.mkdir()
        random_file(root / "a", 5_000_001)
        options = ["--transport", "verbs_rc", "--transport-option", "device=mlx5_0"]
        results = {name: self.folder / f"{name}.json" for name in ("serve", "put")}
        server = self.start("serve", "127.0.0.1:0", "-v", "--root", root, "--json", results["serve"], *options, **self.prefix())
        address = "127.0.0.1:" + server.wait_line(r"listening on 127\.0\.0\.1:0, port (\d+)")[1]
        for what in ("write", "read"):
            child = self.run_program("request", what, address, "--size", "100000B", "--pieces", "7",
                                     "--depth", "3", "--count", "50", *options, **self.prefix())  # fmt: skip
            self.assertIn("5000000 bytes verified", child.stdout)
            # Across 4 GiB of a region of which no more is touched, by malloc neither.
            child = self.run_program("request", what, address, "--offset", "4294917296B", "--size", "100000B",
                                     "--count", "4", "--depth", "2", "--memory-option", "populate=false",
                                     "--memory-option", "backing=memfd", *options, **self.prefix())  # fmt: skip
            self.assertIn("400000 bytes verified", child.stdout)
        self.run_program("get", address, "a", "--to", self.folder / "b", *options, **self.prefix())
        self.run_program("put", address, self.folder / "b", "--to", "c", "--json", results["put"], *options, **self.prefix())
        self.assertTrue(filecmp.cmp(root / "a", root / "c", shallow=False))
        os.kill(child_of(server.pid), signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))
        for path in results.values():
            (device,) = json.loads(path.read_text())["devices"]
            self.assertEqual((device["transport"], device["device"]), ("verbs_rc", "mlx5_0"))
            self.assertTrue(device["counters"])
            (worker,) = device["workers"]
            self.assertGreater(worker["counters"]["completion_queue"], 0)

    def test_a_server_outlives_addresses(self):
        """The server starts before its port has an address, and goes on with the next address."""
        root = self.folder / "root"
        root.mkdir()
        random_file(root / "a", 100_000)
        first, next_one = "::ffff:10.9.0.1", "::ffff:10.9.0.2"
        cases = (("ethernet", "gids: []", ("--gid", first, "--index", "3"), ("--gid", next_one, "--index", "3"), "no address yet"),
                 ("infiniband", "lid: 0", ("--lid", "7"), ("--lid", "9"), None))  # fmt: skip
        for layer, port, before, after, words in cases:
            with self.subTest(layer):
                fabric = self.folder / f"{layer}-{os.getpid()}.yaml"
                fabric.write_text("simverbs: 1\nhosts:\n"
                                  f"  - {{name: left, devices: [{{name: mlx5_0, ports: [{{link_layer: {layer}, {port}}}]}}]}}\n"
                                  f"  - {{name: right, devices: [{{name: mlx5_0, ports: [{{link_layer: {layer}}}]}}]}}\n")  # fmt: skip
                self.fabric = str(fabric)
                on = {name: {"prefix": (SIMULATED, "--fabric", str(fabric), "--host", name)} for name in ("left", "right")}
                options = ("--transport", "verbs_rc", "--transport-option", "device=mlx5_0")
                server = self.start("serve", "127.0.0.1:0", "-v", "--root", root, *options, **on["left"])
                address = "127.0.0.1:" + server.wait_line(r"listening on 127\.0\.0\.1:0, port (\d+)")[1]
                for change in (before, after):
                    subprocess.run([SIMULATED, "ctl", self.fabric, "port-set", "left/mlx5_0/1", *change], check=True)
                    self.run_program("get", address, "a", "--to", self.folder / "b", "--overwrite", *options, **on["right"])
                    self.assertTrue(filecmp.cmp(root / "a", self.folder / "b", shallow=False))
                if words:
                    self.assertIn(words, str(server))
                self.assertRegex(str(server), "mlx5_0 port 1 has another address now: ")
                os.kill(child_of(server.pid), signal.SIGINT)
                self.assertEqual(server.wait(), 0, str(server))

    def test_a_server_whose_device_is_lost_ends(self):
        server = self.start("serve", "127.0.0.1:0", "--transport", "verbs_rc", "--transport-option", "device=mlx5_0",
                            **self.prefix())  # fmt: skip
        server.wait_line("listening on")
        subprocess.run([SIMULATED, "ctl", self.fabric, "remove-device", "host/mlx5_0"], check=True)
        self.assertEqual(server.wait(), 1, str(server))
        self.assertIn("device of transport verbs_rc has failed", str(server))

    def plant(self, *faults, caps=""):
        """A fabric of one RoCE device with these faults from the beginning, instead of the last one."""
        self.planted = getattr(self, "planted", 0) + 1
        description = self.folder / f"planted-{os.getpid()}-{self.planted}.yaml"
        description.write_text(
            "simverbs: 1\nhosts:\n  - name: one\n    devices:\n      - name: mlx5_0\n"
            f"        ports: [{{link_layer: ethernet}}]\n        caps: {{{caps}}}\nfaults:\n"
            + "".join(f"  - {{{fault}, on: one}}\n" for fault in faults)
        )
        self.fabric = str(description)

    def test_the_default_ring_by_the_link(self):
        """Without `ring` and `rate`: what the receiver's part of 200 Gbit/s fills in 100 us. The larger plan reaches
        a device whose completion queues do not grow, through a filter, too; soft-RoCE's speed is no link's."""
        fault = ", filters: [fault]}"
        cases = (("", "", {}, 1, 2048), ("", "", {}, 2, 1024), ("", "", {"ring": 64}, 1, 64),
                 ("", "", {"sender": "{rate: 1 Gbps}"}, 1, 512), ("", fault, {}, 1, 2048),
                 ("caps: {resize_cq: false}, ", "", {}, 2, 1024), ("caps: {resize_cq: false}, ", fault, {}, 1, 2048),
                 ("vendor: soft-roce, ", "", {}, 1, 512))  # fmt: skip
        for i, (device, filters, parts, streams, slots) in enumerate(cases):
            with self.subTest(device=device, filters=filters, parts=parts, streams=streams):
                fabric = self.folder / f"link-{os.getpid()}-{i}.yaml"
                fabric.write_text("simverbs: 1\nhosts:\n  - name: one\n    devices:\n"
                                  f"      - {{name: mlx5_0, {device}ports: [{{link_layer: ethernet}}]}}\n")  # fmt: skip
                self.fabric = str(fabric)
                path = self.config("".join(yaml_stream(name, **{"message": "1462 B", **parts})
                                           for name in ("a", "b")[:streams]))  # fmt: skip
                path.write_text(path.read_text().replace(
                    "transport: {plugin: loopback}",
                    "transport: {plugin: verbs_rc, options: {device: mlx5_0}" + (filters or "}")))  # fmt: skip
                result, child = self.run_json("run", path, "-v", "--count", "5000", **self.prefix())
                self.assertEqual([stream["ring_slots"] for stream in result["streams"]], [slots] * streams)
                self.assertIn(f" {slots} slots, ", str(child))

    def test_a_host_of_many_devices(self):
        """40 devices, of which one may not be opened and two have no RC: each is listed with its reason."""
        fabric = self.folder / f"many-{os.getpid()}.yaml"
        special = {3: ", opens: EACCES", 4: ", transport: iwarp", 5: ", transport: efa"}
        fabric.write_text("simverbs: 1\nhosts:\n  - name: one\n    devices:\n" + "".join(
            f"      - {{name: mlx5_{i}{special.get(i, '')}}}\n" for i in range(40)))  # fmt: skip
        self.fabric = str(fabric)
        for device in ("mlx5_39", "mlx5_0", "10.1.1.79"):
            self.run_program("run", self.verbs_config(), "--count", "1000", "--set", f"transport.options.device={device}",
                             **self.prefix())  # fmt: skip
        for device, words in (("mlx5_3", "mlx5_3 cannot be opened: Permission denied; give this user"),
                              ("mlx5_4", "mlx5_4 is iWARP, which has no RDMA WRITE with immediate data"),
                              ("mlx5_5", "mlx5_5 is not of InfiniBand's transports .EFA"),
                              ("10.1.1.200", "mlx5_3, which cannot be opened: Permission denied")):  # fmt: skip
            child = self.run_program("run", self.verbs_config(), "--set", f"transport.options.device={device}", expect=3,
                                     **self.prefix())  # fmt: skip
            self.assertRegex(child.stderr, words)

    def test_a_device_whose_completion_queues_do_not_grow(self):
        self.plant(caps="resize_cq: false")
        for parts in ({"ring": 4096}, {"ring": 4096, "options": "qps=4"}, {"ring": 2048, "options": "operation=send"}):
            with self.subTest(**parts):
                key, value = parts.get("options", "qps=1").split("=")
                child = self.run_program("run", self.verbs_config(ring=parts["ring"]), "--count", "10000", "--set",
                                         f"transport.options.{key}={value}", **self.prefix())  # fmt: skip
                self.assertNotIn("ibv_resize_cq", str(child))
        # Elsewhere it begins with 16384, which are given as 32767, for peers that may never come.
        server = self.start("serve", "127.0.0.1:0", "--clients", "400", "--transport", "verbs_rc", "--transport-option", "device=mlx5_0",
                            "--json", self.folder / "out.json", **self.prefix())  # fmt: skip
        server.wait_line("listening on")
        os.kill(child_of(server.pid), signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))
        (device,) = self.result()["devices"]
        self.assertGreater(device["workers"][0]["counters"]["completion_queue"], 65536)

    def in_gpu_memory(self, script, *memories, config=None):
        """A stream whose ends are in memory of the fake driver's GPU; the slots begin anywhere."""
        cuda = FAKES / "cuda"
        child = self.run_program(
            "run", config or self.verbs_config(), "--plugin-path", cuda, "--count", "1000",
            *memories, "--json", self.folder / "out.json", environment={"LD_LIBRARY_PATH": str(cuda), "FAKE_CUDA": script},
            **self.prefix())  # fmt: skip
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["verified"], 1000, str(child))
        self.assertEqual(stream["corrupted"], 0)
        return stream

    def test_gpu_memory_by_dma_buf(self):
        stream = self.in_gpu_memory("delay_us=50", "--set", "streams.packets.sender.memory=cuda",
                                    "--set", "streams.packets.receiver.memory=cuda")  # fmt: skip
        self.assertEqual((stream["path"], stream["via"]), ("direct", "dma-buf"))

    def test_memory_that_an_integrated_gpu_maps(self):
        """The NIC has it by an ordinary registration, and a kernel checks each byte there."""
        for script in ("integrated=1,no_copies", "integrated=1,no_copies,apart"):
            with self.subTest(script=script):
                stream = self.in_gpu_memory(script, config="config/verbs-igpu.yaml")
                self.assertEqual((stream["path"], stream["via"]), ("mapped", "dma"))

    def test_what_the_nic_wrote_is_flushed(self):
        """The GPU sees it only behind cuFlushGPUDirectRDMAWrites; each byte is checked by a kernel."""
        stream = self.in_gpu_memory("delay_us=0,late_writes", "--set", "streams.packets.receiver.memory=cuda")
        self.assertEqual((stream["path"], stream["via"]), ("direct", "dma-buf"))

    def test_small_sends_into_gpu_memory(self):
        """mlx5 has the CPU put up to 32 bytes in, at an address that faults, unless told otherwise."""
        for size in (1, 20, 32, 33, 64):
            with self.subTest(size):
                stream = self.in_gpu_memory("delay_us=0", "--set", "streams.packets.receiver.memory=cuda",
                                            "--set", "streams.packets.transport.options.operation=send",
                                            "--set", f"streams.packets.message={size}B")  # fmt: skip
                self.assertEqual((stream["path"], stream["via"]), ("direct", "dma-buf"))

    def test_gpu_memory_that_exports_none_is_staged(self):
        stream = self.in_gpu_memory("no_dmabuf", "--set", "streams.packets.receiver.memory=cuda")
        self.assertEqual(stream["path"], "staged")
        self.assertIn("dma-buf: its memory exports none", stream["path_reason"])

    def test_gpu_memory_that_no_nic_can_reach_is_staged(self):
        """BAR1 is asked for its room before the ring is allocated."""
        memory = ("--set", "streams.packets.receiver.memory=cuda")
        stream = self.in_gpu_memory("bar1_mib=16", *memory)
        self.assertEqual(stream["path"], "staged")
        self.assertRegex(stream["path_reason"], r"memory cuda has no [0-9.]+ [KM]iB that a NIC can reach")
        cuda = FAKES / "cuda"
        child = self.run_program(
            "run", self.verbs_config(), "--plugin-path", cuda, *memory,
            "--set", "streams.packets.receiver.path=direct", expect=3,
            environment={"LD_LIBRARY_PATH": str(cuda), "FAKE_CUDA": "bar1_mib=16"}, **self.prefix())  # fmt: skip
        self.assertRegex(child.stderr, r"of its BAR1, through which NICs write, 0\.0 of 16\.0 MiB are free")

    def test_gpu_memory_that_the_device_refuses_is_staged(self):
        """Each refusal is reported, with what helps."""
        for error, words in (("EOPNOTSUPP", "dma-buf: this device's driver takes none"),
                             ("ENOMEM", "dma-buf: BAR1 or device table full.*nvidia-smi")):  # fmt: skip
            with self.subTest(error):
                self.plant(f"do: refuse-dmabuf, error: {error}")
                stream = self.in_gpu_memory("delay_us=50", "--set", "streams.packets.receiver.memory=cuda")
                self.assertEqual(stream["path"], "staged")
                self.assertRegex(stream["path_reason"], words + ".*; peermem: not loaded .`modprobe nvidia-peermem")

    def test_a_sender_in_gpu_memory_that_the_device_refuses_is_staged(self):
        memory = ("--set", "streams.packets.sender.memory=cuda")
        for script, fault, words in (("delay_us=50", "do: refuse-dmabuf, error: EOPNOTSUPP", "this device's driver takes none"),
                                     ("no_dmabuf", None, "dma-buf: its memory exports none"),
                                     ("bar1_mib=16", None, "iB that a NIC can reach")):  # fmt: skip
            with self.subTest(script=script):
                self.plant(*([fault] if fault else []))
                stream = self.in_gpu_memory(script, *memory)
                self.assertEqual(stream["path"], "staged")
                self.assertIn(words, stream["path_reason"])
        cuda = FAKES / "cuda"
        child = self.run_program(
            "run", self.verbs_config(), "--plugin-path", cuda, *memory,
            "--set", "streams.packets.sender.path=direct", expect=3,
            environment={"LD_LIBRARY_PATH": str(cuda), "FAKE_CUDA": "no_dmabuf"}, **self.prefix())  # fmt: skip
        self.assertIn("sender.path: direct is not possible: transport verbs_rc cannot send from memory cuda", child.stderr)

    def test_host_memory_that_cannot_be_locked(self):
        """With the limit's value, and how to raise it; and afterwards all is as before."""
        path = self.verbs_config()
        limit = ("prlimit", f"--memlock={64 << 10}")
        if os.geteuid() == 0:
            limit += ("setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock")
        self.plant("do: refuse-registration, error: ENOMEM, count: 1")
        child = self.run_program("run", path, expect=3, prefix=(*limit, *self.prefix()["prefix"]))
        self.assertRegex(child.stderr, "limit of 64 KiB is less than the .* KiB wanted: raise it .`ulimit -l")
        self.fabric = f"e2e-{os.getpid()}"
        self.run_program("run", path, "--duration", "0.2", **self.prefix())

    def test_a_device_whose_table_is_full(self):
        """The error names the full table, not the locked-memory limit, which had room."""
        path = self.verbs_config(message="64 B", ring=16)
        self.plant(caps="max_mr: 2")
        child = self.run_program("run", path, expect=3, **self.prefix())
        self.assertRegex(child.stderr, "room for 2 registrations .*max_mr.*this process holds 2.*limit is not the cause")
        self.plant("do: refuse-registration, error: ENOMEM, after: 1, count: 1")
        child = self.run_program("run", path, expect=3, **self.prefix())
        self.assertRegex(child.stderr, "`rdma resource`.*this one's are 1;")

    def test_more_peers_than_the_device_has_queue_pairs_for(self):
        """A peer takes two of them, which is known before the first client comes."""
        self.plant(caps="max_qp: 100")
        child = self.run_program("serve", "127.0.0.1:0", "--root", self.folder, "--transport", "verbs_rc",
                                 "--transport-option", "device=mlx5_0", expect=2, **self.prefix())  # fmt: skip
        self.assertIn("transport verbs_rc has at most 50 endpoints a device (max_qp is 100, of which each takes 2), one "
                      "for each peer, and the limit is 64 peers", child.stderr)  # fmt: skip
        self.assertIn("lower it to 50", child.stderr)

    def test_the_limit_is_named_where_it_can_be_the_reason(self):
        """The memlock limit is named for a queue, whose memory a provider pins; not for an object that pins nothing, nor with privilege."""
        path = self.verbs_config()
        plain = ("setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock") if os.geteuid() == 0 else ()
        for cap, call, is_named in (("max_pd", "ibv_alloc_pd", False), ("max_qp", "ibv_create_qp", True)):
            self.plant(caps=f"{cap}: 1")
            prefix = ("prlimit", "--memlock=65536", *plain, *self.prefix()["prefix"])
            child = self.run_program("run", path, "--set", "streams.packets.sender.transport.options.mtu=1024",
                                     expect=3, prefix=prefix)  # fmt: skip
            self.assertRegex(child.stderr, f"{call}.*Cannot allocate memory.*`ibv_devinfo -v`: {cap}")
            self.assertEqual("`ulimit -l`: 0 of 64 KiB are pinned" in child.stderr, is_named, str(child))
            self.assertEqual("ulimit" in child.stderr, is_named, str(child))

    def test_a_ring_is_registered_once(self):
        """A sender's memory, a ring, and what credit comes into: no fourth registration."""
        self.plant("do: refuse-registration, after: 3")
        self.run_program("run", self.verbs_config(), "--duration", "0.2", **self.prefix())
        self.plant("do: refuse-registration, after: 2")
        self.run_program("run", self.verbs_config(), expect=3, **self.prefix())

    def test_receives_that_are_shared(self):
        """By either operation; what a device has none of is said, and what it has is kept to."""
        path = self.verbs_config()
        shared = ("--set", "transport.options.srq=true")
        for operation in ("write", "send"):
            self.run_program("run", path, *shared, "--set", f"transport.options.operation={operation}", "--count",
                             "5000", "--json", self.folder / "out.json", **self.prefix())  # fmt: skip
            stream = self.only_stream(self.result())
            self.assert_accounted(stream)
            self.assertEqual((stream["messages_delivered"], stream["corrupted"]), (5000, 0))
        child = self.run_program("run", path, *shared, "--set", "transport.options.qps=2", expect=2, **self.prefix())
        self.assertIn("`qps: 2` needs `srq: false`, but here `srq: true` is set", child.stderr)
        self.plant(caps="max_srq: 0")
        child = self.run_program("run", path, *shared, expect=3, **self.prefix())
        self.assertRegex(child.stderr, "mlx5_0 has no shared receive queues for `srq: true`.*ibv_devinfo -v")
        self.plant(caps="max_srq_wr: 100")
        child = self.run_program("run", path, *shared, expect=3, **self.prefix())
        self.assertIn("256 slots; transport verbs_rc takes 1 to 88", child.stderr)
        self.run_program("run", path, *shared, "--set", "streams.packets.ring=88", "--count", "2000", **self.prefix())

    def test_a_device_that_takes_no_reads(self):
        """Streams run, and one-sided commands are refused before a peer comes."""
        self.plant(caps="max_rd_atomic: 0")
        self.run_program("run", self.verbs_config(), "--count", "1000", **self.prefix())
        for command in (("serve", "127.0.0.1:0", "--root", self.folder),
                        ("bench", "--memory", "host", "--size", "64", "--op", "write")):  # fmt: skip
            child = self.run_program(*command, "--transport", "verbs_rc", "--transport-option", "device=mlx5_0",
                                     expect=3, **self.prefix())  # fmt: skip
            self.assertRegex(child.stdout + child.stderr, "transport verbs_rc (lacks READ and WRITE|has no write)")

    def test_an_end_that_cannot_open(self):
        """The other one, which waits for it, hears of it, and the next case is measured."""
        self.plant(caps="gives_sends: 600")
        for measure in ("--bandwidth", "--latency"):
            result, child = self.run_json("bench", "--memory", "host", "--transport", "verbs_rc", "--transport-option", "device=mlx5_0",
                                          "--op", "send", "--size", "1462,64,1462", measure, "--duration", "20ms", expect=3,
                                          **self.prefix())  # fmt: skip
            self.assertEqual([row["ok"] for row in result["rows"]], [True, False, True], child)
            (error,) = result["errors"]
            self.assertIn("600 of 1033 sends; use a smaller `ring`", error["text"])

    def test_devices_and_mistakes(self):
        listed = self.run_program("plugins", "verbs_rc", **self.prefix()).stdout
        self.assertRegex(listed, "mlx5_0.*port 1 active, Ethernet")
        path = self.verbs_config()
        for setting, expected in (("device=mlx5_9", "error: --set transport.options.device=mlx5_9: transport verbs_rc: device \"mlx5_9\" not found .*Available: mlx5_0: port 1 active"),
                                  ("device=", "several ports are active"),
                                  ("gid_index=77", "no entry 77"),
                                  ("pkey_index=1", r"mlx5_0 port 1: the port's P_Key table has no entry 1 \(`pkey_index`\); it has 1 ")):  # fmt: skip
            child = self.run_program("run", path, "--set", f"transport.options.{setting}", expect=3,
                                     **self.prefix())  # fmt: skip
            self.assertRegex(child.stderr, expected)

    def test_options_that_do_not_go_together(self):
        """Said with file and line before a device is looked for: `check` says it where there is none."""
        path = self.verbs_config()
        path.write_text(path.read_text().replace("keepalive: 100 ms", "keepalive: 0"))
        for settings, expected in ((["reconnect=5s"], r"`reconnect: 5 s` does not go with `keepalive: 0`.*stream.yaml:\d+:"),
                                   (["qps=2", "operation=send"], "`qps: 2` needs `operation: write`, but here"),
                                   (["cm_port=7471"], "`cm_port: 7471` needs `connection: rdma_cm`.*but here `connection: exchange` is set"),
                                   (["qps=2", "srq=true"], "`qps: 2` needs `srq: false`")):  # fmt: skip
            sets = [word for setting in settings for word in ("--set", f"transport.options.{setting}")]
            for command in ("check", "run"):
                child = self.run_program(command, path, *sets, expect=2)
                self.assertRegex(child.stderr, expected)

    def test_rdma_cm(self):
        """On RoCE, over one queue pair and four; InfiniBand's GIDs are no addresses."""
        by_cm = ("--set", "transport.options.connection=rdma_cm")
        path = self.verbs_config()
        child = self.run_program("run", path, *by_cm, "--set", "transport.options.device=mlx5_1", expect=3, **self.prefix())
        self.assertRegex(child.stderr, "is InfiniBand.*connection: exchange|librdmacm was missing")
        if "librdmacm was missing" in child.stderr:
            self.skipTest("librdmacm was missing when verbs_rc was built")
        for qps in (1, 4):
            with self.subTest(qps=qps):
                more = (*by_cm, "--set", f"transport.options.qps={qps}", "-v")
                receiver = self.start("receive", path, *more, "--json", self.folder / "out.json", **self.prefix())
                sender = self.start("send", path, *more, "--count", "20000", **self.prefix())
                self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
                self.assertEqual(self.only_stream(self.result())["messages_delivered"], 20000)
                self.assertIn("by rdma_cm with GID 3 and hop limit 64", str(sender))

    def between(self, left, right, settings=()):
        """Two hosts, a device each, as described; what both ends said of the connection."""
        fabric = self.folder / f"between-{os.getpid()}-{len(self.children)}.yaml"
        fabric.write_text(f"simverbs: 1\nhosts:\n  - {{name: left, devices: [{{name: mlx5_0, {left}}}]}}\n"
                          f"  - {{name: right, devices: [{{name: mlx5_0, {right}}}]}}\n")  # fmt: skip
        path = self.verbs_config()
        on = {name: {"prefix": (SIMULATED, "--fabric", str(fabric), "--host", name)} for name in ("left", "right")}
        receiver = self.start("receive", path, "-v", *settings, **on["right"])
        sender = self.start("send", path, "-v", *settings, "--count", "1000", **on["left"])
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        return [re.search(r"packets: connected: .*", str(child))[0] for child in (sender, receiver)]

    def test_ece(self):
        """Both ends use the options that both devices have; without one in common, none."""
        off = ("--set", "transport.options.ece=false")
        for right, settings, expected in (("caps: {ece: 6}", (), ", ECE 0x2,"), ("caps: {ece: 4}", (), None),
                                          ("caps: {ece: 0}", (), None), ("caps: {ece: 6}", off, None)):  # fmt: skip
            with self.subTest(right=right, settings=settings):
                for line in self.between("caps: {ece: 3}", right, settings):
                    if expected:
                        self.assertIn(expected, line)
                    else:
                        self.assertNotIn("ECE", line)

    def test_infiniband_with_and_without_grh(self):
        """Within a subnet without; a virtual function's port requires one, and sends nothing else."""
        for needs in ("false", "true"):
            with self.subTest(needs=needs):
                port = f"ports: [{{link_layer: infiniband, grh_required: {needs}}}]"
                self.between(port, port)

    def test_rdma_cm_port_in_use(self):
        path = self.verbs_config()
        by_cm = ("--set", "transport.options.connection=rdma_cm", "--set", "transport.options.cm_port=7471")
        holder = self.start("receive", path, *by_cm, **self.prefix())
        holder.wait_line("listening|waiting")
        child = self.run_program("receive", path, *by_cm, "--set", f"control.listen=127.0.0.1:{self.port + 1}",
                                 expect=3, **self.prefix())  # fmt: skip
        self.assertRegex(child.stderr, "port 7471 of 127.0.0.1 is in use by another listener of rdma_cm")


if __name__ == "__main__":
    main(side_by_side=3)
