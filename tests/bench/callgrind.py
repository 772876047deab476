# SPDX-License-Identifier: Apache-2.0
"""Reads callgrind's counts."""
import pathlib
import re
import tempfile

import common

# Messages: their difference leaves out what is not of them, perftest's look at the CPU's clock
# rate for instance, which is a matter of luck and of millions of instructions.
PERFTEST_COUNTS = (2000, 202000)
PERFTEST_COUNTS_CHECKED = (2000, 42000)
PORT = 18515  # perftest's own


def self_cost(path):
    """Instructions by object, those of what they call left out."""
    names, costs, current, skip = {}, {}, None, False
    for line in path.read_text().splitlines():
        place = re.match(r"(c?ob)=(\(\d+\))(?: (.*))?$", line)
        if place:
            name = names.setdefault(place[2], place[3])
            current = name if place[1] == "ob" else current
        elif line.startswith("calls="):
            skip = True  # the next line is what was called
        elif re.match(r"[-+*\d]", line):
            if not skip:
                costs[current] = costs.get(current, 0) + int((line.split() + ["0"])[1])
            skip = False
    return costs


def counted(build, script, wanted):
    """Instructions in the objects that are wanted, and what a run of `script` said, on the simulated
    device. The script puts the words it is given before what is counted; not of the processes which
    that forks."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        callgrind = f"valgrind -q --tool=callgrind --callgrind-out-file={folder}/out.%p"
        simverbs = common.program(build, "penstock-simverbs")
        text = script(callgrind)
        said = common.output_of([simverbs, "sh", "-ec", f"cd {folder}\n{text}"])
        first = min(folder.glob("out.*"), key=lambda path: int(re.search(r"^pid: (\d+)", path.read_text(), re.M)[1]))
        costs = self_cost(first)
        return [sum(cost for name, cost in costs.items() if is_wanted(name)) for is_wanted in wanted], said


def is_perftest(name):
    return "/ib_" in name


def perftest_instructions(build, program, size, side):
    def script(count):
        command = f"{program} -d mlx5_0 -x 3 -F -s {size} -n {count} -t 128"

        def of(callgrind):
            near, far = (callgrind, "") if side == "client" else ("", callgrind)
            return (f"{far} {command} >server &\n"
                    f'until ss -Htln "sport = :{PORT}" | grep -q .; do sleep 0.05; done\n'
                    f"{near} {command} 127.0.0.1 >client\nwait")  # fmt: skip

        return of

    counts = PERFTEST_COUNTS_CHECKED if common.check else PERFTEST_COUNTS
    few, many = (counted(build, script(count), [is_perftest])[0][0] for count in counts)
    return (many - few) / (counts[1] - counts[0])
