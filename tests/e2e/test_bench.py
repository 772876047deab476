#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock bench: every form of it, and what it says when it cannot measure."""
import contextlib
import json
import os
import re
import signal
import socket
import threading
import time

import result_schema
from harness import FEWER, Case, PATIENCE, PROGRAM, SANITIZED, free_port, alone, main, wait_until
from netns import FAR, IPV4, NEAR, ORDINARY, Namespaces, reaches

OPS = ("send", "write", "read")
ONE_SIDED = ("write", "read")
PAIR = ("--transport", "loopback", "--memory", "host")
BRIEF = ("--duration", "200ms" if SANITIZED else f"{100 // min(FEWER, 2)}ms")


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def waited_for_cpus():
    """Seconds in which anybody here did; 0 where the kernel does not tell."""
    try:
        with open("/proc/pressure/cpu") as file:
            return int(re.search(r"^some .*total=(\d+)", file.read())[1]) / 1e6
    except OSError:
        return 0.0


class Relay:
    """One connection after another to a port of this host, byte for byte."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self.pump, args=ends, daemon=True).start()

    @staticmethod
    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


class Bench(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port(2)

    def bench(self, *arguments, expect=0, **options):
        """The result and the child."""
        brief = () if "--duration" in arguments else BRIEF
        child = self.run_program("bench", *PAIR, *brief, "--json", "-", *arguments,
                                 expect=expect, **options)  # fmt: skip
        return result_schema.read(child.stdout), child

    def server(self, *arguments, **options):
        """A server on a port of its own, ready."""
        server = self.start("bench", "--server", *PAIR, *arguments, f"127.0.0.1:{self.port}",
                            **options)  # fmt: skip
        server.wait_line(rf"serving transport loopback, .* at 127\.0\.0\.1, port {self.port}, ")
        return server

    def assert_rows(self, result, sizes, measures=("bandwidth", "latency"), ops=OPS):
        wanted = [(op, measure, size) for op in ops for measure in measures for size in sizes]
        rows = result["rows"]
        self.assertEqual([(row["op"], row["measure"], row["size_bytes"]) for row in rows], wanted)
        for row in rows:
            with self.subTest(row=(row["op"], row["measure"], row["size_bytes"])):
                self.assertIs(row["ok"], True, row)
                self.assertEqual(row["path"], "direct")
                self.assertGreater(row["messages_measured"], 0)
                self.assertEqual(
                    row["bytes_measured"], row["messages_measured"] * row["size_bytes"]
                )
                if row["op"] == "send":
                    self.assertEqual(row["messages_sent"], row["messages_delivered"])
                    self.assertLess(row["messages_measured"], row["messages_sent"])
                else:
                    self.assertEqual(row["transfers_posted"], row["transfers_done"])
                    self.assertEqual(row["transfers_failed"], 0)
                    self.assertLess(row["messages_measured"], row["transfers_done"])
                if row["measure"] == "bandwidth":
                    rate = row["messages_measured"] / row["seconds"]
                    self.assertAlmostEqual(row["messages_per_second"] / rate, 1, 6)
                    gbps = row["bytes_measured"] * 8 / row["seconds"] / 1e9
                    self.assertAlmostEqual(row["gbps"] / gbps, 1, 6)
                else:
                    self.assert_ordered(self.latency_of(row))

    def latency_of(self, row):
        return row["half_round_trip_ns" if row["op"] == "send" else "completion_ns"]

    def assert_ordered(self, latency):
        values = [latency[key] for key in ("min", "p50", "p90", "p99", "p99_9", "max")]
        self.assertGreater(values[0], 0)
        self.assertEqual(values, sorted(values), latency)
        self.assertTrue(latency["min"] <= latency["mean"] <= latency["max"], latency)

    # ---- Forms ----

    def test_two_processes(self):
        result, child = self.bench("--size", "64,1462,64KiB")
        self.assert_rows(result, [64, 1462, 65536])
        self.assertIs(result["ok"], True)
        self.assertEqual(result["command"], "bench")
        self.assertEqual(result["bench"]["form"], "processes")
        self.assertEqual({row["carrier"] for row in result["rows"]}, {"shm"})
        # Nobody at the target sees a WRITE arrive.
        self.assertEqual([row["touched"] for row in result["rows"]],
                         [row["op"] != "write" for row in result["rows"]])  # fmt: skip
        for plugin in result["plugins"]:
            self.assertTrue(os.path.isabs(plugin["path"]), plugin)
        self.assertEqual({plugin["name"] for plugin in result["plugins"]}, {"loopback", "host"})
        # The table went to stderr, as stdout has the JSON.
        self.assertRegex(child.stderr, r"1462 B +\d+ +\d+")
        self.assert_nothing_left()

    def test_table_on_standard_output(self):
        child = self.run_program("bench", *PAIR, *BRIEF, "--size", "1462")
        self.assertRegex(child.stdout, r"(?m)^SEND bandwidth \(payload, receiver's clock, 0\.\d+ s per size after \d+ ms warm-up, data touched\)$")
        self.assertRegex(child.stdout, r"(?m)^ +1462 B +512 +\d+ +\d+\.\d+ .*direct, memcpy")
        self.assertRegex(child.stdout, r"(?m)^SEND latency in us \(half a round trip, client's clock, ")
        self.assertRegex(child.stdout, r"(?m)^ +1462 B( +\d+\.\d{3}){6} +\d+ +direct")
        for op, ends in (("write", "placed"), ("read", "here")):
            self.assertRegex(child.stdout, f"(?m)^{op.upper()} bandwidth \\(initiator's clock, .*{ends}")
            self.assertRegex(child.stdout, f"(?m)^{op.upper()} latency in us \\(initiator's clock, ")
        self.assertEqual(child.stderr, "")

    def test_in_process(self):
        result, _ = self.bench("--in-process", "--size", "1462")
        self.assert_rows(result, [1462])
        self.assertEqual(result["bench"]["form"], "threads")
        self.assertEqual({row["carrier"] for row in result["rows"]}, {"memory"})

    def test_standard_input_stays_open(self):
        client = self.start("bench", *PAIR, "--in-process", "--op", "send", "--size",
                            ",".join(["64"] * 60), "--duration", "1", "--bandwidth", "--json", "-")  # fmt: skip
        client.wait_line("^ +64 B ")  # the first is through
        self.assertEqual(os.readlink(f"/proc/{client.pid}/fd/0"), "/dev/null")
        client.signal(signal.SIGINT)
        self.assertEqual(client.wait(), 1, str(client))
        self.assertRegex(client.stderr, r"stopped by SIGINT after [1-9]\d* of 60 measurements; ")

    def test_in_process_by_reference(self):
        result, _ = self.bench("--in-process", "--transport-option", "mode=reference",
                               "--op", "send", "--size", "1462")  # fmt: skip
        self.assert_rows(result, [1462], ops=("send",))
        self.assertEqual({row["via"] for row in result["rows"]}, {"reference"})

    def test_server_and_client(self):
        server = self.server("--once")
        result, _ = self.bench("--verify", "--size", "64,64KiB", f"127.0.0.1:{self.port}")
        self.assert_rows(result, [64, 65536])
        self.assert_verified(result)
        self.assertEqual(result["bench"]["form"], "hosts")
        self.assertIn(str(server.pid), result["bench"]["server"])
        self.assertEqual(server.wait(), 0, str(server))
        self.assertRegex(server.stderr, r"client 127\.0\.0\.1:\d+ \(pid \d+\) has left")
        self.assert_nothing_left()

    def test_client_first(self):
        client = self.start("bench", *PAIR, *BRIEF, "--size", "64", "--json", "-",
                            f"127.0.0.1:{self.port}")  # fmt: skip
        client.wait_line("waiting for a server at 127.0.0.1")
        self.server("--once")
        self.assertEqual(client.wait(), 0, str(client))
        self.assert_rows(result_schema.read(client.stdout), [64])

    def test_what_a_second_signal_ends_says_so(self):
        server = self.server("--once")
        client = self.start_long(f"127.0.0.1:{self.port}")
        with server.stopped():
            client.signal(signal.SIGINT)
            client.signal(signal.SIGTERM)
            self.assertEqual(client.wait(), 130, str(client))
        result = result_schema.read(client.stdout)
        self.assertEqual((result["bench"]["stopped"], result["rows"]), ("signal", None))
        self.assertEqual(result["bench"]["duration_seconds"], 60)
        self.assertEqual([error["code"] for error in result["errors"]], ["interrupted"])

    def test_a_server_serves_one_after_the_other(self):
        server = self.server()
        for _ in range(3):
            result, _ = self.bench("--size", "64", "--bandwidth", f"127.0.0.1:{self.port}")
            self.assert_rows(result, [64], ("bandwidth",))
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))

    def test_only_one_measure(self):
        for measure in ("bandwidth", "latency"):
            result, _ = self.bench("--size", "64", f"--{measure}")
            self.assert_rows(result, [64], (measure,))

    def test_verify(self):
        for form in ((), ("--in-process",)):
            with self.subTest(form=form):
                result, _ = self.bench("--verify", "--size", "64,1462,70000", *form)
                self.assert_rows(result, [64, 1462, 70000])
                self.assert_verified(result)

    def assert_verified(self, result):
        for row in result["rows"]:
            self.assertEqual(row["corrupted"], 0)
            if row["op"] == "send":
                times = 1 if row["measure"] == "bandwidth" else 2  # there, and back
                self.assertEqual(row["verified"], times * row["messages_delivered"], row)
            else:  # a round is checked as a whole; those of the warm-up too
                flushes = row["op"] == "write" and row["transfers_done"] - row["verified"]
                self.assertEqual(row["verified"] + flushes, row["transfers_done"], row)
                self.assertEqual(flushes * row["depth"], row["verified"] if flushes else 0, row)
                self.assertGreaterEqual(row["verified"], row["messages_measured"])

    def test_no_touch(self):
        result, _ = self.bench("--touch", "no", "--size", "64", "--bandwidth")
        self.assertEqual([row["touched"] for row in result["rows"]], [False] * len(OPS))

    def test_hold(self):
        """Of 8 slots that are kept for 20 ms each, 8 messages come in that time at most."""
        result, child = self.bench("--hold", "20ms", "--ring", "8", "--size", "1462", "--op", "send", "--bandwidth", "--verify")
        (row,) = result["rows"]
        self.assertEqual((row["hold_ns"], row["corrupted"], row["verified"]), (20_000_000, 0, row["messages_delivered"]))
        self.assertLessEqual(row["messages_measured"], 8 * (row["seconds"] / 0.02 + 2), row)
        self.assertIn("each kept for 20000 us", child.stderr)

    def test_pinned(self):
        cpu = min(os.sched_getaffinity(0))
        result, _ = self.bench("--cpu", f"{cpu},{cpu}", "--size", "1462", "--in-process")
        self.assert_rows(result, [1462])
        self.assertEqual(result["bench"]["pinned_cpus"], [cpu, cpu])

    def test_ring(self):
        result, _ = self.bench("--ring", "8", "--size", "1462", "--op", "send")
        self.assert_rows(result, [1462], ops=("send",))
        self.assertEqual({row["ring_slots"] for row in result["rows"]}, {8})

    def test_depth(self):
        for depth in (1, 300):
            with self.subTest(depth=depth):
                result, _ = self.bench("--depth", depth, "--size", "1462", "--op", "read,write")
                self.assert_rows(result, [1462], ops=ONE_SIDED)
                self.assertEqual({row["depth"] for row in result["rows"]}, {1, depth})
                self.assertEqual({row["places"] for row in result["rows"]}, {1, depth})

    def test_places(self):
        """Fewer than transfers under way, as perftest has, and more."""
        for places in (1, 3, 1000):
            with self.subTest(places=places):
                given = ("--depth", 20, "--places", places, "--op", "write,read")
                result, _ = self.bench(*given, "--size", "1462")
                self.assert_rows(result, [1462], ops=ONE_SIDED)
                self.assertEqual({row["places"] for row in result["rows"]}, {places})

    def test_operations(self):
        for given, measured in (("all", OPS), ("read", ("read",)), ("write,send", OPS[:2])):
            with self.subTest(op=given):
                result, _ = self.bench("--op", given, "--size", "64", "--bandwidth")
                self.assert_rows(result, [64], ("bandwidth",), measured)

    def test_a_path_is_for_send(self):
        child = self.run_program("bench", *PAIR, *BRIEF, "--size", "64", "--path", "direct")
        self.assertIn("write or read skipped: --path is for send", child.stdout)
        self.assertNotIn("WRITE bandwidth", child.stdout)

    @alone
    def test_a_case_takes_little_more_than_its_duration(self):
        """150 ms a case, but for what other programs take: a case has many turns, and each waits for a CPU."""
        sizes = ",".join(["64"] * 20)

        def attempt():
            began, waited = time.monotonic(), waited_for_cpus()
            self.bench("--size", sizes, "--bandwidth", "--duration", "20ms", "--op", "send")
            seconds, waited = time.monotonic() - began, waited_for_cpus() - waited
            return None if seconds - waited < 3 * PATIENCE else f"{seconds} s, of which {waited} s for a CPU"

        self.in_one_of_three(attempt)

    def test_a_duration_that_is_over_at_once(self):
        """As where another has had the CPU for all of it: something is measured even so."""
        for form in ((), ("--in-process",)):
            child = self.run_program("bench", *PAIR, "--size", "64", "--duration", "1ns", "--json", "-", *form)
            for row in result_schema.read(child.stdout)["rows"]:
                with self.subTest(form=form, row=(row["op"], row["measure"])):
                    self.assertIs(row["ok"], True, row)
                    self.assertGreater(row["messages_measured"], 0)

    # ---- Failures ----

    def test_bad_input(self):
        cases = [
            (("--op", "sned"), "did you mean 'send'"),
            (("--op", "read", "--ring", "8"), "--depth"),
            (("--op", "send", "--depth", "8"), "--ring"),
            (("--depth", "0"), "from 1 to 65536"),
            (("--places", "0"), "from 1 to 65536"),
            (("--op", "send", "--places", "8"), "--ring"),
            (("--op", "write", "--places", "8", "--verify"), "of its own"),
            (("--op", "write", "--places", "8", "--size", "1GiB"), "--places"),
            (("--size", "0"), "1 B to 1 GiB"),
            (("--size", "64Kib"), "64KiB"),
            (("--duraton", "1"), "--duration"),
            (("--path", "direkt"), "'direct'"),
            (("--memory-option", "backing"), "KEY=VALUE"),
            (("--memory-option", "backnig=malloc"), 'error: --memory-option backnig=malloc: memory plugin host: unknown option'),
            (("--memory-option", "backing=mallok"), 'error: --memory-option backing=mallok: backing: "mallok" is not one of'),
            (("--transport-option", "bad=1"), 'error: --transport-option bad=1: transport plugin loopback: unknown option "bad"'),
            (("--transport-option", "mode=copy", "--transport-option", "mode=x"),
             'error: --transport-option mode=x: option "mode" of transport is given twice'),
            (("10.255.255.1",), "--insecure"),
            (("[::1",), "[IPV6]:PORT"),
        ]
        for arguments, hint in cases:
            with self.subTest(arguments=arguments):
                child = self.run_program("bench", *PAIR, *arguments, expect=2)
                self.assertIn(hint, child.stderr)
                self.assertNotIn("params", child.stderr)
                self.assertEqual(child.stdout, "")

    def test_a_cpu_that_is_not_here(self):
        """As of run."""
        for cpus, form in (("4000", ()), ("0,4000", ()), ("0,4000", ("--in-process",))):
            with self.subTest(cpus=cpus, form=form):
                child = self.run_program("bench", *PAIR, *form, "--cpu", cpus, "--json", "-", expect=3)
                self.assertEqual(child.stderr.count("--cpu 4000: Invalid argument; `lscpu` lists the CPUs"), 1)
                (error,) = result_schema.read(child.stdout)["errors"]
                self.assertEqual(error["code"], "unavailable")

    def test_a_result_that_cannot_be_written(self):
        """Said before anything is measured, and nothing is left."""
        (self.folder / "file").touch()
        for name, hint in (("missing/out.json", "No such file.*; create the folder"),
                           ("file/out.json", "Not a directory; a file stands"),
                           ("tmp", "Is a directory; .*name a file in it")):  # fmt: skip
            with self.subTest(name=name):
                path = self.folder / name
                child = self.run_program("bench", *PAIR, *BRIEF, "--json", path, expect=2)
                self.assertRegex(child.stderr, f"--json: .*{path}: {hint}")
                self.assertEqual(child.stdout, "")
        self.assertEqual(sorted(os.listdir(self.folder)), ["file", "tmp"])
        self.assert_nothing_left()

    def test_unknown_plugins(self):
        for pair, hint in (
            (("--transport", "loopbock", "--memory", "host"), "loopback"),
            (("--transport", "loopback", "--memory", "hots"), "host"),
        ):
            for form in ((), ("--in-process",)):
                child = self.run_program("bench", *pair, *form, expect=2)
                self.assertRegex(child.stderr, f"error: bench: .*did you mean .?{hint}")
                self.assertEqual(len(re.findall("did you mean", child.stderr)), 1, str(child))

    def test_not_available_here(self):
        result, child = self.bench("--transport-option", "mode=reference", expect=3)
        self.assertIn("one process", child.stderr)
        self.assertIs(result["ok"], False)
        self.assertEqual(result["rows"], [])

    def test_an_operation_that_the_transport_lacks(self):
        for op in ONE_SIDED:
            child = self.run_program("bench", "--transport", "udp", "--memory", "host",
                                     "--op", f"send,{op}", expect=3)  # fmt: skip
            self.assertRegex(child.stderr, f"udp has no {op}; transports here that have {op}:.*loopback")
            self.assertEqual(child.stdout, "")
        child = self.run_program("bench", "--transport", "udp", "--memory", "host", *BRIEF,
                                 "--size", "64")  # fmt: skip
        self.assertIn("write or read skipped: udp has no such operation", child.stdout)
        self.assertIn("send latency skipped: udp is unreliable", child.stdout)

    def test_more_under_way_than_the_transport_takes(self):
        result, child = self.bench("--op", "write", "--size", "64", "--depth", "65536", expect=3)
        self.assertRegex(child.stderr, r"--depth 65536: .* at most \d+ transfers")
        self.assertEqual(result["rows"], [])

    def test_no_server(self):
        began = time.monotonic()
        child = self.run_program("bench", *PAIR, f"127.0.0.1:{self.port}", expect=1)
        self.assertIn("bench --server", child.stderr)
        self.assertLess(time.monotonic() - began, 40 * PATIENCE)

    def test_what_answers_is_no_server(self):
        with socket.create_server(("127.0.0.1", self.port)):
            child = self.run_program("bench", *PAIR, f"127.0.0.1:{self.port}", expect=1)
        self.assertRegex(child.stderr, f"error: bench: cannot talk to the server: 127.0.0.1:{self.port}: it accepted the connection and "
                                       r"did not answer; is a `penstock bench --server` running there\?$")

    def test_another_transport_at_the_server(self):
        server = self.server()
        child = self.run_program("bench", "--transport", "udp", "--memory", "host", "--op", "send",
                                 f"127.0.0.1:{self.port}", expect=2)  # fmt: skip
        self.assertRegex(child.stderr, "it was started with --transport loopback, this client with udp; give both the same")
        server.wait_line("is sent away: it has another --transport")
        self.assertIsNone(server.poll())

    def start_long(self, *arguments):
        child = self.start("bench", *PAIR, "--duration", "60", "--size", "64,128", "--json", "-",
                           *arguments)  # fmt: skip
        child.wait_line("(SEND|WRITE|READ) (bandwidth|latency)")
        return child

    def kinds(self):
        for op in OPS:
            for measure in ("--bandwidth", "--latency"):
                yield "--op", op, measure
        yield "--op", "write", "--verify"

    def processes(self, *arguments):
        """A client that measures, and the process at its other end."""
        client = self.start_long(*arguments)
        (server,) = wait_until(lambda: children_of(client.pid), 10, "the other process")
        return client, server

    def test_receiving_process_killed(self):
        for arguments in ((), ("--op", "write"), ("--op", "read"), ("--op", "write", "--verify")):
            with self.subTest(arguments=arguments):
                client, server = self.processes(*arguments)
                began = time.monotonic()
                os.kill(server, signal.SIGKILL)
                self.assertEqual(client.wait(), 1, str(client))
                self.assertLess(time.monotonic() - began, 40)  # it would have gone on for 60 s
                self.assertIn(str(server), client.stderr)
                self.assertRegex(client.stderr, "killed by signal 9")
                result = result_schema.read(client.stdout)
                self.assertEqual(len(result["rows"]), 1, "no case follows")
                self.assertIs(result["rows"][0]["ok"], False)
        self.assert_nothing_left()

    def test_client_killed(self):
        client, server = self.processes()
        client.signal(signal.SIGKILL)
        client.wait()
        wait_until(lambda: not os.path.exists(f"/proc/{server}"), 10, "the other process ends")
        self.assert_nothing_left()

    def test_server_killed(self):
        for arguments in self.kinds():
            with self.subTest(arguments=arguments):
                server = self.server()
                client = self.start_long(*arguments, f"127.0.0.1:{self.port}")
                server.kill()
                self.assertEqual(client.wait(), 1, str(client))
                self.assertIn(str(server.pid), client.stderr)
        self.assert_nothing_left()

    def test_a_server_outlives_its_clients(self):
        server = self.server("-v")
        lines = server.lines["stderr"]
        for number, arguments in enumerate(self.kinds()):
            client = self.start_long(*arguments, f"127.0.0.1:{self.port}")
            if number % 2:  # it has connected what is measured, too
                wait_until(lambda: sum(f"pid {client.pid}," in line and " is here" in line for line in lines) > 1, 20,
                           "a stream or a region is here")  # fmt: skip
            client.kill()
            goodbye = server.wait_line(rf"\(pid {client.pid}\) disconnected unexpectedly(.*)$")
            said = rf"(error|bench): lost the .*pid {client.pid}, .*killed"  # but for what -v adds
            told = [line for line in lines if re.search(said, line)]
            self.assertEqual(goodbye[1], "" if told else ": it was killed or crashed", told)
        result, _ = self.bench("--size", "64", f"127.0.0.1:{self.port}")
        self.assert_rows(result, [64])
        self.assertIsNone(server.poll())

    def test_a_client_that_does_not_show_its_user(self):
        """TCP on a loopback address alone, as any user of the host has it, and by a relay."""
        server = self.server()
        greeted = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(300)]
        with Relay(self.port) as relay:
            child = self.run_program("bench", *PAIR, f"127.0.0.1:{relay.port}", expect=1)
            self.assertIn("a relay lies between", child.stderr)
        if ORDINARY and reaches(PROGRAM):
            child = self.run_program("bench", *PAIR, f"127.0.0.1:{self.port}", expect=1, prefix=ORDINARY)
            self.assertIn("belongs to user 0, this end to user 65534", child.stderr)
        result, _ = self.bench("--size", "64", "--bandwidth", f"127.0.0.1:{self.port}")
        self.assert_rows(result, [64], ("bandwidth",))
        for connection in greeted:
            connection.close()
        self.assertIsNone(server.poll())

    def test_a_server_outlives_hostile_clients(self):
        """Hostile clients that join are in tests/unit/apps/bench/test_control_link.c."""
        server = self.server("--insecure")
        for said in (
            b"",
            b"GET / HTTP/1.0\r\n\r\n",
            b"\n",
            b"{" * 70000,
            b"\0\0\0\1" + b"[" * 70000,
            b"\xff" * 8,
            b'{"penstock_bench": 1, "transport": "loopback"}\n',
        ):
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                try:
                    client.sendall(said)
                    client.shutdown(socket.SHUT_WR)
                    client.settimeout(60)
                    while client.recv(4096):
                        pass
                except OSError as error:  # it may have hung up on us at any point
                    self.assertNotIsInstance(error, TimeoutError, said[:60])
            self.assertIsNone(server.poll(), f"{said[:60]}\n{server}")
        result, _ = self.bench("--size", "64", f"127.0.0.1:{self.port}")
        self.assert_rows(result, [64])

    def test_ends_that_share_a_core_are_warned_of(self):
        cpu = min(os.sched_getaffinity(0))
        for form in ((), ("--in-process",)):
            with self.subTest(form=form):
                result, child = self.bench("--size", "64", "--op", "send", "--bandwidth",
                                           "--cpu", f"{cpu},{cpu}", *form)  # fmt: skip
                self.assertLess(result["rows"][0]["cpu_share"], 0.95)
                self.assertRegex(child.stderr, r"warning: in 1 of 1 measurements .*less than a core")

    def test_ends_that_cannot_meet_end_it_at_once(self):
        spaces = Namespaces()
        self.addCleanup(spaces.close)
        if not spaces.reaches(PROGRAM):
            self.skipTest(f"an ordinary user does not reach {PROGRAM}")
        words = ("bench", *PAIR, *BRIEF, "--insecure", "--size", "64,128")
        server = self.start("bench", "--server", *PAIR, "--insecure", f"{IPV4[FAR]}:{self.port}",
                            prefix=spaces.enter(FAR))  # fmt: skip
        server.wait_line("serving transport loopback")
        client = self.run_program(*words, f"{IPV4[FAR]}:{self.port}", expect=1,
                                  prefix=spaces.enter(NEAR))  # fmt: skip
        self.assertIn("works only between processes of one host", client.stderr)
        # Each end has the same reason, and the other's word besides, which says no more.
        server.wait_line("has left")
        for end in (client, server):
            self.assertEqual(end.stderr.count("error: "), 1, str(end))
        # No row, and no other part of the table.
        self.assertNotRegex(client.stdout, "latency|64 B|128 B")

    def test_interrupted(self):
        forms = ((), ("--in-process",))
        for arguments in [(*form, *kind) for form in forms for kind in self.kinds()]:
            with self.subTest(arguments=arguments):
                client = self.start_long(*arguments)
                client.signal(signal.SIGINT)
                self.assertEqual(client.wait(), 1, str(client))
                result = result_schema.read(client.stdout)
                (error,) = result["errors"]
                self.assertEqual(error["code"], "stopped")
                self.assertRegex(error["text"], "stopped by SIGINT after 0 of [24] measurements; ")
                self.assertEqual(result["bench"]["stopped"], "signal")
                self.assertEqual(len(result["rows"]), 1, "no case follows")
                self.assertEqual(result["rows"][0]["stopped"], "signal")


if __name__ == "__main__":
    main(side_by_side=3)
