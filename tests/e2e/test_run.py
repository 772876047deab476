#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both ends in one process: accounting, the result, many streams, pacing."""
import copy
import json
import re
import resource
import signal
import unittest

import result_schema
from harness import FAKES, Case, ROOT, SANITIZED, alone, main, yaml_stream

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
    @alone
    def test_two_seconds_verified(self):
        def attempt():
            result, child = self.run_json("run", "config/loopback.yaml", "--duration", "2")
            stream = self.only_stream(result)
            self.assertIs(result["ok"], True)
            self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
            self.assertEqual(stream["verified"], stream["messages_delivered"])
            self.assert_accounted(stream)
            self.assertEqual(stream["path"], "direct")
            self.assertRegex(child.lines["stderr"][-1], r"limited by: [a-zA-Z]+")
            if (
                stream["messages_sent"] > 1000
                and abs(stream["seconds"] - 2) <= (1 if SANITIZED else 0.5)
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
    def test_a_sink_that_fails_is_reported_once(self):
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

    def test_what_fails_at_the_peer_is_the_peers(self):
        path = self.config(
            yaml_stream(message="64 B", receiver="{sink: {type: file, file: /dev/full}}")
        )
        receiver = self.start("receive", path)
        result, child = self.run_json("send", path, expect=1)
        self.assertEqual(receiver.wait(), 1, str(receiver))
        (error,) = self.only_stream(result)["errors"]
        self.assertEqual((error["code"], error["where"]), ("peer", "streams.packets.sender"), str(child))
        self.assertIn("No space left", error["text"])

    def test_ends_that_do_not_agree_both_say_the_remedy(self):
        receiver = self.start("receive", self.config(yaml_stream(message="1462 B")))
        sender = self.start("send", self.config(yaml_stream(message="1000 B"), name="other.yaml"))
        self.assertEqual((receiver.wait(), sender.wait()), (1, 1), f"{receiver}{sender}")
        for end in (sender, receiver):
            self.assertRegex(
                end.stderr,
                "message: sender 1000 B, receiver 1462 B; give both ends the same configuration",
            )

    def test_one_kill_is_one_line_whatever_the_streams(self):
        """How many a peer that has gone sent nobody knows: its end says why."""
        path = self.config("".join(yaml_stream(name) for name in ("a", "b", "c")))
        receiver = self.start("receive", path)
        sender = self.start("send", path)
        receiver.wait_line("Got")
        sender.signal(signal.SIGKILL)
        self.assertEqual(receiver.wait(), 1, str(receiver))
        self.assertEqual(len(re.findall("error:|warning:", receiver.stderr)), 1, str(receiver))

    def test_one_interrupt_is_one_line_whatever_the_streams(self):
        path = self.config("".join(yaml_stream(name) for name in ("a", "b", "c")))
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        receiver.wait_line("waiting")
        receiver.signal(signal.SIGINT)
        self.assertEqual(receiver.wait(), 1, str(receiver))
        self.assertEqual(receiver.stderr.count("error:"), 1, str(receiver))
        self.assertNotIn("draining", receiver.stderr)
        self.assertEqual([e["code"] for e in self.result()["errors"]], ["stopped"] * 3)

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

    def test_staged_is_verified_and_reported(self):
        path = self.config(
            yaml_stream(
                message="1462 B",
                ring=256,
                sender="{count: 20000}",
                receiver="{memory: {plugin: late}}",
            )
        )
        result, child = self.run_json("run", path, "--plugin-path", FAKES)
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
        child = self.run_program("run", path, "--plugin-path", FAKES, expect=3)
        self.assertIn("direct", child.stderr)


class Paths(Case):
    """A transport that knows its path when it knows its peer: filter claiming says so."""

    reason = "its peer is not on this host"
    soon = ("--set", "control.heartbeat=10ms")

    def file(self, after=0, count=1000, **parts):
        options = f"{{path: staged, path_after: {after}}}"
        claims = f"transport: {{filters: [{{plugin: claiming, options: {options}}}]}}"
        ends = {"sender": f"count: {count}", "receiver": "sink: verify"}
        for side, more in parts.items():
            ends[side] += f", {more}, {claims}"
        return self.config(
            yaml_stream(message="1000 B", **{side: f"{{{text}}}" for side, text in ends.items()})
        )

    def both(self, path):
        """The children of two processes that end with exit 3, and their results."""
        more = ("--plugin-path", FAKES, *self.soon, "--json")
        receiver = self.start("receive", path, *more, self.folder / "receiver.json")
        sender = self.start("send", path, *more, self.folder / "sender.json")
        for name, child in (("receiver", receiver), ("sender", sender)):
            self.assertEqual(child.wait(), 3, child)
            self.assertIn(self.reason, child.stderr)
            self.assertEqual(self.result(f"{name}.json")["errors"][0]["code"], "unavailable")
        return sender, receiver

    def test_worse_than_allowed_ends_the_stream_at_both_ends(self):
        asked = "`path: direct` asked for, but with this peer it is staged: " + self.reason
        for child in self.both(self.file(receiver="path: direct")):
            self.assertIn(asked, child.stderr)

    def test_worse_for_a_sender_ends_the_stream_at_both_ends(self):
        asked = "`sender.path: direct` asked for, but with this peer it is staged: " + self.reason
        for child in self.both(self.file(sender="path: direct")):
            self.assertIn(asked, child.stderr)

    def test_worse_later_ends_the_stream_at_both_ends(self):
        for side in ("receiver", "sender"):
            with self.subTest(worse_at=side):
                self.both(self.file(after=100, count=0, **{side: "path: direct"}))
                delivered = self.only_stream(self.result("receiver.json"))["messages_delivered"]
                self.assertGreaterEqual(delivered, 1)

    def test_worse_later_is_reported_where_it_is_allowed(self):
        path = self.file(after=100, count=0, receiver="path: auto")
        result, _ = self.run_json("run", path, *self.soon, "--duration", "1", "--plugin-path", FAKES)
        stream = self.only_stream(result)
        self.assertEqual(stream["path"], "staged")
        self.assertEqual(stream["path_reason"], self.reason)

    def test_in_one_process(self):
        child = self.run_program("run", self.file(receiver="path: direct"), "--plugin-path", FAKES,
                                 expect=3)  # fmt: skip
        self.assertIn(self.reason, child.stderr)

    def test_allowed_is_reported(self):
        result, _ = self.run_json("run", self.file(receiver="path: auto"), "--plugin-path", FAKES)
        stream = self.only_stream(result)
        self.assertEqual(stream["path"], "staged")
        self.assertEqual(stream["path_reason"], self.reason)
        self.assertEqual(stream["verified"], 1000)


class Mapped(Case):
    """Core tells by the memory's kind, whatever the transport."""

    transports = (
        "{options: {mode: copy}}",
        "{plugin: udp, options: {device: 127.0.0.1}}",
    )
    memory = "memory: {plugin: failing, options: {mapped: true}}"

    def file(self, transport, path="auto", memory=memory):
        return self.config(
            yaml_stream(
                message="1000 B",
                ring=2048,
                transport=transport,
                sender="{count: 1000, rate: 100 Mbps}",
                receiver=f"{{path: {path}, sink: discard, {memory}}}",
            )
        )

    def run_one(self, *arguments):
        result, _ = self.run_json("run", self.file(*arguments), "--plugin-path", FAKES)
        stream = self.only_stream(result)
        self.assertEqual(stream["messages_delivered"], 1000)
        return stream

    def test_by_the_memory_alone(self):
        for transport in self.transports:
            for path in ("auto", "mapped"):
                with self.subTest(transport, path=path):
                    self.assertEqual(self.run_one(transport, path)["path"], "mapped")

    def test_direct_is_another_path(self):
        for transport in self.transports:
            with self.subTest(transport):
                child = self.run_program("run", self.file(transport, "direct"), "--plugin-path",
                                         FAKES, expect=3)  # fmt: skip
                self.assertIn("`path: direct` asked for, but here it is mapped", child.stderr)

    def test_lent_host_memory_is_no_device_s(self):
        stream = self.run_one("{options: {mode: reference}}")
        self.assertEqual(stream["path"], "staged")
        self.assertIn("hands over host memory of its own", stream["path_reason"])

    def test_lent_memory_that_a_device_sees_is_host_memory(self):
        path = self.config(
            yaml_stream(
                message="1000 B",
                transport="{options: {mode: reference}}",
                sender=f"{{count: 1000, {self.memory}}}",
                receiver="{path: direct, sink: discard}",
            )
        )
        result, _ = self.run_json("run", path, "--plugin-path", FAKES)
        self.assertEqual(self.only_stream(result)["messages_delivered"], 1000)

    def test_lent_memory_of_another_kind_is_refused(self):
        lends = "{options: {mode: reference}, filters: [{plugin: claiming, options: {lends: true}}]}"
        path = self.file(lends, "direct", "memory: host")
        child = self.run_program("run", path, "--plugin-path", FAKES, expect=1)
        self.assertIn("of another kind or device than memory host", child.stderr)
        # Copied out of it, it does no harm.
        self.assertEqual(self.run_one(lends, "staged", "memory: host")["path"], "staged")


class Counted(Case):
    """Filter claiming loses messages, and says at which level they were dropped."""

    count = 1000
    lost = 10

    def item(self, name="packets", **drops):
        options = ", ".join(f"{key}: {value}" for key, value in drops.items())
        claims = f"{{plugin: claiming, options: {{loses: {self.lost}, {options}}}}}"
        return yaml_stream(
            name,
            message="1000 B",
            sender=f"{{count: {self.count}}}",
            receiver=f"{{transport: {{filters: [{claims}]}}}}",
            expect="{max_loss: 5%}",
        )

    def dropped(self, **drops):
        result, _ = self.run_json("run", self.config(self.item(**drops)), "--plugin-path", FAKES)
        stream = self.only_stream(result)
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_delivered"], self.count - self.lost)
        return stream["dropped"]

    def test_a_device_s_drops_come_after_the_endpoint_s(self):
        self.assertEqual(
            self.dropped(endpoint_drops=3, device_drops=5),
            {"endpoint_full": 3, "device_full": 5, "wire": 2},
        )

    def test_a_worker_s_drops_come_before_the_device_s(self):
        self.assertEqual(
            self.dropped(endpoint_drops=3, worker_drops=4, device_drops=2),
            {"endpoint_full": 3, "worker_full": 4, "device_full": 2, "wire": 1},
        )

    def test_no_more_than_is_missing(self):
        self.assertEqual(
            self.dropped(endpoint_drops=3, worker_drops=2, device_drops=50),
            {"endpoint_full": 3, "worker_full": 2, "device_full": 5},
        )
        self.assertEqual(self.dropped(endpoint_drops=50, device_drops=50), {"endpoint_full": 10})

    def test_a_device_s_drops_explain_each_message_once(self):
        streams = "".join(
            self.item(name, endpoint_drops=3, device_drops=9) for name in ("one", "two")
        )
        result, _ = self.run_json("run", self.config(streams), "--plugin-path", FAKES)
        sums = {}
        for stream in result["streams"]:
            self.assert_accounted(stream)
            for cause, messages in stream["dropped"].items():
                sums[cause] = sums.get(cause, 0) + messages
        self.assertEqual(sums, {"endpoint_full": 6, "device_full": 9, "wire": 5})

    def test_the_sender_says_the_same(self):
        path = self.config(self.item(endpoint_drops=3, device_drops=5))
        receiver = self.start("receive", path, "--plugin-path", FAKES)
        result, _ = self.run_json("send", path, "--plugin-path", FAKES)
        self.assertEqual(receiver.wait(), 0, receiver)
        self.assertEqual(
            self.only_stream(result)["dropped"],
            {"endpoint_full": 3, "device_full": 5, "wire": 2},
        )

    def test_the_result_has_them_by_device(self):
        path = self.config(self.item(worker_drops=4, device_drops=50))
        result, child = self.run_json("run", path, "-v", "--plugin-path", FAKES)
        devices = [device for device in result["devices"] if device["counters"]]
        self.assertEqual(len(devices), 1, result["devices"])
        self.assertEqual(devices[0]["transport"], "loopback")
        self.assertIsNone(devices[0]["device"])
        self.assertEqual(devices[0]["counters"], {"device_full": 50})
        (worker,) = devices[0]["workers"]
        self.assertEqual(worker["counters"]["worker_full"], 4)
        self.assertIn("sleeps", worker["counters"])
        self.assertIn("transport loopback: device_full 50", child.stderr)
        self.assertIn(f"transport loopback, worker of thread {worker['thread']}: ", child.stderr)

    def test_an_address_that_the_control_channel_does_not_carry(self):
        child = self.run_program("run", self.config(self.item(address_max=16385)),
                                 "--plugin-path", FAKES, expect=3)  # fmt: skip
        self.assertIn("an endpoint's address of transport loopback has up to 16385 bytes with these "
                      "options, and the control channel carries 16384", child.stderr)  # fmt: skip
        self.assertRegex(child.stderr, r"stream\.yaml:\d+:\d+: ")
        self.run_program("run", self.config(self.item(address_max=16384)), "--plugin-path", FAKES)


class Wires(Case):
    """Transport twin is udp under another name, and so of one wire form with udp."""

    def file(self, name, sender="udp", receiver="twin", more=""):
        ends = (f"{{{more}transport: {{plugin: {plugin}, options: {{device: 127.0.0.1}}}}}}"
                for plugin in (sender, receiver))  # fmt: skip
        parts = dict(zip(("sender", "receiver"), ends))
        parts["sender"] = parts["sender"].replace("{", "{count: 1000, rate: 100 Mbps, ", 1)
        return self.config(yaml_stream(message="1000 B", ring=2048, **parts), name)

    def test_one_wire_form_connects_in_a_process(self):
        result, _ = self.run_json("run", self.file("one.yaml"), "--plugin-path", FAKES)
        stream = self.only_stream(result)
        self.assertEqual(stream["messages_delivered"], 1000)
        self.assertEqual(stream["verified"], 1000)

    def test_one_wire_form_connects_two_processes(self):
        path = self.file("one.yaml")
        receiver = self.start("receive", path, "--plugin-path", FAKES)
        self.run_program("send", path, "--plugin-path", FAKES)
        self.assertEqual(receiver.wait(), 0, receiver)

    def test_other_wire_forms_are_refused_in_words(self):
        words = "transport: sender loopback (wire form loopback-shm), " \
                "receiver twin (wire form penstock-datagram)"  # fmt: skip
        loopback = yaml_stream(message="1000 B", ring=2048)
        receiver = self.start("receive", self.file("twin.yaml", "twin"), "--plugin-path", FAKES)
        sender = self.run_program("send", self.config(loopback, "loopback.yaml"), expect=1)
        self.assertIn(words, sender.stderr)
        self.assertEqual(receiver.wait(), 1, receiver)
        self.assertIn(words, receiver.stderr)

    def test_a_file_of_other_wire_forms_is_refused(self):
        path = self.file("twin.yaml").read_text().replace("plugin: udp, options: {device: 127.0.0.1}",
                                                          "plugin: loopback")  # fmt: skip
        child = self.run_program("check", self.write("mixed.yaml", path), "--plugin-path", FAKES,
                                 expect=2)  # fmt: skip
        self.assertIn("whose wire forms are loopback-shm and penstock-datagram", child.stderr)


class Many(Case):
    @alone
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
        # Linux lets 500 descriptors of epoll watch one file; each process has one thread.
        count = 520
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 16 * count:
            self.skipTest("the hard limit of descriptors is too low: `ulimit -Hn`")
        path = self.config(
            "".join(
                yaml_stream(f"s{i}", message="64 B", ring=4, timeout="60 s", sender="{count: 20}")
                for i in range(count)
            ),
            top="threads: {count: 1}\n",
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
    @alone
    def test_one_gigabit_within_one_percent(self):
        self.hold(1.0, "2", ring=1024, sender="{rate: 1 Gbps, burst: 375 MB}")

    @alone
    def test_a_slow_rate_is_held_too(self):
        self.hold(0.01, "2", ring=64, sender="{rate: 10 Mbps, burst: 3 MB}")


class Idle(Case):
    def test_an_idle_receiver_burns_no_core(self):
        path = self.config(
            yaml_stream(message="1462 B", ring=64, timeout="60 s", sender="{rate: 1 Mbps}"),
            top="threads: {sleep_after: 1 ms}\n",
        )
        receiver = self.start("receive", path)
        sender = self.start("send", path, "--duration", "3")
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        for child in (receiver, sender):
            busy = child.usage.ru_utime + child.usage.ru_stime
            self.assertLess(busy, 0.25 * child.seconds + (1 if SANITIZED else 0.1), str(child))


    @alone
    def test_a_sleeper_notices_the_end(self):
        """Not the next heartbeat, but the news itself, ends the sleep of a thread."""
        for count in (1, 100, 20000):
            with self.subTest(count=count):
                path = self.config(
                    "".join(
                        yaml_stream(
                            f"s{i}", message="64 B", timeout="90 s", sender=f"{{count: {count}}}"
                        )
                        for i in range(5)
                    ),
                    top="threads: {count: 5, sleep_after: 1 us}\n",
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
