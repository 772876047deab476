#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames to the byte: a file goes through `fault`, is put together in frames, and what
comes out is what the filter's ledger says must come out.

Frames wait for a minute here, so that time closes none of them and the kernel alone
may add to what is lost; where it does, on a busy machine, the run is done again.
"""
import os
import unittest
from unittest import mock

from harness import BUILD, Case, FAKES, alone, main, yaml_stream

MESSAGE = 1000
PACKETS = 10  # of a frame
COUNT = 1200  # of which so many are harmed that the result has a counter for each
FAULTS = {"drop_ppm": 10000, "duplicate_ppm": 10000, "reorder_ppm": 20000, "delay_ppm": 5000}
TRANSPORTS = {
    "loopback": "loopback",
    "sequence": "{plugin: udp, options: {framing: sequence}}",
    "rtp": "{plugin: udp, options: {framing: rtp}}",
}
MEMORIES = ("host", "{plugin: late, options: {delay: 20 us}}")
ATTEMPTS = 5


def blocks(data):
    """The data by messages; what lies behind its end is zero."""
    data = data.ljust(COUNT * MESSAGE, b"\0")
    return [data[at : at + MESSAGE] for at in range(0, COUNT * MESSAGE, MESSAGE)]


def ledger(stream, kind):
    """The sequence numbers of what was done to messages."""
    counters = stream["sender"]["counters"]
    at = counters.get(f"{kind}_at", [])
    assert counters["injected_" + kind] == len(at), f"the result has not all of: {kind}"
    return at


def frames_of(lost, by_marker):
    """The packets of each frame of which something is here, and whether it is complete."""
    for first in range(0, COUNT, PACKETS):
        here = [i for i in range(first, first + PACKETS) if i not in lost]
        # Where the marker of the frame before is lost, nobody knows where this one begins.
        known = not by_marker or first == 0 or first - 1 not in lost
        if here:
            yield here, known and len(here) == PACKETS


class FrameBytes(Case):
    def setUp(self):
        super().setUp()
        self.source = self.folder / "source.bin"
        self.source.write_bytes(os.urandom(COUNT * MESSAGE))
        self.target = self.folder / "target.bin"

    def stream(self, transport, assemble, memory="host", faults=None, seed=1):
        options = ", ".join(f"{key}: {value}" for key, value in (faults or FAULTS).items())
        fault = f"{{plugin: fault, options: {{seed: {seed}, ledger: 4096, {options}}}}}"
        frame = f"options: {{frame: {PACKETS}}}, " if transport == "rtp" else ""
        receive = "" if transport == "loopback" else "transport: {options: {rcvbuf: 4 MiB}}, "
        return self.config(
            yaml_stream(
                message=f"{MESSAGE} B",
                ring=4096,
                transport=TRANSPORTS[transport],
                sender=f"{{rate: 40 Mbps, source: {{type: file, file: {self.source}}}, "
                f"transport: {{{frame}filters: [{fault}]}}}}",
                receiver=f"{{memory: {memory}, {receive}assemble: {{packets: {PACKETS}, {assemble}}}, "
                f"sink: {{type: file, file: {self.target}, overwrite: true}}}}",
                # Without it, loss on a reliable transport is a failure.
                expect=f"{{max_loss: 100%, max_duplicates: {COUNT}, max_reordered: {COUNT}}}",
            )
        )

    def attempt(self, path, processes, environment):
        """One run; its stream, as the receiver tells it, with the sender's counters."""
        more = ["--plugin-path", FAKES]
        if environment and not (BUILD / "memory" / "nvidia" / "kernels.fatbin").exists():
            more += ["--plugin-path", FAKES / "cuda"]
        if processes == 1:
            result, _ = self.run_json("run", path, *more, expect=None, environment=environment)
            return self.only_stream(result)
        receiver = self.start("receive", path, "--json", self.folder / "receiver.json", *more)
        sender = self.start("send", path, "--json", self.folder / "sender.json", *more)
        sender.wait()
        receiver.wait()
        stream = self.only_stream(self.result("receiver.json"))
        stream["sender"] = self.only_stream(self.result("sender.json"))["sender"]
        return stream

    def run_frames(self, path, processes=1, others=(), environment=None):
        for _ in range(ATTEMPTS):
            stream = self.attempt(path, processes, environment or {})
            if set(stream["dropped"]) <= {"injected", "incomplete_frame", *others}:
                break
        else:
            self.fail(f"datagrams were lost in each of {ATTEMPTS} runs: {stream['dropped']}")
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], COUNT)
        return stream

    def assert_frames(self, stream, missing, by_marker=False):
        lost = set(ledger(stream, "drop"))
        frames = list(frames_of(lost, by_marker))
        out = [here for here, complete in frames if complete or missing != "drop"]
        complete = sum(complete for _, complete in frames)
        self.assertGreater(len(lost), COUNT // 200)
        self.assertGreater(len(ledger(stream, "reorder")), COUNT // 100)
        self.assertGreater(stream["duplicates"], COUNT // 200)
        self.assertEqual(
            stream["frames"],
            {
                "packets": PACKETS,
                "complete": complete,
                "incomplete": len(out) - complete,
                "dropped": len(frames) - len(out),
                "lost": 0,
            },
        )
        self.assertEqual(stream["dropped"].get("injected"), len(lost))
        self.assertEqual(
            stream["dropped"].get("incomplete_frame", 0),
            sum(len(here) for here, _ in frames) - sum(map(len, out)),
        )
        self.assert_bytes({i for here in out for i in here})

    def assert_bytes(self, expected):
        """These messages, each at its place, and nothing else."""
        source, target = blocks(self.source.read_bytes()), blocks(self.target.read_bytes())
        empty = bytes(MESSAGE)
        wrong = [i for i in range(COUNT) if target[i] != (source[i] if i in expected else empty)]
        self.assertEqual(wrong, [])

    def test_by_sequence(self):
        for transport in TRANSPORTS:
            for memory in MEMORIES:
                for missing in ("zero", "keep", "drop"):
                    with self.subTest(f"{transport}, {memory}, {missing}"):
                        path = self.stream(
                            transport, f"timeout: 1 min, frames: 64, missing: {missing}", memory
                        )
                        self.assert_frames(self.run_frames(path), missing)

    def test_by_marker_with_markers_lost(self):
        for seed, memory in enumerate(MEMORIES, 1):
            for missing in ("zero", "drop"):
                with self.subTest(f"{memory}, {missing}"):
                    path = self.stream(
                        "rtp",
                        f"by: rtp_marker, timeout: 1 min, frames: 64, missing: {missing}",
                        memory,
                        faults=FAULTS | {"drop_ppm": 30000},
                        seed=seed,
                    )
                    stream = self.run_frames(path)
                    lost = ledger(stream, "drop")
                    self.assertIn(PACKETS - 1, {i % PACKETS for i in lost}, "no marker was lost")
                    self.assert_frames(stream, missing, by_marker=True)

    def test_two_processes(self):
        for transport, by in (("loopback", "sequence"), ("sequence", "sequence"), ("rtp", "rtp_marker")):
            with self.subTest(transport):
                path = self.stream(
                    transport, f"by: {by}, timeout: 1 min, frames: 64, missing: drop", MEMORIES[1]
                )
                stream = self.run_frames(path, processes=2)
                self.assert_frames(stream, "drop", by == "rtp_marker")

    def test_on_a_gpu(self):
        """On the fake driver, whose copies are late; the file's bytes come back from there."""
        environment = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "FAKE_CUDA": "delay_us=200"}
        for transport, by, missing in (
            ("loopback", "sequence", "zero"),
            ("sequence", "sequence", "drop"),
            ("rtp", "rtp_marker", "zero"),
        ):
            with self.subTest(f"{transport}, {missing}"):
                path = self.stream(
                    transport, f"by: {by}, timeout: 1 min, frames: 64, missing: {missing}", "cuda"
                )
                stream = self.run_frames(path, environment=environment)
                self.assertEqual(stream["receiver"]["memory"], "cuda")
                self.assert_frames(stream, missing, by == "rtp_marker")

    def test_side_by_side_on_a_gpu(self):
        """Frames of a multiple of 64 bytes lie side by side: their packets are rows of one copy."""
        environment = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "FAKE_CUDA": "delay_us=200"}
        with mock.patch(f"{__name__}.MESSAGE", 1024):
            self.source.write_bytes(os.urandom(COUNT * MESSAGE))
            for copies in ("auto", "strided"):
                memory = f"{{plugin: cuda, options: {{copies: {copies}}}}}"
                with self.subTest(copies):
                    path = self.stream("loopback", "timeout: 1 min, frames: 64, missing: zero", memory)
                    stream = self.run_frames(path, environment=environment)
                    self.assert_frames(stream, "zero")
                with self.subTest(f"{copies}, nothing lost"):
                    path = self.stream("loopback", "timeout: 1 min, frames: 64, missing: drop", memory,
                                       faults={"drop_ppm": 0})  # fmt: skip
                    stream = self.run_frames(path, environment=environment)
                    self.assertEqual(stream["frames"]["complete"], COUNT // PACKETS)
                    self.assertEqual(self.target.read_bytes(), self.source.read_bytes())

    @alone
    def test_late_packets_are_not_lost_ones(self):
        """Delayed beyond the time-out: each is counted, and its place is empty."""
        faults = {"drop_ppm": 5000, "delay_ppm": 5000, "delay_time": "100 ms"}
        for transport in TRANSPORTS:
            with self.subTest(transport):
                path = self.stream(transport, "timeout: 20 ms, missing: zero", faults=faults)

                # A receiver that is away for as long finds what was delayed beside the rest.
                def attempt():
                    stream = self.run_frames(path, others=("late",))
                    source, target = blocks(self.source.read_bytes()), blocks(self.target.read_bytes())
                    absent = {i for i in range(COUNT) if target[i] != source[i]}
                    self.assert_bytes(set(range(COUNT)) - absent)
                    dropped = stream["dropped"]
                    self.assertEqual(len(absent), dropped["injected"] + dropped.get("late", 0))
                    self.assertLessEqual(set(ledger(stream, "drop")), absent)
                    return None if set(ledger(stream, "delay")) & absent else "nothing was late"

                self.in_one_of_three(attempt)


if __name__ == "__main__":
    main()
