#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many streams in one process, and one stream with a very large ring."""
import unittest

from harness import FEWER, Case, SANITIZED, main, yaml_stream

MILLION = (1 << 20) // FEWER


def many_streams(count, **parts):
    return "".join(yaml_stream(name=f"s{i}", **parts) for i in range(count))


class ManyStreams(Case):
    def check(self, result, count, messages, bytes_each):
        self.assertIs(result["ok"], True)
        self.assertEqual(len(result["streams"]), count)
        for stream in result["streams"]:
            self.assert_accounted(stream)
            self.assertEqual(stream["messages_delivered"], messages, stream)
            self.assertEqual(stream["bytes_delivered"], messages * bytes_each, stream)
            self.assertEqual(stream["verified"], messages, stream)
            self.assertEqual(stream["dropped"], {}, stream)
        self.assertEqual(
            [stream["name"] for stream in result["streams"]], [f"s{i}" for i in range(count)]
        )

    def test_a_hundred_in_one_process(self):
        messages = 2000 if SANITIZED else 20000 // FEWER
        for mode in ("copy", "reference"):
            with self.subTest(mode=mode):
                path = self.config(
                    many_streams(
                        100, message="1462 B", ring=64, sender=f"{{source: pattern, count: {messages}}}"
                    )
                )
                result, _ = self.run_json(
                    "run", path, "--set", f"transport.options.mode={mode}", seconds=120
                )
                self.check(result, 100, messages, 1462)
        self.assert_nothing_left()

    def test_a_hundred_between_two_processes(self):
        messages = 500 if SANITIZED else 5000 // FEWER
        path = self.config(
            many_streams(
                100, message="1462 B", ring=64, timeout="60 s",
                sender=f"{{source: pattern, count: {messages}}}",
            )  # fmt: skip
        )
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        self.run_program("send", path, seconds=120)
        self.assertEqual(receiver.wait(120), 0, str(receiver))
        self.check(self.result(), 100, messages, 1462)
        self.assert_nothing_left()

    def test_as_many_as_a_file_may_have(self):
        """Work that grows with the square of the streams' number would not end in time."""
        count = 512 if SANITIZED else 4096 // FEWER
        path = self.config(
            many_streams(count, message="64 B", ring=8, sender="{source: pattern, count: 50}")
        )
        result, _ = self.run_json("run", path, seconds=120)
        self.check(result, count, 50, 64)


class HugeRing(Case):
    """More messages than slots, so that each slot is used again."""

    def huge(self, slots):
        return self.config(
            yaml_stream(message="64 B", ring=slots, timeout="60 s", sender="{source: pattern}")
        )

    def check(self, stream, messages):
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_delivered"], messages)
        self.assertEqual(stream["verified"], messages)

    def test_a_million_slots(self):
        messages = 3 * MILLION + 5
        for mode in ("copy", "reference"):
            with self.subTest(mode=mode):
                result, child = self.run_json(
                    "run",
                    self.huge(MILLION),
                    "--count",
                    messages,
                    "--set",
                    f"transport.options.mode={mode}",
                    seconds=120,
                )
                self.check(self.only_stream(result), messages)
                # Each end needs 64 B a slot, and what core and transport keep for a slot.
                if not SANITIZED and FEWER == 1:
                    self.assertLess(child.usage.ru_maxrss * 1024, MILLION * 384, str(child))

    def test_a_million_slots_between_two_processes(self):
        messages = 3 * MILLION + 5
        path = self.huge(MILLION)
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        self.run_program("send", path, "--count", messages, seconds=120)
        self.assertEqual(receiver.wait(120), 0, str(receiver))
        self.check(self.only_stream(self.result()), messages)
        self.assert_nothing_left()

    def test_a_million_slots_staged(self):
        messages = 2 * MILLION + 5
        result, _ = self.run_json(
            "run",
            self.huge(MILLION),
            "--count",
            messages,
            "--set",
            "streams.packets.receiver.path=staged",
            seconds=120,
        )
        self.check(self.only_stream(result), messages)
        self.assertEqual(self.only_stream(result)["path"], "staged")


if __name__ == "__main__":
    main(side_by_side=3)
