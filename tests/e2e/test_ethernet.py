# SPDX-License-Identifier: Apache-2.0
"""The plugin ethernet on DPDK's own links: shared memory, and interfaces of two namespaces; there
beside programs that we did not write, too."""
import os
import pathlib
import re
import signal
import subprocess
import sys

import netns
import test_foreign_programs as foreign
from harness import BUILD, Case, main, wait_until, yaml_stream
from netns import DEVICE, FAR, IPV4, NEAR

PLUGIN = BUILD / "transports" / "transport-ethernet.so"
RUNTIME = pathlib.Path("/var/run/dpdk")
DURATION = "500ms"
# A mount namespace of its own.
ALONE = ["unshare", *([] if os.getuid() == 0 else ["-Ur"]), "--mount"]


class Ethernet(Case):
    def setUp(self):
        super().setUp()
        if not PLUGIN.exists():
            self.skipTest("the plugin ethernet is not built: libdpdk was not found")

    def tearDown(self):
        left = {path.name for child in self.children for path in RUNTIME.glob(f"penstock-{child.pid}-*")}
        self.assertEqual(left, set(), RUNTIME)
        super().tearDown()

    def yaml(self, transport, name="stream.yaml", address="127.0.0.1", control="insecure: true", **stream):
        stream = {
            "message": "1400 B",
            "ring": "4096",
            "sender": "{source: pattern, rate: 200 Mbps}",
            "receiver": "{sink: verify}",
            "expect": "{max_loss: 90%, max_corrupted: 0, verified: true}",
            **stream,
        }
        return self.write(
            name,
            "penstock: 1\n"
            f'control: {{address: "{address}:{self.port}", {control}}}\n'
            f"transport: {transport}\n"
            "streams:\n"
            + "".join(f"  {line}\n" for line in yaml_stream(**stream).splitlines()),
        )

    def both(self, receiving, sending, prefixes=((), ()), sender_arguments=("--duration", DURATION)):
        """The results of a receiver and of its sender, which agree."""
        out = [self.folder / "receiver.json", self.folder / "sender.json"]
        receiver = self.start("receive", receiving, "--json", out[0], prefix=prefixes[0])
        sender = self.start("send", sending, *sender_arguments, "--json", out[1], prefix=prefixes[1])
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        streams = [self.only_stream(self.result(path.name)) for path in out]
        for stream in streams:
            self.assert_accounted(stream)
            self.assertGreater(stream["messages_delivered"], 0)
            self.assertEqual(stream["verified"], stream["messages_delivered"])
        for key in ("messages_sent", "messages_delivered", "dropped"):
            self.assertEqual(streams[0][key], streams[1][key], key)
        return streams


