# SPDX-License-Identifier: Apache-2.0
"""Instructions a message of 1462 bytes costs on verbs_rc, on the simulated device, in runs of 32:
with the library, bench-turn's own loop and the transport; libibverbs left out. Each side has a
bound, and four queue pairs cost at most 1.2 times as much as one."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import tempfile

import common
from callgrind import self_cost

SIZE, SLOTS = 1462, 512
COUNTS = (1024, 5120)  # their difference leaves out what is not of messages
# Some more than the 69.9 and 104.6 that one compiler needs: another one may.
MOST = {"send_some": 73, "receive_some": 110}
QPS_MOST = 1.2
OURS = ("transport-verbs_rc", "libpenstock", "memory-host", "/bench-")


def counted(build, side, qps, count):
    with tempfile.TemporaryDirectory() as folder:
        transport = "{plugin: verbs_rc, options: {device: mlx5_0, qps: %d}}" % qps
        common.output_of(
            [common.program(build, "penstock-simverbs"), "valgrind", "-q", "--tool=callgrind",
             f"--callgrind-out-file={folder}/out.%p", f"--toggle-collect={side}",
             common.program(build, "bench-turn"), SIZE, SLOTS, count, common.free_port(), transport]
        )  # fmt: skip
        # Not of the processes that it forks.
        first = min(pathlib.Path(folder).glob("out.*"), key=lambda path: int(re.search(r"^pid: (\d+)", path.read_text(), re.M)[1]))
        return sum(cost for name, cost in self_cost(first).items() if any(part in name for part in OURS))


def a_message(build, side, qps):
    few, many = (counted(build, side, qps, count) for count in COUNTS)
    return (many - few) / (COUNTS[1] - COUNTS[0])


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
        one, four = costs[side, 1], costs[side, 4]
        print(f"{side}: {one:.1f} instructions a message, {most} at most; qps: 4 {four:.1f}, {four / one:.2f} x")
        failed |= one > most or four > QPS_MOST * one
    sys.exit(f"failed: a bound of {__file__} is exceeded" if failed else 0)


main()
