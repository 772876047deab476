#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UCX with the real program: two processes over its lanes, deaths, options."""
import os
import re
import signal
import subprocess
import time

import netns
from harness import ON_UCX, PROGRAM, ROOT, Case, main, random_file, wait_until, yaml_stream

# UCX itself forgets what it took for a connection to a peer that has died meanwhile.
os.environ.setdefault("LSAN_OPTIONS", f"print_suppressions=0:suppressions={ROOT}/tests/contract/ucx.lsan")
os.environ.update(ON_UCX)
SHARED, TCP = "'posix,cma,self'", "'tcp,self'"


class Ucx(Case):
    def ucx_config(self, options="", **parts):
        stream = yaml_stream(**{"message": "1462 B", "ring": 256, **parts})
        path = self.config(stream, top="")
        text = open(path).read().replace("loopback", f"ucx, options: {{{options}}}")
        return self.write("ucx.yaml", text)

    def transfer(self, options, message, ring):
        path = self.ucx_config(
            options, message=message, ring=ring,
            sender="{source: pattern}", receiver="{sink: verify}",
        )  # fmt: skip
        receiver = self.start("receive", path, "--json", self.folder / "receiver.json")
        sender = self.start("send", path, "--duration", "1")
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        self.said = receiver.stderr
        stream = self.only_stream(self.result("receiver.json"))
        self.assert_accounted(stream)
        self.assertGreater(stream["messages_delivered"], 0)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        return stream

    def test_every_size_over_shared_memory(self):
        for message, ring in (("8 B", 1024), ("1462 B", 512), ("64 KiB", 32), ("1 MiB", 8)):
            self.transfer(f"tls: {SHARED}", message, ring)

    def test_every_size_over_tcp(self):
        for message, ring in (("8 B", 1024), ("1462 B", 512), ("64 KiB", 32), ("1 MiB", 8)):
            self.transfer(f"tls: {TCP}", message, ring)

    def test_rendezvous(self):
        self.transfer(f"tls: {SHARED}, rendezvous_from: 1 KiB", "3000 B", 64)
        self.transfer(f"tls: {TCP}, rendezvous_from: 1 KiB", "3000 B", 64)

    def test_two_senders_to_one_ring(self):
        path = self.config(
            yaml_stream("a", message="256 B", ring=64, sender="{count: 2000}")
            + yaml_stream("b", message="256 B", ring=64, sender="{count: 1000}", receiver="{share: a}"),
            top="",
        )
        text = open(path).read().replace("loopback", "ucx, options: {tls: 'posix,self'}")
        result, _ = self.run_json("run", self.write("ucx.yaml", text))
        for stream, count in zip(result["streams"], (2000, 1000)):
            self.assertEqual(stream["verified"], count)

    def test_failures_by_ucx(self):
        stream = self.transfer("peer_failure: ucx", "1462 B", 256)
        self.assertEqual(stream["via"].split("/")[0], "ucx: tcp")
        self.assertIn("UCX's failure handling excludes shared memory (", stream["path_reason"])
        self.assertIn("`peer_failure: auto` allows it", self.said)

    def test_lanes_are_reported(self):
        stream = self.transfer(f"tls: {SHARED}", "1462 B", 256)
        self.assertEqual((stream["via"][:10], stream["carrier"], stream["path_reason"]), ("ucx: posix", "shm", None))
        self.assertIn("direct via ucx: posix/memory", self.said)

    def dies(self, options, victim):
        path = self.ucx_config(options, timeout="1 min")
        own = {"UCX_POSIX_DIR": str(self.memory)}
        ends = {name: self.start(name, path, environment=own) for name in ("receive", "send")}
        ends["receive"].wait_line(r"Got \d{2,}")
        dead = ends.pop(victim)
        (survivor,) = ends.values()
        dead.signal(signal.SIGKILL)
        dead.wait()
        began = time.monotonic()
        self.assertEqual(survivor.wait(), 1, str(survivor))
        self.assertLess(time.monotonic() - began, 40)  # the stream's timeout is a minute
        self.assertIn(str(dead.pid), survivor.stderr, "the dead peer's process is named")

    def test_peer_is_killed(self):
        self.memory = self.folder / "shm"
        self.memory.mkdir()
        for options in (f"tls: {SHARED}", f"tls: {TCP}", f"tls: {TCP}, peer_failure: ucx"):
            for victim in ("send", "receive"):
                self.dies(options, victim)
        self.assertEqual(os.listdir(self.memory), [])

    def test_one_sided(self):
        for tls in (SHARED, TCP):
            child = self.run_program(
                "bench", "--transport", "ucx", "--transport-option", "tls=" + tls.strip("'"),
                "--memory", "host", "--op", "write,read", "--size", "64,1462,64KiB", "--bandwidth",
                "--duration", "50ms", "--verify",
            )  # fmt: skip
            self.assertNotIn("corrupted", child.stderr)

    def test_server_survives_clients_that_are_killed(self):
        sent = random_file(self.folder / "sent", 8 << 20)
        root = self.folder / "root"
        root.mkdir()
        (root / "file").write_bytes(sent.read_bytes())
        address = f"127.0.0.1:{self.port}"
        server = self.start("serve", address, "--transport", "ucx", "--root", root)
        server.wait_line("serve: listening on")

        def get(name):
            return self.start("get", address, "file", "--transport", "ucx", "--to", self.folder / name)

        def descriptors():
            return len(os.listdir(f"/proc/{server.pid}/fd"))

        first = get("first")
        self.assertEqual(first.wait(), 0, str(first))
        before = descriptors()
        for i in range(20):
            client = get(f"killed{i}")
            time.sleep(i / 40)
            client.signal(signal.SIGKILL)
            client.wait()
        last = get("last")
        self.assertEqual(last.wait(), 0, str(last))
        self.assertEqual((self.folder / "last").read_bytes(), sent.read_bytes())
        wait_until(lambda: descriptors() <= before, 20, "as many descriptors as before")
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))

    def test_unknown_option_is_refused_with_the_nearest(self):
        for options in ("ucx: [TSL=tcp]", "ucx: {TSL: tcp}", "ucx: {UCX_TSL: 'tcp,self'}"):
            child = self.run_program("run", self.ucx_config(options), expect=3)
            self.assertIn("no option TSL; the nearest is TLS", child.stderr)
        child = self.run_program("check", self.ucx_config("ucx: [TLS]"), expect=2)
        self.assertIn("'TLS' is not NAME=VALUE", child.stderr)

    def test_mapping_of_ucxs_options(self):
        # A value with commas, a number, and a name with UCX's own prefix.
        options = "ucx: {TLS: 'posix,self', MAX_RNDV_RAILS: 2, UCX_NET_DEVICES: lo}"
        self.transfer(options, "1462 B", 64)
        self.assertIn("direct via ucx: posix/memory over shm", self.said)
        checked = self.run_program("check", self.ucx_config(options))
        self.assertIn("TLS=posix,self", checked.stdout)
        again = self.run_program("check", self.write("again.yaml", checked.stdout))
        self.assertIn("TLS=posix,self", again.stdout)
        child = self.run_program("check", self.ucx_config("ucx: {TLS: [tcp]}"), expect=2)
        self.assertIn("or a mapping, as in {NAME: value}", child.stderr)
        child = self.run_program("check", self.ucx_config("tls: {TLS: tcp}"), expect=2)
        self.assertIn("expected one value, found a mapping", child.stderr)

    def test_unknown_device_is_refused_with_those_there_are(self):
        for options in ("net_devices: foo", "net_devices: 'lo,foo', tls: 'posix,tcp,self'", "net_devices: foo, tls: tcp",
                        "ucx: {NET_DEVICES: foo, TLS: tcp}"):
            child = self.run_program("run", self.ucx_config(options), expect=3)
            self.assertIn("network device 'foo' is not available", child.stderr)
            self.assertIn("'lo'(tcp)", child.stderr)
            self.assertEqual(len(child.stderr.splitlines()), 1, child)

    def test_unknown_transport_is_refused(self):
        child = self.run_program("run", self.ucx_config("tls: nonsense"), expect=3)
        self.assertIn("transport 'nonsense' is not available, please use one or more of", child.stderr)
        self.assertIn("ucx_info -d", child.stderr)
        self.assertEqual(len(child.stderr.splitlines()), 1, child)


