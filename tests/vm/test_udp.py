#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config/udp.yaml between two machines, kernel to kernel: every message is accounted for,
on a wire that works and on one that loses."""
import json
import re

import guests
from guests import main, tcp_listener
from harness import PROGRAM, ROOT

MESSAGES_MBPS = 40  # well below what two emulated machines do
MESSAGES = 10000  # 3 s of them


class Udp(guests.Case):
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
        words = [PROGRAM, verb, ROOT / "config" / "udp.yaml", "--json", "out.json", *more]
        words += [word for setting in settings for word in ("--set", setting)]
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


if __name__ == "__main__":
    main()
