# SPDX-License-Identifier: Apache-2.0
"""The examples of the pages: each block of shell is run, and each of YAML checked. So are the commands
in the comments of config/. Each block that is left out is printed, with the reason.

A comment on the line before a block says what is peculiar to it:

    <!-- not run: WHY -->       it is not; a test that WHY names must be there
    <!-- needs: PROGRAM... -->  it is where these are installed
    <!-- needs root -->         it is where this is root
    <!-- on: DEVICE -->         it is on the fake or simulated one
    <!-- beside the next -->    it goes on in the background, beside the next block
    <!-- before: COMMANDS -->   what a reader has done by then
    <!-- exit: N -->            its exit status, where that is not 0
"""
import os
import re
import shutil
import signal
import subprocess
import textwrap
import unittest

from harness import BUILD, FAKES, HANGS, ON_SIMULATED, ON_UCX, ROOT, SANITIZED, Case, main

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "config" / "README.md", ROOT / "docs" / "concepts.md",
         *(path for folder in ("start", "howto", "operations", "reference", "internals") for path in sorted((ROOT / "docs" / folder).glob("*.md"))),
         *sorted(path.parent / "README.md" for family in ("transports", "memory", "filters")
                 for path in (ROOT / family).glob("*/options.c")),
         *sorted((ROOT / "subprojects").rglob("README.md"))]  # fmt: skip
CONFIGURATIONS = sorted((ROOT / "config").glob("*.yaml"))
# Languages of blocks: those that are run or checked, and those of no example that could be.
LANGUAGES, OTHERS = ("sh", "yaml"), ("", "c")
BLOCK = re.compile(r"(?ms)((?:^ *<!--(?:(?!-->).)*-->\n)*)^( *)```(sh|yaml)\n(.*?)^ *```$")
UCX = r"\bucx"
GPU = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "PENSTOCK_PLUGIN_PATH": str(FAKES / "cuda")}
DEVICES = {
    "a GPU": ([], GPU),
    "an integrated GPU": ([], {**GPU, "FAKE_CUDA": "integrated=1"}),
    "an RDMA device": ([str(BUILD / "subprojects" / "simverbs" / "penstock-simverbs")], {}),
    "an RDMA device and an integrated GPU": ([str(BUILD / "subprojects" / "simverbs" / "penstock-simverbs")],
                                             {**GPU, "FAKE_CUDA": "integrated=1"}),
}
CAPTURE = ("python3 -c 'import struct; o=open(\"in.pcap\",\"wb\"); o.write(struct.pack(\"<IHHiIII\",0xa1b2c3d4,2,4,0,0,65535,1));"
           " [o.write(struct.pack(\"<IIII\",1,i,60,60)+bytes(60)) for i in range(9)]'")
