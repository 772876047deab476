# SPDX-License-Identifier: Apache-2.0
"""What callgrind has counted, read."""
import re


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
