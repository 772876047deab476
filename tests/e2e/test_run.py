#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both ends in one process: accounting, the result, many streams, pacing."""
import copy
import json
import re
import resource
import unittest

import result_schema
from harness import FAKES, Case, ROOT, SANITIZED, main, yaml_stream

WRONG_RESULTS = [
    lambda result: result.update(extra=1),
    lambda result: result["streams"][0].update(wire_gbps=None),
    lambda result: result["streams"][0].pop("loss"),
    lambda result: result["streams"][0].update(loss=1.5),
    lambda result: result["streams"][0].update(verified=True),
    lambda result: result["streams"][0].update(stopped=True),
    lambda result: result["streams"][0]["sender"]["counters"].update(rate="much"),
    lambda result: result["streams"][0]["expect"][0].update(got=[1]),
    lambda result: result.update(errors=[{"code": "failed", "text": "why", "where": None}]),
    lambda result: result.update(ok=False, exit_status=1),
    lambda result: result.update(ok=False, exit_status=1,
                                 errors=[{"code": "unheard_of", "text": "why", "where": None}]),
    lambda result: result.update(command="bench"),
    lambda result: result.update(state="running"),
    lambda result: result.update(format=2),
]  # fmt: skip
LINE = re.compile(
    r"packets: Got \d+ packets \| \d+(\.\d+)? [KMGT]?bps during \d+\.\d+ sec \| \d+ dropped \| \w+"
)


class Loopback(Case):
    def test_three_seconds_verified(self):
        def attempt():
            result, child = self.run_json("run", "config/loopback.yaml", "--duration", "3")
            stream = self.only_stream(result)
            self.assertIs(result["ok"], True)
            self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
            self.assertEqual(stream["verified"], stream["messages_delivered"])
            self.assert_accounted(stream)
            self.assertEqual(stream["path"], "direct")
            self.assertRegex(child.lines["stderr"][-1], r"limited by: [a-zA-Z]+")
            if (
                stream["messages_sent"] > 1000
                and abs(stream["seconds"] - 3) <= (1 if SANITIZED else 0.5)
                and any(LINE.search(line) for line in child.lines["stderr"])
            ):
                return None
            return f"{stream}\n{child}"

        self.in_one_of_three(attempt)

    def test_count_is_exact(self):
        for count in (1, 2, 255, 256, 257, 100000):
            result, _ = self.run_json("run", "config/loopback.yaml", "--count", count)
            stream = self.only_stream(result)
            self.assertEqual(stream["messages_sent"], count)
            self.assertEqual(stream["messages_delivered"], count)
            self.assertEqual(stream["bytes_delivered"], count * 1462)
            self.assert_accounted(stream)

    def test_standard_output_holds_only_the_result(self):
        nowhere = self.folder / "missing" / "out.json"
        child = self.run_program(
            "run", "config/loopback.yaml", "--count", "10", "--json", nowhere, expect=2
        )
        self.assertNotRegex(child.stderr, "messages of up to")  # nothing was started
        self.assertRegex(child.stderr, "--json: .*out.json: No such file.*; create the folder")
        child = self.run_program("run", "config/loopback.yaml", "--count", "10", "--json", "-")
        self.assertIs(result_schema.read(child.stdout)["ok"], True)
        child = self.run_program("run", "config/loopback.yaml", "--count", "10")
        self.assertEqual(child.stdout, "")

    def test_quiet_says_nothing_when_all_is_well(self):
        child = self.run_program("run", "config/loopback.yaml", "--count", "10", "--quiet")
        self.assertNotRegex(child.stderr, "Got")

    def test_set_overrides_the_file(self):
        result, _ = self.run_json(
            "run", "config/loopback.yaml", "--count", "100", "--set", "streams.packets.message=64"
        )
        self.assertEqual(self.only_stream(result)["bytes_delivered"], 6400)

    def test_every_mode_and_size(self):
        for mode in ("copy", "reference"):
            for message in (1, 7, 64, 1462, 8192, 1048576):
                with self.subTest(mode=mode, message=message):
                    path = self.config(
                        yaml_stream(message=f"{message} B", ring=32, sender="{count: 500}"),
                        top=f"    # {mode}\n",
                    )
                    result, _ = self.run_json(
                        "run", path, "--set", f"transport.options.mode={mode}"
                    )
                    stream = self.only_stream(result)
                    self.assertEqual(stream["messages_delivered"], 500)
                    self.assertEqual(stream["bytes_delivered"], 500 * message)
                    self.assertEqual(stream["verified"], 500)
                    self.assert_accounted(stream)

    def test_smallest_ring(self):
        path = self.config(yaml_stream(message="64 B", ring=2, sender="{count: 20000}"))
        result, _ = self.run_json("run", path)
        self.assertEqual(self.only_stream(result)["messages_delivered"], 20000)

    def test_config_from_standard_input(self):
        text = (ROOT / "config" / "loopback.yaml").read_text()
        path = self.write("copy.yaml", text)
        result, _ = self.run_json("run", path, "--count", "10")
        self.assertIs(result["ok"], True)
        self.assertIsNotNone(result["config"]["hash"])
        for change in WRONG_RESULTS:
            wrong = copy.deepcopy(result)
            change(wrong)
            with self.subTest(wrong=wrong), self.assertRaises(AssertionError):
                result_schema.read(json.dumps(wrong))
        self.assertEqual({plugin["name"] for plugin in result["plugins"]}, {"loopback", "host"})


