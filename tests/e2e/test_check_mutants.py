#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: test_check_mutants.py [--mutants N] [--seed S] | [unittest arguments]

What `check --for COMMAND` accepts, COMMAND does not refuse for the file's sake, and what it does
not accept, COMMAND refuses alike, for run, send and receive: mutants of the files in config/, and
values that go together or not. Without --mutants: as many as some seconds have room for, other ones
each time; their seed is printed.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import stat
import struct
import subprocess
import sys
import tempfile
import time

from harness import Case, PROGRAM, ROOT, SANITIZED, main

SECONDS = 3  # of the short test, whatever the machine does beside it
LEAST = 16  # mutants that it judges, however slow the machine is
USAGE = 2
OURS = {0, 1, 2, 3, 4}
MEMORY = 2 << 30  # bytes of addresses that a mutant has

# Values that are right somewhere, near a limit, or of another kind.
VALUES = """0 1 2 3 7 63 64 65 1462 4096 65491 65492 65507 4194304 4194305 16777216 16777217 -1 1.5
"64 KiB" "1 GiB" "2 GiB" "0 B" "1 B" 250ms 1s 1h 0.1% 2 Gbps true false null none auto direct mapped staged
host cuda loopback udp verbs_rc fault pattern file pcap verify discard sequence rtp rtp_marker
foo "" [] {} [1] {plugin: host} {plugin: udp} 127.0.0.1 10.0.0.1 "::1" 239.1.2.3 "ff15::1"
"127.0.0.1:5004" "[::1]:5004" "fe80::1%nosuch" ipv4 ipv6 off software copy reference""".replace("2 Gbps", '"2 Gbps"')
VALUES = re.findall(r'"[^"]*"|\{[^}]*\}|\S+', VALUES)

# A sanitizer needs addresses without a bound, so that there a mutant must be small by itself.
SMALL = re.compile(r"(?!.*(\d{5}|[KMG]iB))")
if SANITIZED:
    VALUES = [value for value in VALUES if SMALL.match(value)]

