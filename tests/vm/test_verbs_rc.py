#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport verbs_rc between two machines, by soft-RoCE: real verbs and real packets."""
import json
import signal

import guests
from guests import BUILD, main, tcp_listener
from harness import PROGRAM, ROOT

CONTRACT = BUILD / "tests" / "contract" / "penstock-contract"
PLUGIN = BUILD / "transports" / "transport-verbs_rc.so"
ADDRESSES = {"a": "10.9.0.1", "b": "10.9.0.2"}


class VerbsRc(guests.Case):
    OPTIONS = {}  # more of the transport

    def setUp(self):
        guests.need(PLUGIN)
        super().setUp()

    def penstock(self, name, verb, *more):
        """One side of a stream; the job. Its result is out.json of the guest's folder."""
        settings = [
            "control.address=10.9.0.2:18515",
            "control.insecure=true",
            f"transport.options.device={ADDRESSES[name]}",
            "streams.packets.ring=128",
            *(f"transport.options.{key}={value}" for key, value in self.OPTIONS.items()),
        ]
        words = [PROGRAM, verb, ROOT / "config" / "verbs.yaml", "--json", "out.json"]
        words += [word for setting in settings for word in ("--set", setting)]
        words += more
        self.guest(name).run("rm -f out.json")
        return self.guest(name).start("exec " + " ".join(map(str, words)))

    def stream(self, name):
        (stream,) = json.loads((self.guest(name).folder / "out.json").read_text())["streams"]
        return stream

    def both(self, *more):
        receiver = self.penstock("b", "receive")
        receiver.await_listener(tcp_listener(18515))
        return receiver, self.penstock("a", "send", *more)

    def transfer(self):
        receiver, sender = self.both("--duration", "3")
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        stream = self.stream("b")
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"], stream)
        self.assertEqual((stream["corrupted"], stream["dropped"]), (0, {}), stream)
        self.assertGreater(stream["messages_delivered"], 100, stream)
        self.assertEqual((stream["path"], stream["carrier"]), ("direct", "soft-roce"), stream)
        self.assert_nothing_left()

    def assert_nothing_left(self):
        for name in ADDRESSES:
            left = self.guest(name).resources()
            # The QP of the kernel's own (GSI) stays, and what it has.
            self.assertEqual(left, self.before[name], name)

    def remember(self):
        self.before = {name: self.guest(name).resources() for name in ADDRESSES}

    def test_a_stream_on_a_good_wire(self):
        self.remember()
        self.transfer()

    def test_a_stream_on_wires_that_lose_and_reorder(self):
        self.remember()
        for what in ("loss 1%", "delay 2ms reorder 99%"):
            with self.subTest(what), self.guest("a").netem(what):
                self.transfer()

    def test_a_receiver_that_is_killed(self):
        self.remember()
        receiver, sender = self.both()
        receiver.wait_line(r"Got \d{2,}")
        receiver.signal(signal.SIGKILL)
        self.assertEqual(sender.wait(20), 1, str(sender))
        self.assertRegex(sender.stderr, "(?i)killed|died|dead|gone|IBV_WC_RETRY_EXC_ERR")
        self.transfer()

    def test_the_contract_of_two_processes(self):
        more = "".join(f"--option {key}={value} " for key, value in self.OPTIONS.items())
        words = f"exec {CONTRACT} {PLUGIN} {more}--option device={{}} --{{}} 10.9.0.2:18600"
        listener = self.guest("b").start(words.format(ADDRESSES["b"], "listen"))
        listener.await_listener(tcp_listener(18600))
        near = self.guest("a").run(words.format(ADDRESSES["a"], "connect"), expect=None, seconds=200)
        self.assertEqual((near.wait(), listener.wait()), (0, 0), f"{near}{listener}")

    def test_files_and_regions_are_served(self):
        more = "".join(f"--transport-option {key}={value} " for key, value in self.OPTIONS.items())
        options = f"--insecure --transport verbs_rc {more}--transport-option device="
        server = self.guest("b").start(
            f"mkdir -p root && exec {PROGRAM} serve 10.9.0.2:18530 --root root {options}10.9.0.2"
        )
        server.await_listener(tcp_listener(18530))
        near = f"10.9.0.2:18530 {options}10.9.0.1"
        for what in ("write", "read"):
            child = self.guest("a").run(
                f"exec {PROGRAM} request {what} --size 50000B --pieces 5 --depth 2 --count 20 {near}"
            )
            self.assertIn("1000000 bytes verified", child.stdout)
        self.guest("a").run(
            f"head -c 16M /dev/urandom >sent\n{PROGRAM} put {near} sent --to kept\n"
            f"{PROGRAM} get {near} kept --to back\ncmp sent back",
            seconds=200,
        )


class Routed(guests.Case):
    """The router takes one hop. The ends' control channel has ordinary routes."""

    router = True
    OPTIONS = {}

    def setUp(self):
        guests.need(PLUGIN)
        super().setUp()

    def both(self):
        jobs = []
        for name, verb, address in (("b", "receive", "10.9.2.1"), ("a", "send", "10.9.1.1")):
            settings = {
                "control.address": "10.8.2.1:18515",
                "control.insecure": "true",
                "transport.options.device": address,
                "streams.packets.ring": 128,
                **{f"transport.options.{key}": value for key, value in self.OPTIONS.items()},
            }
            words = [f"--set {key}={value}" for key, value in settings.items()]
            words += ["--duration 2"] if verb == "send" else []
            job = self.guest(name).start(
                f"exec {PROGRAM} {verb} {ROOT / 'config' / 'verbs.yaml'} {' '.join(words)}"
            )
            if verb == "receive":
                job.await_listener(tcp_listener(18515))
            jobs.append(job)
        return jobs

    def test_ordinary_routes_lead_through(self):
        receiver, sender = self.both()
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
        receiver, sender = self.both()
        self.assertEqual((receiver.wait(60), sender.wait(60)), (1, 1), f"{receiver}{sender}")
        self.assertGreater(self.guest("r").network_counter("Ip", "InHdrErrors"), errors)
        # Of the two, one says hello.
        told = receiver.stderr + sender.stderr
        self.assertRegex(told, r"IBV_WC_RETRY_EXC_ERR \(12;.*Check: `hop_limit`")
        self.assertRegex(told, r"completer_retry_err \+\d+|retry_exceeded_err \+\d+")


if __name__ == "__main__":
    main()
