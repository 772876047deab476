#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What crosses: headers that are frozen, symbols that are exported, plugins and hosts of
different minors, and that each refusal of the loader's has a test."""
import hashlib
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import BUILD, Case, ROOT, SANITIZED, main, random_file  # noqa: E402

HEADERS = ROOT / "core" / "include" / "penstock"
MINORS = BUILD / "tests" / "abi"


def exported(path):
    run = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True)
    names = {line.split()[-1].split("@")[0] for line in run.stdout.splitlines()}
    return {name for name in names if not (SANITIZED and re.match(r"_|__", name))}


def code_of(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


def declared():
    """Functions of what applications include."""
    return {name for header in ("penstock.h", "dlpack.h")
            for name in re.findall(r"^PST_EXPORT [^;{]*?\b(pst_\w+)\(", code_of(HEADERS / header), re.M)}


def folded(text):
    """Adjacent string literals as one."""
    return re.sub(r'"\s*"', "", text)


class Frozen(Case):
    def test_headers_of_1_0_are_as_they_were(self):
        """A later minor gets a folder of its own; this one is history."""
        for line in (HERE / "v1.0" / "SHA256SUMS.txt").read_text().splitlines():
            digest, name = line.split()
            self.assertEqual((name, hashlib.sha256((HERE / "v1.0" / name).read_bytes()).hexdigest()), (name, digest))

    def test_later_headers_are_later(self):
        """Else the plugins built with them show nothing."""
        for name in ("plugin", "memory", "transport"):
            now = (HEADERS / f"{name}.h").read_text()
            later = (MINORS / "later" / "penstock" / f"{name}.h").read_text()
            self.assertIn("later[3]", later)
            self.assertEqual(now.count("uint32_t struct_size;"), later.count("/* of a later minor */"))
        self.assertRegex((MINORS / "later" / "penstock" / "plugin.h").read_text(), r"PST_ABI_MINOR [1-9]")


class Symbols(Case):
    def test_library_exports_what_its_header_declares(self):
        self.assertGreater(len(declared()), 30)
        self.assertEqual(exported(BUILD / "core" / "libpenstock.so"), declared())

    def test_the_list_tells_what_comes_and_goes(self):
        listed = set((HERE / "libpenstock-symbols.txt").read_text().split())
        now = exported(BUILD / "core" / "libpenstock.so")
        self.assertEqual({"gone": sorted(listed - now), "new": sorted(now - listed)}, {"gone": [], "new": []},
                         "write what is new into tests/abi/libpenstock-symbols.txt; what goes needs another soname")  # fmt: skip

    def test_plugins_export_their_two_symbols(self):
        folders = [BUILD / "transports", BUILD / "memory", BUILD / "filters", MINORS / "v1.0", MINORS / "later"]
        plugins = [path for folder in folders for path in sorted(folder.glob("*.so"))]
        self.assertGreaterEqual(len(plugins), 12)
        for path in plugins:
            wanted = {"pst_description_v1"} | (set() if path.name.endswith(".desc.so") else {"pst_plugin_v1"})
            self.assertEqual((path.name, exported(path)), (path.name, wanted))


class Minors(Case):
    """By the real program; the contract suite runs over the same plugins."""

    def run_template(self, folder):
        source = random_file(self.folder / "in.bin", (3 << 20) + 11)
        for name, memory in (("template-plugin", "template"), ("template-transport", "host")):
            stream = ROOT / "docs" / name / "stream.yaml"
            if memory == "template":
                target = self.folder / "out.bin"
                arguments = ("--set", f"streams.packets.sender.source.file={source}",
                             "--set", f"streams.packets.receiver.sink.file={target}")  # fmt: skip
            else:
                arguments = ("--count", "20000")
            result, _ = self.run_json("run", stream, "--plugin-path", folder, *arguments)
            self.assert_accounted(self.only_stream(result))
            paths = " ".join(map(str, result.values()))
            self.assertIn(str(folder), paths)
        self.assertEqual(source.read_bytes(), target.read_bytes())

    def test_plugins_of_1_0_run(self):
        self.run_template(MINORS / "v1.0")

    def test_plugins_of_a_later_minor_run(self):
        self.run_template(MINORS / "later")
        child = self.run_program("plugins", "template", "--plugin-path", MINORS / "later")
        self.assertIn("transport template 1.0: usable", child.stdout)

    def test_own_plugins_of_a_later_minor_run(self):
        """--plugin-path goes before the folders of the build."""
        environment = {"PENSTOCK_PLUGIN_PATH": str(MINORS / "later")}
        result, child = self.run_json("run", "config/loopback.yaml", "--count", "20000", environment=environment)
        self.assert_accounted(self.only_stream(result))
        self.assertIn(str(MINORS / "later"), str(result))

    def test_a_scope_of_a_later_minor_is_refused_with_the_remedy(self):
        path = self.write("later.yaml", "penstock: 1\ntransport: later_scope\nstreams: [{name: packets}]\n")
        child = self.run_program("run", path, "--plugin-path", MINORS, expect=3)
        self.assertIn("its scope is unknown to ABI 1.", child.stderr)
        self.assertIn("install a newer host", child.stderr)


# Of the machine, not of a plugin: nothing can be built that meets them.
CIRCUMSTANCES = ("no memory", "cannot be read", "cannot be looked at", "its folder %s cannot be looked at",
                 "cannot be opened: %s")  # fmt: skip


class Refusals(Case):
    def test_each_has_a_fixture(self):
        calls = r'(?:loader_reject|option_breach|option_unknown|rule_breach|breach)\([^;"]*((?:"(?:[^"\\]|\\.)*"\s*)+)'
        tested = folded("".join(path.read_text() for path in (ROOT / "tests/unit/loader").glob("test_*.c")))
        found = [
            folded(literal).strip()[1:-1]
            for path in sorted((ROOT / "core" / "loader").glob("*.c"))
            for literal in re.findall(calls, path.read_text())
        ]
        self.assertGreater(len(found), 35)
        without = []
        for reason in found:
            if reason == "%s" or any(reason.startswith(start) for start in CIRCUMSTANCES):
                continue
            parts = [part.strip("'") for part in re.split(r"%[.\d*]*(?:ll|z)?[a-z]", reason)]
            if not all(part in tested for part in parts):
                without.append(reason)
        self.assertEqual(without, [])


if __name__ == "__main__":
    main()
