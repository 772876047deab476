#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Effects of udp's options on packets, on the kernel's tables of multicast, and on what arrives; seen by tshark and in
/proc, between two network namespaces, as an ordinary user."""
import pathlib
import re
import signal
import socket
import struct
import subprocess
import time

import netns
from harness import main, wait_until
from netns import FAR, IPV4, IPV6, NEAR, need
from test_foreign_programs import MARKER_PORT, PORT, Between, Program

STRANGER4, STRANGER6 = "10.77.0.9", "fd77::9"  # another address of the near side
GROUP4, GROUP6 = "232.77.0.1", "ff35::7701"  # RFC 4607: for joins by source


class Capture:
    """Returns the packets that tshark sees on one side, as rows of fields."""

    def __init__(self, case, side, what, *fields):
        self.case = case
        what = f"({what}) or udp dst port {MARKER_PORT}"
        command = ["tshark", "-n", "-l", "-i", netns.DEVICE[side], "-f", what, "-T", "fields"]
        # Fragments as they come, not what they make together.
        command += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
        for field in fields:
            command += ["-e", field]
        self.command = [*case.spaces.enter(side), *command]
        case.in_one_of_three(self.begin)

    def begin(self):
        """None once it shows what goes by: one that said it had started was seen to show nothing."""
        self.marked = 0
        self.program = Program(self.case, self.command, output=subprocess.PIPE)
        self.program.wait_line("Capture started")
        try:
            self.rows()
        except AssertionError as error:
            self.program.end()
            return str(error)
        return None

    def rows(self):
        """All that was on its way when this was called."""
        self.marked += 1
        marker = f"echo end >/dev/udp/{IPV4[FAR]}/{MARKER_PORT}"
        self.case.spaces.run(NEAR, "bash", "-c", marker)
        ends = lambda: [l for l in list(self.program.lines) if l.endswith(f"\t{MARKER_PORT}")]
        wait_until(lambda: len(ends()) == self.marked, 30, "tshark has seen the marker")
        lines = [line for line in self.program.lines if "\t" in line]
        return [line.split("\t") for line in lines if not line.endswith(f"\t{MARKER_PORT}")]

    def wait_row(self, pattern):
        shown = lambda: any(re.search(pattern, "\t".join(row)) for row in self.rows())
        wait_until(shown, 60, f"a row like {pattern!r}")


def host_and_port(host):
    return f"[{host}]:{PORT}" if ":" in host else f"{host}:{PORT}"


class Options(Between):
    def setUp(self):
        super().setUp()
        self.spaces.await_multicast()

    def sends(self, host, options, count=20, message=1000, expect=0, rate=0):
        """Send to a receiver without Penstock, whether there is one or not."""
        path = self.file(
            message=message,
            sender=f'{{count: {count}, rate: {rate}, transport: {{options: {{to: "{host_and_port(host)}", '
            f"gso: false, {options}}}}}}}",
        )
        child = self.at(NEAR, "send", path)
        self.ended(child, expect)
        return child

    def receives(self, options, receiver="", *arguments):
        path = self.file(
            receiver=f"{{sink: discard, silence: 0, {receiver}"
            f"transport: {{options: {{port: {PORT}, {options}}}}}}}"
        )
        return self.receiver(path, *arguments)

    def received(self, child):
        """Returns the result of the receiver, ended after it has read all that came to its socket."""
        wait_until(lambda: netns.udp_socket(child.pid, PORT)[0] == 0, 20, "an empty socket")
        child.signal(signal.SIGINT)
        self.ended(child)
        return self.stream_of(FAR)

    def counters(self, stream):
        return stream["receiver"]["counters"]


class InPackets(Options):
    def test_ttl_and_dscp(self):
        need("tshark")
        fields = ("ip.ttl", "ip.dsfield.dscp", "ipv6.hlim", "ipv6.tclass.dscp", "udp.dstport")
        capture = Capture(self, FAR, "udp", *fields)
        self.sends(IPV4[FAR], "ttl: 3, dscp: 46")
        self.sends(IPV6[FAR], "ttl: 4, dscp: 10")
        self.sends("239.77.0.1", "ttl: 5, device: va0", count=5)
        self.sends("ff15::7701", "ttl: 6, device: va0, family: ipv6", count=5)
        self.sends(IPV4[FAR], "ttl: 0", count=5)
        rows = capture.rows()
        v4, v6 = ["", ""], ["", ""]
        self.assertEqual(
            rows,
            20 * [["3", "46", *v6, str(PORT)]]
            + 20 * [[*v4, "4", "10", str(PORT)]]
            + 5 * [["5", "0", *v6, str(PORT)]]
            + 5 * [[*v4, "6", "0", str(PORT)]]
            + 5 * [["64", "0", *v6, str(PORT)]],
        )

    def test_dont_fragment(self):
        """3000 bytes do not fit into the link's 1500, and the sender says so before it sends."""
        need("tshark")
        fields = ("ip.flags.df", "ip.flags.mf", "ip.frag_offset", "ip.len", "udp.dstport")
        capture = Capture(self, FAR, f"ip src {IPV4[NEAR]}", *fields)
        child = self.sends(IPV4[FAR], "dont_fragment: false", count=2, message=3000)
        self.assertRegex(child.stderr, r"IP will fragment messages of more than 1460 bytes.*`message: 1460`")
        fragmented = capture.rows()
        self.assertEqual([row[1] for row in fragmented], ["1", "1", "0"] * 2)
        child = self.sends(IPV4[FAR], "dont_fragment: true", count=10, message=1400)
        self.assertNotRegex(child.stderr, r"IP will fragment")
        child = self.sends(IPV4[FAR], "dont_fragment: true", count=2, message=3000, expect=1)
        self.assertRegex(child.stderr, r"longer than the 1472 bytes.*dont_fragment: false")
        self.assertRegex(child.stderr, r"refuses a message of 3000 B: Message too long")
        self.assertNotRegex(child.stderr, r"is gone")
        whole = capture.rows()[len(fragmented):]
        self.assertEqual([row[:3] for row in whole], [["1", "0", "0"]] * 10)


