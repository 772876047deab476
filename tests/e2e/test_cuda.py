#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program with a GPU's memory: on the fake driver, whose work is done late and whose
errors are scripted; with PENSTOCK_CUDA=real on the machine's, but for the errors."""
import ctypes
import os
import unittest

from cuda_driver import IS_REAL, environment, plugins, scripted
from harness import BUILD, Case, main

FILE = "config/loopback-cuda.yaml"
DEVICE = "streams.packets.receiver.memory.options.device"


class Cuda(Case):
    def arguments(self, command, *arguments):
        return [command, *plugins(), *arguments]

    def stream_of(self, *arguments, script="delay_us=200"):
        result, _ = self.run_json(
            *self.arguments("run", *arguments), environment=environment(script)
        )
        stream = self.only_stream(result)
        self.assertEqual((stream["path"], stream["staged_by"]), ("staged", "receiver"))
        if stream["verdict"]["limited_by"] == "staging":
            self.assertEqual(stream["verdict"]["side"], "receiver")
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assertEqual(stream["corrupted"], 0)
        self.assertEqual(stream["receiver"]["memory"], "cuda")
        self.assert_accounted(stream)
        return stream

    def refused(self, script, *arguments, expect=3):
        child = self.run_program(
            *self.arguments("run", FILE, "--count", 20000, *arguments),
            expect=expect,
            environment=environment(script),
        )
        return child.stderr

    def test_by_reference_and_by_copy(self):
        for mode in ("reference", "copy"):
            for script in ("delay_us=0", "delay_us=2000"):
                with self.subTest(mode=mode, script=script):
                    stream = self.stream_of(
                        FILE,
                        "--count",
                        40000,
                        "--set",
                        f"transport.options.mode={mode}",
                        "--set",
                        "streams.packets.ring=1024",
                        script=script,
                    )
                    self.assertEqual(stream["messages_delivered"], 40000)

    def test_every_way_of_copying(self):
        for copies in ("auto", "strided", "gather", "each"):
            with self.subTest(copies=copies):
                option = f"streams.packets.receiver.memory.options.copies={copies}"
                self.stream_of(FILE, "--count", 5000, "--set", option)

    def test_udp(self):
        stream = self.stream_of(
            "config/udp.yaml",
            "--set",
            "streams.packets.receiver.memory.plugin=cuda",
            "--set",
            "streams.packets.sender.rate=200 Mbps",
            "--set",
            "streams.packets.expect.max_loss=100%",
            "--count",
            5000,
        )
        self.assertEqual(stream["carrier"], "udp")

    def test_a_sender_whose_memory_the_transport_cannot_read(self):
        """Made on the GPU, and copied from there; that is said, and may be forbidden."""
        for transport in ("loopback", "{plugin: loopback, options: {mode: copy}}",
                          "{plugin: udp, options: {device: 127.0.0.1}}"):  # fmt: skip
            with self.subTest(transport=transport):
                file = self.config(
                    "- name: packets\n"
                    "  message: 1462 B\n"
                    "  ring: 512\n"
                    f"  transport: {transport}\n"
                    "  sender: {memory: cuda, rate: 200 Mbps}\n"
                    "  receiver: {memory: host, sink: verify}\n")
                result, child = self.run_json(*self.arguments("run", file, "--count", 20000),
                                              environment=environment("delay_us=300"))  # fmt: skip
                stream = self.only_stream(result)
                self.assertEqual((stream["path"], stream["staged_by"]), ("staged", "sender"))
                self.assertRegex(child.stderr, r"\| staged by the sender via ")
                self.assertRegex(stream["path_reason"], r"sends from memory that .*CPU.*, which memory cuda \(cuMemAlloc\) is not")
                self.assertIn(stream["path_reason"], child.stderr)
                self.assertRegex(child.stderr, r"packets: \d+ sent .* \| staged by the sender")
                self.assertEqual((stream["messages_sent"], stream["verified"]), (20000, 20000))
                self.assert_accounted(stream)
        for command in ("check", "run"):
            child = self.run_program(
                *self.arguments(command, file, "--set", "streams.packets.sender.path=direct"), expect=2,
                environment=environment(""))  # fmt: skip
            self.assertIn("path: direct is not possible: transport udp sends from memory that the CPU can touch", child.stderr)

    def test_bench_sends_from_what_the_transport_reads(self):
        child = self.run_program(
            *self.arguments("bench", "--transport", "loopback", "--memory", "cuda", "--op", "send"),
            "--size", "1462", "--bandwidth", "--duration", "20ms",
            environment=environment("delay_us=200"),
        )  # fmt: skip
        self.assertIn("send: the sender's slots are in host memory, since transport loopback cannot send from memory cuda",
                      child.stdout)  # fmt: skip

    def test_the_staged_path_is_reported_where_nobody_asked_for_it(self):
        stream = self.stream_of(FILE, "--count", 1000, "--set", "streams.packets.receiver.path=auto")
        self.assertIn("loopback hands over host memory", stream["path_reason"])

    @scripted
    def test_memory_that_runs_out(self):
        text = self.refused("memory_mib=1")
        self.assertRegex(text, r"packets, ring: cannot get 23\.0 MiB of Fake GPU: cuMemAlloc: "
                               r"CUDA_ERROR_OUT_OF_MEMORY.* 1\.0 of 1\.0 MiB are free: lower `ring` or `message`, or end")
        self.assertIn("pinned host memory", self.refused("host_mib=1", "--set", "transport.options.mode=copy"))

    @scripted
    def test_nothing_is_pinned_for_messages_that_are_lent(self):
        """The sender's slots, 23 MiB, and the queues; not as much again for a ring."""
        result, child = self.run_json(*self.arguments("run", FILE, "--count", 2000),
                                      environment=environment("delay_us=200,host_mib=40"))  # fmt: skip
        self.assert_accounted(self.only_stream(result))
        self.assertNotIn("cannot be pinned", child.stderr)

    @scripted
    def test_host_memory_that_cannot_be_pinned(self):
        """The sender's slots, 1.4 MiB: copied piece by piece, and that is said once."""
        child = self.run_program(
            *self.arguments("run", FILE, "--count", 2000, "--set", "streams.packets.ring=1000"),
            environment=environment("delay_us=0,no_register"),
        )
        self.assertIn("2000 sent = 2000 delivered + 0 dropped | 2000 verified, 0 corrupted", child.stderr)
        self.assertEqual(child.stderr.count("1.4 MiB of host memory cannot be pinned"), 1)

    @scripted
    def test_a_device_that_is_not_there(self):
        text = self.refused("devices=2", "--set", f"{DEVICE}=c1:00.0")
        self.assertRegex(text, rf"--set {DEVICE}=c1:00.0: memory cuda: device: c1:00.0: no such "
                               r"GPU; here are 0 \(0000:b7:00.0, GPU-.*; 1 \(0000:b8:00.0, GPU-")
        self.assertIn("not a name of a GPU", self.refused("", "--set", f"{DEVICE}=eth0", expect=2))
        self.assertIn("not a name of a GPU", self.refused("", "--set", f"{DEVICE}=b7:00:00.0.1", expect=2))

    @scripted
    def test_a_device_chosen_by_its_address(self):
        self.stream_of(FILE, "--count", 1000, "--set", f"{DEVICE}=B8:00.1", script="devices=2")

    @scripted
    def test_a_device_that_is_lost(self):
        """Messages that it had not got by then are accounted for, too, and are no loss of the transport's."""
        frames = "streams.packets.receiver.assemble={by: sequence, packets: 64, timeout: 1 s}"
        for after, more in ((1, ()), (9, ()), (60, ()), (60, ("--set", frames))):
            with self.subTest(after=after, more=more):
                result, child = self.run_json(
                    *self.arguments("run", FILE, "--count", 40000, *more), expect=1,
                    environment=environment(f"lost_after={after}"))  # fmt: skip
                self.assertIn("is lost: CUDA_ERROR_LAUNCH_FAILED", child.stderr)
                self.assertEqual(child.stderr.count("is lost"), 1)
                self.assertNotIn("lost on a reliable transport", child.stderr)
                stream = self.only_stream(result)
                self.assert_accounted(stream)
                self.assertLess(stream["messages_delivered"], 40000)
                self.assertEqual(list(stream["dropped"]), ["memory_failed"])

    @scripted
    def test_a_device_that_is_lost_by_one_of_two_processes(self):
        """The other knows by its last word what has become of what was sent, and its answer tells the
        loser: both have the same, exactly."""
        for loser, more in (("receive", ()), ("send", ("streams.packets.sender.memory=cuda",
                                                       "streams.packets.receiver.memory=host"))):
            with self.subTest(loser=loser):
                common = [FILE, "--set", f"control.address=127.0.0.1:{self.port}",
                          "--set", "transport.options.mode=copy", "--set", "streams.packets.expect="]  # fmt: skip
                for setting in more:
                    common += ["--set", setting]
                children = {}
                for command in ("receive", "send"):
                    script = "lost_after=60" if command == loser else ""
                    count = ["--count", 1000000] if command == "send" else []
                    children[command] = self.start(
                        *self.arguments(command, *common, *count), "--json", self.folder / f"{command}.json",
                        environment=environment(script))  # fmt: skip
                for child in children.values():
                    self.assertEqual(child.wait(), 1, child)
                streams = {c: self.only_stream(self.result(f"{c}.json")) for c in children}
                other = streams["send" if loser == "receive" else "receive"]
                dropped = sum(other["dropped"].values())
                self.assertEqual(other["messages_sent"], other["messages_delivered"] + dropped, other)
                self.assertEqual(other["messages_delivered"] if loser == "receive" else other["messages_sent"],
                                 streams[loser]["messages_delivered" if loser == "receive" else "messages_sent"])
                cause = "memory_failed" if loser == "receive" else "aborted"
                self.assertLessEqual(set(other["dropped"]), {cause})
                self.assertLess(other["messages_delivered"], 1000000)
                for key in ("messages_sent", "messages_delivered", "dropped_basis"):
                    self.assertEqual(streams[loser][key], other[key], streams[loser])
                self.assertEqual([streams[c]["sent_basis"] for c in children], ["counted"] * 2)
                self.assertEqual(sum(streams[loser]["dropped"].values()), dropped, streams)

    @scripted
    def test_drivers_that_will_not_do(self):
        for script, reason in (
            ("version=11060", "the NVIDIA driver is for CUDA 11.6; 11.7 or later is needed"),
            ("devices=0", "the NVIDIA driver finds no CUDA device"),
            ("init=803", "libcuda.so.1 and the NVIDIA kernel module are of different versions"),
            ("init=999", "the NVIDIA driver does not start"),
            ("init=34", "libcuda.so.1 is the toolkit's stub"),
            ("capability=70", "no GPU here is of compute capability 7.5 or later"),
        ):
            with self.subTest(script=script):
                child = self.run_program(
                    *self.arguments("plugins", "cuda"), environment=environment(script)
                )
                self.assertIn("not usable", child.stdout)
                self.assertIn(reason, child.stdout)
                self.assertIn("remedy:", child.stdout)
        self.assertIn("11.7 or later", self.refused("version=11060"))

    @scripted
    def test_no_driver(self):
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            pass
        else:
            self.skipTest("NVIDIA's driver is here")
        child = self.run_program(*self.arguments("plugins", "cuda"), environment={"LD_LIBRARY_PATH": ""})
        self.assertIn("libcuda.so.1 is not installed: there is no NVIDIA driver here", child.stdout)
        self.assertRegex(child.stdout, "remedy: +install NVIDIA's driver, 515 or later")
        child = self.run_program(
            *self.arguments("run", FILE), expect=3, environment={"LD_LIBRARY_PATH": ""}
        )
        self.assertRegex(child.stderr, r"loopback-cuda.yaml:\d+:\d+: memory cuda: libcuda.so.1 is not installed")

    @scripted
    def test_usable_devices_are_listed(self):
        child = self.run_program(
            *self.arguments("plugins", "cuda"), environment=environment("devices=2")
        )
        self.assertIn("memory cuda 1.0: usable", child.stdout)
        self.assertRegex(child.stdout, r"GPU-fa0b1c2d-.*Fake GPU, 2048 MiB, 0000:b7:00\.0")
        self.assertIn("0000:b8:00.0", child.stdout)

    def test_an_application_with_a_kernel_of_its_own(self):
        consumer = BUILD / "apps" / "examples" / "gpu-consumer"
        if not consumer.exists():
            self.assertFalse(IS_REAL and os.environ.get("PENSTOCK_REQUIRE"), "gpu-consumer was not built")
            self.skipTest("apps/examples/gpu-consumer was not built: it needs nvcc, and libcuda's stub for this CPU")
        sent = bytes(i * i % 251 for i in range(1462 * 3000 + 100))
        (self.folder / "input.bin").write_bytes(sent)
        file = self.config(
            "- name: packets\n"
            "  message: 1462 B\n"
            "  ring: 512\n"
            f"  sender: {{source: {{type: file, file: {self.folder / 'input.bin'}}}}}\n"
            "  receiver: {memory: cuda, sink: discard}\n")
        receiver = self.start(file, program=consumer, environment=environment("delay_us=500"))
        self.run_program("send", file)
        self.assertEqual(receiver.wait(), 0, receiver)
        self.assertEqual(receiver.stdout,
                         f"3001 messages, the sum of their bytes is {sum(sent)}")

    def test_two_processes(self):
        control = f"control.address=127.0.0.1:{self.port}"
        common = [FILE, "--set", control, "--set", "transport.options.mode=copy",
                  "--set", "streams.packets.timeout=1 min"]  # fmt: skip
        receiver = self.start(
            *self.arguments("receive", *common), environment=environment("delay_us=500")
        )
        self.run_program("send", *common, "--count", 30000)
        self.assertEqual(receiver.wait(), 0, receiver)
        self.assertIn("30000 verified, 0 corrupted", receiver.stderr)


if __name__ == "__main__":
    main(side_by_side=3)
