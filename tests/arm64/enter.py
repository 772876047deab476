#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on which programs of arm64 run as this machine's own do, those that they start too.

usage: enter.py SYSROOT COMMAND [ARGUMENT]...

The command gets namespaces of its own: there, /usr/lib has the sysroot's libraries beside the host's, and,
unless the kernel knows an interpreter of arm64 already (Debian: qemu-user-static with binfmt-support),
a binfmt_misc of its own, which takes Linux 6.7. The host stays as it is.

A prefix of qemu's (-L, QEMU_LD_PREFIX) would not do: with it, the folder "/" is the sysroot's.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

QEMU = "qemu-aarch64-static"
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
# That of the emulated machine, too. qemu's own choice has SVE, by which the C library copies short ranges in three
# times the time: qemu emulates these instructions by calls.
CPU = "neoverse-n1"
BINFMT = "/proc/sys/fs/binfmt_misc"
# ELF, 64 bits, little-endian, a program or what is loaded at any address, EM_AARCH64.
MAGIC = rb"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = rb"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
libc = ctypes.CDLL(None, use_errno=True)


def checked(status, what):
    if status != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def enter_namespaces():
    """Enters new user and mount namespaces. For root all users are mapped, by a process that stays outside."""
    uid, gid, me = os.geteuid(), os.getegid(), os.getpid()
    entered = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(entered[1])
        os.read(entered[0], 1)
        if uid != 0:
            pathlib.Path(f"/proc/{me}/setgroups").write_text("deny")
        for kind, own in (("uid", uid), ("gid", gid)):
            pathlib.Path(f"/proc/{me}/{kind}_map").write_text("0 0 4294967295" if uid == 0 else f"{own} {own} 1")
        os._exit(0)
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    os.close(entered[1])
    if os.waitpid(mapper, 0)[1] != 0:
        sys.exit("users cannot be mapped into a namespace")


def add_libraries(root):
    folders = f"lowerdir=/usr/lib:{root}/usr/lib"
    checked(libc.mount(b"overlay", b"/usr/lib", b"overlay", 0, folders.encode()), f"overlay with {folders}")


def runs():
    try:
        return subprocess.run(["/lib/ld-linux-aarch64.so.1", "--version"], stdout=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def register():
    interpreter = shutil.which(QEMU)
    if not interpreter:
        sys.exit(f"{QEMU} is not installed: apt-get install qemu-user-static")
    checked(libc.mount(b"binfmt_misc", BINFMT.encode(), b"binfmt_misc", 0, None),
            f"{BINFMT} of one's own, which takes Linux 6.7 (or: apt-get install binfmt-support)")  # fmt: skip
    with open(f"{BINFMT}/register", "wb", buffering=0) as file:
        file.write(b":arm64:M::%s:%s:%s:F" % (MAGIC, MASK, interpreter.encode()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    enter_namespaces()
    add_libraries(pathlib.Path(sys.argv[1]).resolve())
    if not runs():
        register()
    os.environ.setdefault("QEMU_CPU", CPU)
    os.execvp(sys.argv[2], sys.argv[2:])