class OneHost(Ethernet):
    def memif(self, more=""):
        return f"{{plugin: ethernet, options: {{driver: memif, socket: {self.folder}/s{more}}}}}"

    def test_ring_in_one_process(self):
        config = self.yaml("{plugin: ethernet, options: {driver: ring, device: wire}}")
        result, child = self.run_json("run", config, "--duration", DURATION)
        stream = self.only_stream(result)
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"], child)
        self.assertEqual(stream["via"], "ring, copy")

    def test_first_run_since_boot(self):
        """Nothing of DPDK's is in /run yet, and nothing is afterwards, whatever the sandbox allows."""
        config = self.yaml("{plugin: ethernet, options: {driver: ring, device: wire}}")
        script = 'mount -t tmpfs none /run && "$@" && test ! -e /run/dpdk'
        self.run_program("run", config, "--count", 100, prefix=(*ALONE, "sh", "-c", script, "sh"))

    def test_memif_receives_into_slots(self):
        """The sender waits for a receiver that has no CPU for a while: nothing is lost."""
        config = self.yaml(self.memif(", patience: 10 s"))
        streams = self.both(config, config)
        self.assertEqual(streams[0]["dropped"], {}, streams)
        self.assertEqual(streams[0]["via"], "memif, slots")
        self.assertEqual(streams[1]["via"], "memif, reference")
        self.assertFalse((self.folder / "s").exists(), "the server's socket is left")

    def test_small_rings_do_not_stall(self):
        """A tenth of the 1088 slots that 1024 descriptors ask for, and less than memif's bulk of
        32. What does not fit the ring stays with the sender, or has its cause."""
        for slots, receive in (("108", "slots"), ("16", "slots"), ("16", "copy")):
            with self.subTest(ring=slots, receive=receive):
                config = self.yaml(self.memif(f", receive: {receive}, patience: 10 ms, mtu: 1454"),
                                   message="1410 B", ring=slots,
                                   sender="{source: pattern}", expect="{verified: true}")  # fmt: skip
                stream = self.both(config, config, sender_arguments=("--duration", "300ms"))[0]
                self.assertEqual(stream["via"], f"memif, {receive}")
                self.assertGreater(stream["messages_delivered"], 100)
                self.assertLessEqual(set(stream["dropped"]), {"device_full", "no_buffer"})
                self.port += 1

    def two_streams(self, receiver="{sink: verify}", first="{sink: verify}", more=""):
        """Returns the receiver's result of both streams. The second one's ring, if it has one, is its own."""
        second = yaml_stream(name="more", message="1400 B", ring="4096",
                             sender="{source: pattern, rate: 50 Mbps}",
                             receiver=receiver, expect="{max_loss: 50%}")
        config = self.yaml(self.memif(more), receiver=first)
        config.write_text(config.read_text() + "".join(f"  {line}\n" for line in second.splitlines()))
        out = self.folder / "receiver.json"
        receiver = self.start("receive", config, "--json", out)
        sender = self.start("send", config, "--duration", DURATION)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        streams = self.result(out.name)["streams"]
        for stream in streams:
            self.assert_accounted(stream)
            self.assertGreater(stream["messages_delivered"], 0)
            self.assertEqual(stream["verified"], stream["messages_delivered"])
        return streams

    def test_consumer_that_stands_still_holds_up_nobody(self):
        """Messages that the sender then drops have their cause, and those that it sends afterwards arrive."""
        config = self.yaml(self.memif(", patience: 10 ms"), expect="{verified: true}", ring="1088")
        out = self.folder / "receiver.json"
        receiver = self.start("receive", config, "--json", out)
        sender = self.start("send", config)
        receiver.wait_line("Got [1-9]")

        def told():
            return sum("packets: Got " in line and "Got 0" not in line for line in list(receiver.lines["stderr"]))

        with receiver.stopped():
            sender.wait_line("stays full")
            before = told()
        wait_until(lambda: told() > before + 1, 60, "messages that came afterwards")  # not what it had already
        sender.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        stream = self.only_stream(self.result(out.name))
        self.assert_accounted(stream)
        self.assertGreater(stream["dropped"]["device_full"], 0, stream)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.port += 1
        self.both(*[self.yaml(self.memif(), name="next.yaml")] * 2)

    def test_memif_copies_into_two_rings(self):
        for stream in self.two_streams():
            self.assertEqual(stream["via"], "memif, copy")
            self.assertIn("several rings share its queue: its driver has no flow rules", stream["path_reason"])

    def test_streams_that_share_a_ring_receive_into_its_slots(self):
        for stream in self.two_streams("{sink: verify, share: packets}"):
            self.assertEqual(stream["via"], "memif, slots")

    def test_streams_at_one_udp_port_are_told_apart_by_their_senders(self):
        for framing in ("sequence", "rtp"):
            with self.subTest(framing):
                port = "{transport: {options: {port: 5004}}, sink: verify}"
                for stream in self.two_streams(port, port, f", framing: {framing}"):
                    counters = stream["receiver"]["counters"]
                    self.assertEqual((counters["not_ours"], counters["wrong_nonce"]), (0, 0), stream)
                self.port += 1

    def test_foreign_streams_at_one_udp_port_follow_a_sender_each(self):
        """The second stream's sender comes first; the first stream names its own."""
        receivers = ["{transport: {options: {port: 5004, source: '192.0.2.2:7001'}}, sink: discard}",
                     "{transport: {options: {port: 5004}}, sink: discard}"]  # fmt: skip
        count = (300, 500)
        streams = ["".join(f"  {line}\n" for line in yaml_stream(
            name=f"s{i}", message="1000 B", ring="1088", receiver=receivers[i], timeout="20 s",
            sender="{transport: {options: {to: '192.0.2.1:5004', source_port: %d}}, source: pattern, rate: 5 Mbps, count: %d}"
            % (7001 + i, count[i])).splitlines()) for i in (0, 1)]  # fmt: skip
        link = f"driver: memif, socket: {self.folder}/s, framing: rtp"
        files = [self.write(f"{name}.yaml", "penstock: 1\ncontrol: none\n"
                            f"transport: {{plugin: ethernet, options: {{{link}, address: [192.0.2.{host}/24]}}}}\n"
                            "streams:\n" + "".join(streams))
                 for name, host in (("receive", 1), ("send", 2))]  # fmt: skip
        out = self.folder / "receiver.json"
        receiver = self.start("receive", files[0], "--json", out)
        wait_until(lambda: (self.folder / "s").exists(), 20, "the receiver's socket")
        self.run_program("send", files[1])

        def told(stream):
            lines = [re.search(rf"s{stream}: Got (\d+) packets", line) for line in list(receiver.lines["stderr"])]
            return [int(match[1]) for match in lines if match]

        # Both have had something, and then nothing for a second.
        wait_until(lambda: all(sum(told(stream)) > 0 and told(stream)[-1] == 0 for stream in (0, 1)), 20, "the end of both")
        receiver.signal(signal.SIGINT)
        receiver.wait()
        for stream, sent in zip(self.result(out.name)["streams"], count):
            self.assertTrue(sent / 2 < stream["messages_delivered"] <= sent, stream)  # a busy machine loses some

    def test_server_that_was_killed_leaves_no_obstacle(self):
        config = self.yaml(self.memif())
        receiver = self.start("receive", config)
        receiver.wait_line("waiting at")
        receiver.kill()
        self.assertTrue((self.folder / "s").exists())
        self.both(config, config)  # which removes its folder of DPDK's, too

    def test_second_server_is_refused_in_words(self):
        config = self.yaml(self.memif())
        receiver = self.start("receive", config)
        receiver.wait_line("waiting at")
        self.port += 1
        second = self.run_program("receive", self.yaml(self.memif(), name="second.yaml"), expect=3)
        self.assertIn("another program listens", second.stderr)
        receiver.kill()

    def test_slots_are_refused_where_the_driver_copies(self):
        options = "{driver: ring, device: wire, receive: slots}"
        config = self.yaml(f"{{plugin: ethernet, options: {options}}}")
        child = self.run_program("run", config, expect=3)
        self.assertIn("receives into memory of its own", child.stderr)

    def test_interface_that_is_not_there(self):
        config = self.yaml("{plugin: ethernet, options: {driver: af_packet, netdev: nowhere0}}")
        child = self.run_program("receive", config, expect=3)
        self.assertIn("there is no interface nowhere0", child.stderr)

    def test_card_without_huge_pages_names_the_command(self):
        free = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
        if free.exists() and int(free.read_text()):
            self.skipTest("this machine has huge pages")
        config = self.yaml('{plugin: ethernet, options: {device: "0000:ff:1f.6"}}')
        child = self.run_program("receive", config, expect=3)
        self.assertIn("none is free; `echo 512 > /sys/kernel", child.stderr)
        self.assertNotIn("EAL", child.stderr)
        self.assertEqual(child.stdout, "")

    def test_options_are_judged_without_a_device(self):
        for options, words in (
            ("{driver: memif}", "the path of a Unix socket"),
            ("{}", "PCI address is missing"),
            ("{driver: ring, address: [127.0.0.1]}", "not an address of a port"),
            ("{driver: ring, address: [192.0.2.1/24, 192.0.2.2/24]}", "the second of its family"),
            ("{driver: ring, eal: [--vdev=net_null0]}", "is not taken"),
            ("{driver: ring, mac: '02:00:00:00:00:01'}", "keep the MAC"),
            ("{driver: memif, socket: 'a,b'}", "DPDK takes no"),
            ("{driver: ring, mtu: 100}", "is too small"),
            ("{driver: af_packet, netdev: eth0, remote: eth1}", "remote"),
            ("{driver: tap, netdev: pst0, remote: eth1, mac: '02:00:00:00:00:02'}", "leave `mac` out"),
        ):
            with self.subTest(options):
                config = self.yaml(f"{{plugin: ethernet, options: {options}}}")
                child = self.run_program("check", config, "--for", "receive", expect=2)
                self.assertIn(words, child.stderr)