class Failures(Case):
    def test_a_sink_that_fails_is_told_of_once(self):
        path = self.config(
            yaml_stream(message="64 B", receiver="{sink: {type: file, file: /dev/full}}")
        )
        result, child = self.run_json("run", path, "--count", "100000", expect=1)
        lines = [line for line in child.lines["stderr"] if "No space left" in line]
        self.assertEqual(len(lines), 1, child)
        (error,) = result["streams"][0]["errors"]
        self.assertIn("No space left", error["text"])
        self.assertEqual(error["where"], "streams.packets.receiver")
        self.assertEqual(result["errors"], [error])

    def test_a_stream_that_never_ran_has_no_verdict(self):
        path = self.config(
            yaml_stream(message="64 B"), top="# nobody sends\n"
        )
        result, child = self.run_json(
            "receive", path, "--set", "control.timeout=100 ms", expect=1
        )
        self.assertIsNone(self.only_stream(result)["verdict"]["limited_by"])
        self.assertNotIn("limited by", child.stderr)


class Staged(Case):
    """The final memory is one that the CPU cannot touch and that copies late."""

    def test_staged_is_verified_and_said(self):
        path = self.config(
            yaml_stream(
                message="1462 B",
                ring=256,
                sender="{count: 20000}",
                receiver="{memory: {plugin: late}}",
            )
        )
        result, child = self.run_json("run", path, "--plugin-path", FAKES / "memory_late")
        stream = self.only_stream(result)
        self.assertEqual(stream["path"], "staged")
        self.assertTrue(stream["path_reason"])
        self.assertEqual(stream["verified"], 20000)
        self.assert_accounted(stream)
        self.assertIn("staged", child.stderr)

    def test_direct_only_refuses_to_stage(self):
        path = self.config(
            yaml_stream(
                message="1462 B",
                sender="{count: 10}",
                receiver="{path: direct, memory: {plugin: late}}",
            )
        )
        child = self.run_program("run", path, "--plugin-path", FAKES / "memory_late", expect=3)
        self.assertIn("direct", child.stderr)


    def test_a_one_sided_stream_is_not_for_run(self):
        path = self.config("  - {name: store, region: 1 MiB}\n")
        for command in "run", "send", "receive":
            child = self.run_program(command, path, expect=2)
            self.assertIn(f"'store' is one-sided (`region`) and has no messages for `penstock {command}`", child.stderr)


class Many(Case):
    def test_the_example_of_many_streams(self):
        def attempt():
            result, child = self.run_json("run", "config/loopback-many.yaml", "--duration", "1")
            self.assertIs(result["ok"], True)
            streams = result["streams"]
            self.assertGreater(len(streams), 2)
            for stream in streams:
                self.assert_accounted(stream)
            return None if all(stream["messages_delivered"] for stream in streams) else str(child)

        self.in_one_of_three(attempt)

    def test_sixty_four_streams(self):
        path = self.config(
            "".join(
                yaml_stream(f"s{i}", message=f"{64 + i} B", ring=16, sender="{count: 2000}")
                for i in range(64)
            )
        )
        result, _ = self.run_json("run", path)
        streams = result["streams"]
        self.assertEqual(len(streams), 64)
        for i, stream in enumerate(streams):
            self.assertEqual(stream["messages_delivered"], 2000)
            self.assertEqual(stream["bytes_delivered"], 2000 * (64 + i))
            self.assertEqual(stream["verified"], 2000)

    @unittest.skipIf(SANITIZED, "descriptors and threads are counted as a program without them has")
    def test_more_streams_between_processes_than_one_file_can_be_watched_for(self):
        # Linux lets 500 descriptors of epoll watch one file; each process has one worker.
        count = 520
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 16 * count:
            self.skipTest("the hard limit of descriptors is too low: `ulimit -Hn`")
        path = self.config(
            "".join(
                yaml_stream(f"s{i}", message="64 B", ring=4, timeout="60 s", sender="{count: 20}")
                for i in range(count)
            ),
            top="workers: {count: 1}\n",
        )
        receiver = self.start("receive", path, "--quiet")
        self.run_program("send", path, "--quiet")
        self.assertEqual(receiver.wait(), 0, str(receiver))

    def test_fan_in_to_one_ring(self):
        path = self.config(
            yaml_stream("a", message="256 B", ring=64, sender="{count: 20000}")
            + yaml_stream(
                "b", message="256 B", ring=64, sender="{count: 10000}", receiver="{share: a}"
            )
        )
        result, _ = self.run_json("run", path)
        self.assertEqual(
            [stream["messages_delivered"] for stream in result["streams"]], [20000, 10000]
        )
        for stream in result["streams"]:
            self.assertEqual(stream["verified"], stream["messages_delivered"])

    def test_fan_out_of_one_slot(self):
        path = self.config(
            yaml_stream("a", message="256 B", ring=64, sender="{count: 20000}")
            + yaml_stream("b", message="256 B", ring=64, sender="{share: a}")
        )
        result, _ = self.run_json("run", path)
        self.assertEqual(
            [stream["messages_delivered"] for stream in result["streams"]], [20000, 20000]
        )
        for stream in result["streams"]:
            self.assertEqual(stream["verified"], 20000)

    def test_only_the_named_stream(self):
        path = self.config(
            yaml_stream("a", message="256 B", sender="{count: 10}")
            + yaml_stream("b", message="256 B", sender="{count: 20}")
        )
        result, _ = self.run_json("run", path, "--stream", "b")
        self.assertEqual(self.only_stream(result)["messages_delivered"], 20)


