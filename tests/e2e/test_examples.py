# SPDX-License-Identifier: Apache-2.0
"""The examples of the pages: each block of shell is run, and each of YAML checked.

A comment on the line before a block says what is peculiar to it:

    <!-- not run: WHY -->       it is not
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

from harness import BUILD, FAKES, HANGS, ROOT, SANITIZED, Case, main

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "start").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md")),
         *sorted(path.parent / "README.md" for family in ("transports", "memory", "filters")
                 for path in (ROOT / family).glob("*/options.c"))]  # fmt: skip
BLOCK = re.compile(r"(?ms)((?:^ *<!--(?:(?!-->).)*-->\n)*)^( *)```(sh|yaml)\n(.*?)^ *```$")
GPU = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "PENSTOCK_PLUGIN_PATH": str(FAKES / "cuda")}
DEVICES = {
    "a GPU": ([], GPU),
    "an integrated GPU": ([], {**GPU, "FAKE_CUDA": "integrated=1"}),
    "an RDMA device": ([str(BUILD / "subprojects" / "simverbs" / "penstock-simverbs")], {}),
}
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
    *serve*) kill $job; wait $job || true;;
    *) wait $job;;
  esac
done
"""
# What takes long, and shows nothing more in that time.
SHORTER = [(r"--duration 3\b", "--duration 300ms"), (r"--duration 1s\b", "--duration 300ms"), (r"head -c 256M", "head -c 16M"),
           (r"penstock bench (?!--server)", "penstock bench --duration 5ms --size 64 "), (r"--count 1000000", "--count 100000"),
           (r"--count 100000\b", "--count 10000"),
           # Another test may be at the file's own.
           (r"(config/ethernet-(memif|igpu).yaml)", r"\1 --set transport.options.socket=$PWD/memif"),
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


def whole(yaml):
    """A configuration of a part of one."""
    if re.match(r"(sender|receiver):", yaml):
        yaml = "streams:\n  - name: example\n    message: 1 KiB\n" + textwrap.indent(yaml, "    ")
    if not re.search(r"(?m)^streams:", yaml):
        yaml += "streams: [{name: example, message: 1 KiB}]\n"
    return yaml if re.search(r"(?m)^penstock:", yaml) else "penstock: 1\n" + yaml


def missing(text):
    """Optional parts of the program that this block needs and this build has not."""
    parts = {"ethernet": r"ethernet", "ucx": r"\bucx", "verbs_rc": r"verbs|hardware-check"}
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

    def page(self, page):
        ran, first = 0, ""
        for line, language, text, remarks in blocks(page):
            needs = remarks.get("needs", "").split()
            if "not run" in remarks or ("needs root" in remarks and os.getuid()) or missing(text) \
                    or not all(map(shutil.which, needs)):
                continue
            with self.subTest(block=f"{page.relative_to(ROOT)}:{line}"):
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


def case_of(page):
    return lambda self: self.page(page)


for path in PAGES:
    name = str(path.relative_to(ROOT).with_suffix("")).replace("/", "_").replace("-", "_")
    setattr(Examples, f"test_{name}", case_of(path))


if __name__ == "__main__":
    main()