class BySource(Options):
    """Source-specific multicast: the join, and whose packets come."""

    def setUp(self):
        super().setUp()
        for address in (f"{STRANGER4}/24", f"{STRANGER6}/64"):
            words = ["ip", "address", "add", address, "dev", netns.DEVICE[NEAR]]
            self.spaces.run(NEAR, *words, *(["nodad"] if ":" in address else []))
        # Replies to a stranger go to a MAC address, and are dropped there.
        for address in (STRANGER4, STRANGER6):
            self.spaces.run(FAR, "ip", "neighbour", "add", address, "lladdr", netns.MAC[NEAR],
                            "dev", netns.DEVICE[FAR], "nud", "permanent")

    def table(self, child, name):
        return pathlib.Path(f"/proc/{child.pid}/net/{name}").read_text()

    def run_joined(self, group, source, stranger, check_join):
        child = self.receives(f'device: vb0, group: "{group}", source: "{source}"')
        check_join(child)
        far = f'device: "{stranger}"' if ":" not in group else f'device: "{stranger}", family: ipv6'
        near = far.replace(stranger, source)
        self.sends(group, far, count=50)
        self.sends(group, near, count=70)
        self.sends(group, far, count=50)
        stream = self.received(child)
        self.assertEqual(stream["messages_delivered"], 70)
        self.assertEqual(stream["dropped"], {})
        # They do not even get to the socket.
        self.assertEqual(self.counters(stream)["datagrams"], 70)
        self.assertEqual(self.counters(stream)["not_ours"], 0)

    def test_igmp(self):
        need("tshark")
        fields = ("igmp.version", "igmp.record_type", "igmp.maddr", "igmp.saddr", "udp.dstport")
        capture = Capture(self, NEAR, "igmp", *fields)
        group = socket.inet_aton(GROUP4)

        def joined(child):
            little = f"{struct.unpack('<I', group)[0]:08X}"
            self.assertIn(little, self.table(child, "igmp"))
            words = [f"0x{a.hex()}" for a in (group, socket.inet_aton(IPV4[NEAR]))]
            # index, device, group, source, sockets that include it, that exclude it
            self.assertRegex(
                self.table(child, "mcfilter"), rf"(?m)^ *\d+ +vb0 +{words[0]} +{words[1]} +1 +0$"
            )
            # 5: ALLOW_NEW_SOURCES (RFC 3376, 4.2.12)
            capture.wait_row(rf"^3\t5\t{GROUP4}\t{IPV4[NEAR]}\t")

        self.run_joined(GROUP4, IPV4[NEAR], STRANGER4, joined)

    def test_mld(self):
        need("tshark")
        fields = ("icmpv6.type", "icmpv6.mldr.mar.record_type",
                  "icmpv6.mldr.mar.multicast_address", "icmpv6.mldr.mar.source_address",
                  "udp.dstport")  # fmt: skip
        capture = Capture(self, NEAR, "ip6", *fields)

        def joined(child):
            group, source = (socket.inet_pton(socket.AF_INET6, a).hex() for a in (GROUP6, IPV6[NEAR]))
            self.assertIn(group, self.table(child, "igmp6"))
            self.assertRegex(
                self.table(child, "mcfilter6"), rf"(?m)^ *\d+ +vb0 +{group} +{source} +1 +0$"
            )
            # 143: a report of version 2 (RFC 3810, 5.2); 5: ALLOW_NEW_SOURCES
            capture.wait_row(rf"^143\t5\t{GROUP6}\t{IPV6[NEAR]}\t")

        self.run_joined(GROUP6, IPV6[NEAR], STRANGER6, joined)

    def test_any_source(self):
        """Without `source`, whoever comes first is the sender; the others are not ours."""
        child = self.receives(f'device: vb0, group: "{GROUP6}"')
        self.assertEqual(self.table(child, "mcfilter6").count("\n"), 1)
        self.sends(GROUP6, f'device: "{STRANGER6}", family: ipv6', count=50)
        self.sends(GROUP6, f'device: "{IPV6[NEAR]}", family: ipv6', count=70)
        stream = self.received(child)
        self.assertEqual(stream["messages_delivered"], 50)
        self.assertEqual(self.counters(stream)["not_ours"], 70)


