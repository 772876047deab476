# SPDX-License-Identifier: Apache-2.0
"""By which names functions of the product begin: static ones, and what files of the program share."""
import re

# Folder: what its static functions begin with. In the others it is a word of the file's name.
FAMILIES = {
    "apps/bench": "bench", "apps/hardware": "hardware", "apps/serve": "serve", "filters/fault": "fault",
    "memory/cuda": "cuda", "memory/host": "host", "memory/igpu": "igpu", "memory/nvidia": "cuda",
    "subprojects/simverbs/cm": "cm", "subprojects/simverbs/engine": "sim", "subprojects/simverbs/fabric": "fab",
    "subprojects/simverbs/front": "front", "subprojects/simverbs/mlx5": "mlx5", "subprojects/simverbs/objects": "sim",
    "transports/datagram": "dg", "transports/ethernet": "eth", "transports/loopback": "lb", "transports/share": "share", "core/share": "share", "apps/share": "share", "transports/ucx": "ucx",
    "transports/udp": "udp", "transports/verbs": "vb", "transports/verbs_dc": "dc", "transports/verbs_rc": "rc",
}  # fmt: skip
FOLDERS = ("apps/", "core/", "filters/", "memory/", "transports/", "subprojects/simverbs/")
# Programs and plugins of one file each, and tests: nothing is beside them.
ALONE = ("apps/examples/", "core/tools/", "subprojects/simverbs/judges/", "subprojects/simverbs/rules/",
         "subprojects/simverbs/tests/")  # fmt: skip
# Subject of a file, where no word of its name says it.
ABOUT = {
    "core/control/messages": ["message"], "core/control/nodes": ["node"],
    "core/control/stream_proto": ["streams"],
    "core/control/stream_wait": ["streams"], "core/control/streams": ["stream", "names"],
    "core/loader/constructors": ["environment", "dispositions"], "core/loader/load": ["catalog", "described"],
    "core/loader/open": ["plugin", "environment"],
    "core/node/control_adapter": ["mail"], "core/node/exports": ["offer"], "core/node/imports": ["remote"], "core/node/open": ["node"],
    "core/node/peer": ["message"],
    "core/stream/endpoint_state": ["end"], "core/stream/event_loop": ["thread"],
    "subprojects/simverbs/launcher/hosts": ["describe"], "subprojects/simverbs/launcher/ports": ["describe"],
}  # fmt: skip
# Prefix of the names that files of the program share.
PROGRAM = {"apps": "app", "apps/bench": "bench", "apps/doctor": "doctor", "apps/hardware": "hardware", "apps/host": "host",
           "apps/html": "html", "apps/init": "init", "apps/metrics": "metrics",
           "apps/serve": "serve", "apps/topo": "topo"}

# Comments, strings, and what has parentheses before a function's own.
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|__attribute__\(\((?:[^()]|\([^()]*\))*\)\) ?|_Atomic\([^()]*\)', re.S)
STATIC = re.compile(r"(?m)^static\b[\w\s*]*?\b(\w+)\(")
SHARED = re.compile(r"(?m)^(?!static\b|typedef\b|_Static_assert|static_assert)[a-z_][\w\s*]*?\b(\w+)\([^{]*?;")

# Functions and variables that other files can name, where they are defined.
DEFINED = re.compile(r"(?m)^(?!(?:static|typedef|extern)\b|_Static_assert|(?:struct|enum|union) \w+;)(?:[a-z_]\w* )*[a-z_]\w*[ *]+(\w+)(?:\(|\[| =|;)")


def wrong_in(place, text):
    """Names of functions of the file that do not begin as they should."""
    place, text = str(place), NOISE.sub("", text)
    if not place.startswith(FOLDERS) or place.startswith(ALONE):
        return []
    folder, file = place.rsplit("/", 1)
    stem = file.rsplit(".", 1)[0]
    starts = [FAMILIES[folder]] if folder in FAMILIES else [*stem.split("_"), *ABOUT.get(f"{folder}/{stem}", ())]
    if folder in PROGRAM and file.endswith(".h"):
        starts.append(PROGRAM[folder])
    if folder not in FAMILIES and file.endswith(".h") and folder not in PROGRAM:
        return []  # named as what other files share
    wrong = [name for name in STATIC.findall(text) if not name.startswith(tuple(word + "_" for word in starts))]
    if folder in PROGRAM and file.endswith(".h"):
        wrong += [name for name in SHARED.findall(text) if not re.match(rf"{PROGRAM[folder]}(?:_|$)", name)]
    if folder in PROGRAM and file.endswith(".c"):
        wrong += [name for name in DEFINED.findall(text) if name != "main" and not re.match(rf"(?:app|{PROGRAM[folder]})(?:_|$)", name)]
    return wrong
