#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The plugin ethernet in a kernel that has what this host's may lack: flow rules on DPDK's tap (each
of two streams comes by a queue of its own, the rest by another one, or stays the kernel's where the
tap shares an interface with it; without rules all is the same but for the way), and a network card
that DPDK has by its PCI address."""
import json
import re
import signal

import guests
from guests import BUILD, main, tcp_listener
from harness import PROGRAM

PLUGIN = BUILD / "transports" / "transport-ethernet.so"
PORT = 18515
HOST, BEHIND = "198.51.100.1", "198.51.100.2"  # the kernel, and DPDK's port behind its interface
SHARED, FAR = "10.8.0.1", "10.8.0.2"  # an interface that kernel and port share, and who sends to it


def stream(name, ring, device, tap):
    sender = f"{{transport: {{plugin: udp, options: {{device: {device}, gso: false}}}}, source: pattern, rate: 4 Mbps}}"
    options = f"driver: tap, netdev: pst0, {tap}, mtu: 1444"
    receiver = f"{{transport: {{plugin: ethernet, options: {{{options}}}}}, sink: verify}}"
    more = "expect: {max_loss: 100%}, timeout: 60s"  # what is lost is counted here
    return f"  - {{name: {name}, message: 1400 B, ring: {ring}, sender: {sender}, receiver: {receiver}, {more}}}\n"


class Tap(guests.Case):
    count = 1
    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest("the plugin ethernet is not built: libdpdk was not found")
        super().setUp()

    def transfer(self, *settings, meanwhile, shared=False):
        """Both streams, for as long as the script `meanwhile` runs; the receiver's job and result.
        shared: the tap shares near0 with the kernel, which has the control channel, too."""
        control, device, tap = (SHARED, FAR, "remote: near0") if shared else ("127.0.0.1", HOST, f"address: [{BEHIND}/24]")
        guest = self.guest()
        (guest.folder / "two.yaml").write_text(
            f'penstock: 1\ncontrol: {{address: "{control}:{PORT}", insecure: true}}\nstreams:\n'
            + stream("one", 512, device, tap)
            + stream("two", 1024, device, tap)
        )
        more = " ".join(f"--set {setting}" for setting in settings)
        receiver = guest.start(f"exec {PROGRAM} receive two.yaml --json out.json {more}")
        if not shared:
            # DPDK makes it, and brings it up when the port starts; until then it writes flags that it has read before.
            guest.run("until ip link show pst0 up 2>&1 | grep -q UP,; do sleep 0.05; done")
            guest.run(f"ip address add {HOST}/24 dev pst0")
        receiver.await_listener(tcp_listener(PORT))
        sender = guest.start(f"exec {'ip netns exec far ' if shared else ''}{PROGRAM} send two.yaml")
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
        """The kernel has a rule for each, by which its frames go to its queue. Packets for another UDP port
        have no rule, and arrive all the same."""
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

    def test_two_streams_at_one_port_come_by_two_queues(self):
        """Until their senders are met they share what comes; then each has a rule of its own."""
        shown = "tc -s filter show dev pst0 parent 1:"
        busy = "[ $(%s | grep -cE 'Sent [0-9]+ bytes [0-9]{3,} pkt') = 2 ]" % shown
        settings = [f"streams.{name}.receiver.transport.options.port=5004" for name in ("one", "two")]
        _, result = self.transfer(*settings, meanwhile=f"until {busy}; do sleep 0.05; done; {shown} >shown")
        for one in result["streams"]:
            self.assertEqual(one["via"], "tap, slots", one)
            self.assertEqual(one["dropped"], {}, one)
        rules = (self.guest().folder / "shown").read_text()
        self.assertEqual(set(re.findall(r"dst_port (\d+)", rules)), {"5004"}, rules)
        self.assertEqual(len(set(re.findall(r"src_port (\d+)", rules))), 2, rules)

    def share(self, *settings):
        """Both streams, and what is the kernel's by the same interface: ping, and datagrams for a UDP
        port that nobody has."""
        guest = self.guest()
        guest.run(
            "[ -e /run/netns/far ] && exit; ip netns add far; ip link add near0 type veth peer name far0 netns far\n"
            f"ip address add {SHARED}/24 dev near0; ip link set near0 up\n"
            f"ip -n far address add {FAR}/24 dev far0; ip -n far link set far0 up"
        )
        strays = guest.network_counter("Udp", "NoPorts")
        taken = "tc -s filter show dev near0 ingress"
        busy = "[ $(%s | grep -cE 'Sent [0-9]+ bytes [0-9]{3,} pkt') = 2 ]" % taken
        far = "ip netns exec far"
        receiver, result = self.transfer(
            *settings,
            meanwhile=f"until {busy}; do sleep 0.05; done; {taken} >taken; tc filter show dev pst0 parent 1: >queues\n"
            f"{far} busybox ping -c 2 -w 60 {SHARED}\n"
            f"{far} bash -c 'for i in 1 2 3; do echo stray >/dev/udp/{SHARED}/9; done'",
            shared=True,
        )
        self.assertEqual(guest.network_counter("Udp", "NoPorts") - strays, 3)
        (device,) = result["devices"]
        self.assertEqual(device["counters"]["not_ours"], 0, device)
        shown = (guest.folder / "taken").read_text()
        self.assertEqual(len(set(re.findall(r"dst_port (\d+)", shown))), 2, shown)
        left = guest.run("tc filter show dev near0 ingress; ip link show pst0 2>&1 || :").stdout
        self.assertEqual(left.strip(), 'Device "pst0" does not exist.')
        return receiver, result["streams"], (guest.folder / "queues").read_text()

    def test_kernel_has_the_rest_of_an_interface_that_it_shares(self):
        """Two streams come by two queues; all else is the kernel's, the control channel among it."""
        receiver, streams, queues = self.share()
        self.assertNotIn("in software", receiver.stderr)
        self.assertEqual([one["via"] for one in streams], ["tap, slots"] * 2)
        self.assertEqual(sorted(re.findall(r"skbedit queue_mapping (\d+)", queues)), ["1", "2"], queues)

    def test_kernel_has_the_rest_without_rules(self):
        """But for those that bring both streams to one queue, where software sorts them."""
        settings = [f"streams.{name}.receiver.transport.options.rules=off" for name in ("one", "two")]
        _, streams, queues = self.share(*settings)
        for one in streams:
            self.assertEqual(one["via"], "tap, copy", one)
            self.assertIn("the option `rules` is off", one["path_reason"])
        self.assertEqual(re.findall(r"skbedit queue_mapping (\d+)", queues), ["0", "0"], queues)


