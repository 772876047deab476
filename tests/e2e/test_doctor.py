#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock doctor on recorded machines: each step of their set-up broken in turn, and on this one."""
import os
import pathlib
import re
import shutil
import subprocess

from harness import LEAKS_OF_OTHERS, ROOT, Case, main
from machines import pack, unpack

MACHINES = pathlib.Path(__file__).resolve().parent / "machines"
PAGE = ROOT / "docs" / "operations" / "doctor.md"
SOURCES = ROOT / "apps" / "doctor"
RDMA_8 = "rdma mlx5_0 pci=0000:18:00.0 netdev=rdma0 gid=10.0.0.1"
RDMA_1 = "rdma mlx5_0 pci=0005:01:00.0 netdev=eth1 gid=192.168.1.2"
ETHERNET = "ethernet-mlx5-gpu.yaml", "0000:03:00.0", "0005:03:00.0"
PINNED = "loopback.yaml", "streams:", "threads: {cpus: [2]}\nstreams:"
CLASS = "verbs.yaml", "device: mlx5_0", "device: mlx5_0\n    traffic_class: 104"
# Machine, what is changed in its text, the check that then says so, its verdict, its remedy; after those, the file of
# --for with what is changed in it.
BROKEN = [
    ("dgx-h100", "osrelease: 5.15.0-1042-nvidia", "osrelease: 4.18.0", "kernel", "warning", "5.12 or later"),
    ("dgx-h100", "width=16 bar1=128G iommu=identity", "width=16 bar1=128G iommu=DMA-FQ", "iommu", "fails", "iommu=pt"),
    ("dgx-h100", "pci 0000:17:00.0 on=0000:16:00.0 vendor=0x1000 device=0xc030 numa=0 acs=off",
     "pci 0000:17:00.0 on=0000:16:00.0 vendor=0x1000 device=0xc030 numa=0 acs=on", "acs", "warning", "setpci -s 0000:17:00.0 ECAP_ACS"),
    ("igx", "Max locked memory         unlimited            unlimited", "Max locked memory         8388608              8388608 ",
     "memlock", "fails", "memlock unlimited"),
    ("igx", "scaling_governor: performance", "scaling_governor: schedutil", "cpu-governor", "warning", "cpupower"),
    ("dgx-h100", "numa_balancing: 0", "numa_balancing: 1", "numa", "warning", "numa_balancing=0"),
    ("pod", "memory.max: 34359738368", "memory.max: 33554432", "container", "fails", "limits.memory"),
    ("jetson-orin", f" driver=mlx5_core speed=16 width=8\n{RDMA_1} rate=100", "", "adapter-driver", "fails", "modprobe mlx5_core"),
    ("pod", "netdev=net1 gid", "netdev=net1 open=no gid", "adapter-nodes", "fails", "chmod 666"),
    ("igx", "rate=100", "rate=100 firmware=0.0.0", "firmware", "warning", "mlxfwmanager --online -u -d 0"),
    ("dgx-h100", RDMA_8, f"{RDMA_8} state='1: DOWN' physical='3: Disabled'", "port-state", "warning", "ip link set rdma0 up"),
    ("igx", "rate=100", "rate=100 state='1: DOWN' physical='3: Disabled'", "port-state", "fails", "ip link set eth2 up"),
    ("soft-roce-recorded", '"dev/infiniband/uverbs0": {"error": null, "may_open": true}',
     '"dev/infiniband/uverbs0": {"error": "Permission denied", "may_open": false}', "adapter-nodes", "fails", "/dev/infiniband"),
    ("cloud-vm", "layer=InfiniBand", "layer=InfiniBand state='2: INIT'", "port-state", "fails", "opensm"),
    ("igx", "driver=mlx5_core speed=32 width=8", "driver=mlx5_core speed=16 speed_most=32 width=8", "pcie-link", "warning", "slot"),
    ("igx", "driver=mlx5_core speed=32 width=8", "driver=mlx5_core speed=32 width=4 width_most=8", "pcie-link", "warning", "slot"),
    ("igx", " gid=192.168.1.1", "", "gid", "fails", "ip address add"),
    ("igx", "rate=100", "rate=100 type='IB/RoCE v1'", "roce-mode", "fails", "cma_roce_mode"),
    ("jetson-orin", "speed=16 width=8", "speed=16 width=8 relaxed=off", "relaxed-ordering", "warning", "setpci -s 0005:01:00.0"),
    ("jetson-orin", "speed=16 width=8", "speed=16 width=8 reads=512", "pcie-reads", "warning", "setpci -s 0005:01:00.0"),
    ("igx", "mtu=9000", "mtu=1500", "mtu", "warning", "ip link set eth2 mtu 9000"),
    ("igx", "pause=on", "pause=off", "flow-control", "warning", "mlnx_qos -i eth2"),
    ("igx", "ecn=1", "ecn=0", "ecn", "warning", "ecn/roce_np/enable"),
    ("dgx-h100", "arp_ignore: 1", "arp_ignore: 0", "arp", "warning", "arp_ignore=1"),
    ("dgx-h100", "ip_default_ttl: 64", "ip_default_ttl: 1", "hop-limit", "fails", "ip_default_ttl=64"),
    ("dgx-h100", "gateway=192.0.2.1 link=eno1", "gateway=192.0.2.1 link=eno1 hop_limit=1", "hop-limit", "fails", "ip route replace"),
    ("dgx-h100", "class=0x030200 numa=0 driver=nvidia speed", "class=0x030200 numa=0 driver=nouveau speed", "gpu-driver", "fails", "nvidia-open"),
    ("igx", "bar1_bytes=64G", "bar1_bytes=256M", "bar1", "warning", "Above 4G Decoding"),
    ("cloud-vm", "persistence=on", "persistence=off", "persistence", "warning", "nvidia-persistenced"),
    ("cloud-vm", "ecc=on", "ecc=off", "ecc", "warning", "nvidia-smi -e 1 -i 0"),
    ("cloud-vm", "errors=0", "errors=3", "ecc", "fails", "nvidia-smi -r -i 0; replace it if"),
    ("cloud-vm", "UNIX Open Kernel Module", "UNIX x86_64 Kernel Module", "gpudirect", "fails", "modprobe nvidia-peermem"),
    ("h200-vm-recorded", "bus/pci/drivers/nvidia\n", "bus/pci/drivers/nouveau\n", "gpu-driver", "fails", "nvidia-open"),
    ("h200-vm-recorded", '"bar1_bytes": 274877906944', '"bar1_bytes": 268435456', "bar1", "warning", "Above 4G Decoding"),
    ("h200-vm-recorded", '"persistence": true', '"persistence": false', "persistence", "warning", "nvidia-persistenced"),
    ("h200-vm-recorded", '"ecc_errors": 0', '"ecc_errors": 3', "ecc", "fails", "nvidia-smi -r -i 0; replace it if"),
    ("h200-vm-recorded", '"throttled": 0', '"throttled": 64', "gpu-clocks", "warning", "airflow"),
    ("container-recorded", "memory.max: 536870912", "memory.max: 33554432", "container", "fails", "limits.memory"),
    ("container-recorded", "cpu.max: 200000 100000", "cpu.max: 50000 100000", "cpu-quota", "warning", "limits.cpu"),
    ("container-recorded", "Max locked memory         unlimited            unlimited", "Max locked memory         8388608              8388608 ",
     "memlock", "fails", "in a pod the capability IPC_LOCK"),
    ("container-recorded", '"dev/infiniband/uverbs0": {"error": null, "may_open": true}',
     '"dev/infiniband/uverbs0": {"error": "Permission denied", "may_open": false}', "adapter-nodes", "fails", "/dev/infiniband"),
    ("h200-vm-recorded", "memory.max: 137438953472", "memory.max: 33554432", "container", "fails", "limits.memory"),
    ("h200-vm-recorded", "cpu.max: max 100000", "cpu.max: 50000 100000", "cpu-quota", "warning", "limits.cpu"),
    ("pod-recorded", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/cpuset.cpus.effective: 3\nsys/fs/cgroup/cpu.max", "isolation", "fails",
     "write CPUs of 3 at", PINNED),
    ("jetson-orin", "sys/module/nvgpu/refcnt: 3\n", "", "igpu", "fails", "modprobe nvgpu"),
    ("laptop", '"name": "ethernet", "usable": true', '"name": "ethernet", "usable": false, "reason": "no DPDK", "remedy": "install it"',
     "dpdk", "warning", "install it"),
    ("laptop", '"name": "ucx", "usable": true', '"name": "ucx", "usable": false, "reason": "no UCX", "remedy": "install it"',
     "ucx", "warning", "install it"),
    ("laptop", "json plugins", 'json clock: {"synchronised": false, "error_us": 0}\njson plugins', "clock", "warning", "chrony"),
    ("cloud-vm", "json plugins", 'json processes: {"ptp4l": true, "phc2sys": false}\njson plugins', "ptp", "warning", "phc2sys"),
    ("laptop", "cpu/isolated: ", "cpu/isolated: 4-7", "isolation", "warning", "write isolated CPUs, which are 4-7, at", PINNED),
    ("laptop", "cpu/isolated: ", "cpu/online: 0-1\nsys/devices/system/cpu/isolated: ", "isolation", "fails", "write CPUs of 0-1 at", PINNED),
    ("pod", "run/secrets", "sys/fs/cgroup/cpuset.cpus.effective: 3-7\nrun/secrets", "isolation", "fails", "write CPUs of 3-7 at", PINNED),
    ("igx", "HugePages_Free:    512", "HugePages_Free:    0", "huge-pages", "fails", "vm.nr_hugepages=",
     ("ethernet-mlx5-gpu.yaml", "0000:03:00.0", "0009:03:00.0")),
    ("pod", "run/secrets", "sys/fs/cgroup/cpu.max: 50000 100000\nrun/secrets", "cpu-quota", "warning", "limits.cpu"),
    ("igx", "rate=100", "rate=100 layer=InfiniBand", "link-type", "fails", "mlxconfig -d 0005:03:00.0 set LINK_TYPE_P1=2", ETHERNET),
    ("dgx-h100", "26:3", "26:0", "priority", "warning", "set traffic_class: 96", CLASS),
    ("dgx-h100", "pci 0000:15:01.0 on=pci0000:15", "pci 0000:15:01.0 device=0x6f02 on=pci0000:15", "relaxed-ordering", "warning",
     "setpci -s 0000:18:00.0 CAP_EXP+8.w=0000:0010"),
    ("igx", "bar1_used=1M", "bar1_used=65520M", "bar1", "fails", "smaller `ring`", ETHERNET),
    ("cloud-vm", "errors=0", "errors=0 throttled=0x40", "gpu-clocks", "warning", "airflow"),
    ("cloud-vm", "errors=0", "errors=0 throttled=0x88", "gpu-clocks", "warning", "power supplies"),
    ("igx", "pci 0005:09:00.0 on=0005:02:03.0", "pci 0005:09:00.0 on=pci0007:00", "pair", "warning", "penstock topo"),
]  # fmt: skip
# Breaks with others: where the kernel loads no module, those of a GPU are missing.
TOGETHER = {"lockdown": "test_secure_boot_where_a_driver_is_missing"}
# Two at once: what is broken shows only where another thing is, too.
BOTH = {
    # With closed modules dma-buf is not there, and peermem is.
    ("dgx-h100", "UNIX Open Kernel Module", "UNIX x86_64 Kernel Module"): {},
    ("laptop", "scaling_governor: powersave", "scaling_governor: ondemand"): {},
}
# A file of a recording, what stands in it instead.
HOSTILE = [
    ("penstock/denied.json", '{"paths": {}}'), ("penstock/denied.json", '"x"'), ("penstock/denied.json", '{"paths": [null, 5, {}]}'),
    ("penstock/nvml.json", '{"gpus": {}, "cuda": []}'), ("penstock/nvml.json", '{"gpus": [null, 5, {"pci": {}, "name": []}]}'),
    ("penstock/plugins.json", '{"plugins": 5}'), ("penstock/plugins.json", '{"plugins": [{}, null, {"kind": 5, "name": []}]}'),
    ("penstock/devices.json", '{"dev/infiniband/uverbs0": {"may_open": false, "error": null}, "dev/infiniband/uverbs1": 5}'),
    ("penstock/network.json", '{"links": [null, {"name": "a/b"}, {"name": "eno1", "addresses": [null, {}, 5]}], "routes": [null, 5], "neighbours": 5}'),
    ("penstock/network.json", '{"unavailable": null}'), ("penstock/clock.json", "[" * 1000), ("penstock/clock.json", "{"),
    ("proc/meminfo", "Hugepagesize: 0 kB\nHugePages_Total: 99999999999999999999"), ("proc/self/cgroup", "0::/../../../../../../tmp"),
    ("proc/self/cgroup", "5:memory:/"),
]  # fmt: skip
# Calls that change something, beside those that changes() tells by their arguments.
CHANGING = re.compile(r"creat|(mk|rm)dir(at)?|mknod(at)?|(sym|un)?link(at)?|rename(at2?)?|[lf]?ch(mod|own)(at2?)?|f?truncate(64)?|fallocate|"
                      r"u?time(s|nsat)?|f?utimesat|[lf]?(set|remove)xattr|u?mount2?|move_mount|pivot_root|swapo(n|ff)|reboot|set(host|domain)name|"
                      r"(f?init|delete)_module|kexec_\w+|bpf|settimeofday|clock_settime|t?g?kill|quotactl|acct|connect|iop(l|erm)|sendfile|"
                      r"splice|copy_file_range")  # fmt: skip
