#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--metrics: what is served is what the result has, Prometheus reads it, and no client disturbs the run."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

from harness import FAKES, HANGS, ROOT, Case, Child, free_port, main, wait_until, yaml_stream

SECONDS = float(os.environ.get("PENSTOCK_METRICS_SECONDS", "4"))  # how long Prometheus scrapes
SAMPLE = re.compile(r'^([a-z_:]+)(?:\{(.*)\})? ([0-9.e+-]+)$')
FAULTS = "filters: [{plugin: fault, options: {drop_ppm: 20000, duplicate_ppm: 20000, reorder_ppm: 20000}}]"
EXPECT = "expect: {max_loss: 50%, max_duplicates: 1000000, max_reordered: 1000000}"


def fetch(port, path="/metrics", **options):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **options)
    with urllib.request.urlopen(request, timeout=HANGS) as answer:
        return answer.read().decode()


def samples(text):
    """{(name, labels): value}; each line is one of the format's."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
            found[name, tuple(sorted(pairs))] = float(value)
    return found


def value(found, name, **labels):
    wanted = set(labels.items())
    values = [each for (of, has), each in found.items() if of == name and wanted <= set(has)]
    assert len(values) == 1, (name, labels, values)
    return values[0]


class Metrics(Case):
    def lossy(self, name="packets", receiver="{}"):
        """A stream that loses, repeats and disorders messages."""
        return self.write(f"{name}.yaml", f"""penstock: 1
control: {{address: "127.0.0.1:{self.port}"}}
transport: {{plugin: loopback, {FAULTS}}}
streams:
  - {{name: {name}, message: 1462 B, timeout: 1 min, sender: {{rate: 50 Mbps}}, receiver: {receiver}, {EXPECT}}}
