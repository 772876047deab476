# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a network namespace with two interfaces, pa and pb: what DPDK sends on one
arrives on the other. They are a veth pair for its af_packet and pcap, and ports of a bridge for its tap."""
import os
import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
INSIDE = "PENSTOCK_LINKS_INSIDE"
NAMES = ("pa", "pb")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def run_ip(command):
    made = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
    if made.returncode:
        skip(f"ip {command}: {made.stderr.strip()}")


def make_veth():
    """Without addresses of the kernel's: the ports have addresses of their own."""
    run_ip("link add pa type veth peer name pb")
    for name in NAMES:
        run_ip(f"link set {name} mtu 4000 addrgenmode none up")


def make_taps():
    """They outlast the ports, which take them over and leave them."""
    if not pathlib.Path("/dev/net/tun").exists():
        skip("there is no /dev/net/tun")
    run_ip("link add name bridge address 02:00:00:00:00:ff type bridge mcast_snooping 0")
    run_ip("link set bridge addrgenmode none up")
    for name in NAMES:
        run_ip(f"tuntap add {name} mode tap multi_queue")
        run_ip(f"link set {name} addrgenmode none master bridge")


def main():
    if os.environ.get(INSIDE):
        if "ethernet-tap" in sys.argv:
            make_taps()
        else:
            make_veth()
        return subprocess.run(sys.argv[1:], check=False).returncode
    for program in ("unshare", "ip"):
        if not shutil.which(program):
            skip(f"{program} is not installed")
    new = ["unshare", "-n"] if os.getuid() == 0 else ["unshare", "-Urn"]
    if subprocess.run([*new, "true"], capture_output=True, check=False).returncode:
        skip("no network namespaces here")
    environment = dict(os.environ, **{INSIDE: "1"})
    command = [*new, sys.executable, __file__, *sys.argv[1:]]
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