CARD = """penstock: 1
control: {address: "%s:18515", insecure: true}
streams:
  - name: packets
    message: 1400 B
    stride: 2048 B
    ring: 2048
    sender: {transport: %s, source: pattern, rate: 4 Mbps, count: 500}
    receiver: {transport: %s, memory: {plugin: host, options: {backing: %s}}, sink: verify}
    expect: {max_loss: 0, verified: true}
"""


class Card(guests.Case):
    """A virtio card, which the kernel gives to uio_pci_generic, and DPDK takes by its address."""

    wires = 2

    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest("the plugin ethernet is not built: libdpdk was not found")
        first = not type(self).guests
        super().setUp()
        if first:
            self.guest("a").run(
                "card=$(basename $(dirname $(readlink -f /sys/class/net/eth1/device))); echo $card >card\n"
                "cd /sys/bus/pci/devices/$card; echo uio_pci_generic >driver_override\n"
                "echo $card >driver/unbind; echo $card >/sys/bus/pci/drivers_probe\n"
                "[ $(basename $(readlink driver)) = uio_pci_generic ]"
            )
            self.guest("b").run("ip address add 10.8.0.2/24 dev eth1; ip link set eth1 mtu 1444 up")
        card = (self.guest("a").folder / "card").read_text().strip()
        self.dpdk = f'{{plugin: ethernet, options: {{device: "{card}", address: [10.8.0.1/24], mtu: 1444}}}}'
        self.kernel = "{plugin: udp, options: {device: 10.8.0.2%s}}"

    def stream(self, sends, backing="auto", huge_pages=96):
        """Between guest a's card and guest b's kernel; the results of receiver and sender."""
        receives = "ab".replace(sends, "")
        gso = ", gso: false" if sends == "b" else ""  # a sender's: the card's driver takes whole frames
        transports = [self.dpdk if name == "a" else self.kernel % gso for name in (sends, receives)]
        self.guest("a").run(f"echo {huge_pages} >/proc/sys/vm/nr_hugepages")
        for name in "ab":
            address = f"10.9.0.{self.guest(receives).number}"
            (self.guest(name).folder / "card.yaml").write_text(CARD % (address, *transports, backing))
        receiver = self.guest(receives).start(f"exec {PROGRAM} receive card.yaml --json out.json")
        receiver.await_listener(tcp_listener(PORT))
        sender = self.guest(sends).start(f"exec {PROGRAM} send card.yaml --json out.json")
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        results = [json.loads((self.guest(name).folder / "out.json").read_text()) for name in (receives, sends)]
        streams = [result["streams"][0] for result in results]
        self.assertEqual([one["messages_delivered"] for one in streams], [500, 500])
        return streams

    def test_without_huge_pages_a_message_names_the_command(self):
        (self.guest("a").folder / "card.yaml").write_text(CARD % ("10.9.0.1", self.kernel % "", self.dpdk, "auto"))
        self.guest("a").run("echo 0 >/proc/sys/vm/nr_hugepages")
        job = self.guest("a").run(f"exec {PROGRAM} receive card.yaml", expect=3)
        self.assertIn("none is free; `echo 512 > /sys/kernel/mm/hugepages", job.stderr)

    def test_card_receives_into_huge_pages(self):
        self.assertEqual(self.stream("b", "huge_2m")[0]["via"], "pci, slots")

    def test_card_does_not_write_into_ordinary_pages(self):
        stream = self.stream("b", "malloc")[0]
        self.assertEqual(stream["via"], "pci, copy")
        self.assertIn("physical addresses, and the ring is not in huge pages", stream["path_reason"])

    def test_card_sends_copies(self):
        self.assertEqual(self.stream("a")[1]["via"], "pci, copy")


if __name__ == "__main__":
    main()
