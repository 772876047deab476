# SPDX-License-Identifier: Apache-2.0
"""What a message costs on a worker with 1000 idle endpoints, beside a worker with the stream alone:
instructions of verbs_rc by callgrind, at most 1.3 times as many.

usage: verbs_rc_crowd.py LAUNCHER PROGRAM PLUGIN
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

IDLE = 1000
TURNS = (50, 500)  # their difference leaves out what the first turns cost
MESSAGES_A_TURN = 32
MOST = 1.3


def cost_of(path, wanted):
    """Of the objects whose name has `wanted`, what they call left out."""
    names, cost, current, skip = {}, 0, None, False
    for line in path.read_text().splitlines():
        place = re.match(r"(c?ob)=(\(\d+\))(?: (.*))?$", line)
        if place:
            name = names.setdefault(place[2], place[3])
            current = name if place[1] == "ob" else current
        elif line.startswith("calls="):
            skip = True  # the next line is what was called
        elif re.match(r"[-+*\d]", line):
            cost += int(line.split()[1]) if not skip and wanted in current else 0
            skip = False
    return cost


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
        return cost_of(out, "transport-verbs_rc")


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
