#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines as texts: unpacks one into the folder that `penstock doctor --root` takes, and packs a recording.

    penstock doctor --record FOLDER; machines.py FOLDER > NAME.txt    a recording as a text
    machines.py NAME.txt FOLDER                                       a text as a folder

A line is one of:
    PATH: TEXT            a file of one line
    PATH:                 a file of the indented lines that follow
    PATH -> TARGET        a symbolic link
    PATH/                 an empty folder
    bytes PATH: BASE64    a file that is no text, compressed by zlib
    json NAME: OBJECT     facts that are no file: penstock/NAME.json
    pci ADDRESS KEY=…     a PCI device: on=pci0000:00 or the bridge above; its files below /sys
    rdma NAME KEY=…       an RDMA device of one port, on pci=ADDRESS, with its network device
    net NAME KEY=…        a network device of netlink's answer
    route TO KEY=…        a route of netlink's answer
    gpu ADDRESS KEY=…     what NVML and the driver's /proc say of a GPU
"""
import base64
import json
import pathlib
import shlex
import struct
import sys
import zlib

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DRIVERS = "sys/bus/pci/drivers"


def size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def config_space(keys):
    """A configuration space with the capabilities PCI Express and, where asked for, ACS."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, int(keys["vendor"], 0), int(keys.get("device", "0x1"), 0))
    struct.pack_into("<H", space, 6, 0x10)
    space[0x34] = 0x40
    reads = int(keys.get("reads", "4096")).bit_length() - 8
    control = 0x20 | (0x10 if keys.get("relaxed", "on") == "on" else 0) | reads << 12
    struct.pack_into("<BBH", space, 0x40, 0x10, 0, 2)
    struct.pack_into("<H", space, 0x48, control)
    if "acs" in keys:
        struct.pack_into("<I", space, 0x100, 0x0001000D)
        struct.pack_into("<H", space, 0x106, 0x1D if keys["acs"] == "on" else 0)
    return bytes(space[: 64 if keys.get("config") == "64" else 4096])


