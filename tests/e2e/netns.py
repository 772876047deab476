# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces joined by a veth pair, as an ordinary user: all in a user
namespace of its own, so that no test needs a privilege and none changes this host."""
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import wait_until

# A test that runs as root gives that up first.
ORDINARY = (
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.getuid() == 0 else []
)
MAC = ("02:00:00:00:00:01", "02:00:00:00:00:02")
IPV4 = ("10.77.0.1", "10.77.0.2")
IPV6 = ("fd77::1", "fd77::2")
DEVICE = ("va0", "vb0")
NEAR, FAR = 0, 1


def need(*programs):
    """Skip the test where one of them is not installed."""
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is not installed")


def reaches(path):
    """An ordinary user, a program of this tree."""
    need(*ORDINARY[:1])
    return subprocess.run([*ORDINARY, "test", "-x", path], check=False).returncode == 0


class Namespaces:
    def __init__(self):
        need("unshare", "nsenter", "ip", *(["setpriv"] if ORDINARY else []))
        self.holders = []
        try:
            self._hold([*ORDINARY, "unshare", "-Urn"])
            self._hold([*self.enter(NEAR), "unshare", "-n"])
            self._join()
        except BaseException:
            self.close()
            raise

    def _hold(self, command):
        holder = subprocess.Popen(
            [*command, "sh", "-c", "echo here; exec cat >/dev/null"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if holder.stdout.readline() != "here\n":
            why = holder.stderr.read().strip()
            holder.wait()
            raise unittest.SkipTest(f"no user and network namespaces for ordinary users here: {why}")
        self.holders.append(holder)

    def _join(self):
        near, far = DEVICE
        self.run(
            NEAR, "ip", "link", "add", near, "address", MAC[NEAR], "type", "veth",
            "peer", "name", far, "address", MAC[FAR], "netns", str(self.holders[FAR].pid),
        )
        for side in (NEAR, FAR):
            self.run(side, "ip", "link", "set", "lo", "up")
            self.run(side, "ip", "address", "add", f"{IPV4[side]}/24", "dev", DEVICE[side])
            self.run(side, "ip", "address", "add", f"{IPV6[side]}/64", "dev", DEVICE[side], "nodad")
            self.run(side, "ip", "link", "set", DEVICE[side], "up")
            # No traffic but the test's: neighbours are known.
            for address in (IPV4[1 - side], IPV6[1 - side]):
                self.run(side, "ip", "neighbour", "add", address, "lladdr", MAC[1 - side],
                         "dev", DEVICE[side], "nud", "permanent")

    def await_multicast(self):
        """IPv6 has its routes for it some time after the links are up."""
        for side in (NEAR, FAR):
            wait_until(
                lambda: "multicast ff00::/8" in self.run(side, "ip", "-6", "route", "show", "table", "all"),
                20,
                "a route for IPv6 multicast",
            )

    def enter(self, side):
        """Returns the words before a command that run it on that side."""
        pid = str(self.holders[side].pid)
        return [*ORDINARY, "nsenter", "-t", pid, "-U", "-n", "--preserve-credentials"]

    def run(self, side, *command):
        done = subprocess.run(
            [*self.enter(side), *command], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.returncode}: {done.stderr}")
        return done.stdout

    def reaches(self, path):
        return subprocess.run([*self.enter(NEAR), "test", "-r", path]).returncode == 0

    def close(self):
        for holder in reversed(self.holders):
            holder.stdin.close()
            holder.wait()
            holder.stdout.close()
            holder.stderr.close()
        self.holders = []


def is_at(pid, side):
    """Whether a process has entered that side: before, its /proc/net is the host's."""
    return DEVICE[side] in pathlib.Path(f"/proc/{pid}/net/dev").read_text()


class Ended(AssertionError):
    """The process whose sockets are looked at."""


def udp_row(pid, port):
    """Fields of /proc/net/udp of the socket bound to that port where pid runs; None."""
    for table in ("udp", "udp6"):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except FileNotFoundError:
            raise Ended(f"process {pid} has ended") from None
        for line in lines:
            fields = line.split()
            if fields[1].endswith(f":{port:04X}"):
                return fields
    return None


def udp_socket(pid, port):
    """(bytes that wait, drops) of that socket; None."""
    fields = udp_row(pid, port)
    return fields and (int(fields[4].split(":")[1], 16), int(fields[12]))
