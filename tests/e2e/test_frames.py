#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frames by the program: each policy, verified in place, with faults injected."""
import os
import unittest

from harness import FAKES, FEWER, SANITIZED, Case, main, yaml_stream

MESSAGES = 20_000 if SANITIZED else 200_000 // FEWER
FAULTS = "drop_ppm: 2000, duplicate_ppm: 2000, reorder_ppm: 2000"
MEMORIES = ("host", "{plugin: late, options: {delay: 20 us}}")


class Frames(Case):
    def run_frames(self, assemble, memory="host", faults="", expect=0, count=MESSAGES, more=""):
        transport = "loopback"
        if faults:
            transport = (
                f"{{plugin: loopback, filters: [{{plugin: fault, options: {{{faults}}}}}]}}"
            )
        path = self.config(
            yaml_stream(
                message="300 B",
                ring=1024,
                sender=f"{{count: {count}, transport: {transport}}}",
                receiver=f"{{memory: {memory}, assemble: {{{assemble}}}{more}}}",
            )
        )
        result, child = self.run_json(
            "run", path, "--plugin-path", FAKES, expect=expect, seconds=120
        )
        stream = self.only_stream(result)
        self.assertEqual(
            stream["messages_sent"],
            stream["messages_delivered"] + sum(stream["dropped"].values()),
        )
        self.assertNotIn("unattributed", stream["dropped"])
        return stream, child

    def test_the_example(self):
        result, _ = self.run_json(
            "run", "config/loopback-frames.yaml", "--set", "streams.frames.sender.count=100000",
            # Else a sender that waits for a CPU is late, by more than the loss that is allowed.
            "--set", "streams.frames.receiver.assemble.timeout=1 min",
        )  # fmt: skip
        stream = self.only_stream(result)
        self.assert_accounted(stream)
        self.assertGreater(stream["frames"]["complete"], 0)
        self.assertGreater(stream["frames"]["incomplete"], 0)

    def test_all_frames_are_whole(self):
        for memory in MEMORIES:
            with self.subTest(memory):
                stream, child = self.run_frames("packets: 50, timeout: 1 min", memory)
                self.assertEqual(stream["frames"]["complete"], MESSAGES // 50)
                self.assertEqual(stream["verified"], MESSAGES)
                self.assertEqual(stream["path"], "staged")
                self.assertIn("assemble", stream["path_reason"])
                self.assertRegex(child.stderr, r"frames: \d+ complete, 0 incomplete")

    def test_faults_by_policy(self):
        for memory in MEMORIES:
            for missing in ("zero", "keep", "drop"):
                with self.subTest(f"{memory}, {missing}"):
                    stream, _ = self.run_frames(
                        f"packets: 50, missing: {missing}", memory, FAULTS, expect=1
                    )
                    frames = stream["frames"]
                    self.assertEqual(stream["corrupted"], 0)
                    self.assertEqual(stream["verified"], stream["messages_delivered"])
                    self.assertGreater(stream["dropped"]["injected"], 0)
                    seen = frames["complete"] + frames["incomplete"] + frames["dropped"]
                    self.assertEqual(seen + frames["lost"], MESSAGES // 50)
                    self.assertEqual(missing == "drop", frames["dropped"] > 0)
                    self.assertEqual(missing == "drop", frames["incomplete"] == 0)
                    self.assertEqual(missing == "drop", "incomplete_frame" in stream["dropped"])

    def test_an_incomplete_end_is_no_loss_of_the_transport(self):
        stream, _ = self.run_frames("packets: 64, timeout: 1 min, missing: drop", count=1000)
        self.assertEqual(stream["dropped"], {"incomplete_frame": 1000 % 64})

    def test_a_file_of_frames_is_the_file(self):
        source = self.folder / "source.bin"
        source.write_bytes(os.urandom(300 * 1000 + 123))
        target = self.folder / "target.bin"
        path = self.config(
            yaml_stream(
                message="300 B",
                sender=f"{{source: {{type: file, file: {source}}}, transport: {{plugin: loopback, "
                "filters: [{plugin: fault, options: {reorder_ppm: 50000}}]}}",
                receiver=f"{{assemble: {{packets: 16, timeout: 1 min}}, "
                f"sink: {{type: file, file: {target}}}}}",
                expect="{max_reordered: 10000}",
            )
        )
        self.run_json("run", path)
        self.assertEqual(source.read_bytes(), target.read_bytes())

    def test_rtp_frames_over_udp(self):
        count = 2000
        path = self.config(
            yaml_stream(
                message="1000 B",
                ring=4096,
                transport="{plugin: udp, options: {framing: rtp}}",
                sender=f"{{count: {count}, rate: 100 Mbps, transport: {{options: {{frame: 10}}}}}}",
                receiver="{intervals: true, assemble: {by: rtp_marker, packets: 16, timeout: 1 min}}",
            )
        )
        result, _ = self.run_json("run", path)
        stream = self.only_stream(result)
        self.assert_accounted(stream)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assertNotIn("misframed", stream["dropped"])
        self.assertGreaterEqual(stream["intervals_ns"]["count"], stream["messages_delivered"] - 1)
        # A busy machine may lose datagrams; each costs at most two frames.
        lost = sum(stream["dropped"].values())
        self.assertGreaterEqual(stream["frames"]["complete"], count // 10 - 2 * lost)
        self.assertGreater(stream["frames"]["complete"], 0)

    def test_timestamps_that_are_not_there_are_asked_for(self):
        path = self.config(
            yaml_stream(
                transport="{plugin: udp, options: {framing: sequence}}",
                sender="{count: 100}",
                receiver="{assemble: {by: rtp_marker, packets: 16}}",
            )
        )
        for command in ("check", "run"):
            child = self.run_program(command, path, expect=2)
            self.assertRegex(child.stderr, r":\d+:\d+: assemble: `by: rtp_marker` needs RTP's timestamps")

    def test_what_cannot_be_is_refused(self):
        for more, why in (
            (", path: direct", r'path: direct is not possible with "assemble"'),
            (", assembly: 1", r'unknown key "assembly"'),
        ):
            path = self.config(
                yaml_stream(receiver=f"{{assemble: {{packets: 4}}{more}}}")
            )
            child = self.run_program("check", path, expect=2)
            self.assertRegex(child.stderr, why)
        child = self.run_program(
            "check", self.config(yaml_stream(receiver="{assemble: {by: sequence}}")), expect=2
        )
        self.assertRegex(child.stderr, r'"packets" is missing')


if __name__ == "__main__":
    main()