# Remarks of the commands in a configuration's comments.
CONFIGURATION_REMARKS = {
    "ethernet-afpacket": {"not run": "it takes packets off eth0; tests/e2e/test_ethernet.py has an interface of its own"},
    "ethernet-igpu": {"on": "an integrated GPU"},
    "ethernet-mlx5-gpu": {"not run": "it needs a card"},
    "ethernet-tap": {"not run": "it makes an interface; tests/vm/test_ethernet.py does in a guest"},
    "loopback-cuda": {"on": "a GPU"},
    "loopback-file": {"before": "head -c 1M /dev/urandom > big.bin"},
    "loopback-igpu": {"on": "an integrated GPU"},
    "loopback-pcap": {"before": CAPTURE},
    "ucx-cuda": {"on": "a GPU"},
    "udp-camera": {"needs": "ffmpeg"},
    "udp-igpu": {"on": "an integrated GPU"},
    "verbs": {"on": "an RDMA device"},
    "verbs-dc": {"on": "an RDMA device"},
    "verbs-igpu": {"on": "an RDMA device and an integrated GPU"},
}  # fmt: skip
# A network, processes and mounts of its own; hosts have the addresses of the pages.
ALONE = ["unshare", *([] if os.getuid() == 0 else ["-Ur"]), "-nm", "--pid", "--fork", "--kill-child", "--mount-proc"]
SETUP = """set -e -o pipefail
ip link set lo up
if [ $UID = 0 ] && mkdir -p /run/netns; then mount -t tmpfs none /run/netns; fi  # of `ip netns`
mount -t tmpfs none /dev/shm  # its files are called by process ids
for address in 192.0.2.1 192.0.2.2 10.9.0.1; do ip address add $address/24 dev lo; done
"""
# Ends in the background must end well; servers are ended.
FINISH = """
for job in $(jobs -p); do
  case $(tr '\\0' ' ' < /proc/$job/cmdline) in
    *serve*|*' share '*) kill $job; wait $job || true;;
    *) wait $job;;
  esac
done
"""
# Arguments that take long, and show nothing more in that time.
SHORTER = [(r"--duration (3|60)\b", "--duration 300ms"), (r"--duration 1s\b", "--duration 300ms"), (r"head -c 256M", "head -c 16M"),
           (r"penstock bench (?!--server)", "penstock bench --duration 5ms --size 64 "), (r"--count 1000000", "--count 100000"),
           (r"--count 100000\b", "--count 10000"),
           # Another test may be at the file's own.
           (r"(config/ethernet-(memif|igpu).yaml)", r"\1 --set transport.options.socket=$PWD/memif"),
           (r"-t 5 -c:v", "-t 1 -c:v"),
           # Nothing slows these senders down on a busy machine.
           (r"(config/(udp|udp-igpu|ethernet-memif).yaml)",
            r"\1 --set streams.packets.sender.rate=200Mbps --set streams.packets.expect.max_loss=100%")]  # fmt: skip


def blocks(page):
    """(line, language, text, {remark: value}) of each."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        remarks, indent, language, body = match.groups()
        line = text[: match.start(3)].count("\n") + 1
        said = {}
        for remark in re.findall(r"<!--\s*(.*?)\s*-->", remarks, re.S):
            key, _, value = remark.partition(":")
            said[key] = value.strip()
        yield line, language, textwrap.dedent(body), said


def commands(configuration):
    """Those in its first comment, as blocks() has a page's."""
    text = configuration.read_text()
    comment = re.match(r"(?:#.*\n)*", text)[0]
    for match in re.finditer(r"(?m)(?:^#   \S.*\n|^#     +\S.*\n)+", comment):
        yield text[: match.start()].count("\n") + 1, "sh", re.sub(r"(?m)^#   ", "", match[0]), \
            CONFIGURATION_REMARKS.get(configuration.stem, {})  # fmt: skip


def why_not(text, remarks):
    """Why a block is not run here; None where it is."""
    if "not run" in remarks:
        return remarks["not run"]
    if "needs root" in remarks and os.getuid():
        return "this is not root"
    lacking = missing(text)
    if "QEMU_SET_ENV" in os.environ:  # tests/arm64: the host's programs cannot load the simulated device
        lacking += [program for program in remarks.get("needs", "").split() if program in ("ibv_devinfo", "rping")]
    lacking += [program for program in remarks.get("needs", "").split() if not shutil.which(program)]
    return f"not here: {' '.join(lacking)}" if lacking else None


def whole(yaml):
    """A configuration of a part of one."""
    if re.match(r"(sender|receiver|expect):", yaml):
        yaml = "streams:\n  - name: example\n    message: 1 KiB\n" + textwrap.indent(yaml, "    ")
    if not re.search(r"(?m)^streams:", yaml):
        yaml += "streams: [{name: example, message: 1 KiB}]\n"
    return yaml if re.search(r"(?m)^penstock:", yaml) else "penstock: 1\n" + yaml


def missing(text):
    """Optional parts of the program that this block needs and this build has not."""
    parts = {"ethernet": r"ethernet", "ucx": UCX, "verbs_rc": r"verbs|hardware-check"}
    return [name for name, words in parts.items()
            if re.search(words, text) and not (BUILD / "transports" / f"transport-{name}.so").exists()]  # fmt: skip


