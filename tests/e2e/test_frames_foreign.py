#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames of a sender that is no Penstock: RTP from a plain socket, to the byte."""
import os
import socket
import struct

from harness import Case, free_port, main

MESSAGE = 100
FIRST = 20000  # of the sender's numbers, 16 bits wide
LENGTHS = (5, 3, 7, 1, 6, 4, 5)  # of its frames


def packets():
    """(number, frame, last of it?, payload) in the order of sending."""
    number = FIRST
    for frame, length in enumerate(LENGTHS):
        for i in range(length):
            yield number, frame, i == length - 1, os.urandom(MESSAGE)
            number += 1


class ForeignFrames(Case):
    def setUp(self):
        super().setUp()
        self.target = self.folder / "target.bin"
        self.packets = list(packets())
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)

    def receive(self, order, missing):
        """Send the packets of these places, in this order; the stream."""
        port = free_port()
        path = self.write(
            "foreign.yaml",
            "penstock: 1\ncontrol: none\n"
            "transport: {plugin: udp, options: {framing: rtp, device: 127.0.0.1}}\n"
            f"streams: [{{name: camera, message: {MESSAGE} B, receiver: {{silence: 1 s, "
            f"transport: {{options: {{port: {port}}}}}, "
            f"assemble: {{by: rtp_marker, packets: 8, timeout: 1 min, frames: 32, missing: {missing}}}, "
            f"sink: {{type: file, file: {self.target}, overwrite: true}}}}}}]\n",
        )
        child = self.start("receive", path, "--json", self.folder / "out.json")
        child.wait_line("messages of up to")
        with child.stopped():  # else a test that waits for a CPU would be silent, too
            for at in order:
                number, frame, marked, payload = self.packets[at]
                kind = 96 | (0x80 if marked else 0)
                header = struct.pack("!BBHII", 0x80, kind, number & 0xFFFF, frame * 3600, 7)
                self.socket.sendto(header + payload, ("127.0.0.1", port))
        self.assertEqual(child.wait(), 0, str(child))
        return self.only_stream(self.result())

    def assert_bytes(self, expected):
        """The file begins with the first packet that was handed over."""
        first = self.packets[min(expected)][0]
        with open(self.target, "rb") as file:
            for at, (number, _, _, payload) in list(enumerate(self.packets))[min(expected) :]:
                file.seek((number - first) * MESSAGE)
                found = file.read(MESSAGE).ljust(MESSAGE, b"\0")
                self.assertEqual(found, payload if at in expected else bytes(MESSAGE), at)

    def order(self):
        """The receiver joins in the middle of frame 0. Frame 1 is swapped, frame 2 lacks a
        packet, frame 4 its marker, by which the start of frame 5 is not known, either."""
        order = list(range(3, len(self.packets)))
        order[2:5] = [7, 6, 5]  # frame 1, backwards
        order.remove(10)  # of frame 2
        order.remove(21)  # frame 4's last
        order.insert(order.index(23), 24)  # of frame 5, early, and again
        return order

    def test_frames_by_marker(self):
        for missing in ("zero", "drop"):
            with self.subTest(missing):
                order = self.order()
                stream = self.receive(order, missing)
                incomplete = {0, 2, 4, 5}
                here = {
                    at for at in order if missing == "zero" or self.packets[at][1] not in incomplete
                }
                dropped = {"wire": 2}
                if missing == "drop":
                    dropped["incomplete_frame"] = len(set(order)) - len(here)
                self.assertEqual(
                    stream["frames"],
                    {
                        "packets": 8,
                        "complete": 3,
                        "incomplete": 4 if missing == "zero" else 0,
                        "dropped": 4 if missing == "drop" else 0,
                        "lost": 0,
                    },
                )
                self.assertEqual(stream["duplicates"], 1)
                self.assertEqual(stream["dropped"], dropped)
                self.assert_accounted(stream)
                self.assert_bytes(here)


if __name__ == "__main__":
    main()
