# SPDX-License-Identifier: Apache-2.0
"""Instructions a message costs on loopback, sender's and receiver's side, and a WRITE or READ
from its post to its end, counted by
valgrind's callgrind: unlike times they do not depend on the machine's mood, and
valgrind fixes which instruction set is found.

usage: instructions.py --check     fail when a message costs more than is recorded
       instructions.py --record    write what it costs now into instructions.txt
"""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial

import common

RECORD = pathlib.Path(__file__).with_name("instructions.txt")
TOLERANCE = 0.05
SIZES = (64, 1462)
SIDES = {"send": "send_some", "receive": "receive_some"}
REACHES = ("write", "read")
BATCHES = {1: "", 32: ", in batches of 32"}
STAGED = ("{plugin: loopback, options: {mode: reference}}", "staged")
COUNTS = (4096, 20480)  # their difference leaves out what is not of messages
RING = 256


HEAD = """# SPDX-License-Identifier: Apache-2.0
# Made by `python3 tests/bench/instructions.py --record`: instructions a message.
"""


def read_record():
    if not RECORD.exists():
        return {}
    lines = [line for line in RECORD.read_text().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.split(": ") for line in lines)}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def instructions(command, function, options):
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        command = [
            "valgrind", "--tool=callgrind", f"--toggle-collect={function}",
            f"--callgrind-out-file={folder}/out", *map(str, command), str(common.free_port()), *options,
        ]
        try:
            common.output_of(command)
        except subprocess.CalledProcessError as error:
            sys.exit(f"failed: {' '.join(command)}\n{common.last_lines(error.stderr)}")
        totals = re.findall(r"^(?:totals|summary): (\d+)", pathlib.Path(folder, "out").read_text(), re.M)
    return int(totals[-1])


def count_one(function, *command, options=()):
    few, many = (instructions((*command, count), function, options) for count in COUNTS)
    return round((many - few) / (COUNTS[1] - COUNTS[0]), 1)


def count_all(build):
    turn, reach = common.program(build, "bench-turn"), common.program(build, "bench-reach")
    counts = {f"{side} {size} B": partial(count_one, function, turn, size, RING)
              for size in SIZES for side, function in SIDES.items()}  # fmt: skip
    counts["receive 64 B, staged and verified"] = partial(count_one, "receive_some", turn, 64, RING, options=STAGED)
    for op in REACHES:
        for batch, words in BATCHES.items():
            counts[f"{op} 64 B{words}"] = partial(count_one, "reach_some", reach, op, 64, batch)
    # Side by side: what is counted does not depend on the time.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(counts, pool.map(lambda count: count(), counts.values())))


def check(counted, recorded):
    """The names of what has grown, or is not recorded."""
    return [name for name, value in counted.items()
            if name not in recorded or value > recorded[name] * (1 + TOLERANCE)]


def main():
    if sys.argv[1:] not in (["--check"], ["--record"]):
        sys.exit(__doc__)
    if not shutil.which("valgrind"):
        skip("valgrind is not installed: apt-get install valgrind")
    if os.environ.get("PENSTOCK_PLAIN", "1") != "1":
        skip("the record is of gcc's -O2 on x86-64 without sanitizers, as ./run build makes it")
    recorded = read_record()
    counted = count_all(common.build_folder(None))
    for name, value in counted.items():
        print(f"{name}: {value} instructions a message, recorded {recorded.get(name)}")
    if sys.argv[1] == "--record":
        RECORD.write_text(HEAD + "".join(f"{name}: {value}\n" for name, value in counted.items()))
        return
    grown = check(counted, recorded)
    if grown:
        sys.exit(
            f"failed: more than {TOLERANCE:.0%} above the record: {', '.join(grown)}. Make it cheaper, or, "
            "when it is worth that, record anew and say why: python3 tests/bench/instructions.py --record"
        )


if __name__ == "__main__":
    main()
