# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with this host's files and a kernel of their own: soft-RoCE, losses
and routers by real packets, where the host's kernel has none and nobody is root.

As a program it boots two guests, and runs a shell script in each: docs/start/two-hosts-rdma.md.

QEMU emulates the processor (no KVM), so a guest does some 10 to 70 MB/s. Guests are wired
to each other and to nothing else; they die with the test that started them.
"""
import os
import pathlib
import platform
import shutil
import socket
import sys
import tempfile
import time
import unittest

import image
from machine import BUILD, HERE, RDMA_CM_LISTENER, Guest, tcp_listener, with_memlock  # noqa: F401
from machine import main, wait_until  # noqa: F401

TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "depmod": "kmod",
    "rdma": "iproute2",
    "ibv_rc_pingpong": "ibverbs-utils",
    "ib_write_bw": "perftest",
    "rping": "rdmacm-utils",
}


def why_not():
    """Why no guest can be started here; None where one can."""
    path = image.ENVIRONMENT["PATH"]
    if platform.machine() != "x86_64":
        return f"the guests are x86-64 machines, and this is {platform.machine()}"
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool, path=path)]
    if not pathlib.Path("/etc/libibverbs.d/rxe.driver").exists():
        missing.append("ibverbs-providers")
    if missing:
        return f"not installed: {' '.join(missing)}. `./run test vm` installs them"
    if not image.kernel(BUILD):
        return f"no kernel for guests in {BUILD}/vm. `./run test vm` fetches Debian's"
    return None


def need(program=None):
    """Skip where guests cannot be, or a program of the build was not built; fail where a
    runner declares that they can."""
    reason = why_not()
    if not reason and program and not program.exists():
        reason = f"{program} was not built: it needs libibverbs-dev"
    if not reason:
        return
    if "rxe" in os.environ.get("PENSTOCK_REQUIRE", "").split(","):
        raise AssertionError(f"PENSTOCK_REQUIRE has rxe, and there are no guests: {reason}")
    raise unittest.SkipTest(reason)


class Guests:
    """Guests that are up, each with an rxe0 on its eth0 (the router has none).

    One: `a` alone. Two: `a` and `b` on one wire, 10.9.0.1 and .2; further wires are eth1 and so
    on, which nobody has set up. With a router: `a` and
    `b` on networks of their own, 10.9.1.1 and 10.9.2.1, with `r` between them.
    """

    def __init__(self, folder, count=2, router=False, wires=1, **options):
        self.folder = folder
        self.all = []
        try:
            self._start(count, router, wires, options)
        except BaseException:
            self.close()
            raise

    def _start(self, count, router, wires, options):
        cables = {"a": [], "b": [], "r": []}
        if router:
            for name in "ab":
                near, far = socket.socketpair()
                cables[name].append(near)
                cables["r"].append(far)
        elif count == 2:
            for _ in range(wires):
                near, far = socket.socketpair()
                cables["a"].append(near)
                cables["b"].append(far)
        for number, name in enumerate("abr", 1):
            if cables[name] or name == "a":
                self.all.append(Guest(number, name, self.folder, cables[name], **options))
        for guest in self.all:
            guest.await_ready()
        for guest in self.all:
            guest.run(self._network(guest, router))

    @staticmethod
    def _network(guest, router):
        # No duplicate can be here: do not wait for its detection.
        lines = ["sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0"]
        if guest.name == "r":
            lines += ["sysctl -qw net.ipv4.ip_forward=1"]
            for nic in (0, 1):
                lines += [f"sysctl -qw net.ipv6.conf.eth{nic}.accept_dad=0"]
                lines += [f"ip address add 10.{net}.{nic + 1}.254/24 dev eth{nic}" for net in (9, 8)]
                lines += [f"ip link set eth{nic} up"]
            return "\n".join(lines)
        lines += ["sysctl -qw net.ipv6.conf.eth0.accept_dad=0"]
        if router:
            near, far = guest.number, 3 - guest.number
            lines += [f"ip address add 10.{net}.{near}.1/24 dev eth0" for net in (9, 8)]
            lines += ["ip link set eth0 up"]
            lines += [f"ip route add 10.{net}.{far}.0/24 via 10.{net}.{near}.254 src 10.{net}.{near}.1" for net in (9, 8)]
        else:
            lines += [f"ip address add 10.9.0.{guest.number}/24 dev eth0", "ip link set eth0 up"]
        # The kernel makes the GID of an address when it comes to it.
        port = "/sys/class/infiniband/rxe0/ports/1"
        lines += ["rdma link add rxe0 type rxe netdev eth0"]
        lines += [f"until grep -q ACTIVE {port}/state && grep -q ffff: {port}/gids/1; do sleep 0.05; done"]
        return "\n".join(lines)

    def __getitem__(self, name):
        (guest,) = (guest for guest in self.all if guest.name == name)
        return guest

    def alive(self):
        return [guest for guest in self.all if guest.process.poll() is None]

    def close(self):
        for guest in self.all:
            guest.close()


class Case(unittest.TestCase):
    """Tests on guests that they share, booted for the first of them.

    What a failure leaves (serial logs, each job's script and output) is kept, and named.
    """

    count = 2
    router = False
    wires = 1
    guests = None
    folder = None
    failed = False
    maxDiff = None

    def setUp(self):
        need()
        cls = type(self)
        if cls.folder and not cls.guests:
            self.fail(f"the guests did not come up for the test before: {cls.folder}")
        if not cls.folder:
            runs = BUILD / "vm" / "runs"
            runs.mkdir(exist_ok=True)
            cls.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{cls.__name__}-", dir=runs))
            cls.guests = Guests(cls.folder, cls.count, cls.router, cls.wires)
        self.addCleanup(self._end_jobs)

    def guest(self, name="a"):
        return self.guests[name]

    def _end_jobs(self):
        for guest in self.guests.alive():
            for job in list(guest.jobs.values()):
                if not job.ended():
                    job.signal()
                    job.wait(20)
            complaint = guest.complaint()
            self.assertIsNone(complaint, f"the kernel of guest {guest.name} complains")

    def run(self, result=None):
        def bad():
            return len(result.failures) + len(result.errors) if result else 0

        before = bad()
        wall, cpu = time.monotonic(), self._cpu_seconds()
        super().run(result)
        wall, cpu = time.monotonic() - wall, self._cpu_seconds() - cpu
        print(f"{wall:8.1f} {cpu:8.1f}  {self.id()}", flush=True)
        if bad() > before:
            type(self).failed = True

    def _cpu_seconds(self):
        """CPU time of the guests, boots included."""
        return sum(guest.cpu_seconds() for guest in self.guests.alive()) if self.guests else 0.0

    @classmethod
    def tearDownClass(cls):
        if cls.guests:
            cls.guests.close()
        if cls.folder and cls.failed:
            print(f"what the guests said and did: {cls.folder}")
        elif cls.folder:
            shutil.rmtree(cls.folder)


def run_pair(guests, folder, receiver, sender, seconds=600):
    """Both scripts at once, in `folder`, at 192.0.2.1 and 192.0.2.2; the jobs, which have ended."""
    jobs = []
    for number, (name, script) in enumerate(zip("ba", (receiver, sender)), 1):
        guests[name].run(f"ip address replace 192.0.2.{number}/24 dev eth0")
        jobs.append(guests[name].start(f"cd {folder}\n{script}"))
    for job in jobs:
        job.wait(seconds)
    return jobs


def program(receiver, sender):
    reason = why_not()
    if reason:
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="penstock-guests-") as folder:
        print("booting two machines: 192.0.2.1 and 192.0.2.2, each with rxe0 on its eth0", flush=True)
        guests = Guests(pathlib.Path(folder))
        try:
            jobs = run_pair(guests, HERE.parents[1], receiver, sender)
            for number, job in enumerate(jobs, 1):
                print(f"\n192.0.2.{number}: exit status {job.status}\n{job.stdout}{job.stderr}", end="")
            return 1 if any(job.status for job in jobs) else 0
        finally:
            guests.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: ./run guests SCRIPT-OF-192.0.2.1 SCRIPT-OF-192.0.2.2")
    sys.exit(program(*sys.argv[1:]))
