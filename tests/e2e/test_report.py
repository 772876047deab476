#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`penstock report`: a page of results, whoever wrote them; and `bench --csv`."""
import csv
import html.parser
import json
import os
import re
import shutil
import subprocess

from harness import Case, main

EVIL = "</title></svg><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>\"'&\x1b[31m\u202e"
VOID = {"meta", "br", "img", "link", "input", "!doctype", "th", "td", "li"}


class Page(html.parser.HTMLParser):
    """Parses a page: elements that are balanced, their attributes, the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attributes]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def everywhere(value, text):
    """The result with this text in the place of each text and name of a cause."""
    if isinstance(value, dict):
        return {(text if key == "wire" else key): everywhere(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [everywhere(each, text) for each in value]
    return text if isinstance(value, str) else value


class Report(Case):
    def run_result(self, name, *arguments):
        """A result with loss, of which something can be plotted."""
        path = self.write("lossy.yaml", f"""penstock: 1
control: {{address: "127.0.0.1:{self.port}"}}
transport: {{plugin: udp, options: {{device: 127.0.0.1}},
  filters: [{{plugin: fault, options: {{drop_ppm: 20000}}}}]}}
streams:
  - {{name: packets, message: 1400 B, timeout: 1 min, sender: {{rate: 50 Mbps}}, receiver: {{intervals: true}},
     expect: {{max_loss: 50%}}}}