class TwoNamespaces(Ethernet):
    """With the plugin udp on the other side: one wire form."""

    def setUp(self):
        super().setUp()
        self.spaces = netns.Namespaces()
        self.addCleanup(self.spaces.close)
        if not self.spaces.reaches(PLUGIN):
            self.skipTest("an ordinary user cannot read the plugin")
        # A card cuts and joins what udp hands over; DPDK's af_packet takes whole frames alone.
        self.sides = [self.spaces.enter(NEAR), self.spaces.enter(FAR)]

    def configs(self, plugins, driver="af_packet", authenticate="false", **more):
        made = []
        for side, plugin in zip((NEAR, FAR), plugins):
            options = {
                "ethernet": f"{{driver: {driver}, netdev: {DEVICE[side]}, authenticate: {authenticate}}}",
                "udp": f"{{device: {DEVICE[side]}, authenticate: {authenticate}}}",
            }[plugin]
            made.append(
                self.yaml(
                    f"{{plugin: {plugin}, options: {options}}}",
                    name=f"{side}.yaml",
                    address=IPV4[NEAR],
                    sender="{source: pattern, rate: 50 Mbps%s}"
                    % (", transport: {options: {gso: false}}" if plugin == "udp" else ""),
                    **more,
                )
            )
        return made

    def check(self, receives, sends, **more):
        os.chmod(self.folder, 0o777)
        receiving, sending = self.configs((receives, sends), **more)
        return self.both(receiving, sending, self.sides)

    def check_tags(self, receives, sends):
        """One plugin signs what the other checks, with the key that it got by TLS."""
        keys = self.folder / "tls"
        self.run_program("keys", keys)
        if os.getuid() == 0:
            for path in (keys, *keys.iterdir()):
                os.chown(path, 65534, 65534)
        streams = self.check(receives, sends, authenticate="true", control=f"tls: {{psk: {keys / 'keys.psk'}}}")
        self.assertEqual(streams[0]["receiver"]["counters"]["unauthentic"], 0, streams[0])
        return streams

    def test_tap_refuses_frames_that_it_cannot_carry(self):
        try:  # a container may have the node without the kernel's module, or without the right to open it
            os.close(os.open("/dev/net/tun", os.O_RDWR))
        except OSError as error:
            self.skipTest(f"/dev/net/tun does not open: {error}")
        os.chmod(self.folder, 0o777)
        options = "{driver: tap, netdev: pst0, address: [192.0.2.1/24], mtu: 4000}"
        config = self.yaml(f"{{plugin: ethernet, options: {options}}}")
        child = self.run_program("receive", config, expect=3, prefix=self.sides[NEAR])
        self.assertIn("mtu: 4000 is not possible: its driver takes frames of at most 1522 bytes", child.stderr)

    def foreign(self, side):
        """As fast as it goes, to whoever hears it."""
        ends = {NEAR: "receiver: {sink: discard, silence: 1 min, transport: {options: {port: 5004}}}",
                FAR: 'sender: {source: pattern, transport: {options: {to: "%s:5004"}}}' % IPV4[NEAR]}  # fmt: skip
        options = f"{{driver: af_packet, netdev: {DEVICE[side]}, framing: rtp}}"
        return self.write(
            f"{side}.yaml",
            f"penstock: 1\ncontrol: none\ntransport: {{plugin: ethernet, options: {options}}}\n"
            f"streams:\n  - name: packets\n    message: 1400 B\n    ring: 1088\n    {ends[side]}\n",
        )

    def test_receiver_comes_under_full_traffic_and_its_sender_is_killed(self):
        """Another sender takes its place; what was lost has a cause, and another receiver has no
        trouble with what the first one left."""
        os.chmod(self.folder, 0o777)
        receiving, sending = self.foreign(NEAR), self.foreign(FAR)
        sender = self.start("send", sending, prefix=self.sides[FAR])
        sender.wait_line("Sent [1-9]")
        for restarts in (1, 0):
            out = self.folder / f"{restarts}.json"
            receiver = self.start("receive", receiving, "--json", out, prefix=self.sides[NEAR])
            receiver.wait_line("Got [1-9]")
            if restarts:
                sender.kill()
                sender.wait()
                sender = self.start("send", sending, prefix=self.sides[FAR])
                receiver.wait_line(r"\| 1 restart")
            receiver.signal(signal.SIGINT)
            self.assertEqual(receiver.wait(), 0, str(receiver))
            stream = self.only_stream(self.result(out.name))
            self.assert_accounted(stream)
            self.assertEqual(stream["restarts"], restarts, stream)
            self.assertLessEqual(set(stream["dropped"]), {"wire", "no_buffer", "displaced", "too_late", "too_far"}, stream)
        sender.signal(signal.SIGINT)
        self.assertEqual(sender.wait(), 0, str(sender))

    def test_ethernet_to_ethernet(self):
        self.check("ethernet", "ethernet")

    def test_udp_to_ethernet(self):
        self.check_tags("ethernet", "udp")

    def test_pcap_says_when_messages_arrived(self):
        """libpcap's stamps are microseconds: their sum is the time that the stream took, of one order.
        That they are CLOCK_REALTIME's is in the contract (transport ethernet-pcap)."""
        os.chmod(self.folder, 0o777)
        intervals = "{sink: verify, intervals: true}"
        streams = self.both(*self.configs(("ethernet", "udp"), "pcap", receiver=intervals), self.sides)
        times = streams[0]["intervals_ns"]
        self.assertTrue(0.1 < times["count"] * times["mean"] / 1e9 / streams[0]["seconds"] < 10, streams[0])

    def test_ethernet_to_udp(self):
        streams = self.check_tags("udp", "ethernet")
        self.assertEqual(streams[1]["via"], "af_packet, reference")


