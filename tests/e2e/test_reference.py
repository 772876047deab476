#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock help KEY`, the JSON Schema of configurations, and the manual pages."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from harness import BUILD, Case, PROGRAM, ROOT, main

sys.path.insert(0, str(ROOT / "docs" / "reference"))
import manpages  # noqa: E402

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = None

GOOD = """
penstock: 1
transport: {plugin: udp, options: {framing: rtp}}
streams:
  - name: packets
    ring: 64
    sender: {source: {type: file, file: in.bin}, rate: 1 Gbps}
    receiver: {sink: discard}
    timeout: 5 s
"""


class Help(Case):
    def test_a_key_by_its_path(self):
        for path in ("streams.ring", "streams[].ring", "streams.packets.ring", "streams.0.ring"):
            out = self.run_program("help", path).stdout
            self.assertTrue(out.startswith("streams.ring (whole number: 2 to 16777216; default by `message` and `rate`)\n"), out)
            self.assertIn("Slots of the ring, one for each message.", out)

    def test_every_place_of_a_key(self):
        out = self.run_program("help", "ring").stdout
        self.assertEqual(re.findall(r"(?m)^(\S+) \(", out), ["streams.ring", "streams.sender.ring"])

    def test_a_mapping_lists_its_keys(self):
        out = self.run_program("help", "streams.packets.sender.transport").stdout
        self.assertEqual(re.findall(r"(?m)^(\S+) \(", out),
                         ["streams.sender.transport", *(f"streams.sender.transport.{key}" for key in ("plugin", "options", "filters"))])  # fmt: skip

    def test_options_of_plugins(self):
        by_path = self.run_program("help", "transport.options.rcvbuf").stdout
        self.assertEqual(by_path, self.run_program("help", "rcvbuf").stdout)
        self.assertIn("transport udp, options.rcvbuf (size: 4 KiB to 1 GiB; default 16 MiB)\n", by_path)
        self.assertIn("\noptions.rcvbuf (size: 4 KiB", self.run_program("help", "udp").stdout)
        of_memory = self.run_program("help", "streams.x.sender.memory.options.backing").stdout
        self.assertEqual(re.findall(r"(?m)^(\S.*) \(", of_memory), ["memory host, options.backing"])

    def test_a_command(self):
        self.assertEqual(self.run_program("help", "run").stdout, self.run_program("run", "--help").stdout)

    def test_the_nearest_name(self):
        for wrong, right in (("streams.rign", "streams.ring"), ("rcvbfu", "rcvbuf"), ("recieve", "receive"),
                             ("udpp", "udp"), ("control.adress", "control.address")):  # fmt: skip
            child = self.run_program("help", wrong, expect=2)
            self.assertIn(f"'{wrong}', did you mean '{right}'?", child.stderr)
            self.assertEqual(child.stdout, "")