# Keys of one stream by the path under it, and what is worth a try there.
KEYS = {
    "message": ["1", "64 B", "1462", "65491", "65492", "65507", "70000", "0"],
    "ring": ["1", "2", "3", "64", "4194305", "16777216"],
    "stride": ["0", "64", "1500", "65536"],
    "timeout": ["1ms", "1s", "0"],
    "region": ["64 KiB", "1 MiB"],
    "sender.transport": ["loopback", "udp", "verbs_rc", "{plugin: udp, options: {to: '127.0.0.1:5004'}}"],
    "receiver.transport": ["loopback", "udp", "{plugin: udp, options: {group: 239.1.2.3}}"],
    "sender.transport.options.to": ["127.0.0.1", "127.0.0.1:5004", "foo", "[::1]:5004", "127.0.0.9"],
    "sender.transport.options.source_port": ["0", "28955"],
    "receiver.transport.options.group": ["foo", "10.0.0.1", "239.1.2.3", "ff15::1"],
    "receiver.transport.options.source": ["foo", "127.0.0.1", "'::1'", "239.1.2.3", "0.0.0.0"],
    "receiver.transport.options.port": ["0", "70000", "28955"],
    "receiver.transport.options.reorder": ["0", "1", "65536"],
    "sender.memory": ["host", "{plugin: host, options: {numa_node: abc}}", "{plugin: host, options: {backing: memfd}}"],
    "receiver.memory": ["host", "{plugin: host, options: {numa_node: '0'}}", "{plugin: host, options: {numa_node: 97}}",
                        "{plugin: cuda, options: {device: eth0}}", "{plugin: cuda, options: {device: '9'}}"],
    "sender.source": ["pattern", "{type: file, file: FOLDER/in}", "{type: file, file: FOLDER/none}",
                      "{type: file, file: FOLDER}", "{type: pcap, file: FOLDER/in.pcap}", "{type: pattern, length: 0}",
                      "{type: pattern, length: 9999999}", "{type: file, file: /dev/null, loop: true}",
                      "{type: file, file: FOLDER/socket}", "{type: file, file: /dev/tty}"],
    "receiver.sink": ["verify", "discard", "{type: file, file: FOLDER/out}", "{type: file, file: FOLDER/none/out}",
                      "{type: file, file: FOLDER/in}", "{type: file, file: FOLDER/in, overwrite: true}",
                      "{type: file, file: FOLDER/CONFIG, overwrite: true}",
                      "{type: file, file: FOLDER/socket}", "{type: file, file: /dev/tty}",
                      "{type: pcap, file: FOLDER/out}", "{type: file, file: FOLDER}"],
    "receiver.path": ["auto", "direct", "mapped", "staged"],
    "sender.path": ["auto", "direct", "staged"],
    "receiver.assemble": ["{packets: 1}", "{packets: 4}", "{packets: 4, by: rtp_marker}", "{packets: 100000000}",
                          "{packets: 4, frames: 1}", "{packets: 4, missing: keep}"],
    "receiver.intervals": ["true"],
    "receiver.count": ["1"],
    "receiver.silence": ["100ms"],
    "receiver.share": ["packets", "nosuch"],
    "sender.share": ["packets", "nosuch"],
    "sender.ring": ["1", "2", "64"],
    "sender.rate": ["100 Mbps", "0"],
    "sender.burst": ["1", "1 MiB"],
    "sender.chunk": ["1", "16777216"],
    "expect": ["{path: direct}", "{max_loss: 0}", "{via: none}"],
}
UDP = {
    "framing": ["sequence", "rtp", "none", "foo"],
    "device": ["127.0.0.1", "'::1'", "lo", "any", "nosuch0", "10.1.2.3", "239.1.2.3", "0.0.0.0"],
    "family": ["auto", "ipv4", "ipv6"],
    "timestamps": ["off", "software", "hardware"],
    "ssrc": ["0", "7"],
    "frame": ["0", "4"],
    "dont_fragment": ["true"],
    "ttl": ["0", "255", "256"],
    "rcvbuf": ["4096", "1 GiB"],
    "gso": ["false"],
    "gro": ["false"],
    "busy_poll": ["1us"],
    "checksum": ["false"],
    "payload_type": ["96", "128"],
    "clock_rate": ["1", "0"],
    "dscp": ["46", "64"],
}
VERBS = {
    "qps": ["1", "2"],
    "operation": ["send", "write"],
    "srq": ["true"],
    "reconnect": ["1s"],
    "keepalive": ["0"],
    "cm_port": ["1"],
    "connection": ["rdma_cm"],
    "gid_index": ["0", "255"],
    "mtu": ["256", "4096", "4097"],
}
ETHERNET = {
    "role": ["auto", "server", "client"], "mtu": ["0", "575", "1500", "9000"], "vlan": ["0", "7", "4095"],
    "descriptors": ["0", "64", "1024", "65536"], "receive": ["auto", "slots", "copy"], "mac": ["foo", "02:00:00:00:00:01"],
    "address": ["[192.0.2.1/24]", "[foo]", "['2001:db8::1/64']", "[192.0.2.1/24, 192.0.2.2/24]", "['2001:db8::1/64', 192.0.2.1/24]"], "framing": ["none", "rtp", "sequence"], "driver": ["ring", "null", "pcap"],
    "to": ["192.0.2.9:5004", "foo"], "patience": ["0", "1 s"], "udp_checksum": ["auto", "software", "none"],
}  # fmt: skip
UCX = {
    "tls": ["posix", "tcp", "'posix,self'", "foo"], "peer_failure": ["auto", "ucx", "own"], "part": ["0", "1 KiB", "1 GiB"],
    "rendezvous_from": ["0", "64 KiB"], "direct_from": ["0", "1 MiB"], "linger": ["0", "250 ms"], "net_devices": ["lo", "foo"], "ucx": ["[FOO=1]", "[foo]", "[MAX_RNDV_RAILS=2]"],
}  # fmt: skip
VERBS_DC = {"initiators": ["0", "1", "1025"], "quota": ["0", "1", "65536"], **{key: VERBS[key] for key in ("keepalive", "gid_index", "mtu")}}
OPTIONS = {"udp": UDP, "verbs_rc": VERBS, "verbs_dc": VERBS_DC, "loopback": {"mode": ["copy", "reference"]}, "ethernet": ETHERNET, "ucx": UCX}


def examples():
    return sorted((ROOT / "config").glob("*.yaml"))


def mutate_line(random_, lines):
    """One line of the file: away, twice, misspelt, another value, or indented otherwise."""
    at = random_.choice([i for i, line in enumerate(lines) if line.split("#")[0].strip()])
    line = lines[at]
    kind = random_.randrange(6)
    if kind == 0:
        return lines[:at] + lines[at + 1 :]
    if kind == 1:
        return lines[:at] + [line, line] + lines[at + 1 :]
    if kind == 2 and len(line.strip()) > 2:
        i = random_.randrange(len(line) - 1)
        line = line[:i] + line[i + 1] + line[i] + line[i + 2 :]
    elif kind == 3:
        line = " " * random_.randrange(4) + line
    elif ":" in line:
        line = line.split(":")[0] + ": " + random_.choice(VALUES)
    return lines[:at] + [line] + lines[at + 1 :]


def cross(random_, stream, transport):
    """Values of keys that depend on one another, as --set."""
    sets = []
    for _ in range(random_.choice((1, 1, 1, 2, 2, 3))):
        die = random_.random()
        if die < 0.4:
            options = OPTIONS[transport if random_.random() < 0.9 else random_.choice(sorted(OPTIONS))]
            key = random_.choice(sorted(options))
            sets.append(f"transport.options.{key}={random_.choice(options[key])}")
        elif die < 0.43:
            sets.append("control=none")
        elif die < 0.47:
            sets.append("transport=" + random_.choice(["loopback", "udp", "{plugin: udp, filters: [fault]}"]))
        else:
            key = random_.choice(sorted(KEYS))
            values = [value for value in KEYS[key] if not SANITIZED or SMALL.match(value)]
            sets.append(f"streams.{stream}.{key}={random_.choice(values or ['0'])}")
    return sets


