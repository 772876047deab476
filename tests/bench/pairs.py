# SPDX-License-Identifier: Apache-2.0
"""What benches share: interleaved pairs, their median and its interval, the machine's
load, the table and the JSON. docs/benchmarks.md says how to read them."""
import argparse
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

PAIRS = 9  # the design asks for 7 at least
LOAD_MAX = 0.05  # of one core, of all others together, while a run takes place
TRIES = 3  # of a run that others disturb
EXIT_LOADED = 75  # EX_TEMPFAIL: later it may work
EXIT_MISSING = 77
TICKS = os.sysconf("SC_CLK_TCK")


class Loaded(Exception):
    """Others use the CPUs."""


class Missing(Exception):
    """A program that is needed is not installed; says which, and how to get it."""


# ---- Arithmetic ----------------------------------------------------------------


def interval(values, confidence=0.95):
    """(median, low, high): order statistics that hold the median with at least this
    confidence, whatever the distribution (a sign test)."""
    ordered = sorted(values)
    n = len(ordered)
    k, outside = 0, 2 * 0.5**n  # probability that the median is not between the k-th and its mirror
    while 2 * (k + 1) < n - 1 and 1 - outside - 2 * math.comb(n, k + 1) * 0.5**n >= confidence:
        k += 1
        outside += 2 * math.comb(n, k) * 0.5**n
    return statistics.median(ordered), ordered[k], ordered[n - 1 - k]


def row(case, unit, ours, peers, peer_name, goal=None):
    """Of interleaved runs of ours and a peer's: one pair each."""
    ratio, low, high = interval([a / b for a, b in zip(ours, peers)])
    made = {
        "case": case,
        "unit": unit,
        "penstock": statistics.median(ours),
        "peer": statistics.median(peers),
        "ratio": ratio,
        "low": low,
        "high": high,
        "peer_name": peer_name,
        "pairs": len(ours),
    }
    if goal is not None:
        # The interval reaches it, and the median is within 5%.
        made["goal"] = goal
        made["met"] = high >= goal and ratio >= 0.95 * goal
    return made


# ---- The machine -----------------------------------------------------------------


def busy_seconds(cpus):
    """CPU time that has been used on these CPUs, by anybody, stolen by the host too."""
    total = 0
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            total += user + nice + system + irq + softirq + steal
    return total / TICKS


def own_seconds():
    total = 0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


def others_share(before, after, own, wall):
    """Of one core: what others used on the CPUs."""
    return max(0.0, (after - before - own) / wall)


def undisturbed(run, cpus):
    """run()'s value, from a time when nobody else used the CPUs."""
    share = 0.0
    for attempt in range(TRIES):
        if attempt:
            time.sleep(1)
        before, own, start = busy_seconds(cpus), own_seconds(), time.monotonic()
        value = run()
        wall = time.monotonic() - start
        share = others_share(before, busy_seconds(cpus), own_seconds() - own, wall)
        # What the clock's ticks cannot tell apart is no load.
        if share <= LOAD_MAX + 2 * len(cpus) / TICKS / wall:
            return value
    raise Loaded(
        f"other processes used {share:.0%} of a core on CPUs {sorted(cpus)} during a run, {TRIES} "
        "times: stop them (top shows which), or choose other CPUs with --cpus"
    )


def siblings(cpu):
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        text = path.read_text()
    except OSError:
        return {cpu}
    found = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def choose_cpus():
    """Two of this process's, on cores of their own."""
    allowed = sorted(os.sched_getaffinity(0))
    for other in allowed[1:]:
        if other not in siblings(allowed[0]):
            return allowed[0], other
    raise Missing("needs two cores: this machine, or this process's affinity, has one")


def environment(cpus, **more):
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"cpu": model, "cpus": list(cpus), "kernel": platform.release(), "pairs": PAIRS, **more}


# ---- The form ----------------------------------------------------------------------


def number(value, unit):
    if unit.endswith("/s"):
        return f"{value / 1e6:.3f} M"
    return f"{value:.3g}"


def table(rows):
    head = ["case", "unit", "penstock", "peer", "ratio", "95% interval", "goal", "against"]
    lines = [head]
    for r in rows:
        goal = "" if "goal" not in r else f"{r['goal']:g} {'met' if r['met'] else 'MISSED'}"
        lines.append(
            [
                r["case"],
                r["unit"],
                number(r["penstock"], r["unit"]),
                number(r["peer"], r["unit"]),
                f"{r['ratio']:.2f}",
                f"{r['low']:.2f} to {r['high']:.2f}",
                goal,
                r["peer_name"],
            ]
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", help="rows and environment; -: standard output")
    parser.add_argument("--cpus", metavar="A,B", help="where the two sides run; default: two cores")
    parser.add_argument("--build", metavar="FOLDER", help="default: build/ of this tree")
    return parser


def build_folder(given):
    root = pathlib.Path(__file__).resolve().parents[2]
    folder = pathlib.Path(given or os.environ.get("PENSTOCK_BUILD") or root / "build")
    if not (folder / "tests" / "bench" / "bench-stream").exists():
        raise Missing(f"{folder} holds no benchmarks: `./run build` builds them")
    return folder


def main(description, measure, more_arguments=None):
    """measure(options, build, cpus) -> (rows, environment). Ends the program."""
    parser = arguments(description)
    if more_arguments:
        more_arguments(parser)
    options = parser.parse_args()
    try:
        build = build_folder(options.build)
        cpus = tuple(map(int, options.cpus.split(","))) if options.cpus else choose_cpus()
        rows, about = measure(options, build, cpus)
    except Missing as error:
        print(f"skipped: {error}", file=sys.stderr)
        sys.exit(EXIT_MISSING)
    except Loaded as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(EXIT_LOADED)
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(map(str, error.cmd))}: exit status {error.returncode}: "
              f"{(error.stderr or '').strip()}", file=sys.stderr)
        sys.exit(1)
    if options.json != "-":
        print("\n".join(f"{key}: {value}" for key, value in about.items()))
        print()
        print(table(rows))
    if options.json:
        text = json.dumps({"environment": about, "rows": rows}, indent=2) + "\n"
        if options.json == "-":
            sys.stdout.write(text)
        else:
            pathlib.Path(options.json).write_text(text)
    sys.exit(0)
