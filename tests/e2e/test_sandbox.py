# SPDX-License-Identifier: Apache-2.0
"""The sandbox of run, send, receive, serve and share: what an intruder can still do in each of their threads."""
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import struct
import unittest

from harness import FAKES, HAS_PCAP, PROGRAM, SANITIZED, main, wait_until
from serving import ServeCase

INTRUDER = FAKES / "libintruder.so"
EACCES, EPERM, ENOSYS = 13, 1, 38
LIBC = ctypes.CDLL(None, use_errno=True)
LANDLOCK = max(0, LIBC.syscall(444, None, ctypes.c_size_t(0), 1))
HAS_SECCOMP = b"libseccomp" in PROGRAM.read_bytes()
# The address sanitizer's leak check needs both.
SPARED = {"fork", "trace"} if SANITIZED else set()
BY_LANDLOCK = {"connect": 4, "multipath": 4, "fast open": 4, "signal": 6}  # and its version that has it
BY_SECCOMP = {"packets", "fork", "exec", "trace", "unshare", "terminal"} - SPARED


def states(pid):
    """Returns the status of each thread of a process."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        text = (task / "status").read_text()
        found[int(task.name)] = dict(re.findall(r"^(\w+):\t(.*)$", text, re.M))
    return found


def is_sealed(pid):
    return all(state["Seccomp_filters"] == "2" for state in states(pid).values())


@unittest.skipUnless(LANDLOCK > 0 and HAS_SECCOMP, "this kernel has no Landlock, or this build no seccomp")
class Sandbox(ServeCase):
    def setUp(self):
        super().setUp()
        self.secret = self.folder / "secret"
        self.secret.write_text("a secret")
        self.stranger = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.stranger.close)
        self.service = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.service.close)
        self.service.bind(str(self.folder / "service"))
        self.service.listen()

    def environment(self, read=(), write=(), **more):
        return {
            "LD_PRELOAD": str(INTRUDER),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            "INTRUDER_READ": ":".join(map(str, (self.secret, *read))),
            "INTRUDER_WRITE": ":".join(map(str, (self.folder / "planted", *write))),
            "INTRUDER_SERVICE": str(self.folder / "service"),
            "INTRUDER_PORT": str(self.stranger.getsockname()[1]),
            **more,
        }

    def receiver(self, *options, **environment):
        config = self.config("- {name: a, message: 4KiB, ring: 16}")
        receiver = self.start("receive", config, *options, environment=self.environment(**environment))
        return receiver

    def intrude(self, child):
        """Returns the attempts of each thread that takes the signal: thread to {attempt: errno}."""
        asked = [thread for thread, state in states(child.pid).items()
                 if not int(state["SigBlk"], 16) >> (signal.SIGUSR1 - 1) & 1]  # fmt: skip
        for thread in asked:
            LIBC.tgkill(child.pid, thread, signal.SIGUSR1)
        told = {}

        def is_over():
            for line in list(child.lines["stderr"]):
                if match := re.fullmatch(r"intruder (\d+): (.+): (\d+)", line.strip()):
                    told.setdefault(int(match[1]), {})[match[2]] = int(match[3])
            return sum("end" in attempts for attempts in told.values()) >= len(asked)

        wait_until(is_over, 20, "the intruder has tried all")
        return told

    def assert_stopped(self, told, let_through=()):
        self.assertGreater(len(told), 0)
        for attempts in told.values():
            attempts.pop("end")
            for name, code in attempts.items():
                if name in let_through or name in SPARED or LANDLOCK < BY_LANDLOCK.get(name, 0):
                    continue
                expected = (EACCES,) if name.startswith(("read", "write")) else (EPERM, EACCES)
                self.assertIn(code, expected, f"{name} was let through: {attempts}")

    # ---- who listens ----

    def test_a_receiver(self):
        (self.folder / "results").mkdir()
        receiver = self.receiver("--sandbox", "require", "--metrics", "127.0.0.1:0",
                                 "--json", self.folder / "results" / "r.json")  # fmt: skip
        wait_until(lambda: is_sealed(receiver.pid), 20, "all threads are sealed")
        for state in states(receiver.pid).values():
            self.assertEqual(state["NoNewPrivs"], "1")
            # CAP_SYS_MODULE, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_NET_ADMIN
            self.assertEqual(int(state["CapEff"], 16) & (1 << 16 | 1 << 19 | 1 << 21 | 1 << 12), 0)
        self.assert_stopped(self.intrude(receiver))
        self.assertFalse((self.folder / "planted").exists())
        receiver.signal(signal.SIGTERM)
        receiver.wait()

    def test_without_it_the_intruder_gets_through(self):
        receiver = self.receiver("--sandbox", "off")
        receiver.wait_line("waiting|receive")
        told = self.intrude(receiver)
        for attempts in told.values():
            for name in ("multipath", "fast open", "service", f"read {self.secret}", f"write {self.folder / 'planted'}", "connect", "fork", "exec", "trace",
                         "signal", "unshare"):  # fmt: skip
                self.assertEqual(attempts[name], 0, name)
        receiver.signal(signal.SIGTERM)
        receiver.wait()

    def test_a_server_and_its_root(self):
        inside, new = self.root / "inside", self.root / "new"
        inside.write_text("for clients")
        for options, is_open in ((("--overwrite",), True), (("--read-only",), False)):
            with self.subTest(options):
                server = self.serve("--sandbox", "require", *options,
                                    environment=self.environment(read=[inside], write=[new]))  # fmt: skip
                told = self.intrude(server)
                for attempts in told.values():
                    self.assertEqual(attempts[f"write {new}"], 0 if is_open else EACCES)
                    self.assertEqual(attempts[f"read {inside}"], 0)
                self.assert_stopped(told, (f"read {inside}", f"write {new}"))
                self.get("inside")
                (self.here / "inside").unlink()
                self.stop()

    def test_a_stream_through_it(self):
        config = self.config("- {name: a, message: 4KiB, ring: 16, receiver: {sink: {type: file, file: out.bin}}}")
        receiver = self.start("receive", config, "--sandbox", "require", "--json", "r.json", cwd=self.folder)
        sender = self.start("send", config, "--sandbox", "require", "--count", "100", cwd=self.folder)
        self.assertEqual(sender.wait(), 0, str(sender))
        self.assertEqual(receiver.wait(), 0, str(receiver))
        self.assertEqual((self.folder / "out.bin").stat().st_size, 100 * 4096)
        self.assert_accounted(self.only_stream(self.result("r.json")))

    def test_a_sender(self):
        """Which may connect: to its receiver's port alone."""
        config = self.config("- {name: a, message: 4KiB, ring: 16}")
        sender = self.start("send", config, "--sandbox", "require", environment=self.environment())
        wait_until(lambda: is_sealed(sender.pid), 20, "all threads are sealed")
        self.assert_stopped(self.intrude(sender))
        sender.signal(signal.SIGTERM)
        sender.wait()

    def test_a_router(self):
        """Also in the threads of a client."""
        path, limits = self.folder / "share", self.folder / "limits" / "limits.yaml"
        limits.parent.mkdir()
        limits.write_text("classes: [{name: all}]")
        router = self.start("share", "--socket", path, "--limits", limits, "--sandbox", "require",
                            environment=self.environment())  # fmt: skip
        router.wait_line("share: serving")
        config = self.config("- {name: a, message: 4KiB, ring: 16}")
        share = f"transport={{plugin: share, options: {{socket: {path}}}}}"
        client = self.start("run", config, "--set", share)
        client.wait_line("a: Got")
        wait_until(lambda: is_sealed(router.pid), 20, "all threads are sealed")
        told = self.intrude(router)
        self.assertGreater(len(told), 2)
        self.assert_stopped(told)
        self.assertFalse((self.folder / "planted").exists())
        client.signal(signal.SIGINT)
        self.assertEqual(client.wait(), 0, client)
        router.signal(signal.SIGINT)
        self.assertEqual(router.wait(), 0, router)
        self.assertFalse(path.exists())

    def test_what_still_works_in_it(self):
        """Results into a pipe, a capture that is sent again and again, names of peers that look like paths."""
        config = self.config("- {name: a, message: 4KiB, ring: 16}")
        child = self.start("run", config, "--sandbox", "require", "--count", "1", "--json", "/dev/stdout", "-q")
        self.assertEqual((child.wait(), json.loads(child.stdout)["exit_status"]), (0, 0), str(child))
        if HAS_PCAP:
            capture = self.folder / "c.pcap"
            packets = (struct.pack("<IIII", 1, number, 64, 64) + bytes(64) for number in range(3))
            capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(packets))
            again = self.config(f"- {{name: a, message: 1KiB, sender: {{source: {{type: pcap, file: {capture}, loop: true}}}}, receiver: {{sink: discard}}}}")  # fmt: skip
            self.run_program("run", again, "--count", "10", "--sandbox", "require")

    # ---- where it is missing ----

    def test_a_kernel_without_landlock(self):
        hides = {"INTRUDER_HIDES_LANDLOCK": "1"}
        child = self.run_program("receive", self.config("- {name: a, message: 4KiB, ring: 16}"), "--sandbox", "require",
                                 environment=self.environment(**hides), expect=3)  # fmt: skip
        self.assertIn("--sandbox require: there is no Landlock here: Function not implemented", child.stderr)
        receiver = self.receiver("-v", "--sandbox", "auto", **hides)
        wait_until(lambda: is_sealed(receiver.pid), 20, "what there is, is used")
        self.assertIn("sandbox: without Landlock", receiver.stderr)
        receiver.signal(signal.SIGTERM)
        receiver.wait()

    def test_the_environment_s_word(self):
        config = self.config("- {name: a, message: 4KiB, ring: 16}")
        child = self.run_program("run", config, "--count", "1", environment={"PENSTOCK_SANDBOX": "on"}, expect=2)
        self.assertIn("PENSTOCK_SANDBOX is not one of auto, require, off", child.stderr)
        receiver = self.start("receive", config, environment={"PENSTOCK_SANDBOX": "off"})
        receiver.wait_line("waiting")
        self.assertEqual({state["Seccomp"] for state in states(receiver.pid).values()}, {"0"})
        receiver.signal(signal.SIGTERM)
        receiver.wait()

    def test_wrong_words(self):
        child = self.run_program("serve", "--sandbox", "tight", expect=2)
        self.assertIn("--sandbox 'tight' is not one of auto, require, off", child.stderr)


if __name__ == "__main__":
    main()