READING = re.compile(r"/proc/self/|/dev/null|/dev/infiniband/uverbs|/dev/tty")
# Requests by netlink: RTM_GET…, CTRL_CMD_GETFAMILY (3), ETHTOOL_MSG_PAUSE_GET (21) and _TSINFO_GET
# (25).
ASKING = re.compile(r'nlmsg_type=(?:RTM_GET\w+|nlctrl, .*"\\x03\\x01|ethtool, .*"\\x(?:15|19)\\x01)')
GETTING = {"TCGETS", "TIOCGWINSZ", "SIOCGIFNAME", "SIOCGIFINDEX", "FIONREAD"}


def changes(line):
    """Whether this call, as strace writes it, changes the machine."""
    name, arguments = re.match(r"(?:\d+ +)?(\w+)\((.*)", line).groups()
    if name in ("open", "openat", "openat2"):
        return re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)", line) and not READING.search(line)
    if name == "ioctl":
        return arguments.split(", ")[1].rstrip(") ").split("(")[0] not in GETTING
    if name in ("adjtimex", "clock_adjtime"):
        return "modes=0," not in line
    if name in ("sendto", "sendmsg", "sendmmsg"):
        return not ASKING.search(line)
    return CHANGING.fullmatch(name)


# Findings that each such machine has.
ALWAYS = {"cloud-vm": {"pair": "warning"},
          "cloud-vm-recorded": {"clock": "warning", "container": "cannot tell", "cpu-quota": "cannot tell"},
          "container-recorded": {"mtu": "warning", "clock": "warning"},
          "h200-vm-recorded": {"clock": "warning", "dpdk": "warning", "ucx": "warning"},
          "pod-recorded": {"clock": "warning"},
          "soft-roce-recorded": {"mtu": "warning", "clock": "warning"}}  # fmt: skip


