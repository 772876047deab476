#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Symbols that are exported; and each refusal of the loader has a test."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from harness import BUILD, Case, ROOT, SANITIZED, main  # noqa: E402

HEADERS = ROOT / "core" / "include" / "penstock"


def exported(path):
    run = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True)
    names = {line.split()[-1].split("@")[0] for line in run.stdout.splitlines()}
    return {name for name in names if not (SANITIZED and re.match(r"_|__", name))}


def code_of(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


APPLICATIONS = ("penstock.h", "types.h", "config.h", "stream.h", "node.h", "stats.h", "pattern.h", "share.h",
                "dlpack.h")  # fmt: skip
PLUGINS = ("plugin.h", "memory.h", "transport.h", "transport-extra.h", "transport-rma.h", "page.h", "memory-util.h",
           "transport-cpu.h", "transport-util.h", "share-protocol.h")  # fmt: skip


def declared():
    """Functions of what applications include."""
    return {name for header in APPLICATIONS
            for name in re.findall(r"^PST_EXPORT [^;{]*?\b(pst_\w+)\(", code_of(HEADERS / header), re.M)}


def folded(text):
    """Adjacent string literals as one."""
    return re.sub(r'"\s*"', "", text)


class Symbols(Case):
    def test_library_exports_what_its_header_declares(self):
        self.assertGreater(len(declared()), 30)
        self.assertEqual(exported(BUILD / "core" / "libpenstock.so"), declared())

    def test_the_list_shows_what_comes_and_goes(self):
        listed = set((HERE / "libpenstock-symbols.txt").read_text().split())
        now = exported(BUILD / "core" / "libpenstock.so")
        self.assertEqual({"gone": sorted(listed - now), "new": sorted(now - listed)}, {"gone": [], "new": []},
                         "write what is new into tests/abi/libpenstock-symbols.txt; what goes needs another soname")  # fmt: skip

    def test_plugins_export_their_two_symbols(self):
        folders = [BUILD / "transports", BUILD / "memory", BUILD / "filters"]
        plugins = [path for folder in folders for path in sorted(folder.glob("*.so"))]
        self.assertGreaterEqual(len(plugins), 10)
        for path in plugins:
            wanted = {"pst_description_v1"} | (set() if path.name.endswith(".desc.so") else {"pst_plugin_v1"})
            self.assertEqual((path.name, exported(path)), (path.name, wanted))


class Headers(Case):
    def files_of(self, header):
        """Which of the public headers a compiler reads for one of them."""
        compiler = os.environ.get("CC", "cc").split()
        run = subprocess.run([*compiler, "-M", "-I", HEADERS.parent, HEADERS / header],
                             check=True, capture_output=True, text=True)  # fmt: skip
        return {pathlib.Path(name).name for name in run.stdout.split() if f"{HEADERS}/" in name}

    def test_each_header_is_of_one_sort(self):
        self.assertEqual({path.name for path in HEADERS.glob("*.h")}, {*APPLICATIONS, *PLUGINS})

    def test_an_application_sees_no_plugin_header(self):
        for header in APPLICATIONS:
            self.assertEqual((header, self.files_of(header) & set(PLUGINS)), (header, set()))

    def test_penstock_h_includes_all_that_an_application_uses(self):
        self.assertEqual(self.files_of("penstock.h"), set(APPLICATIONS) - {"dlpack.h"})

    def test_a_plugin_sees_the_types_and_no_call_of_the_library(self):
        for header in PLUGINS:
            self.assertLessEqual(self.files_of(header), {*PLUGINS, "types.h"}, header)
        self.assertNotIn("(", "".join(re.findall(r"^PST_EXPORT.*", code_of(HEADERS / "types.h"), re.M)))

    def test_the_program_and_the_examples_include_no_plugin_header(self):
        wanted = re.compile(r'#\s*include\s*[<"]penstock/(?:%s)' % "|".join(PLUGINS))
        files = [path for path in (ROOT / "apps").rglob("*.[ch]")]
        self.assertGreater(len(files), 50)
        self.assertEqual([str(path) for path in files if wanted.search(path.read_text())], [])


class Described(Case):
    def test_the_variables_that_a_plugin_names(self):
        child = self.run_program("plugins", "patching", "--plugin-path", BUILD / "tests" / "abi")
        self.assertIn("transport patching 1: usable", child.stdout)
        wanted = "environment, while it is opened:\n  FIXTURE_MODE=quiet\n  FIXTURE_OTHER=1"
        self.assertIn(wanted, child.stdout)
        child = self.run_program("plugins", "good", "--plugin-path", BUILD / "tests" / "abi")
        self.assertNotIn("environment", child.stdout)


# These depend on the machine, not on a plugin: no plugin can be built that meets them.
CIRCUMSTANCES = ("out of memory", "no memory", "cannot be read", "cannot be looked at", "its folder %s cannot be looked at",
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
