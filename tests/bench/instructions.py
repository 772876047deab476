# SPDX-License-Identifier: Apache-2.0
"""Instructions a message costs on loopback, sender's and receiver's side, and a WRITE or READ
from its post to its end, counted by
valgrind's callgrind: unlike times they do not depend on the machine's mood, and
valgrind fixes which instruction set is found.

usage: instructions.py --check     fail when a message costs more than is recorded
       instructions.py --record    write what it costs now into instructions.txt
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_name("instructions.txt")
TOLERANCE = 0.05
SIZES = (64, 1462)
SIDES = {"send": "send_some", "receive": "receive_some"}
REACHES = ("write", "read")  # one at a time
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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def instructions(command, function, options):
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        command = [
            "valgrind", "--tool=callgrind", f"--toggle-collect={function}",
            f"--callgrind-out-file={folder}/out", *map(str, command), str(free_port()), *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"failed: {' '.join(command)}\n{done.stderr}")
        totals = re.findall(r"^(?:totals|summary): (\d+)", pathlib.Path(folder, "out").read_text(), re.M)
    return int(totals[-1])


def count_one(function, *command, options=()):
    few, many = (instructions((*command, count), function, options) for count in COUNTS)
    return round((many - few) / (COUNTS[1] - COUNTS[0]), 1)


def count_all(folder):
    counted = {
        f"{side} {size} B": count_one(function, folder / "bench-turn", size, RING)
        for size in SIZES
        for side, function in SIDES.items()
    }
    counted["receive 64 B, staged and verified"] = count_one(
        "receive_some", folder / "bench-turn", 64, RING, options=STAGED)
    for op in REACHES:
        counted[f"{op} 64 B"] = count_one("reach_some", folder / "bench-reach", op, 64)
    return counted


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
    root = pathlib.Path(__file__).resolve().parents[2]
    build = pathlib.Path(os.environ.get("PENSTOCK_BUILD") or root / "build")
    recorded = read_record()
    counted = count_all(build / "tests" / "bench")
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
