# SPDX-License-Identifier: Apache-2.0
"""The common part of the judges: programs that we did not write, run unmodified on the simulated device.

A judge is itself run by penstock-simverbs, so that what it starts finds the simulated libraries
and one fabric. Where a program is not installed, its cases are skipped and name the package.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, Case, SANITIZED, free_port, main, wait_until  # noqa: E402, F401

ETHERNET = "mlx5_0"
INFINIBAND = "mlx5_1"


def sanitizer_runtime():
    """Returns the environment that an unsanitized program needs to load a sanitized library."""
    if not SANITIZED:
        return {}
    names = [subprocess.run([os.environ.get("CC", "gcc"), f"-print-file-name={name}"], capture_output=True,
                            text=True, check=True).stdout.strip() for name in ("libasan.so", "libubsan.so")]
    # Programs that end without freeing everything are their authors' matter.
    return {"LD_PRELOAD": " ".join(names), "ASAN_OPTIONS": "detect_leaks=0"}


def need(program, package):
    if not shutil.which(program):
        raise unittest.SkipTest(f"{program} is not installed: apt-get install {package}")


class Judge(Case):
    def start_judge(self, program, *arguments, **options):
        environment = {**sanitizer_runtime(), **options.pop("environment", {})}
        return self.start(*arguments, program=program, environment=environment, **options)

    def run_judge(self, program, *arguments, expect=0, seconds=120, **options):
        child = self.start_judge(program, *arguments, **options)
        self.assertEqual(child.wait(seconds), expect, str(child))
        return child

    def pair(self, program, *arguments, server=(), client=(), port_option="-p", seconds=240, host="127.0.0.1"):
        """A server and its client, both to the end; their outputs."""
        port = free_port()
        listener = self.start_judge(program, *arguments, *server, port_option, port)
        self.wait_listening(listener, port)
        caller = self.start_judge(program, *arguments, *client, port_option, port, host)
        statuses = caller.wait(seconds), listener.wait(seconds)
        self.assertEqual(statuses, (0, 0), f"client:\n{caller}\nserver:\n{listener}")
        return caller, listener

    def wait_listening(self, child, port):
        def listening():
            if child.poll() is not None:
                raise AssertionError(f"ended before it listened\n{child}")
            return any(int(line.split()[1].rpartition(":")[2], 16) == port and line.split()[3] == "0A"
                       for name in ("tcp", "tcp6")
                       for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:])

        wait_until(listening, 20, f"listening on {port}")
