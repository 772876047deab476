# SPDX-License-Identifier: Apache-2.0
"""Runs tests in an emulated arm64 machine, with Debian's kernel for arm64: what qemu-aarch64 cannot do for a program.

QEMU emulates the processor, some ten times slower than this machine's own.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "vm")]

import cases  # noqa: E402
import enter  # noqa: E402
import image  # noqa: E402

MODULES = ["virtio_pci", "virtio_rng", "9pnet_virtio", "9p", "overlay"]
CPUS, MEMORY_MIB = 2, 4096
# Time limits are this many times longer than on a machine that is not emulated.
PATIENCE = 5
KNOWN = HERE / "machine.txt"
KEYS = ("passed", "failed", "skipped")


def script_of(build, test):
    """Runs one test as run-tests.py does, and says how long it took."""
    name, command = test["name"], test["cmd"]
    lines = [f"export {key}={shlex.quote(value)}" for key, value in sorted(test["env"].items())]
    lines += [f"cd {shlex.quote(test['workdir'] or str(build))}",
              "read -r began rest </proc/uptime",
              f"timeout -k 10 {test['timeout'] * PATIENCE} {HERE.parent}/run-case {shlex.join(command)} || echo 'FAILED or skipped: {name}'",
              "read -r ended rest </proc/uptime",
              f"echo \"$((${{ended%.*}} - ${{began%.*}})) s: {name}\""]  # fmt: skip
    return "\n".join(lines) + "\n"


def write_work(build, job, tests):
    """Two at a time, but those that want to be alone."""
    (job / "records").mkdir()
    for number, test in enumerate(tests):
        kind = "beside" if test["is_parallel"] else "alone"
        (job / kind).mkdir(exist_ok=True)
        (job / kind / f"{number:03}").write_text(script_of(build, test))
    python = shlex.quote(sys.executable)
    (job / "work").write_text(
        f"[ -x {python} ] || {{ mkdir -p $(dirname {python}) && ln -s /usr/bin/python3 {python}; }}\n"
        f"export PENSTOCK_PATIENCE={PATIENCE} PENSTOCK_TEST_RECORDS=/run/job/records PENSTOCK_KNOWN={shlex.quote(str(KNOWN))}\n"
        f"for kind in beside alone; do\n"
        f"  [ ! -d /run/job/$kind ] || find /run/job/$kind -type f | sort |\n"
        f"    xargs -P $([ $kind = alone ] && echo 1 || echo {CPUS}) -n 1 sh\n"
        f"done\n"
    )


def boot(disk, job):
    """Until the machine turns itself off; its words go to this program's output as they come."""
    kernel, initramfs = image.initramfs(disk, MODULES, HERE / "agent", disk / "bin" / "busybox")
    append = f"console=ttyAMA0 panic=-1 quiet loglevel=4 norandmaps mitigations=off nowatchdog guest=arm64 tree={TREE}"
    command = [
        *("setpriv", "--pdeathsig", "KILL", "qemu-system-aarch64", "-M", "virt", "-cpu", enter.CPU),
        *("-accel", "tcg,thread=multi", "-m", str(MEMORY_MIB), "-smp", str(CPUS), "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initramfs), "-append", append),
        *("-serial", "stdio", "-device", "virtio-rng-pci"),
    ]
    for tag, path, more in (("host", disk, ",readonly=on"), ("tree", TREE, ",readonly=on"), ("job", job, "")):
        command += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{more}"]
        command += ["-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, errors="replace")
    for line in machine.stdout:
        print(line.rstrip("\r\n"), flush=True)
    return machine.wait()


def run(build, disk, tests):
    """Returns the record of each test that ended, as tests/cases.py reads it."""
    with tempfile.TemporaryDirectory() as job:
        job = pathlib.Path(job)
        write_work(build, job, tests)
        if boot(disk, job) != 0:
            raise RuntimeError("qemu-system-aarch64 failed")
        records = [folder for folder in (job / "records").iterdir() if (folder / "times").exists()]
        return [cases.record(folder) for folder in records]
