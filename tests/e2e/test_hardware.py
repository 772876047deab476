#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock hardware-check: on the simulated device, on the fake GPU and on a bare host; its verdicts, its report, how it ends."""
import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import socket
import subprocess
import unittest

from harness import BUILD, FAKES, FEWER, HANGS, PATIENCE, PROGRAM, SIMULATED, Case, free_port, main, wait_until

BRIEF = ("--duration", "20ms")
LIMIT = ("--limit", f"{min(60 * PATIENCE, 600)}s")
VERBS = ["rings", "messages", "ordering", "one-thread", "scale", "recovery", "cycles", "outage", "readdress"]
# These take the most CPU, and test_verbs_dc.py runs them, too.
LEFT_OUT = {"contract", "scale"} if FEWER > 1 else set()
PAIR = ["stream", "one-sided", "bench"]
CUDA = FAKES / "cuda"
# Sanitized programs take longer to begin: what is to be disturbed lasts longer.
SLOWER = min(PATIENCE, 3)


def fake_gpu(script):
    # The fake's IPC opens another process' descriptor, which the sandbox forbids; CUDA's does not.
    return {"LD_LIBRARY_PATH": str(CUDA), "FAKE_CUDA": script, "PENSTOCK_SANDBOX": "off"}



def children_of(pid):
    """None of a process that has ended."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(word) for word in path.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def running_with(pids, word):
    """The program that was started with a word; None before it is executed."""
    for pid in pids:
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if word.encode() in words and b"hardware-check" not in words:
            return pid
    return None


class Checking(Case):
    def check(self, *words, expect=0, brief=BRIEF, **options):
        """Checks by name, the result and the child; neither its report nor its result names this host."""
        result, child = self.run_json("hardware-check", *brief, *LIMIT, *words, expect=expect, **options)
        for text in (child.stdout, (self.folder / "out.json").read_text()):
            leak = re.search(rf"(?i).*\b{re.escape(socket.gethostname())}\b.*", text)
            self.assertIsNone(leak, leak and leak[0])
        return {check["check"]: check for check in result["checks"]}, result, child

    def by_pair(self, result):
        """Verdicts by check, transport and memory."""
        return {(c["check"], c["transport"], c["memory"]): c["verdict"] for c in result["checks"]}

    def verdicts(self, checks):
        return {name: check["verdict"] for name, check in checks.items()}


class Host(Checking):
    """Checks that any machine can run, and those of the fake GPU."""

    def test_a_bare_host(self):
        """Each transport and each pair with host memory; what a transport has not is skipped, and says so."""
        checks, result, child = self.check("--transport", "loopback,udp", "--memory", "host")
        pairs = self.by_pair(result)
        self.assertEqual(pairs, {
            ("memory", None, "host"): "ok",
            **{(check, transport, None): "ok" for check in ("address", "contract") for transport in ("loopback", "udp")},
            **{(check, transport, "host"): "ok" for check in PAIR for transport in ("loopback", "udp")},
            ("one-sided", "udp", "host"): "skipped"}, child)  # fmt: skip
        self.assertRegex(child.stdout, "one-sided +skipped +bench: transport udp has no write or read")
        self.assertRegex(child.stdout, "1 MiB skipped: bench: message: 1048576 B is more than transport udp carries")
        for check in result["checks"]:
            for row in (row for step in check["steps"] for row in step["measured"] or [] if row["ok"]):
                self.assertEqual((row["path"], row["corrupted"]), ("direct", 0), check)
                if check["check"] == "stream":
                    self.assertEqual(row["verified"], row["messages_delivered"])
        contract = next(c for c in result["checks"] if (c["check"], c["transport"]) == ("contract", "udp"))
        self.assertEqual([(step["step"], step["verdict"]) for step in contract["steps"]],
                         [("between both ends", "skipped"), ("within one process", "ok")])  # fmt: skip

    def test_a_check_that_is_not_one(self):
        child = self.run_program("hardware-check", "--check", "strem", expect=2)
        self.assertRegex(child.stderr, "'strem' is not one of address, memory, .*readdress; did you mean 'stream'")

    def test_what_is_not_usable(self):
        """An unusable plugin is named with its reason, and the rest runs; if nothing can run, the status is 3."""
        checks, result, child = self.check("--transport", "nothing,loopback", "--memory", "host,none", "--check", "address,memory")
        self.assertEqual(self.by_pair(result), {("memory", None, "host"): "ok", ("address", "nothing", None): "skipped",
                                                ("address", "loopback", None): "ok"}, child)  # fmt: skip
        whys = {part["name"]: part["why"] for kind in ("transports", "memories") for part in result["hardware"][kind]}
        self.assertIsNone(whys["loopback"])
        self.assertIn("there is no transport 'nothing'", whys["nothing"])
        self.assertIn("memory none is not used: there is no memory 'none'", child.stdout)
        result, child = self.run_json("hardware-check", "--transport", "nothing", expect=3)
        self.assertEqual(([], "failure"), (result["checks"], result["hardware"]["stopped"]))
        self.assertIn("there is no transport 'nothing'", child.stderr)
        ethernet = self.run_program("hardware-check", "--transport", "ethernet", expect=3)
        self.assertRegex(ethernet.stderr, "--device PCI-ADDRESS|ethernet")
        share = self.run_program("hardware-check", "--transport", "share", expect=3)
        self.assertIn("share: its option socket has no default: --transport share --transport-option socket=VALUE", share.stderr)
        lost = self.run_program("hardware-check", "--device", "mlx5_77", expect=3)
        self.assertIn("no transport here lists a device mlx5_77", lost.stderr)

    def test_a_terminal_shows_the_case(self):
        """That of a contract; the line is gone in the end."""
        near, far = pty.openpty()
        command = [PROGRAM, "hardware-check", "--memory", "host", "--check", "memory"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=far) as child:
            os.close(far)
            said = b""
            with contextlib.suppress(OSError):  # EIO: it has ended
                while more := os.read(near, 4096):
                    said += more
        os.close(near)
        self.assertEqual(child.returncode, 0, said)
        self.assertRegex(said, rb"^(\rtest_\w+\x1b\[K)+\r\x1b\[K$")

    def test_no_contract_to_run(self):
        """The check is skipped, and says how to get penstock-contract."""
        copy = shutil.copy(PROGRAM, self.folder / "penstock")
        checks, _, child = self.check("--transport", "loopback", "--check", "contract", "--plugin-path", BUILD / "transports",
                                      "--plugin-path", BUILD / "memory", program=copy,
                                      environment={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(BUILD / "core")})  # fmt: skip
        self.assertEqual(self.verdicts(checks), {"address": "ok", "contract": "skipped"}, child)
        self.assertIn("libpenstock-dev", checks["contract"]["why"])

    def gpu(self, memory, script, *words, expect=0):
        return self.check("--plugin-path", CUDA, "--memory", memory, *words, environment=fake_gpu(script), expect=expect)

    def test_a_gpu(self):
        """Its contract, and streams and transfers into it and out of it; the result has the path of each."""
        for memory, script, path in (("cuda", "delay_us=0", "staged"), ("igpu", "integrated=1,delay_us=0", "mapped")):
            with self.subTest(memory):
                checks, result, child = self.gpu(memory, script, "--transport", "loopback", "--check", "memory,stream,one-sided,bench")
                self.assertEqual(set(self.verdicts(checks).values()), {"ok"}, child)
                self.assertEqual({check["memory"] for check in result["checks"]}, {memory, None})
                steps = {step["step"]: step for step in checks["stream"]["steps"]}
                self.assertEqual(list(steps), ["into it", "out of it"])
                for row in steps["into it"]["measured"]:
                    self.assertEqual((row["path"], row["verified"]), (path, row["messages_delivered"]), child)
                    self.assertEqual(bool(row["path_reason"]), path == "staged")

    def test_a_gpu_that_gets_other_bytes(self):
        """Its contract, streams and transfers each notice."""
        for check, transport, spoil in (("memory", "loopback", 1), ("stream", "udp", 3), ("one-sided", "loopback", 5)):
            with self.subTest(check):
                checks, _, child = self.gpu("cuda", f"delay_us=0,spoil={spoil}", "--transport", transport, "--check", check, expect=1)
                self.assertEqual(checks[check]["verdict"], "failed", child)
                self.assertTrue(checks[check]["why"] and checks[check]["remedy"], child)

    def test_the_path_is_expected(self):
        """One that messages cannot take fails, and says why."""
        checks, _, child = self.gpu("cuda", "delay_us=0", "--transport", "udp", "--check", "stream", "--path", "direct", expect=1)
        self.assertEqual(self.verdicts(checks), {"address": "ok", "stream": "failed"}, child)
        self.assertRegex(checks["stream"]["why"], "direct is not possible: transport udp receives into memory that the CPU can touch")
        checks, _, child = self.gpu("cuda", "delay_us=0", "--transport", "udp", "--check", "stream", "--path", "staged")
        self.assertEqual(self.verdicts(checks), {"address": "ok", "stream": "ok"}, child)

    def stopped_or_killed(self, number, check, word, *words):
        """The check, whose asking program has got this signal."""
        child = self.start("hardware-check", "--transport", "loopback", "--memory", "host", "--check", check, *words,
                           "--json", self.folder / "out.json")  # fmt: skip
        asking = wait_until(lambda: child.poll() is not None or running_with(children_of(child.pid), word), 60, "the step")
        self.assertIsNot(asking, True, str(child))
        os.kill(asking, number)
        self.assertEqual(child.wait(), 1, str(child))
        found = self.result()["checks"][-1]
        self.assertEqual(found["verdict"], "failed", str(child))
        return found, child

    def test_a_program_that_hangs(self):
        """The program is killed, and the report has its command line."""
        found, child = self.stopped_or_killed(signal.SIGSTOP, "memory", "--deadline", "--limit", "500ms", "--duration", "300ms")
        self.assertRegex(found["why"], r"had not ended after .* s \(--limit\), and was killed: .*penstock-contract .*memory-host\.so")
        self.assertEqual(found["steps"][0]["here"]["ended"], "still running")

    def test_a_program_that_crashes(self):
        """That of a stream, and that of a contract."""
        for check, word in (("stream", "1462,60000"), ("contract", "--connect")):
            with self.subTest(check):
                found, child = self.stopped_or_killed(signal.SIGABRT, check, word, "--duration", "2s")
                self.assertRegex(found["why"], "^this end was killed by signal 6", str(child))
                self.assertTrue(found["remedy"])

    def test_between_hosts(self):
        """The memory of the receiving end alone; what needs it here, too, is skipped."""
        port = free_port(3)
        server = self.start("hardware-check", "--server", "--once", "--plugin-path", CUDA, f"127.0.0.1:{port}",
                            environment=fake_gpu("delay_us=0"))  # fmt: skip
        server.wait_line("hardware-check: serving")
        checks, result, child = self.check("--transport", "udp", "--memory", "cuda", "--check", "stream",
                                          "--transport-option", "sndbuf=64KiB", f"127.0.0.1:{port}")  # fmt: skip
        self.assertEqual(server.wait(), 0, str(server))
        (here, peer) = (checks["stream"]["steps"][0][end]["command"] for end in ("here", "peer"))
        self.assertIn("--transport-option sndbuf=64KiB", here)
        self.assertNotIn("sndbuf", peer, "an option is of this host's ends")
        self.assertEqual([(step["step"], step["verdict"]) for step in checks["stream"]["steps"]],
                         [("into it", "ok"), ("out of it", "skipped")], child)  # fmt: skip
        self.assertIn("no memory cuda at this end", checks["stream"]["steps"][1]["why"])
        self.assertTrue(checks["stream"]["memory_device"])
        self.assertEqual(result["hardware"]["peer_environment"]["hostname"], "host-1")

    def test_a_far_end_that_says_what_cannot_be(self):
        """The far end's text cannot steer a terminal, and the result keeps to its schema."""
        hello = {"penstock_hardware_check": 1, "tools": -1, "memories": [None, {"name": "host", "devices": [{}]}], "environment": {
                    "hostname": "far\n\x1b[2J", "cores": "many", "huge_pages": [1], "extra": 1, "cpu": "x" * 200},
                 "transports": [7, {"name": "udp", "why": 1, "devices": [None, {"name": "\x1b[31m" * 99, "detail": "\u202e"}]}]}  # fmt: skip
        told = '{"told": {"exit_status": -5, "ended": 7, "lines": [1, "\\u001b[2J"], "command": [], "counters": {"cycles": "x"}}}'
        for lines, why in (
                (['{"penstock_hardware_check": NaN}'], "is not a penstock hardware-check --server"),
                (['{"penstock_hardware_check": 1, "tools": 1e999}'], "is not a penstock hardware-check --server"),
                (['{"penstock_hardware_check": 1, "a\\u001b": 1}'], "is not a penstock hardware-check --server"),
                ([json.dumps(hello)], "the other end has gone"),
                ([json.dumps(hello), "<", '{"error": "no \\u001b[2J"}', "<", told], r"no \?\[2J"),
                ([json.dumps(hello), "<", '{"port": 65536}', "<", told], "the other end names no port"),
                ([json.dumps(hello), "<", '{"port": 1}', "<", told], "127.0.0.1")):  # fmt: skip
            with self.subTest(lines=lines[1:] or lines):
                far = subprocess.Popen([BUILD / "tests" / "e2e" / "rank", "listen", "127.0.0.1:0"], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
                with far:
                    address = far.stdout.readline().strip()
                    child = self.start("hardware-check", *BRIEF, "--transport", "udp", "--memory", "host", "--check", "address",
                                       "--json", self.folder / "out.json", address)  # fmt: skip
                    far.communicate("\n".join(["<", *lines, "<"]), timeout=HANGS)
                self.assertIn(child.wait(), (1, 3), child)
                said = child.stdout + child.stderr
                self.assertRegex(said, why)
                self.assertNotIn("\x1b", said)
                self.result()

    def test_wrong_command_lines(self):
        for words, why in ((("--check", "ring"), "did you mean 'rings'"),
                           (("--device", "a,,b"), "--device 'a,,b' is not a list"),
                           (("--transport", "udp,"), "--transport 'udp,' is not a list"),
                           (("--duration", "11min"), "at most 10 min"),
                           (("--limit", "0"), "--limit '0' is not a time"),
                           (("--path", "stagd"), "did you mean 'staged'"),
                           (("--memory-option", "a=b"), "--memory-option is for one --memory"),
                           (("--transport-option", "a=b"), "--transport-option is for one --transport"),
                           (("--once",), "--once is for --server"),
                           (("--server", "--check", "rings"), "the client says what is checked"),
                           (("1.2.3.4", "--peer-device", "a"), "has its own --device")):  # fmt: skip
            with self.subTest(words):
                self.assertRegex(self.run_program("hardware-check", *words, expect=2).stderr, why)


@unittest.skipUnless(SIMULATED, "the simulated RDMA device is not built: libibverbs-dev is missing")
class Hardware(Checking):
    fabrics = 0

    def setUp(self):
        super().setUp()
        Hardware.fabrics += 1
        self.fabric = f"hardware-{os.getpid()}-{Hardware.fabrics}"

    def prefix(self, *more):
        return {"prefix": (SIMULATED, "--fabric", self.fabric, *more)}

    def plant(self, device, *faults):
        """A fabric of one host with this device, as YAML has it."""
        path = self.folder / f"{self.fabric}.yaml"
        path.write_text("simverbs: 1\nhosts:\n  - name: one\n    devices:\n"
                        f"      - {{name: mlx5_0, ports: [{{link_layer: ethernet}}], {device}}}\n"
                        + ("faults:\n" if faults else "")
                        + "".join(f"  - {{{fault}, on: one}}\n" for fault in faults))  # fmt: skip
        self.fabric = str(path)

    def check(self, *words, **options):
        words = words if "--transport" in words else ("--transport", "verbs_rc", *words)
        return super().check(*words, **{**self.prefix(), **options})

    def test_all_on_one_host(self):
        wanted = [check for check in ("memory", "address", "contract", *VERBS, *PAIR) if check not in LEFT_OUT]
        named = ("--check", ",".join(wanted)) if LEFT_OUT else ()
        checks, result, child = self.check("--device", "mlx5_0", "--memory", "host", *named)
        self.assertEqual(list(checks), wanted)
        found = self.verdicts(checks)
        for name in ("outage", "readdress"):
            self.assertEqual(found.pop(name), "skipped", child)
            self.assertIn(f"--{name}", checks[name]["why"])
        self.assertIn(found.pop("cycles"), ("ok", "skipped"), child)
        self.assertEqual(set(found.values()), {"ok"}, child)
        if checks["cycles"]["verdict"] == "ok":
            self.assertGreater(checks["cycles"]["steps"][0]["here"]["a_message"]["instructions"], 10)
        self.assertEqual([step["step"] for step in checks["stream"]["steps"]], ["into it", "by SEND into it"])
        self.assertEqual([step["step"] for step in checks["one-sided"]["steps"]],
                         ["WRITE and READ", "written by a server", "read by a server"])  # fmt: skip
        self.assertRegex(child.stdout, r"other end: mlx5_0 port 1, QP \d+ to QP .*GID 3, 127.0.0.1 \(RoCE v2\): the port's only")
        for step in (step for check in checks.values() for step in check["steps"]):
            for row in step["measured"] or []:
                self.assertTrue(row["ok"])
                self.assertGreater(row["messages_measured"], 0)
            if step["step"].startswith("ib_write_bw") and step["verdict"] == "ok":
                self.assertGreater(step["gbps"], 0)
        self.assertEqual((result["hardware"]["stopped"], result["hardware"]["form"]), ("source_end", "processes"))

    def test_queues_that_are_too_small(self):
        """A device without room for 8192 completions, which cannot make more: rings fail, and nothing else."""
        self.plant("caps: {max_cqe: 6000, resize_cq: false}")
        checks, result, child = self.check("--check", "rings,one-thread", expect=1)
        self.assertEqual(self.verdicts(checks), {"address": "ok", "rings": "failed", "one-thread": "ok"}, child)
        self.assertEqual([step["verdict"] for step in checks["rings"]["steps"]], ["ok", "failed", "failed", "ok", "ok", "ok"])
        self.assertRegex(checks["rings"]["why"], "max_cqe|completion")
        self.assertIn("max_cqe", checks["rings"]["remedy"])
        self.assertIn("remedy: see max_qp_wr", child.stdout)
        (error,) = result["errors"]
        self.assertEqual((error["where"], error["text"]), ("checks[1]", checks["rings"]["why"]))

    def test_pieces_that_are_too_many(self):
        self.plant("caps: {gives_pieces: 20}")
        checks, _, child = self.check("--check", "rings", expect=1)
        (failed,) = [step for step in checks["rings"]["steps"] if step["verdict"] == "failed"]
        self.assertEqual(failed["step"], "30 pieces", child)
        self.assertRegex(failed["why"], "no resources for another peer.*; its output says which$")
        self.assertIn("20 of 30 pieces of a send", "\n".join(failed["peer"]["lines"]))
        self.assertIn("max_sge", checks["rings"]["remedy"])

    def test_ports_that_cannot_meet(self):
        """RoCE and InfiniBand: all else cannot be told, and is not tried."""
        checks, _, child = self.check("--device", "mlx5_0", "--peer-device", "mlx5_1", expect=1)
        found = self.verdicts(checks)
        self.assertEqual(found.pop("address"), "failed", child)
        self.assertEqual(set(found.values()), {"unknown"}, child)
        self.assertRegex(checks["address"]["why"], "InfiniBand|link layer|Ethernet")
        self.assertIn("`address`", checks["rings"]["why"])

    def disturbed(self, check, word, disturb, *words, **options):
        """The check, of which disturb() has disturbed the step whose client has the word. The step lasts longer than a program
        takes that disturb() starts."""
        words = words or ("--transport", "verbs_rc")
        child = self.start("hardware-check", "--device", "mlx5_0", "--check", check, "--duration", f"{600 * SLOWER}ms", *words,
                           "--json", self.folder / "out.json", **self.prefix(), **options)  # fmt: skip
        (own,) = wait_until(lambda: children_of(child.pid), 30, "the program")
        step = wait_until(lambda: child.poll() is not None or running_with(children_of(own), word), 60, "the step")
        if child.poll() is None:
            disturb(step)
        status = child.wait()
        address, found = self.result()["checks"]
        if found["verdict"] == "skipped":
            self.skipTest(found["why"])
        self.assertEqual((status, address["verdict"], found["verdict"]), (1, "ok", "failed"), str(child))
        return found

    def ctl(self, *words):
        self.run_program("ctl", self.fabric, *words, program=SIMULATED)

    def test_a_queue_pair_that_fails(self):
        """By SEND, with relaxed ordering, or while cycles are counted."""
        fabric = self.fabric
        cases = (("messages", "operation=send", "by SEND"), ("ordering", "relaxed_ordering=true", "on"),
                 ("cycles", "1462", "1 queue pair"))  # fmt: skip
        for check, word, failed in cases[::FEWER]:
            with self.subTest(check):
                self.fabric = f"{fabric}-{check}"
                found = self.disturbed(check, word, lambda _: self.ctl("qp-error", "--from", "host/mlx5_0"))
                steps = [step["step"] for step in found["steps"] if step["verdict"] == "failed"]
                self.assertEqual([step for step in steps if not step.startswith("ib_")], [failed])
                self.assertRegex(found["why"], "IBV_|queue pair")
                self.assertTrue(found["remedy"])

    def test_dynamically_connected_queue_pairs_that_fail(self):
        """Amid the contract, and beside clients that are killed."""
        fabric = self.fabric
        for check, word, failed in (("contract", "--connect", "between both ends"), ("recovery", "--depth", "1 of 4")):
            with self.subTest(check):
                self.fabric = f"{fabric}-{check}"
                found = self.disturbed(check, word, lambda _: self.ctl("qp-error", "--from", "host/mlx5_0"),
                                       "--transport", "verbs_dc")  # fmt: skip
                self.assertEqual(found["steps"][0]["step"], failed)
                self.assertEqual(found["steps"][0]["verdict"], "failed", found)
                self.assertTrue(found["why"] and found["remedy"])

    @unittest.skipIf(FEWER > 1, "it starts 64 clients, as test_verbs_dc.py does")
    def test_fewer_queue_pairs_than_clients_need(self):
        """A client of verbs_dc has some 35: there are enough for 16 clients, and not for 64."""
        self.plant("caps: {max_qp: 1000}")
        checks, _, child = self.check("--transport", "verbs_dc", "--check", "scale", expect=1)
        self.assertEqual([step["verdict"] for step in checks["scale"]["steps"]], ["ok", "ok", "failed"], child)
        self.assertRegex(checks["scale"]["why"], "client [0-9]+ of 64: status [13]: |an initiator|of a target: Cannot allocate")
        self.assertIn("rdma resource", checks["scale"]["remedy"])

    def test_a_queue_of_two_threads(self):
        """libmlx5 then ends the process."""
        found = self.disturbed("one-thread", "send,write,read", lambda pid: os.kill(pid, signal.SIGABRT))
        self.assertRegex(found["why"], "^this end was killed by signal 6 .Aborted")
        self.assertIn("multithreading violation", found["remedy"])

    def test_an_outage(self):
        """Of 2 s of the fabric's clock the connection survives, of a minute it does not. The device retries for 4.3 s of that
        clock, within which both ends get a CPU. The stream, of six times the duration, lasts longer than the command."""
        for seconds, verdict in ((2, "ok"), (60, "failed")):
            with self.subTest(seconds):
                self.fabric += "-outage"
                checks, _, child = self.check(
                    "--device", "mlx5_0", "--check", "outage", "--outage",
                    f"{SIMULATED} ctl . clock {20 // SLOWER}; {SIMULATED} ctl . port-down host/mlx5_0/1 --for {seconds}s",
                    expect=0 if verdict == "ok" else 1, brief=("--duration", f"{300 * SLOWER}ms"))  # fmt: skip
                self.assertEqual(self.verdicts(checks), {"address": "ok", "outage": verdict}, child)
                (step,) = checks["outage"]["steps"]
                self.assertGreater(step["disturbed_seconds"], 0)
                if verdict == "failed":
                    self.assertIn("IBV_WC_RETRY_EXC_ERR", checks["outage"]["why"])
                    self.assertIn("`timeout`", checks["outage"]["remedy"])

    def test_an_outage_after_the_stream(self):
        """The stream had ended before the outage, so the check is `unknown`, not `ok`."""
        checks, _, child = self.check("--device", "mlx5_0", "--check", "outage", "--outage", f"sleep {2 * SLOWER}")
        self.assertEqual(self.verdicts(checks), {"address": "ok", "outage": "unknown"}, child)
        self.assertIn("longer --duration", checks["outage"]["why"])

    def test_another_address(self):
        checks, _, child = self.check("--device", "mlx5_1", "--check", "readdress", "--readdress",
                                      f"{SIMULATED} ctl . port-set host/mlx5_1/1 --lid 77")  # fmt: skip
        self.assertEqual(self.verdicts(checks), {"address": "ok", "readdress": "ok"}, child)
        (step,) = checks["readdress"]["steps"]
        self.assertEqual(step["requested"]["iterations"], 100)
        self.assertRegex("\n".join(step["peer"]["lines"]), "has another address now")

    def test_an_address_that_is_not_reached(self):
        checks, _, child = self.check("--device", "mlx5_1", "--check", "readdress", "--readdress",
                                      f"{SIMULATED} ctl . port-down host/mlx5_1/1", expect=1)  # fmt: skip
        self.assertEqual(self.verdicts(checks), {"address": "ok", "readdress": "failed"}, child)
        self.assertIn("restart it", checks["readdress"]["remedy"])

    def test_commands_that_fail(self):
        """If the command of --outage fails, the check is unknown, not survived."""
        checks, _, child = self.check("--device", "mlx5_0", "--check", "outage", "--outage", "echo no such link >&2; false")
        self.assertEqual(self.verdicts(checks), {"address": "ok", "outage": "unknown"}, child)
        self.assertRegex(checks["outage"]["why"], "status 1: no such link")

    def gpu(self, script, checks, expect=0):
        return self.check("--device", "mlx5_0", "--plugin-path", CUDA, "--memory", "cuda", "--check", checks,
                          environment=fake_gpu(script), expect=expect)  # fmt: skip

    def test_a_gpu(self):
        """Into it and out of it the adapter moves the bytes itself."""
        checks, result, child = self.gpu("delay_us=0", "stream,one-sided,gpu")
        self.assertEqual(self.by_pair(result), {
            ("address", "verbs_rc", None): "ok", ("stream", "verbs_rc", "cuda"): "ok",
            ("one-sided", "verbs_rc", "cuda"): "ok", ("gpu", "verbs_rc", "cuda"): "ok"}, child)  # fmt: skip
        self.assertEqual([step["step"] for step in checks["stream"]["steps"]], ["into it", "out of it", "by SEND into it"])
        for check in ("stream", "gpu"):
            for row in (row for step in checks[check]["steps"] for row in step["measured"]):
                self.assertEqual((row["path"], row["corrupted"]), ("direct", 0))
                self.assertEqual(row["verified"], row["messages_delivered"])

    def test_a_gpu_that_gets_other_bytes(self):
        """Without dma-buf messages are copied to it, and this one spoils a copy."""
        self.plant("caps: {dmabuf: false}")
        checks, _, child = self.gpu("delay_us=0,spoil=3", "stream", expect=1)
        self.assertEqual((checks["address"]["verdict"], checks["stream"]["verdict"]), ("ok", "failed"), child)
        step = checks["stream"]["steps"][0]
        self.assertEqual({row["path"] for row in step["measured"]}, {"staged"})
        self.assertEqual(sum(row["corrupted"] for row in step["measured"]), 1)
        self.assertIn("nvidia-smi topo", checks["stream"]["remedy"])

    def test_a_gpu_that_is_not_kept_up_with(self):
        """A consumer's queue pair fails while it holds messages."""
        found = self.disturbed("gpu", "50us", lambda _: self.ctl("qp-error", "--from", "host/mlx5_0"), "--transport", "verbs_rc",
                               "--plugin-path", CUDA, "--memory", "cuda", environment=fake_gpu("delay_us=0"))  # fmt: skip
        self.assertEqual(found["steps"][0]["verdict"], "failed", found)
        self.assertIn("nvidia-peermem", found["remedy"])

    def test_a_gpu_that_is_written_by_the_cpu(self):
        """An adapter that puts short messages into the completion, and cannot be told not to."""
        self.plant("vendor: soft-roce, caps: {dmabuf: true, scatter_to_cqe: 32}")
        checks, _, child = self.gpu("delay_us=0", "stream", expect=1)
        self.assertEqual((checks["address"]["verdict"], checks["stream"]["verdict"]), ("ok", "failed"), child)
        self.assertEqual([step["step"] for step in checks["stream"]["steps"] if step["verdict"] == "failed"], ["by SEND into it"])
        self.assertIn("operation: write", checks["stream"]["remedy"])

    def long_one(self, *words):
        child = self.start("hardware-check", "--transport", "verbs_rc", "--device", "mlx5_0", "--check", "rings", "--duration", "60s",
                           "--json", self.folder / "out.json", *words, **self.prefix())  # fmt: skip
        return child

    def test_an_interrupt(self):
        """Checks that have ended are reported."""
        child = self.long_one()
        (own,) = wait_until(lambda: children_of(child.pid), 30, "the program")
        wait_until(lambda: len(children_of(own)) == 2, 30, "a step")
        os.kill(own, signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        result = self.result()
        self.assertEqual(result["hardware"]["stopped"], "signal")
        self.assertEqual({check["verdict"] for check in result["checks"]}, {"unknown"})
        self.assertRegex(result["checks"][0]["why"], "stopped")
        self.assertIn("stopped by SIGINT", child.stderr)

    def test_a_program_that_crashes(self):
        """A crash ends the step, and the report says at which end and how."""
        for word, whose in (("--server", "the other end"), ("--json", "this end")):
            with self.subTest(whose):
                child = self.long_one()
                (own,) = wait_until(lambda: children_of(child.pid), 30, "the program")
                victim = wait_until(lambda: len(children_of(own)) == 2 and running_with(children_of(own), word), 30, "a step")
                os.kill(victim, signal.SIGABRT)  # the address sanitizer would make an exit of SIGSEGV
                self.assertEqual(child.wait(), 1, str(child))
                address, rings = self.result()["checks"]
                self.assertEqual((address["verdict"], rings["verdict"]), ("failed", "unknown"))
                self.assertRegex(address["why"], rf"^{whose} was killed by signal 6 .Aborted")

    def test_a_kill_ends_its_programs(self):
        child = self.long_one()
        (own,) = wait_until(lambda: children_of(child.pid), 30, "the program")
        programs = wait_until(lambda: len(children_of(own)) == 2 and children_of(own), 30, "a step")
        os.kill(own, signal.SIGKILL)
        child.wait()
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in programs), 30, "its programs end")
        self.assertEqual(self.result()["state"], "running")

    def server(self, port, *words):
        child = self.start("hardware-check", "--server", "--transport", "verbs_rc", "--device", "mlx5_0", f"127.0.0.1:{port}", *words, **self.prefix())
        child.wait_line("hardware-check: serving")
        return child

    def test_two_processes(self):
        """A server serves one client after the other, in its own words."""
        port = free_port(3)
        server = self.server(port)
        for _ in range(2):
            checks, result, child = self.check("--device", "mlx5_1,mlx5_0", "--check", "one-thread", f"127.0.0.1:{port}", expect=1)
            self.assertEqual([check["verdict"] for check in result["checks"]], ["failed", "unknown", "ok", "ok"], child)
            self.assertEqual((checks["address"]["adapter"], checks["address"]["peer_adapter"]), ("mlx5_0", "mlx5_0"))
            self.assertEqual(result["hardware"]["form"], "hosts")
            self.assertEqual(result["hardware"]["peer_environment"]["hostname"], "host-1")
            (step,) = checks["one-thread"]["steps"]
            self.assertRegex(step["peer"]["command"], rf"^MLX5_SINGLE_THREADED=1 penstock bench --server .* 127.0.0.1:{port + 1}$")
        (own,) = children_of(server.pid)
        os.kill(own, signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))
        self.assertEqual(str(server).count("has left"), 2, str(server))

    def test_a_server_that_is_killed(self):
        port = free_port(3)
        server = self.server(port)
        client = self.long_one(f"127.0.0.1:{port}")
        (own,) = children_of(server.pid)
        wait_until(lambda: children_of(own), 30, "a step")
        os.kill(own, signal.SIGKILL)
        self.assertEqual(client.wait(), 1, str(client))
        server.wait()
        result = self.result()
        self.assertEqual(result["hardware"]["stopped"], "peer")
        self.assertEqual({check["verdict"] for check in result["checks"]}, {"unknown"}, str(client))
        self.assertIn("the other end has gone", client.stderr)

    def test_a_client_that_is_killed(self):
        """Its server ends the step, and serves the next."""
        port = free_port(3)
        server = self.server(port, "--once")
        client = self.long_one(f"127.0.0.1:{port}")
        (own,) = children_of(server.pid)
        wait_until(lambda: children_of(own), 30, "a step")
        (program,) = children_of(client.pid)
        os.kill(program, signal.SIGKILL)
        client.wait()
        self.assertEqual(server.wait(), 0, str(server))
        self.assertIn("disconnected unexpectedly", str(server))


if __name__ == "__main__":
    main(side_by_side=3)
