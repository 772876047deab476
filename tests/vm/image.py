#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files that a guest boots: Debian's own kernel and an initramfs with the modules it needs.

usage: image.py BUILD     fetches the kernel's package into BUILD/vm, unless it is there

The package is unpacked, never installed: this host keeps the kernel that it has.
"""
import fcntl
import hashlib
import lzma
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "linux-image-amd64"
# In the header of a bzImage: Documentation/arch/x86/boot.rst.
SETUP_SECTORS, PAYLOAD = 0x1F1, 0x248
# In the order of need. Without a module for crc32, `rdma link add` says "No such file".
MODULES = """virtio_pci virtio_net virtio_rng 9pnet_virtio 9p overlay crc32_generic crc32c_generic
    ib_uverbs rdma_ucm rdma_rxe veth 8021q sch_netem sch_ingress sch_fq sch_etf sch_prio act_mirred act_gact
    cls_matchall ifb tun bridge cls_flower sch_multiq act_skbedit uio_pci_generic""".split()
# kmod's programs are where an ordinary user's PATH does not lead.
ENVIRONMENT = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, **options)  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def current_package():
    """The package that Debian's kernel package stands for today."""
    for line in run("apt-cache", "depends", "--important", PACKAGE).splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    raise RuntimeError(f"{PACKAGE} depends on no kernel: is this Debian, and is `apt-get update` done?")


def kernel(build):
    """The folder of the unpacked kernel package, or None where none was fetched."""
    folder = build / "vm" / "kernel"
    return folder if (folder / "boot").is_dir() else None


def fetch(build):
    """The folder of the unpacked kernel package, fetched unless it is there."""
    cache = build / "vm"
    cache.mkdir(exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kernel(build):
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                run("apt-get", "-o", "APT::Sandbox::User=", "download", current_package(), cwd=folder)
                (package,) = pathlib.Path(folder).glob("*.deb")
                run("dpkg", "-x", package, f"{folder}/kernel")
                os.rename(f"{folder}/kernel", cache / "kernel")
    return kernel(build)


def version(folder):
    (modules,) = (folder / "lib" / "modules").iterdir()
    return modules.name


def module_files(folder, release, modules):
    """Every module to load, each after those that it needs."""
    files = []
    for module in modules:
        shown = run("modprobe", "--show-depends", "-d", folder, "-S", release, module)
        for line in shown.splitlines():
            words = line.split()  # insmod PATH [option]...
            if words[0] == "insmod" and words[1] not in files:
                files.append(words[1])
    return files


def unpack(image):
    """The kernel of a bzImage, which an emulated machine takes three seconds to unpack at each boot."""
    sectors = image[SETUP_SECTORS] or 4
    offset, length = struct.unpack_from("<II", image, PAYLOAD)
    payload = image[(sectors + 1) * 512 + offset :][:length]
    if not payload.startswith(b"\xfd7zXZ"):
        return image  # packed otherwise: it unpacks itself
    # The last four bytes are the length, which belongs to no stream.
    return lzma.LZMADecompressor().decompress(payload)


def initramfs(folder, modules=MODULES, agent=HERE / "agent", busybox=None):
    """Kernel and initramfs, made anew where this code, the guests' init or the modules have changed."""
    release = version(folder)
    made_from = hashlib.sha256(" ".join(modules).encode())
    for path in (HERE / "init", agent, pathlib.Path(__file__)):
        made_from.update(path.read_bytes())
    out = folder.parent / f"initramfs-{release}-{made_from.hexdigest()[:12]}.cpio.gz"
    image = folder.parent / f"vmlinux-{release}"
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.exists():
            unpacked = image.with_name(f"{image.name}.part")
            unpacked.write_bytes(unpack((folder / "boot" / f"vmlinuz-{release}").read_bytes()))
            os.rename(unpacked, image)
        if not out.exists():
            run("depmod", "-b", folder, release)
            with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
                root = pathlib.Path(staging) / "root"
                fill(root, module_files(folder, release, modules), agent, busybox or shutil.which("busybox"))
                pack(root, pathlib.Path(staging) / "packed")
                os.rename(f"{staging}/packed", out)
    return image, out


def fill(root, modules, agent, busybox):
    for name in ("bin", "modules", "proc", "sys", "dev", "lower", "job", "over", "new"):
        (root / name).mkdir(parents=True)
    for path, name in ((busybox, "bin/busybox"), (HERE / "init", "init"), (agent, "agent")):
        shutil.copy(path, root / name)
        (root / name).chmod(0o755)
    names = []
    for number, path in enumerate(modules):
        names.append(f"{number:03}-{pathlib.Path(path).name}")
        shutil.copy(path, root / "modules" / names[-1])
    (root / "modules" / "list").write_text("\n".join(names) + "\n")


def pack(root, out):
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(out, "wb") as file:
        archive = subprocess.Popen(
            ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=False,
        )  # fmt: skip
        packer = subprocess.Popen(["gzip", "-1"], stdin=archive.stdout, stdout=file)
        archive.stdout.close()
        archive.stdin.write(names.encode())
        archive.stdin.close()
        if archive.wait() or packer.wait():
            raise RuntimeError("cpio and gzip could not pack the initramfs")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(fetch(pathlib.Path(sys.argv[1]).resolve()))
