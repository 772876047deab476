# SPDX-License-Identifier: Apache-2.0
"""Instructions a message of 1462 bytes costs on verbs_rc, on the simulated device, in runs of 32:
bench-turn's own loop, core, memory and transport; behind them those of the simulated libibverbs.
Each side has a bound without that one, and four queue pairs cost at most 1.2 times as much as one.
With --perftest beside ib_send_bw's program, without its libibverbs."""
import concurrent.futures
import os
import shutil
import sys

import common
from callgrind import counted, perftest_instructions

SIZE, SLOTS = 1462, 512
COUNTS = (1024, 5120)  # their difference leaves out what is not of messages
# Some more than the 69.7 and 105.0 that one compiler needs: another one may.
MOST = {"send_some": 73, "receive_some": 110}
PERFTEST = {"send_some": "client", "receive_some": "server"}
QPS_MOST = 1.2
OURS = ("transport-verbs_rc", "libpenstock", "memory-host", "/bench-")


def is_ours(name):
    return any(part in name for part in OURS)


def is_library(name):
    return "libibverbs" in name


def a_message(build, side, qps):
    """Ours, and the library's."""
    transport = "'{plugin: verbs_rc, options: {device: mlx5_0, qps: %d}}'" % qps
    turn = f"{common.program(build, 'bench-turn')} {SIZE} {SLOTS}"
    few, many = (
        counted(build, lambda callgrind: f"{callgrind} --toggle-collect={side} {turn} {count} {common.free_port()} {transport}",
                [is_ours, is_library])[0]
        for count in COUNTS
    )  # fmt: skip
    return [(b - a) / (COUNTS[1] - COUNTS[0]) for a, b in zip(few, many)]


def main():
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed: apt-get install valgrind")
        sys.exit(77)
    if os.environ.get("PENSTOCK_PLAIN", "1") != "1":
        print("skipped: the bounds are of gcc's -O2 on x86-64 without sanitizers, as ./run build makes it")
        sys.exit(77)
    build = common.build_folder(None)
    cases = [(side, qps) for side in MOST for qps in (1, 4)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        costs = dict(zip(cases, pool.map(lambda case: a_message(build, *case), cases)))
    failed = False
    for side, most in MOST.items():
        (one, library), (four, _) = costs[side, 1], costs[side, 4]
        print(f"{side}: {one:.1f} instructions a message, {most} at most, and the simulated libibverbs {library:.1f}; "
              f"qps: 4 {four:.1f}, {four / one:.2f} x")  # fmt: skip
        failed |= one > most or four > QPS_MOST * one
        if "--perftest" in sys.argv:
            print(f"  ib_send_bw, {PERFTEST[side]}: {perftest_instructions(build, 'ib_send_bw', SIZE, PERFTEST[side]):.1f}")
    sys.exit(f"failed: a bound of {__file__} is exceeded" if failed else 0)


main()
