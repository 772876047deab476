# SPDX-License-Identifier: Apache-2.0
"""The one form of all benches: tests/bench/NAME [--json FILE], a table for people, and
rows {case, unit, penstock, peer, ratio, low, high} for machines. Interleaved pairs, their
median and its interval, the machine's load. docs/internals/benchmarks.md says how to read them.

Where there is nobody to compare with, peer, ratio, low and high are null."""
import argparse
import json
import math
import os
import pathlib
import platform
import resource
import socket
import statistics
import subprocess
import sys
import threading
import time

PAIRS = 9  # the design asks for 7 at least
LOAD_MAX = 0.05  # of one core, of all others together, while a run takes place; or
WAIT_MAX = 0.08  # of the time that it takes, waited for a CPU by any thread of ours
LOOK_S = 0.1  # looking takes time from who is measured: the more, the more threads it has
TRIES = 5  # of a run that others disturb
EXIT_LOADED = 75  # EX_TEMPFAIL: later it may work
EXIT_MISSING = 77
TICKS = os.sysconf("SC_CLK_TCK")
ROOT = pathlib.Path(__file__).resolve().parents[2]

check = False  # --check: does it run at all? Whatever the load; no figure is shown


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


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def alone(case, unit, value):
    """The row of a figure for which no other program has one."""
    return {"case": case, "unit": unit, "penstock": value,
            "peer": None, "ratio": None, "low": None, "high": None}  # fmt: skip


def row(case, unit, ours, peers, peer_name, goal=None):
    """A row of the table from interleaved runs, ours and the peer's in pairs."""
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
    """Returns the CPU time of other processes, as a share of one core."""
    return max(0.0, (after - before - own) / wall)


class Waits:
    """How long the processes that are started meanwhile wait for a CPU that others have."""

    def __init__(self):
        self.of_tasks = {}  # the kernel's run_delay, as last seen
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def _watch(self):
        while not self.over.wait(LOOK_S):
            for process in children():
                self._look(process)

    def _look(self, process):
        for task, (_, waited, *_) in of_each_task(process, "schedstat"):
            self.of_tasks[task] = int(waited) / 1e9

    def share(self, wall):
        """The share of that time for which the longest waiting thread waited; None: there was no thread."""
        return max(self.of_tasks.values()) / wall if self.of_tasks else None


def of_each_task(process, name):
    """The words of that file of each of its threads. Not by pathlib, which takes twice as long."""
    try:
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/{name}") as file:
                yield task, file.read().split()
    except OSError:  # it has ended
        pass


def children():
    """All processes that this one has started, and that they have."""
    found, left = [], [os.getpid()]
    while left:
        for _, started in of_each_task(left.pop(), "children"):
            found += started
            left += started
    return found


def is_disturbed(share, waited, cpus, wall):
    """A load that the clock's ticks cannot tell from none does not count, nor one that nobody waits for."""
    if share <= LOAD_MAX + 2 * len(cpus) / TICKS / wall:
        return False
    return waited is None or waited > WAIT_MAX