""")

    def serving(self, *arguments, **options):
        """A command with metrics at a free port, and that port."""
        port = free_port()
        child = self.start(*arguments, "--metrics", f"127.0.0.1:{port}", **options)
        child.wait_line(rf"metrics: http://127\.0\.0\.1:{port}/metrics")
        return child, port

    def last_page(self, child, port):
        """Returns the last page that is served when the run has ended, and awaits the program's end."""
        child.wait_line("waiting up to .* for the last values")
        text = fetch(port)
        self.assertEqual(child.wait(), 0, child)
        return text

    def assert_as_result(self, found, stream):
        """The counts of a stream, by any reader, are those of the result."""
        named = {"stream": stream["name"]}
        for name, key in (("sent_messages", "messages_sent"), ("delivered_messages", "messages_delivered"),
                          ("duplicate_messages", "duplicates"), ("reordered_messages", "reordered"),
                          ("verified_messages", "verified"), ("corrupted_messages", "corrupted"),
                          ("delivered_bytes", "bytes_delivered")):  # fmt: skip
            self.assertEqual(value(found, f"penstock_{name}_total", **named), stream[key], key)
        for cause, dropped in stream["dropped"].items():
            counted = value(found, "penstock_dropped_messages_total", cause=cause, **named)
            recovered = value(found, "penstock_recovered_messages_total", cause=cause, **named)
            self.assertEqual(counted - recovered, dropped, cause)
        for side in ("sender", "receiver"):
            self.assertEqual(value(found, "penstock_stream_state", side=side, state="ended", **named), 1)
            for stage, seconds in stream["blocked_seconds"].items():
                sides = [each for (of, has), each in found.items() if of == "penstock_blocked_seconds_total"
                         and {("stage", stage), ("stream", stream["name"])} <= set(has)]  # fmt: skip
                self.assertAlmostEqual(sum(sides), seconds, 5, stage)

    def test_counts(self):
        """Each count and stage of the last page is that of the result."""
        path = self.lossy(receiver="{intervals: true}")
        child, port = self.serving("run", path, "--set", "transport.plugin=udp", "--set", "transport.options.device=127.0.0.1", "--count", 3000, "--metrics-wait", "60",
                                 "--json", self.folder / "out.json")  # fmt: skip
        text = self.last_page(child, port)
        stream = self.only_stream(self.result())
        self.assertGreater(sum(stream["dropped"].values()), 0)
        self.assertGreater(stream["duplicates"], 0)
        found = samples(text)
        self.assert_as_result(found, stream)
        value(found, "penstock_dropped_messages_total", cause="wire", stream=stream["name"])
        self.assertEqual(value(found, "penstock_arrival_interval_seconds_count"), stream["intervals_ns"]["count"])
        self.assertAlmostEqual(value(found, "penstock_arrival_interval_seconds", quantile="0.99"),
                               stream["intervals_ns"]["p99"] / 1e9, 9)  # fmt: skip
        for side in ("sender", "receiver"):
            for name, count in stream[side]["counters"].items():
                if isinstance(count, int) and not name.endswith(("_ns", "_us", "_ms")):
                    counted = [each for (of, has), each in found.items() if ("side", side) in has
                               and of in (f"penstock_transport_{name}_total", f"penstock_transport_{name}")]  # fmt: skip
                    self.assertEqual(counted, [float(count)], name)

    def test_text(self):
        """Families are whole, each with help and type, by what Prometheus asks of names."""
        child, port = self.serving("run", self.lossy(), "--count", 10, "--metrics-wait", "60")
        text = self.last_page(child, port)
        seen, family = set(), None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                family = line.split()[2]
                self.assertNotIn(family, seen)
                seen.add(family)
            elif not line.startswith("#"):
                self.assertEqual(re.sub(r"_(sum|count)$", "", SAMPLE.match(line)[1]), family)
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            self.assertEqual((check.returncode, check.stdout + check.stderr), (0, ""))

    def test_refused(self):
        """Addresses that are none, or lie beyond this machine; a port that another program has."""
        path = self.lossy()
        for address, status, text in (("9400", 2, "is not ADDRESS:PORT"), ("a.example:1", 2, "is not ADDRESS:PORT"),
                                      ("::1:9400", 2, "is not ADDRESS:PORT"), ("0.0.0.0:0", 2, "--metrics-insecure"),
                                      ("[::]:0", 2, "--metrics-insecure"), ("192.0.2.1:9", 2, "--metrics-insecure"),
                                      ("[::ffff:192.0.2.1]:9", 2, "--metrics-insecure")):  # fmt: skip
            child = self.run_program("run", path, "--metrics", address, "--count", 1, expect=status)
            self.assertIn(text, child.stderr)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            child = self.run_program("run", path, "--metrics", address, "--count", 1, expect=3)
            self.assertIn("another program has the port", child.stderr)
        self.run_program("run", path, "--metrics", "0.0.0.0:0", "--metrics-insecure", "--count", 1)
        self.assertIn("needs --metrics", self.run_program("run", path, "--metrics-wait", 1, expect=2).stderr)

    def test_strangers(self):
        """Clients that say nothing, a byte at a time, nonsense or too much, and more of them than are
        let in: the run is as without them, and a reader gets its page."""
        child, port = self.serving("run", self.lossy(), "--json", self.folder / "out.json")
        with contextlib.ExitStack() as stack:
            for text in (b"", b"G", b"GET /metrics HTTP/1.1\r\nX: ", b"\0\xff\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a" * 65536):
                for _ in range(8):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", port), HANGS))
                    with contextlib.suppress(OSError):
                        client.sendall(text)
            self.assertIn("penstock_build_info", wait_until(lambda: answers(port, "/metrics"), HANGS, "a page"))
        for path, status in (("/", 404), ("/metrics/..", 404)):
            with self.assertRaises(urllib.error.HTTPError) as error:
                fetch(port, path)
            self.assertEqual(error.exception.code, status)
            error.exception.close()
        with self.assertRaises(urllib.error.HTTPError) as error:
            fetch(port, method="POST", data=b"x")
        self.assertEqual(error.exception.code, 405)
        error.exception.close()
        self.assertEqual(fetch(port, method="HEAD"), "")
        child.signal(signal.SIGINT)
        self.assertEqual(child.wait(), 0, child)
        self.assert_accounted(self.only_stream(self.result()))

    def test_wait_ends(self):
        """Nobody fetches: the time ends it."""
        began = time.monotonic()
        self.run_program("run", self.lossy(), "--count", 10, "--metrics", "127.0.0.1:0", "--metrics-wait", "300ms")
        self.assertLess(time.monotonic() - began, HANGS)

    def test_head_is_no_fetch(self):
        child, port = self.serving("run", self.lossy(), "--count", 10, "--metrics-wait", "60")
        child.wait_line("waiting up to .* for the last values")
        for _ in range(3):
            self.assertEqual(fetch(port, method="HEAD"), "")
        self.assertIn("penstock_build_info", fetch(port))
        self.assertEqual(child.wait(), 0, child)

    def test_signal_ends_the_wait(self):
        """The first signal ends a wait; after a run that a signal has ended, the last values still wait."""
        arguments = ("--metrics", "127.0.0.1:0", "--metrics-wait", HANGS * 3)
        child = self.start("run", self.lossy(), "--count", 10, *arguments)
        child.wait_line("waiting up to .* for the last values")
        child.signal(signal.SIGTERM)
        self.assertEqual(child.wait(HANGS), 0, child)
        child, port = self.serving("run", self.lossy(), "--metrics-wait", "60")
        wait_until(lambda: "penstock_sent" in (answers(port, "/metrics") or ""), HANGS, "a stream")
        child.signal(signal.SIGINT)
        self.last_page(child, port)

    def test_serve(self):
        """`serve` counts what clients ask for."""
        control = free_port()
        child, port = self.serving("serve", f"127.0.0.1:{control}", "--once", "--metrics-wait", "60",
                                 "--json", self.folder / "out.json")  # fmt: skip
        child.wait_line("listening on")
        self.run_program("request", f"write", f"127.0.0.1:{control}", "--count", 20)
        found = samples(self.last_page(child, port))
        served = self.result()["serve"]
        self.assertGreater(served["bytes_written"], 0)
        for name, key in (("joined_clients", "clients"), ("requests", "requests"), ("refused_requests", "refused"),
                          ("written_bytes", "bytes_written"), ("read_bytes", "bytes_read"),
                          ("read_files", "files_read"), ("written_files", "files_written")):  # fmt: skip
            self.assertEqual(value(found, f"penstock_serve_{name}_total"), served[key], key)


