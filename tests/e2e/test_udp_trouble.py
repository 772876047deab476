#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UDP when things go wrong: a receiver that comes late, is stopped or has too
small a buffer; a sender that is killed and comes again. Nothing stalls,
each loss has its cause, and the next run is clean."""
import os
import re
import signal
import socket

import netns
from harness import Case, main, wait_until, yaml_stream
from test_foreign import free_udp_port

DROPPED_HERE = {"kernel", "no_buffer"}


class Trouble(Case):
    def setUp(self):
        super().setUp()
        self.udp_port = free_udp_port()

    def file(self, control, sender="", receiver="sink: discard", options="", framing="rtp", **parts):
        device = ", device: 127.0.0.1" if control == "none" else ""
        to = f'to: "127.0.0.1:{self.udp_port}"'
        ends = {
            "sender": f"{{transport: {{options: {{{to}}}}}{sender}}}",
            "receiver": f"{{transport: {{options: {{port: {self.udp_port}{options}}}}}, {receiver}}}",
        }
        parts = {"message": "1200 B", "ring": 256, "timeout": "60 s", **ends, **parts}
        return self.write(
            "udp.yaml",
            f"penstock: 1\ncontrol: {control}\n"
            f"transport: {{plugin: udp, options: {{framing: {framing}{device}}}}}\n"
            "streams:\n  " + yaml_stream(**parts).replace("\n", "\n  "),
        )

    def pair_file(self, **parts):
        return self.file(f'{{address: "127.0.0.1:{self.port}"}}', **parts)

    def drops(self, child):
        socket = netns.udp_socket(child.pid, self.udp_port)
        return socket[1] if socket else 0

    def receiver(self, path):
        child = self.start("receive", path, "--json", self.folder / "out.json")
        wait_until(lambda: netns.udp_socket(child.pid, self.udp_port), 20, "a bound socket")
        return child

    def ended(self, child, expect=0):
        self.assertEqual(child.wait(), expect, str(child))
        return self.only_stream(self.result())

    def told_to_end(self, child):
        """Ends a receiver, which nobody else ends, once it has taken all that came to its socket."""
        wait_until(lambda: netns.udp_socket(child.pid, self.udp_port)[0] == 0, 20, "an empty socket")
        child.signal(signal.SIGINT)
        return self.ended(child)

    def assert_clean(self):
        """The next run loses nothing. The kernel holds as much for an ordinary user's receiver,
        which listens where control does."""
        path = self.pair_file(sender=", count: 150, rate: 20 Mbps", receiver="sink: verify")
        receiver = self.receiver(path)
        self.assertEqual(netns.udp_row(receiver.pid, self.udp_port)[1].split(":")[0], "0100007F")
        self.run_program("send", path)
        stream = self.ended(receiver)
        self.assertEqual(stream["dropped"], {})
        self.assertEqual(stream["verified"], 150)


def write_all(fd, data):
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


class Forged(Trouble):
    def test_nobody_sends_from_the_port_of_a_sender_without_nonce(self):
        """Its socket is bound to 127.0.0.1 alone once it is connected. From elsewhere comes what is
        counted and told."""
        source_port = free_udp_port()
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        path = self.pair_file(
            framing="none",
            message="1000 B",
            sender=f", source: {{type: file, file: {fifo}}}",
            receiver="sink: discard",
            expect="{max_loss: 0}",
        )
        receiver = self.receiver(path)
        sender = self.start("send", path, "--set", f"transport.options.source_port={source_port}")
        receiver.wait_line("peer:")
        for address, reuse in (("127.0.0.2", 0), ("127.0.0.2", 1), ("127.0.0.1", 1)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuse)
                with self.assertRaises(OSError, msg=address):
                    other.bind((address, source_port))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for _ in range(20):
                other.sendto(b"E" * 1000, ("127.0.0.1", self.udp_port))
        with open(fifo, "wb") as file:
            file.write(b"a" * 200000)
        self.assertEqual(sender.wait(), 0, str(sender))
        stream = self.ended(receiver)
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (200, 200))
        self.assertEqual(stream["receiver"]["counters"]["not_ours"], 20)
        self.assertRegex(receiver.stderr, r"another address or port than the sender: \d+ so far .*not_ours")


class Unnumbered(Trouble):
    def test_verify_says_that_it_cannot_know_what_comes_behind_a_loss(self):
        path = self.pair_file(framing="none", sender=", count: 10", receiver="sink: verify",
                              expect="{max_loss: 1}")
        receiver = self.receiver(path)
        self.run_program("send", path)
        self.ended(receiver)
        self.assertRegex(receiver.stderr, "warning: .*has no sequence numbers.*set framing: sequence")
        self.assertEqual(self.result()["warnings"][0]["code"], "unnumbered")


class Receiver(Trouble):
    def test_started_under_full_traffic(self):
        path = self.file("none", sender=", rate: 0")
        sender = self.start("send", path)
        sender.wait_line("messages of up to")
        # The receiver may have all its messages before its socket could be seen.
        receiver = self.start("receive", path, "--json", self.folder / "out.json", "--count", "20000")
        stream = self.ended(receiver)
        sender.signal(signal.SIGINT)
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(stream["messages_delivered"], 20000)
        self.assertEqual(stream["sent_basis"], "sequence")
        self.assert_accounted(stream)
        self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
        self.assert_clean()

    def stopped(self, path, line=None):
        """Stop the receiver until the kernel has dropped what is for it, then the sender, once it
        has such a line; who received, and how many messages were sent."""
        receiver = self.receiver(path)
        sender = self.start("send", path, "--json", self.folder / "sent.json")
        receiver.wait_line("peer: |listening on")
        sender.wait_line("peer: |sending from")
        receiver.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: self.drops(receiver) > 100, 20, "the kernel drops")
        finally:
            receiver.signal(signal.SIGCONT)
        if line:
            sender.wait_line(line)
        sender.signal(signal.SIGINT)
        self.assertEqual(sender.wait(), 0, str(sender))
        return receiver, self.only_stream(self.result("sent.json"))["messages_sent"]

    def test_stopped_and_continued(self):
        path = self.pair_file(
            sender=", rate: 500 Mbps",
            receiver="sink: verify",
            options=", gro: false, rcvbuf: 256 KiB",
        )
        # The receiver's heartbeats tell its sender of losses.
        receiver, sent = self.stopped(path, r"Sent \d+ .*\| [1-9]\d* dropped")
        stream = self.ended(receiver)
        self.assertEqual(stream["messages_sent"], sent)
        self.assert_accounted(stream)
        self.assertGreater(sum(stream["dropped"].values()), 100)
        self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assert_clean()

    def test_stopped_without_numbers(self):
        """The kernel drops buffers of many messages; how many, the sender's total tells."""
        path = self.pair_file(
            sender=", rate: 500 Mbps", options=", rcvbuf: 256 KiB", framing="none"
        )
        receiver, sent = self.stopped(path)
        stream = self.ended(receiver)
        self.assertEqual(stream["messages_sent"], sent)
        self.assert_accounted(stream)
        self.assertGreater(sum(stream["dropped"].values()), 100)
        self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
        self.assertEqual(stream["dropped_basis"], "counted")

    def test_stopped_without_numbers_and_total(self):
        """Without that, each buffer is one message at least; or it is one."""
        for gro, basis in (("true", "at_least"), ("false", "counted")):
            with self.subTest(basis):
                options = f", rcvbuf: 256 KiB, gro: {gro}"
                # Many messages a buffer, however fast the machine is.
                path = self.file("none", sender=", chunk: 64, sleep: 1 ms", options=options,
                                 framing="none")  # fmt: skip
                receiver, sent = self.stopped(path)
                stream = self.told_to_end(receiver)
                dropped = sum(stream["dropped"].values())
                self.assertIsNone(stream["messages_sent"])
                self.assertEqual(stream["dropped_basis"], basis)
                self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
                if basis == "counted":
                    self.assertEqual(stream["messages_delivered"] + dropped, sent)
                else:
                    self.assertLess(stream["messages_delivered"] + dropped, sent)
                    self.assertRegex(receiver.stderr, r"dropped: at least \d+ ")

    def test_too_small_a_buffer(self):
        path = self.pair_file(
            sender=", count: 50000, rate: 0", options=", gro: false, rcvbuf: 4 KiB"
        )
        receiver = self.receiver(path)
        self.assertEqual(self.run_program("send", path).status, 0)
        stream = self.ended(receiver)
        self.assertEqual(stream["messages_sent"], 50000)
        self.assert_accounted(stream)
        self.assertGreater(stream["dropped"].get("kernel", 0), 0)
        self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
        self.assertRegex(receiver.stderr, r"LOSS \d")
        self.assertRegex(receiver.stderr, r"a larger `rcvbuf`")
        self.assert_clean()

    def test_what_is_lost_behind_the_last_has_its_cause_too(self):
        """The receiver stands still until the sender is through with the rest: what its
        buffer does not hold, the kernel has dropped, in buffers of many messages."""
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        path = self.pair_file(
            sender=f", rate: 0, source: {{type: file, file: {fifo}}}", options=", rcvbuf: 512 KiB"
        )
        receiver = self.receiver(path)
        sender = self.start("send", path)
        sender.wait_line("peer: ")  # and has opened it
        feed = os.open(fifo, os.O_WRONLY)
        some = os.urandom(1200 * 1000)
        try:
            write_all(feed, some)
            receiver.wait_line("Got [1-9]")  # not before: the sender might still want its leave to begin
            receiver.signal(signal.SIGSTOP)
            for _ in range(29):
                write_all(feed, some)
        finally:
            os.close(feed)
        try:
            said = lambda: re.findall(r"Sent (\d+) packets", sender.stderr)
            wait_until(lambda: sum(map(int, said())) == 30000, 30, "all is sent")
        finally:
            receiver.signal(signal.SIGCONT)
        self.assertEqual(sender.wait(), 0, str(sender))
        stream = self.ended(receiver)
        self.assert_accounted(stream)
        self.assertGreater(sum(stream["dropped"].values()), 100)
        self.assertLessEqual(set(stream["dropped"]), DROPPED_HERE)
        self.assert_clean()


