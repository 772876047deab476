#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each stage is throttled in turn, and the verdict names it."""
import os
import re
import signal
import threading
import time
import unittest

from harness import SANITIZED, Case, FAKES, main, yaml_stream

FAKE_PATH = ("--plugin-path", FAKES / "memory_late", "--plugin-path", FAKES / "filter_throttle")


class Verdict(Case):
    def assert_verdict(self, child, stage, least=50):
        match = None
        for line in child.lines["stderr"]:
            match = re.search(r"limited by: (\w+)(?: \((\d+)%\))?", line) or match
        self.assertIsNotNone(match, f"no verdict\n{child}")
        self.assertEqual(match[1], stage, str(child))
        self.assertGreaterEqual(int(match[2]), least, str(child))

    def run_throttled(self, *arguments, **parts):
        path = self.config(yaml_stream(**{"message": "1462 B", "ring": 256, **parts}))
        result, child = self.run_json("run", path, "--duration", "2", *FAKE_PATH, *arguments)
        self.assert_accounted(self.only_stream(result))
        return child

    def test_source(self):
        self.assert_verdict(self.run_throttled(sender="{rate: 50 Mbps}"), "source")

    def test_transport(self):
        child = self.run_throttled(
            transport="{plugin: loopback, filters: [{plugin: throttle, options: {rate: 20000}}]}"
        )
        self.assert_verdict(child, "transport")

    def test_staging(self):
        child = self.run_throttled(
            receiver="{memory: {plugin: late, options: {rate: 20 MB, delay: 1 ms}}, "
            "sink: {type: discard}}"
        )
        self.assert_verdict(child, "staging")

    @unittest.skipIf(SANITIZED, "the processor is the limit of a sanitized program")
    def test_credit(self):
        # Two slots between two threads: each credit is waited for on its way back.
        child = self.run_throttled(
            "--set", "workers.count=2",
            ring=2, sender="{ring: 64}", receiver="{sink: {type: discard}}",
        )
        # Much of the time goes into the way there and back, which is nobody's wait.
        self.assert_verdict(child, "credit", least=10)

    def test_sink(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        reader = threading.Thread(target=read_slowly, args=(fifo, 20e6))
        reader.start()
        path = self.config(
            yaml_stream(
                message="64 KiB",
                ring=16,
                receiver=f"{{sink: {{type: file, file: {fifo}}}}}",
            )
        )
        result, child = self.run_json("run", path, "--duration", "2")
        reader.join()
        self.assert_verdict(child, "sink")
        self.assert_accounted(self.only_stream(result))

    def test_sink_across_two_processes(self):
        """Both ends say the same: each learns the other's blocked times at the end."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        reader = threading.Thread(target=read_slowly, args=(fifo, 20e6))
        reader.start()
        path = self.config(
            yaml_stream(
                message="64 KiB",
                ring=16,
                receiver=f"{{sink: {{type: file, file: {fifo}}}}}",
            )
        )
        receiver = self.start("receive", path)
        sender = self.start("send", path, "--duration", "2")
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        reader.join()
        self.assert_verdict(receiver, "sink")
        self.assert_verdict(sender, "sink")

    def test_empty_is_the_receivers_own_view(self):
        """The sender died before it told of itself: the receiver knows that nothing came."""
        path = self.config(
            yaml_stream(message="1462 B", ring=256, timeout="1 h", sender="{rate: 5 Mbps}")
        )
        receiver = self.start("receive", path, "--set", "control.heartbeat=30 min")
        sender = self.start("send", path, "--set", "control.heartbeat=30 min")
        receiver.wait_line(r"Got \d{2,}")
        sender.signal(signal.SIGKILL)
        self.assertEqual(receiver.wait(10), 1, str(receiver))
        self.assert_verdict(receiver, "empty")


def read_slowly(path, bytes_per_second):
    with open(path, "rb", buffering=0) as file:
        began, total = time.monotonic(), 0
        while part := file.read(65536):
            total += len(part)
            ahead = total / bytes_per_second - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)  # the throttle itself


if __name__ == "__main__":
    main()
