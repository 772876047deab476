#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One side is killed in mid-stream: the other ends soon, says who died, and cleans up."""
import os
import signal
import time

from harness import Case, main, random_file, yaml_stream

MIB = 1 << 20


class Death(Case):
    def pattern_config(self, **parts):
        return self.config(yaml_stream(**{"message": "1462 B", "ring": 1024, **parts}))

    def stream(self, path):
        """Both sides, with messages flowing."""
        receiver = self.start("receive", path, "--json", self.folder / "receiver.json")
        sender = self.start("send", path, "--json", self.folder / "sender.json")
        receiver.wait_line(r"Got \d{2,}")
        self.sockets |= receiver.sockets() | sender.sockets()
        self.assertTrue(self.sockets)
        return receiver, sender

    def assert_survivor(self, survivor, dead):
        began = time.monotonic()
        self.assertEqual(survivor.wait(), 1, str(survivor))
        # A minute of silence would have told it, too.
        self.assertLess(time.monotonic() - began, 30)
        self.assertIn(str(dead.pid), survivor.stderr, "the dead peer's process is named")
        self.assertRegex(survivor.stderr, "(?i)killed|crashed|died|dead|gone", str(survivor))

    def test_sender_killed(self):
        receiver, sender = self.stream(self.pattern_config())
        sender.signal(signal.SIGKILL)
        sender.wait()
        self.assert_survivor(receiver, sender)
        result = self.result("receiver.json")
        self.assertIs(result["ok"], False)
        stream = self.only_stream(result)
        self.assertIn(stream["sent_basis"], ("heartbeat", "sequence", "unknown"))
        self.assertIsNone(stream["messages_sent"], "a dead sender did not say")
        self.assertEqual(stream["corrupted"], 0)
        self.assertGreater(stream["messages_delivered"], 0)
        self.assertLessEqual(set(stream["dropped"]), {"aborted"})
        self.assert_nothing_left()

    def test_receiver_killed(self):
        receiver, sender = self.stream(self.pattern_config())
        receiver.signal(signal.SIGKILL)
        receiver.wait()
        self.assert_survivor(sender, receiver)
        self.assertIs(self.result("sender.json")["ok"], False)
        self.assert_nothing_left()

    def test_sender_killed_many_times(self):
        """At as many points of a stream's life as the scheduler gives."""
        path = self.pattern_config(ring=16)
        for _ in range(10):
            receiver, sender = self.stream(path)
            sender.signal(signal.SIGKILL)
            sender.wait()
            self.assert_survivor(receiver, sender)
        self.assert_nothing_left()

    def test_killed_while_a_file_is_written(self):
        output = self.folder / "output"
        output.mkdir()
        sent = random_file(self.folder / "sent", 256 * MIB)
        path = self.config(
            yaml_stream(
                "file",
                message="64 KiB",
                ring=16,
                sender=f"{{rate: 20 Mbps, source: {{type: file, file: {sent}}}}}",
                receiver=f"{{sink: {{type: file, file: {output}/received}}}}",
            )
        )
        for victim in ("send", "receive"):
            with self.subTest(killed=victim):
                children = {"receive": self.start("receive", path), "send": self.start("send", path)}
                children["receive"].wait_line(r"Got \d{2,}")
                dead = children.pop(victim)
                dead.signal(signal.SIGKILL)
                dead.wait()
                (survivor,) = children.values()
                self.assert_survivor(survivor, dead)
                if victim == "send":
                    part = (output / ".received.penstock-part").read_bytes()
                    self.assertEqual(part, sent.read_bytes()[:len(part)])
                    (output / ".received.penstock-part").unlink()
                self.assert_nothing_left(output)

    def test_a_stopped_peer_is_noticed(self):
        receiver, sender = self.stream(self.pattern_config(timeout="6 s"))
        sender.signal(signal.SIGSTOP)
        try:
            self.assert_survivor(receiver, sender)
        finally:
            sender.signal(signal.SIGCONT)

    def test_a_receiver_serves_on_when_one_of_two_senders_dies(self):
        path = self.config(
            yaml_stream("a", message="1462 B", ring=256, sender="{rate: 50 Mbps}")
            + yaml_stream("b", message="1462 B", ring=256, sender="{rate: 50 Mbps, count: 10000}")
        )
        receiver = self.start("receive", path, "--json", self.folder / "receiver.json")
        first = self.start("send", path, "--stream", "a")
        receiver.wait_line(r"a: Got \d{2,}")
        first.signal(signal.SIGKILL)
        first.wait()
        second = self.start("send", path, "--stream", "b")
        self.assertEqual(second.wait(), 0, f"{second}\n{receiver}")
        self.assertEqual(receiver.wait(), 1, str(receiver))
        streams = self.result("receiver.json")["streams"]
        self.assertEqual(streams[1]["messages_delivered"], 10000)
        self.assertEqual(streams[1]["verified"], 10000)


