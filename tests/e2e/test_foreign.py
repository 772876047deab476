#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`control: none`: peers that know nothing of Penstock, here plain sockets.

Where silence ends a stream, what it has is sent while its receiver stands still: else a
test that waits for a CPU would be silent too."""
import contextlib
import os
import re
import signal
import socket
import struct
import time

import netns
from harness import Case, free_port, main, wait_until, yaml_stream

TIME_STEP = 3600  # ticks of an RTP timestamp from packet to packet


def free_udp_port():
    return free_port()


def rtp(sequence, payload, ssrc=0x1234, payload_type=96, marker=False):
    second = payload_type | (0x80 if marker else 0)
    stamp = (sequence * TIME_STEP) & 0xFFFFFFFF
    return struct.pack("!BBHII", 0x80, second, sequence & 0xFFFF, stamp, ssrc) + payload


def plain(sequence, payload):
    """Rivermax's sample header: sequence and the sum of the payload's bytes."""
    return struct.pack("!II", sequence & 0xFFFFFFFF, sum(payload)) + payload


class Foreign(Case):
    host = "127.0.0.1"

    def setUp(self):
        super().setUp()
        self.udp_port = free_udp_port()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)

    def foreign_config(self, framing, receiver="", expect="", **options):
        options = {"framing": framing, "device": f'"{self.host}"', **options}
        words = ", ".join(f"{key}: {value}" for key, value in options.items())
        port = f"transport: {{options: {{port: {self.udp_port}}}}}"
        parts = {"receiver": f"{{{port}, sink: discard{receiver}}}"}
        if expect:
            parts["expect"] = expect
        return self.write(
            "foreign.yaml",
            "penstock: 1\ncontrol: none\n"
            f"transport: {{plugin: udp, options: {{{words}}}}}\n"
            "streams:\n  " + yaml_stream(message="1500 B", ring=1024, **parts).replace("\n", "\n  "),
        )

    def receive(self, path, *arguments):
        """A receiver that is ready: what is sent from now on arrives."""
        child = self.start("receive", path, "--json", self.folder / "received.json", *arguments)
        child.wait_line("messages of up to")
        return child

    def send(self, *packets):
        for packet in packets:
            self.socket.sendto(packet, (self.host, self.udp_port))

    def send_at_once(self, child, *packets):
        """No more than any socket holds."""
        with child.stopped():
            self.send(*packets)

    def send_in_flights(self, child, packets, size=200):
        """Each when the one before has been read, so that no buffer runs over."""
        for at in range(0, len(packets), size):
            self.send(*packets[at : at + size])
            with contextlib.suppress(netns.Ended):  # it has all that it counts
                while child.poll() is None and (netns.udp_socket(child.pid, self.udp_port) or (0,))[0]:
                    os.sched_yield()

    def wait_got(self, child, count, line=""):
        """Waits until the counts of its lines, one a second, add up to `count`; the lines are like `line`."""

        def told():
            got = [re.search(r"Got (\d+) packets " + line, text) for text in list(child.lines["stderr"])]
            self.assertIsNone(child.poll(), str(child))
            return sum(int(match[1]) for match in got if match) == count

        wait_until(told, 60, f"{count} messages")

    def ended(self, child, expect=0):
        self.assertEqual(child.wait(), expect, str(child))
        return self.only_stream(self.result("received.json"))

    def run_packets(self, framing, packets, receiver=", silence: 500 ms", expect=0, **options):
        child = self.receive(self.foreign_config(framing, receiver, **options))
        self.send_at_once(child, *packets)
        return self.ended(child, expect), child


class Ends(Foreign):
    def test_silence(self):
        began = time.monotonic()
        stream, _ = self.run_packets("rtp", [rtp(n, b"x" * 100) for n in range(500)])
        took = time.monotonic() - began
        self.assertEqual(stream["messages_delivered"], 500)
        self.assertEqual(stream["messages_sent"], 500)
        self.assertEqual(stream["sent_basis"], "sequence")
        self.assertEqual(stream["loss"], 0)
        self.assertEqual(stream["bytes_delivered"], 50000)
        self.assertIsNone(stream["stopped"])  # whether that was all, nobody knows
        # The silence is no part of the stream.
        self.assertLess(stream["seconds"] + 0.5, took)

    def test_count(self):
        child = self.receive(self.foreign_config("rtp", ", silence: 0"), "--count", "100")
        self.send(*(rtp(n, b"x") for n in range(150)))
        stream = self.ended(child)
        self.assertEqual(stream["messages_delivered"], 100)
        self.assertEqual(stream["messages_sent"], 100)
        self.assertEqual(stream["stopped"], "count")

    def test_count_in_the_file(self):
        child = self.receive(self.foreign_config("none", ", silence: 0, count: 7"))
        self.send(*(b"x" for _ in range(7)))
        self.assertEqual(self.ended(child)["messages_delivered"], 7)

    def test_duration_and_nobody(self):
        child = self.receive(self.foreign_config("rtp"), "--duration", "300ms")
        stream = self.ended(child, 1)
        self.assertRegex(child.stderr, "nothing arrived; check `device`")
        self.assertEqual(stream["messages_delivered"], 0)
        self.assertIsNone(stream["messages_sent"])
        self.assertIsNone(stream["loss"])
        self.assertEqual(stream["sent_basis"], "unknown")

    def test_nothing_arrived_is_all_there_is_to_say(self):
        path = self.foreign_config("rtp", expect="{carrier: shm}")
        child = self.receive(path, "--duration", "300ms")
        (error,) = self.ended(child, 1)["errors"]
        self.assertEqual(error["code"], "nothing_arrived")

    def test_nothing_but_strangers(self):
        child = self.receive(self.foreign_config("rtp", payload_type=33), "--duration", "1s")
        self.send(*(rtp(n, b"x") for n in range(150)))
        stream = self.ended(child, 1)
        self.assertRegex(child.stderr, r"no message arrived; \d+ that came are not this stream's .*`payload_type`")
        self.assertNotIn("nothing arrived", child.stderr)
        self.assertEqual(stream["messages_delivered"], 0)

    def test_interrupt(self):
        child = self.receive(self.foreign_config("rtp", ", silence: 0"))
        self.send(*(rtp(n, b"x") for n in range(10)))
        child.wait_line(r"Got [1-9]")
        child.signal(signal.SIGINT)
        stream = self.ended(child)
        self.assertGreater(stream["messages_delivered"], 0)
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
        self.assertEqual(stream["receiver"]["state"], "ended")

    def test_a_sleeping_thread_ends_too(self):
        path = self.foreign_config("rtp", ", silence: 500 ms")
        child = self.receive(path, "--set", "threads.sleep_after=1 ms")
        self.send_at_once(child, *(rtp(n, b"x") for n in range(10)))
        self.assertEqual(self.ended(child)["messages_delivered"], 10)


class Accounts(Foreign):
    def test_gaps_are_loss(self):
        lost = {7, 8, 9, 200}
        packets = [rtp(n, b"x" * 8) for n in range(300) if n not in lost]
        stream, child = self.run_packets("rtp", packets)
        self.assertEqual(stream["messages_sent"], 300)
        self.assertEqual(stream["messages_delivered"], 296)
        self.assertEqual(stream["dropped"], {"wire": 4})
        self.assertAlmostEqual(stream["loss"], 4 / 300)
        self.assertRegex(child.stderr, r"LOSS 1\.3%")

    def test_the_number_space_wraps(self):
        packets = [rtp(n, b"x") for n in range(65000, 65000 + 140000) if n % 1000]
        child = self.receive(self.foreign_config("rtp", ", silence: 1 min, count: 139860"))
        self.send_in_flights(child, packets)
        stream = self.ended(child)
        # From 65001, the first sent: 65000 is not in the span.
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], 139999)
        self.assertEqual(stream["dropped"], {"wire": 139})

    def test_late_and_twice(self):
        order = [5, 6, 4, 7, 9, 8, 8, 10]  # 4 was sent before the first that came
        stream, _ = self.run_packets("rtp", [rtp(n, b"x") for n in order])
        self.assertEqual(stream["messages_sent"], 7)
        self.assertEqual(stream["messages_delivered"], 7)
        self.assertEqual(stream["duplicates"], 1)
        self.assertEqual(stream["reordered"], 2)

    def test_checksums(self):
        good, bad = plain(2**32 - 2, b"abc"), bytearray(plain(2**32 - 1, b"abc"))
        bad[-1] ^= 1
        stream, _ = self.run_packets("sequence", [good, bytes(bad), plain(2**32, b"abc")])
        self.assertEqual(stream["messages_sent"], 3)
        self.assertEqual(stream["dropped"], {"bad_checksum": 1})

    def test_without_numbers_loss_is_unknown(self):
        child = self.receive(self.foreign_config("none", ", silence: 0"))
        self.send(*(b"hello" for _ in range(10)))
        self.wait_got(child, 10, r".*\| loss \? \|")
        child.signal(signal.SIGINT)
        stream = self.ended(child)
        self.assertEqual(stream["messages_delivered"], 10)
        self.assertIsNone(stream["messages_sent"])
        self.assertIsNone(stream["loss"])
        self.assertEqual(stream["sent_basis"], "unknown")
        self.assertRegex(child.lines["stderr"][-2], r"loss \?$")
        self.assertNotRegex(child.stderr, "LOSS")

    def test_expected_loss(self):
        packets = [rtp(n, b"x") for n in range(100) if n != 50]
        for most, status in (("0.5%", 4), ("1.5%", 0)):
            path = self.foreign_config("rtp", ", silence: 500 ms", f"{{max_loss: {most}}}")
            child = self.receive(path)
            self.send_at_once(child, *packets)
            self.ended(child, status)

    def test_unknown_loss_meets_no_bound(self):
        child = self.receive(self.foreign_config("none", ", silence: 500 ms", "{max_loss: 1}"))
        self.send(b"x")
        self.ended(child, 4)

    def test_a_restarted_sender(self):
        first = [rtp(n, b"x", ssrc=1) for n in range(1000, 1100)]
        second = [rtp(n, b"x", ssrc=2) for n in range(60000, 60100)]
        child = self.receive(self.foreign_config("rtp", ", silence: 0"))
        self.send(*first)
        self.wait_got(child, 100)  # a line of a second: by then the first is silent
        self.send(*second)
        self.wait_got(child, 200)
        child.wait_line(r"Got \d+ packets .*\| 1 restart$")
        child.signal(signal.SIGINT)
        stream = self.ended(child)
        self.assertEqual(stream["messages_delivered"], 200)
        self.assertEqual(stream["messages_sent"], 200)
        self.assertEqual(stream["restarts"], 1)

    def test_a_restart_without_a_pause(self):
        first = [rtp(n, b"x", ssrc=1) for n in range(1000, 1100)]
        second = [rtp(n, b"x", ssrc=2) for n in range(60000, 60030)]
        child = self.receive(self.foreign_config("rtp", ", silence: 500 ms", "{max_loss: 0}"))
        self.send_at_once(child, *first, *second)
        stream = self.ended(child, 4)
        self.assertEqual(stream["messages_delivered"], 100)
        self.assertEqual(stream["messages_sent"], 130)
        self.assertEqual(stream["dropped"], {"displaced": 30})
        self.assertRegex(child.stderr, "warning: .* another port or SSRC, while it goes on: 30 so far")

    def test_strangers_are_not_ours(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            child = self.receive(self.foreign_config("rtp", ", silence: 0, count: 20", device='""'))
            for n in range(20):
                self.send(rtp(n, b"x"))
                stranger.sendto(rtp(n * 7, b"y", ssrc=9), (self.host, self.udp_port))
            stream = self.ended(child)
        self.assertEqual(stream["messages_sent"], 20)
        self.assertEqual(stream["dropped"], {})

    def test_what_the_kernel_drops_behind_the_last_is_loss(self):
        options = f"{{options: {{port: {self.udp_port}, rcvbuf: 64 KiB}}}}"
        path = self.foreign_config("rtp", ", silence: 500 ms", "{max_loss: 0}")
        child = self.receive(path, "--set", f"streams.packets.receiver.transport={options}")
        self.send_at_once(child, *(rtp(n, b"x" * 1000) for n in range(3000)))
        stream = self.ended(child, 4)
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], 3000)
        self.assertEqual(list(stream["dropped"]), ["kernel"])

    def test_duplicates_alone_are_counted(self):
        packets = [rtp(n, b"x") for n in range(200)]
        child = self.receive(self.foreign_config("rtp", ", silence: 500 ms"))
        self.send_at_once(child, *packets)
        while (netns.udp_socket(child.pid, self.udp_port) or (0,))[0]:
            os.sched_yield()
        self.send_at_once(child, *packets)
        stream = self.ended(child)
        self.assertEqual([stream[key] for key in ("messages_delivered", "duplicates")], [200, 200])

    def test_a_refusal_is_no_silence(self):
        """A packet that is too long keeps a stream alive for longer than its silence. The test itself is silent while
        it waits for a CPU."""

        def attempt():
            sent = []

            def send(packet):
                self.send(packet)
                sent.append(time.monotonic())

            def told():
                send(rtp(1, b"x" * 2000))
                return child.poll() is not None or any("none of them is a message" in line for line in child.lines["stderr"])

            def is_read():
                """A socket that is full takes no message: what lies there is read first."""
                told()
                os.sched_yield()
                with contextlib.suppress(netns.Ended):
                    return not (netns.udp_socket(child.pid, self.udp_port) or (0,))[0]
                return True

            child = self.receive(self.foreign_config("rtp", ", silence: 500 ms"))
            send(rtp(0, b"x"))
            wait_until(told, 60, "a line that says so")
            began = time.monotonic()
            while time.monotonic() < began + 1 or not is_read():
                told()
            send(rtp(2, b"x"))
            stream = self.ended(child)
            gap = max(after - before for before, after in zip(sent, sent[1:]))
            if gap > 0.25:
                return f"the test sent nothing for {gap:.2f} s"
            self.assertEqual(stream["messages_delivered"], 2)
            self.assertEqual(stream["messages_sent"], 3)
            return None

        self.in_one_of_three(attempt)

    def test_all_too_long(self):
        child = self.receive(self.foreign_config("rtp", ", silence: 0"))
        self.send_at_once(child, *(rtp(n, b"x" * 2000) for n in range(30)))
        child.wait_line("none of them is a message of this stream: of 30 so far 30 are longer")
        child.signal(signal.SIGINT)
        child.wait()
        stream = self.only_stream(self.result("received.json"))
        self.assertEqual(stream["dropped"], {"too_long": 30})

    def test_all_too_long_ends_by_silence(self):
        for framing in ("rtp", "none"):
            with self.subTest(framing=framing):
                child = self.receive(self.foreign_config(framing, ", silence: 500 ms"))
                self.send_at_once(child, *(rtp(n, b"x" * 2000) for n in range(30)))
                stream = self.ended(child, 1)
                self.assertEqual(stream["dropped"], {"too_long": 30})
                self.assertRegex(child.stderr, "of 30 so far 30 are longer")
                self.assertRegex(child.stderr, "error: .*no message arrived; of what came 30 were dropped as too_long")

    def test_strays_alone_do_not_end_a_receiver_that_waits(self):
        child = self.receive(self.foreign_config("rtp", ", silence: 100 ms"))
        self.send_at_once(child, b"stray", rtp(1, b"x" * 2000))
        began = time.monotonic()
        while time.monotonic() < began + 1:  # ten times as long as the silence
            self.assertIsNone(child.poll(), str(child))
            os.sched_yield()
        self.send_at_once(child, *(rtp(n, b"x") for n in range(20)))
        self.assertEqual(self.ended(child)["messages_delivered"], 20)

    def test_another_payload_type_is_no_loss(self):
        packets = [rtp(n, b"x", payload_type=122 if n % 3 == 2 else 96) for n in range(300)]
        stream, _ = self.run_packets("rtp", packets, payload_type=96)
        self.assertEqual(stream["dropped"], {})
        self.assertEqual([stream[key] for key in ("messages_sent", "messages_delivered")], [200, 200])

    def record(self, order, expect):
        """A file of messages of 1500 B, all but the last, sent in this order."""
        out = self.folder / "recording"
        path = self.foreign_config("rtp", ", silence: 500 ms", "{max_loss: 0}")
        sink = f"{{type: file, file: {out}}}"
        child = self.receive(path, "--set", f"streams.packets.receiver.sink={sink}")
        self.send_at_once(child, *(rtp(n, bytes([n]) * (1500 if n < 19 else 700)) for n in order))
        self.assertEqual(child.wait(), expect, str(child))
        return out, child

    def test_a_recording_that_lacks_a_message_is_a_part(self):
        out, child = self.record([1, 0, *range(2, 20)], 1)
        self.assertRegex(child.stderr, "lacks 1 message that came too late .*assemble: {by: sequence")
        self.assertFalse(out.exists())
        self.assertFalse(self.result("received.json")["ok"])
        part = out.with_name(".recording.penstock-part")
        self.assertEqual(part.read_bytes(), b"".join(bytes([n]) * 1500 for n in range(1, 19)) + b"\x13" * 700)

    def test_a_recording_in_another_order_is_whole(self):
        out, _ = self.record([0, 2, 1, *range(3, 18), 19, 18], 0)
        self.assertEqual(out.read_bytes(), b"".join(bytes([n]) * 1500 for n in range(19)) + b"\x13" * 700)

    def test_what_is_counted_adds_up(self):
        packets = [rtp(n, b"x" * 20) for n in range(100)]
        junk = [b"\x80\x60", b"\x00" * 30, rtp(500, b"y" * 2000)]
        stream, _ = self.run_packets("rtp", packets[:50] + junk + packets[50:])
        counters = stream["receiver"]["counters"]
        classified = ("bad_header", "bad_checksum", "too_long", "not_ours",
                      "wrong_nonce", "displaced", "too_late", "too_far", "held")
        self.assertEqual(
            counters["datagrams"],
            counters["messages_received"] + sum(counters[name] for name in classified),
        )
        self.assertEqual(counters["datagrams"], 103)
        self.assertEqual([counters[n] for n in ("bad_header", "not_ours", "too_long")], [1, 1, 1])
        self.assertEqual(stream["messages_delivered"], 100)
        self.assertEqual(stream["dropped"], {})


class OverIPv6(Foreign):
    host = "::1"

    def setUp(self):
        try:
            super().setUp()
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")

    def test_received(self):
        stream, _ = self.run_packets("rtp", [rtp(n, b"x") for n in range(100) if n != 9])
        self.assertEqual(stream["messages_sent"], 100)
        self.assertEqual(stream["dropped"], {"wire": 1})


class Sends(Foreign):
    """A plain socket receives what Penstock sends."""

    def sender_config(self, framing, sender):
        return self.write(
            "send.yaml",
            "penstock: 1\ncontrol: none\n"
            f"transport: {{plugin: udp, options: {{framing: {framing}}}}}\n"
            "streams:\n  - name: packets\n    message: 1316 B\n"
            f"    sender: {{transport: {{options: {{{sender[0]}}}}}, {sender[1]}}}\n",
        )

    def test_a_file(self):
        data = bytes(range(256)) * 200
        source = self.folder / "data"
        source.write_bytes(data)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.bind((self.host, self.udp_port))
        self.socket.settimeout(20)
        path = self.sender_config(
            "rtp",
            (
                f'to: "{self.host}:{self.udp_port}", payload_type: 33',
                f"source: {{type: file, file: {source}}}",
            ),
        )
        result, child = self.run_json("send", path)
        stream = self.only_stream(result)
        packets = [self.socket.recv(2048) for _ in range(stream["messages_sent"])]
        self.assertEqual(b"".join(packet[12:] for packet in packets), data)
        numbers = [struct.unpack("!H", packet[2:4])[0] for packet in packets]
        self.assertEqual(
            numbers, [(numbers[0] + n) & 0xFFFF for n in range(len(packets))], "sequence numbers"
        )
        self.assertEqual({packet[1] & 0x7F for packet in packets}, {33})
        self.assertEqual(stream["sent_basis"], "counted")
        self.assertIsNone(stream["messages_delivered"])
        self.assertIsNone(stream["loss"])
        self.assertRegex(child.stderr, r"loss \?")

    def test_nobody_there(self):
        path = self.sender_config("rtp", (f'to: "{self.host}:{self.udp_port}"', "count: 100"))
        result, child = self.run_json("send", path)
        self.assertEqual(self.only_stream(result)["messages_sent"], 100)

    def test_what_a_lone_sender_knows_is_judged(self):
        path = self.sender_config("rtp", (f'to: "{self.host}:{self.udp_port}"', "count: 100, rate: 10 Mbps"))
        for expect, status, met in (("{min_gbps: 90}", 4, False), ("{min_messages: 2}", 0, None)):
            result, _ = self.run_json("send", path, "--set", f"streams.packets.expect={expect}", expect=status)
            self.assertEqual([each["met"] for each in self.only_stream(result)["expect"]], [met])

    def test_to_is_missing(self):
        path = self.sender_config("rtp", ("ttl: 3", "count: 100"))
        child = self.run_program("send", path, expect=2)
        self.assertRegex(child.stderr, r"udp: to: .*needs a destination; write `to: ")

    def test_two_penstocks(self):
        receiver = self.receive(self.foreign_config("sequence", ", silence: 1 min, count: 5000"))
        path = self.sender_config(
            "sequence",
            (f'to: "{self.host}:{self.udp_port}"', "count: 5000, rate: 200 Mbps"),
        )
        self.run_program("send", path)
        stream = self.ended(receiver)
        self.assertEqual(stream["messages_delivered"], 5000)
        self.assertEqual(stream["messages_sent"], 5000)


class Times(Foreign):
    def test_chunks_and_what_lies_between_arrivals(self):
        options = ", silence: 1 min, count: 50, intervals: true"
        child = self.receive(self.foreign_config("rtp", options, gro="false"))
        path = self.write(
            "chunks.yaml",
            "penstock: 1\ncontrol: none\ntransport: {plugin: udp, options: {framing: rtp}}\n"
            "streams:\n  - name: packets\n    message: 500 B\n"
            "    sender: {count: 50, chunk: 5, sleep: 20 ms, "
            f'transport: {{options: {{to: "{self.host}:{self.udp_port}"}}}}}}\n',
        )
        began = time.monotonic()
        result, _ = self.run_json("send", path)
        took = time.monotonic() - began
        self.assertGreaterEqual(self.only_stream(result)["seconds"], 0.18)  # nine sleeps
        self.assertEqual(child.wait(), 0, str(child))
        # Nine of the 49 intervals have a sleep in them.
        stream = self.only_stream(self.result("received.json"))
        times = stream["intervals_ns"]
        self.assertEqual(times["count"], 49)
        self.assertGreaterEqual(times["p90"], 19_000_000)
        order = [times[key] for key in ("min", "p50", "p90", "p99", "p99_9", "max")]
        self.assertEqual(order, sorted(order))
        self.assertLess(times["max"] / 1e9, took)
        self.assertRegex(child.stderr, r"between arrivals: p50 \d+\.\d+ ms")

    def test_not_asked_for(self):
        stream, _ = self.run_packets("rtp", [rtp(n, b"x") for n in range(3)])
        self.assertIsNone(stream["intervals_ns"])

    def test_a_transport_without_times(self):
        path = self.config(yaml_stream(sender="{count: 1}", receiver="{intervals: true}"))
        child = self.run_program("run", path, expect=2)
        self.assertRegex(child.stderr, "intervals need the time of each message, which transport loopback does not")


class Refusals(Foreign):
    def test_another_transport(self):
        path = self.foreign_config("rtp")
        child = self.run_program("receive", path, "--set", "transport=loopback",
                                 "--set", "streams.packets.receiver.transport=", expect=2)
        self.assertRegex(child.stderr, r"peers without Penstock, which transport loopback does not.*udp")

    def test_an_address_that_is_none(self):
        child = self.run_program("receive", self.foreign_config("rtp"), "--set",
                                 "streams.packets.receiver.transport.options.source=camera7", expect=2)  # fmt: skip
        self.assertIn('source: "camera7" is not an address', child.stderr)

    def test_options_of_rtp_alone(self):
        for option in ("ssrc=5", "payload_type=33"):
            child = self.run_program("check", self.foreign_config("none"), "--set",
                                     f"streams.packets.receiver.transport.options.{option}", expect=2)  # fmt: skip
            self.assertRegex(child.stderr, f"`{option.replace('=', ': ')}` needs `framing: rtp`, but here `framing: none` is set")

    def test_both_ends_at_once(self):
        child = self.run_program("run", self.foreign_config("rtp"), expect=2)
        self.assertRegex(child.stderr, r"is for one end, whose peer")

    def test_verify_has_no_pattern(self):
        path = self.foreign_config("rtp")
        child = self.run_program(
            "receive", path, "--set", "streams.packets.receiver.sink=verify", expect=2
        )
        self.assertRegex(child.stderr, r"sink: verify needs the parameters of the sender's pattern")

    def test_pcap_has_no_times(self):
        child = self.run_program("check", self.foreign_config("rtp"), "--set",
                                 "streams.packets.receiver.sink={type: pcap, file: out.pcap}", expect=2)  # fmt: skip
        self.assertRegex(child.stderr, r"sink: pcap needs the times of capture")

    def test_its_keys_are_for_it(self):
        path = self.config(yaml_stream(receiver="{silence: 1 s}"))
        child = self.run_program("check", path, expect=2)
        self.assertRegex(child.stderr, r'"silence" is for "control: none"')

    def test_count_needs_it(self):
        path = self.config(yaml_stream())
        child = self.run_program("receive", path, "--count", "3", expect=2)
        self.assertRegex(child.stderr, r"--count: .*`control: none`")


class Camera(Case):
    def test_the_example(self):
        port = free_udp_port()
        child = self.start(
            "receive", "config/udp-camera.yaml", "--json", self.folder / "out.json",
            "--set", f"streams.camera.receiver.transport.options.port={port}",
            "--set", "streams.camera.receiver.silence=200 ms",
        )
        child.wait_line("messages of up to")
        with child.stopped(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as camera:
            for n in range(100):
                camera.sendto(rtp(n, b"x" * 1400), ("127.0.0.1", port))
        self.assertEqual(child.wait(), 0, str(child))
        stream = self.only_stream(self.result())
        self.assertEqual(stream["messages_delivered"], 100)
        self.assertIsNotNone(stream["jitter_ns"])


if __name__ == "__main__":
    main(side_by_side=3)