class TwoHosts(Case):
    """Two network namespaces, and process namespaces: nothing but TCP joins the ends, and neither
    sees the other's process."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o777)
        self.temporary.chmod(0o777)
        self.spaces = netns.Namespaces()
        self.addCleanup(self.spaces.close)
        if not self.spaces.reaches(PROGRAM):
            self.skipTest(f"an ordinary user cannot read {PROGRAM}")
        # UCX takes the names of interfaces from /sys, which is to be of the process's network.
        sys_of = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                  'mount -t sysfs none /sys && exec "$@"', "sh"]  # fmt: skip
        self.near, self.far = ([*self.spaces.enter(side), *sys_of] for side in (netns.NEAR, netns.FAR))
        if not self.mounts():
            self.skipTest("an ordinary user mounts no /sys in a user namespace here")
        for side, device in enumerate(netns.DEVICE):
            wait_until(lambda: " UP " in self.spaces.run(side, "ip", "-br", "link", "show", device), 20, "a link that is up")

    def mounts(self):
        return subprocess.run([*self.near, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0

    def file(self, message, ring, count, timeout=30):
        devices = [f"transport: {{options: {{net_devices: {device}}}}}" for device in netns.DEVICE]
        stream = yaml_stream(
            message=message, ring=ring, timeout=f"{timeout} s",
            sender=f"{{{devices[netns.NEAR]}, source: pattern, count: {count}}}",
            receiver=f"{{{devices[netns.FAR]}, sink: verify}}",
        )  # fmt: skip
        return self.write(
            "two.yaml",
            f'penstock: 1\ncontrol: {{address: "{netns.IPV4[netns.FAR]}:{self.port}", insecure: true}}\n'
            "transport: {plugin: ucx}\nstreams:\n  " + stream.replace("\n", "\n  "),
        )

    def meet(self, path):
        receiver = self.start("receive", path, "-v", "--json", self.folder / "far.json", prefix=self.far)
        receiver.wait_line("waiting at")
        return receiver, self.start("send", path, "-v", "--json", self.folder / "near.json", prefix=self.near)

    def test_every_size(self):
        for message, ring, count in (("64 B", 1024, 3000), ("1462 B", 512, 2000), ("1 MiB", 4, 20)):
            receiver, sender = self.meet(self.file(message, ring, count))
            self.assertEqual(sender.wait(), 0, str(sender))
            self.assertEqual(receiver.wait(), 0, str(receiver))
            stream = self.only_stream(self.result("far.json"))
            self.assert_accounted(stream)
            self.assertEqual((stream["messages_sent"], stream["verified"]), (count, count))
            self.assertEqual((stream["carrier"], stream["via"]), ("tcp", f"ucx: tcp/{netns.DEVICE[netns.FAR]}"))
            self.assertIn("failures by UCX", receiver.stderr)

    def test_far_peer_is_killed(self):
        receiver, sender = self.meet(self.file("1462 B", 256, 0))
        receiver.wait_line(r"Got \d{2,}")
        receiver.signal(signal.SIGKILL)
        receiver.wait()
        self.assertEqual(sender.wait(), 1, str(sender))
        where = re.escape(f"{netns.IPV4[netns.FAR]}:{self.port}")
        self.assertRegex(sender.stderr, rf"error: lost the receiver \(.*{where}\): .* Streams: packets\n")

    def test_far_host_vanishes(self):
        """No packet comes any more, nor any word that says so: each end hears from its timeout alone."""
        timeout = 2
        receiver, sender = self.meet(self.file("1462 B", 256, 0, timeout))
        receiver.wait_line(r"Got \d{2,}")
        self.spaces.run(netns.FAR, "ip", "link", "set", netns.DEVICE[netns.FAR], "down")
        for end, lost in ((sender, "receiver"), (receiver, "sender")):
            self.assertEqual(end.wait(), 1, str(end))
            self.assertRegex(end.stderr, f"error: lost the {lost} .*: it said nothing for {timeout} s")


if __name__ == "__main__":
    main(side_by_side=2)
