# SPDX-License-Identifier: Apache-2.0
"""Helpers of the end-to-end tests: the program as a child, its results, its leftovers."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import result_schema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "subprojects" / "simverbs" / "tests"))
import children  # noqa: E402
from children import FEWER, HANGS, PATIENCE, SANITIZED, alone, free_port, main, wait_until  # noqa: E402, F401

BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")).resolve()
PROGRAM = BUILD / "penstock"
FAKES = BUILD / "tests" / "fakes"
CONTRACT_PATH = f"{BUILD / 'tests' / 'contract'}:{os.environ.get('PATH', '')}"  # penstock-contract is beside penstock
SIMULATED = os.environ.get("PENSTOCK_SIMVERBS", "")
HAS_PCAP = os.environ.get("PENSTOCK_PCAP", "1") == "1"
# The environment of programs that cannot run in the whole sandbox, and why: docs/operations/sandbox.md.
ON_SIMULATED = {"PENSTOCK_SANDBOX": "off"}
ON_UCX = {"PENSTOCK_SANDBOX": "auto"} if os.environ.get("PENSTOCK_SANDBOX") == "require" else {}

if SANITIZED:  # hwloc's plugin unloads libpciaccess, which keeps the names of devices
    os.environ["HWLOC_COMPONENTS"] = "-pci"
# For programs that load libpmix, which frees little.
LEAKS_OF_OTHERS = {"ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))}


def unix_sockets():
    """Inode and name of each Unix socket there is."""
    with open("/proc/net/unix") as table:
        fields = [line.split() for line in table][1:]
    return {row[6]: row[7] if len(row) > 7 else "" for row in fields}


def shared_memory():
    folder = pathlib.Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


class Child(children.Child):
    def __init__(self, *arguments, program=PROGRAM, environment=None, prefix=(), **options):
        if SIMULATED and SIMULATED in map(str, prefix):
            environment = {**ON_SIMULATED, **(environment or {})}
        super().__init__(*arguments, program=program, environment=environment, prefix=prefix, **options)


class Case(children.Case):
    """A folder and a port of its own, and nothing left behind."""

    root = ROOT
    child = Child

    def setUp(self):
        super().setUp()
        self.shared_memory_before = shared_memory()
        self.sockets = set()

    def result(self, name="out.json"):
        """The result in this file; each that a test reads must be as the schema says."""
        return result_schema.read((self.folder / name).read_text())

    def run_json(self, *arguments, expect=0, **options):
        """Run with --json; the result and the child."""
        out = self.folder / "out.json"
        child = self.run_program(*arguments, "--json", out, expect=expect, **options)
        self.assertTrue(out.exists(), f"no result was written\n{child}")
        return self.result(), child

    def config(self, streams, name="stream.yaml", top=""):
        """A YAML file whose control channel is this test's; streams: YAML of the list."""
        return self.write(
            name,
            "penstock: 1\n"
            f'control: {{address: "127.0.0.1:{self.port}"}}\n'
            "transport: {plugin: loopback}\n"
            f"{top}"
            "streams:\n" + "".join(f"  {line}\n" for line in streams.strip("\n").splitlines()),
        )

    def assert_accounted(self, stream):
        """Every byte: sent == delivered + dropped, none wrong."""
        dropped = sum(stream["dropped"].values())
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"] + dropped, stream)
        self.assertEqual(stream["corrupted"], 0, stream)

    def assert_nothing_left(self, *folders):
        """No temporary file, shared memory or socket is left behind."""
        for folder in (self.temporary, *folders):
            self.assertEqual(sorted(path.name for path in folder.iterdir()), [], folder)
        left = {name for name in shared_memory() - self.shared_memory_before if ours(name)}
        self.assertEqual(left, set(), "/dev/shm")
        left = {inode: name for inode, name in unix_sockets().items() if inode in self.sockets}
        self.assertEqual(left, {}, "Unix sockets")

    def in_one_of_three(self, attempt):
        """Makes up to three attempts: other programs that take the CPU spoil one now and then, and a fault spoils each.
        attempt() returns None, or why it failed; conditions that must always hold it asserts."""
        for _ in range(3):
            why = attempt()
            if why is None:
                return
        self.fail(f"in none of three runs; in the last: {why}")

    def only_stream(self, result):
        (stream,) = result["streams"]
        return stream


def need_plugin(name):
    """Skip the test where it is not usable."""
    said = subprocess.run([PROGRAM, "plugins", name], capture_output=True, text=True).stdout
    if not said.partition("\n")[0].endswith(": usable"):
        raise unittest.SkipTest(f"the plugin {name} is not usable: {said}")


def ours(name):
    # Simulated fabrics belong to their launchers, which may run beside, for another test; so may
    # a fuzzer.
    if name.startswith(("penstock-simverbs", "penstock-fuzz-")):
        return False
    return "penstock" in name.lower() or name.startswith("pst")


def child_of(pid):
    """The program behind a launcher that stays before it, or the process itself.

    A child that runs the same program is none: the leak check of the launcher's end forks, and
    waits for ever if that child is killed.
    """
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = re.findall(r"\d+", file.read())
    # Not by their files: under emulation each is the emulator's.
    itself = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return next((int(child) for child in children if pathlib.Path(f"/proc/{child}/cmdline").read_bytes() != itself), pid)


def bare_root(root, *plugins):
    """Makes a root with the program, its libraries and the plugins share, host and these alone, none of them of RDMA.
    False: ldd cannot read the program here. AssertionError: the program needs a library of RDMA."""
    asked = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True)
    libraries = {pathlib.Path(name) for name in re.findall(r"(/\S+) \(0x", asked.stdout)}
    if asked.returncode:
        return False
    assert not any("ibverbs" in library.name for library in libraries), asked.stdout
    for library in libraries:
        place = root / "lib" / library.name if "/build" in str(library) else root / str(library)[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    for name in ("lib", "plugins", "proc", "share", "tmp"):
        (root / name).mkdir(exist_ok=True)
    for plugin in (BUILD / "transports" / "transport-share", BUILD / "memory" / "memory-host", *plugins):
        for end in (".so", ".desc.so"):
            shutil.copy(f"{plugin}{end}", root / "plugins")
    shutil.copy(PROGRAM, root)
    return True


def random_file(path, length):
    """Random bytes that cost little to make: blocks of them, each with its number."""
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        written = 0
        while written < length:
            head = written.to_bytes(8, "little")
            part = (head + block[8:])[: length - written]
            file.write(part)
            written += len(part)
    return path


def yaml_stream(name="packets", **parts):
    """One item of `streams`, from flow-style strings. Peers that wait for a CPU are not dead."""
    parts = {"timeout": "1 min", **parts}
    lines = [f"- name: {name}"]
    lines += [f"  {key}: {value}" for key, value in parts.items()]
    return "\n".join(lines) + "\n"
