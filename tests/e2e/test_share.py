#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock share`: streams of programs that have no transport of their own."""
import contextlib
import errno
import fcntl
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

import result_schema
import share_client as hostile
from cuda_driver import IS_REAL
from harness import BUILD, FAKES, HANGS, PROGRAM, SANITIZED, SIMULATED, Case, bare_root, child_of, free_port, main, random_file, wait_until, yaml_stream

COUNT = 20000
CUDA = FAKES / "cuda"
GPU_ENDS = {"sender": "{memory: cuda, source: pattern}", "receiver": "{memory: cuda, sink: verify, path: direct}"}
NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork")


def gpu(script="delay_us=50"):
    """The fake driver, for a program that has the plugin cuda."""
    return {"LD_LIBRARY_PATH": str(CUDA), "FAKE_CUDA": script}


class Share(Case):
    def setUp(self):
        super().setUp()
        self.socket = self.folder / "share"
        self.fabric = f"share-{os.getpid()}"

    def router(self, transport, *options, **more):
        router = self.start("share", "--socket", self.socket, "--transport", transport, *options, **more)
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

    def simulated_router(self, *options):
        """Only the router has the adapter, and it has no driver of any GPU."""
        return self.router("verbs_rc", "--transport-option", "device=mlx5_0", *options,
                           prefix=(SIMULATED, "--fabric", self.fabric))  # fmt: skip

    def stop_simulated(self, router):
        router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
        os.kill(child_of(router.pid), signal.SIGINT)
        router.wait()

    def run_two(self, path, *arguments, count=COUNT, **more):
        """Sender and receiver are two programs, and two clients."""
        receiver = self.start("receive", path, *arguments, "--json", self.folder / "out.json", **more)
        sender = self.start("send", path, *arguments, "--count", str(count), **more)
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
        router = self.simulated_router()
        stream = self.run_two(self.share_config())
        self.assertEqual((stream["messages_delivered"], stream["path"]), (COUNT, "direct"))
        self.assertEqual((stream["via"], stream["carrier"]), ("dma", "rdma"))
        self.stop_simulated(router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_gpu_memory_by_dma_buf(self):
        """The adapter writes into the client's GPU; the client flushes, and a kernel of its own checks each byte."""
        router = self.simulated_router()
        for allocator in ("malloc", "vmm"):
            with self.subTest(allocator=allocator):
                memory = f"memory: {{plugin: cuda, options: {{allocator: {allocator}}}}}"
                ends = {end: text.replace("memory: cuda", memory) for end, text in GPU_ENDS.items()}
                stream = self.run_two(self.share_config(**ends), "--plugin-path", CUDA, count=1000,
                                      environment=gpu("delay_us=0,late_writes"))  # fmt: skip
                self.assertEqual((stream["messages_delivered"], stream["path"]), (1000, "direct"))
                self.assertEqual((stream["via"], stream["carrier"]), ("dma-buf", "rdma"))
        with self.subTest(memory="igpu"):
            stream = self.run_two(self.share_config(receiver="{memory: igpu, sink: verify, path: mapped}"), "--plugin-path",
                                  CUDA, count=1000, environment=gpu("integrated=1,no_copies"))  # fmt: skip
            self.assertEqual((stream["messages_delivered"], stream["via"]), (1000, "dma"))
        self.stop_simulated(router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_gpu_memory_that_the_router_cannot_have(self):
        """Such memory is staged, and the reason comes from the router."""
        router = self.simulated_router()
        ends = {**GPU_ENDS, "receiver": "{memory: cuda, sink: verify}", "sender": "{memory: host, source: pattern}"}
        path = self.share_config(**ends)
        for script, options, words in (("no_dmabuf", "", "memory that can be shared by a file descriptor, which memory cuda (cuMemAlloc) is not"),
                                       ("no_dmabuf", ", options: {allocator: vmm}", "start `penstock share --memory cuda`")):  # fmt: skip
            with self.subTest(options=options):
                text = path.read_text().replace("memory: cuda", f"memory: {{plugin: cuda{options}}}")
                self.run_program("run", self.write("staged.yaml", text), "--plugin-path", CUDA, "--count", "500",
                                 "--json", self.folder / "out.json", environment=gpu(script))  # fmt: skip
                stream = self.only_stream(self.result())
                self.assertEqual((stream["path"], stream["verified"]), ("staged", 500))
                self.assertIn(words, stream["path_reason"])
        self.stop_simulated(router)

    def test_gpu_memory_by_the_driver(self):
        """READ and WRITE between regions of two clients, on one GPU and on two: by the router's copies."""
        router = self.router("loopback", "--memory", "cuda", "--plugin-path", CUDA,
                             environment=gpu("delay_us=50,devices=2"))  # fmt: skip
        where = {"environment": gpu("delay_us=50,devices=2")}
        ends = ("bench", "-v", "--plugin-path", CUDA, "--transport", "share", "--transport-option", f"socket={self.socket}",
                "--memory", "cuda", "--memory-option", "allocator=vmm")  # fmt: skip

        def serve(device):
            server = self.start(*ends, "--memory-option", f"device={device}", "--server", "--once",
                                f"127.0.0.1:{self.port}", **where)  # fmt: skip
            server.wait_line("serving transport share")
            return server

        for device, via in ((0, "cuda-copy"), (1, "cuda-peer")):
            with self.subTest(device=device):
                server = serve(device)
                child = self.run_program(*ends, "--op", "write,read", "--size", "1000,65536", "--duration", "30ms",
                                         "--bandwidth", "--verify", "--depth", 16, "--json", "-",
                                         f"127.0.0.1:{self.port}", **where)  # fmt: skip
                self.assertEqual(server.wait(), 0, server)
                rows = result_schema.read(child.stdout)["rows"]
                self.assertEqual(len(rows), 4)
                for row in rows:
                    self.assertTrue(row["ok"], row)
                    self.assertEqual((row["path"], row["corrupted"]), ("direct", 0), row)
                    self.assertGreater(row["verified"], 0)
                self.assertEqual({row["via"] for row in rows if row["op"] == "read"}, {via})
        for victim, status in (("owner", 1), ("writer", 0)):
            with self.subTest(killed=victim):
                server = serve(0)
                writer = self.start(*ends, "--op", "write", "--bandwidth", "--size", "65536", "--duration", "60s",
                                    f"127.0.0.1:{self.port}", **where)  # fmt: skip
                writer.wait_line("the clock runs")
                dead, other = (server, writer) if victim == "owner" else (writer, server)
                dead.kill()
                self.assertEqual(other.wait(), status, other)
                router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
                self.assert_holds_nothing(router.pid)
        self.stop(router)

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

    def test_waits_for_a_router(self):
        """A client that was started again comes back with the router."""
        path = self.share_config()
        wait = ("--set", "transport.options.wait=60 s")
        router = self.router("loopback")
        lost = self.start("run", path, *wait)
        lost.wait_line("packets: Got")
        router.kill()
        self.assertEqual(lost.wait(), 1, lost)
        again = self.start("run", path, "--count", "100", *wait)
        again.wait_line(f"waiting for a router at {self.socket}")
        router = self.router("loopback")
        self.assertEqual(again.wait(), 0, again)
        self.stop(router)

    RECONNECT = "transport.options.reconnect=60 s"

    def assert_comes_back(self, receiver, sender):
        """The stream goes on behind the restart; each message was delivered once, or has a cause."""

        def is_back(end, line):
            """The second such line counts only messages behind the last restart."""
            said = str(end)
            said = said[max(0, said.rfind("waiting 60.0 s for it")) :].partition("the connection is back")[2]
            return len(re.findall(rf"packets: {line} [1-9]", said)) > 1

        for end, line in ((receiver, "Got"), (sender, "Sent")):
            wait_until(lambda end=end, line=line: is_back(end, line), HANGS, f"messages behind the restart\n{end}")
        sender.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        results = [self.only_stream(self.result(name)) for name in ("out.json", "sent.json")]
        for stream in results:
            self.assert_accounted(stream)
            self.assertEqual((stream["verified"], stream["corrupted"]), (stream["messages_delivered"], 0))
            self.assertEqual((stream["duplicates"], stream["reordered"]), (0, 0))
            # None, where the receiver had taken all that was sent before its router was killed.
            self.assertLessEqual(stream["dropped"].keys(), {"router_restarted"})
        self.assertEqual(results[0]["dropped"], results[1]["dropped"])

    def two_ends(self, path, sender_path=None, options=(RECONNECT, RECONNECT), arguments=(), **more):
        receiver = self.start("receive", path, *arguments, "--set", options[0], "--json", self.folder / "out.json", **more)
        sender = self.start("send", sender_path or path, *arguments, "--set", options[1], "--json", self.folder / "sent.json", **more)
        receiver.wait_line(r"packets: Got [1-9]")
        return receiver, sender

    def test_comes_back(self):
        """A running stream goes on with a router that was killed and started again; so it does a second time."""
        router = self.router("loopback")
        receiver, sender = self.two_ends(self.share_config())
        for _ in range(2):
            router.kill()
            router.wait()
            for end in (receiver, sender):
                end.wait_line("the router at .* waiting 60.0 s for it to be started again")
            router = self.router("loopback")
        self.assert_comes_back(receiver, sender)
        self.stop(router)

    def test_comes_back_into_a_gpu(self):
        """The ring in GPU memory is filled through host memory before and behind the restart, and verified on the GPU."""
        router = self.router("loopback")
        path = self.share_config(receiver="{memory: cuda, sink: verify, path: staged}")
        more = {} if IS_REAL else {"arguments": ("--plugin-path", CUDA), "environment": gpu()}
        receiver, sender = self.two_ends(path, **more)
        router.kill()
        router.wait()
        for end in (receiver, sender):
            end.wait_line("waiting 60.0 s for it to be started again")
        router = self.router("loopback")
        self.assert_comes_back(receiver, sender)
        self.stop(router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_adapter_comes_back(self):
        """With the router of an adapter, whose plugin has no start(); the second time with both rings in GPU memory."""
        with_gpus = {"arguments": ("--plugin-path", CUDA), "environment": gpu("delay_us=0,late_writes")}
        for ends, more in ({}, {}), (GPU_ENDS, with_gpus):
            with self.subTest(ends=ends):
                router = self.simulated_router()
                receiver, sender = self.two_ends(self.share_config(**ends), **more)
                os.kill(child_of(router.pid), signal.SIGKILL)
                router.wait()
                for end in (receiver, sender):
                    end.wait_line("waiting 60.0 s for it to be started again")
                router = self.simulated_router()
                self.assert_comes_back(receiver, sender)
                self.stop_simulated(router)

    def test_peer_comes_back(self):
        """Only one end's router was stopped, then killed: the other end's connects to it again."""
        there = self.router("loopback")
        sender_path = self.folder / "sender.yaml"
        sender_path.write_text(self.share_config().read_text())
        self.socket = self.folder / "here"
        here = self.router("loopback")
        path = self.share_config()
        receiver, sender = self.two_ends(path, sender_path)
        for times, number in enumerate((signal.SIGTERM, signal.SIGKILL), 1):
            here.signal(number)
            here.wait()
            here = self.router("loopback")
            for end in (receiver, sender):
                wait_until(lambda end=end, times=times: str(end).count("the connection is back") == times, HANGS, f"{times} times back\n{end}")
        self.assert_comes_back(receiver, sender)
        self.assertNotIn("was started again", str(sender))
        self.stop(here)
        self.socket = self.folder / "share"
        self.stop(there)

    def test_one_end_comes_back(self):
        """An end without the option ends, and both say why."""
        router = self.router("loopback")
        receiver, sender = self.two_ends(self.share_config(), options=(self.RECONNECT, "transport.options.reconnect=0"))
        router.kill()
        self.assertEqual((sender.wait(), receiver.wait()), (1, 1), f"{sender}{receiver}")
        self.assertIn("has ended, or has disconnected this client; its clients end", str(sender))
        self.assertIn("the sender's device of transport share has failed", str(receiver))

    def test_comes_back_in_vain(self):
        """The time is over, or another router serves: the cause, the place and what to do."""
        for reconnect, transport, words in (
            ("0.3 s", None, r"no router has served at .*share within 0.3 s \(option reconnect\): .*start `penstock share` again"),
            ("60 s", "udp", r"the router at .*share has other limits than before .*give `penstock share` the same transport"),
        ):  # fmt: skip
            with self.subTest(transport=transport):
                router = self.router("loopback")
                run = self.start("run", self.share_config(), "--set", f"transport.options.reconnect={reconnect}")
                run.wait_line("packets: Got")
                router.kill()
                router.wait()
                router = self.router(transport) if transport else None
                self.assertEqual(run.wait(), 1, run)
                self.assertRegex(str(run), words)
                if router:
                    self.stop(router)

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
                    with hostile.Client(self.socket) as held:
                        held.open()  # else the router disconnects it in 5 s
                        child = self.run_program("run", path, "--count", "100", expect=3)
                else:
                    child = self.run_program("run", path, "--count", "100", expect=None)
                self.assertNotEqual(child.status, 0, child)
                self.assertIn(words, str(child))
                router.signal(signal.SIGINT)
                self.assertEqual(router.wait(), 0, router)

    # ---- Classes of clients ----

    def classes(self, *classes):
        """The option for a file of these classes."""
        return "--limits", self.write("limits.yaml", "classes:\n" + "".join(f"  - {{{one}}}\n" for one in classes))

    def token(self, name, text):
        (self.folder / name).write_text(text + "\n")
        (self.folder / name).chmod(0o600)
        return self.folder / name

    def refused(self, *options):
        """The words for a program that may not have what it needs."""
        sets = [word for option in options for word in ("--set", f"transport.options.{option}")]
        child = self.run_program("run", self.share_config(), "--count", "100", *sets, expect=3)
        return str(child)

    def test_classes(self):
        """By token, control group and user, the first that fits."""
        token = self.token("small", "abcdefghijklmnop")
        group = next((line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
                      if line.startswith("0::/")), None)  # fmt: skip
        router = self.router("loopback", *self.classes(
            "name: small, token: small, bytes: 64 KiB",
            *(["name: nobody, cgroup: /there/is/none, bytes: 1 B"] if group else []),
            f"name: stranger, uid: [{os.getuid() + 1}, {os.getuid() + 2}], bytes: 1 B",
            f"name: here, uid: {os.getuid()}, regions: 1{f', cgroup: {group}' if group else ''}"))  # fmt: skip
        self.assertIn("raise `bytes` of class small in", self.refused(f"token={token}"))
        self.assertIn("raise `regions` of class here in", self.refused())
        router.signal(signal.SIGINT)
        self.assertEqual(router.wait(), 0, router)

    def test_unknown_group(self):
        """A client with an unknown control group is refused, and gets no class behind one by control group."""
        secret = "0123456789abcdef"
        self.token("token", secret)
        router = self.router("loopback", *self.classes(
            "name: known, token: token", "name: batch, cgroup: /there/is/none, bytes: 1 KiB", "name: others"))  # fmt: skip
        with hostile.Client(self.socket, by_another=()) as client:
            with self.assertRaisesRegex(hostile.Refused, r"control group of this client .* is not known: .* class batch of"):
                client.open()
        with hostile.Client(self.socket, by_another=()) as client:
            client.open(token=secret.encode())
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)

    def test_no_class(self):
        """Refused: a client without a token, with a wrong one, or the second in a class of one."""
        secret = "0123456789abcdef" * 2
        token, wrong = self.token("token", secret), self.token("wrong", secret[:-1] + "0")
        option, limits = self.classes(f"name: one, token: {token}, clients: 1")
        elsewhere = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, elsewhere)
        limits.rename(elsewhere / "limits.yaml")
        limits.symlink_to(elsewhere / "limits.yaml")
        router = self.router("loopback", option, limits)
        self.assertRegex(self.refused(), f"no class of .* has this client: user {os.getuid()}, .* without a token")
        self.assertRegex(self.refused(f"token={wrong}"), "no class of .* with a token")
        with hostile.Client(self.socket) as first:
            first.open(token=secret.encode())
            self.assertIn("raise `clients` of class one in", self.refused(f"token={token}"))
        router.wait_line("share: 0 clients")
        self.run_program("run", self.share_config(), "--count", "100", "--set", f"transport.options.token={token}")
        token.chmod(0o644)
        self.assertIn("others may read, or no file; chmod 600", self.refused(f"token={token}"))
        router.wait_line(r"\| 2 served, 3 refused,")
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)

    def test_refusals_fill_no_log(self):
        """A user whose clients fit no class gets each reason, and the router logs one a second."""
        self.token("token", "0123456789abcdef")
        router = self.router("loopback", "-v", *self.classes("name: one, token: token"))
        begun = time.monotonic()
        for _ in range(100):
            with hostile.Client(self.socket) as client, self.assertRaisesRegex(hostile.Refused, "no class of"):
                client.open()
        lines = int(time.monotonic() - begun) + 1
        router.wait_line(r"\| 0 served, 100 refused,")
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)
        self.assertIn(str(router).count("no class of"), range(1, lines + 1), router)

    def test_wrong_classes(self):
        self.token("short", "abc")
        for text, words in {
            "name: a, token: short": "limits.yaml:2:22: token: .*/short: its first line does not have 16 to 63 bytes",
            "name: a, token: none": "token: .*/none: No such file",
            "name: a, slots: 4": "limits.yaml:2:15: slots: no such key; a class has name, uid",
            "name: a, regions: many": "limits.yaml:2:24: regions: ",
            "name: a, uid: root": "uid: ",
            "name: a, cgroup: batch": "cgroup: 'batch' is no path",
            "name: a, cgroup: /batch/": "cgroup: '/batch/' ends with a slash",
            "uid: 0": "a class has no name",
        }.items():
            with self.subTest(text):
                child = self.run_program("share", "--socket", self.socket, *self.classes(text), expect=2)
                self.assertRegex(str(child), words)
        child = self.run_program("share", "--socket", self.socket, "--allow", "0", *self.classes("name: a"), expect=2)
        self.assertIn("leave --allow out", str(child))

    def test_nodes(self):
        """READ and WRITE on request, and files."""
        router = self.router("loopback")
        share = ("--transport", "share", "--transport-option", f"socket={self.socket}")
        random_file(self.folder / "data", 3 << 20)
        server = self.start("serve", f"127.0.0.1:{self.port}", "--root", self.folder, *share, "--transport-option",
                            "reconnect=60 s", environment={"PENSTOCK_LOG": "info"})  # fmt: skip
        server.wait_line("serve: listening")
        self.run_program("request", "write", f"127.0.0.1:{self.port}", "--size", "64KiB", "--count", "200",
                         "--depth", "4", *share)  # fmt: skip
        self.run_program("get", f"127.0.0.1:{self.port}", "data", "--to", self.folder / "copy", "--sha256", *share)
        self.assertEqual((self.folder / "copy").read_bytes(), (self.folder / "data").read_bytes())
        router.kill()  # the server serves on with the next one
        router.wait()
        router = self.router("loopback")
        server.wait_line("the router at .* serves again")
        self.run_program("get", f"127.0.0.1:{self.port}", "data", "--to", self.folder / "again", "--sha256", *share)
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 0, server)
        self.stop(router)

    def assert_holds_nothing(self, pid):
        """Neither a descriptor nor a mapping of a client's memory; the last closes are another thread's."""

        def is_clear():
            held = [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
            held += pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
            return not [one for one in held if re.search("memfd:(penstock|fake-cuda)", one)]

        wait_until(is_clear, HANGS, "the last close of a client's memory")

    def test_fifty_killed_at_random(self):
        """All have memory registered, every second one a GPU's. Nothing of them is left, and a stream beside them
        loses nothing."""
        router = self.simulated_router() if SIMULATED else self.router("loopback")
        owner = child_of(router.pid) if SIMULATED else router.pid
        slow = "memory: host, source: pattern, rate: 2 Mbps"
        calm = ("--set", "threads.sleep_after=1 ms")
        beside = self.start("run", self.share_config(sender=f"{{{slow}}}"), *calm, "--json", self.folder / "out.json")
        beside.wait_line("packets: messages")
        paths = []
        for i in range(10):
            ends = GPU_ENDS if SIMULATED and i % 2 else {}
            ends = {**ends, "sender": f"{{{slow.replace('host', 'cuda' if ends else 'host')}}}"}
            text = self.share_config(ring=64, **ends).read_text()
            paths.append(self.write(f"{i}.yaml", text.replace(f":{self.port}", f":{free_port()}")))
        chance = random.Random(26)
        for _ in range(5):
            ends = [self.start("run", path, *calm, "--plugin-path", CUDA, environment=gpu()) for path in paths]
            for end in ends:
                end.wait_line("packets: messages")
            while ends:
                end = ends.pop(chance.randrange(len(ends)))
                if chance.random() < 0.3:  # the others are killed wherever their start has come to
                    end.wait_line("packets: messages of up to")
                end.kill()
        beside.signal(signal.SIGINT)
        self.assertEqual(beside.wait(), 0, beside)
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], stream["verified"])
        router.wait_line(r"share: 0 clients, 0 regions \(0 B\), 0 endpoints")
        self.assert_holds_nothing(owner)
        os.kill(owner, signal.SIGINT)
        router.wait()

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    @unittest.skipIf(SANITIZED, "the sanitizers' libraries are elsewhere")
    def test_isolated(self):
        """Two programs in namespaces of their own, whose root has no RDMA library and no device; one has a GPU."""
        root = self.folder / "root"
        if not bare_root(root, CUDA / "memory-cuda"):
            self.skipTest("ldd reads no program for another machine")
        shutil.copy(CUDA / "libcuda.so.1", root / "lib")
        namespaces = (*NAMESPACES, f"--mount-proc={root / 'proc'}")
        if subprocess.run([*namespaces, "true"], check=False, capture_output=True).returncode:
            self.skipTest("this user may not make namespaces")
        self.socket = root / "share" / "socket"
        router = self.simulated_router()
        self.socket = pathlib.Path("/share/socket")
        inside = ("env", "-i", "LD_LIBRARY_PATH=/lib", "TMPDIR=/tmp", "XDG_RUNTIME_DIR=/tmp",
                  "FAKE_CUDA=delay_us=0,late_writes", "/usr/sbin/chroot", str(root))  # fmt: skip
        ends = []
        for name, via, count, parts in (("host", "dma", COUNT, {}), ("gpu", "dma-buf", 1000, GPU_ENDS)):
            shutil.copy(self.share_config(**parts), root / f"{name}.yaml")
            end = self.start("run", f"/{name}.yaml", "--plugin-path", "/plugins", "--count", str(count),
                             program="/penstock", prefix=(*namespaces, *inside))  # fmt: skip
            ends.append((end, via, count))
        for end, via, count in ends:
            self.assertEqual(end.wait(), 0, f"{end}{router}")
            self.assertIn(f"{count} sent = {count} delivered + 0 dropped | {count} verified", str(end))
            self.assertIn(f"direct via {via} over rdma", str(end))
        self.stop_simulated(router)

    def test_rate(self):
        router = self.router("loopback", "--rate", "10MiB")
        self.run_program("run", self.share_config(), "--count", "8000", "--json", self.folder / "out.json")
        stream = self.only_stream(self.result())
        self.assert_accounted(stream)
        self.assertGreater(stream["seconds"], 0.5, stream)  # 11.7 MB
        self.stop(router)

    # ---- Clients that keep to no rule ----

    def hostile(self):
        """A client with a device, a registered page and a worker."""
        client = hostile.Client(self.socket)
        self.addCleanup(client.close)
        client.open()
        client.mr = client.register(client.memory(4096), 4096)
        client.number, client.router_event, client.client_event = client.worker()
        return client

    def assert_serves(self, router):
        """The router still serves others, and SIGTERM ends it."""
        self.run_program("run", self.share_config(), "--count", "100")
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)

    def test_hostile_slow_close(self):
        """A descriptor whose close waits holds neither the answer up nor the router."""
        router = self.router("loopback")
        client = self.hostile()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
            slow.connect(server.getsockname())
            slow.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    slow.send(bytes(1 << 16))
            fd = os.dup(slow.fileno())
            slow.close()
            begun = time.monotonic()
            endpoint = client.endpoint(client.number)
            rights = [fd]
            client.send(hostile.ENDPOINT_ADDRESS, worker=client.number, number=endpoint, fds=rights)
            os.close(fd)
            client.receive()
            self.assertLess(time.monotonic() - begun, 30)
        client.close()
        self.assert_serves(router)

    def test_hostile_events(self):
        """Blocking event descriptors hold no thread of the router."""
        router = self.router("loopback")
        client = self.hostile()
        for fd in (client.router_event, client.client_event):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        for sleeps in (hostile.ROUTER_SLEEPS, hostile.CLIENT_SLEEPS):
            client.page[sleeps : sleeps + 4] = struct.pack("=I", 1)
        with contextlib.suppress(OSError):
            os.write(client.router_event, struct.pack("=Q", 1))
        with contextlib.suppress(OSError):
            os.write(client.client_event, struct.pack("=Q", 2**64 - 2))
        endpoint = client.endpoint(client.number)
        client.ask(hostile.ENDPOINT_CLOSE, struct.pack("=QII", 0, 2, 0), worker=client.number, number=endpoint)
        client.close()
        router.wait_line("share: 0 clients, 0 regions")
        self.assert_serves(router)

    def test_hostile_rings(self):
        """A client with one registered page cannot use up the router's memory."""
        router = self.router("loopback", "--endpoints", "8")
        client = self.hostile()
        with self.assertRaisesRegex(hostile.Refused, "slots of all its rings"):
            for _ in range(8):
                client.ring(client.number, client.mr, 3 << 18)
        for _ in range(7):
            client.ring(client.number, client.mr, 1)
        with self.assertRaisesRegex(hostile.Refused, "--endpoints"):
            client.ring(client.number, client.mr, 1)
        client.close()
        self.assert_serves(router)

    def test_hostile_queues(self):
        router = self.router("loopback", "--endpoints", "16")
        client = self.hostile()
        with self.assertRaisesRegex(hostile.Refused, "--endpoints"):
            for _ in range(16):
                client.endpoint(client.number, requests=65536)
        client.close()
        self.assert_serves(router)

    def test_hostile_memory(self):
        """Memory that can shrink, and huge pages, which can be taken away."""
        router = self.router("loopback")
        client = self.hostile()
        unsealed = os.memfd_create("unsealed")
        self.addCleanup(os.close, unsealed)
        os.ftruncate(unsealed, 4096)
        with self.assertRaisesRegex(hostile.Refused, "sealed"):
            client.register(unsealed, 4096)
        try:
            huge = client.memory(2 << 20, os.MFD_HUGETLB)
        except OSError:
            huge = None
        if huge is not None:
            with self.assertRaisesRegex(hostile.Refused, "--huge"):
                client.register(huge, 2 << 20)
        client.close()
        self.assert_serves(router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_hostile_dma_buf(self):
        """A descriptor that is no dma-buf is refused, and no address that the client names is registered in its
        place."""
        router = self.simulated_router("-v")
        owner = child_of(router.pid)
        maps = pathlib.Path(f"/proc/{owner}/maps").read_text()
        own = int(re.search(r"(\w+)-\w+ rw-p", maps)[1], 16)
        client = self.hostile()
        unsealed = os.memfd_create("unsealed")
        os.ftruncate(unsealed, 8192)
        ends = os.pipe()
        for fd in (unsealed, *ends):
            self.addCleanup(os.close, fd)
        before = len(os.listdir(f"/proc/{owner}/fd"))
        for fd, length, offset in ((unsealed, 4096, 0), (ends[0], 4096, 0), (None, 4096, 0), (client.memory(4096), 8192, 0),
                                   (client.memory(4096), 4096, 4096), (client.memory(4096), 1 << 62, 0),
                                   (client.memory(4096), 4096, 2**64 - 4096)):  # fmt: skip
            with self.subTest(fd=fd, length=length, offset=offset), self.assertRaises(hostile.Refused):
                client.register(fd, length, offset=offset, kind=hostile.EXPORT_DMABUF, base=own, base_length=2**63,
                                device="GPU-" + "x" * 60)  # fmt: skip
        self.assertEqual(client.register(client.memory(4096), 4096, kind=hostile.EXPORT_DMABUF) > 0, True)
        client.close()
        router.wait_line("share: 0 clients, 0 regions")
        self.assertLess(len(os.listdir(f"/proc/{owner}/fd")), before)
        self.stop_simulated(router)

    def test_hostile_handles(self):
        """The GPU's driver sees no descriptor that is not of a driver; what it refuses is refused."""
        router = self.router("loopback", "--memory", "cuda", "--plugin-path", CUDA, environment=gpu())
        client = self.hostile()
        pipe, other = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (pipe, other, null):
            self.addCleanup(os.close, fd)
        name = f"GPU-{uuid.UUID(bytes=bytes((0xFA + 17 * i) % 256 for i in range(16)))}"  # the fake's first
        foreign = "does not come from a device's driver"
        for fd, device, words in ((pipe, name, foreign), (None, name, foreign),
                                  (null, "GPU-none", ""), (null, "0", ""), (null, name, "cuMemImportFromShareableHandle"),
                                  (client.memory(2 << 20), name, "cuMemImportFromShareableHandle")):  # fmt: skip
            with self.subTest(fd=fd, device=device), self.assertRaisesRegex(hostile.Refused, words):
                client.register(fd, 4096, hostile.READ | hostile.WRITE, kind=hostile.EXPORT_VENDOR_FD, base_length=2 << 20,
                                device=device)  # fmt: skip
        client.close()
        self.assert_serves(router)

    def test_hostile_entries(self):
        """Positions and entries that break a rule end the client, and it alone."""
        router = self.router("loopback", "-v")
        request = bytes([1, 1]).ljust(64, b"\0")  # to endpoint 0
        for tail, entry in ((4097, b""), (1, b"\xff" * 64), (1, request), (1, bytes([2, 0, 0, 1]).ljust(64, b"\0"))):
            with self.subTest(tail=tail, entry=entry[:4]):
                client = self.hostile()
                client.page[hostile.SUBMIT_AT : hostile.SUBMIT_AT + len(entry)] = entry
                client.page[hostile.SUBMIT_TAIL : hostile.SUBMIT_TAIL + 4] = struct.pack("=I", tail)
                with self.assertRaises((EOFError, OSError)):
                    client.endpoint(client.number)
                client.close()
        router.wait_line("is disconnected: an entry of its submission ring breaks a rule")
        self.assert_serves(router)

    def wander(self, router):
        """Calls in any order end their client at most."""
        for seed in range(15):
            with hostile.Wanderer(self.socket, random.Random(seed)) as client:
                client.wander(200)
            self.assertIsNone(router.poll(), f"seed {seed}: {router}")

    def test_hostile_order(self):
        for transport in ("loopback", "udp"):
            with self.subTest(transport):
                router = self.router(transport)
                self.wander(router)
                router.signal(signal.SIGTERM)
                self.assertEqual(router.wait(), 0, router)

    @unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
    def test_hostile_order_to_an_adapter(self):
        router = self.router("verbs_rc", "--transport-option", "device=mlx5_0",
                             prefix=(SIMULATED, "--fabric", self.fabric))  # fmt: skip
        self.wander(router)
        os.kill(child_of(router.pid), signal.SIGINT)
        self.assertEqual(router.wait(), 0, router)

    def test_hostile_plan(self):
        """A client is never a peer within the process, whatever it plans."""
        router = self.router("loopback", "--transport-option", "mode=reference")
        with hostile.Client(self.socket) as client:
            with self.assertRaisesRegex(hostile.Refused, "within one process only"):
                client.open(flags=0xFFFFFFFF, ring_slots=2**63)
            with self.assertRaises((EOFError, OSError)):  # it has no device that it could use
                client.worker()
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)

    # ---- A router that keeps to no rule ----

    def between(self, router, **options):
        """Starts a router that clients take for the real one, and that stands between both."""
        between = hostile.Router(self.folder / "between", self.socket, **options)
        self.addCleanup(between.close)
        self.addCleanup(router.kill)
        self.socket = self.folder / "between"
        return between

    def test_hostile_completions(self):
        """A client believes no completion that names memory or ends an endpoint which it has not given."""
        router = self.router("loopback")
        between = self.between(router)

        def message(**parts):
            is_ = {"slot": 0, "offset": 0, "length": 64, "buffer": 0, **parts}
            token = between.ring << 32 | is_["slot"]
            return (hostile.MESSAGE, 0, struct.pack("=QQII", token, is_["offset"], is_["length"], is_["buffer"]))

        for name, planted in {
            "a message for a sender": message,
            "a lent region": lambda: message(buffer=1),
            "an offset beyond the ring": lambda: message(offset=1 << 40),
            "an offset that wraps": lambda: message(offset=2**64 - 32),
            "a length beyond the slot": lambda: message(length=1 << 31),
            "a slot beyond the ring": lambda: message(slot=1 << 20),
            "an end that nobody asked for": lambda: (hostile.EVENT, 4),
            "a region that is lent": lambda: (hostile.EVENT, 5),
            "an end of requests that are not there": lambda: (hostile.DONE, 1, struct.pack("=QQ", 0, 1 << 40)),
            "more completions than the ring has": lambda: (hostile.EVENT, 4, b"", -1),
        }.items():
            with self.subTest(name):
                child = self.start("run", self.share_config())
                child.wait_line("packets: Got")
                wait_until(lambda: between.plant(*planted()) or child.poll() is not None, 20, "the client has ended")
                self.assertEqual(child.wait(), 1, child)
                self.assertIn("breaks the protocol", str(child))

    def test_hostile_worker_memory(self):
        """A client maps no memory that the router could take away."""
        taken = os.memfd_create("taken")
        self.addCleanup(os.close, taken)
        os.ftruncate(taken, hostile.MEMORY)
        self.between(self.router("loopback"), changed=lambda call, answer, fds: (
            answer, [taken, *fds[1:]] if call == hostile.WORKER_OPEN else fds))  # fmt: skip
        child = self.run_program("run", self.share_config(), "--count", "100", expect=None)
        self.assertNotEqual(child.status, 0, child)
        self.assertIn("the router's memory cannot be mapped", str(child))

    def test_hostile_limits(self):
        """The device's slots lie on multiples of 0 bytes; and a status that is none skips no check."""
        changed = ()
        self.between(self.router("loopback"), changed=lambda call, answer, fds: (
            (struct.pack("=i", changed[1]) + answer[4:16].ljust(len(answer) - 4, b"\0"), []) if call == changed[0] else (answer, fds)))
        for changed in ((hostile.OPEN, 0), (hostile.OPEN, 1), (hostile.WORKER_OPEN, 1)):
            with self.subTest(changed):
                child = self.run_program("run", self.share_config(), "--count", "100", expect=3)
                self.assertIn("breaks the protocol", str(child))

    def test_other_release(self):
        """A client of another release reads why it is refused, whatever the size of its requests."""
        router = self.router("loopback")
        with hostile.Client(self.socket) as client:
            status, _, text, _ = client.raw(struct.pack("=II", 99, 1))
            self.assertEqual(status, -errno.EPROTONOSUPPORT)
            self.assertIn("install one release", text)
        self.assert_serves(router)

    def test_idle_connection(self):
        """A connection that opens no device gives its place back."""
        router = self.router("loopback", "--clients", "1", "-v")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as held:
            held.connect(str(self.socket))
            held.settimeout(HANGS)
            self.assertEqual(held.recv(64), b"")
        router.wait_line("it has not opened a device in time")
        router.wait_line("share: 0 clients")
        self.assert_serves(router)

    def test_one_user_of_several(self):
        """None of them has all places."""
        router = self.router("loopback", "--clients", "2", "--allow", f"{os.getuid()},{os.getuid() + 1}")
        with hostile.Client(self.socket) as client:
            client.open()
            child = self.run_program("run", self.share_config(), "--count", "100", expect=3)
            self.assertIn("half of all; raise --clients", str(child))
        router.wait_line("share: 0 clients")
        self.assert_serves(router)

    def test_refused_user(self):
        router = self.router("loopback", "--allow", str(os.getuid() + 1))
        child = self.run_program("run", self.share_config(), "--count", "100", expect=3)
        self.assertIn(f"--allow {os.getuid()}` lets that user in", str(child))
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)

    def test_one_user_takes_not_all(self):
        """A refusal says which limit of the router to raise, and another user has descriptors left."""
        others = ("setpriv", "--reuid=65534", "--clear-groups") if os.getuid() == 0 else ()
        router = self.router("loopback", "--allow", f"{os.getuid()},65534", prefix=("prlimit", "--nofile=256"))
        self.folder.chmod(0o755)
        with hostile.Client(self.socket, by_another=others) as greedy:
            greedy.open()
            memory = greedy.memory(4096)
            refusal = "no descriptors left for user .* each user must leave as many free as it holds; raise `ulimit -n`"
            with self.assertRaisesRegex(hostile.Refused, refusal):
                for taken in range(256):
                    greedy.register(memory, 4096)
            self.assertGreater(taken, 8)
            if others:
                with hostile.Client(self.socket) as modest:
                    modest.open()
                    modest.register(modest.memory(4096), 4096)
        router.wait_line("share: 0 clients")
        self.assert_serves(router)

    def test_no_descriptors(self):
        """The listener waits for them, and says so once, not for each client."""
        router = self.router("loopback")
        held, have = [], len(list(pathlib.Path(f"/proc/{router.pid}/fd").iterdir()))
        resource.prlimit(router.pid, resource.RLIMIT_NOFILE, (have + 12, have + 12))
        try:
            for _ in range(24):
                held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                held[-1].connect(str(self.socket))
            router.wait_line("raise `ulimit -n`")
        finally:
            for each in held:
                each.close()
        router.wait_line("share: 0 clients")
        router.signal(signal.SIGTERM)
        self.assertEqual(router.wait(), 0, router)
        # The router disconnects them after 5 s, and a slow machine comes to a second shortage.
        self.assertLess(str(router).count("raise `ulimit -n`"), 5, router)

    def test_socket_is_a_file(self):
        """Another file is never removed."""
        self.socket.write_text("precious")
        child = self.run_program("share", "--socket", self.socket, expect=3)
        self.assertIn("is no socket of this user", str(child))
        self.assertEqual(self.socket.read_text(), "precious")

    def test_folder_that_is_not_there(self):
        child = self.run_program("share", "--socket", self.folder / "none" / "share", expect=3)
        self.assertIn("No such file or directory; the folder of --socket must exist", str(child))

    def test_memory_that_is_not_there(self):
        child = self.run_program("share", "--socket", self.socket, "--memory", "cuda", "--plugin-path", CUDA, expect=3,
                                 environment=gpu("init=100"))  # fmt: skip
        self.assertIn("`penstock plugins cuda` says what it needs", str(child))

    def test_second_router(self):
        router = self.router("loopback")
        child = self.run_program("share", "--socket", self.socket, expect=3)
        self.assertIn("another router serves", str(child))
        self.stop(router)


if __name__ == "__main__":
    main()
