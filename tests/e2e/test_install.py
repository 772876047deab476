#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The result of `meson install`: everything in its place, and usable from outside the tree."""
import json
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
import unittest

from harness import BUILD, Case, ROOT, SANITIZED, main

HERE = pathlib.Path(__file__).resolve().parent


def run(*command, **options):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, **options
    )


@unittest.skipIf(SANITIZED, "a sanitized library needs a sanitized application")
class Install(Case):
    @classmethod
    def setUpClass(cls):
        cls.stage = BUILD / "tests" / "e2e" / "stage"
        run("rm", "-rf", cls.stage)
        install = run(
            *("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"), "--destdir", cls.stage
        )
        if install.returncode:
            raise AssertionError(install.stdout + install.stderr)
        (cls.package_folder,) = {path.parent for path in cls.stage.rglob("penstock.pc")}
        cls.library_folder = cls.package_folder.parent
        cls.prefix = next(path for path in cls.stage.rglob("include")).parent
        cls.environment = dict(
            os.environ,
            PKG_CONFIG_PATH=str(cls.package_folder),
            PKG_CONFIG_SYSROOT_DIR=str(cls.stage),
            LD_LIBRARY_PATH=str(cls.library_folder),
            PENSTOCK_PLUGIN_PATH=str(cls.library_folder / "penstock"),
        )

    def flags(self, package, *what, environment=None):
        out = run("pkg-config", *what, package, env=environment or self.environment)
        self.assertEqual(out.returncode, 0, out.stderr)
        return shlex.split(out.stdout)

    def test_everything_is_there(self):
        names = {str(path.relative_to(self.stage)) for path in self.stage.rglob("*")}
        prefix = self.prefix.relative_to(self.stage)
        library = self.library_folder.relative_to(self.stage)
        for name in (
            f"{prefix}/bin/penstock",
            f"{library}/libpenstock.so",
            f"{library}/libpenstock.so.0",
            f"{library}/penstock/transport-loopback.so",
            f"{library}/penstock/transport-loopback.desc.so",
            f"{library}/penstock/memory-host.so",
            f"{library}/penstock/memory-host.desc.so",
            f"{prefix}/include/penstock/penstock.h",
            f"{prefix}/include/penstock/plugin.h",
            f"{prefix}/include/penstock/transport.h",
            f"{prefix}/include/penstock/transport-rma.h",
            f"{prefix}/include/penstock/transport-extra.h",
            f"{prefix}/include/penstock/transport-util.h",
            f"{prefix}/include/penstock/transport-cpu.h",
            f"{prefix}/include/penstock/memory-util.h",
            f"{prefix}/include/penstock/memory.h",
            *(f"{prefix}/include/penstock/{header}.h"
              for header in ("types", "config", "stream", "node", "stats", "pattern", "dlpack", "page")),  # fmt: skip
            f"{prefix}/share/penstock/loopback.yaml",
            f"{prefix}/share/penstock/result.schema.json",
            f"{prefix}/share/bash-completion/completions/penstock",
            f"{prefix}/share/zsh/site-functions/_penstock",
            f"{prefix}/share/fish/vendor_completions.d/penstock.fish",
            f"{prefix}/share/doc/penstock/README.md",
            f"{prefix}/share/doc/penstock/docs/start/install.md",
            f"{prefix}/share/doc/penstock/examples/region.c",
        ):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if "throttle" in name or "memory-late" in name])

    @unittest.skipUnless((BUILD / "docs/reference/man").exists(), "no manual pages: scdoc was not found, -Dman=disabled, or the program does not run where it is built")
    def test_manual_pages_are_there_and_man_shows_them(self):
        manual = self.prefix / "share" / "man"
        environment = dict(os.environ, MANPATH=str(manual), MANPAGER="cat", MANWIDTH="80", LC_ALL="C.UTF-8")
        for section, name, words in (
            ("1", "penstock", "Every message is accounted for."),
            ("1", "penstock-run", "--duration TIME"),
            ("3", "pst_receiver_poll", "struct pst_batch"),
            ("3", "pst_receiver_counters", "pst_sender_counters"),
            ("5", "penstock.yaml", "KEYS OF STREAMS"),
            ("5", "penstock-result", "exit_status"),
            ("7", "penstock", "ACCOUNTING"),
            ("7", "penstock-udp", "rcvbuf (size"),
        ):
            out = run("man", section, name, env=environment)
            self.assertEqual((out.returncode, out.stderr), (0, ""), name)
            self.assertIn(words, re.sub(r"\x1b\[[0-9;]*m|.\x08", "", out.stdout))
        schema = json.loads((self.prefix / "share/penstock/config.schema.json").read_text())
        self.assertIn("streams.sender", schema["$defs"])

    def test_completion_of_bash_finds_the_installed_file(self):
        """As bash-completion does: the file by the command's name, in a shell of its own."""
        script = self.prefix / "share/bash-completion/completions/penstock"
        self.assertEqual(completed(script, "penstock", "rec", program=self.prefix / "bin"), ["receive"])
        self.assertEqual(completed(script, "penstock", "bench", "--ba", program=self.prefix / "bin"), ["--bandwidth"])

    def test_library_has_a_versioned_name(self):
        out = run("readelf", "-d", self.library_folder / "libpenstock.so")
        self.assertIn("[libpenstock.so.0]", out.stdout)

    def test_library_exports_only_its_own_names(self):
        out = run("nm", "-D", "--defined-only", self.library_folder / "libpenstock.so")
        names = [line.split()[-1] for line in out.stdout.splitlines()]
        self.assertEqual([name for name in names if not name.startswith("pst_")], [])
        self.assertIn("pst_session_open", names)

    def test_plugins_export_only_their_symbols(self):
        for path in (self.library_folder / "penstock").glob("*.so"):
            out = run("nm", "-D", "--defined-only", path)
            names = {line.split()[-1] for line in out.stdout.splitlines()}
            wanted = {"pst_description_v1"}
            if not path.name.endswith(".desc.so"):
                wanted.add("pst_plugin_v1")
            self.assertEqual((path.name, names), (path.name, wanted))

    def test_plugins_link_neither_library_nor_each_other(self):
        for path in (self.library_folder / "penstock").glob("*.so"):
            self.assertNotIn("penstock", run("readelf", "-d", path).stdout.replace(path.name, ""))

    def test_installed_program_runs(self):
        environment = {
            key: value
            for key, value in os.environ.items()
            if key not in ("LD_LIBRARY_PATH", "PENSTOCK_PLUGIN_PATH")
        }
        environment["PENSTOCK_PLUGIN_PATH"] = str(self.library_folder / "penstock")
        out = run(
            *(self.prefix / "bin" / "penstock", "run", self.prefix / "share/penstock/loopback.yaml"),
            *("--count", "1000"),
            env=environment,
        )
        self.assertEqual(out.returncode, 0, out.stderr)

    def embed(self, environment):
        application = self.folder / "embedded"
        compile_ = run(
            *shlex.split(os.environ.get("CC", "cc")),
            *("-std=c11", "-Wall", "-Wextra", "-Werror", "-o", application, HERE / "embedded.c"),
            *self.flags("penstock", "--cflags", "--libs", environment=environment),
            env=environment,
        )
        self.assertEqual(compile_.returncode, 0, compile_.stderr)
        out = run(application, env=environment)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("5000 received, 0 wrong", out.stdout)

    def test_application_outside_the_tree(self):
        self.embed(self.environment)

    def test_application_with_a_build_that_is_not_installed(self):
        self.embed(dict(os.environ, PKG_CONFIG_PATH=str(BUILD / "meson-uninstalled"),
                        LD_LIBRARY_PATH=str(BUILD / "core")))

    def test_plugin_package_has_flags_and_folder_only(self):
        self.assertEqual(self.flags("penstock-plugin", "--libs"), [])
        self.assertTrue(any("include" in flag for flag in self.flags("penstock-plugin", "--cflags")))
        (folder,) = self.flags("penstock-plugin", "--variable=plugindir")
        self.assertTrue(folder.endswith(f"/{self.library_folder.name}/penstock"), folder)

    def test_plugin_outside_the_tree(self):
        """As docs/howto/write-a-plugin.md tells: two lines of cc, and the program finds it."""
        options, plugin = self.folder / "options.c", self.folder / "warp.c"
        options.write_text(OPTIONS_C)
        plugin.write_text(PLUGIN_C)
        flags = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
        flags += self.flags("penstock-plugin", "--cflags")
        output = self.folder / "plugins"
        output.mkdir()
        for name, sources in (("memory-warp.desc.so", [options]), ("memory-warp.so", [options, plugin])):
            compile_ = run(
                *shlex.split(os.environ.get("CC", "cc")), *flags, "-o", output / name, *sources
            )
            self.assertEqual(compile_.returncode, 0, compile_.stderr)
        child = self.run_program("plugins", "warp", "--plugin-path", output)
        self.assertIn("Memory of a warp adapter", child.stdout)
        self.assertIn("no adapter in this machine", child.stdout)
        path = self.write(
            "warp.yaml",
            "penstock: 1\nstreams: [{name: packets, receiver: {memory: warp}}]\n"
            "transport: loopback\n",
        )
        self.run_program("check", path, "--plugin-path", output)
        child = self.run_program("run", path, "--plugin-path", output, expect=3)
        self.assertIn("no adapter in this machine", child.stderr)