class Ports:
    """The plugin's end of a test of udp's beside other programs: DPDK's af_packet on that side."""

    def setUp(self):
        if not PLUGIN.exists():
            self.skipTest("the plugin ethernet is not built: libdpdk was not found")
        super().setUp()
        if not self.spaces.reaches(PLUGIN):
            self.skipTest("an ordinary user cannot read the plugin")
        for side in (NEAR, FAR):  # ffmpeg fills packets of 1500 bytes, and others' headers may be longer
            self.spaces.run(side, "ip", "link", "set", DEVICE[side], "mtu", "1600")

    def file(self, **more):
        path = super().file(**more)
        side = FAR if "receiver" in more else NEAR
        ethernet = f"plugin: ethernet, options: {{driver: af_packet, netdev: {DEVICE[side]}, "
        path.write_text(path.read_text().replace("plugin: udp, options: {", ethernet))
        return path

    def stop(self, child):
        """When nothing more has come for a while: no socket says that all is read."""
        child.wait_line("Got [1-9]")
        wait_until(lambda: "Got 0" in [l for l in list(child.lines["stderr"]) if "Got" in l][-1], 60, f"nothing comes\n{child}")
        child.signal(signal.SIGINT)
        self.ended(child)


class FromFfmpeg(Ports, foreign.FromFfmpeg):
    test_a_restarted_ffmpeg = None  # flow.h's, whose own test udp has