class Pacing(Case):
    def hold(self, gbps, duration, **stream):
        """Never faster. As fast in one of three runs: seconds may be caught up, but for the last."""
        path = self.config(yaml_stream(message="1462 B", **stream))

        def attempt():
            result, _ = self.run_json("run", path, "--duration", duration)
            stream = self.only_stream(result)
            self.assert_accounted(stream)
            self.assertLessEqual(stream["gbps"], gbps * 1.01)
            if stream["gbps"] >= gbps * 0.99:
                return None
            return f"{stream['gbps']} Gbps, where {gbps} was asked for"

        self.in_one_of_three(attempt)

    @unittest.skipIf(SANITIZED, "a sanitized program does not reach the rate")
    def test_one_gigabit_within_one_percent(self):
        self.hold(1.0, "4", ring=1024, sender="{rate: 1 Gbps, burst: 375 MB}")

    def test_a_slow_rate_is_held_too(self):
        self.hold(0.01, "3", ring=64, sender="{rate: 10 Mbps, burst: 3 MB}")


class Idle(Case):
    def test_an_idle_receiver_burns_no_core(self):
        path = self.config(
            yaml_stream(message="1462 B", ring=64, timeout="60 s", sender="{rate: 1 Mbps}"),
            top="workers: {sleep_after: 1 ms}\n",
        )
        receiver = self.start("receive", path)
        sender = self.start("send", path, "--duration", "3")
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        for child in (receiver, sender):
            busy = child.usage.ru_utime + child.usage.ru_stime
            self.assertLess(busy, 0.25 * child.seconds + (1 if SANITIZED else 0.1), str(child))


    def test_a_sleeper_notices_the_end(self):
        """Not the next heartbeat, but the news itself, ends the sleep of a worker."""
        for count in (1, 100, 20000):
            with self.subTest(count=count):
                path = self.config(
                    "".join(
                        yaml_stream(
                            f"s{i}", message="64 B", timeout="90 s", sender=f"{{count: {count}}}"
                        )
                        for i in range(5)
                    ),
                    top="workers: {count: 5, sleep_after: 1 us}\n",
                )
                child = self.run_program("run", path, "--set", "control.heartbeat=40 s")
                self.assertLess(child.seconds, 20, str(child))


class Expect(Case):
    def breach(self, expect, **parts):
        parts = {"message": "1462 B", "sender": "{count: 2000}", **parts}
        path = self.config(yaml_stream(expect=expect, **parts))
        result, child = self.run_json("run", path, expect=4)
        self.assertIs(result["ok"], False)
        for error in result["errors"]:
            self.assertEqual(error["code"], "expect")
            self.assertIn(f"penstock: error: stream 'packets': {error['text']}", child.lines["stderr"])
        keys = [error["where"].removeprefix("streams.packets.expect.") for error in result["errors"]]
        self.assertEqual(keys, re.findall(r"(\w+): ", expect))
        return child.stderr

    def test_all_met(self):
        path = self.config(
            yaml_stream(
                message="1462 B",
                sender="{count: 2000}",
                expect="{path: direct, carrier: memory, max_loss: 0, max_corrupted: 0, "
                "max_duplicates: 0, max_reordered: 0, min_messages: 2000, verified: true}",
            )
        )
        result, _ = self.run_json("run", path)
        self.assertIs(result["ok"], True)

    def test_path(self):
        self.assertRegex(self.breach("{path: staged}"), r"path direct.*expect.path staged")

    def test_via(self):
        self.assertRegex(self.breach("{via: dma-buf}"), r"expect.via dma-buf")

    def test_carrier(self):
        self.assertRegex(self.breach("{carrier: rdma}"), r"expect.carrier rdma")

    def test_min_gbps(self):
        self.breach("{min_gbps: 100000}")

    def test_min_messages(self):
        self.assertRegex(self.breach("{min_messages: 2001}"), r"2000.*2001")

    def test_verified(self):
        self.breach("{verified: true}", receiver="{sink: {type: discard}}")

    def test_each_breach_has_a_line(self):
        self.breach("{path: staged, carrier: rdma, min_messages: 5000}")


if __name__ == "__main__":
    main()
