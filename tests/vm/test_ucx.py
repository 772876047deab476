#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport ucx between two machines, over the kernel's TCP and over soft-RoCE."""
import json

import guests
from guests import BUILD, main, tcp_listener
from harness import PROGRAM, ROOT

PLUGIN = BUILD / "transports" / "transport-ucx.so"
MESSAGES = 2000
# UCX 1.13 takes each packet that soft-RoCE has brought by IPv4 for one of another GID. GID 0 is of IPv6.
BY_IPV6 = {"UCX_IB_GID_INDEX": "0"}


class Ucx(guests.Case):
    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest(f"{PLUGIN} was not built: it needs libucx-dev")
        super().setUp()

    def penstock(self, name, verb, tls, *more, environment):
        """One side of a stream; the job. Its result is out.json of the guest's folder."""
        settings = [
            "control.address=10.9.0.2:18515",
            "control.insecure=true",
            f"transport.options.tls=\"{tls}\"",
            "streams.packets.timeout=60s",  # a guest on a busy host stands still for seconds
        ]
        words = ["exec env", *(f"{key}={value}" for key, value in environment.items()), PROGRAM, verb, ROOT / "config" / "ucx.yaml", "--json", "out.json"]
        words += [f"--set '{setting}'" for setting in settings]
        words += [*more]
        self.guest(name).run("rm -f out.json")
        return self.guest(name).start(" ".join(map(str, words)))

    def both(self, tls, *more, environment):
        receiver = self.penstock("b", "receive", tls, environment=environment)
        receiver.await_listener(tcp_listener(18515))
        return receiver, self.penstock("a", "send", tls, *more, environment=environment)

    def stream(self, name):
        (stream,) = json.loads((self.guest(name).folder / "out.json").read_text())["streams"]
        return stream

    def transfer(self, tls, carrier, environment={}):
        receiver, sender = self.both(tls, "--count", str(MESSAGES), environment=environment)
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

    def test_over_ud(self):
        stream = self.transfer("ud_verbs,self", "rdma", BY_IPV6)
        self.assertIn("ud_verbs/rxe0:1", stream["via"])

    def test_over_rc(self):
        stream = self.transfer("rc_verbs,ud_verbs:aux,self", "rdma", BY_IPV6)
        self.assertIn("rc_verbs/rxe0:1", stream["via"])


if __name__ == "__main__":
    main()