@unittest.skipIf(jsonschema is None, "python3-jsonschema and python3-yaml are not installed")
class Schema(Case):
    @classmethod
    def setUpClass(cls):
        out = subprocess.run([PROGRAM, "schema"], check=True, capture_output=True, text=True).stdout
        cls.schema = json.loads(out)
        cls.judge = jsonschema.Draft202012Validator(cls.schema)

    def wrong(self, text):
        return [f"{error.json_path}: {error.message}" for error in self.judge.iter_errors(yaml.safe_load(text))]

    def test_it_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        self.assertIn("transport-udp", self.schema["$defs"])

    def test_every_example_is_valid(self):
        files = sorted((ROOT / "config").glob("*.yaml")) + sorted((ROOT / "docs").glob("template-*/*.yaml"))
        self.assertGreater(len(files), 10)
        for path in files:
            self.assertEqual((path.name, self.wrong(path.read_text())), (path.name, []))

    def test_what_the_program_refuses_the_schema_refuses(self):
        """Each of these is one wrong thing, put into a file that both accept."""
        self.assertEqual(self.wrong(GOOD), [])
        self.run_program("check", "--for", "receive", self.write("good.yaml", GOOD))
        for old, new in (
            ("ring: 64", "rign: 64"),
            ("ring: 64", "ring: 1"),
            ("ring: 64", "ring: many"),
            ("ring: 64", "ring: -1"),
            ("ring: 64", "ring: 1.5"),
            ("framing: rtp", "framing: rpt"),
            ("framing: rtp", "farming: rtp"),
            ("framing: rtp", "framing: rtp, ttl: 256"),
            ("framing: rtp", "framing: rtp, rcvbuf: 16 Mb"),
            ("type: file, file: in.bin", "type: file"),
            ("type: file, file: in.bin", "type: file, file: in.bin, seed: 2"),
            ("type: file, file: in.bin", "type: fiel, file: in.bin"),
            ("rate: 1 Gbps", "rate: 1 GB"),
            ("timeout: 5 s", "timeout: 5"),
            ("timeout: 5 s", "timeout: -5"),
            ("timeout: 5 s", "timeout: 5 sec"),
            ("timeout: 5 s", "expect: {max_loss: 2}"),
            ("timeout: 5 s", "expect: {verified: maybe}"),
            ("sink: discard", "sink: discard, sender: {}"),
            ("penstock: 1", "penstock: one"),
            ("name: packets", "message: 64 B"),
            ("streams:", "stream:"),
        ):
            text = GOOD.replace(old, new)
            with self.subTest(new=new):
                self.assertNotEqual(text, GOOD)
                self.assertTrue(self.wrong(text), "the schema accepts it")
                self.run_program("check", self.write("bad.yaml", text), expect=2)

    def test_choices_that_yaml_reads_as_truths_are_accepted(self):
        for value in ("false", '"false"', "auto"):
            text = f"penstock: 1\ntransport: {{plugin: verbs_rc, options: {{ece: {value}, relaxed_ordering: true}}}}\nstreams: [{{name: packets}}]\n"
            with self.subTest(value=value):
                self.assertEqual(self.wrong(text), [])
                self.run_program("check", self.write("truths.yaml", text))
        self.assertTrue(self.wrong(text.replace("ece: auto", "ece: 1")))

    def test_the_installed_file_is_what_the_program_prints(self):
        path = BUILD / "docs" / "reference" / "config.schema.json"
        if not path.exists():
            self.skipTest("not built: -Dman")
        self.assertEqual(json.loads(path.read_text()), self.schema)


# Configurations that examples name, and that a reader would have written.
OWN = {
    "camera.yaml": "penstock: 1\ncontrol: CONTROL\nstreams: [{name: packets, sender: {count: 100}}]\n",
    "files.yaml": "penstock: 1\ncontrol: CONTROL\nstreams:\n"
                  "  - name: archive\n    sender: {source: {type: file, file: none}}\n"
                  "    receiver: {sink: {type: file, file: none, overwrite: true}}\n"
                  "  - name: other\n",
}  # fmt: skip


# The other end of an example: another example, or this command. Each needs both ends.
BESIDE = {
    "penstock send camera.yaml": "penstock receive camera.yaml",
    "penstock receive camera.yaml": "penstock send camera.yaml",
    "penstock send files.yaml": "penstock receive files.yaml --stream archive --set streams.archive.receiver.sink.file=c.tar",
    "penstock receive files.yaml": "penstock send files.yaml --set streams.archive.sender.source.file=a.tar --set streams.other.sender.count=9",
    "penstock bench --transport loopback --memory host 127.0.0.1": "penstock bench --server --transport loopback --memory host",
    "penstock request": "penstock serve",
    "penstock get": "penstock serve --root /srv/data --read-only --in-flight 64MiB",
    "penstock put": "penstock serve --root data",
}  # fmt: skip
# No adapter and no server is here, and no camera sends.
STATUS = {"penstock hardware-check --device": 3, "penstock hardware-check --insecure": 1, "penstock receive config/udp-camera.yaml": 1}


