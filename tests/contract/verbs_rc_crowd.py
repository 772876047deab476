# SPDX-License-Identifier: Apache-2.0
"""Cost of a message on a worker with 1000 idle endpoints, beside a worker with the stream alone: instructions of
verbs_rc by callgrind, at most 1.3 times as many.

usage: verbs_rc_crowd.py LAUNCHER PROGRAM PLUGIN
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench"))
from callgrind import self_cost

IDLE = 1000
TURNS = (50, 500)  # their difference leaves out what the first turns cost
MESSAGES_A_TURN = 32
MOST = 1.3


def counted(launcher, program, plugin, idle, turns):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        job = subprocess.run(
            [launcher, "valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}",
             "--toggle-collect=busy_turns", program, plugin, str(idle), str(turns)],
            capture_output=True, text=True,
        )  # fmt: skip
        if job.returncode:
            sys.exit(f"failed: {idle} idle endpoints\n{job.stdout}{job.stderr}")
        return sum(cost for name, cost in self_cost(out).items() if "transport-verbs_rc" in name)


def main():
    if not shutil.which("valgrind"):
        print("skipped: valgrind is not installed: apt-get install valgrind")
        sys.exit(77)
    costs = []
    for idle in (0, IDLE):
        few, many = (counted(*sys.argv[1:4], idle, turns) for turns in TURNS)
        costs.append((many - few) / (TURNS[1] - TURNS[0]) / MESSAGES_A_TURN)
    ratio = costs[1] / costs[0]
    print(f"instructions of verbs_rc a message, 4 polls included: {costs[0]:.1f} alone, "
          f"{costs[1]:.1f} beside {IDLE} idle endpoints: {ratio:.3f} x")  # fmt: skip
    if ratio > MOST:
        sys.exit(f"failed: more than {MOST} x")


main()