class Sender(Trouble):
    def test_its_line_has_no_zero_for_unknown_counts(self):
        """The wire takes all. A sender learns of loss from its receiver, which does not know either.
        After a second that one says that nothing arrives, and what to look at."""
        path = self.pair_file(sender=", rate: 10 Mbps")
        lossy = "transport={plugin: udp, options: {device: 127.0.0.1, framing: rtp}, " \
            "filters: [{plugin: fault, options: {drop_ppm: 1000000}}]}"
        receiver = self.receiver(path)
        sender = self.start("send", path, "--set", lossy)
        line = sender.wait_line(r"Sent \d+ .*Mbps")
        self.assertRegex(sender.stderr, r"Sent \d+ .*loss \? \|", line)
        self.assertNotRegex(sender.stderr, r"\| 0 dropped")
        receiver.wait_line(r"none of the [1-9].* has arrived yet.*on 127\.0\.0\.1.*`device`")
        receiver.wait_line(r"Got 0 packets .*loss \? \|")
        self.assertNotRegex(receiver.stderr, r"\| 0 dropped")
        for child in (sender, receiver):
            child.signal(signal.SIGINT)
            child.wait()

    def test_killed_and_started_again(self):
        path = self.file("none", sender=", rate: 200 Kbps")
        receiver = self.receiver(path)
        for ends in range(3):
            sender = self.start("send", path)
            receiver.wait_line(r"Got [1-9]" if ends == 0 else rf"\| {ends} restart")
            sender.kill()
        stream = self.told_to_end(receiver)
        self.assertEqual(stream["restarts"], 2)
        self.assertGreater(stream["messages_delivered"], 0)
        self.assert_accounted(stream)
        # Only datagrams from before the last sender was known to be silent are dropped.
        self.assertLessEqual(set(stream["dropped"]), {"displaced"})
        self.assert_clean()

    def test_killed_is_no_failure(self):
        path = self.file("none", sender=", rate: 200 Kbps", receiver="silence: 6 s")
        receiver = self.receiver(path)
        sender = self.start("send", path)
        receiver.wait_line(r"Got [1-9]")
        sender.kill()
        stream = self.ended(receiver)
        self.assertEqual(stream["sent_basis"], "sequence")
        self.assertEqual(stream["loss"], 0)
        self.assert_clean()


if __name__ == "__main__":
    main(side_by_side=2)