class Examples(Case):
    """Each example of --help, which manual pages have too: with times, ports and folders of this test's."""

    def setUp(self):
        super().setUp()
        (self.folder / "config").symlink_to(ROOT / "config")
        for name, text in OWN.items():
            self.write(name, text.replace("CONTROL", f'"127.0.0.1:{self.port}"'))
        for name in ("a.tar", "events.bin", "srv/run7/events.bin", "run7/part", "run8/part"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(range(256)) * 64)
        (self.folder / "data" / "run7").mkdir(parents=True)
        for name in ("r.json", "before.json", "after.json"):
            self.write(name, '{"penstock": "0.1.0", "command": "run"}')

    def begin(self, line):
        for old, new in ((r"127\.0\.0\.1:18530", f"127.0.0.1:{self.port}"), (r"127\.0\.0\.1$", f"127.0.0.1:{self.port}"),
                         (r"bench --server", f"bench --server 127.0.0.1:{self.port}"), (r"penstock serve", f"penstock serve 127.0.0.1:{self.port}"),
                         (r"/srv/data", "srv"), (r"/data", "data"), (r"/run/penstock/share", "share.socket"), (r"192\.0\.2\.1", "127.0.0.1"),
                         (r"--duration \d+s?", "--duration 0.3"), (r"--count 1000 ", "--count 20 "),
                         (r"(bench (?!.*--server).*)", r"\1 --duration 5ms"),
                         (r"(hardware-check (?!.*--server).*)", r"\1 --duration 5ms"),
                         (r"hardware-check --json", "hardware-check --transport loopback --memory host --json"),
                         (r"(penstock run (?!.*--duration).*)", r"\1 --count 1000")):  # fmt: skip
            line = re.sub(old, new, line)
        environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "TMPDIR": str(self.temporary)}
        whole = line if re.search("[|>]", line) else f"exec {line}"
        child = subprocess.Popen(["sh", "-c", whole], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
        self.addCleanup(child.kill)
        return line, child

    def test_each_runs(self):
        examples = set()
        for name, _ in manpages.commands(str(PROGRAM)):
            shown = manpages.split_help(manpages.help_of(PROGRAM, name))[2]
            examples |= {line.strip() for line in shown.splitlines() if line.startswith("  penstock ")}
        self.assertGreater(len(examples), 25)
        self.assertLessEqual({"penstock serve", "penstock bench --server --transport loopback --memory host"}, examples)
        for example in sorted(examples):
            if example.startswith("penstock serve") or "--server" in example:
                continue  # beside its clients
            other = next((each for start, each in BESIDE.items() if example.startswith(start)), None)
            with self.subTest(example=example):
                beside = other and self.begin(other)[1]
                if other and " serve" in other:
                    self.assertIn("listening", beside.stdout.readline())
                line, child = self.begin(example)
                if example.startswith("penstock share"):  # a router serves until ^C
                    self.assertIn("share: serving", child.stdout.readline())
                    child.send_signal(signal.SIGINT)
                said, _ = child.communicate(timeout=60)
                if beside:
                    beside.send_signal(signal.SIGINT)
                    other_said, _ = beside.communicate(timeout=60)
                    said += other_said
                expect = next((status for start, status in STATUS.items() if example.startswith(start)), 0)
                self.assertEqual(child.returncode, expect, f"{line}\n{said}")
        self.assertEqual((self.folder / "b.tar").read_bytes(), (self.folder / "a.tar").read_bytes())
        self.assertEqual((self.folder / "data" / "events.bin").read_bytes(), (self.folder / "events.bin").read_bytes())


PAGES = BUILD / "docs" / "reference" / "man"


@unittest.skipUnless(PAGES.exists(), "no manual pages: scdoc was not found, -Dman=disabled, or the program does not run where it is built")
class ManualPages(Case):
    @classmethod
    def setUpClass(cls):
        cls.pages = {path.name: path for path in PAGES.rglob("*.[0-9]")}
        cls.schema = json.loads(subprocess.run([PROGRAM, "schema"], check=True, capture_output=True, text=True).stdout)

    def text(self, name):
        """Returns a page as a reader sees it, in one line."""
        out = subprocess.run(["man", "-l", str(self.pages[name])], check=True, capture_output=True, text=True,
                             env={**os.environ, "MANWIDTH": "1000", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"})  # fmt: skip
        return " ".join(re.sub(r"\x1b\[[0-9;]*m|.\x08", "", out.stdout).split())

    def test_every_command_has_its_page(self):
        commands = dict(manpages.commands(str(PROGRAM)))
        self.assertGreater(len(commands), 10)
        for name in commands:
            shown = self.text(f"penstock-{name}.1")
            for option in re.findall(r"(?m)^  (?:-\w, |    )(--[\w-]+)", manpages.help_of(PROGRAM, name)):
                self.assertIn(option, shown)
        for name in commands:
            self.assertIn(f"penstock-{name}(1)", self.text("penstock.1"))

    def test_other_programs_have_their_pages(self):
        for name, program in (("penstock-contract", BUILD / "tests" / "contract" / "penstock-contract"),
                              ("penstock-simverbs", BUILD / "subprojects" / "simverbs" / "penstock-simverbs")):  # fmt: skip
            if not program.exists():
                continue
            shown = self.text(f"{name}.1")
            helps = [[], ["ctl"]] if name == "penstock-simverbs" else [[]]
            for words in helps:
                said = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True).stdout
                self.assertGreater(len(re.findall(r"(?m)^ +(--[\w-]+)", said)), 5)
                for option in re.findall(r"(?m)^ +(--[\w-]+|[a-z]+-[a-z-]+)(?= |$)", said):
                    self.assertIn(option, shown)

    def test_every_call_has_its_page(self):
        names = set((ROOT / "tests" / "abi" / "libpenstock-symbols.txt").read_text().split())
        self.assertEqual({name for name in self.pages if re.match(r"pst_.*\.3$", name)}, {f"{name}.3" for name in names})
        said = self.text("pst_receiver_poll.3")
        for words in ("int pst_receiver_poll(struct pst_receiver *receiver,", "RETURN VALUE Returns how many. 0 None now.", "ERRORS -EINVAL batch->struct_size is not set",
                      "struct pst_view {", "pst_receiver_release(3)"):  # fmt: skip
            self.assertIn(words, said)

    def test_every_call_has_a_comment_of_its_own(self):
        for header in manpages.APPLICATION_HEADERS:
            for group in manpages.read_header(manpages.HEADERS / header)[1]:
                self.assertTrue(group.comment, f"{header}: {group.names()}")

    def test_every_key_is_in_its_page(self):
        said = self.text("penstock.yaml.5")
        for name, rule in self.schema["$defs"].items():
            if "x-kind" in rule:
                continue
            for key, entry in rule["properties"].items():
                self.assertIn(f" {key} ({entry['x-type']}", said, name)
        result = json.loads((ROOT / "apps" / "result.schema.json").read_text())
        said = self.text("penstock-result.5")
        for rule in (result, *result["$defs"].values()):
            for key in rule.get("properties", {}):
                self.assertIn(f" {key} (", said)

    def test_every_plugin_has_its_page(self):
        folders = {path.parent.name for kind in manpages.PLUGIN_FOLDERS.values() for path in (ROOT / kind).glob("*/options.c")}
        self.assertGreaterEqual(len(folders), 9)
        described = {rule["x-name"]: rule for rule in self.schema["$defs"].values() if "x-kind" in rule}
        self.assertEqual(folders - {"nvidia"}, set(described))
        for name, rule in described.items():
            said = self.text(f"penstock-{name}.7")
            for option in rule["properties"]:
                self.assertIn(f" {option} (", said)
            self.assertIn(" LIMITS ", said)

    def sources(self):
        return [str(path) for path in self.pages.values() if not path.read_text().startswith(".so ")]

    def test_groff_finds_nothing_wrong(self):
        """Runs the command that `man --warnings` runs."""
        run = subprocess.run(["groff", "-Kutf8", "-man", "-Tutf8", "-ww", "-z", *self.sources()], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_finds_nothing_wrong(self):
        run = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *self.sources()], capture_output=True, text=True)
        self.assertEqual(run.stdout + run.stderr, "")

    @unittest.skipUnless((PAGES.parent / "html").exists(), "no HTML: mandoc is not installed")
    def test_each_page_is_html_too(self):
        folder = PAGES.parent / "html"
        self.assertEqual({path.name for path in folder.glob("*.[0-9].html")}, {f"{name}.html" for name in self.pages})
        broken = []
        for path in folder.glob("*.html"):
            for target in re.findall(r'href="([^"#]+)', path.read_text()):
                if "://" not in target and not (folder / target).exists():
                    broken.append(f"{path.name}: {target}")
        self.assertEqual(broken, [])


if __name__ == "__main__":
    main()