@contextlib.contextmanager
def prometheus(folder, ports):
    """A server that scrapes these ports every 2 s, with the alert rules; its port. It throws away a page that it has not read
    within the time-out, which cannot be longer than the interval; a run that has sent its last page ends."""
    port = free_port()
    targets = ", ".join(f'"127.0.0.1:{each}"' for each in ports)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 1s}\n"
        f"rule_files: [{ROOT / 'deploy/prometheus/rules.yaml'}]\n"
        f"scrape_configs: [{{job_name: penstock, static_configs: [{{targets: [{targets}]}}]}}]\n"
    )
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)  # fmt: skip
    try:
        wait_until(lambda: f'"{len(ports)}"' in (answers(port, "/api/v1/query?query=count(up)") or ""), HANGS,
                   "Prometheus scrapes")  # fmt: skip
        yield port
    finally:
        server.terminate()
        server.wait(HANGS)


def answers(port, path):
    with contextlib.suppress(OSError):
        return fetch(port, path)


def asked(port, query):
    """Returns Prometheus's samples: {labels: value}."""
    text = fetch(port, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
    found = {}
    for each in json.loads(text)["data"]["result"]:
        labels = {key: text for key, text in each["metric"].items() if key not in ("__name__", "job", "instance")}
        found[each["metric"].get("__name__", query), tuple(sorted(labels.items()))] = float(each["value"][1])
    return found


class Prometheus(Metrics):
    """A real Prometheus."""

    # Keeps only the helpers of the class before.
    for _name in [name for name in vars(Metrics) if name.startswith("test_")]:
        locals()[_name] = None
    del _name

    def setUp(self):
        super().setUp()
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is not installed")

    def test_two_runs(self):
        """Prometheus scrapes two runs for some seconds: its values of each are those of the results."""
        names = ("first", "second")
        ports = [free_port(), free_port()]
        folder = self.folder / "prometheus"
        folder.mkdir()
        with prometheus(folder, ports) as server:
            runs = []
            for name, port in zip(names, ports):
                self.port = free_port()
                runs.append(self.start("run", self.lossy(name), "--duration", SECONDS, "--metrics", f"127.0.0.1:{port}",
                                       "--metrics-wait", "60", "--json", self.folder / f"{name}.json"))  # fmt: skip
            for child in runs:
                self.assertEqual(child.wait(SECONDS + 60), 0, child)
            for name in names:
                stream = self.only_stream(self.result(f"{name}.json"))
                query = f'{{__name__=~"penstock_.*",stream="{name}"}}'
                sent = ("penstock_sent_messages_total", (("stream", name),))
                wait_until(lambda: self.has(server, query, sent) == stream["messages_sent"], HANGS, f"the end of {name}")
                self.assert_as_result(asked(server, query), stream)
                self.assertGreater(asked(server, f'count_over_time(penstock_sent_messages_total{{stream="{name}"}}[10m])')
                                   .popitem()[1], SECONDS / 4)  # fmt: skip
            rules = json.loads(fetch(server, "/api/v1/rules"))["data"]["groups"]
            self.assertGreater(len(rules[0]["rules"]), 3)
            for group in rules:
                for rule in group["rules"]:
                    self.assertIn(rule["health"], ("ok", "unknown"), rule)

    def has(self, server, query, key):
        with contextlib.suppress(OSError):
            return asked(server, query).get(key)


class Files(Case):
    """deploy/grafana and deploy/prometheus."""

    def names(self):
        """All that a run, one with frames, and a server have."""
        found = set()
        path = self.write("frames.yaml", f"""penstock: 1
control: {{address: "127.0.0.1:{self.port}"}}
transport: {{plugin: udp, options: {{device: 127.0.0.1}}, {FAULTS}}}
streams:
  - {{name: packets, message: 1200 B, timeout: 1 min, sender: {{rate: 50 Mbps}}, {EXPECT},
     receiver: {{intervals: true, assemble: {{by: sequence, packets: 4, timeout: 20 ms, missing: zero}}}}}}
""")
        text = self.once("run", path, "--count", 4000)
        text += self.once("serve", f"127.0.0.1:{free_port()}", stop=True)
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                found |= {name, name + "_sum", name + "_count"} if kind == "summary" else {name}
        return found

    def once(self, *arguments, stop=False):
        port = free_port()
        child = self.start(*arguments, "--metrics", f"127.0.0.1:{port}", "--metrics-wait", "60")
        if stop:
            child.wait_line("listening on")
            child.signal(signal.SIGTERM)
        child.wait_line("waiting up to")
        text = fetch(port)
        child.wait()
        return text

    def test_names(self):
        """The dashboard, the rules and the page name no metric that there is not."""
        there = self.names()
        for path in ("deploy/grafana/penstock.json", "deploy/prometheus/rules.yaml", "docs/operations/monitoring.md"):
            named = set(re.findall(r"\bpenstock_[a-z_]+\b(?!\.)", (ROOT / path).read_text()))
            self.assertGreater(len(named), 5, path)
            self.assertEqual(named - there, set(), path)

    def test_dashboard(self):
        board = json.loads((ROOT / "deploy/grafana/penstock.json").read_text())
        panels = [panel for panel in board["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 6)
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in panels:
            self.assertTrue(panel["title"] and panel["targets"], panel)

    def test_rules(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed")
        check = subprocess.run(["promtool", "check", "rules", ROOT / "deploy/prometheus/rules.yaml"],
                               capture_output=True, text=True)  # fmt: skip
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        test = subprocess.run(["promtool", "test", "rules", ROOT / "tests/e2e/rules_test.yaml"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(test.returncode, 0, test.stdout + test.stderr)


if __name__ == "__main__":
    main()