class Machine:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.paths = {}  # of PCI devices below sys/devices
        self.network = {"links": [], "routes": [], "neighbours": []}
        self.nvml = None
        self.facts = {"devices": {}, "processes": {}, "clock": {"synchronised": True, "error_us": 10}, "plugins": {"plugins": []}}

    def file(self, path, content):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else (content + "\n").encode())

    def link(self, path, target):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    # ---- Devices ----

    def pci(self, address, keys):
        on = keys["on"]
        path = f"{self.paths.get(on, on)}/{address}"
        self.paths[address] = path
        place = f"sys/devices/{path}"
        for key, otherwise in (("vendor", "0x8086"), ("device", "0x0001"), ("class", "0x060400")):
            self.file(f"{place}/{key}", keys.setdefault(key, otherwise))
        self.file(f"{place}/numa_node", keys.get("numa", "-1"))
        if "speed" in keys:
            for which, suffix in (("current", ""), ("max", "_most")):
                self.file(f"{place}/{which}_link_speed", f"{keys.get('speed' + suffix, keys['speed'])}.0 GT/s PCIe")
                self.file(f"{place}/{which}_link_width", keys.get("width" + suffix, keys["width"]))
        bars = [0, size(keys["bar1"])] if "bar1" in keys else []
        first = 1 << 40
        self.file(f"{place}/resource", "\n".join(f"0x{first:016x} 0x{first + bar - 1 if bar else 0:016x} 0x{0x14220c:016x}" if bar
                                                 else "0x0 0x0 0x0" for bar in bars))  # fmt: skip
        self.file(f"{place}/config", config_space(keys))
        up = "../" * (path.count("/") + 2)
        if "driver" in keys:
            self.link(f"{place}/driver", f"{up}bus/pci/drivers/{keys['driver']}")
            (self.folder / DRIVERS / keys["driver"]).mkdir(parents=True, exist_ok=True)
        if "iommu" in keys:
            group = f"sys/kernel/iommu_groups/{len(self.paths)}"
            self.file(f"{group}/type", keys["iommu"])
            self.link(f"{place}/iommu_group", f"{up}kernel/iommu_groups/{len(self.paths)}")
        self.link(f"sys/bus/pci/devices/{address}", f"../../../devices/{path}")

    def rdma(self, name, keys):
        pci = keys.get("pci")
        place = f"sys/devices/{self.paths[pci]}/infiniband/{name}" if pci else f"sys/devices/virtual/infiniband/{name}"
        self.link(f"sys/class/infiniband/{name}", f"../../{place[4:]}")
        if pci:
            self.link(f"{place}/device", f"../../../{pci}")
        else:
            self.file(f"{place}/parent", keys["netdev"])
        self.file(f"{place}/fw_ver", keys.get("firmware", "28.39.1002"))
        port = f"{place}/ports/1"
        ethernet = keys.get("layer", "Ethernet") == "Ethernet"
        self.file(f"{port}/link_layer", keys.get("layer", "Ethernet"))
        self.file(f"{port}/state", keys.get("state", "4: ACTIVE"))
        self.file(f"{port}/phys_state", keys.get("physical", "5: LinkUp"))
        self.file(f"{port}/rate", f"{keys.get('rate', '400')} Gb/sec (4X NDR)")
        gids = ["fe80:0000:0000:0000:0202:c9ff:fe00:0001"]
        if "gid" in keys:
            a, b, c, d = (int(part) for part in keys["gid"].split("."))
            gids.append(f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}")
        for index, gid in enumerate(gids):
            self.file(f"{port}/gids/{index}", gid)
            self.file(f"{port}/gid_attrs/types/{index}", keys.get("type", "RoCE v2") if ethernet else "IB/RoCE v1")
            if "netdev" in keys:
                self.file(f"{port}/gid_attrs/ndevs/{index}", keys["netdev"])
        self.facts["devices"][f"dev/infiniband/uverbs{len(self.facts['devices'])}"] = {"may_open": keys.get("open", "yes") == "yes",
                                                                                      "error": None if keys.get("open", "yes") == "yes" else "Permission denied"}  # fmt: skip

    def gpu(self, address, keys):
        self.nvml = self.nvml or {"driver": "550.54.15", "cuda": 12040, "gpus": []}
        gpu = {"index": len(self.nvml["gpus"]), "name": keys["name"], "uuid": f"GPU-{len(self.nvml['gpus'])}",
               "pci": f"0000{address.upper()}" if address != "-" else None}  # fmt: skip
        for key in ("memory_bytes", "bar1_bytes", "bar1_used"):
            if key in keys:
                gpu[key] = size(keys[key])
        for key in ("persistence", "ecc"):
            if key in keys:
                gpu[key] = keys[key] == "on"
        gpu["ecc_pending"] = gpu.get("ecc")
        for key, name in (("errors", "ecc_errors"), ("throttled", "throttled")):
            if key in keys:
                gpu[name] = int(keys[key], 0)
        self.nvml["gpus"].append({key: value for key, value in gpu.items() if value is not None})
        if address != "-":
            self.file(f"proc/driver/nvidia/gpus/{address}/information", f"Model: \t\t {keys['name']}\nGPU UUID: \t {gpu['uuid']}")

    def net(self, name, keys):
        link = {"name": name, "index": len(self.network["links"]) + 2, "mtu": int(keys.get("mtu", 1500)), "up": True, "carrier": True,
                "addresses": keys["ip"].split(",") if "ip" in keys else []}  # fmt: skip
        link |= {key: keys[key] for key in ("kind", "on") if key in keys}
        link |= {key: int(keys[key], 0) for key in ("pfc", "phc", "vlan") if key in keys}
        for key in ("dscp", "egress"):
            if key in keys:
                link[key] = {one.split(":")[0]: int(one.split(":")[1]) for one in keys[key].split(",") if one}
        if "pause" in keys:
            link["pause"] = {"rx": keys["pause"] == "on", "tx": keys["pause"] == "on"}
        if "ecn" in keys:
            self.file(f"sys/class/net/{name}/ecn/roce_np/enable/3", keys["ecn"])
        self.network["links"].append(link)

    def route(self, to, keys):
        self.network["routes"].append({"to": to, **{key: int(value) if key == "hop_limit" else value for key, value in keys.items()}})

    # ---- Lines ----

    def macro(self, line):
        words = shlex.split(line)
        getattr(self, words[0])(words[1], dict(word.split("=", 1) for word in words[2:]))

    def take(self, text):
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        while lines:
            line = lines.pop(0)
            if line.split(" ", 1)[0] in ("pci", "rdma", "net", "route", "gpu"):
                self.macro(line)
            elif line.startswith("json "):
                name, value = line[5:].split(": ", 1)
                self.facts[name] = json.loads(value)
            elif line.startswith("bytes "):
                path, value = line[6:].split(": ", 1)
                self.file(path, zlib.decompress(base64.b64decode(value)))
            elif " -> " in line:
                self.link(*line.split(" -> "))
            elif line.endswith("/"):
                (self.folder / line).mkdir(parents=True, exist_ok=True)
            elif line.endswith(":"):
                more = []
                while lines and lines[0].startswith(" "):
                    more.append(lines.pop(0)[4:])
                self.file(line[:-1], "\n".join(more))
            else:
                path, value = line.split(": ", 1)
                self.file(path, value.encode().decode("unicode_escape"))
        self.facts.setdefault("network", self.network)
        self.facts.setdefault("nvml", self.nvml or {"unavailable": "there is no libnvidia-ml.so.1: the NVIDIA driver's library"})
        for name, value in self.facts.items():
            self.file(f"penstock/{name}.json", json.dumps(value))


def unpack(text, folder):
    """Below a new folder."""
    pathlib.Path(folder).mkdir()
    Machine(folder).take(text)


def pack(folder):
    """The text of a recording, without hwloc's tree, which the doctor does not read."""
    lines = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            lines.append(f"{name} -> {path.readlink()}")
        elif path.is_dir():
            lines += [] if any(path.iterdir()) else [f"{name}/"]
        elif name.startswith("penstock/"):
            lines += [f"json {path.stem}: {json.dumps(json.loads(path.read_text()))}"] if path.suffix == ".json" else []
        elif b"\0" in path.read_bytes():
            lines.append(f"bytes {name}: {base64.b64encode(zlib.compress(path.read_bytes())).decode()}")
        else:
            text = path.read_text().rstrip("\n").split("\n")
            is_plain = len(text) == 1 and "\\" not in text[0] and text[0].isascii() and not text[0].endswith((":", "/"))
            lines += [f"{name}: {text[0]}"] if is_plain else [f"{name}:", *(f"    {line}" for line in text)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if pathlib.Path(sys.argv[1]).is_dir():
        sys.exit(print(pack(sys.argv[1]), end=""))
    unpack(pathlib.Path(sys.argv[1]).read_text(), sys.argv[2])