""")
        self.run_program("run", path, "--duration", "2.5", "--series", "--json", self.folder / name, *arguments)
        return self.result(name)

    def page(self, *results, expect=0):
        out = self.folder / "report.html"
        child = self.run_program("report", *(self.folder / name for name in results), "-o", out, expect=expect)
        return out.read_text() if expect == 0 else child

    def assert_closed(self, text):
        """Nothing in the page makes a request, and its policy forbids all."""
        page = Page(text)
        self.assertIn("default-src 'none'", text)
        self.assertEqual({"script", "link", "iframe", "img", "object", "embed", "form", "a", "base", "image", "use"}
                         & set(page.tags), set())  # fmt: skip
        for tag, name, value in page.attributes:
            self.assertFalse(name.startswith("on") or name in ("href", "src", "style", "xlink:href"), (tag, name))
        style = text[text.index("<style>") : text.index("</style>")]
        self.assertNotRegex(style, r"url\(|@import|://")
        return page

    def test_runs(self):
        """Two runs side by side: their counts in the table, and all plots."""
        results = [self.run_result("a.json"), self.run_result("b.json")]
        text = self.page("a.json", "b.json")
        page = self.assert_closed(text)
        for result, name in zip(results, ("a.json", "b.json")):
            stream = self.only_stream(result)
            self.assertIn(f"packets, {name}", page.text)
            self.assertIn(str(stream["messages_delivered"]), page.text)
            self.assertIn(f"{stream['gbps']:.3f}", page.text)
        for title in ("Rate over time", "Loss over time", "Lost messages by cause", "Where the sender waited",
                      "Where the receiver waited", "Time between arrivals"):  # fmt: skip
            self.assertIn(title, page.text)
        self.assertIn("Gbit/s", page.text)
        self.assertGreaterEqual(text.count("<svg"), 6)
        for number in re.findall(r'(?:x|y|d|width|height|cx|cy|x1|y1)="([^"]*)"', text):
            self.assertNotRegex(number, "nan|inf")

    def test_rate(self):
        """The line is at the height of its rate: 1 Gbit/s from the first second to the last."""
        result = self.run_result("a.json")
        series = {"step_seconds": 1, "at_seconds": [1, 2, 3], "messages_sent": [1, 2, 3], "messages_delivered": [1, 2, 3],
                  "bytes": [125000000, 250000000, 500000000], "dropped": [0, 0, 0], "blocked_seconds": {}}  # fmt: skip
        result["streams"][0]["series"] = series
        self.write("a.json", json.dumps(result))
        text = self.page("a.json")
        figure = text[text.index("Rate over time") : text.index("</figure>")]
        path = re.search(r'<g class="c0">.*?<path d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', figure)
        x1, y1, x2, y2, x3, y3 = map(float, path.groups())
        grid = {float(tick): float(y) for y, tick in re.findall(r'y2="([\d.]+)"/><text[^>]*"end">([\d.]+)</text>', figure)}
        self.assertAlmostEqual(y1, grid[1], 0)
        self.assertAlmostEqual(y2, grid[1], 0)
        self.assertAlmostEqual(y3, grid[2], 0)
        self.assertAlmostEqual(x2 - x1, x3 - x2, 0)

    def test_bench(self):
        """A sweep as plots and as CSV: the same numbers."""
        out = self.folder / "bench.csv"
        for _ in range(2):  # the second replaces the first
            self.run_program("bench", "--transport", "loopback", "--memory", "host", "--size", "64,4096,65536", "--duration",
                             "20ms", "--in-process", "--json", self.folder / "a.json", "--csv", out)  # fmt: skip
        rows = self.result("a.json")["rows"]
        with open(out, newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), len(rows))
        for line, row in zip(lines, rows):
            for key, text in line.items():
                value = row
                for part in key.split("."):
                    value = value[part] if value is not None else None
                if isinstance(value, bool) or value is None or isinstance(value, str):
                    self.assertEqual(text, {True: "true", False: "false", None: ""}.get(value, value), key)
                else:
                    self.assertEqual(float(text), value, key)
        text = self.page("a.json")
        page = self.assert_closed(text)
        for title in ("Bandwidth by size", "Latency by size, median", "4 KiB"):
            self.assertIn(title, page.text)
        result = self.result("a.json")
        result["bench"]["all_pairs"] = {"ranks": 2}
        self.write("pairs.json", json.dumps(result))
        self.assertNotIn("by size", self.page("pairs.json"))
        other = self.write("other.csv", "mine\n")
        child = self.run_program("bench", "--transport", "loopback", "--memory", "host", "--size", "64", "--duration", "5ms",
                                 "--bandwidth", "--in-process", "--csv", other, expect=1)  # fmt: skip
        self.assertIn("other.csv", child.stderr)
        self.assertEqual(other.read_text(), "mine\n")

    def test_hostile(self):
        """A result of somebody who means harm: its texts stay texts."""
        result = everywhere(self.run_result("a.json"), EVIL)
        self.write("evil.json", json.dumps(result))
        page = self.assert_closed(self.page("a.json", "evil.json"))
        self.assertIn("<script>alert(1)</script>", page.text)
        self.assertNotIn("\x1b", page.text)
        self.assertNotIn("\u202e", page.text)
        name = '<img src=x onerror="alert(1)">.json'
        shutil.copy(self.folder / "a.json", self.folder / name)
        self.assert_closed(self.page(name))

    def test_odd(self):
        """Values of other types, and numbers beyond all bounds, make no plot and no crash."""
        result = self.run_result("a.json")

        def odd(value, replacement, depth=0):
            if depth > 1 and not isinstance(value, (dict, list)):
                return replacement
            if isinstance(value, dict):
                return {key: odd(each, replacement, depth + 1) for key, each in value.items()}
            if isinstance(value, list):
                return [odd(each, replacement, depth + 1) for each in value]
            return value

        for replacement in (None, "x", -1, 1e308, 2**64, 0, 1e-300, True, [], {}, [[1]], {"a": {}}):
            self.write("odd.json", json.dumps(odd(result, replacement)))
            text = self.page("odd.json")
            self.assert_closed(text)
            for value in re.findall(r' (?:d|x|y|cx|cy|x1|x2|y1|y2|width)="([^"]*)"', text):
                self.assertNotRegex(value, r"nan|inf|\d{7}", replacement)
        for key in ("streams", "errors", "environment", "plugins"):
            for replacement in (None, 1, "x", [1, None, "y"], {"a": 1}):
                self.write("odd.json", json.dumps({**result, key: replacement}))
                self.assert_closed(self.page("odd.json"))
        many = json.dumps({**result, "streams": result["streams"] * 500, "errors": [{"code": "x", "text": "y"}] * 9999})
        self.write("many.json", many)
        self.assertLess(len(self.page(*["many.json"] * 3)), 4 << 20)

    def test_refused(self):
        """Files that are no results, and an output that is something else."""
        self.run_result("a.json")
        for text in ("", "{}", "[1]", "null", "{" * 5000, '{"penstock": 1, "command": []}', "\0"):
            self.write("bad.json", text)
            self.assertIn("is not the result", self.page("bad.json", expect=2).stderr)
        self.assertIn("cannot read", self.page("none.json", expect=2).stderr)
        self.assertIn("not a regular file", self.page(".", expect=2).stderr)
        os.mkfifo(self.folder / "fifo")
        self.assertIn("not a regular file", self.page("fifo", expect=2).stderr)
        self.assertIn("--output", self.run_program("report", self.folder / "a.json", expect=2).stderr)
        mine = self.write("mine.html", "<!DOCTYPE html><p>mine")
        child = self.run_program("report", self.folder / "a.json", "-o", mine, expect=1)
        self.assertIn("not a page of `penstock report`", child.stderr)
        self.assertEqual(mine.read_text(), "<!DOCTYPE html><p>mine")

    def test_browser(self):
        """A real browser draws it, and asks nobody for anything."""
        if not shutil.which("chromium"):
            self.skipTest("chromium is not installed")
        self.write("evil.json", json.dumps(everywhere(self.run_result("a.json"), EVIL)))
        self.page("a.json", "evil.json")
        log = self.folder / "net.json"
        run = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1100,3000",
             f"--user-data-dir={self.folder / 'profile'}", f"--log-net-log={log}", "--disable-background-networking",
             "--disable-component-update", f"--screenshot={self.folder / 'page.png'}",
             f"file://{self.folder / 'report.html'}"],
            capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertGreater((self.folder / "page.png").stat().st_size, 20000, run.stderr)
        self.assertNotIn("evil.example", log.read_text())


if __name__ == "__main__":
    main()