class Doctor(Case):
    def machine(self, name, *changes):
        text = (MACHINES / f"{name}.txt").read_text()
        for old, new in changes:
            self.assertIn(old, text, "the machine has what is changed")
            text = text.replace(old, new, 1)
        Doctor.number = getattr(Doctor, "number", 0) + 1
        folder = self.folder / f"{name}-{Doctor.number}"
        unpack(text, folder)
        return folder

    def find(self, folder, *words, status=None):
        """The findings that are not ok, by check; and all."""
        result, child = self.run_json("doctor", "--root", str(folder), *words, expect=status)
        self.assertEqual(child.process.returncode, result["exit_status"])
        return {one["check"]: one for one in result["findings"] if one["verdict"] != "ok"}, result

    def test_machines_that_are_set_up(self):
        for path in sorted(MACHINES.glob("*.txt")):
            with self.subTest(path.stem):
                found, result = self.find(self.machine(path.stem), status=0)
                self.assertEqual({check: one["verdict"] for check, one in found.items()}, ALWAYS.get(path.stem, {}))
                is_small = path.stem.endswith("-recorded")  # fewer things to look at
                self.assertGreater(result["doctor"]["counts"]["ok"], 6 if is_small else 8)

    def test_what_is_so_on_recorded_machines(self):
        text = self.run_program("doctor", "--root", str(self.machine("cloud-vm-recorded"))).stdout
        for line in (r"ok +kernel +Linux 6\.18\.44-cloud", "ok +iommu +no IOMMU", "ok +huge-pages +0 of 0 huge pages of 2048 KiB",
                     "ok +isolation +isolated CPUs: none; this process may run on 0-1", "cannot tell +container +.* control groups of version 1",
                     "warning +clock +the system's clock is not synchronised", "ok +ptp +no network device has a PTP clock",
                     "no RDMA adapter is here", "no GPU of NVIDIA is here"):  # fmt: skip
            self.assertRegex(text, rf"(?m)^ *{line}")
        text = self.run_program("doctor", "--root", str(self.machine("soft-roce-recorded"))).stdout
        for line in (r"ok +port-state +rxe0: ACTIVE, 2\.5 Gb/s", "ok +gid +rxe0: GID 1 is ipv4-1, RoCE v2", "warning +mtu +eth0: MTU 1500"):
            self.assertRegex(text, rf"(?m)^ *{line}")
        text = self.run_program("doctor", "--root", str(self.machine("container-recorded"))).stdout
        for line in ("ok +container +a container; its control group limits memory to 512 MiB", "ok +cpu-quota +a control group limits CPU time to 2 CPUs",
                     "ok +memlock +this process may lock unlimited", "ok +adapter-nodes +1 of 1 nodes may be opened",
                     "ok +isolation +isolated CPUs: none; this process may run on 0$"):  # fmt: skip
            self.assertRegex(text, rf"(?m)^ *{line}")
        text = self.run_program("doctor", "--root", str(self.machine("pod-recorded"))).stdout
        for line in (r"ok +kernel +Linux 6\.1\.0-57-amd64", "ok +isolation +isolated CPUs: none; this process may run on 2-3",
                     "ok +container +a pod; its control group limits memory to 512 MiB", "ok +cpu-quota +a control group limits CPU time to 2 CPUs",
                     "warning +clock +", "no RDMA adapter is here", "no GPU of NVIDIA is here"):  # fmt: skip
            self.assertRegex(text, rf"(?m)^ *{line}")
        text = self.run_program("doctor", "--root", str(self.machine("h200-vm-recorded"))).stdout
        for line in ("ok +container +a container; its control group limits memory to 131072 MiB", "ok +cpu-quota +no control group limits CPU time",
                     r"ok +gpu-driver +GPU 0000:00:06\.0: NVIDIA H200: driver 580\.159\.04, open modules", "ok +bar1 +.* BAR1 is 262144 MiB",
                     "ok +persistence +.* persistence mode is on", "ok +ecc +.* ECC is on; uncorrected errors: 0",
                     "ok +gpu-clocks +", "no RDMA adapter is here"):  # fmt: skip
            self.assertRegex(text, rf"(?m)^ *{line}")

    def yaml(self, name, old, new):
        """--for one of the examples, changed."""
        text = (ROOT / "config" / name).read_text()
        self.assertIn(old, text)
        return "--for", str(self.write(name, text.replace(old, new)))

    def test_each_step_broken_in_turn(self):
        for machine, old, new, check, verdict, remedy, *file in BROKEN:
            with self.subTest(machine=machine, check=check, new=new):
                words = [word for one in file for word in self.yaml(*one)]
                always = {} if file else ALWAYS.get(machine, {})
                if file:  # the others are those of test_machines_that_are_set_up
                    self.assertEqual(self.find(self.machine(machine), *words, status=0)[0], {})
                found, result = self.find(self.machine(machine, (old, new)), *words)
                wanted = {**always, check: verdict}
                self.assertEqual({name: one["verdict"] for name, one in found.items()}, wanted)
                self.assertIn(remedy, found[check]["remedy"])
                self.assertEqual(result["exit_status"], int("fails" in wanted.values()))

    def test_what_makes_up_for_what_is_missing(self):
        for (machine, old, new), wanted in BOTH.items():
            with self.subTest(machine=machine, new=new):
                found, _ = self.find(self.machine(machine, (old, new)))
                self.assertEqual({name: one["verdict"] for name, one in found.items()}, wanted)

    def test_each_check_is_broken_here_and_on_the_page(self):
        checks, declared = set(), 0
        for path in SOURCES.glob("*_checks.c"):
            table = path.read_text().split("struct doctor_check doctor_", 1)[1]
            checks |= set(re.findall(r'(?m)^    \{"([a-z0-9-]+)", (?:"\w+"|ADAPTER),', table))
            declared += len(re.findall(r"(?m)^    \{", table))
        self.assertEqual(len(checks), declared, "each row of the tables is read")
        self.assertEqual(checks, {row[3] for row in BROKEN} | set(TOGETHER))
        for test in TOGETHER.values():
            self.assertTrue(hasattr(self, test), test)
        told = set(re.findall(r"(?m)^\| `([a-z0-9-]+)` \|", PAGE.read_text().split("## Checks")[1]))
        self.assertEqual(told, checks | {"adapter-here", "gpu-here"})

    def test_priorities(self):
        """By the DSCP where the port trusts it; otherwise by the VLAN's tag, from the service level or, by rdma_cm, the map."""
        port = "net rdma0 mtu=9000 ip=10.0.0.1/24 driver=mlx5_core pfc=0x08"
        vlan = "\nnet rdma0.7 kind=vlan on=rdma0 vlan=7 egress="
        level, cm = "\n    service_level: 3", "\n    connection: rdma_cm"
        for what, dscp, tagged, options, remedy in (
                ("untagged", "", None, "", "mlnx_qos -i rdma0 --trust dscp"), ("untagged with a level", "", None, level, "--trust dscp"),
                ("tagged", "", "", "", "set service_level: 3"), ("tagged with the level", "", "", level, None),
                ("rdma_cm without a map", "", "", cm, "type vlan egress 0:3"), ("rdma_cm with a map", "", "0:3", cm, None),
                ("rdma_cm, another entry", "", "0:3", f"{cm}\n    traffic_class: 8", "type vlan egress 2:3"),
                ("DSCP", " dscp=0:0,26:3", "", "\n    traffic_class: 104", None), ("DSCP", " dscp=0:0,26:3", "", level, "set traffic_class: 104"),
                ("the last DSCP", " dscp=0:0,63:3", "", level, "set traffic_class: 252"),
                ("no DSCP", " dscp=0:0,26:4", "", "\n    traffic_class: 104", "mlnx_qos -i rdma0 --dscp2prio set,26,3")):  # fmt: skip
            with self.subTest(what):
                line = f"{port}{dscp} ecn=1{'' if tagged is None else vlan + tagged}\n#"
                words = self.yaml("verbs.yaml", "device: mlx5_0", f"device: mlx5_0{options}")
                found, _ = self.find(self.machine("dgx-h100", (port, line)), *words, status=0)
                self.assertEqual(set(found), {"priority"} if remedy else set())
                if remedy:
                    self.assertIn(remedy, found["priority"]["remedy"])

    def test_a_root_port_that_is_slow_with_relaxed_ordering(self):
        """A setting that the kernel has turned off below the adapter stays off."""
        root, adapter = "pci 0000:15:01.0 on=pci0000:15", "pci 0000:18:00.0 on=0000:17:01.0"
        folder = self.machine("dgx-h100", (root, f"{root} device=0x2f08"), (adapter, f"{adapter} relaxed=off"))
        self.assertEqual(self.find(folder, status=0)[0], {})

    def test_secure_boot_where_a_driver_is_missing(self):
        folder = self.machine("cloud-vm", ("[none] integrity", "none [integrity]"), ("numa=0 driver=nvidia", "numa=0"),
                              ("sys/module/nvidia/version: 550.54.15\n", ""))  # fmt: skip
        found, _ = self.find(folder, status=1)
        self.assertEqual({"lockdown", "gpu-driver", "pair"}, set(found))
        self.assertIn("mokutil", found["lockdown"]["remedy"])

    def test_what_only_root_can_read_is_said_to_be_so(self):
        found, _ = self.find(self.machine("jetson-orin", ("speed=16 width=8", "speed=16 width=8 config=64")), status=0)
        self.assertEqual({"relaxed-ordering", "pcie-reads"}, set(found))
        for one in found.values():
            self.assertEqual((one["verdict"], one["why"]), ("cannot tell", "only root may read it"))
            self.assertIn("sudo penstock doctor", one["remedy"])
        self.find(self.machine("jetson-orin", ("speed=16 width=8", "speed=16 width=8 config=64")), "--area", "adapter", status=3)

    # ---- --for ----

    def test_for_a_file(self):
        """`doctor --for` reports what the file needs, and nothing else."""
        dgx, laptop = self.machine("dgx-h100"), self.machine("laptop")
        file = str(ROOT / "config" / "verbs.yaml")
        found, result = self.find(dgx, "--for", file, status=0)
        self.assertEqual({one["area"] for one in result["findings"]}, {"host", "adapter"})
        self.assertEqual({one["subject"] for one in result["findings"] if one["check"] == "firmware"}, {"mlx5_0"})
        found, _ = self.find(laptop, "--for", file, status=3)
        self.assertEqual({name: one["verdict"] for name, one in found.items()}, {"adapter-here": "not here"})
        found, result = self.find(laptop, "--for", str(ROOT / "config" / "loopback.yaml"), status=0)
        self.assertEqual({one["area"] for one in result["findings"]}, {"host"})

    def test_for_a_device_that_is_not_here(self):
        file = self.write("away.yaml", (ROOT / "config" / "verbs.yaml").read_text().replace("mlx5_0", "mlx5_77"))
        found, _ = self.find(self.machine("dgx-h100"), "--for", str(file), status=3)
        self.assertEqual((found["adapter-here"]["subject"], len(found)), ("mlx5_77", 1))

    def test_for_huge_pages_and_frames(self):
        file = str(ROOT / "config" / "ethernet-mlx5-gpu.yaml")
        found, _ = self.find(self.machine("igx"), "--for", file, status=0)
        self.assertEqual(found, {})
        found, _ = self.find(self.machine("igx", ("HugePages_Free:    512", "HugePages_Free:    0")), "--for", file, status=1)
        self.assertEqual(set(found), {"huge-pages"})
        self.assertIn("vm.nr_hugepages=", found["huge-pages"]["remedy"])
        # mlx5 itself needs none.
        text = (ROOT / "config" / "ethernet-mlx5-gpu.yaml").read_text().replace("0000:03:00.0", "0005:03:00.0")
        file = str(self.write("mlx5.yaml", text))
        found, _ = self.find(self.machine("igx", ("HugePages_Free:    512", "HugePages_Free:    0")), "--for", file, status=0)
        self.assertEqual(found, {})

    def test_a_root_port_redirects_nothing(self):
        port, below = ("pci 0000:15:01.0 on=pci0000:15 numa=0 acs=off", "pci 0000:17:01.0 on=0000:16:00.0 vendor=0x1000 device=0xc030 numa=0 acs=off")
        found, _ = self.find(self.machine("dgx-h100", (port, port.replace("off", "on"))), status=0)
        self.assertEqual(found, {})
        # The bridge above an adapter alone.
        found, _ = self.find(self.machine("dgx-h100", (below, below.replace("off", "on"))), status=0)
        self.assertEqual((set(found), found["acs"]["subject"]), ({"acs"}, "0000:17:01.0"))

    def test_what_vfio_has_needs_no_driver(self):
        folder = self.machine("jetson-orin", (f" driver=mlx5_core speed=16 width=8\n{RDMA_1} rate=100", " driver=vfio-pci"))
        self.assertNotIn("adapter-driver", self.find(folder)[0])

    def test_a_route_s_remedy_keeps_the_route(self):
        route = "gateway=192.0.2.1 link=eno1"
        folder = self.machine("dgx-h100", (route, f"{route} hop_limit=1 metric=100 source=192.0.2.9"))
        self.assertRegex(self.find(folder)[0]["hop-limit"]["remedy"], "dev eno1 src 192.0.2.9 metric 100$")

    def test_a_peer_given_by_a_name(self):
        text = (ROOT / "config" / "verbs.yaml").read_text().replace('"127.0.0.1:18515"', '"far.example:18515"\n  insecure: true')
        text = text.replace(*CLASS[1:])
        found, _ = self.find(self.machine("dgx-h100"), "--for", str(self.write("far.yaml", text)), status=3)
        self.assertEqual(set(found), {"hop-limit"})
        self.assertIn("write its address", found["hop-limit"]["why"])

    def test_what_no_privilege_can_tell_changes_no_status(self):
        folder = self.machine("igx", ("ecn=1", ""))
        found, _ = self.find(folder, "--area", "adapter", status=0)
        self.assertEqual({check: one["verdict"] for check, one in found.items()}, {"ecn": "cannot tell"})

    def test_control_groups(self):
        """The smallest limit of a group and those above it; version 1 is not read."""
        folder = self.machine("dgx-h100")
        for path, most in (("a/b", "max"), ("a", "33554432")):
            (folder / "sys/fs/cgroup" / path).mkdir(parents=True, exist_ok=True)
            (folder / "sys/fs/cgroup" / path / "memory.max").write_text(most)
        (folder / "proc/self/cgroup").write_text("0::/a/b\n")
        self.assertEqual(self.find(folder, status=1)[0]["container"]["verdict"], "fails")
        (folder / "proc/self/cgroup").write_text("9:memory:/a\n0::/a/b\n")
        self.assertEqual({name: one["verdict"] for name, one in self.find(folder, status=0)[0].items()}, {"container": "cannot tell"})
        (folder / "proc/self/cgroup").write_text("4:cpu,cpuacct:/a\n0::/\n")
        self.assertEqual({name: one["verdict"] for name, one in self.find(folder, status=0)[0].items()}, {"cpu-quota": "cannot tell"})

    def test_a_hop_limit_of_1_in_the_file(self):
        text = (ROOT / "config" / "verbs.yaml").read_text().replace('"127.0.0.1:18515"', '"198.51.100.7:18515"\n  insecure: true')
        self.assertIn("device: mlx5_0", text)
        file = str(self.write("near.yaml", text.replace("device: mlx5_0", f"{CLASS[2]}\n    hop_limit: 1")))
        found, _ = self.find(self.machine("dgx-h100"), "--for", file, status=1)
        self.assertEqual(set(found), {"hop-limit"})
        self.assertIn("near.yaml", found["hop-limit"]["remedy"])
        self.assertRegex(found["hop-limit"]["read"], r"192\.0\.2\.1.*RETRY_EXC_ERR")

    # ---- The command ----

    def test_the_command_line(self):
        for words, why in ((("--area", "adaptr"), "did you mean 'adapter'"), (("--root", "nowhere"), "nowhere: No such file"),
                           (("--root", str(self.folder)), "is not a recording"), (("--root", "a", "--record", "b"), "excludes --root"),
                           (("--for", "nothing.yaml"), "nothing.yaml")):  # fmt: skip
            with self.subTest(words):
                self.assertRegex(self.run_program("doctor", *words, expect=2).stderr, why)

    def test_this_machine_and_its_recording(self):
        """A recording gives what the machine gave, without its name and its addresses."""
        recorded = self.folder / "recorded"
        here = self.run_program("doctor", "--record", str(recorded), expect=None)
        again = self.run_program("doctor", "--root", str(recorded), expect=None)
        self.assertEqual((here.process.returncode, here.stdout), (again.process.returncode, again.stdout))
        unpack(pack(recorded), self.folder / "unpacked")  # as the machines of these tests are kept
        again = self.run_program("doctor", "--root", str(self.folder / "unpacked"), expect=None)
        self.assertEqual((here.process.returncode, here.stdout), (again.process.returncode, again.stdout))
        for path in recorded.glob("sys/bus/pci/devices/*/resource"):  # numbers as long as a GUID
            self.assertEqual(path.read_text(), ("/" / path.relative_to(recorded)).read_text().rstrip("\n"))
        text = "".join(path.read_text(errors="replace") for path in recorded.rglob("*") if path.is_file())
        for line in os.popen("cat /sys/class/net/*/address").read().split():
            if line != "00:00:00:00:00:00":
                self.assertNotIn(line, text)
        self.assertNotRegex(text, r'name="[^"]*(?:Serial|AssetTag|UUID)[^"]*" value="[^"]')
        self.assertIn("exists", self.run_program("doctor", "--record", str(recorded), expect=1).stderr)

    def test_it_changes_nothing(self):
        """doctor and topo open no file for writing, and no ioctl and no message of netlink sets anything."""
        for line in ('1 openat(3, "a", O_RDONLY|O_CLOEXEC) = 4', "1 clock_adjtime(CLOCK_REALTIME, {modes=0, offset=0}) = 5", 'sendmsg(5, {[{nlmsg_type=ethtool, x}, "\\x15\\x01"'):
            self.assertFalse(changes(line), line)
        for line in ('1 openat(3, "a", O_RDONLY|O_CREAT) = 4', "ioctl(5, SIOCETHTOOL, 0x7ff) = 0", "1 fchmodat(3) = 0", 'unlink("a") = 0',
                     "clock_adjtime(CLOCK_REALTIME, {modes=ADJ_OFFSET, x}) = 5", "sendto(5, [{nlmsg_type=RTM_NEWLINK, 0}]) = 1"):  # fmt: skip
            self.assertTrue(changes(line), line)
        if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
            self.skipTest("strace is not installed, or may not trace here")
        for words in (("doctor", "-v"), ("topo",)):
            with self.subTest(words):
                calls = self.folder / "calls"
                child = self.run_program(*words, prefix=("strace", "-f", "-o", str(calls)), expect=None, environment=LEAKS_OF_OTHERS)
                if "this build has no hwloc" in child.stderr:
                    self.skipTest("topo is built without hwloc")
                self.assertIn(child.process.returncode, (0, 1), str(child))
                lines = [line for line in calls.read_text().splitlines() if re.match(r"\d+ +\w+\(", line)]
                self.assertGreater(len(lines), 500)
                self.assertEqual([line for line in lines if changes(line)], [])

    def test_hostile_recordings(self):
        """Each ends with a status, and no signal."""
        for path, text in HOSTILE:
            with self.subTest(path=path, text=text[:80]):
                folder = self.machine("dgx-h100")
                (folder / path).unlink(missing_ok=True)
                (folder / path).write_text(text)
                child = self.run_program("doctor", "--root", str(folder), "-v", expect=None)
                self.assertIn(child.process.returncode, (0, 1, 3), str(child))

    def test_bridges_whose_links_are_crossed(self):
        folder = self.machine("dgx-h100")
        bus = folder / "sys/bus/pci/devices"
        for name, above in (("0000:16:00.0", "0000:17:00.0"), ("0000:17:00.0", "0000:16:00.0")):
            (bus / name).unlink()
            (bus / name).symlink_to(f"../../../devices/pci0000:10/{above}/{name}")
        child = self.run_program("doctor", "--root", str(folder), expect=None)
        self.assertIn(child.process.returncode, (0, 1, 3), str(child))

    def test_a_pipe_is_no_recording_to_wait_for(self):
        folder = self.machine("laptop")
        for path in ("penstock/clock.json", "proc/cmdline", "penstock/denied.json"):
            (folder / path).unlink(missing_ok=True)
            os.mkfifo(folder / path)
        child = self.run_program("doctor", "--root", str(folder), expect=None)
        self.assertIn(child.process.returncode, (0, 1, 3), str(child))

    def test_links_of_a_recording_lead_nowhere_else(self):
        folder = self.machine("laptop")
        (folder / "proc/sys/kernel/osrelease").unlink()
        (folder / "proc/sys/kernel/osrelease").symlink_to("../../../../../../../../etc/hostname")
        found, _ = self.find(folder)
        self.assertEqual(found["kernel"]["verdict"], "cannot tell")


if __name__ == "__main__":
    main()
