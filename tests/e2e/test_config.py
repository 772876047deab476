#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configurations that the program refuses, in which words and with which status; check and plugins."""
import os
import pathlib
import re
import signal
import socket
import unittest

from harness import Case, ROOT, SANITIZED, main, yaml_stream

GOOD = """\
penstock: 1
control: {address: "127.0.0.1:18515"}
transport: {plugin: loopback}
streams:
  - name: packets
    message: 1462 B
    ring: 64
    sender:
      memory: {plugin: host}
      source: {type: pattern}
      count: 10
    receiver:
      memory: {plugin: host}
      sink: {type: verify}
"""


class Refusals(Case):
    def refused(self, old, new, line, *words, status=2, command="check"):
        """GOOD with old replaced by new is refused at that line, in those words."""
        self.assertIn(old, GOOD)
        path = self.write("bad.yaml", GOOD.replace(old, new, 1))
        for program in (command, "run"):
            child = self.run_program(program, path, expect=status)
            place = rf"{re.escape(str(path))}:{line}:\d+: "
            self.assertRegex(child.stderr, place, str(child))
            for word in words:
                self.assertIn(word, child.stderr)
            self.assertNotIn("Got", child.stderr, "something was started")

    def test_good_is_good(self):
        self.run_program("check", self.write("good.yaml", GOOD))

    def test_unknown_key(self):
        self.refused("    ring: 64", "    rign: 64", 7, "rign", "ring")

    def test_unknown_nested_key(self):
        self.refused("      count: 10", "      cuont: 10", 11, "cuont", "count")

    def test_unknown_top_key(self):
        self.refused("streams:", "stream:", 4, "stream", "streams")

    def test_duplicate_key(self):
        self.refused("    ring: 64", "    ring: 64\n    ring: 32", 8, "ring")

    def test_wrong_type(self):
        self.refused("    ring: 64", "    ring: [64]", 7, "ring")
        self.refused("    ring: 64", "    ring: many", 7, "many")

    def test_wrong_unit(self):
        self.refused("message: 1462 B", "message: 1462 parsecs", 6, "1462 parsecs")

    def test_out_of_range(self):
        self.refused("    ring: 64", "    ring: 1", 7, "ring", "2")
        self.refused("    ring: 64", "    ring: 99999999999", 7, "16777216")

    def test_unknown_transport(self):
        self.refused("plugin: loopback", "plugin: lopback", 3, "lopback", "loopback")

    def test_unknown_memory(self):
        self.refused("memory: {plugin: host}", "memory: {plugin: hots}", 9, "hots", "host")

    def test_unknown_plugin_option(self):
        self.refused(
            "plugin: loopback", "plugin: loopback, options: {moed: copy}", 3, "moed", "mode"
        )

    def test_wrong_choice_of_an_option(self):
        self.refused(
            "plugin: loopback", "plugin: loopback, options: {mode: coyp}", 3, "coyp", "copy"
        )

    def test_unknown_source_type(self):
        self.refused("type: pattern", "type: patern", 10, "patern", "pattern")

    def test_version(self):
        self.refused("penstock: 1", "penstock: 2", 1, "2")

    def test_syntax(self):
        self.refused("sink: {type: verify}", "sink: {type: verify", 15)

    def test_every_finding_is_reported(self):
        text = GOOD.replace("ring: 64", "rign: 64").replace("count: 10", "cuont: 10")
        child = self.run_program("check", self.write("bad.yaml", text), expect=2)
        self.assertIn("rign", child.stderr)
        self.assertIn("cuont", child.stderr)

    def test_unknown_numa_node(self):
        path = self.write(
            "bad.yaml", GOOD.replace("{plugin: host}", "{plugin: host, options: {numa_node: 97}}")
        )
        child = self.run_program("run", path, expect=None)
        self.assertIn(child.status, (2, 3), str(child))
        self.assertIn("97", child.stderr)

    def test_unavailable_huge_pages_say_the_remedy(self):
        free = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages")
        if free.exists() and int(free.read_text()) > 0:
            self.skipTest("this machine has 1 GiB pages free")
        path = self.write(
            "huge.yaml",
            GOOD.replace("{plugin: host}", "{plugin: host, options: {backing: huge_1g}}"),
        )
        child = self.run_program("run", path, expect=3)
        self.assertRegex(child.stderr, "(?i)huge|1 GiB")

    def test_set_is_checked_too(self):
        path = self.write("good.yaml", GOOD)
        child = self.run_program("check", path, "--set", "streams.packets.rign=4", expect=2)
        self.assertIn("rign", child.stderr)
        self.assertIn("ring", child.stderr)
        child = self.run_program("check", path, "--set", "streams.packets.ring=1", expect=2)
        self.assertIn("--set", child.stderr)

    def test_missing_file(self):
        child = self.run_program("run", self.folder / "absent.yaml", expect=2)
        self.assertIn("absent.yaml", child.stderr)

    def test_unknown_stream(self):
        path = self.write("good.yaml", GOOD)
        child = self.run_program("run", path, "--stream", "packet", expect=2)
        self.assertIn("packets", child.stderr)

    def test_beyond_loopback_needs_insecure(self):
        path = self.write("open.yaml", GOOD.replace("127.0.0.1", "0.0.0.0"))
        child = self.run_program("receive", path, expect=2)
        self.assertIn("insecure: true", child.stderr)

    def test_insecure_is_repeated_in_the_banner(self):
        text = GOOD.replace(
            '{address: "127.0.0.1:18515"}', f'{{address: "0.0.0.0:{self.port}", insecure: true}}'
        )
        child = self.start("receive", self.write("open.yaml", text))
        child.wait_line("waiting at")
        self.assertEqual(len(re.findall("insecure", child.stderr)), 1, str(child))
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 1, str(child))
        self.assertIn("error: stream 'packets': stopped before the sender had connected", child.stderr)

    def test_both_ends_must_agree(self):
        base = {"sender": "{count: 10}", "ring": 64}
        one = self.config(yaml_stream(message="8192 B", **base), name="one.yaml")
        two = self.config(yaml_stream(message="4096 B", **base), name="two.yaml")
        receiver, sender = self.start("receive", two), self.start("send", one)
        self.assertEqual((sender.wait(20), receiver.wait(20)), (1, 1), f"{sender}\n{receiver}")
        for child in (sender, receiver):
            self.assertRegex(child.stderr, r"message: sender 8(192 B| KiB), receiver 4(096 B| KiB)")

    def test_the_remedy_of_a_peer_that_does_not_come_is_a_key(self):
        path = self.config(yaml_stream())
        for command in ("receive", "send"):
            with self.subTest(command=command):
                child = self.run_program(
                    command, path, "--set", "control.timeout=50 ms", expect=1
                )
                remedy = re.search(r"raise (\S+)", child.stderr)
                self.assertIsNotNone(remedy, str(child))
                self.run_program("check", path, "--set", f"{remedy[1]}=90 s")

    def test_what_never_connected_has_one_message(self):
        """Its account, its expectations and its verdict would bury the cause."""
        expects = {"expect": "{verified: true, min_messages: 1}"}
        path = self.config(yaml_stream(**expects))
        for command in ("receive", "send"):
            with self.subTest(command=command):
                result, child = self.run_json(
                    command, path, "--set", "control.timeout=50 ms", expect=1
                )
                self.assertEqual(len(re.findall("error: ", child.stderr)), 1, str(child))
                self.assertNotRegex(child.stderr, "warning|sent|expect |limited by")
                stream = self.only_stream(result)
                self.assertEqual([each["met"] for each in stream["expect"]], [None, None])

    def test_memory_that_is_not_there_has_one_message(self):
        path = self.config(yaml_stream(message="1 GiB", ring=4194304, sender="{count: 10}"))
        child = self.run_program("run", path, expect=3)
        self.assertRegex(child.stderr, r"cannot allocate 4096 TiB of host memory: .* available: lower `ring` or `message`")
        self.assertEqual(child.stderr.count("error:"), 1, child.stderr)

    def test_memory_for_frames_names_what_sizes_them(self):
        frames = "assemble: {by: sequence, packets: 1048576, frames: 128}"
        path = self.config(yaml_stream(message="1 MiB", sender="{count: 10}", receiver=f"{{{frames}}}"))
        child = self.run_program("run", path, expect=3)
        self.assertRegex(child.stderr, r"frames: cannot allocate .*: lower `assemble\.packets`, `assemble\.frames` or `message`")
        self.assertEqual(child.stderr.count("error:"), 1, child.stderr)

    @unittest.skipIf(SANITIZED, "sanitizers have terabytes of addresses")
    def test_memory_beyond_a_limit_of_the_shell_names_that(self):
        path = self.config(yaml_stream(message="1 MiB", ring=4096, sender="{count: 10}"))
        child = self.run_program("run", path, expect=3, prefix=("prlimit", f"--as={2 << 30}"))
        self.assertRegex(child.stderr, r"`ulimit -v` leaves .*: lower `ring` or `message`, or raise that limit")

    def test_two_families_of_addresses_are_one_error_an_end(self):
        transport = "{plugin: udp, options: {device: any, family: %s}}"
        ends = {"sender": "{count: 10, transport: %s}" % transport % "ipv6",
                "receiver": "{transport: %s}" % transport % "ipv4"}  # fmt: skip
        path = self.config(yaml_stream(**ends, message="1 KiB", expect="{max_loss: 1}"))
        receiver = self.start("receive", path)
        receiver.wait_line("waiting")
        sender = self.run_program("send", path, expect=1)
        self.assertEqual(receiver.wait(30), 1, str(receiver))
        for child in (sender, receiver):
            self.assertEqual(child.stderr.count("one end is on IPv4, the other on IPv6; set `family`"), 1, str(child))
            self.assertEqual(child.stderr.count("error:"), 1, str(child))

    def test_a_cpu_that_is_not_here(self):
        path = self.config(yaml_stream(sender="{count: 10}"), top="threads: {cpus: [999]}\n")
        result, child = self.run_json("run", path, expect=3)
        self.assertRegex(child.stderr, r"error: threads\.cpus: thread 0 cannot run on CPU 999: ")
        self.assertIs(result["ok"], False)

    def test_port_in_use(self):
        path = self.config(yaml_stream(message="64 B", sender="{count: 10}"))
        first = self.start("receive", path)
        first.wait_line("(?i)wait|listen")
        second = self.run_program("receive", path, expect=None)
        self.assertNotEqual(second.status, 0)
        self.assertIn(str(self.port), second.stderr)


