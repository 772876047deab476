# SPDX-License-Identifier: Apache-2.0
"""Runs a command in a network namespace with two interfaces, pa and pb, joined by a veth pair:
what DPDK's af_packet and pcap send on one arrives on the other."""
import os
import shutil
import subprocess
import sys

SKIPPED = 77
INSIDE = "PENSTOCK_LINKS_INSIDE"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def make_links():
    """Without addresses of the kernel's: the ports have addresses of their own."""
    commands = ["link add pa type veth peer name pb"]
    for name in ("pa", "pb"):
        commands.append(f"link set {name} mtu 4000 addrgenmode none up")
    for command in commands:
        made = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        if made.returncode:
            skip(f"ip {command}: {made.stderr.strip()}")


def main():
    if os.environ.get(INSIDE):
        make_links()
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
