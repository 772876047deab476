#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport verbs_dc in the real program, on the simulated device."""
import contextlib
import filecmp
import hashlib
import os
import signal
import subprocess
import unittest

from harness import FAKES, PATIENCE, ROOT, SIMULATED, Case, child_of, main, random_file, wait_until

CONFIG = ROOT / "config/verbs-dc.yaml"
SERVING = ("--transport", "verbs_dc", "--transport-option", "device=mlx5_0", "--transport-option", "initiators=2")

CLIENTS = int(os.environ.get("PENSTOCK_CLIENTS", "16"))
HOSTS = """simverbs: 1
subnets: [{name: west}, {name: east}]
routers: [{name: core, subnets: [west, east]}]
hosts:
  - name: left
    devices: [{name: mlx5_0, ports: [{link_layer: ethernet, subnet: west, netdev: eth0, address: 10.1.0.1}]}]
  - name: right
    devices: [{name: mlx5_0, ports: [{link_layer: ethernet, subnet: east, netdev: eth0, gids: [
      {gid: "::ffff:10.2.0.1", type: rocev1}, {gid: "::ffff:10.2.0.1", type: rocev2}]}]}]
"""


@unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
class VerbsDc(Case):
    def setUp(self):
        super().setUp()
        self.fabric = f"e2e-dc-{os.getpid()}"

    def prefix(self):
        return {"prefix": (SIMULATED, "--fabric", self.fabric)}

    def ends(self, **options):
        """A peer that is gone shows soon; the control channel is this test's."""
        options = {"timeout": 10, "keepalive": "100ms", **options}
        sets = [f"transport.options.{key}={value}" for key, value in options.items()]
        sets += [f"control.address=127.0.0.1:{self.port}", "streams.packets.timeout=60s"]
        return CONFIG, *(word for one in sets for word in ("--set", one))

    def test_one_process(self):
        self.run_program("run", *self.ends(initiators=1), "--count", "20000", "--json", self.folder / "out.json",
                         **self.prefix())  # fmt: skip
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["verified"], 20000)
        self.assertEqual((stream["path"], stream["via"], stream["carrier"]), ("direct", "dma", "rdma"))

    def test_two_processes(self):
        receiver = self.start("receive", *self.ends(), "--json", self.folder / "out.json", **self.prefix())
        sender = self.start("send", *self.ends(), "--count", "20000", **self.prefix())
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (20000, 20000))

    def test_either_is_killed(self):
        for victim in (0, 1):
            receiver = self.start("receive", *self.ends(), **self.prefix())
            sender = self.start("send", *self.ends(), **self.prefix())
            receiver.wait_line(r"Got \d{2,}")
            both = (receiver, sender)
            # The launcher stands before the program: its child is what dies.
            os.kill(child_of(both[victim].pid), signal.SIGKILL)
            both[victim].wait()
            self.assertEqual(both[1 - victim].wait(30), 1, str(both[1 - victim]))

    def test_what_has_to_agree_is_compared(self):
        receiver = self.start("receive", *self.ends(mtu=512), **self.prefix())
        sender = self.start("send", *self.ends(), "--count", "1000", **self.prefix())
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}{receiver}")
        self.assertRegex(str(sender), "path MTU is 512 bytes at the peer, and 4096 here; both ends need the same: set `mtu` to 512")

    def test_served_files_and_regions(self):
        root = self.folder / "root"
        root.mkdir()
        random_file(root / "a", 5_000_001)
        server = self.start("serve", "127.0.0.1:0", "-v", "--root", root, *SERVING, **self.prefix())
        address = "127.0.0.1:" + server.wait_line(r"listening on 127\.0\.0\.1:0, port (\d+)")[1]
        for what in ("write", "read"):
            child = self.run_program("request", what, address, "--size", "100000B", "--pieces", "7", "--depth", "3",
                                     "--count", "50", *SERVING, **self.prefix())  # fmt: skip
            self.assertIn("5000000 bytes verified", child.stdout)
        self.run_program("get", address, "a", "--to", self.folder / "b", *SERVING, **self.prefix())
        self.run_program("put", address, self.folder / "b", "--to", "c", *SERVING, **self.prefix())
        self.assertTrue(filecmp.cmp(root / "a", root / "c", shallow=False))
        os.kill(child_of(server.pid), signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))

    def lose_target(self, after):
        action = ("target-error", "--after", str(after), "--count", "1")
        subprocess.run([SIMULATED, "ctl", self.fabric, *action], check=True)

    def test_a_stream_goes_on_by_another_target(self):
        receiver = self.start("receive", *self.ends(timeout=16), "--json", self.folder / "out.json", **self.prefix())
        sender = self.start("send", *self.ends(timeout=16), **self.prefix())
        receiver.wait_line(r"Got \d{2,}")
        for times in (1, 2):
            self.lose_target(1000)
            wait_until(lambda count=times: f"{sender}{receiver}".count("is replaced by") == count, 30, "another target")
        os.kill(child_of(sender.pid), signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
        self.assertEqual((stream["verified"], stream["duplicates"]), (stream["messages_delivered"], 0))

    def test_a_node_goes_on_by_another_target(self):
        root = self.folder / "root"
        root.mkdir()
        random_file(root / "a", 5_000_001)
        server = self.start("serve", "127.0.0.1:0", "-v", "--root", root, *SERVING, **self.prefix())
        address = "127.0.0.1:" + server.wait_line(r"listening on 127\.0\.0\.1:0, port (\d+)")[1]
        said = ""
        for times, what in enumerate((("get", address, "a", "--to", self.folder / "b"),
                                      ("put", address, self.folder / "b", "--to", "c")), 1):  # fmt: skip
            self.lose_target(8)
            said += self.run_program(*what, *SERVING, **self.prefix()).stderr
            wait_until(lambda count=times: f"{said}{server}".count("is replaced by") == count, 30, "another target")
        self.assertTrue(filecmp.cmp(root / "a", root / "c", shallow=False))
        os.kill(child_of(server.pid), signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))

    def test_gpu_memory_by_dma_buf(self):
        """At both ends the fake GPU's memory, registered by dma-buf: nothing is staged."""
        cuda = FAKES / "cuda"
        self.run_program(
            "run", *self.ends(), "--plugin-path", cuda, "--count", "1000", "--set", "streams.packets.sender.memory=cuda",
            "--set", "streams.packets.receiver.memory=cuda", "--json", self.folder / "out.json",
            environment={"LD_LIBRARY_PATH": str(cuda), "FAKE_CUDA": "delay_us=50"}, **self.prefix())  # fmt: skip
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual((stream["verified"], stream["path"], stream["via"]), (1000, "direct", "dma-buf"))

    def test_hardware_check(self):
        """Its checks of streams, of the contract and of many clients are of any transport, by name."""
        chosen = ("rings", "messages", "ordering", "one-thread", "contract", "scale", "recovery")
        child = self.run_program("hardware-check", "--transport", "verbs_dc", "--device", "mlx5_0", "--check",
                                 ",".join(chosen), "--duration", "20ms", "--limit", f"{min(60 * PATIENCE, 600)}s",
                                 "--json", self.folder / "out.json", **self.prefix())  # fmt: skip
        checks = {check["check"]: check for check in self.result()["checks"]}
        self.assertEqual({name: check["verdict"] for name, check in checks.items()},
                         dict.fromkeys(("address", *chosen), "ok"), child)  # fmt: skip
        skipped = {step["step"]: step["why"] for step in checks["messages"]["steps"] if step["verdict"] == "skipped"}
        self.assertEqual(skipped["4 queue pairs"], "transport verbs_dc lacks the options qps=4")
        self.assertIn("by SEND", skipped)
        self.assertEqual([(step["clients"], step["requested"]["iterations"]) for step in checks["scale"]["steps"]],
                         [(1, 100), (16, 100), (64, 100)])  # fmt: skip
        steps = checks["recovery"]["steps"]
        self.assertEqual([(step["verdict"], step["clients"], step["clients_killed"]) for step in steps],
                         [("ok", 4, 1), ("ok", 8, 4)])  # fmt: skip
        for step in steps:
            self.assertGreater(step["requested"]["bytes_verified"], 0)
            self.assertIn("left after", "\n".join(step["peer"]["lines"]))

    def test_hardware_check_while_a_target_is_lost(self):
        """No command makes a target of an adapter fail; ctl does that on this device."""
        child = self.run_program(
            "hardware-check", "--transport", "verbs_dc", "--device", "mlx5_0", "--check", "outage", "--duration", "300ms",
            "--outage", f"{SIMULATED} ctl . target-error --count 1", "--json", self.folder / "out.json", **self.prefix())  # fmt: skip
        (step,) = self.result()["checks"][1]["steps"]
        self.assertEqual(step["verdict"], "ok", child)

    def test_clients_come_go_and_are_killed(self):
        """Half of them are, as they begin or amid their file. The others have theirs whole."""
        root = self.folder / "root"
        root.mkdir()
        whole = hashlib.sha256(random_file(root / "a", 3_000_001).read_bytes()).digest()
        server = self.start("serve", "127.0.0.1:0", "-v", "--root", root, *SERVING, **self.prefix())
        address = "127.0.0.1:" + server.wait_line(r"listening on 127\.0\.0\.1:0, port (\d+)")[1]
        for wave in range(0, CLIENTS, 8):
            clients = [self.start("get", address, "a", "--to", self.folder / f"{wave + i}", *SERVING, **self.prefix())
                       for i in range(8)]  # fmt: skip
            for number, client in enumerate(clients):
                if number % 2 == 0:
                    self.assertEqual(client.wait(), 0, f"{client}{server}")
                    fetched = self.folder / f"{wave + number}"
                    self.assertEqual(hashlib.sha256(fetched.read_bytes()).digest(), whole)
                    fetched.unlink()
                else:
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is through
                        program = child_of(client.pid)
                        if program != client.pid:
                            os.kill(program, signal.SIGKILL)
                    client.wait()
        child = self.run_program("request", "write", address, "--size", "100000B", "--count", "50", *SERVING, **self.prefix())
        self.assertIn("5000000 bytes verified", child.stdout)
        os.kill(child_of(server.pid), signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))

    def between_hosts(self, sender, receiver):
        """With a router between them."""
        self.fabric = str(self.write("hosts.yaml", HOSTS))
        prefix = (SIMULATED, "--fabric", self.fabric, "--host")
        far = self.start("receive", *self.ends(**receiver), prefix=(*prefix, "right"))
        near = self.start("send", *self.ends(**sender), "--count", "1000", prefix=(*prefix, "left"))
        return near.wait(), far.wait(), f"{near}{far}"

    def test_hop_limit_of_a_routed_path(self):
        for hops, status in ((64, 0), (1, 1)):
            *ends, said = self.between_hosts({"hop_limit": hops}, {"hop_limit": hops})
            self.assertEqual(ends, [status, status], said)
        self.assertIn("hop limit", said)

    def test_gids_of_two_versions(self):
        *ends, said = self.between_hosts({}, {"gid_index": 0})
        self.assertEqual(ends, [1, 1], said)
        self.assertIn("one end's GID is RoCE v1, the other's RoCE v2", said)

    def test_a_device_that_is_full(self):
        """The device may have DC: the remedy is to see who has its queue pairs."""
        self.fabric = str(self.write("full.yaml", "simverbs: 1\nhosts: [{name: one, devices: [{name: mlx5_0, caps: {max_qp: 0}}]}]\n"))
        child = self.run_program("run", *self.ends(), "--count", "1", expect=3, **self.prefix())
        self.assertRegex(child.stderr, "mlx5_0: mlx5dv_create_qp of a target: Cannot allocate memory; `rdma resource`")

    def test_devices_without_dc(self):
        """The message names what failed, and what to use instead: another provider's device, firmware without DC."""
        for device, words in (("vendor: soft-roce", "mlx5 does not run it"),
                              ("caps: {dc: false}", "mlx5dv_create_qp of a target")):  # fmt: skip
            name = f"{words[:5].strip()}.yaml"
            self.fabric = str(self.write(name, f"simverbs: 1\nhosts: [{{name: one, devices: [{{name: mlx5_0, {device}}}]}}]\n"))
            child = self.run_program("run", *self.ends(), "--count", "1", expect=3, **self.prefix())
            self.assertRegex(child.stderr, f"mlx5_0 has no dynamically connected queue pairs .DC.: {words}: ")
            self.assertIn("use verbs_rc on this device", child.stderr)
            listed = self.run_program("plugins", "verbs_dc", **self.prefix()).stdout
            self.assertEqual("no RDMA device here uses mlx5" in listed, "soft" in device, listed)


if __name__ == "__main__":
    main()
