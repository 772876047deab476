#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An ordinary user without a GPU or an adapter: each command that looks at the machine answers within a second of CPU time."""
import json
import os
import signal

import netns
from harness import HANGS, PATIENCE, PROGRAM, Case, main, wait_until

MOST = 1.0 * PATIENCE  # seconds of CPUs, of the command and of the programs that it runs
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.getuid() == 0 else ()


class Ordinary(Case):
    def ask(self, *words, expect=(0,)):
        """Runs a command as a user without a home; returns the standard output."""
        if NOBODY and not netns.reaches(PROGRAM):
            self.skipTest("an ordinary user does not reach the program")
        child = self.run_program(*words, expect=None, prefix=NOBODY, cwd="/",
                                 environment={"HOME": "/nonexistent", "TMPDIR": "/tmp", "XDG_RUNTIME_DIR": ""})  # fmt: skip
        self.assertIn(child.process.returncode, expect, str(child))
        used = child.usage.ru_utime + child.usage.ru_stime
        self.assertLess(used, MOST, str(child))
        return child.stdout

    def test_doctor(self):
        text = self.ask("doctor", expect=(0, 1))
        for check in ("kernel", "iommu", "huge-pages", "clock"):
            self.assertRegex(text, rf"(?m)^  (?:ok|warning|fails|cannot tell) +{check} ")
        self.assertRegex(text, r"(?m)^ok [1-9]\d*, warning \d+, fails \d+, cannot tell \d+, not here \d+$")

    def test_topo(self):
        text = self.ask("topo")
        self.assertRegex(text, r"(?m)^NUMA node 0: .*CPUs")
        self.assertRegex(text, r"(?m)^ +lo: .*127\.0\.0\.1/8")

    def test_init_and_check(self):
        file = self.write("first.yaml", self.ask("init", "--as", "loopback"))
        self.folder.chmod(0o755)
        file.chmod(0o644)
        self.assertRegex(self.ask("check", file, "--for", "run"), r"(?m)^streams:$")

    def test_plugins(self):
        text = self.ask("plugins")
        self.assertRegex(text, r"(?m)^transport udp .* usable ")
        for plugin in ("loopback", "verbs_rc", "cuda"):
            self.assertRegex(text, rf"(?m)^(?:transport|memory) +{plugin} ")

    def test_hardware_check(self):
        text = self.ask("hardware-check", "--transport", "loopback,verbs_rc", "--memory", "host", "--check", "address",
                        "--duration", "20ms", "--json", "-")  # fmt: skip
        checks = {(check["check"], check["transport"]): check for check in json.loads(text)["checks"]}
        self.assertEqual(checks["address", "loopback"]["verdict"], "ok")

    def test_a_pipe_says_what_is_measured_before_it_is(self):
        long = ("--transport", "loopback", "--memory", "host", "--duration", "100s")
        for words, line in ((("bench", *long), "SEND bandwidth"), (("hardware-check", *long, "--check", "address"), "other end:")):
            with self.subTest(words[0]):
                child = self.start(*words)
                wait_until(lambda child=child, line=line: line in child.stdout or child.poll() is not None, HANGS, "the first lines")
                self.assertIsNone(child.poll(), str(child))
                child.signal(signal.SIGINT)
                child.wait()


if __name__ == "__main__":
    main()