def twin(text):
    """A second stream like the first, where streams come last."""
    item = re.search(r"^( *- name: )(\S+)((?:\n|.)*)", text, re.M)
    return text + f"{item[1]}twin{item[3]}" if item else text


# A capture without packets: little-endian, microseconds, Ethernet.
CAPTURE = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


# How long an end waits for a peer that is not there, and where nobody else looks for one.
ALONE = ["control.timeout=50ms"]
COMMANDS = {
    "run": (["--count", "3", "--duration", "100ms"], []),
    "send": (["--count", "3", "--duration", "100ms"], [*ALONE, "control.connect=127.0.0.1:9"]),
    "receive": (["--duration", "100ms"], [*ALONE, "control.listen=127.0.0.1:0"]),
}


class Mutant:
    def __init__(self, seed, folder):
        random_ = random.Random(seed)
        self.command = random_.choice(("run", "run", "send", "receive"))
        self.folder = folder
        (folder / "in").write_bytes(b"x" * 100000)
        (folder / "in.pcap").write_bytes(CAPTURE)
        os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
        plain = [ROOT / "config" / name for name in ("loopback.yaml", "udp.yaml", "loopback-frames.yaml")]
        path = random_.choice(plain if random_.random() < 0.5 else examples())
        lines = path.read_text().splitlines()
        stream = re.search(r"- name: (\S+)", path.read_text())[1]
        transport = re.search(rf"^ *(?:transport|plugin): ({'|'.join(OPTIONS)})\b", path.read_text(), re.M)[1]
        self.sets = []
        if random_.random() < 0.3:
            for _ in range(random_.choice((1, 1, 2))):
                lines = mutate_line(random_, lines) or lines
        else:
            self.sets = [one.replace("FOLDER", str(folder)).replace("CONFIG", path.name) for one in cross(random_, stream, transport)]
        text = "\n".join(lines) + "\n"
        if random_.random() < 0.2:
            text = twin(text)
        text = text.replace("input.bin", f"{folder}/in").replace("output.bin", f"{folder}/out")
        text = text.replace("input.pcap", f"{folder}/in.pcap").replace("output.pcap", f"{folder}/out")
        self.path = folder / path.name
        self.path.write_text(text)
        if "control: none" not in text and "control=none" not in self.sets:
            self.sets += COMMANDS[self.command][1]

    def arguments(self):
        return [str(self.path), *(word for one in self.sets for word in ("--set", one))]

    def program(self, *words):
        (self.folder / "out").unlink(missing_ok=True)
        done = subprocess.run(
            [str(PROGRAM), *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True, timeout=300, check=False, text=True, errors="replace")
        return done.returncode, done.stderr

    def judge(self):
        """None, or what breaks the rule."""
        words, command = self.arguments(), self.command
        checked, why = self.program("check", "-q", "--for", command, *words)
        ran, because = self.program(command, "-q", *COMMANDS[command][0], *words)
        if checked not in (0, USAGE, 3) or ran not in OURS:
            return f"check {checked}, {command} {ran}: {words}\n{why}{because}"
        if (checked == USAGE) != (ran == USAGE):
            return f"check --for {command} gives {checked} and {command} {ran}: {words}\n{why}{because}"
        if checked == USAGE and not re.search(r"error: (\S+:\d+:\d+|--set [^:]+.*|default): ", why):
            return f"no place in what check reports: {words}\n{why}"
        return None


def judge(seed):
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        return judge_in(seed, pathlib.Path(folder))


def judge_in(seed, folder):
    broken = Mutant(seed, folder).judge()
    return f"seed {seed}: {broken}" if broken else None


def judge_all(seeds, seconds=None, least=0):
    """Returns the mutants that break the rule, and how many were judged."""
    if not SANITIZED:  # of this process, which needs little, so that children need no hook
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    until = time.monotonic() + seconds if seconds else None
    broken, judged = [], 0
    workers = 8  # most of the time they wait
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        seeds = iter(seeds)
        waiting = {pool.submit(judge, seed) for _, seed in zip(range(workers), seeds)}
        while waiting:
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for one in done:
                judged += 1
                if one.result():
                    broken.append(one.result())
                if until and time.monotonic() > until and judged >= least:
                    continue
                seed = next(seeds, None)
                if seed is not None:
                    waiting.add(pool.submit(judge, seed))
    return broken, judged


class Mutants(Case):
    def test_check_knows_what_run_knows(self):
        seed = random.SystemRandom().randrange(1 << 32)
        broken, judged = judge_all(range(seed, seed + 100000), SECONDS, LEAST)
        print(f"{judged} mutants, from --seed {seed}")
        self.assertGreaterEqual(judged, LEAST)
        self.assertEqual(broken, [], "\n".join(broken))


if __name__ == "__main__":
    if "--mutants" in sys.argv:
        count = int(sys.argv[sys.argv.index("--mutants") + 1])
        first = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 0
        faults, mutants = judge_all(range(first, first + count))
        print("\n".join(faults))
        print(f"{mutants} mutants, {len(faults)} break the rule")
        sys.exit(1 if faults else 0)
    main()