class Descriptors(Case):
    def test_a_sender_that_may_open_few(self):
        """The sender names its own limit, and does not blame the receiver."""
        path = self.config(yaml_stream(sender="{count: 10}"))
        for limit in (20, 26, 27, 28):
            receiver = self.start("receive", path)
            receiver.wait_line("waiting at")
            sender = self.run_program("send", path, expect=None,
                                      prefix=["sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"'])  # fmt: skip
            if sender.status != 0:
                self.assertIn("raise `ulimit -n`", sender.stderr, limit)
                self.assertNotRegex(sender.stderr + receiver.stderr, "the peer's address cannot be used", limit)
            receiver.kill()


class Interrupt(Case):
    def test_first_interrupt_drains_and_accounts(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                out = self.folder / "out.json"
                child = self.start("run", "config/loopback.yaml", "--json", out)
                child.wait_line(r"Got \d{2,}")
                child.signal(number)
                self.assertEqual(child.wait(), 0, str(child))
                stream = self.only_stream(self.result())
                self.assert_accounted(stream)
                self.assertGreater(stream["messages_delivered"], 0)

    def test_interrupted_sender_ends_both_sides_well(self):
        path = self.config(yaml_stream(message="1462 B", ring=256))
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        sender = self.start("send", path)
        receiver.wait_line(r"Got \d{2,}")
        sender.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        self.assert_accounted(self.only_stream(self.result()))
        self.assert_nothing_left()

    def test_interrupted_receiver_ends_both_sides(self):
        path = self.config(yaml_stream(message="1462 B", ring=256))
        receiver = self.start("receive", path, "--json", self.folder / "out.json")
        sender = self.start("send", path, "--json", self.folder / "sender.json")
        receiver.wait_line(r"Got \d{2,}")
        receiver.signal(signal.SIGINT)
        receiver.wait()
        sender.wait()
        stream = self.only_stream(self.result("sender.json"))
        dropped = stream["dropped"]
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"] + sum(dropped.values()))
        self.assertLessEqual(set(dropped), {"aborted"})
        received = self.only_stream(self.result())
        self.assertEqual(received["messages_delivered"], stream["messages_delivered"])
        self.assert_nothing_left()

    def test_interrupt_while_waiting_for_a_peer(self):
        path = self.config(yaml_stream(message="1462 B"))
        for command in ("receive", "send"):
            with self.subTest(command=command):
                child = self.start(command, path)
                child.wait_line("(?i)wait")
                child.signal(signal.SIGINT)
                child.wait()
                self.assertIn(child.status, (0, 1), str(child))

    def test_second_interrupt_is_130(self):
        # A sink that never reads: the drain cannot end by itself.
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        path = self.config(
            yaml_stream(
                message="64 KiB",
                ring=16,
                receiver=f"{{sink: {{type: file, file: {fifo}}}}}",
            )
        )
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        try:
            child = self.start("run", path)
            child.wait_line(r"Got \d+")
            child.signal(signal.SIGINT)
            child.wait_line("(?i)again|drain|finish")
            child.signal(signal.SIGINT)
            self.assertEqual(child.wait(), 130, str(child))
        finally:
            os.close(reader)


if __name__ == "__main__":
    main(side_by_side=4)
