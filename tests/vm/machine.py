# SPDX-License-Identifier: Apache-2.0
"""One emulated machine, and the jobs that run in it."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness  # noqa: E402
import image  # noqa: E402
from harness import BUILD, main, wait_until  # noqa: E402, F401

harness.children.PATIENCE *= 3  # an emulated machine shares with others what it is slow on already
BOOT_SECONDS = 90  # a boot takes 5 s on an idle machine


def mac(guest, nic):
    return f"52:54:00:00:{guest:02x}:{nic:02x}"


def tcp_listener(port):
    return f'ss -Htln "sport = :{port}" | grep -q .'


RDMA_CM_LISTENER = "rdma resource show cm_id | grep -q LISTEN"


def with_memlock(kib):
    """Returns the words before a command that may lock so much memory and no more: root's privilege to pass the limit
    is taken away, too."""
    return f"setpriv --inh-caps -ipc_lock --bounding-set -ipc_lock prlimit --memlock={kib * 1024}"


# Soft-RoCE gives what still uses an object 200 ms to let go of it, and warns where a guest had no CPU
# for so long; it then leaks the object. Any other warning is a complaint.
SLOW_RXE = re.compile(
    r"-+\[ cut here \]-+(?:(?!cut here).)*?WARNING: CPU: \d+ PID: \d+ at "
    r"drivers/infiniband/sw/rxe/rxe_pool\.c:\d+ __rxe_cleanup\+.*?-+\[ end trace \w+ \]-+",
    re.DOTALL,
)


class Job:
    """A shell script that runs in a guest; its output is there as it comes."""

    def __init__(self, guest, name, script):
        self.guest = guest
        self.name = name
        self.script = script
        self.pid = None
        self.status = None

    def _read(self, suffix):
        try:
            return (self.guest.folder / (self.name + suffix)).read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def stdout(self):
        return self._read(".out")

    @property
    def stderr(self):
        return self._read(".err")

    def __str__(self):
        return (
            f"guest {self.guest.name}, job {self.name} [exit {self.status}]\n{self.script.strip()}\n"
            f"-- output\n{self.stdout}\n-- errors\n{self.stderr}"
        )

    def ended(self):
        self.guest.hear()
        return self.status is not None

    def wait(self, seconds=60):
        """The exit status; 128 + N for signal N."""
        try:
            wait_until(self.ended, seconds, "ended")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self}") from None
        return self.status

    def written(self):
        """How much; wait_line() can begin there."""
        return len(self.stdout), len(self.stderr)

    def wait_line(self, pattern, seconds=60, after=(0, 0)):
        """The first match of pattern in what it wrote."""

        def search():
            ended = self.ended()
            text = self.stdout[after[0] :] + self.stderr[after[1] :]
            match = re.search(pattern, text, re.MULTILINE)
            if ended and not match:
                raise AssertionError(f"ended without a line like {pattern!r}")
            return match

        try:
            return wait_until(search, seconds, f"a line like {pattern!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self}") from None

    def await_listener(self, condition, seconds=120):
        """Until it listens; condition: a shell command that is true then. See tcp_listener()."""
        waiter = self.guest.start(f"exec timeout {seconds} sh -c 'until {condition}; do sleep 0.05; done'")
        wait_until(lambda: waiter.ended() or self.ended(), seconds * 2, f"job {self.name} listens or ends")
        if waiter.status != 0:
            raise AssertionError(f"does not listen: {condition}\n{self}")

    def signal(self, number=signal.SIGKILL):
        """To the job and all that it started; nothing where they have ended."""
        wait_until(lambda: self.ended() or self.pid, 20, f"a process of job {self.name}")
        self.guest.run(f"kill -{int(number)} -{self.pid} 2>/dev/null || :")


class Guest:
    """One machine. cables: one end of a socket pair for each network interface."""

    def __init__(self, number, name, folder, cables, memory_mib=768, kernel_arguments="", cpus=1):
        self.number = number
        self.name = name
        self.folder = folder / name
        self.log = folder / f"{name}.serial.log"
        self.folder.mkdir()
        self.jobs = {}
        self.heard = b""
        self.ready = False
        self.greeted = None
        self.agent, agent_end = socket.socketpair()
        self.monitor, monitor_end = socket.socketpair()
        inherited = [agent_end, monitor_end, *cables]
        with open(folder / f"{name}.qemu.log", "w") as log:
            self.process = subprocess.Popen(
                self._command(memory_mib, kernel_arguments, cpus, *(end.fileno() for end in inherited)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[end.fileno() for end in inherited],
            )
        for end in inherited:
            end.close()
        self.agent.setblocking(False)
        self.monitor.settimeout(120)
        self.answers = self.monitor.makefile("rw")

    def _command(self, memory_mib, kernel_arguments, cpus, agent, monitor, *cables):
        kernel, initramfs = image.initramfs(image.kernel(BUILD))
        append = (
            f"console=ttyS0 panic=-1 quiet loglevel=5 guest={self.name} random.trust_cpu=on "
            # A host that is busy holds a guest up for seconds: that is no failure of its timers.
            "no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1 "
            # Linux distrusts an emulated TSC: each look at the clock would be a system call and a
            # read of the HPET.
            "tsc=reliable "
            # An emulated processor speculates nothing; an indirect jump is what costs it most.
            "mitigations=off init_on_alloc=0 "
            # QEMU translates code anew wherever it has another address: at each start of a program.
            f"norandmaps {kernel_arguments}"
        )
        command = [
            # However this process ends, the guest ends with it.
            *("setpriv", "--pdeathsig", "KILL"),
            # Emulated, `rep movsb` goes byte by byte and a carry-less product bit by bit: rxe's CRC is
            # faster by its table.
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,-erms,-pclmulqdq"),
            *("-m", str(memory_mib), "-smp", str(cpus), "-nodefaults", "-no-user-config", "-display", "none"),
            *("-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs), "-append", append),
            *("-serial", f"file:{self.log}"),
            *("-chardev", f"socket,id=agent,fd={agent}", "-serial", "chardev:agent"),
            *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
            *("-device", "virtio-rng-pci"),
        ]
        shared = "security_model=none,multidevs=remap"
        for tag, path, more in (("host", "/", ",readonly=on"), ("job", self.folder, "")):
            command += ["-fsdev", f"local,id={tag},path={path},{shared}{more}"]
            command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
        for nic, cable in enumerate(cables or [None]):
            wire = "hubport,hubid=0" if cable is None else f"socket,fd={cable}"
            command += ["-netdev", f"{wire},id=net{nic}"]
            # rxe logs a complaint at each query of a link without a speed. x-txburst: QEMU sends a queue
            # until it is empty. With its bursts of 256 a queue once stopped for good (NETDEV WATCHDOG); that
            # the bursts were the cause is a guess.
            nic_of = f"netdev=net{nic},mac={mac(self.number, nic)},speed=1000,duplex=full,x-txburst=65536"
            command += ["-device", f"virtio-net-pci,{nic_of},romfile="]
        return command

    def hear(self):
        """Takes in what the guest has said since the last time."""
        try:
            while part := self.agent.recv(4096):
                self.heard += part
        except BlockingIOError:
            pass
        *lines, self.heard = self.heard.split(b"\n")
        for line in lines:
            self._heard(line.decode(errors="replace").split())
        if self.process.poll() is not None:
            raise AssertionError(f"guest {self.name} is gone, exit {self.process.returncode}:\n{self.last_words()}")

    def _heard(self, words):
        if words == ["ready"]:
            self.ready = True
        elif len(words) == 3 and words[0] == "started":
            self.jobs[words[1]].pid = int(words[2])
        elif len(words) == 3 and words[0] == "ended":
            self.jobs[words[1]].status = int(words[2])

    def last_words(self, count=40):
        texts = [self.log.with_name(f"{self.name}.qemu.log"), self.log]
        lines = [line for path in texts if path.exists() for line in path.read_text(errors="replace").splitlines()]
        return "\n".join(lines[-count:])

    def cpu_seconds(self):
        """Its host's, that it has used."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def complaint(self):
        """Where the kernel says that something in it went wrong; None."""
        said = SLOW_RXE.sub("", self.log.read_text(errors="replace"))
        match = re.search(r"^.*(?:BUG: |Oops|Call Trace|WARNING: CPU).*", said, re.M)
        return match and match[0]

    def await_ready(self):
        def is_ready():
            self.hear()
            return self.ready

        try:
            wait_until(is_ready, BOOT_SECONDS, f"guest {self.name} has booted")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_words()}") from None

    def start(self, script):
        """A job that runs now; sh -e, in a folder that is this guest's `folder` here."""
        name = f"job-{len(self.jobs)}"
        (self.folder / f"{name}.sh").write_text(script)
        job = self.jobs[name] = Job(self, name, script)
        self.hear()
        self.agent.sendall(f"{name}\n".encode())
        return job

    def run(self, script, expect=0, seconds=60):
        """Run to the end; the job. expect: the exit status it must have, or None."""
        job = self.start(script)
        status = job.wait(seconds)
        if expect is not None and status != expect:
            raise AssertionError(f"exit {status}, not {expect}\n{job}")
        return job

    def counters(self):
        """Returns rxe0's counters of its port, by name."""
        shown = self.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters\ngrep . *").stdout
        return {name: int(value) for name, _, value in (line.partition(":") for line in shown.splitlines())}

    def await_port(self, state):
        """Until rxe0 has heard of its cable: "ACTIVE" or "DOWN"."""
        self.run(f"until rdma link show rxe0/1 | grep -q 'state {state} '; do sleep 0.05; done")

    def resources(self):
        """How many of each verbs object there are on rxe0: qp, mr, cq, pd, cm_id, ctx, srq."""
        words = self.run("rdma resource show rxe0").stdout.split("rxe0:")[1].split()
        return {kind: int(count) for kind, count in zip(words[::2], words[1::2])}

    def network_counter(self, protocol, name):
        """Of /proc/net/snmp, such as Ip's InHdrErrors."""
        rows = [
            line.split()
            for line in self.run("cat /proc/net/snmp").stdout.splitlines()
            if line.startswith(f"{protocol}:")
        ]
        return int(rows[1][rows[0].index(name)])

    @contextlib.contextmanager
    def netem(self, what, nic=0):
        """Trouble with what goes out of an interface, in the words of tc-netem(8)."""
        self.run(f"tc qdisc replace dev eth{nic} root netem {what}")
        try:
            yield
        finally:
            self.run(f"tc qdisc del dev eth{nic} root")

    def ask(self, command, **arguments):
        """A command of QEMU's monitor (QMP)."""
        if not self.greeted:
            self.greeted = json.loads(self.answers.readline())
            self.ask("qmp_capabilities")
        self.answers.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.answers.flush()
        while True:
            answer = json.loads(self.answers.readline())
            if "error" in answer:
                raise AssertionError(f"{command} {arguments}: {answer['error']}")
            if "return" in answer:
                return answer["return"]

    def set_link(self, up, nic=0):
        """Pulls the cable of an interface, or puts it back."""
        self.ask("set_link", name=f"net{nic}", up=up)

    def kill(self):
        """Cuts its power: it says no more, and its peers hear nothing of it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.answers.close()
        self.monitor.close()
        self.agent.close()