class Departures(Options):
    def test_without_fq_messages_go_at_the_rate_and_the_command_is_named(self):
        receiver = self.receives("reorder: 99")
        began = time.monotonic()
        sender = self.sends(IPV4[FAR], "departure: fq", count=300, rate="8 Mbps")
        self.assertGreater(time.monotonic() - began, 0.295)  # 1 ms each, but for the lead of 2 ms
        stream = self.received(receiver)
        self.assertEqual(stream["messages_delivered"], 300)
        self.assertRegex(sender.stderr, r"times of departure are not kept: the queueing discipline of va0 is noqueue, "
                                        r"and not fq; `tc qdisc replace dev va0 root fq` as root makes it so")  # fmt: skip

    def test_without_etf_the_command_is_named(self):
        child = self.sends(IPV4[FAR], "departure: etf", count=10)
        self.assertRegex(child.stderr, r"of va0 is noqueue, and not etf; `tc qdisc replace dev va0 parent QUEUE etf "
                                       r"clockid CLOCK_TAI delta 300000`")  # fmt: skip


class Stamps(Options):
    def test_a_card_without_a_clock_falls_back_and_says_so(self):
        child = self.receives("reorder: 99", "intervals: true, ",
                              "--set", "transport.options.timestamps=hardware")  # fmt: skip
        self.sends(IPV4[FAR], "ttl: 9", count=30)
        stream = self.received(child)
        self.assertEqual(stream["messages_delivered"], 30)
        self.assertEqual(stream["intervals_ns"]["count"], 29)
        self.assertEqual(self.counters(stream)["software_stamps"], 30)
        self.assertRegex(child.stderr, r"the kernel's stamps are taken; `hwstamp_ctl")

    def test_software(self):
        child = self.receives("reorder: 99", "intervals: true, ")
        self.sends(IPV4[FAR], "ttl: 9", count=30)
        stream = self.received(child)
        self.assertEqual(stream["intervals_ns"]["count"], 29)
        self.assertNotIn("software_stamps", self.counters(stream))


if __name__ == "__main__":
    main()
