#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock share`: streams of programs that have no transport of their own."""
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

from harness import BUILD, PROGRAM, SANITIZED, Case, free_port, child_of, main, random_file, yaml_stream

SIMULATED = os.environ.get("PENSTOCK_SIMVERBS", "")
COUNT = 20000
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")


class Share(Case):
    def setUp(self):
        super().setUp()
        self.socket = self.folder / "share"
        self.fabric = f"share-{os.getpid()}"

    def router(self, transport, *options, prefix=()):
        router = self.start("share", "--socket", self.socket, "--transport", transport, *options, prefix=prefix)
        router.wait_line("share: serving")
        return router

    def share_config(self, **parts):
        path = self.config(yaml_stream(**{"message": "1462 B", "ring": 256, "timeout": "60 s", **parts}))
        share = f"transport: {{plugin: share, options: {{socket: {self.socket}}}}}"
        path.write_text(path.read_text().replace("transport: {plugin: loopback}", share))
        return path

    def stop(self, router):
        """Nothing is left of the clients once they are gone."""
        if "served" in str(router):
            router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
        router.signal(signal.SIGINT)
        self.assertEqual(router.wait(), 0, router)
        self.assertFalse(self.socket.exists())

    def run_two(self, path):
        """Sender and receiver are two programs, and two clients."""
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        sender = self.start("send", path, "--count", str(COUNT))
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_delivered"], stream["verified"])
        return stream

    def test_one_program(self):
        router = self.router("loopback")
        self.run_program("run", self.share_config(), "--count", str(COUNT), "--json", self.folder / "out.json")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual((stream["messages_delivered"], stream["verified"]), (COUNT, COUNT))
        self.assertEqual((stream["path"], stream["via"], stream["carrier"]), ("direct", "memcpy", "shm"))
        self.stop(router)

    def test_two_programs(self):
        router = self.router("loopback")
        stream = self.run_two(self.share_config())
        self.assertEqual((stream["messages_delivered"], stream["path"]), (COUNT, "direct"))
        self.stop(router)

    def test_udp(self):
        router = self.router("udp")
        self.run_two(self.share_config(expect="{max_loss: 1}"))
        self.stop(router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_simulated_adapter(self):
        """Only the router has the adapter."""
        router = self.router("verbs_rc", "--transport-option", "device=mlx5_0",
                             prefix=(SIMULATED, "--fabric", self.fabric))  # fmt: skip
        stream = self.run_two(self.share_config())
        self.assertEqual((stream["messages_delivered"], stream["path"]), (COUNT, "direct"))
        self.assertEqual((stream["via"], stream["carrier"]), ("dma", "rdma"))
        router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
        os.kill(child_of(router.pid), signal.SIGINT)
        router.wait()

    def test_killed_client(self):
        """Its peer learns of it, and nothing of it is left."""
        for victim in ("send", "receive"):
            with self.subTest(victim=victim):
                router = self.router("loopback", "-v")
                path = self.share_config()
                ends = {"receive": self.start("receive", path), "send": self.start("send", path)}
                ends["receive"].wait_line("packets: Got")
                other = ends["receive" if victim == "send" else "send"]
                ends[victim].kill()
                ends[victim].wait()
                self.assertEqual(other.wait(), 1, other)
                self.stop(router)

    def test_killed_router(self):
        """Clients end, and say why."""
        router = self.router("loopback")
        run = self.start("run", self.share_config())
        run.wait_line("packets: Got")
        router.kill()
        router.wait()
        self.assertEqual(run.wait(), 1, run)
        self.assertIn(f"the router at {self.socket} has ended", str(run))
        self.stop(self.router("loopback"))  # its socket does not stand in the way

    def test_no_router(self):
        child = self.run_program("run", self.share_config(), expect=3)
        self.assertIn("no router answers", str(child))
        self.assertIn("start `penstock share`", str(child))

    def test_limits(self):
        for options, words in ((("--bytes", "64KiB"), "--bytes"), (("--endpoints", "1"), "endpoint"),
                               (("--regions", "1"), "--regions"), (("--clients", "1"), "--clients")):  # fmt: skip
            with self.subTest(options=options):
                router = self.router("loopback", *options)
                path = self.share_config()
                if options[0] == "--clients":
                    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as held:
                        held.connect(str(self.socket))
                        router.wait_line("share: 1 client,")
                        child = self.run_program("run", path, "--count", "100", expect=3)
                else:
                    child = self.run_program("run", path, "--count", "100", expect=None)
                self.assertNotEqual(child.status, 0, child)
                self.assertIn(words, str(child))
                router.signal(signal.SIGINT)
                self.assertEqual(router.wait(), 0, router)

    def test_nodes(self):
        """READ and WRITE on request, and files."""
        router = self.router("loopback")
        share = ("--transport", "share", "--transport-option", f"socket={self.socket}")
        random_file(self.folder / "data", 3 << 20)
        server = self.start("serve", f"127.0.0.1:{self.port}", "--root", self.folder, *share)
        server.wait_line("serve: listening")
        self.run_program("request", "write", f"127.0.0.1:{self.port}", "--size", "64KiB", "--count", "200",
                         "--depth", "4", *share)  # fmt: skip
        self.run_program("get", f"127.0.0.1:{self.port}", "data", "--to", self.folder / "copy", "--sha256", *share)
        self.assertEqual((self.folder / "copy").read_bytes(), (self.folder / "data").read_bytes())
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 0, server)
        self.stop(router)

    def test_fifty_killed_at_random(self):
        """Nothing of them is left, and a stream beside them loses nothing."""
        router = self.router("loopback")
        beside = self.start("run", self.share_config(), "--json", self.folder / "out.json")
        beside.wait_line("packets: Got")
        text = self.share_config(ring=64).read_text()
        paths = []
        for i in range(10):
            paths.append(self.write(f"{i}.yaml", text.replace(f":{self.port}", f":{free_port()}")))
        chance = random.Random(26)
        for _ in range(5):
            ends = [self.start("run", path) for path in paths]
            while ends:
                time.sleep(chance.random() / 100)
                ends.pop(chance.randrange(len(ends))).kill()
        beside.signal(signal.SIGINT)
        self.assertEqual(beside.wait(), 0, beside)
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], stream["verified"])
        self.stop(router)

    def bare_root(self):
        """A root with the program, its libraries and the plugins share and host alone."""
        root = self.folder / "root"
        listed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        libraries = {pathlib.Path(name) for name in re.findall(r"(/\S+) \(0x", listed)}
        self.assertFalse([name for name in libraries if "ibverbs" in name.name], listed)
        for library in libraries:
            place = root / "lib" / library.name if "/build" in str(library) else root / str(library)[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
        (root / "lib").mkdir(exist_ok=True)
        for name in ("transport-share", "memory-host"):
            for end in (".so", ".desc.so"):
                (root / "plugins").mkdir(exist_ok=True)
                shutil.copy(next(BUILD.glob(f"*/{name}{end}")), root / "plugins")
        shutil.copy(PROGRAM, root)
        for name in ("proc", "share", "tmp"):
            (root / name).mkdir()
        return root

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    @unittest.skipIf(SANITIZED, "the sanitizers' libraries are elsewhere")
    def test_isolated(self):
        """Two programs in namespaces of their own, whose root has no RDMA library and no device."""
        if subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode:
            self.skipTest("this user may not make namespaces")
        root = self.bare_root()
        self.socket = root / "share" / "socket"
        router = self.router("verbs_rc", "--transport-option", "device=mlx5_0",
                             prefix=(SIMULATED, "--fabric", self.fabric))  # fmt: skip
        self.socket = pathlib.Path("/share/socket")
        path = self.share_config()
        shutil.copy(path, root / "stream.yaml")
        inside = ("env", "-i", "LD_LIBRARY_PATH=/lib", "TMPDIR=/tmp", "XDG_RUNTIME_DIR=/tmp")
        ends = [self.start("run", "/stream.yaml", "--plugin-path", "/plugins", "--count", str(COUNT),
                           program="/penstock", prefix=(*NAMESPACES, *inside, "/usr/sbin/chroot", str(root)))
                for _ in range(2)]  # fmt: skip
        for end in ends:
            self.assertEqual(end.wait(), 0, f"{end}{router}")
            self.assertIn(f"{COUNT} sent = {COUNT} delivered + 0 dropped | {COUNT} verified", str(end))
            self.assertIn("direct via dma over rdma", str(end))
        router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
        os.kill(child_of(router.pid), signal.SIGINT)
        router.wait()

    def test_rate(self):
        router = self.router("loopback", "--rate", "10MiB")
        self.run_program("run", self.share_config(), "--count", "8000", "--json", self.folder / "out.json")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertGreater(stream["seconds"], 0.5, stream)  # 11.7 MB
        self.stop(router)

    def test_second_router(self):
        router = self.router("loopback")
        child = self.run_program("share", "--socket", self.socket, expect=3)
        self.assertIn("another router serves", str(child))
        self.stop(router)


if __name__ == "__main__":
    main()
