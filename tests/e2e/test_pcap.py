#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A capture replayed through a stream into a capture is the same, times included."""
import random
import struct
import time
import unittest

from harness import Case, HAS_PCAP, alone, main, yaml_stream

ETHERNET = 1
RAW_IP = 101


def pcap(packets, nanoseconds, link_type=ETHERNET, snap_length=65535):
    """A classic capture. packets: (seconds, fraction, bytes, original length)."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type)]
    for seconds, fraction, data, original in packets:
        parts.append(struct.pack("<IIII", seconds, fraction, len(data), original) + data)
    return b"".join(parts)


def packets_of(data):
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, packets = 24, []
    while at < len(data):
        seconds, fraction, length, original = struct.unpack_from(order + "IIII", data, at)
        packets.append((seconds, fraction, data[at + 16 : at + 16 + length], original))
        at += 16 + length
    return packets


def traffic(count, nanoseconds, seed):
    """Random sizes, bursts, gaps, cut-off packets, and clocks that step back."""
    rng = random.Random(seed)
    unit = 10**9 if nanoseconds else 10**6
    time = 1_700_000_000 * unit
    for _ in range(count):
        time += rng.choice((0, 1, 17, unit // 3, -5 * unit, 20 * unit))
        length = rng.choice((0, 1, 42, 60, 1462, 1514, rng.randrange(9000)))
        original = length + rng.choice((0, 0, 0, rng.randrange(2000)))
        yield time // unit, time % unit, rng.randbytes(length), original


@unittest.skipUnless(HAS_PCAP, "built without libpcap")
class Replay(Case):
    def replay(self, data, command="run", message="9000 B", **sender):
        source, sink = self.folder / "in.pcap", self.folder / "out.pcap"
        source.write_bytes(data)
        sink.unlink(missing_ok=True)
        more = "".join(f", {key}: {value}" for key, value in sender.items())
        path = self.config(
            yaml_stream(
                "capture",
                message=message,
                ring=64,
                sender=f"{{source: {{type: pcap, file: {source}{more}}}}}",
                receiver=f"{{sink: {{type: pcap, file: {sink}}}}}",
            )
        )
        if command == "run":
            self.run_program("run", path)
        else:
            receiver, sender_side = self.start("receive", path), self.start("send", path)
            self.assertEqual(
                (sender_side.wait(), receiver.wait()), (0, 0), f"{sender_side}\n{receiver}"
            )
        return sink.read_bytes()

    def test_microseconds(self):
        packets = list(traffic(3000, False, 1))
        data = pcap(packets, False)
        copy = self.replay(data)
        self.assertEqual(packets_of(copy), packets)
        self.assertEqual(copy, data)

    def test_nanoseconds(self):
        packets = list(traffic(3000, True, 2))
        data = pcap(packets, True)
        copy = self.replay(data)
        self.assertEqual(packets_of(copy), packets)
        self.assertEqual(copy, data)

    def test_through_two_processes(self):
        data = pcap(traffic(3000, True, 3), True)
        self.assertEqual(self.replay(data, command="two"), data)

    def test_link_type_and_snap_length(self):
        data = pcap(traffic(10, True, 4), True, link_type=RAW_IP, snap_length=9000)
        self.assertEqual(self.replay(data), data)

    def test_no_packets(self):
        data = pcap([], False)
        self.assertEqual(self.replay(data), data)

    def test_example_with_set(self):
        source, sink = self.folder / "in.pcap", self.folder / "out.pcap"
        data = pcap([p for p in traffic(500, False, 5) if len(p[2]) <= 1514], False)
        source.write_bytes(data)
        name = "capture"
        self.run_program(
            *("run", "config/loopback-pcap.yaml"),
            *("--set", f"streams.{name}.sender.source.file={source}"),
            *("--set", f"streams.{name}.receiver.sink.file={sink}"),
            *("--set", f"streams.{name}.message=9000"),
        )
        self.assertEqual(sink.read_bytes(), data)

    @alone
    def test_timed_keeps_the_intervals(self):
        packets = [(1_700_000_000, i * 100_000_000, b"x" * 60, 60) for i in range(10)]
        data = pcap(packets, True)
        source, sink = self.folder / "in.pcap", self.folder / "out.pcap"
        source.write_bytes(data)
        path = self.config(
            yaml_stream(
                "capture",
                message="1514 B",
                sender=f"{{source: {{type: pcap, file: {source}, timed: true}}}}",
                receiver=f"{{sink: {{type: pcap, file: {sink}}}}}",
            )
        )

        def attempt():
            sink.unlink(missing_ok=True)
            began = time.monotonic()
            result, _ = self.run_json("run", path)
            self.assertGreaterEqual(time.monotonic() - began, 0.9)
            self.assertEqual(sink.read_bytes(), data)
            seconds = self.only_stream(result)["seconds"]
            return None if abs(seconds - 0.9) < 0.3 else f"0.9 s took {seconds} s"

        self.in_one_of_three(attempt)

    def failing(self, data, message="1514 B"):
        source, sink = self.folder / "in.pcap", self.folder / "out.pcap"
        source.write_bytes(data)
        path = self.config(
            yaml_stream(
                "capture",
                message=message,
                sender=f"{{source: {{type: pcap, file: {source}}}}}",
                receiver=f"{{sink: {{type: pcap, file: {sink}}}}}",
            )
        )
        self.run_program("check", path, "--for", "run", expect=2)
        child = self.run_program("run", path, expect=2)
        self.assertFalse(sink.exists())
        return child.stderr

    def test_a_transport_that_does_not_carry_the_times_is_refused(self):
        (self.folder / "in.pcap").write_bytes(pcap([(1, 0, b"x" * 60, 60)], False))
        for framing in ("rtp", "sequence"):
            path = self.config(
                yaml_stream(
                    message="9000 B",
                    transport=f"{{plugin: udp, options: {{device: 127.0.0.1, framing: {framing}}}}}",
                    sender=f"{{source: {{type: pcap, file: {self.folder}/in.pcap}}}}",
                    receiver=f"{{sink: {{type: pcap, file: {self.folder}/out.pcap}}}}",
                )
            )
            child = self.run_program("run", path, expect=2)
            self.assertRegex(child.stderr, ":[0-9]+:[0-9]+: sink: pcap needs the times of capture")
            self.run_program("check", path, expect=2)
            self.assertFalse((self.folder / "out.pcap").exists())

    def test_too_long_a_packet_is_named(self):
        packets = [(1, 0, b"x" * 60, 60), (1, 1, b"y" * 2000, 2000)]
        text = self.failing(pcap(packets, True))
        self.assertIn("2000", text)
        self.assertIn("message", text)

    def test_not_a_capture(self):
        self.assertIn("in.pcap", self.failing(b"hello, this is not a capture at all"))

    def test_cut_off_capture(self):
        data = pcap([(1, 0, b"x" * 60, 60), (1, 1, b"y" * 60, 60)], True)
        self.assertIn("in.pcap", self.failing(data[:-10]))


@unittest.skipIf(HAS_PCAP, "built with libpcap")
class WithoutPcap(Case):
    def test_is_not_available_here(self):
        path = self.config(
            yaml_stream(
                message="9000 B",
                sender="{source: {type: pcap, file: in.pcap}}",
                receiver="{sink: {type: discard}}",
            )
        )
        child = self.run_program("run", path, expect=3)
        self.assertIn("pcap", child.stderr)


if __name__ == "__main__":
    main()