class Usage(Case):
    def test_help(self):
        child = self.run_program("--help")
        for command in ("run", "send", "receive", "check", "plugins"):
            self.assertIn(command, child.stdout)
            self.assertGreater(len(self.run_program(command, "--help").stdout.splitlines()), 5)

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"\d+\.\d+\.\d+")

    def test_unknown_command(self):
        child = self.run_program("recieve", expect=2)
        self.assertIn("receive", child.stderr)

    def test_unknown_option(self):
        child = self.run_program("run", "config/loopback.yaml", "--jsno", "-", expect=2)
        self.assertIn("--json", child.stderr)

    def test_missing_and_wrong_arguments(self):
        for arguments in (
            ("run",),
            ("run", "config/loopback.yaml", "--duration"),
            ("run", "config/loopback.yaml", "--duration", "soon"),
            ("run", "config/loopback.yaml", "--count", "-1"),
            ("run", "config/loopback.yaml", "--set", "nonsense"),
            ("run", "config/loopback.yaml", "another.yaml"),
            (),
        ):
            with self.subTest(arguments=arguments):
                child = self.run_program(*arguments, expect=2)
                self.assertTrue(child.stderr)


class Check(Case):
    def test_every_example(self):
        examples = sorted((ROOT / "config").glob("*.yaml"))
        self.assertGreater(len(examples), 2)
        for path in examples:
            with self.subTest(file=path.name):
                child = self.run_program("check", path)
                self.assertIn("penstock: 1", child.stdout)
                self.assertIn("# default", child.stdout)

    def test_the_readme_example_runs(self):
        text = (ROOT / "README.md").read_text()
        (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        self.assertEqual(len(example.splitlines()), 10)
        path = self.write("stream.yaml", example)
        self.run_program("check", path)
        self.run_program("run", path, "--count", "1000")

    def test_every_plugin_is_in_the_readme(self):
        table = (ROOT / "README.md").read_text().split("## Plugins")[1].split("##")[0]
        for folder in ("transports", "memory"):
            for path in sorted((ROOT / folder).iterdir()):
                if (path / "options.c").is_file():
                    self.assertIn(f"({folder}/{path.name}/README.md)", table)

    def test_effective_configuration_is_itself_valid_and_the_same(self):
        first = self.run_program("check", "config/loopback.yaml").stdout
        path = self.write("effective.yaml", first)
        second = self.run_program("check", path).stdout

        def values(text):
            return [line.split(" #")[0].rstrip() for line in text.splitlines()]

        self.assertEqual(values(first), values(second))

    def test_origins(self):
        child = self.run_program(
            "check", "config/loopback.yaml", "--set", "streams.packets.ring=4096"
        )
        self.assertRegex(child.stdout, r"ring: 4096 +#.*--set")
        self.assertRegex(child.stdout, r"message: .*#.*loopback.yaml:\d+")


class CheckFor(Case):
    """Configurations that one command refuses, and another does not."""

    def place(self, path):
        return rf"{re.escape(str(path))}:\d+:\d+: "

    def test_a_source_that_is_missing_is_the_senders(self):
        path = self.write("files.yaml", GOOD.replace("{type: pattern}", "{type: file, file: nowhere}")
                          .replace("{type: verify}", "discard"))
        for command in ("run", "send"):
            child = self.run_program("check", path, "--for", command, expect=2)
            self.assertRegex(child.stderr, self.place(path) + ".*cannot open source file nowhere.*; name an existing file")
        child = self.run_program("run", path, expect=2)
        self.assertRegex(child.stderr, self.place(path) + ".*cannot open source file nowhere")
        self.run_program("check", path, "--for", "receive")
        child = self.run_program("check", path)
        self.assertRegex(child.stderr, "note: `penstock send` would refuse it: " + self.place(path))

    def test_a_sink_that_cannot_be_is_the_receivers(self):
        path = self.write("files.yaml", GOOD.replace("{type: verify}", "{type: file, file: none/out}"))
        child = self.run_program("check", path, "--for", "receive", expect=2)
        self.assertRegex(child.stderr, self.place(path) + ".*cannot create none/out")
        self.run_program("check", path, "--for", "send")

    def test_it_leaves_no_file_behind(self):
        path = self.write("files.yaml", GOOD.replace("{type: verify}", "{type: file, file: out}"))
        before = sorted(self.folder.rglob("*"))
        self.run_program("check", path, "--for", "receive", cwd=self.folder)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_a_foreign_peer_is_for_one_end(self):
        text = GOOD.replace('control: {address: "127.0.0.1:18515"}', "control: none")
        path = self.write("foreign.yaml", text.replace("loopback", "udp").replace("{type: verify}", "discard"))
        child = self.run_program("check", path, "--for", "run", expect=2)
        self.assertRegex(child.stderr, self.place(path) + "`control: none` is for one end, whose peer")
        child = self.run_program("check", path, "--for", "send", expect=2)
        self.assertRegex(child.stderr, self.place(path) + "udp: to: .*needs a destination")
        child = self.run_program("send", path, expect=2)
        self.assertRegex(child.stderr, self.place(path) + "udp: to: .*needs a destination")
        self.run_program("check", path, "--for", "receive")
        self.run_program("check", path, "--set", "transport.options.to=127.0.0.1:5004", "--for", "send")

    def test_what_two_processes_cannot_share(self):
        malloc = GOOD.replace("memory: {plugin: host}\n      sink", "memory: {plugin: host, options: {backing: malloc}}\n      sink")
        reference = GOOD.replace("{plugin: loopback}", "{plugin: loopback, options: {mode: reference}}")
        for text, words in ((malloc, "a file descriptor can share, which memory host with these options is not"),
                            (reference, "loopback: mode: reference works within one process only")):  # fmt: skip
            path = self.write("apart.yaml", text)
            self.run_program("check", path, "--for", "run")
            for command in (("check", "--for", "receive"), ("receive",)):
                child = self.run_program(*command, path, expect=2)
                self.assertRegex(child.stderr, self.place(path) + ".*" + words)

    def test_what_cannot_be_read_twice(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for file in (fifo, "/dev/null"):
            source = f"{{type: file, file: {file}, loop: true}}"
            path = self.write("loop.yaml", GOOD.replace("{type: pattern}", source).replace("{type: verify}", "discard"))
            for command in (("check", "--for", "run"), ("run",)):
                child = self.run_program(*command, path, expect=2)
                self.assertRegex(child.stderr, self.place(path) + ".*cannot be read twice")

    def test_a_socket_is_no_file(self):
        file = self.folder / "socket"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(file))
        for old, new in (("{type: pattern}", f"{{type: file, file: {file}}}"), ("{type: verify}", f"{{type: file, file: {file}}}")):
            path = self.write("socket.yaml", GOOD.replace(old, new).replace("{type: verify}", "discard"))
            for command in (("check", "--for", "run"), ("run",)):
                child = self.run_program(*command, path, expect=2)
                self.assertRegex(child.stderr, self.place(path) + ".* it is a socket; name a file")

    def test_no_terminal_is_no_fault_of_the_file(self):
        for old, side in (("{type: pattern}", "source"), ("{type: verify}", "sink")):
            path = self.write("tty.yaml", GOOD.replace(old, "{type: file, file: /dev/tty}").replace("{type: verify}", "discard"))
            self.run_program("check", path, "--for", "run", prefix=["setsid", "-w"])
            child = self.run_program("run", path, prefix=["setsid", "-w"], expect=3)
            self.assertRegex(child.stderr, f"{side}.* /dev/tty: No such device or address; ")

    def test_a_capture_is_read_twice(self):
        os.mkfifo(self.folder / "fifo")
        text = GOOD.replace("{type: pattern}", "{type: pcap, file: fifo}").replace("{type: verify}", "discard")
        path = self.write("fifo.yaml", text)
        for command in (("check", "--for", "send"), ("run",)):
            child = self.run_program(*command, path, cwd=self.folder, expect=2)
            self.assertRegex(child.stderr, self.place(path) + ".* fifo is not a regular file, and a capture is read")

    def test_what_no_command_takes_is_refused(self):
        text = GOOD.replace("{type: pattern}", "{type: file, file: nowhere}")
        path = self.write("files.yaml", text.replace("{type: verify}", "{type: file, file: none/out}"))
        self.run_program("check", path, expect=2)

    def two(self, first, second, sources=("pattern", "pattern"), name="two.yaml"):
        streams = [yaml_stream(n, message="1000", sender=f"{{count: 3, source: {source}}}",
                               receiver=f"{{sink: {sink}}}")
                   for n, source, sink in zip("pq", sources, (first, second))]  # fmt: skip
        return self.write(name, "penstock: 1\ntransport: loopback\nstreams:\n" + "".join(streams))

    def test_a_file_has_one_sink(self):
        (self.folder / "there").write_bytes(b"kept")
        os.link(self.folder / "there", self.folder / "hard")
        file = lambda name: f"{{type: file, file: {name}, overwrite: true}}"
        for one, other in (("out", "./out"), ("there", "hard")):
            path = self.two(file(one), file(other))
            for command in ("run", "receive", "check"):
                child = self.run_program(command, path, cwd=self.folder, expect=2)
                words = rf"stream 'q': sink.file {other} is the sink of stream 'p', too \({self.place(path)[:-2]}\)"
                self.assertRegex(child.stderr, self.place(path) + words)
                self.assertEqual(child.stderr.count("error:"), 1, str(child))
            self.run_program("check", path, "--stream", "q", cwd=self.folder)
        self.assertEqual((self.folder / "there").read_bytes(), b"kept")
        self.run_program("run", self.two(file("/dev/null"), file("/dev/null")))

    def test_a_source_that_another_stream_writes_is_one_error(self):
        path = self.two("{type: file, file: made}", "discard", ("pattern", "{type: file, file: ./made}"))
        child = self.run_program("run", path, cwd=self.folder, expect=2)
        self.assertRegex(child.stderr, self.place(path) + "stream 'p': .* is the source of stream 'q', too")
        self.assertEqual(child.stderr.count("error:"), 1, str(child))

    def test_an_empty_file_is_one_error_beside_set(self):
        path = self.write("empty.yaml", "")
        for command in ("check", "run"):
            child = self.run_program(command, path, "--set", "control.timeout=1s", expect=2)
            self.assertRegex(child.stderr, rf"error: {path}:1:1: nothing is configured")
            self.assertEqual(child.stderr.count("error:"), 1, str(child))

    def test_no_hosts_address_is_one_error(self):
        path = self.write("any.yaml", "penstock: 1\ncontrol: {address: '127.0.0.1:1'}\n"
                          "transport: {plugin: udp, options: {device: 0.0.0.0}}\nstreams:\n"
                          "- {name: p, message: 1 KiB, ring: 8, sender: {source: pattern}, receiver: {sink: verify}}\n")
        child = self.run_program("check", path, expect=2)
        self.assertEqual(child.stderr.count("error:"), 1, str(child))

    def test_a_sink_replaces_no_source_and_no_configuration(self):
        (self.folder / "in").write_bytes(b"kept")
        sink = "{type: file, file: in, overwrite: true}"
        path = self.two(sink, "discard", ("pattern", "{type: file, file: ./in}"))
        for command in (("check", "--for", "run"), ("run",)):
            child = self.run_program(*command, path, cwd=self.folder, expect=2)
            self.assertRegex(child.stderr, self.place(path) + "stream 'p': .* is the source of stream 'q', too")
        self.assertEqual((self.folder / "in").read_bytes(), b"kept")
        self.run_program("check", path, "--for", "receive", cwd=self.folder)
        path = self.two("discard", "{type: file, file: two.yaml, overwrite: true}")
        before = path.read_text()
        for command in ("check", "run"):
            child = self.run_program(command, path, cwd=self.folder, expect=2)
            self.assertRegex(child.stderr, self.place(path) + "stream 'q': .* is this configuration")
        self.assertEqual(path.read_text(), before)

    def test_both_ends_are_of_one_family(self):
        for sender, receiver, option in (("device: 127.0.0.1", "device: '::1'", "device"),
                                         ("family: ipv6", "port: 0", "family"),
                                         ("device: '::1'", "port: 0", "device"),
                                         ("to: '[::1]:5004'", "port: 0", "to")):
            ends = f"sender: {{transport: {{options: {{{sender}}}}}}}, receiver: {{transport: {{options: {{{receiver}}}}}}}"
            path = self.write("v6.yaml", "penstock: 1\ntransport: udp\nstreams:\n"
                              f"- {{name: p, message: 1000, {ends}}}\n")
            for command in (("check", "--for", "run"), ("run",)):
                child = self.run_program(*command, path, expect=2)
                self.assertRegex(child.stderr, rf"v6\.yaml:\d+:\d+: udp: {option}: the sender uses IPv\d, the receiver IPv\d")
                self.assertEqual(child.stderr.count("penstock: error: "), 1, str(child))
            self.run_program("check", path, "--for", "send")

    def test_a_process_has_a_port_once(self):
        port = lambda side, n, more="": f"{side}: {{transport: {{options: {{{n}: 28955{more}}}}}}}"
        receiver, sender = port("receiver", "port"), port("sender", "source_port")
        at = lambda address: port("receiver", "port", f", device: '{address}'")
        group = lambda g: port("receiver", "port", f", group: {g}")
        cases = [  # of both streams, and whether they go together
            (receiver, receiver, False), (sender, sender, False), (receiver, sender, False),
            (at("any"), at("127.0.0.2"), False), (at("127.0.0.2"), at("any"), False),
            (at("127.0.0.2"), at("127.0.0.3"), True),
            (at("127.0.0.2"), at("::1") + f", sender: {{transport: {{options: {{family: ipv6}}}}}}", True),
            (at("lo"), at("lo"), False), (group("239.1.2.3"), group("239.1.2.3"), True),
            (group("239.1.2.3"), group("239.1.2.4"), True), (group("239.1.2.3"), at("any"), False),
        ]  # fmt: skip
        for one, other, good in cases:
            streams = "".join(f"- {{name: {n}, message: 1000, {ends}}}\n" for n, ends in zip("pq", (one, other)))
            path = self.write("ports.yaml", "penstock: 1\ntransport: udp\nstreams:\n" + streams)
            child = self.run_program("check", path, "--for", "run", expect=0 if good else 2)
            if not good:
                self.assertRegex(child.stderr, rf"yaml:5:\d+: udp: \w+: the \w+ of stream \"p\" uses UDP port 28955 .*yaml:4:\d+\)")
            self.run_program("check", path, "--stream", "q", "--for", "run")
        path = self.write("ports.yaml", "penstock: 1\ntransport: {plugin: udp, options: {port: 28955}}\n"
                          "streams:\n- {name: p, message: 9}\n- {name: q, message: 9}\n")  # fmt: skip
        for command in (("check",), ("run",), ("receive",)):
            self.run_program(*command, path, expect=2)
        self.run_program("check", path, "--for", "send")

    def test_addresses_of_no_host_and_of_another(self):
        udp = ROOT / "config" / "udp.yaml"
        for key, value, words in (
            ("receiver.transport.options.source", "239.1.2.3", "source: a multicast address is not an address of a host"),
            ("receiver.transport.options.source", "0.0.0.0", "source: 0.0.0.0 and :: are not addresses of a host"),
            ("transport.options.device", "239.1.2.3", "device: a multicast address is not an address of a host"),
            ("transport.options.device", "'::'", "device: 0.0.0.0 and :: are not addresses of a host"),
            ("sender.transport.options.to", "127.0.0.9", "to: the receiver listens on 127.0.0.1 only"),
        ):
            for command in (("check", "--for", "run"), ("run",)):
                child = self.run_program(*command, udp, "--set", f"streams.packets.{key}={value}", expect=2)
                self.assertRegex(child.stderr, f"--set streams.packets.{key}=.*: {re.escape(words)}")
        self.run_program("check", udp, "--for", "send", "--set", "streams.packets.sender.transport.options.to=127.0.0.9")
        both = ["sender.transport.options.to=127.0.0.9", "receiver.transport.options.device=127.0.0.9"]
        self.run_program("check", udp, "--for", "run", *(w for s in both for w in ("--set", f"streams.packets.{s}")))

    def test_what_names_no_gpu(self):
        """By any driver, or without one; whether one of that name is here is the run's to find."""
        key = "streams.packets.receiver.memory.options.device"
        check = lambda name, expect: self.run_program(
            "check", ROOT / "config" / "loopback-cuda.yaml", "--set", f"{key}={name}", expect=expect)
        for name in ("eth0", "-1", "zz", "GPU-xyz", "MIG-5f2a"):
            child = check(name, 2)
            self.assertRegex(child.stderr, f'--set {key}={name}: memory plugin cuda: device: "{name}" is .*nvidia-smi -L')
        for name in ("7", "GPU-5f2a", "b7:00.0"):
            check(name, 0)

    def test_unknown_command(self):
        child = self.run_program("check", self.write("good.yaml", GOOD), "--for", "bench", expect=2)
        self.assertIn("not one of run, send, receive", child.stderr)


class Plugins(Case):
    def test_all(self):
        text = self.run_program("plugins").stdout
        for name in ("loopback", "host"):
            self.assertIn(name, text)

    def test_one_with_its_options(self):
        text = self.run_program("plugins", "loopback").stdout
        self.assertIn("mode", text)
        self.assertIn("copy", text)

    def test_one_with_rules_between_its_options(self):
        text = self.run_program("plugins", "verbs_rc").stdout
        rules = re.search(r"^rules:\n((?:  .*\n)+)", text, re.M)
        self.assertTrue(rules, text)
        self.assertRegex(rules[1], r"(?m)^  `qps` other than `1` needs `operation: write`$")
        self.assertNotIn("rules:", self.run_program("plugins", "loopback").stdout)

    def test_unknown_name(self):
        child = self.run_program("plugins", "lopback", expect=2)
        self.assertIn("loopback", child.stderr)

    def test_rejected_candidates_have_a_reason(self):
        (self.folder / "transport-broken.so").write_text("not a library")
        child = self.run_program("plugins", "--plugin-path", self.folder)
        self.assertRegex(child.stdout + child.stderr, r"transport-broken\.so.*ELF")

    def test_missing_plugin_says_where_it_looked(self):
        path = self.write("bad.yaml", GOOD.replace("plugin: loopback", "plugin: warp"))
        child = self.run_program("run", path, "--plugin-path", self.folder, expect=2)
        self.assertIn("warp", child.stderr)
        self.assertIn(str(self.folder), child.stderr)


if __name__ == "__main__":
    main()
