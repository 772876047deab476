#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport verbs_rc between two machines, by soft-RoCE: real verbs and real packets."""
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess

import guests
import test_examples
from guests import BUILD, main, tcp_listener, wait_until
from harness import PROGRAM, ROOT, bare_root

CONTRACT = BUILD / "tests" / "contract" / "penstock-contract"
PLUGIN = BUILD / "transports" / "transport-verbs_rc.so"
ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2"}
# On a busy host a guest stands still for seconds, and soft-RoCE keeps its only CPU as long: neither
# is a peer that is dead, nor should rxe send again what it has (README.md). It does after 4 s, and
# after half a one where packets are lost; and with 7 for ever.
PATIENT = {"retry_cnt": 7, "timeout": 20}
ON_BAD_WIRES = {"timeout": 17}
PATIENCE = "60s"
# A thread that polls leaves soft-RoCE less of the only CPU, and other guests less of the host's.
ASLEEP = ["--set threads.sleep_after=1ms"]
POLLING = ["--set threads.sleep_after=0"]
SOON_AGAIN = [f"--set transport.options.{key}={value}" for key, value in ON_BAD_WIRES.items()]
MESSAGES = 1000  # eight times round the ring, and of 4 thousand packets 1 % are lost
CONTRACT_MESSAGES = 1500  # of 8 KiB: of 12 thousand packets 1 % are lost
BAD_WIRES = ("loss 1%", "delay 2ms reorder 99%")
GOOD_MIB = 8  # thousands of packets, and each chunk of the server's window many times
BAD_MIB = int(os.environ.get("PENSTOCK_BAD_WIRE_MIB", 2))  # of a file there and back
TROUBLE = ("out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "retry_exceeded_err")

TOLD_BY_THE_ROUTER = r"Icmp InTimeExcds \+[1-9]\d* \(a router's word that the hop limit"


def guest_gids(guest):
    """Index: address, of rxe0's entries that are IPv4's; others as they are."""
    lines = guest.run(
        "cd /sys/class/infiniband/rxe0/ports/1/gids\n"
        "for i in $(seq 0 15); do echo $i $(cat $i); done"
    ).stdout.splitlines()
    found = {}
    for index, gid in (line.split() for line in lines):
        words = gid.split(":")
        if any(word != "0000" for word in words):
            is_ipv4 = words[:6] == ["0000"] * 5 + ["ffff"]
            bytes_ = bytes.fromhex("".join(words[6:]))
            found[int(index)] = ".".join(map(str, bytes_)) if is_ipv4 else gid
    return found


class Streams(guests.Case):
    OPTIONS = {}  # more of the transport

    def setUp(self):
        guests.need(PLUGIN)
        super().setUp()

    def options(self):
        return {**PATIENT, **self.OPTIONS}.items()

    def penstock(self, name, verb, *more, environment="", before=""):
        """One side of a stream; the job. Its result is out.json of the guest's folder."""
        settings = [
            "control.address=10.9.0.2:18515",
            "control.insecure=true",
            f"transport.options.device={ADDRESSES[name]}",
            "streams.packets.ring=128",
            f"streams.packets.timeout={PATIENCE}",
            *(f"transport.options.{key}={value}" for key, value in self.options()),
        ]
        words = ["exec", before, PROGRAM, verb, ROOT / "config" / "verbs.yaml", "--json", "out.json"]
        words += [word for setting in settings for word in ("--set", setting)]
        words += [*ASLEEP, *more]
        self.guest(name).run("rm -f out.json")
        return self.guest(name).start(environment + " " + " ".join(map(str, words)))

    def stream(self, name):
        (stream,) = json.loads((self.guest(name).folder / "out.json").read_text())["streams"]
        return stream

    def both(self, *more, receiver=()):
        far = self.penstock("b", "receive", *receiver)
        far.await_listener(tcp_listener(18515))
        return far, self.penstock("a", "send", *more)

    def transfer(self, *more):
        receiver, sender = self.both("--count", str(MESSAGES), *more, receiver=more)
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.stream("b")
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (MESSAGES, MESSAGES), stream)
        self.assertEqual((stream["corrupted"], stream["dropped"]), (0, {}), stream)
        self.assertEqual((stream["path"], stream["carrier"]), ("direct", "soft-roce"), stream)
        self.assert_nothing_left()

    @contextlib.contextmanager
    def bad_wire(self, what):
        """Makes the wire bad, and checks that an end has noticed."""
        before = self.trouble()
        with self.guest("a").netem(what):
            yield
        self.assertGreater(self.trouble(), before, what)

    def trouble(self):
        return sum(self.guest(name).counters()[counter] for name in ADDRESSES for counter in TROUBLE)

    def assert_nothing_left(self):
        for name in ADDRESSES:
            left = self.guest(name).resources()
            # The QP of the kernel's own (GSI) stays, and what it has.
            self.assertEqual(left, self.before[name], name)

    def remember(self):
        self.before = {name: self.guest(name).resources() for name in ADDRESSES}


