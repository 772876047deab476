#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each stage is throttled in turn, and the verdict names it."""
import os
import re
import signal
import subprocess
import sys
import threading
import time

from harness import Case, FAKES, alone, main, yaml_stream

FAKE_PATH = ("--plugin-path", FAKES)
SECONDS = 0.4  # of a run

# An end that sleeps until its peer has work lacks no CPU, however many threads want one.
SLEEPS = "threads: {sleep_after: 1 ms}\n"


@alone
class Verdict(Case):
    """A thread that waits for a CPU for as long as a run lasts is what that run is limited by: the
    throttle is named in one of three."""

    def verdict(self, child, stage):
        """None, or what it says instead."""
        match = None
        for line in child.lines["stderr"]:
            match = re.search(r"limited by: (\w+(?: at the \w+)?)(?: \((?:receiver idle )?(\d+)%)?", line) or match
        self.assertIsNotNone(match, f"no verdict\n{child}")
        return None if match[1] == stage and int(match[2] or 0) >= 50 else str(child)

    def throttled(self, stage, *arguments, **parts):
        path = self.config(yaml_stream(**{"message": "1462 B", "ring": 256, **parts}))

        def attempt():
            result, child = self.run_json("run", path, "--duration", f"{SECONDS} s", *FAKE_PATH, *arguments)
            self.assert_accounted(self.only_stream(result))
            return self.verdict(child, stage)

        self.in_one_of_three(attempt)

    def test_rate(self):
        """One thread drives both ends: it is slower than a message's time on the line, and is never
        blocked altogether."""
        self.throttled("rate", sender="{rate: 50 Mbps}")
        self.throttled("rate", sender="{rate: 2 Gbps}")

    def test_source(self):
        fifo = self.folder / "source"
        os.mkfifo(fifo)
        path = self.config(
            yaml_stream(
                message="1462 B",
                ring=256,
                sender=f"{{source: {{type: file, file: {fifo}}}}}",
                receiver="{sink: discard}",
            )
        )

        def attempt():
            writer = threading.Thread(target=write_slowly, args=(fifo, 20e6, SECONDS), daemon=True)
            writer.start()
            result, child = self.run_json("run", path)
            writer.join()
            self.assert_accounted(self.only_stream(result))
            return self.verdict(child, "source")

        self.in_one_of_three(attempt)

    def test_other_programs_on_its_cpu(self):
        """Four that spin on the CPU that the thread is pinned to leave it a fifth."""
        cpu = min(os.sched_getaffinity(0))
        spinners = [
            subprocess.Popen(
                [sys.executable, "-c", "while True: pass"],
                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
            )
            for _ in range(4)
        ]
        try:
            path = self.config(
                yaml_stream(message="1462 B", ring=256),
                top=f"threads: {{count: 1, cpus: [{cpu}]}}\n",
            )
            result, child = self.run_json("run", path, "--duration", f"{SECONDS} s")
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
        stream = self.only_stream(result)
        self.assertEqual(stream["verdict"]["limited_by"], "starvation", str(child))
        self.assertRegex(child.stderr, r"limited by: other programs on this CPU \(had \d+% of a core")
        for side in ("sender", "receiver"):
            self.assertLess(stream[side]["cpu_share"], 0.6)
            self.assertGreater(stream[side]["involuntary_switches"], 10)

    def test_transport(self):
        self.throttled(
            "transport",
            transport="{plugin: loopback, filters: [{plugin: throttle, options: {rate: 20000}}]}",
        )

    def test_staging(self):
        self.throttled(
            "staging at the receiver",
            receiver="{memory: {plugin: late, options: {rate: 20 MB, delay: 1 ms}}, "
            "sink: {type: discard}}",
        )

    def test_credit(self):
        """A receiver that does not run gives no slot back, and is not what is slow where it runs."""

        def attempt():
            path = self.config(
                yaml_stream(message="1462 B", ring=16, timeout="60 s", receiver="{sink: discard}"),
                top=SLEEPS,
            )
            receiver = self.start("receive", path)
            sender = self.start("send", path, "--duration", "1")
            sender.wait_line("packets: peer: ")
            receiver.signal(signal.SIGSTOP)
            time.sleep(0.7)  # of one: the throttle itself
            receiver.signal(signal.SIGCONT)
            self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
            return self.verdict(receiver, "credit") or self.verdict(sender, "credit")

        self.in_one_of_three(attempt)

    def slow_sink(self):
        """A stream into a FIFO that is read slowly; who reads it."""
        fifo = self.folder / "fifo"
        if not fifo.exists():
            os.mkfifo(fifo)
        reader = threading.Thread(target=read_slowly, args=(fifo, 20e6), daemon=True)
        reader.start()
        path = self.config(
            yaml_stream(
                message="64 KiB",
                ring=16,
                timeout="60 s",
                receiver=f"{{sink: {{type: file, file: {fifo}}}}}",
            )
        )
        return path, reader

    def test_sink(self):
        def attempt():
            path, reader = self.slow_sink()
            result, child = self.run_json("run", path, "--duration", f"{SECONDS} s")
            reader.join()
            self.assert_accounted(self.only_stream(result))
            return self.verdict(child, "sink")

        self.in_one_of_three(attempt)

    def test_sink_across_two_processes(self):
        """Both ends say the same: each learns the other's blocked times at the end."""

        def attempt():
            path, reader = self.slow_sink()
            receiver = self.start("receive", path)
            sender = self.start("send", path, "--duration", f"{SECONDS} s")
            self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
            reader.join()
            return self.verdict(receiver, "sink") or self.verdict(sender, "sink")

        self.in_one_of_three(attempt)

    def outlived(self, path, heartbeat, stage):
        """The receiver's verdict of a sender that was killed in the middle."""
        heartbeat = ("--set", f"control.heartbeat={heartbeat}")

        def attempt():
            receiver = self.start("receive", path, *heartbeat)
            sender = self.start("send", path, *heartbeat)
            receiver.wait_line(r"Got \d{2,}")
            sender.signal(signal.SIGKILL)
            self.assertEqual(receiver.wait(), 1, str(receiver))
            return self.verdict(receiver, stage)

        self.in_one_of_three(attempt)

    def test_empty_is_the_receivers_own_view(self):
        """The sender died before it told of itself: the receiver knows that nothing came."""
        path = self.config(
            yaml_stream(message="1462 B", ring=256, timeout="1 h", sender="{rate: 5 Mbps}"),
            top=SLEEPS,
        )
        self.outlived(path, "30 min", "sender")

    def test_a_killed_sender_has_reported_its_rate(self):
        """Also of the stage that it was in for all of the time."""
        path = self.config(
            yaml_stream(message="64 KiB", ring=16, sender="{rate: 200 Mbps}"),
        )
        self.outlived(path, "100 ms", "rate")


def write_slowly(path, bytes_per_second, seconds):
    with open(path, "wb", buffering=0) as file:
        began, total = time.monotonic(), 0
        while total < bytes_per_second * seconds:
            total += file.write(bytes(32 << 10))
            ahead = total / bytes_per_second - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)  # the throttle itself


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
