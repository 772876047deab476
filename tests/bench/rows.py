# SPDX-License-Identifier: Apache-2.0
"""The one form of all benches: tests/bench/NAME [--json FILE], a table for people,
rows {case, unit, penstock, peer, ratio, low, high} for machines.

`peer`, `ratio`, `low` and `high` are null where there is nobody to compare with.
"""
import argparse
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build")).resolve()
LOADED = 0.10  # of all CPUs, by others


def row(case, unit, penstock):
    return {"case": case, "unit": unit, "penstock": penstock,
            "peer": None, "ratio": None, "low": None, "high": None}  # fmt: skip


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def busy_ticks():
    fields = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    return sum(fields) - fields[3] - fields[4]  # idle, iowait


class Quiet:
    """Others' use of the CPUs while the body ran; refuses to go on when it was much."""

    def __enter__(self):
        self.began, self.ticks, self.own = time.monotonic(), busy_ticks(), os.times()
        return self

    def __exit__(self, kind, *_):
        if kind:
            return
        own = os.times()
        mine = sum(own[:4]) - sum(self.own[:4])  # children that have been waited for included
        others = (busy_ticks() - self.ticks) / os.sysconf("SC_CLK_TCK") - mine
        share = others / (time.monotonic() - self.began) / os.cpu_count()
        if share > LOADED:
            print(f"not measured: other processes took {share:.0%} of the CPUs meanwhile; "
                  "stop them and run again", file=sys.stderr)  # fmt: skip
            sys.exit(1)


def report(description, measure):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", help="write the rows there too; - for stdout")
    arguments = parser.parse_args()
    rows = measure()
    out = sys.stderr if arguments.json == "-" else sys.stdout
    for entry in rows:
        print(f"{entry['case']:<44} {entry['penstock']:>10.4g} {entry['unit']}", file=out)
    if arguments.json:
        uname = os.uname()
        document = {
            "environment": {"kernel": uname.release, "machine": uname.machine, "cpus": os.cpu_count()},
            "rows": rows,
        }
        text = json.dumps(document, indent=2) + "\n"
        if arguments.json == "-":
            sys.stdout.write(text)
        else:
            pathlib.Path(arguments.json).write_text(text)
