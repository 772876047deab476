#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The promises of guests.py: jobs, files and signals; guests that hang, die or are cut off; and nothing that outlives
the test."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import guests
import machine
from guests import BUILD, main, tcp_listener, wait_until

PORT = 18515
CONFIGURATIONS = pathlib.Path(__file__).resolve().parents[2] / "config"


def is_alive(pid):
    """Whether it runs; one that has ended and waits for its parent does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Jobs(guests.Case):
    def test_a_job_brings_back_its_status_its_output_and_files(self):
        guest = self.guest()
        job = guest.run("echo said; echo complained >&2; echo kept >file; exit 3", expect=3)
        self.assertEqual((job.stdout, job.stderr), ("said\n", "complained\n"))
        self.assertEqual((guest.folder / "file").read_text(), "kept\n")

    def test_a_failing_command_ends_a_job(self):
        with self.assertRaisesRegex(AssertionError, "exit 1, not 0"):
            self.guest().run("false\necho not here")

    def test_a_job_is_followed_and_killed_with_all_that_it_started(self):
        job = self.guest().start("sleep 1000 &\necho up $!\nwait")
        child = job.wait_line(r"up (\d+)")[1]
        self.assertFalse(job.ended())
        job.signal(signal.SIGKILL)
        self.assertEqual(job.wait(20), 128 + signal.SIGKILL)
        self.guest().run(f"while grep -q '^State:.[^ZX]' /proc/{child}/status; do sleep 0.05; done")

    def test_the_sandbox_is_tried_before_it_is_used(self):
        """The job's folder is 9p without a cache, on which no rule of Landlock holds; elsewhere they do, in Linux 6.1 too."""
        run = f"{BUILD}/penstock run {CONFIGURATIONS}/loopback.yaml --count 10 --json out.json"
        guest = self.guest()
        job = guest.run(f"{run} -v")
        self.assertRegex(job.stderr, r"sandbox: without Landlock for .*keeps no inodes.*: Stale file handle")
        self.assertIn("there is no Landlock for out.json (", guest.run(f"{run} --sandbox require", expect=3).stderr)
        guest.run(f"mkdir /tmp/here && cd /tmp/here && {run} --sandbox require && grep -q '\"exit_status\": 0' out.json")

    def test_an_adapter_within_the_whole_sandbox(self):
        """Both ends of a stream over soft-RoCE, with Landlock and seccomp."""
        guest = self.guest()
        job = guest.start(f"mkdir /tmp/adapter && cd /tmp/adapter && exec {BUILD}/penstock run {CONFIGURATIONS}/verbs.yaml"
                          " --set transport.options.device=rxe0 --sandbox require --json out.json")  # fmt: skip
        job.wait_line("packets: Got [1-9]")
        guest.run("grep -h Seccomp: /proc/$(pidof penstock)/task/*/status | sort -u | tee seccomp >&2 && grep -qx 'Seccomp:.2' seccomp"
                  " && [ $(wc -l <seccomp) = 1 ]")
        job.signal(signal.SIGINT)
        self.assertEqual(job.wait(60), 0, job)
        guest.run("cd /tmp/adapter && grep -q '\"exit_status\": 0' out.json && grep -q '\"path\": \"direct\"' out.json")

    def test_the_build_is_inside_and_the_host_is_safe(self):
        self.guest().run(f"test -x {BUILD}/penstock && {BUILD}/penstock --version && touch {BUILD}/touched")
        self.assertFalse((BUILD / "touched").exists())

    def test_killed_programs_leave_nothing_of_verbs_behind(self):
        guest = self.guest("b")
        before = guest.resources()
        for _ in range(5):
            job = guest.start("exec ibv_rc_pingpong -d rxe0 -g 1")
            job.await_listener(tcp_listener(PORT))
            held = guest.resources()
            for kind in ("qp", "mr", "cq", "pd"):
                self.assertGreater(held[kind], before[kind], held)
            job.signal(signal.SIGKILL)
            job.wait(20)
        self.assertEqual(guest.resources(), before)

    def test_a_memlock_limit_bites(self):
        def server(command):
            return self.guest("b").start(f"exec {command} ibv_rc_pingpong -d rxe0 -g 1 -s 1048576")

        refused = server(guests.with_memlock(64))
        self.assertNotEqual(refused.wait(20), 0)
        self.assertIn("Couldn't register MR", refused.stderr)
        allowed = server(guests.with_memlock(1 << 16))
        allowed.await_listener(tcp_listener(PORT))

    def test_a_cable_that_is_out_for_a_while(self):
        """ibv_rc_pingpong retries for ever, so it survives, and has more to say than there is
        time for; the port says that it is down."""
        near = self.guest("a")
        self.addCleanup(near.set_link, True)
        pingpong = "exec ibv_rc_pingpong -d rxe0 -g 1 -n 1000000000"
        server = self.guest("b").start(pingpong)
        server.await_listener(tcp_listener(PORT))
        client = near.start(f"{pingpong} 10.9.0.2")
        self.await_answers(near)
        near.set_link(False)
        near.await_port("DOWN")
        down = near.counters()["rcvd_pkts"]
        retries = self.retries()
        wait_until(lambda: self.retries() > retries + 5, 20, "it is tried again")
        self.assertEqual(near.counters()["rcvd_pkts"], down)
        near.set_link(True)
        near.await_port("ACTIVE")
        self.await_answers(near)
        self.assertFalse(client.ended(), str(client))
        self.assertFalse(server.ended(), str(server))

    def retries(self):
        """Retries of both ends: whose turn it is is not known."""
        return sum(self.guest(name).counters()["completer_retry_err"] for name in "ab")

    def await_answers(self, guest):
        before = guest.counters()["rcvd_pkts"]
        wait_until(lambda: guest.counters()["rcvd_pkts"] > before + 1000, 20, "packets come")