def undisturbed(run, cpus):
    """run()'s value, from a time when nobody else took the CPUs from it."""
    if check:
        return run()
    for attempt in range(TRIES):
        if attempt:
            time.sleep(1)
        before, own, start = busy_seconds(cpus), own_seconds(), time.monotonic()
        with Waits() as waits:
            value = run()
        wall = time.monotonic() - start
        share = others_share(before, busy_seconds(cpus), own_seconds() - own, wall)
        waited = waits.share(wall)
        if not is_disturbed(share, waited, cpus, wall):
            return value
    raise Loaded(
        f"other processes used {share:.0%} of a core on CPUs {sorted(cpus)} during a run, which "
        f"waited for a CPU {waited or 0:.0%} of its time, {TRIES} times: stop them (top shows which), "
        "or choose other CPUs with --cpus"
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def output_of(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if "unhandled amd64-linux syscall" in done.stderr:
        # The program sees ENOSYS, and goes another way than without valgrind.
        sys.exit(f"failed: {last_lines(done.stderr, 'syscall', 1)}")
    done.check_returncode()
    return done.stdout


def last_lines(text, word="", count=30):
    """The last lines of a program's output that hold the word."""
    return "\n".join([line for line in text.splitlines() if word in line][-count:])


def pairs():
    return range(1 if check else PAIRS)


def environment(cpus, **more):
    model = ""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {"cpu": model, "cpus": list(cpus), "kernel": platform.release(), **more}


# ---- The form ----------------------------------------------------------------------


def number(value, unit):
    if value is None:
        return ""
    if unit == "GB/s":
        return f"{value:.4g}"
    if unit.endswith("/s") and not unit.startswith("G"):
        return f"{value / 1e6:.3f} M"
    return f"{value:.3g}"


def cells(r):
    if r["ratio"] is None:
        return [r["case"], r["unit"], number(r["penstock"], r["unit"])]
    goal = "" if "goal" not in r else f"{r['goal']:g} {'met' if r['met'] else 'MISSED'}"
    return [r["case"], r["unit"], number(r["penstock"], r["unit"]), number(r["peer"], r["unit"]),
            f"{r['ratio']:.2f}", f"{r['low']:.2f} to {r['high']:.2f}", goal, r["peer_name"]]  # fmt: skip


def table(rows):
    head = ["case", "unit", "penstock", "peer", "ratio", "95% interval", "goal", "against"]
    lines = [cells(r) for r in rows]
    columns = max(map(len, lines), default=0)
    lines = [line + [""] * (columns - len(line)) for line in [head[:columns], *lines]]
    widths = [max(len(line[i]) for line in lines) for i in range(columns)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in lines)


def arguments(description, pinned):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", help="rows and environment; -: standard output")
    parser.add_argument("--check", action="store_true",
                        help="run each case once, on a loaded machine too, and show no figures")
    parser.add_argument("--build", metavar="FOLDER", help="default: build/ of this tree")
    if pinned:
        parser.add_argument("--cpus", metavar="A,B", help="where the two sides run; default: two cores")
    return parser


def build_folder(given):
    folder = pathlib.Path(given or os.environ.get("PENSTOCK_BUILD") or ROOT / "build").resolve()
    program(folder)
    return folder


def program(build, name="penstock"):
    """A program of that build."""
    folder = "tests/bench" if name.startswith("bench-") else "subprojects/simverbs" if name == "penstock-simverbs" else ""
    path = build / folder / name
    if not path.exists():
        raise Missing(f"there is no {path}: `ninja -C {build}` builds it")
    return path


def cpus_of(options):
    if not hasattr(options, "cpus"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(map(int, options.cpus.split(","))) if options.cpus else choose_cpus()


def show(options, rows, about):
    out = sys.stderr if options.json == "-" else sys.stdout
    print("\n".join(f"{key}: {value}" for key, value in about.items()), file=out)
    print(f"\n{table(rows)}", file=out)
    if not options.json:
        return
    text = json.dumps({"environment": about, "rows": rows}, indent=2) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(options.json).write_text(text)


def main(description, measure, pinned=True, more_arguments=None):
    """measure(options, build, cpus) -> (rows, what to say of it beside the machine). With
    `pinned`, cpus are two cores; without, all that there are. Ends the program."""
    parser = arguments(description, pinned)
    if more_arguments:
        more_arguments(parser)
    options = parser.parse_args()
    global check
    check = options.check
    try:
        build, cpus = build_folder(options.build), cpus_of(options)
        rows, more = measure(options, build, cpus)
    except Missing as error:
        print(f"skipped: {error}", file=sys.stderr)
        sys.exit(EXIT_MISSING)
    except Loaded as error:
        print(f"refused: {error}", file=sys.stderr)
        sys.exit(EXIT_LOADED)
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(map(str, error.cmd))}: exit status {error.returncode}: "
              f"{last_lines(error.stderr or '')}", file=sys.stderr)
        sys.exit(1)
    if check:
        print(f"{len(rows)} cases run")
    else:
        show(options, rows, environment(cpus, **more))
    sys.exit(0)
