# SPDX-License-Identifier: Apache-2.0
"""TLS on the control channel, by what `penstock keys` makes: whole programs."""
import os
import sys

import netns
from harness import PROGRAM, main, random_file, yaml_stream
from serving import MIB, ServeCase, sha256

COUNT = 2000

# Sends each of the sender's datagrams again, then changed, then one of its own making, and says how
# many of each. Without UDP checksums, which the kernel would check first.
ON_THE_PATH = """
import os, signal, socket, sys
path = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
path.bind((sys.argv[1], 3))
seen = 0
def say(*_):
    print(seen, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, say)
print("here", file=sys.stderr, flush=True)
while True:
    frame, where = path.recvfrom(65536)
    if where[1:3] != (0x0800, socket.PACKET_OUTGOING) or frame[23] != 17:
        continue
    seen += 1
    again = bytearray(frame)
    again[40:42] = bytes(2)
    path.send(again)
    again[seen % (len(frame) - 42) + 42] ^= 1 << seen % 8
    path.send(again)
    path.send(again[:42] + os.urandom(len(frame) - 42))
"""


class Tls(ServeCase):
    def setUp(self):
        super().setUp()
        self.keys = self.folder / "tls"
        hosts = ("--host", f"localhost,127.0.0.1,{netns.IPV4[netns.FAR]}", "--host", "node2.example,127.0.0.1")
        self.made = self.run_program("keys", self.keys, *hosts)

    def certificate(self, name):
        return ["--tls-certificate", self.keys / f"{name}.pem", "--tls-key", self.keys / f"{name}-key.pem",
                "--tls-ca", self.keys / "ca.pem"]  # fmt: skip

    def psk(self):
        return ["--tls-psk", self.keys / "keys.psk"]

    def pairs(self):
        return ((self.certificate("localhost"), self.certificate("node2.example")), (self.psk(), self.psk()))

    def of_yaml(self, name):
        if name == "psk":
            return f"{{psk: {self.keys / 'keys.psk'}}}"
        return f"{{certificate: {self.keys / name}.pem, key: {self.keys / name}-key.pem, ca: {self.keys / 'ca.pem'}}}"

    def test_keys_are_made_once(self):
        before = {path.name: sha256(path) for path in self.keys.iterdir()}
        self.assertEqual(sorted(before), ["ca-key.pem", "ca.pem", "keys.psk", "localhost-key.pem", "localhost.pem",
                                          "node2.example-key.pem", "node2.example.pem"])  # fmt: skip
        for path in self.keys.iterdir():
            self.assertEqual(path.stat().st_mode & 0o7777, 0o600, path)
        again = self.run_program("keys", self.keys, expect=2)
        self.assertIn("is there already", again.stderr)
        self.assertEqual(before, {path.name: sha256(path) for path in self.keys.iterdir()})
        self.assertIn(f"tls: {{certificate: {self.keys}/node2.example.pem", self.made.stdout)
        for wrong in (",", "a,", "../a", "a b", "ca", "ca-key"):
            self.run_program("keys", self.folder / "none", "--host", wrong, expect=2)
        for one, other in (("a", "a"), ("a", "a-key"), ("a-key", "a,b")):
            twice = self.run_program("keys", self.folder / "none", "--host", one, "--host", other, expect=2)
            self.assertIn("name each host once", twice.stderr)
        self.assertFalse((self.folder / "none").exists())

    def test_keys_that_fail_leave_nothing(self):
        folder = self.folder / "half"
        folder.mkdir()
        (folder / "keys.psk").write_text("mine")
        self.run_program("keys", folder, "--host", "a", expect=2)
        self.assertEqual([path.name for path in folder.iterdir()], ["keys.psk"])
        self.assertEqual((folder / "keys.psk").read_text(), "mine")
        (folder / "keys.psk").unlink()
        self.run_program("keys", folder, "--host", "a")

    def test_files_and_requests(self):
        random_file(self.root / "big", 3 * MIB)
        random_file(self.here / "small", 1000)
        socket = self.folder / "share"
        self.start("share", "--socket", socket, "--transport", "loopback").wait_line("share: serving")
        through = ("--transport", "share", "--transport-option", f"socket={socket}")
        routed = tuple((*end, *through) for end in self.pairs()[0])
        for server, client in (*self.pairs(), routed):
            self.serve(*server)
            self.get("big", "--overwrite", *client)
            self.assertEqual(sha256(self.root / "big"), sha256(self.here / "big"))
            self.put("small", *client)
            self.assertEqual(sha256(self.root / "small"), sha256(self.here / "small"))
            self.run_program("request", "write", self.address, "--count", 10, *client)
            (self.root / "small").unlink()
            self.stop()

    def test_refused_clients_leave_a_healthy_server(self):
        self.serve(*self.certificate("localhost"), "--tls-peer", "node2.example",
                   environment={"PENSTOCK_LOG": "warn"})  # fmt: skip
        named = self.run_program("request", "write", self.address, *self.certificate("localhost"), expect=None)
        self.assertNotEqual(named.status, 0)
        self.assertIn("none of the names that are wanted there", named.stderr)
        self.server.wait_line("has none of the names in `peers`")
        plain = self.run_program("request", "write", self.address, expect=None)
        self.assertNotEqual(plain.status, 0)
        self.assertIn("this end takes TLS alone", plain.stderr)
        self.server.wait_line("began no TLS within 2.5 s")
        self.run_program("request", "write", self.address, "--count", 3, *self.certificate("node2.example"))
        self.stop()

    def stream(self, receiver, sender, transport):
        config = self.config(yaml_stream(transport=f"{{plugin: {transport}}}", sender="{rate: 100 Mbps}"))
        into = self.start("receive", config, "--set", f"control.tls={self.of_yaml(receiver)}")
        self.run_program("send", config, "--count", COUNT, "--set", f"control.tls={self.of_yaml(sender)}")
        self.assertEqual(into.wait(), 0, str(into))

    def test_streams(self):
        for receiver, sender in (("localhost", "node2.example"), ("psk", "psk")):
            for transport in ("loopback", "udp, options: {authenticate: true, framing: rtp}"):
                self.stream(receiver, sender, transport)

    def test_bench(self):
        for server, client in self.pairs():
            where = f"127.0.0.1:{self.port}"
            serving = self.start("bench", "--server", "--once", "--transport", "udp", "--memory", "host", *server, where)
            self.run_program("bench", "--transport", "udp", "--memory", "host", "--size", "1000", "--duration", "50ms",
                             *client, where)  # fmt: skip
            self.assertEqual(serving.wait(), 0, str(serving))

    def namespaces(self):
        spaces = netns.Namespaces()
        self.addCleanup(spaces.close)
        if not spaces.reaches(PROGRAM):
            self.skipTest(f"an ordinary user does not reach {PROGRAM}")
        for path in (self.folder, self.keys, *self.keys.iterdir()):
            if os.getuid() == 0:
                os.chown(path, 65534, 65534)
        return spaces

    def config_of_far(self, options=""):
        far = netns.IPV4[netns.FAR]
        config = self.write(
            "far.yaml",
            f'penstock: 1\ncontrol: {{address: "{far}:{self.port}"}}\n'
            f"transport: {{plugin: udp, options: {{{options}}}}}\n"
            "streams:\n  - {name: packets, message: 1400 B, timeout: 1 min, sender: {rate: 100 Mbps},\n"
            f"     receiver: {{sink: verify, transport: {{options: {{device: {far}}}}}}}}}\n",
        )
        config.chmod(0o644)
        return config

    def test_where_authenticate_is_refused(self):
        far = self.config_of_far("authenticate: true")
        for words, *change in (
            ("sends a key by the control channel, which is in clear", "control.insecure=true"),
            ("there is no peer to agree on a key with", "control=none"),
            ("has no place for a tag", "control.address=127.0.0.1:1", "transport.options.framing=none"),
        ):
            sets = [word for setting in change for word in ("--set", setting)]
            refused = self.run_program("check", far, *sets, expect=2)
            self.assertIn(words, refused.stderr)
        near = self.config(yaml_stream(transport="{plugin: udp, options: {authenticate: true}}"))
        self.run_program("run", near, "--count", COUNT)
        shared = self.run_program("share", "--socket", self.folder / "s", "--transport", "udp",
                                  "--transport-option", "authenticate=true", expect=2)  # fmt: skip
        self.assertIn("give their peers a key", shared.stderr)

    def test_attacker_on_the_path(self):
        spaces = self.namespaces()
        python = next(filter(netns.reaches, (sys.executable, "/usr/bin/python3")), None)
        if not python:
            self.skipTest("an ordinary user has no python3")
        config = self.config_of_far("authenticate: true, gso: false")
        # Slowly, since each message is attacked three times by a program that is slower than the sender.
        common = ("--set", f"control.tls={self.of_yaml('psk')}", "--set", "streams.packets.sender.rate=20 Mbps")
        attacker = self.start("-c", ON_THE_PATH, netns.DEVICE[netns.NEAR], program=python,
                              prefix=spaces.enter(netns.NEAR))  # fmt: skip
        attacker.wait_line("here")
        into = self.start("receive", config, *common, "--json", self.folder / "out.json",
                          prefix=spaces.enter(netns.FAR))  # fmt: skip
        self.run_program("send", config, "--count", COUNT, *common, prefix=spaces.enter(netns.NEAR))
        self.assertEqual(into.wait(), 0, str(into))
        attacker.process.terminate()
        attacker.wait()
        stream = self.only_stream(self.result())
        counters = stream["receiver"]["counters"]
        delivered = stream["messages_delivered"]
        self.assertEqual((stream["corrupted"], stream["duplicates"]), (0, 0), stream)
        # A receiver without a CPU for a while loses what its socket has no room for, and nothing else.
        self.assertLessEqual(stream["dropped"].keys(), {"kernel", "no_buffer"}, stream)
        self.assertEqual(delivered + sum(stream["dropped"].values()), COUNT, stream)
        self.assertGreater(counters["replayed"], COUNT // 4, stream)
        self.assertGreater(counters["unauthentic"], COUNT // 4, stream)
        self.assertEqual(counters["datagrams"], delivered + counters["replayed"] + counters["unauthentic"], stream)

    def test_between_namespaces(self):
        """Beyond loopback, without `insecure`."""
        spaces = self.namespaces()
        config = self.config_of_far()
        refused = self.run_program("check", config, expect=2)
        self.assertIn("is beyond loopback, where peers need credentials", refused.stderr)
        for receiver, sender in (("localhost", "node2.example"), ("psk", "psk")):
            into = self.start("receive", config, "--set", f"control.tls={self.of_yaml(receiver)}",
                              prefix=spaces.enter(netns.FAR))  # fmt: skip
            self.run_program("send", config, "--count", COUNT, "--set", f"control.tls={self.of_yaml(sender)}",
                             prefix=spaces.enter(netns.NEAR))  # fmt: skip
            self.assertEqual(into.wait(), 0, str(into))


if __name__ == "__main__":
    main()