class Deaths(unittest.TestCase):
    """Guests of their own: they do not live."""

    def setUp(self):
        guests.need()
        folder = tempfile.TemporaryDirectory(prefix="deaths-", dir=BUILD / "vm")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_boot_that_takes_too_long_is_ended_and_reported(self):
        self.addCleanup(setattr, machine, "BOOT_SECONDS", machine.BOOT_SECONDS)
        machine.BOOT_SECONDS = 0.1
        # The least that a wait takes, of which each second would be one of this test.
        children = machine.harness.children
        self.addCleanup(setattr, children, "HANGS", children.HANGS)
        children.HANGS = 0
        hangs = "rdinit=/bin/busybox -- sleep 100000"
        with self.assertRaisesRegex(AssertionError, "still not: guest a has booted"):
            guests.Guests(self.folder, 1, kernel_arguments=hangs)
        self.assertFalse(self.emulators())

    def test_a_kernel_that_gives_up_is_reported_with_its_last_words(self):
        with self.assertRaisesRegex(AssertionError, "(?s)guest a is gone.*Kernel panic"):
            guests.Guests(self.folder, 1, kernel_arguments="rdinit=/nowhere")
        self.assertFalse(self.emulators())

    def test_a_guest_whose_power_is_cut_answers_no_more(self):
        both = guests.Guests(self.folder, 2)
        self.addCleanup(both.close)
        both["a"].run("busybox ping -c 1 -W 60 10.9.0.2")
        both["b"].kill()
        self.assertEqual([guest.name for guest in both.alive()], ["a"])
        both["a"].run("busybox ping -c 1 -W 1 10.9.0.2", expect=1)
        with self.assertRaisesRegex(AssertionError, "guest b is gone"):
            both["b"].run("true")

    def test_a_kernel_that_complains_is_heard(self):
        one = guests.Guests(self.folder, 1)
        self.addCleanup(one.close)
        self.assertIsNone(one["a"].complaint())
        for place in ("rxe_pool.c:255 __rxe_cleanup", "rxe_pool.c:255 __rxe_add_to_pool"):
            for line in ("------------[ cut here ]------------",
                         f"WARNING: CPU: 0 PID: 7 at drivers/infiniband/sw/rxe/{place}+0x1/0x2 [rdma_rxe]",
                         "Call Trace:", "---[ end trace 0000000000000000 ]---"):  # fmt: skip
                one["a"].run(f"echo '<2>{line}' >/dev/kmsg")
            one["a"].run("echo '<2>told' >/dev/kmsg")
            wait_until(lambda: "told" in one["a"].log.read_text(), 20, "the warning is on the serial line")
            self.assertEqual(bool(one["a"].complaint()), "cleanup" not in place)
        one["a"].log.write_text("")
        one["a"].run("echo '<2>BUG: made up' >/dev/kmsg")
        wait_until(one["a"].complaint, 20, "the complaint is on the serial line")

    def test_guests_end_with_their_runner(self):
        for number in (signal.SIGKILL, signal.SIGINT):
            with self.subTest(number):
                program = (
                    "import guests, pathlib, signal\n"
                    # A shell makes jobs in the background ignore SIGINT.
                    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                    f"g = guests.Guests(pathlib.Path({str(self.folder)!r}), 1)\n"
                    "input()"
                )
                runner = subprocess.Popen([sys.executable, "-c", program], cwd=guests.HERE,
                                          stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
                wait_until(self.emulators, 20, "a guest is started")
                os.kill(runner.pid, number)
                runner.wait(120)
                runner.stdin.close()
                wait_until(lambda: not self.emulators(), 20, "the guest has ended")
                (self.folder / "a").rename(self.folder / f"a-{number}")

    def emulators(self):
        """The processes that run guests of this test's folder."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if command.startswith(b"qemu") and bytes(self.folder) in command and is_alive(path.name):
                found.append(int(path.name))
        return found


if __name__ == "__main__":
    main()
