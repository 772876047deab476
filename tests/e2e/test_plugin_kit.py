#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of a plugin's author: the template, out of the tree, from what is installed."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import unittest

from harness import BUILD, Case, PATIENCE, SANITIZED, free_port, main, random_file


def run(*command, seconds=300, **options):
    return subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds * PATIENCE,
        **options,
    )


def lines(folder):
    """All lines of its C and headers, blanks and comments included."""
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.[ch]"))


@unittest.skipIf(SANITIZED, "a sanitized plugin needs a sanitized program")
@unittest.skipUnless(shutil.which("make"), "make is not installed")
class Kit(Case):
    @classmethod
    def setUpClass(cls):
        cls.stage = BUILD / "tests" / "e2e" / "stage-kit"
        shutil.rmtree(cls.stage, ignore_errors=True)
        out = run(
            *("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"),
            *("--destdir", cls.stage),
        )
        if out.returncode:
            raise AssertionError(out.stdout)
        (cls.package_folder,) = {path.parent for path in cls.stage.rglob("penstock-plugin.pc")}
        cls.library_folder = cls.package_folder.parent
        cls.programs = next(cls.stage.rglob("penstock-contract")).parent
        cls.kit = next(cls.stage.rglob("template-plugin")).parent
        # Nor the runner's orders to cmocka: these are programs under test, not tests of its.
        cls.environment = {
            key: value
            for key, value in os.environ.items()
            if key != "PENSTOCK_PLUGIN_PATH" and not key.startswith("CMOCKA_")
        }
        cls.environment.update(
            PKG_CONFIG_PATH=str(cls.package_folder), PKG_CONFIG_SYSROOT_DIR=str(cls.stage)
        )

    def copy(self, template):
        return pathlib.Path(shutil.copytree(self.kit / template, self.folder / template))

    def make(self, source, *arguments):
        """With warnings as errors, where only pkg-config knows the tree."""
        out = run(
            *("make", "-C", source, "CFLAGS=-O2 -Wall -Wextra -Werror", *arguments),
            env=self.environment,
        )
        self.assertEqual(out.returncode, 0, out.stdout)

    def build(self, template):
        source = self.copy(template)
        folder = self.folder / "plugins"
        self.make(source, "install", f"PLUGINDIR={folder}")
        return folder

    def changed(self, template, whole, other):
        """A copy of the template with other words for some, made; its folder."""
        source = self.copy(template)
        path = source / "template.c"
        text = path.read_text()
        self.assertIn(whole, text)
        path.write_text(text.replace(whole, other))
        self.make(source)
        return source

    def contract(self, *arguments, expect=0):
        out = run(
            self.programs / "penstock-contract", *arguments, seconds=240, env=self.environment
        )
        self.assertEqual(out.returncode, expect, out.stdout)
        return out.stdout

    def test_the_page_for_authors_is_installed(self):
        installed = {path.name for path in self.stage.rglob("share/doc/penstock/docs/**/*.md")}
        self.assertLessEqual({"write-a-plugin.md", "abi-walkthrough.md"}, installed)

    def test_templates_are_short(self):
        """The smallest memory, and the smallest transport, that keep the contract."""
        self.assertLessEqual(lines(self.kit / "template-plugin"), 100)
        self.assertLessEqual(lines(self.kit / "template-transport"), 300)

    def test_memory_is_found_and_runs(self):
        folder = self.build("template-plugin")
        child = self.run_program("plugins", "template", "--plugin-path", folder)
        self.assertIn("memory template 1.0: usable", child.stdout)
        source = random_file(self.folder / "in.bin", (5 << 20) + 77)
        target = self.folder / "out.bin"
        stream = self.kit / "template-plugin" / "stream.yaml"
        files = (
            *("--set", f"streams.packets.sender.source.file={source}"),
            *("--set", f"streams.packets.receiver.sink.file={target}"),
            *("--plugin-path", folder),
        )
        result, _ = self.run_json("run", stream, *files)
        self.assert_accounted(self.only_stream(result))
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (source, target)]
        self.assertEqual(sums[0], sums[1])
        target.unlink()
        options = ("--set", "streams.packets.sender.memory.options.limit=4096")
        child = self.run_program("run", stream, *files, *options, expect=None)
        self.assertNotEqual(child.status, 0)
        self.assertIn("raise limit", child.stderr)

    def test_installed_where_the_program_looks(self):
        source = self.copy("template-plugin")
        folder = self.library_folder / "penstock"
        self.make(source, "install", f"PLUGINDIR={folder}")
        self.addCleanup(lambda: [path.unlink() for path in folder.glob("memory-template*")])
        out = run(self.programs / "penstock", "plugins", "template", env=self.environment)
        self.assertIn("memory template 1.0: usable", out.stdout)

    def test_transport_runs(self):
        folder = self.build("template-transport")
        stream = self.kit / "template-transport" / "stream.yaml"
        result, _ = self.run_json(
            "run", stream, "--count", "100000", "--plugin-path", folder
        )
        stream = self.only_stream(result)
        self.assert_accounted(stream)
        self.assertEqual(stream["messages_delivered"], 100000)

    def test_memory_keeps_the_contract(self):
        plugin = self.build("template-plugin") / "memory-template.so"
        self.assertIn("test_random_pieces_both_ways", self.contract(plugin))
        self.contract(plugin, "--option", "limit=1 GiB")

    def test_transport_keeps_the_contract(self):
        plugin = self.build("template-transport") / "transport-template.so"
        out = self.contract(plugin)
        self.assertIn("receiver_leaves_under_a_busy_sender", out)
        self.assertIn("not tried between processes", out)
        self.assertIn("in process: ", out)
        out = self.contract(plugin, "--apart", expect=1)
        self.assertIn("with --apart nothing is left to try", out)
        self.assertNotIn("in process: ", out)

    def test_messages_too_short_for_the_cases_are_no_failure(self):
        source = self.changed("template-transport", "message_max = UINT64_C(1) << 30", "message_max = 512")
        out = self.contract(source / "transport-template.so", expect=77)
        self.assertIn("takes messages of up to 512 B, and the cases need 1500", out)

    def sanitized(self, source, case):
        """As docs/howto/write-a-plugin.md says: the plugin alone is built with the sanitizer."""
        self.make(source, "CFLAGS=-O1 -g -fsanitize=address")
        library = run("gcc", "-print-file-name=libasan.so").stdout.strip()
        if not pathlib.Path(library).is_absolute():
            self.skipTest("gcc has no libasan")
        return run(
            *(self.programs / "penstock-contract", source / "transport-template.so"),
            *("--case", case),
            seconds=240,
            env=dict(
                self.environment,
                LD_PRELOAD=library,
                ASAN_OPTIONS="allocator_may_return_null=1",
            ),
        )

    def test_address_sanitizer_of_a_plugin_alone(self):
        source = self.copy("template-transport")
        out = self.sanitized(source, "limits_make_sense")
        self.assertEqual(out.returncode, 0, out.stdout)
        path = source / "template.c"
        text = path.read_text()
        whole = "calloc(params->slots, sizeof(*made->arrived))"
        self.assertIn(whole, text)
        path.write_text(text.replace(whole, "calloc(params->slots - 1, sizeof(*made->arrived))"))
        out = self.sanitized(source, "many_arrive_*")
        self.assertNotEqual(out.returncode, 0)
        self.assertIn("heap-buffer-overflow", out.stdout)

    def test_broken_memory_fails(self):
        source = self.changed("template-plugin", "aligned_alloc(align, length)", "malloc(length)")
        self.assertIn(
            "[  FAILED  ] test_alignment", self.contract(source / "memory-template.so", expect=1)
        )

    def test_broken_transport_fails(self):
        whole = "const int rc = pst_cpu_release(worker->host, &worker->rings, tokens, n);"
        source = self.changed("template-transport", whole, whole.removeprefix("const ") + " rc = 0;")
        self.assertIn(
            "[  FAILED  ] token_that_is_not_out_is_refused",
            self.contract(source / "transport-template.so", expect=1),
        )

    def test_refused_plugin_fails_with_the_reason(self):
        plugin = self.build("template-plugin") / "memory-template.so"
        plugin.chmod(0o777)
        self.assertIn("world-writable", self.contract(plugin, expect=1))

    def test_wrong_usage(self):
        plugin = self.build("template-plugin") / "memory-template.so"
        self.assertIn("limit", self.contract(plugin, "--option", "limt=3", expect=2))
        self.contract(plugin, "--option", "limit=many", expect=2)
        self.contract(plugin, "--inner", plugin, expect=2)
        self.contract(plugin, "--nonsense", expect=2)
        self.contract(plugin, "--messages", "0", expect=2)
        self.contract(plugin, "--case", "nonesuch*", expect=2)
        self.contract(expect=2)
        self.contract(self.folder / "nothing.so", expect=2)
        self.contract(plugin.with_suffix(".desc.so"), expect=2)
        self.assertIn("--listen", self.contract("--help"))

    def two_processes(self, address, *more):
        """more: arguments of the one that connects."""
        command = (self.programs / "penstock-contract", self.library_folder / "penstock")
        command = [str(command[0]), str(command[1] / "transport-loopback.so")]
        sides = [
            subprocess.Popen(
                [*command, side, address, *(more if side == "--connect" else ())],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.environment,
            )
            for side in ("--connect", "--listen")
        ]
        texts = [side.communicate(timeout=300 * PATIENCE)[0] for side in sides]
        return [side.returncode for side in sides], texts

    def test_two_processes_on_this_host(self):
        statuses, texts = self.two_processes(str(self.folder / "socket"))
        self.assertEqual(statuses, [0, 0], "".join(texts))
        for text in texts:
            self.assertIn("[       OK ] departure_is_reported", text)

    def test_two_processes_that_disagree_about_streams(self):
        statuses, texts = self.two_processes(str(self.folder / "socket"), "--messages", "500")
        self.assertEqual(statuses, [1, 1], "".join(texts))
        self.assertIn("loopback, 5000 messages", texts[0])

    def test_descriptors_do_not_go_by_tcp(self):
        statuses, texts = self.two_processes(f"127.0.0.1:{free_port()}")
        self.assertEqual(statuses, [1, 1], "".join(texts))
        self.assertIn("only go to a process of this host", texts[0])


if __name__ == "__main__":
    main(side_by_side=3)