class FromTcpreplay(Ports, foreign.FromTcpreplay):
    pass


class ToFfmpeg(Ports, foreign.ToFfmpeg):
    pass


class FromIperf3(Ports, foreign.Between):
    # The other half of iperf3's protocol, whose UDP port is the plugin's: TCP for its control, and a
    # frame that answers its first datagram. Its own counts are given back to it, and printed.
    SERVER = """
import json, socket, struct, sys
device, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(0x0800))
wire.bind((device, 0))
server = socket.create_server((address, port))
print("listens", flush=True)
client = server.accept()[0]
def take(n):
    return client.recv(n, socket.MSG_WAITALL)
def text():
    return take(*struct.unpack("!I", take(4)))
take(37)
client.send(bytes([9]))  # PARAM_EXCHANGE
text()
client.send(bytes([10]))  # CREATE_STREAMS
while True:
    frame = wire.recv(2048)
    if frame[23] == 17 and frame[36:38] == struct.pack("!H", port):
        break
ip = bytearray(frame[14:34])
ip[12:16], ip[16:20] = frame[30:34], frame[26:30]  # its checksum stays
wire.send(frame[6:12] + frame[:6] + frame[12:14] + ip + frame[36:38] + frame[34:36] + frame[38:40] + bytes(2) + b"6789")
client.send(bytes([1, 2]))  # TEST_START, TEST_RUNNING
take(1)  # TEST_END
client.send(bytes([13]))  # EXCHANGE_RESULTS
counts = text()
client.send(struct.pack("!I", len(counts)) + counts)
client.send(bytes([14]))  # DISPLAY_RESULTS
take(1)
print(json.loads(counts)["streams"][0]["packets"], flush=True)
"""

    def test_counts_are_iperf3s(self):
        foreign.need("iperf3")
        python = next(filter(netns.reaches, (sys.executable, "/usr/bin/python3")), None)
        if not python:
            self.skipTest("an ordinary user has no python3")
        child = self.receiver(self.file(
            framing="none",
            receiver=f"{{sink: discard, silence: 0, transport: {{options: {{port: {foreign.PORT}}}}}}}"))  # fmt: skip
        server = foreign.Program(
            self,
            [*self.spaces.enter(FAR), python, "-c", self.SERVER, DEVICE[FAR], IPV4[FAR], str(foreign.PORT)],
            output=subprocess.PIPE)  # fmt: skip
        server.wait_line("listens")
        client = foreign.Program(
            self,
            [*self.spaces.enter(NEAR), "iperf3", "-c", IPV4[FAR], "-p", str(foreign.PORT),
             "-u", "-l", "1000", "-b", "20M", "-k", "500"])  # fmt: skip
        self.assertEqual((client.wait(), server.wait()), (0, 0), f"{client.lines} {server.lines}")
        packets = int(server.lines[-1])
        self.assertGreaterEqual(packets, 500)
        self.stop(child)
        stream = self.stream_of(FAR)
        self.assertEqual(stream["messages_delivered"], packets + 1)  # the first one opens its test
        self.assertEqual(stream["bytes_delivered"], packets * 1000 + 4)


if __name__ == "__main__":
    main(side_by_side=2)
