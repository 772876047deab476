#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Regions of GPU memory, written and read by another process, by the GPU's own copies: on the
fake driver, whose device memory two processes share; with PENSTOCK_CUDA=real on the machine's."""
import signal
import time

from cuda_driver import HAS_KERNELS, IS_REAL, environment, gpus, plugins, scripted
import result_schema
from harness import BUILD, FAKES, Case, free_port, main


class Regions(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port(2)

    def arguments(self, *arguments):
        return ["bench", *plugins(), "--transport", "loopback", "--memory", "cuda", *arguments]

    def arguments_of(self, command, *arguments):
        return [command, *plugins(), *arguments]

    # Each fill and check waits for a copy: a round of the default depth would take a second.
    def rows(self, *arguments, script="delay_us=100,devices=2", **options):
        child = self.run_program(
            *self.arguments("--op", "write,read", "--size", "1000,65536", "--duration", "60ms",
                            "--bandwidth", "--verify", "--depth", 32, "--json", "-", *arguments),
            environment=environment(script), **options,
        )  # fmt: skip
        return result_schema.read(child.stdout)["rows"]

    def assert_direct(self, rows, via, carrier):
        self.assertEqual(sorted((row["op"], row["size_bytes"]) for row in rows),
                         [("read", 1000), ("read", 65536), ("write", 1000), ("write", 65536)])  # fmt: skip
        for row in rows:
            with self.subTest(op=row["op"], size=row["size_bytes"]):
                self.assertTrue(row["ok"], row["errors"])
                self.assertEqual((row["path"], row["via"], row["carrier"]), ("direct", via, carrier))
                self.assertGreater(row["verified"], 0)
                self.assertEqual(row["corrupted"], 0)
                self.assertEqual(row["transfers_failed"], 0)

    def test_two_processes(self):
        for allocator, via in (("malloc", "cuda-ipc"), ("vmm", "cuda-vmm")):
            for script in ("delay_us=0", "delay_us=1000"):
                with self.subTest(allocator=allocator, script=script):
                    rows = self.rows("--memory-option", f"allocator={allocator}", script=script)
                    self.assert_direct(rows, via, "shm")

    def test_one_process(self):
        self.assert_direct(self.rows("--in-process"), "cuda-copy", "memory")

    def server(self, *arguments, script):
        server = self.start(*self.arguments("--server", "--once", *arguments, f"127.0.0.1:{self.port}"),
                            environment=environment(script))  # fmt: skip
        server.wait_line("serving transport loopback")
        return server

    def test_two_gpus(self):
        if gpus() < 2:
            self.skipTest("one GPU here")
        for allocator in ("malloc", "vmm"):
            with self.subTest(allocator=allocator):
                option = ("--memory-option", f"allocator={allocator}")
                server = self.server(*option, "--memory-option", "device=1", script="delay_us=100,devices=2")
                rows = self.rows(*option, f"127.0.0.1:{self.port}")
                self.assertEqual(server.wait(), 0, str(server))
                # The written end reports the path of a WRITE, and does not know its source.
                for row in rows:
                    if row["op"] == "write":
                        self.assertEqual(row["via"], "cuda-vmm" if allocator == "vmm" else "cuda-ipc")
                        row["via"] = "cuda-peer"
                self.assert_direct(rows, "cuda-peer", "shm")

    def refused(self, script, theirs, words, *arguments):
        server = self.server("--memory-option", "device=0", *arguments, script=theirs)
        child = self.run_program(
            *self.arguments("--op", "write", "--size", "4096", "--duration", "60ms", "--json", "-",
                            f"127.0.0.1:{self.port}"),
            environment=environment(script), expect=1,
        )  # fmt: skip
        self.assertIn(words, child.stderr)
        self.assertIn("the peer's memory cannot be reached", child.stderr)
        server.signal(signal.SIGINT)
        server.wait()

    @scripted
    def test_gpus_that_do_not_see_each_other(self):
        self.refused("devices=1", "devices=2,first=1", "which this process does not see")

    @scripted
    def test_gpus_that_are_no_peers(self):
        script = "devices=2,no_peer"
        server = self.server("--memory-option", "device=1", script=script)
        child = self.run_program(
            *self.arguments("--op", "write", "--size", "4096", "--duration", "60ms", "--json", "-",
                            f"127.0.0.1:{self.port}"),
            environment=environment(script), expect=1,
        )  # fmt: skip
        self.assertIn("has no access as a peer", child.stderr)
        server.signal(signal.SIGINT)
        server.wait()

    @scripted
    def test_memory_that_cannot_be_handed_over(self):
        child = self.run_program(
            *self.arguments("--op", "write", "--size", "4096", "--duration", "60ms"),
            environment=environment("ipc_refused"), expect=3,
        )  # fmt: skip
        self.assertIn("neither a descriptor nor a handle for another process", child.stderr)

    def test_the_example(self):
        """As an application runs it: apps/examples/region.c."""
        program = BUILD / "apps" / "examples" / "region"
        self.assertIn("usage: region target|initiator", self.run_program(program=program, expect=2).stderr)
        address = f"127.0.0.1:{self.port}"
        variables = environment("delay_us=100,devices=2")
        if not IS_REAL and not HAS_KERNELS:
            variables["PENSTOCK_PLUGIN_PATH"] = str(FAKES / "cuda")
        for allocator, device, via in (("malloc", 0, "cuda-ipc"), ("vmm", 0, "cuda-vmm"), ("malloc", 1, "cuda-ipc")):
            if device >= gpus():
                continue
            with self.subTest(allocator=allocator, device=device):
                memory = ["cuda", f"allocator={allocator}"]
                target = self.start("target", address, *memory, f"device={device}", program=program, environment=variables)
                self.run_program("initiator", address, *memory, program=program, environment=variables)
                self.assertEqual(target.wait(), 0, target)
                words = {"malloc": "cuMemAlloc", "vmm": "cuMemCreate"}[allocator]
                self.assertRegex(target.stdout, f"^67108864 bytes in {words}.*, all of them right, by {via}$")

    def killed(self, who):
        """One of the two, in mid-flow, on one GPU and on two: the other ends soon, and says who died."""
        for allocator, device in (("malloc", 0), ("vmm", 0), ("malloc", 1), ("vmm", 1)):
            if device >= gpus():
                continue
            with self.subTest(allocator=allocator, device=device):
                option = ("--memory-option", f"allocator={allocator}")
                script = "delay_us=300,devices=2"
                server = self.server(*option, "--memory-option", f"device={device}", script=script)
                client = self.start(
                    *self.arguments("-v", "--op", "write", "--bandwidth", "--size", "65536", "--duration",
                                    "60s", *option, f"127.0.0.1:{self.port}"),
                    environment=environment(script),
                )  # fmt: skip
                client.wait_line("the clock runs")  # the other's memory is being written
                dead, other = (server, client) if who == "server" else (client, server)
                began = time.monotonic()
                dead.signal(signal.SIGKILL)
                dead.wait()
                # A server has served, however its client ended.
                self.assertEqual(other.wait(), 1 if other is client else 0, str(other))
                self.assertLess(time.monotonic() - began, 40)  # it would have gone on for 60 s
                self.assertIn(str(dead.pid), other.stderr)
                if dead is client:  # in the server's own words, whichever of its threads heard first
                    self.assertIn(f"(pid {client.pid}) disconnected unexpectedly", server.stderr)

    def test_the_writer_is_killed(self):
        self.killed("client")

    def test_the_owner_is_killed(self):
        self.killed("server")


if __name__ == "__main__":
    main(side_by_side=4)
