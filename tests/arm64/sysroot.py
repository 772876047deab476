#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Libraries and headers of Debian's arm64, for a build that is not for this machine.

usage: sysroot.py FOLDER            makes FOLDER/root unless it is there, and FOLDER/cross, a cross file for meson
       sysroot.py FOLDER machine    makes FOLDER/machine unless it is there, the disk of tests/arm64/machine.py

apt has a state of its own here: the host's packages and architectures stay as they are. Packages come
from where the host's come from, and are unpacked, never installed.
"""
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MACHINE = "aarch64-linux-gnu"
PACKAGES = """libc6-dev libyaml-dev libjson-c-dev libcbor-dev libssl-dev liburing-dev libisal-dev
    libcmocka-dev libmicrohttpd-dev libseccomp-dev libhwloc-dev libpci-dev libnl-genl-3-dev libnl-route-3-dev
    libibverbs-dev ibverbs-providers librdmacm-dev libdpdk-dev libucx-dev libpcap-dev""".split()
# Packages of an emulated machine beside libraries: a kernel, and programs that tests run.
MACHINE_PACKAGES = """linux-image-arm64 busybox-static python3 bash coreutils util-linux iproute2 grep sed findutils
    procps diffutils dash mount hostname gzip passwd login kmod base-passwd""".split()
# Debian 12 has both as one: a package that has files in /lib has them in /usr/lib.
MERGED = ("bin", "lib", "sbin")
CROSS_FILE = """# Written by tests/arm64/sysroot.py.
[binaries]
c = [{ccache}'{machine}-gcc', '--sysroot={sysroot}']
ar = '{machine}-ar'
nm = '{machine}-nm'
strip = '{machine}-strip'
objcopy = '{machine}-objcopy'
pkgconfig = 'pkg-config'

[properties]
# Within tests/arm64/enter.py programs run as this machine's own do.
needs_exe_wrapper = false
sys_root = '{sysroot}'
pkg_config_libdir = ['{sysroot}/usr/lib/{machine}/pkgconfig', '{sysroot}/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **{"stdin": subprocess.DEVNULL, **options})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def download(packages, folder):
    """The packages, and those that they depend on, as files in this folder."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "state/status").touch()  # nothing is installed: everything is needed
    options = [
        word
        for option in (
            "APT::Architecture=arm64", "APT::Architectures::=arm64", "APT::Sandbox::User=",
            f"Dir::State={folder}/state", f"Dir::State::status={folder}/state/status",
            f"Dir::Cache={folder}/cache", "Acquire::Languages=none", "APT::Install-Recommends=false",
            "Debug::NoLocking=true",
        )
        for word in ("-o", option)
    ]  # fmt: skip
    run("apt-get", *options, "-qq", "update")
    run("apt-get", *options, "-qq", "-y", "--download-only", "install", *packages)
    return sorted((folder / "cache/archives").glob("*.deb"))


def unpack(packages, root):
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        # Not dpkg -x: tar would put a folder where the link is.
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        run("tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root,
            "--exclude=./usr/share/doc", "--exclude=./usr/share/man", "--exclude=./usr/share/locale",
            stdin=archive.stdout)  # fmt: skip
        if archive.wait():
            raise RuntimeError(f"{package}: dpkg-deb failed")


def make_links_relative(root):
    """A link to /lib/... is to lead into the sysroot."""
    for folder, folders, files in os.walk(root):
        for path in (pathlib.Path(folder) / name for name in folders + files):
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = root / os.readlink(path).lstrip("/")
                path.unlink()
                path.symlink_to(os.path.relpath(target, folder))


def make(folder, name, packages):
    """The folder of this name, with these packages unpacked, made unless it is there with the same ones."""
    folder.mkdir(exist_ok=True)
    listed = folder / f"{name}.packages"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not listed.exists() or listed.read_text().split() != packages:
            shutil.rmtree(folder / name, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=folder) as staging:
                staging = pathlib.Path(staging)
                unpack(download(packages, staging / "apt"), staging / name)
                make_links_relative(staging / name)
                os.rename(staging / name, folder / name)
            listed.write_text("\n".join(packages) + "\n")
    return folder / name


def write_cross_file(folder):
    ccache = "'ccache', " if shutil.which("ccache") else ""
    text = CROSS_FILE.format(machine=MACHINE, sysroot=folder / "root", ccache=ccache)
    path = folder / "cross"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["machine"]):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    if sys.argv[2:]:
        print(make(folder, "machine", PACKAGES + MACHINE_PACKAGES))
    else:
        make(folder, "root", PACKAGES)
        print(write_cross_file(folder))


if __name__ == "__main__":
    main()
