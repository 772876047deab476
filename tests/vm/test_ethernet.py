#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plugin ethernet on DPDK's tap in a kernel that has flow rules: each of two streams comes by a
queue of its own, the rest by another one, and without rules all is the same but for the way."""
import json
import re
import signal

import guests
from guests import BUILD, main, tcp_listener
from harness import PROGRAM

PLUGIN = BUILD / "transports" / "transport-ethernet.so"
PORT = 18515
HOST, BEHIND = "198.51.100.1", "198.51.100.2"  # the kernel, and DPDK's port behind its interface


def stream(name, ring):
    sender = f"{{transport: {{plugin: udp, options: {{device: {HOST}, gso: false}}}}, source: pattern, rate: 4 Mbps}}"
    tap = f"driver: tap, netdev: pst0, address: [{BEHIND}/24], mtu: 1444"
    receiver = f"{{transport: {{plugin: ethernet, options: {{{tap}}}}}, sink: verify}}"
    more = "expect: {max_loss: 100%}, timeout: 60s"  # what is lost is counted here
    return f"  - {{name: {name}, message: 1400 B, ring: {ring}, sender: {sender}, receiver: {receiver}, {more}}}\n"


class Tap(guests.Case):
    count = 1

    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest("the plugin ethernet is not built: libdpdk was not found")
        super().setUp()

    def transfer(self, *settings, meanwhile):
        """Both streams, for as long as the script `meanwhile` runs; the receiver's job and result."""
        guest = self.guest()
        (guest.folder / "two.yaml").write_text(
            f'penstock: 1\ncontrol: {{address: "127.0.0.1:{PORT}"}}\nstreams:\n'
            + stream("one", 512)
            + stream("two", 1024)
        )
        more = " ".join(f"--set {setting}" for setting in settings)
        receiver = guest.start(f"exec {PROGRAM} receive two.yaml --json out.json {more}")
        # DPDK makes it, and brings it up when the port starts; until then it writes flags that it has read before.
        guest.run("until ip link show pst0 up 2>&1 | grep -q UP,; do sleep 0.05; done")
        guest.run(f"ip address add {HOST}/24 dev pst0")
        receiver.await_listener(tcp_listener(PORT))
        sender = guest.start(f"exec {PROGRAM} send two.yaml")
        guest.run(meanwhile)
        sender.signal(signal.SIGINT)
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        result = json.loads((guest.folder / "out.json").read_text())
        for one in result["streams"]:
            self.assertEqual(one["messages_sent"], one["messages_delivered"] + sum(one["dropped"].values()), one)
            self.assertGreater(one["messages_delivered"], 100, one)
            self.assertEqual(one["verified"], one["messages_delivered"], one)
        return receiver, result

    def test_two_streams_come_by_two_queues(self):
        """The kernel has a rule for each, by which its frames go to its queue. What is for another
        UDP port has none, and comes all the same."""
        shown = "tc -s filter show dev pst0 parent 1:"
        busy = "[ $(%s | grep -cE 'Sent [0-9]+ bytes [0-9]{3,} pkt') = 2 ]" % shown
        other = f"bash -c 'echo stray >/dev/udp/{BEHIND}/9'"
        receiver, result = self.transfer(meanwhile=f"until {busy}; do sleep 0.05; done; {shown} >shown; {other}")
        self.assertNotIn("in software", receiver.stderr)
        for one in result["streams"]:
            self.assertEqual(one["via"], "tap, slots", one)
        rules = (self.guest().folder / "shown").read_text()
        self.assertEqual(sorted(re.findall(r"skbedit queue_mapping (\d+)", rules)), ["1", "2"], rules)
        self.assertEqual(len(set(re.findall(r"dst_port (\d+)", rules))), 2, rules)
        (device,) = result["devices"]
        self.assertGreater(device["counters"]["not_ours"], 0, device)

    def test_without_rules_all_arrives_by_one_queue(self):
        settings = [f"streams.{name}.receiver.transport.options.rules=off" for name in ("one", "two")]
        sent = "ip -s link show pst0 | awk '/TX:/ {getline; print $2}'"
        _, result = self.transfer(*settings, meanwhile=f"until [ $({sent}) -gt 1000 ]; do sleep 0.05; done")
        for one in result["streams"]:
            self.assertEqual(one["via"], "tap, copy", one)
            self.assertIn("the option `rules` is off", one["path_reason"])


if __name__ == "__main__":
    main()