class VerbsRc(Streams):
    # Where streams of SENDs, the contract and files are tried, too; and those over four queue pairs.
    MORE_BAD_WIRES = BAD_WIRES_OF_FOUR = BAD_WIRES

    def test_the_gid_is_of_the_address_asked_for(self):
        """Two addresses and a VLAN on the port: by address and by netdev; and it is used."""
        for name, number in (("a", 1), ("b", 2)):
            guest = self.guest(name)
            guest.run(
                f"ip address add 10.9.7.{number}/24 dev eth0\n"
                "ip link add link eth0 name eth0.5 type vlan id 5\n"
                f"ip address add 10.9.5.{number}/24 dev eth0.5\n"
                "ip link set eth0.5 up"
            )
            self.addCleanup(
                guest.run, f"ip link del eth0.5; ip address del 10.9.7.{number}/24 dev eth0"
            )
            wait_until(
                lambda guest=guest: len(guest_gids(guest)) >= 5, 20, f"GIDs: {guest_gids(guest)}"
            )
        for net, by, is_tagged in (("10.9.7", "10.9.7.", False), ("10.9.5", "eth0.5", True)):
            with self.subTest(by):
                sent = self.tagged()
                self.assert_gid(net, by)
                self.assertEqual(self.tagged() > sent + 100, is_tagged, net)

    def tagged(self):
        return int(self.guest("a").run("cat /sys/class/net/eth0.5/statistics/tx_packets").stdout)

    def assert_gid(self, net, by):
        """`by`: a netdev, or the network of an address."""
        jobs = {}
        for name, verb, number in (("b", "receive", 2), ("a", "send", 1)):
            device = f"{by}{number}" if by.endswith(".") else by
            more = ["--set", f"transport.options.device={device}"]
            more += ["--count", "200"] if verb == "send" else []
            jobs[name] = self.penstock(name, verb, *more, environment="PENSTOCK_LOG=debug")
            if verb == "receive":
                jobs[name].await_listener(tcp_listener(18515))
        for name, number in (("a", 1), ("b", 2)):
            self.assertEqual(jobs[name].wait(), 0, str(jobs[name]))
            gids = guest_gids(self.guest(name))
            (index,) = (index for index, gid in gids.items() if gid == f"{net}.{number}")
            self.assertIn(f"GID {index}, {net}.{number} (RoCE v2)", jobs[name].stderr)
        stream = self.stream("b")
        self.assertEqual((stream["messages_sent"], stream["messages_delivered"]), (200, 200), stream)

    def test_the_page_for_two_hosts(self):
        """docs/start/two-hosts-rdma.md as a newcomer types it, on hosts that have its addresses."""
        for name, number in (("a", 2), ("b", 1)):
            guest = self.guest(name)
            guest.run(f"ip address add 192.0.2.{number}/24 dev eth0\nmkdir -p /page\nln -sfn {BUILD} {ROOT}/config /page")
            self.addCleanup(guest.run, f"ip address del 192.0.2.{number}/24 dev eth0")
        plugins, receive, send = ("cd /page\n" + text for _, _, text, remarks in test_examples.blocks(ROOT / "docs/start/two-hosts-rdma.md")
                                  if remarks.get("on") == "an RDMA device")  # fmt: skip
        for name in "ab":
            listed = self.guest(name).run(plugins).stdout
            self.assertRegex(listed, r"^transport verbs_rc [\d.]+: usable\n")
            self.assertRegex(listed, r"(?m)^ *rxe0: port 1 active, Ethernet")
        receiver = self.guest("b").start(receive)
        receiver.await_listener(tcp_listener(18515))
        sender = self.guest("a").run(send, expect=None)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        both = guests.run_pair(self.guests, "/page", *self.scripts_of_the_page())
        self.assertEqual([job.status for job in both], [0, 0], "".join(map(str, both)))
        for job in (sender, receiver, *both):
            self.assertRegex(job.stdout + job.stderr, r"packets: (\d+) sent = \1 delivered \+ 0 dropped \|.*\| direct")

    def scripts_of_the_page(self):
        """The two that it hands to `./run guests`."""
        (block,) = (text for _, _, text, _ in test_examples.blocks(ROOT / "docs/start/two-hosts-rdma.md")
                    if "./run guests" in text)  # fmt: skip
        text = block.replace("./run guests", "printf '%s\\n'")
        return subprocess.run(["sh", "-euc", text], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()

    def test_a_stream_on_a_good_wire(self):
        self.remember()
        for more in (ASLEEP, POLLING):
            with self.subTest(more):
                self.transfer(*more)

    def test_a_stream_on_wires_that_lose_and_reorder(self):
        self.remember()
        for what in BAD_WIRES:
            with self.subTest(what), self.bad_wire(what):
                self.transfer(*SOON_AGAIN)

    def test_a_stream_of_sends(self):
        """`operation: send`, on a good wire and on bad ones."""
        self.remember()
        sends = ("--set", "transport.options.operation=send")
        self.transfer(*sends)
        for what in self.MORE_BAD_WIRES:
            with self.subTest(what), self.bad_wire(what):
                self.transfer(*sends, *SOON_AGAIN)

    def test_a_stream_over_several_queue_pairs(self):
        """`qps`, on a good wire and on bad ones."""
        self.remember()
        several = ("--set", "transport.options.qps=4")
        self.transfer(*several)
        for what in self.BAD_WIRES_OF_FOUR:
            with self.subTest(what), self.bad_wire(what):
                self.transfer(*several, *SOON_AGAIN)

    def test_a_receiver_that_is_killed(self):
        self.remember()
        receiver, sender = self.both()
        receiver.wait_line(r"Got \d{2,}")
        receiver.signal(signal.SIGKILL)
        self.assertEqual(sender.wait(20), 1, str(sender))
        self.assertRegex(sender.stderr, "(?i)killed|died|dead|gone|IBV_WC_RETRY_EXC_ERR")
        self.transfer()

    def test_the_contract_of_two_processes(self):
        """Streams both ways, departures, WRITE, READ, FENCE, FLUSH and atomics."""
        self.two_processes()
        for what in self.MORE_BAD_WIRES:
            with self.subTest(what), self.bad_wire(what):
                self.two_processes(**ON_BAD_WIRES)

    def two_processes(self, **options):
        more = f"--messages {CONTRACT_MESSAGES} "
        more += "".join(f"--option {key}={value} " for key, value in {**dict(self.options()), **options}.items())
        words = f"export CONTRACT_LOG=1; exec {CONTRACT} {PLUGIN} {more}--option device={{}} --{{}} 10.9.0.2:18600"
        listener = self.guest("b").start(words.format(ADDRESSES["b"], "listen"))
        listener.await_listener(tcp_listener(18600))
        near = self.guest("a").run(words.format(ADDRESSES["a"], "connect"), expect=None, seconds=200)
        self.assertEqual((near.wait(), listener.wait()), (0, 0), f"{near}{listener}")

    def test_clients_of_a_router(self):
        """Only the routers have rxe0: each client has a network of its own, and a root without a device and
        without libibverbs."""
        self.remember()
        routers, ends = [], []
        options = {"device": "{}", **dict(self.options())}
        words = "".join(f" --transport-option {key}={value}" for key, value in options.items())
        for name, far in (("b", 1), ("a", 2)):
            guest = self.guest(name)
            self.assertTrue(bare_root(guest.folder / "root"))
            shutil.copy(ROOT / "config" / "verbs.yaml", guest.folder / "root")
            guest.run(
                "sysctl -qw net.ipv4.ip_forward=1\n"
                "ip netns add client\nip link add near type veth peer name far netns client\n"
                f"ip address add 10.9.2{guest.number}.1/24 dev near\nip link set near up\n"
                f"ip -n client address add 10.9.2{guest.number}.2/24 dev far\n"
                "ip -n client link set far up\nip -n client link set lo up\n"
                f"ip -n client route add default via 10.9.2{guest.number}.1\n"
                f"ip route add 10.9.2{far}.0/24 via 10.9.0.{far}"
            )
            self.addCleanup(guest.run, f"ip netns del client; ip route del 10.9.2{far}.0/24")
            routers.append(guest.start(
                f"mkdir -p /run/share\nexec {PROGRAM} share --socket /run/share/socket --transport verbs_rc"
                + words.format(ADDRESSES[name])))  # fmt: skip
            routers[-1].wait_line("share: serving")
        settings = ("transport={plugin: share, options: {socket: /share/socket}}", "control.address=10.9.22.2:18515",
                    "control.insecure=true", "streams.packets.ring=128", f"streams.packets.timeout={PATIENCE}",
                    "threads.sleep_after=1ms")  # fmt: skip
        for name, verb in (("b", "receive"), ("a", "send --count 200")):
            inside = f"/penstock {verb} /verbs.yaml --plugin-path /plugins --json /out.json"
            inside += "".join(f' --set "{setting}"' for setting in settings)
            ends.append(self.guest(name).start(
                "exec ip netns exec client unshare --user --map-root-user --mount --pid --fork --kill-child sh -c '"
                "mount --bind /run/share root/share && exec env -i LD_LIBRARY_PATH=/lib TMPDIR=/tmp XDG_RUNTIME_DIR=/tmp"
                f" /usr/sbin/chroot root {inside}'"))  # fmt: skip
            if verb == "receive":
                ends[-1].wait_line("waiting")
        for end in ends:
            self.assertEqual(end.wait(), 0, f"{ends}{routers}")
        (stream,) = json.loads((self.guest("b").folder / "root" / "out.json").read_text())["streams"]
        self.assertEqual((stream["messages_sent"], stream["verified"], stream["dropped"]), (200, 200, {}), stream)
        self.assertEqual((stream["path"], stream["carrier"]), ("direct", "soft-roce"), stream)
        for router in routers:
            router.signal(signal.SIGINT)
            self.assertEqual(router.wait(), 0, router)
        self.assert_nothing_left()

    def test_the_hardware_check(self):
        """One of them, between two machines: it ends in order, and its report names neither."""
        self.remember()
        words = f"exec {PROGRAM} hardware-check --insecure --transport verbs_rc"
        server = self.guest("b").start(f"{words} --server 10.9.0.2 --once")
        server.await_listener(tcp_listener(18540))
        client = self.guest("a").start(f"{words} 10.9.0.2 --check one-thread --duration 100ms --json report.json")
        self.assertEqual((client.wait(), server.wait()), (0, 0), f"{client}{server}")
        text = (self.guest("a").folder / "report.json").read_text()
        self.assertNotIn("10.9.0.", text + client.stdout)
        report = json.loads(text)
        self.assertEqual([check["verdict"] for check in report["checks"]], ["ok", "ok"], client)
        self.assertEqual(report["hardware"]["peer_transports"][0]["found"][0]["name"], "rxe0")
        self.assertRegex(client.stdout, r"other end: rxe0 port 1, .*GID \d+, ipv4-\d+ \(RoCE v2\)")
        self.assert_nothing_left()

    def test_files_and_regions_are_served(self):
        more = {**dict(self.options()), **ON_BAD_WIRES}
        more = "".join(f"--transport-option {key}={value} " for key, value in more.items())
        options = f"--insecure --timeout 120s --transport verbs_rc {more}--transport-option device="
        server = self.guest("b").start(
            f"mkdir -p root && exec {PROGRAM} serve 10.9.0.2:18530 --root root --idle 120s {options}10.9.0.2"
        )
        server.await_listener(tcp_listener(18530))
        near = f"10.9.0.2:18530 {options}10.9.0.1"
        self.request_and_transfer(near, f"{GOOD_MIB}M")
        for what in self.MORE_BAD_WIRES:
            with self.subTest(what), self.bad_wire(what):
                self.request_and_transfer(near, f"{BAD_MIB}M")

    def request_and_transfer(self, near, size):
        for what in ("write", "read"):
            child = self.guest("a").run(
                f"exec {PROGRAM} request {what} --size 50000B --pieces 5 --depth 2 --count 20 {near}"
            )
            self.assertIn("1000000 bytes verified", child.stdout)
        self.guest("a").run(
            f"head -c {size} /dev/urandom >sent\n{PROGRAM} put {near} sent --to kept --sha256\n"
            f"{PROGRAM} get {near} kept --to back --sha256\nsha256sum sent back >sums",
            seconds=300 + 15 * BAD_MIB,
        )
        sums = (self.guest("a").folder / "sums").read_text().split()
        kept = hashlib.sha256((self.guest("b").folder / "root" / "kept").read_bytes()).hexdigest()
        self.assertEqual((sums[0], sums[2]), (kept, kept))
        for name, files in (("a", "sent back"), ("b", "root/kept")):
            self.guest(name).run(f"rm {files}")


class Routed(guests.Case):
    """The router takes one hop. The ends' control channel has ordinary routes."""

    router = True
    OPTIONS = {}

    def setUp(self):
        guests.need(PLUGIN)
        super().setUp()

    def both(self, options=None, receiver_timeout=None, **more):
        """By default the device gives up, as these tests want it."""
        jobs = []
        for name, verb, address in (("b", "receive", "10.9.2.1"), ("a", "send", "10.9.1.1")):
            settings = {
                "control.address": "10.8.2.1:18515",
                "control.insecure": "true",
                "transport.options.device": address,
                "threads.sleep_after": "1ms",
                "streams.packets.ring": 128,
                **{f"transport.options.{key}": value for key, value in {**self.OPTIONS, **(options or {})}.items()},
                **{f"streams.packets.{key}": value for key, value in more.items()},
            }
            if verb == "receive" and receiver_timeout:
                settings["streams.packets.timeout"] = receiver_timeout
            words = [f"--set {key}={value}" for key, value in settings.items()]
            words += ["--count 500"] if verb == "send" else []
            job = self.guest(name).start(
                f"exec {PROGRAM} {verb} {ROOT / 'config' / 'verbs.yaml'} {' '.join(words)}"
            )
            if verb == "receive":
                job.await_listener(tcp_listener(18515))
            jobs.append(job)
        return jobs

    def test_ordinary_routes_lead_through(self):
        receiver, sender = self.both(PATIENT, timeout=PATIENCE)
        self.assertEqual((receiver.wait(), sender.wait()), (0, 0), f"{receiver}{sender}")

    def hop_limit_1(self):
        for near, far in ((1, 2), (2, 1)):
            guest = self.guest("abr"[near - 1])
            route = f"10.9.{far}.0/24 via 10.9.{near}.254 src 10.9.{near}.1"
            guest.run(f"ip route replace {route} hoplimit 1")
            self.addCleanup(guest.run, f"ip route replace {route}")

    def test_a_hop_limit_of_1_is_named_first(self):
        self.hop_limit_1()
        errors = self.guest("r").network_counter("Ip", "InHdrErrors")
        # The sender says hello, and is the first whose time is up: the receiver has only not been called.
        receiver, sender = self.both(timeout="15s", receiver_timeout="60s")
        self.assertEqual((receiver.wait(60), sender.wait(60)), (1, 1), f"{receiver}{sender}")
        self.assertGreater(self.guest("r").network_counter("Ip", "InHdrErrors"), errors)
        told = receiver.stderr + sender.stderr
        self.assertRegex(told, r"IBV_WC_RETRY_EXC_ERR \(12;.*Check: `hop_limit`")
        self.assertRegex(told, rf"{TOLD_BY_THE_ROUTER}.*(completer_retry_err|retry_exceeded_err) \+\d+")

    def test_doctor_finds_a_hop_limit_of_1(self):
        """The file's, with a router on the way to `control`; and the routes', which rdma_cm takes."""
        doctor = f"exec {PROGRAM} doctor --area adapter"
        needs = f"{doctor} --for {self.write_near(1)}"
        sound = self.guest("a").run(f"{doctor} -v")
        self.assertRegex(sound.stdout, r"ok +hop-limit +packets pass routers")
        self.assertRegex(sound.stdout, r"ok +gid +rxe0: GID \d+ is 10\.[89]\.1\.1, RoCE v2")
        self.assertRegex(sound.stdout, r"ok +port-state +rxe0: ACTIVE")
        told = self.guest("a").run(needs, expect=1).stdout
        self.assertRegex(told, r"fails +hop-limit +10\.8\.2\.1: packets have a hop limit of 1, and end at the router 10\.8\.1\.254")
        self.assertRegex(told, r"remedy: remove hop_limit at \S+near-1.yaml:\d+:\d+, or set 64")
        self.guest("a").run(f"{doctor} --for {self.write_near(64)}")
        self.hop_limit_1()
        told = self.guest("a").run(doctor, expect=1).stdout
        self.assertRegex(told, r"fails +hop-limit +10\.9\.2\.0/24: packets have a hop limit of 1, and end at the router 10\.9\.1\.254")
        self.assertIn("remedy: sudo ip route replace 10.9.2.0/24 via 10.9.1.254 dev eth0", told)

    def write_near(self, hops):
        """config/verbs.yaml between these guests, on a folder that they see."""
        text = (ROOT / "config" / "verbs.yaml").read_text().replace("device: mlx5_0", f"device: rxe0\n    hop_limit: {hops}")
        path = self.folder / f"near-{hops}.yaml"
        path.write_text(text.replace('"127.0.0.1:18515"', '"10.8.2.1:18515"\n  insecure: true'))
        return path

    def test_a_link_of_a_smaller_mtu_is_named(self):
        """Both ends' ports take 4096 bytes, and a link between them does not. The device gives up;
        or, once the kernel has heard of the link, sends nothing any more and says nothing."""
        for name in "ab":
            self.guest(name).run("ip link set eth0 mtu 4500")
            self.addCleanup(self.guest(name).run, "ip link set eth0 mtu 1500")
        # While soft-RoCE tries, a guest of one CPU does nothing else for seconds: it is not dead.
        receiver, sender = self.both(timeout="30s")
        self.assertEqual((receiver.wait(120), sender.wait(120)), (1, 1), f"{receiver}{sender}")
        # The other hears that this one is gone, which may be before its own patience ends.
        self.assertRegex(
            receiver.stderr + sender.stderr,
            "IBV_WC_RETRY_EXC_ERR.*Check:.*the MTU of every link|the peer owes an answer.*see hop_limit, GIDs, MTU",
        )
        for name in "ab":
            self.guest(name).run("ip link set eth0 mtu 1500")
        self.test_ordinary_routes_lead_through()


if __name__ == "__main__":
    main()
