#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport ucx between two machines, over the kernel's TCP."""
import json

import guests
from guests import BUILD, main, tcp_listener
from harness import PROGRAM, ROOT

PLUGIN = BUILD / "transports" / "transport-ucx.so"
MESSAGES = 2000


class Ucx(guests.Case):
    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest(f"{PLUGIN} was not built: it needs libucx-dev")
        super().setUp()

    def penstock(self, name, verb, tls, *more):
        """One side of a stream; the job. Its result is out.json of the guest's folder."""
        settings = [
            "control.address=10.9.0.2:18515",
            "control.insecure=true",
            f"transport.options.tls=\"{tls}\"",
            "streams.packets.timeout=60s",  # a guest on a busy host stands still for seconds
        ]
        words = ["exec", PROGRAM, verb, ROOT / "config" / "ucx.yaml", "--json", "out.json"]
        words += [f"--set '{setting}'" for setting in settings]
        words += [*more]
        self.guest(name).run("rm -f out.json")
        return self.guest(name).start(" ".join(map(str, words)))

    def both(self, tls, *more):
        receiver = self.penstock("b", "receive", tls)
        receiver.await_listener(tcp_listener(18515))
        return receiver, self.penstock("a", "send", tls, *more)

    def stream(self, name):
        (stream,) = json.loads((self.guest(name).folder / "out.json").read_text())["streams"]
        return stream

    def transfer(self, tls, carrier):
        receiver, sender = self.both(tls, "--count", str(MESSAGES))
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.stream("b")
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (MESSAGES, MESSAGES), stream)
        self.assertEqual((stream["corrupted"], stream["dropped"]), (0, {}), stream)
        self.assertEqual((stream["path"], stream["carrier"]), ("direct", carrier), stream)
        return stream

    def test_over_tcp(self):
        stream = self.transfer("tcp,self", "tcp")
        self.assertIn("tcp/eth0", stream["via"])


if __name__ == "__main__":
    main()