OPTIONS_C = """
#include <penstock/plugin.h>
static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "warp",
    .version = "1.0",
    .summary = "Memory of a warp adapter",
    .needs = "a warp adapter",
    .rung = "compiled",
};
PST_DESCRIPTION(description);
"""
PLUGIN_C = """
#include <errno.h>
#include <stdio.h>
#include <penstock/memory.h>
static int probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  snprintf(probe->reason, sizeof(probe->reason), "no adapter in this machine");
  return -ENODEV;
}
static int warp_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  (void)params;
  (void)memory;
  host->log(host, PST_LOG_ERROR, "no adapter in this machine; put one in");
  return -ENODEV;
}
static void warp_close(struct pst_memory *memory)
{
  (void)memory;
}
static int warp_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct pst_region *region)
{
  (void)memory;
  (void)params;
  (void)region;
  return -ENOMEM;
}
static void warp_free_region(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  (void)region;
}
static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .open = warp_open,
    .close = warp_close,
    .alloc = warp_alloc,
    .free_region = warp_free_region,
};
PST_PLUGIN(probe, &ops);
"""


def completed(script, *words, program=BUILD):
    """Returns bash's completions of the last of these words."""
    line = " ".join(words)
    commands = f"""
      source {shlex.quote(str(script))}
      COMP_WORDS=({" ".join(shlex.quote(word) for word in words)})
      COMP_CWORD={len(words) - 1}
      COMP_LINE={shlex.quote(line)}
      COMP_POINT={len(line)}
      entry=$(complete -p penstock) || exit 1
      function=${{entry##*-F }}
      function=${{function%% *}}
      $function penstock {shlex.quote(words[-1])} {shlex.quote(words[-2])}
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = dict(os.environ, PATH=f"{program}:{os.environ['PATH']}")
    out = run("bash", "-c", commands, cwd=ROOT, env=environment)
    if out.returncode:
        raise AssertionError(out.stderr)
    return [word.strip() for word in out.stdout.splitlines()]


COMMANDS = ["bench", "check", "doctor", "get", "hardware-check", "help", "init", "keys", "plugins", "put", "receive", "report", "request",
            "run", "schema", "send", "serve", "share", "topo"]  # fmt: skip


class Completion(Case):
    def complete(self, *words):
        return completed(ROOT / "apps/completion/penstock.bash", *words)

    def test_commands(self):
        self.assertEqual(sorted(word for word in self.complete("penstock", "") if word[0] != "-"), COMMANDS)
        self.assertEqual(self.complete("penstock", "rec"), ["receive"])
        self.assertEqual(self.complete("penstock", "request", ""), ["write", "read"])

    def test_options(self):
        self.assertIn("--json", self.complete("penstock", "run", "--"))
        self.assertIn("--resume", self.complete("penstock", "get", "--"))
        self.assertNotIn("--resume", self.complete("penstock", "run", "--"))

    def test_a_value_that_nothing_is_known_of(self):
        self.assertEqual(self.complete("penstock", "run", "config/loopback.yaml", "--duration", ""), [""])

    def test_plugin_names(self):
        self.assertIn("loopback", self.complete("penstock", "plugins", ""))

    def test_stream_names(self):
        self.assertEqual(
            self.complete("penstock", "run", "config/loopback.yaml", "--stream", ""), ["packets"]
        )

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def complete(line):
            environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", HOME=str(self.folder))
            script = f"source {ROOT}/apps/completion/penstock.fish; complete -C {shlex.quote(line)}"
            out = run("fish", "--no-config", "-c", script, cwd=ROOT, env=environment)
            self.assertEqual((out.returncode, out.stderr), (0, ""))
            return [word.split("\t")[0] for word in out.stdout.splitlines()]

        self.assertEqual(sorted(complete("penstock ")), COMMANDS)
        self.assertEqual(complete("penstock run --dur"), ["--duration"])
        self.assertEqual(complete("penstock run config/loopback.yaml --stream "), ["packets"])
        self.assertEqual(complete("penstock bench --transport loop"), ["loopback"])
        self.assertIn("config/loopback.yaml", complete("penstock run config/loopb"))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        """In a terminal: a line, then the tabulator."""
        functions = self.folder / "functions"
        functions.mkdir()
        shutil.copy(ROOT / "apps/completion/penstock.zsh", functions / "_penstock")
        environment = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", HOME=str(self.folder), TERM="dumb", PS1="")
        for line, whole in (("penstock rec", "penstock receive "),
                            ("penstock run --dur", "penstock run --duration="),
                            ("penstock plugins loop", "penstock plugins loopback "),
                            ("penstock bench --transport=loop", "penstock bench --transport=loopback "),
                            ("penstock run config/loopback.yaml --stream ", "--stream packets ")):  # fmt: skip
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(ROOT)
                os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
            try:
                self.said(terminal, f"PS1=; fpath=({functions} $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\n", "ready\r\n")
                self.said(terminal, line + "\t", whole)
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(terminal)

    def said(self, terminal, typed, words):
        """Types that, and reads until these words come."""
        os.write(terminal, typed.encode())
        text, until = "", time.monotonic() + 60
        while words not in text:
            self.assertTrue(select.select([terminal], [], [], max(0, until - time.monotonic()))[0], f"{typed!r}: {text!r}")
            text += os.read(terminal, 65536).decode(errors="replace")


if __name__ == "__main__":
    main()