@unittest.skipIf(SANITIZED, "examples are of the program, not of a sanitizer")
class Examples(Case):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("ip") or not shutil.which("ss") or subprocess.run([*ALONE, "true"], capture_output=True).returncode:
            raise unittest.SkipTest("no namespaces here, or no iproute2")

    def setUp(self):
        super().setUp()
        for name in ("config", "subprojects"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / "build").symlink_to(BUILD)
        self.environment = {**os.environ, "PATH": os.pathsep.join(
            [str(BUILD), str(BUILD / "subprojects" / "simverbs"), os.environ["PATH"]])}  # fmt: skip

    def script(self, text, remarks):
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text)
        launcher, environment = DEVICES.get(remarks.get("on"), ([], {}))
        if re.search(UCX, text):
            environment = {**environment, **ON_UCX}
        if launcher or "penstock-simverbs" in text:
            environment = {**environment, **ON_SIMULATED}
        if launcher:
            text = text.replace("rxe0", "mlx5_0")
        # A reader sees that a server listens before going on.
        text = re.sub(r"(?m)^(.*\bserve\w* .*&(?: +#.*)?)$", r"\1\nuntil ss -Hltn | grep -q .; do sleep 0.02; done", text)
        script = self.folder / "example.sh"
        script.write_text("set -e -o pipefail\n" + remarks.get("before", "") + "\n" + text + FINISH)
        command = SETUP + " ".join([*launcher, "bash", str(script)])
        child = subprocess.Popen([*ALONE, "bash", "-c", command], cwd=self.folder, env={**self.environment, **environment},
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        try:
            output, _ = child.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            output, _ = child.communicate()
            self.fail(f"hangs\n{text}\n{output}")
        self.assertEqual(child.returncode, int(remarks.get("exit", 0)), f"\n{text}\n{output}")

    def examples(self, page, blocks):
        ran, first = 0, ""
        for line, language, text, remarks in blocks:
            where = f"{page.relative_to(ROOT)}:{line}"
            reason = why_not(text, remarks)
            if reason is not None:
                print(f"not run: {where}: {reason}")
                continue
            with self.subTest(block=where):
                ran += 1
                if "beside the next" in remarks:
                    first = text.rstrip() + " &\n"
                elif language == "sh":
                    self.script(first + text, remarks)
                    first = ""
                else:
                    subprocess.run(["sh", "-ec", remarks.get("before", "")], cwd=self.folder, check=True)
                    path = self.write("stream.yaml", text if "streams:" in text else whole(text))
                    self.run_program("check", path)
        print(f"{page.relative_to(ROOT)}: {ran} blocks")

    def test_no_block_is_overlooked(self):
        """Each fence has a language that is known, and is found; each that is not run says why, by tests that exist."""
        for page in PAGES:
            with self.subTest(page=str(page.relative_to(ROOT))):
                fences = re.findall(r"(?m)^ *```+(.*)$", page.read_text())[::2]
                self.assertEqual([], [language for language in fences if language not in (*LANGUAGES, *OTHERS)])
                found = list(blocks(page))
                self.assertEqual([language for language in fences if language in LANGUAGES], [block[1] for block in found])
                for line, _, _, remarks in found:
                    self.assertNotEqual("", remarks.get("not run"), f"line {line} does not say why it is not run")
                    for name in re.findall(r"\btest_\w+\.py|\btests/[\w/.-]+\w", remarks.get("not run", "")):
                        self.assertTrue((ROOT / name).exists() or any((ROOT / "tests").glob(f"*/{name}")), f"line {line}: {name}")

    def test_every_configuration_has_commands(self):
        self.assertEqual([], [path.name for path in CONFIGURATIONS if not list(commands(path))])
        self.assertEqual(set(), set(CONFIGURATION_REMARKS) - {path.stem for path in CONFIGURATIONS})


def case_of(path, blocks_of):
    return lambda self: self.examples(path, blocks_of(path))


for blocks_of, paths in ((blocks, PAGES), (commands, CONFIGURATIONS)):
    for path in paths:
        name = str(path.relative_to(ROOT).with_suffix("")).replace("/", "_").replace("-", "_")
        setattr(Examples, f"test_{name}", case_of(path, blocks_of))


if __name__ == "__main__":
    main()
