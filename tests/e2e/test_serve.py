#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve and request: READ and WRITE on demand, many clients, limits, deaths."""
import os
import signal
import socket
import subprocess
import threading
import unittest

from harness import BUILD, FAKES, FEWER, PROGRAM, SANITIZED, alone, main, random_file, wait_until
from serving import MIB, ServeCase, sha256

CLIENTS = 16 if SANITIZED else 64
SECONDS = float(os.environ.get("PENSTOCK_SERVE_SECONDS", 2.5))
# The ratio of the fastest client to the slowest. Started one by one, and on a busy machine, they differ
# for a while: over the minute of docs/howto/files.md the ratio is below 2.
FAIR = float(os.environ.get("PENSTOCK_SERVE_FAIR", 6))
CONNECTS = int(os.environ.get("PENSTOCK_SERVE_CONNECTS", 20 if SANITIZED else 200 // FEWER))
WARM = 10 if SANITIZED else 64
LEFT_BYTES = 128 << 10  # by all of them
# A sanitizer keeps what is freed, and qemu what it has translated (tests/arm64).
IS_MEMORY_KEPT = SANITIZED or "QEMU_SET_ENV" in os.environ


class Requests(ServeCase):
    def request(self, op, *arguments, **options):
        out = self.folder / "request.json"
        out.unlink(missing_ok=True)
        child = self.run_program("request", op, self.address, "--json", out, *arguments, **options)
        return self.result(out.name), child

    def test_writes_and_reads_of_every_form(self):
        self.serve(root=False)
        for op in ("write", "read"):
            for size, pieces, offset, depth, count in (
                (1, 1, 0, 1, 50),
                (4096, 1, 0, 1, 200),
                (4096, 64, 17, 4, 50),
                (100003, 7, 4095, 8, 30),
                (3 * MIB + 5, 1, 0, 2, 6),
                (3 * MIB + 5, 100, 1, 3, 6),
                (513, 512, 0, 1, 10),
            ):
                with self.subTest(op=op, size=size, pieces=pieces, offset=offset, depth=depth):
                    result, child = self.request(
                        op, "--size", size, "--pieces", pieces, "--offset", offset, "--depth", depth, "--count", count)  # fmt: skip
                    made = result["request"]
                    self.assertEqual(made["iterations"], count)
                    self.assertEqual(made["bytes_verified"], count * size)
                    self.assertEqual(made["completion_ns"]["count"], count)
                    self.assertLessEqual(made["completion_ns"]["p50"], made["completion_ns"]["p99"])
                    self.assertLessEqual(made["completion_ns"]["max"], made["round_trip_ns"]["max"])
                    self.assertRegex(child.stdout, rf"(?m)^{count * size} bytes in \d+\.\d{{3}} s = \d+\.\d\d [GM]bps$")
                    self.assertRegex(child.stdout, rf"(?m)^{count} iterations in \d+\.\d{{3}} s = \d+\.\d\d us each$")
                    for where in (f"{op.upper()}, at the server", "round trip, at the client"):
                        self.assertRegex(child.stdout, rf"(?m)^{where} \(us\): min \d+\.\d\d, p50 ")
        self.stop()

    def test_what_a_second_signal_ends_says_so(self):
        """The other end stands still, so that the first does not end it."""
        self.serve("--json", self.folder / "out.json")
        random_file(self.root / "file", 64 * MIB)
        slow = ("--chunk", "4KiB", "--depth", 1)
        for joined, (words, key) in enumerate((
            (("request", "write", self.address, "--duration", 60), "request"),
            (("get", self.address, "file", *slow), "copy"),
            (("put", self.address, self.root / "file", "--to", "other", *slow), "copy"),
        ), start=1):  # fmt: skip
            with self.subTest(words[0]):
                client = self.start(*words, "--json", self.folder / "client.json", cwd=self.here)
                self.wait_joined(joined)
                with self.server.stopped():
                    self.signal_twice(client)
                self.assert_uncounted(self.result("client.json"), key)
        client = self.start("request", "write", self.address, "--duration", 60)
        self.wait_joined(4)
        with client.stopped():
            self.signal_twice(self.server)
        self.assert_uncounted(self.result(), "serve")

    def signal_twice(self, child):
        child.signal(signal.SIGINT)
        child.signal(signal.SIGTERM)
        self.assertEqual(child.wait(), 130, str(child))

    def assert_uncounted(self, result, key):
        asked = {"op": "write", "size_bytes": 4096, "pieces": 1, "depth": 1} if key == "request" else {}
        known = {name: value for name, value in result[key].items() if value is not None}
        self.assertEqual(known, {**asked, "stopped": "signal"})
        self.assertEqual([error["code"] for error in result["errors"]], ["interrupted"])

    def test_without_verifying(self):
        self.serve(root=False)
        result, _ = self.request("write", "--no-verify", "--count", 100, "--depth", 8)
        self.assertEqual(result["request"]["bytes_verified"], 0)
        self.assertEqual(result["request"]["iterations"], 100)

    @alone
    def test_for_a_time(self):
        self.serve(root=False)

        def attempt():
            result, _ = self.request("read", "--duration", "300ms", "--depth", 4)
            self.assertGreater(result["request"]["seconds"], 0.29)
            return None if result["request"]["iterations"] > 4 else str(result)

        self.in_one_of_three(attempt)

    def test_little_memory_serves_large_requests(self):
        self.serve("--in-flight", "2MiB", root=False)
        for op in ("write", "read"):
            result, _ = self.request(op, "--size", "5MiB", "--pieces", 3, "--count", 12, "--depth", 6)
            self.assertEqual(result["request"]["bytes_verified"], 12 * 5 * MIB)

    def assert_stopped(self, child, number, done):
        """A signal cut it short, which is a failure."""
        child.signal(number)
        self.assertEqual(child.wait(), 1, str(child))
        result = self.result("first.json")
        (error,) = result["errors"]
        self.assertEqual((error["code"], result["request"]["stopped"]), ("stopped", "signal"))
        # The signal may have come before the first iteration.
        self.assertRegex(error["text"], f"stopped by {number.name}( {done}|$)")

    def test_limits_are_named(self):
        self.serve("--request-max", "1MiB", "--clients", 1, "--offer-max", "2MiB", root=False)
        child = self.run_program("request", "write", self.address, "--size", MIB, "--depth", 4, expect=1)
        self.assertRegex(child.stderr, r"limit `offer_bytes` is 2097152 \(the server's --offer-max\)")
        self.wait_joined(1)
        self.wait_all_left()
        result, child = self.request("write", "--size", MIB + 1, expect=1)
        self.assertRegex(child.stderr, r"error: --size: 1048577 B is over the server's --request-max of 1 MiB")
        self.assertEqual([error["where"] for error in result["errors"]], ["--size"])
        self.wait_joined(2)
        self.wait_all_left()
        words = ("--json", self.folder / "first.json")
        first = self.start("request", "write", self.address, "--duration", 60, *words)
        self.wait_joined(3)
        second = self.run_program("request", "write", self.address, expect=1)
        self.assertRegex(second.stderr, r"says: the limit of 1 peers .* is reached \(the server's --clients\)")
        self.assert_stopped(first, signal.SIGINT, r"after \d\.\d of 60\.0 seconds; ")
        self.wait_all_left()
        first = self.start("request", "write", self.address, "--count", 10**9, *words)
        self.wait_joined(4)
        self.assert_stopped(first, signal.SIGTERM, r"after \d+ of 1000000000 iterations; ")
        # Those that were refused left in order, and had their answers.
        self.assertNotIn("cannot answer", self.stop().stderr)

    @unittest.skipIf(SANITIZED, "a sanitizer takes address space by the terabyte")
    def test_memory_that_is_not_there(self):
        """The options that size it are the command's own; and whose limit it is that was met."""
        self.serve()
        (self.root / "file").touch()
        limit = ("prlimit", f"--as={256 * MIB}")  # what 64 chunks of the server's 4 MiB take
        for words, prefix, said in (
            (("request", "write", self.address, "--size", "64TiB"), (), "available: lower `--size` or `--depth`, or free memory$"),
            (("request", "write", self.address, "--size", "1GiB"), limit,
             "`ulimit -v` leaves .*: lower `--size` or `--depth`, or raise that limit$"),
            (("get", self.address, "file", "--chunk", "1GiB", "--depth", 64), limit, "leaves .*: lower `--chunk` or `--depth`"),
        ):
            with self.subTest(command=words):
                child = self.run_program(*words, prefix=prefix, cwd=self.here, expect=3)
                self.assertRegex(child.stderr, said)
                self.assertNotRegex(child.stderr, "`ring`|`message`")

    def test_none_are_asked_for(self):
        """Without iterations no times are printed."""
        self.serve(root=False)
        child = self.run_program("request", "write", self.address, "--count", 0)
        self.assertIn("0 iterations in", child.stdout)
        self.assertNotIn("p50", child.stdout)

    def test_a_client_that_prepares_its_memory_says_so(self):
        self.serve(root=False)
        self.run_program("request", "write", self.address, "--size", "1MiB", "--count", 3)
        self.server.wait_line("prepares its memory")
        self.server.wait_line("has prepared its memory")

    @alone
    def test_a_silent_client_is_sent_away(self):
        self.serve("--idle", "300ms", root=False)
        client = self.start("request", "write", self.address, "--duration", 60)
        self.server.wait_line("has prepared its memory")  # until then it is busy, not idle
        client.signal(signal.SIGSTOP)
        self.server.wait_line(r"nothing was asked for 0\.3 seconds \(the server's --idle\)")
        client.signal(signal.SIGCONT)
        self.assertEqual(client.wait(), 1, str(client))
        self.assertRegex(client.stderr, r"says: nothing was asked for .* --idle")

        def healthy():  # who waits for a CPU for so long is sent away, too
            child = self.run_program("request", "write", self.address, "--count", 3, expect=None)
            return None if child.status == 0 else str(child)

        self.in_one_of_three(healthy)

    def test_how_long_silence_is_borne(self):
        """A server drops a silent client, and a client gives up a silent server, after --timeout."""
        for server, client in ((("--timeout", "3s"), ()), ((), ("--timeout", "3s"))):
            with self.subTest(server=server, client=client):
                self.serve(*server, root=False)
                there = self.start("request", "write", self.address, "--duration", 60, *client)
                self.wait_joined(1)
                (there if server else self.server).signal(signal.SIGSTOP)
                if server:
                    self.server.wait_line("it said nothing for 3 s; it was stopped or killed")
                    there.signal(signal.SIGCONT)
                self.assertEqual(there.wait(), 1, str(there))
                self.assertIn("your end said nothing for 3 s; was its process stopped?" if server else "it said nothing for 3 s;", there.stderr)
                self.server.signal(signal.SIGCONT)
                self.stop()

    def test_a_server_that_is_stopped(self):
        """The kernel takes the connection: what to look at is said, and which option waits longer."""
        self.serve()
        (self.folder / "file").touch()
        with self.server.stopped():
            for words in (("request", "write", self.address), ("get", self.address, "file"), ("put", self.address, "file")):
                with self.subTest(command=words[0]):
                    out = self.folder / "out.json"
                    child = self.run_program(*words, "--timeout", "3s", "--json", out, expect=1, cwd=self.folder)
                    (error,) = self.result()["errors"]
                    self.assertEqual(error["code"], "peer")
                    self.assertRegex(error["text"], f"{self.address}: it accepted the connection and did not answer; check that the server runs, "
                                                    r"is not stopped \(\^Z, SIGSTOP\) .* with --timeout$")
                    self.assertEqual(child.stderr.count("penstock: error:"), 1, str(child))

    def test_who_may_take_part_is_an_option(self):
        """Its name is the command line's, not the file's."""
        for words in (("serve", "192.0.2.1:0"), ("request", "write", "192.0.2.1:1"), ("get", "192.0.2.1:1", "file"),
                      ("put", "192.0.2.1:1", "README.md"), ("bench", "192.0.2.1", "--transport", "loopback", "--memory", "host")):
            with self.subTest(command=words[0]):
                child = self.run_program(*words, expect=2)
                self.assertRegex(child.stderr, "beyond (loopback|this machine).* --insecure")
                self.assertNotIn("`insecure`", child.stderr)
        server = self.start("serve", "0.0.0.0:0", "--insecure")
        server.wait_line("serve: --insecure, so whoever reaches its port can take part; nothing on it is authenticated")
        self.start("serve", "0.0.0.0:0", "--insecure", "-v").wait_line(
            "warning: --insecure is set: listen 0.0.0.0:0 is open to whoever reaches it")

    @unittest.skipIf(os.getuid() != 0, "root alone can be two users")
    def test_another_user_learns_the_option(self):
        self.serve(root=False)
        self.folder.chmod(0o755)
        self.temporary.chmod(0o777)
        child = self.run_program("request", "write", self.address, expect=1,
                                 prefix=("setpriv", "--reuid=65533", "--clear-groups", "--regid=65533"))
        self.assertRegex(child.stderr, "all users of the host may take part, allow it with --insecure at both ends")

    def test_once(self):
        self.serve("--once", root=False)
        self.request("write", "--count", 3)
        self.assertEqual(self.server.wait(), 0, str(self.server))
        self.assert_nothing_left()

    def test_the_server_stops_while_clients_are_busy(self):
        self.serve(root=False)
        clients = {op: self.start("request", op, self.address, "--duration", 60, "--depth", 4, "--json", self.folder / op)
                   for op in ("write", "read")}
        self.wait_joined(2)
        self.stop()
        for op, client in clients.items():
            self.assertEqual(client.wait(), 1, str(client))
            self.assertIn("the server is stopping", client.stderr)
            result = self.result(op)
            self.assertEqual((result["request"]["stopped"], result["errors"][0]["code"]), ("peer", "peer"))
        self.assert_nothing_left()

    def test_nobody_serves(self):
        child = self.run_program("request", "write", "127.0.0.1:1", expect=1)
        self.assertIn("error: 127.0.0.1:1: Connection refused; is a `penstock serve` running there?", child.stderr)

    def test_what_answers_is_no_server(self):
        """One remedy of each: of who hangs up, and of who says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            child = self.run_program("request", "write", address, "--timeout", "3s", expect=1)
            self.assertRegex(child.stderr, r"it accepted the connection and did not answer; check that the server runs, .* with --timeout$")
            self.assertNotIn("?;", child.stderr)

            def hang_up():
                while True:
                    try:
                        listener.accept()[0].close()
                    except OSError:
                        return

            thread = threading.Thread(target=hang_up)
            thread.start()
            child = self.run_program("request", "write", address, expect=1)
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.assertIn(f"error: {address}: it closed the connection during the handshake; is a `penstock serve` running there?", child.stderr)

    def test_wrong_command_lines(self):
        for words, said in (
            (["request", "copy", "127.0.0.1:1"], "write or read"),
            (["request", "write"], "missing"),
            (["request", "write", "127.0.0.1:1", "--timeout", "2s"], "at least 3s"),
            (["request", "write", "127.0.0.1:1", "--pieces", "513"], "1 to 512"),
            (["request", "write", "127.0.0.1:1", "--size", "0"], "--size"),
            (["request", "write", "127.0.0.1:1", "--size", "3", "--pieces", "4"], "--pieces is more than the bytes of --size"),
            (["request", "write", "127.0.0.1:1", "--count", "3", "--duration", "3"], "exclude each other"),
            (["serve", "--read-only"], "need --root"),
            (["serve", "127.0.0.1:0", "--transport", "udp"], "which transport udp does not have with these options; use loopback, ucx or verbs_rc"),
            (["serve", "--clients", "0"], "--clients"),
            (["serve", "--root", "/no/such/folder"], "--root /no/such/folder: No such file or directory; create the folder"),
            (["serve", "--request-max", "1TiB", "--root", "/no/such/folder"], "No such file"),
            (["serve", "192.0.2.1:1"], "insecure"),
            (["serve", "127.0.0.1:0", "--transport-option", "bad=1"], "error: --transport-option bad=1: transport plugin loopback"),
            (["serve", "127.0.0.1:0", "--memory-option", "bad=1"], "error: --memory-option bad=1: memory plugin host"),
            (["request", "read", "127.0.0.1:1", "--transport-option", "bad=1"], "error: --transport-option bad=1: "),
            (["get", "127.0.0.1:1"], "missing"),
            (["put", "127.0.0.1:1", "x", "--depth", "65"], "1 to 64"),
            (["serve", "--idel", "3"], "--idle"),
            (["get", "127.0.0.1:1", "x", "--ring", "4"], "an option of other subcommands"),
        ):
            with self.subTest(words=words):
                child = self.run_program(*words, expect=2)
                self.assertIn(said, child.stderr)

    def test_a_result_that_cannot_be_written(self):
        """Said before a client is served, and before a server is looked for: there is none."""
        address = f"127.0.0.1:{self.port}"
        for words in (["serve", address], ["request", "write", address], ["get", address, "x"], ["put", address, "x"]):
            with self.subTest(words=words):
                child = self.run_program(*words, "--json", self.here / "missing" / "out.json", expect=2)
                self.assertRegex(child.stderr, "--json: .*missing/out.json: No such file.*; create the folder")
        self.assert_nothing_left(self.here)

    def test_nobody_is_there(self):
        child = self.run_program("request", "write", f"127.0.0.1:{self.port}", expect=1, seconds=30)
        self.assertRegex(child.stderr, "(?i)refused|timed out|no answer")


class Many(ServeCase):
    @alone
    def test_all_at_once_verified_and_fair(self):
        """READ and WRITE mixed; who asks alike gets alike, within a factor, but for a client that
        others keep from asking."""
        self.serve("--clients", CLIENTS, "--in-flight", "32MiB", root=False)
        self.in_one_of_three(self.unfair)
        self.stop()
        self.assert_nothing_left()

    def unfair(self):
        """Why it was; None: it was fair."""
        clients = []
        for number in range(CLIENTS):
            out = self.folder / f"client-{number}.json"
            op = ("write", "read")[number % 2]
            clients.append((op, out, self.start("request", op, self.address, "--size", "16KiB", "--depth", 4,
                                                "--duration", SECONDS, "--json", out)))  # fmt: skip
        made = {"write": [], "read": []}
        for op, out, client in clients:
            self.assertEqual(client.wait(60 + 4 * SECONDS), 0, str(client))
            result = self.result(out.name)["request"]
            self.assertEqual(result["bytes_verified"], result["bytes_delivered"])
            self.assertGreater(result["bytes_delivered"], 0)
            made[op].append(result["bytes_delivered"] / result["seconds"])
        for op, rates in made.items():
            print(f"{op}: {len(rates)} clients, fastest to slowest {max(rates) / min(rates):.2f}")
            if max(rates) > FAIR * min(rates):
                return f"{op}: {sorted(rates)}"
        return None

    def test_clients_that_die_harm_nobody(self):
        self.serve(root=False)
        steady = self.start("request", "write", self.address, "--duration", 600, "--json", self.folder / "steady.json")
        self.wait_joined(1)
        for number in range(10):
            client = self.start("request", ("write", "read")[number % 2], self.address, "--size", "1MiB", "--depth", 8,
                                "--duration", 600)  # fmt: skip
            self.wait_joined(number + 2)
            client.kill()
            left = number + 1
            wait_until(lambda: self.count(" left after ") >= left, 20, "its death was noticed")
        steady.signal(signal.SIGINT)
        self.assertEqual(steady.wait(), 1, str(steady))
        self.assertEqual([error["code"] for error in self.result("steady.json")["errors"]], ["stopped"])
        result = self.result("steady.json")["request"]
        self.assertEqual(result["bytes_verified"], result["bytes_delivered"])
        self.stop()
        self.assert_nothing_left()

    def connect(self, number, at_once=4):
        """So many clients, one after the other or at once, and all have left."""
        before = self.count(r"has joined, \d+ here$")
        op = ("write", "read")[before % 2]
        subprocess.run(["xargs", f"-P{at_once}", "-I{}", PROGRAM, "request", op, self.address, "--count", "2"],
                       input="\n".join(map(str, range(number))), stdout=subprocess.DEVNULL, text=True, check=True,
                       timeout=600, env=dict(os.environ, TMPDIR=str(self.temporary)))  # fmt: skip
        self.wait_joined(before + number)
        self.wait_all_left()

    def test_connects_leave_nothing(self):
        self.serve("--clients", 64)
        self.connect(WARM)
        descriptors = self.descriptors()
        memory = self.resident()
        self.connect(CONNECTS)
        wait_until(lambda: self.descriptors() <= descriptors, 20, "no descriptor is left")
        if not IS_MEMORY_KEPT:
            wait_until(lambda: self.resident() < memory + LEFT_BYTES, 20, "no memory is left")
        # Memory and descriptors that many clients took at once are given back.
        self.connect(48, at_once=48)
        wait_until(lambda: self.descriptors() <= descriptors, 20, "no descriptor is left")
        if not IS_MEMORY_KEPT:
            wait_until(lambda: self.resident() < memory + MIB, 20, "what many took is given back")
        self.stop()
        self.assert_nothing_left()


class Gpu(ServeCase):
    """Regions of GPU memory, on the fake driver, whose device memory two processes share."""

    def setUp(self):
        super().setUp()
        built = (BUILD / "memory" / "nvidia" / "kernels.fatbin").exists()
        path = [] if built else ["--plugin-path", FAKES / "cuda"]
        self.cuda = [*path, "--memory", "cuda"]
        # The fake's IPC opens another process' descriptor, which Landlock forbids; CUDA's does not.
        self.environment = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "FAKE_CUDA": "delay_us=100", "PENSTOCK_SANDBOX": "off"}

    def test_requests_and_files(self):
        self.serve(*self.cuda, environment=self.environment)
        for op in ("write", "read"):
            self.run_program("request", op, self.address, *self.cuda, "--size", 300000, "--pieces", 3, "--offset", 64,
                             "--depth", 3, "--count", 20, "--json", self.folder / "out.json",
                             environment=self.environment)  # fmt: skip
            self.assertEqual(self.result()["request"]["bytes_verified"], 20 * 300000)
        source = random_file(self.root / "file", 9 * MIB + 5)
        self.get("file", *self.cuda, "--sha256", environment=self.environment)
        self.assertEqual(sha256(self.here / "file"), sha256(source))
        self.put("file", *self.cuda, "--to", "back", "--sha256", environment=self.environment)
        self.assertEqual(sha256(self.root / "back"), sha256(source))

    def test_requests_do_not_wait_for_each_other(self):
        """Kernels of the fake run once those of all eight requests under way are submitted: whoever
        waited for one before it began the next would wait for ever."""
        together = {**self.environment, "FAKE_CUDA": "delay_us=100,together=8"}
        self.serve(*self.cuda, environment=together)
        for op in ("write", "read"):
            self.run_program("request", op, self.address, *self.cuda, "--size", 30000, "--pieces", 3, "--depth", 8,
                             "--count", 24, "--json", self.folder / "out.json", environment=together)  # fmt: skip
            self.assertEqual(self.result()["request"]["bytes_verified"], 24 * 30000)

    def test_an_error_names_its_iteration(self):
        """The fourth copy of the server's is spoilt, with others under way before and behind it."""
        for op, said in (("write", "what the server wrote"), ("read", "what was read from the region")):
            with self.subTest(op=op):
                self.serve(*self.cuda, environment={**self.environment, "FAKE_CUDA": "delay_us=100,spoil=4"})
                child = self.run_program("request", op, self.address, *self.cuda, "--size", 30000, "--depth", 8,
                                         "--count", 24, environment=self.environment, expect=1)  # fmt: skip
                self.assertRegex(child.stderr, f"iteration 3: {said} is not the pattern")
                self.stop()

    def test_a_copy_that_goes_wrong(self):
        """Between the CPU and the region: both sums are named, and nothing has the file's name."""
        self.serve(*self.cuda, environment=self.environment)
        spoilt = {**self.environment, "FAKE_CUDA": "delay_us=100,spoil=2"}
        random_file(self.root / "file", 3 * MIB)
        random_file(self.here / "other", 3 * MIB)
        said = (r"other|file: .*the copy {} the region, memory cuda \(.+\), went wrong: the CRC32C of \d+ bytes at \d+ is "
                r"([0-9a-f]{{8}}) in the region and ([0-9a-f]{{8}}) in the CPU's memory; .*--resume")  # fmt: skip
        for way, child in (
            ("out of", self.get("file", *self.cuda, "--chunk", "1MiB", environment=spoilt, expect=1)),
            ("into", self.put("other", *self.cuda, "--chunk", "1MiB", environment=spoilt, expect=1)),
        ):
            with self.subTest(way=way):
                self.assertRegex(child.stderr, said.format(way))
        self.assertFalse((self.here / "file").exists() or (self.root / "other").exists())
        for command in (self.get, self.put):
            command("file" if command == self.get else "other", *self.cuda, "--resume", "--sha256", environment=self.environment)
        self.assertEqual(sha256(self.here / "file"), sha256(self.root / "file"))
        self.assertEqual(sha256(self.here / "other"), sha256(self.root / "other"))

    def test_a_server_without_a_gpu_says_so(self):
        self.serve(environment=self.environment)
        child = self.run_program("request", "write", self.address, *self.cuda, environment=self.environment, expect=1)
        self.assertIn("cannot be offered", child.stderr)
        self.assert_healthy()


if __name__ == "__main__":
    main(side_by_side=3)
