#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config/udp.yaml between two machines, kernel to kernel: every message is accounted for,
on a wire that works and on one that loses; and with times of departure, which the kernel keeps."""
import json
import re

import guests
from guests import main, tcp_listener
from harness import PROGRAM, ROOT

MESSAGES_MBPS = 40  # well below what two emulated machines do
MESSAGES = 10000  # 3 s of them


class Transfers(guests.Case):
    def penstock(self, name, verb, address, *more):
        """One side; the job. Its result is out-NAME.json of the guest's folder."""
        settings = [
            "control.address=10.9.0.2:18515",
            "control.insecure=true",
            f"transport.options.device={address}",
            f"streams.packets.sender.rate={MESSAGES_MBPS}Mbps",
            "streams.packets.expect.max_loss=100%",  # what is lost is counted here
            "streams.packets.timeout=60s",  # a guest on a busy host stands still for seconds
        ]
        words = [PROGRAM, verb, ROOT / "config" / "udp.yaml", "--json", "out.json"]
        words += [word for setting in settings for word in ("--set", setting)] + list(more)
        self.guest(name).run("rm -f out.json")
        return self.guest(name).start("exec " + " ".join(map(str, words)))

    def stream(self, name):
        result = json.loads((self.guest(name).folder / "out.json").read_text())
        (stream,) = result["streams"]
        return stream

    def transfer(self):
        receiver = self.penstock("b", "receive", "10.9.0.2")
        receiver.await_listener(tcp_listener(18515))
        sender = self.penstock("a", "send", "10.9.0.1", "--count", str(MESSAGES))
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.stream("b")
        self.assertEqual(stream["corrupted"], 0, stream)
        dropped = sum(stream["dropped"].values())
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"] + dropped, stream)
        self.assertGreater(stream["messages_delivered"], 1000, stream)
        self.assertEqual(stream["messages_sent"], MESSAGES, stream)
        self.assertEqual(self.stream("a")["messages_sent"], MESSAGES)
        return stream


class Udp(Transfers):
    def test_a_good_wire_loses_nothing(self):
        self.assertNotIn("wire", self.transfer()["dropped"])

    def test_what_a_wire_loses_is_counted_as_lost_there(self):
        with self.guest("a").netem("loss 1%"):
            lost = self.transfer()["dropped"]["wire"]
            shown = self.guest("a").run("tc -s qdisc show dev eth0").stdout
        # The kernel's own count has the control channel's losses in it, too.
        self.assertLessEqual(lost, int(re.search(r"dropped (\d+)", shown)[1]), shown)
        self.assertGreater(lost, 10)

    def test_a_wire_that_reorders_corrupts_nothing(self):
        with self.guest("a").netem("delay 2ms reorder 99%"):
            stream = self.transfer()
        self.assertGreater(stream["reordered"], 0, stream)


class Departures(Transfers):
    """At 2 ms from message to message: each waits in the kernel for as long as core hands it over ahead."""

    SETTINGS = ["streams.packets.sender.rate=5.824Mbps", "streams.packets.receiver.intervals=true",
                "transport.options.gro=false"]  # fmt: skip

    def paced(self, *settings, count=1500, meanwhile=lambda: None):
        more = [word for setting in (*self.SETTINGS, *settings) for word in ("--set", setting)]
        receiver = self.penstock("b", "receive", "10.9.0.2", *more)
        receiver.await_listener(tcp_listener(18515))
        sender = self.penstock("a", "send", "10.9.0.1", "--count", str(count), *more)
        meanwhile()
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.stream("b")
        dropped = sum(stream["dropped"].values())
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"] + dropped, stream)
        self.assertEqual(stream["messages_sent"], count, stream)
        return stream, sender

    def queued(self, queueing, shown):
        """A case's queueing discipline on the sender's side; what it has counted, at the end."""
        self.guest("a").run(f"tc qdisc replace dev eth0 {queueing}")
        self.addCleanup(self.guest("a").run, "tc qdisc del dev eth0 root")
        return lambda: re.search(shown, self.guest("a").run("tc -s qdisc show dev eth0").stdout)

    def test_fq_holds_each_message_until_its_time(self):
        without, _ = self.paced()
        throttled = self.queued("root fq", r"highprio \d+ throttled (\d+)")
        stream, sender = self.paced("transport.options.departure=fq")
        self.assertNotIn("departure", sender.stderr)
        self.assertGreater(int(throttled()[1]), 100)  # several messages of a busy host may wait for one timer
        self.assertGreater(stream["messages_delivered"], 1400, stream)
        for name, those in (("rate alone", without), ("fq", stream)):
            gaps = those["intervals_ns"]
            print(f"{name}: gaps of p50 {gaps['p50']} ns, p99 {gaps['p99']} ns, mean {gaps['mean']} ns")
        # Never sooner; a sender that its host leaves without a CPU for a while is later.
        self.assertGreater(stream["intervals_ns"]["mean"] / 2e6, 0.8)

    def test_what_etf_drops_is_counted_by_cause(self):
        """With 20 us from etf's timer to the departure, an emulated machine misses most, and beside a
        load all, until etf is taken away."""
        self.guest("a").run("tc qdisc replace dev eth0 root handle 1: prio")
        shown = r"qdisc etf(?s:.*?)overlimits (\d+)"
        missed = self.queued("parent 1:3 etf clockid CLOCK_TAI delta 20000", shown)
        last = []

        def take_away():
            guests.wait_until(lambda: int(missed()[1]) > 100, 60, "etf has dropped more than 100")
            both = "qdisc show dev eth0\\nqdisc del dev eth0 parent 1:3\\n"
            last.append(re.search(shown, self.guest("a").run(f"printf '{both}' | tc -s -batch -").stdout)[1])

        stream, sender = self.paced(
            "transport.options.departure=etf", "transport.options.dscp=2", count=3000, meanwhile=take_away
        )
        self.assertNotIn("are not kept", sender.stderr)
        self.assertRegex(sender.stderr, "etf drops messages whose time of departure has passed")
        counted = stream["dropped"]["departure_missed"]
        self.assertGreater(counted, 100, stream)
        # On a busy host some are dropped between the two commands. The packets that etf holds then go with
        # it, uncounted.
        self.assertGreaterEqual(counted, int(last[0]), stream)
        self.assertIn(stream["messages_sent"] - stream["messages_delivered"] - counted, range(20), stream)


if __name__ == "__main__":
    main()
