#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""UDP streams beside programs that we did not write: what ffmpeg and tcpreplay send is
counted as tshark counts it, and what we send ffmpeg decodes, frame for frame. Between
two network namespaces, as an ordinary user."""
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

import netns
from harness import PROGRAM, Case, main, wait_until
from netns import FAR, IPV4, IPV6, MAC, NEAR, need

PORT = 5004
FLIGHT = 100  # packets
MARKER_PORT = 9  # a packet there says that all before it has been seen


class Program:
    """A program of others' whose lines are collected."""

    def __init__(self, case, command, output=subprocess.DEVNULL):
        self.command = command
        self.lines = []
        home = {"HOME": str(case.temporary), "TMPDIR": str(case.temporary)}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, **home),
            start_new_session=True,  # with the children that it may have
        )
        self.pid = self.process.pid
        streams = [s for s in (self.process.stdout, self.process.stderr) if s]
        self.readers = [threading.Thread(target=self._collect, args=(s,)) for s in streams]
        for reader in self.readers:
            reader.start()
        case.addCleanup(self.end)

    def _collect(self, stream):
        with stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, seconds=60):
        wait_until(
            lambda: any(re.search(pattern, line) for line in list(self.lines))
            or self.process.poll() is not None,
            seconds,
            f"a line like {pattern!r} of {self.command}: {self.lines}",
        )

    def wait(self, seconds=60):
        wait_until(lambda: self.process.poll() is not None, seconds, f"the end of {self.command}")
        return self.process.returncode

    def end(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for reader in self.readers:
            reader.join()


class Between(Case):
    """Sender on the near side, receiver on the far one."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o777)
        self.temporary.chmod(0o777)
        self.spaces = netns.Namespaces()
        self.addCleanup(self.spaces.close)
        if not self.spaces.reaches(PROGRAM):
            self.skipTest(f"an ordinary user cannot read {PROGRAM}")

    def file(self, framing="rtp", control="none", message=1500, **ends):
        lines = [
            "penstock: 1",
            f"control: {control}",
            f"transport: {{plugin: udp, options: {{framing: {framing}}}}}",
            "streams:",
            "  - name: packets",
            f"    message: {message} B",
            "    ring: 4096",
            "    timeout: 1 min",
        ]
        return self.write("udp.yaml", "\n".join(lines + [f"    {k}: {v}" for k, v in ends.items()]))

    def at(self, side, *arguments):
        out = self.folder / f"out-{side}.json"
        return self.start(*arguments, "--json", out, prefix=self.spaces.enter(side))

    def stream_of(self, side):
        return self.only_stream(self.result(f"out-{side}.json"))

    def ended(self, child, expect=0):
        self.assertEqual(child.wait(), expect, str(child))

    def receiver(self, path, *arguments):
        child = self.at(FAR, "receive", path, *arguments)
        child.wait_line("messages of up to")
        return child

    def foreign_receiver(self, *arguments):
        """Any RTP that comes to PORT."""
        path = self.file(
            receiver=f"{{sink: discard, silence: 0, transport: {{options: {{port: {PORT}}}}}}}"
        )
        return self.receiver(path, *arguments)

    def stop(self, child):
        """End a receiver by ^C, when it has read all that came."""
        wait_until(lambda: netns.udp_socket(child.pid, PORT)[0] == 0, 60, f"all is read\n{child}")
        child.signal(signal.SIGINT)
        self.ended(child)


class Tshark:
    """The sequence numbers of RTP packets to PORT that arrive on the far side."""

    def __init__(self, case):
        self.spaces = case.spaces
        command = ["tshark", "-n", "-l", "-i", netns.DEVICE[FAR], "-f", "udp", "-T", "fields"]
        fields = ["-e", "udp.dstport", "-e", "rtp.seq", "-d", f"udp.port=={PORT},rtp"]
        self.program = Program(
            case, [*case.spaces.enter(FAR), *command, *fields], output=subprocess.PIPE
        )
        self.program.wait_line("Capture started")

    def sequences(self):
        self.spaces.run(
            NEAR, "bash", "-c", f"echo end >/dev/udp/{IPV4[FAR]}/{MARKER_PORT}"
        )
        self.program.wait_line(rf"^{MARKER_PORT}\b")
        rows = [line.split("\t") for line in self.program.lines]
        return [int(row[1]) for row in rows if row[0] == str(PORT)]


class FromFfmpeg(Between):
    def ffmpeg(self, seconds):
        """Sends a video; each that is started has an SSRC and numbers of its own."""
        source = ["-re", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25", "-t", str(seconds)]
        codec = ["-c:v", "mpeg2video", "-b:v", "4M", "-f", "rtp", f"rtp://{IPV4[FAR]}:{PORT}"]
        command = [*self.spaces.enter(NEAR), "ffmpeg", "-v", "error", *source, *codec]
        return Program(self, command)

    def test_a_restarted_ffmpeg(self):
        """Ended by itself, and killed: the stream goes on, and no loss is invented. Messages that come before
        the predecessor has been silent long enough are counted, and no others are lost."""
        need("ffmpeg", "tshark")
        child = self.foreign_receiver()
        tshark = Tshark(self)
        self.assertEqual(self.ffmpeg(1).wait(), 0)
        killed = self.ffmpeg(60)
        child.wait_line(r"Got [1-9].*\| 1 restart")
        killed.end()
        killed = self.ffmpeg(60)
        child.wait_line(r"Got [1-9].*\| 2 restarts")
        killed.end()
        seen = tshark.sequences()
        self.stop(child)
        stream = self.stream_of(FAR)
        self.assertEqual(stream["restarts"], 2)
        self.assertEqual(stream["messages_sent"], len(seen))
        self.assertEqual(stream["sent_basis"], "sequence")
        self.assertEqual(set(stream["dropped"]) - {"displaced"}, set())
        self.assert_accounted(stream)

    def test_counts_are_tsharks(self):
        need("ffmpeg", "tshark")
        child = self.foreign_receiver()
        tshark = Tshark(self)
        ffmpeg = self.ffmpeg(3)
        self.assertEqual(ffmpeg.wait(), 0, ffmpeg.lines)
        seen = tshark.sequences()
        self.stop(child)
        stream = self.stream_of(FAR)
        self.assertGreater(len(seen), 500)
        self.assertEqual(stream["messages_delivered"], len(seen))
        self.assertEqual(stream["messages_sent"], (seen[-1] - seen[0]) % 65536 + 1)
        self.assertEqual(stream["loss"], 0)
        self.assertEqual(stream["restarts"], 0)


class FromTcpreplay(Between):
    def test_a_capture(self):
        """Packets that the capture lacks, has twice, and has in another order."""
        need("tcpreplay", "tshark")
        order = [n for n in range(65000, 67000) if n not in (65100, 65101, 66500)]
        order[300], order[301] = order[301], order[300]
        order.insert(700, order[690])
        capture = self.folder / "capture.pcap"
        child = self.foreign_receiver()
        tshark = Tshark(self)
        # In flights that any socket holds, each when the one before has been read.
        for at in range(0, len(order), FLIGHT):
            capture.write_bytes(pcap(order[at : at + FLIGHT]))
            capture.chmod(0o644)
            self.spaces.run(
                NEAR, "tcpreplay", "--quiet", "--pps=5000", "-i", netns.DEVICE[NEAR], str(capture)
            )
            wait_until(lambda: netns.udp_socket(child.pid, PORT)[0] == 0, 60, f"all is read\n{child}")
        seen = tshark.sequences()
        self.stop(child)
        stream = self.stream_of(FAR)
        self.assertEqual(seen, [n % 65536 for n in order], "tshark")
        self.assertEqual(stream["messages_sent"], 2000)
        self.assertEqual(stream["messages_delivered"], 1997)
        self.assertEqual(stream["dropped"], {"wire": 3})
        self.assertEqual(stream["duplicates"], 1)
        self.assertEqual(stream["reordered"], 1)


def frame(sequence, udp_checksum=0):
    """An RTP packet over UDP and IPv4, from the near side to the far one. Checksum 0: none."""
    payload = struct.pack("!BBHII", 0x80, 96, sequence % 65536, sequence * 90, 77) + b"x" * 800
    udp = struct.pack("!HHHH", 40000, PORT, 8 + len(payload), udp_checksum) + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0)
    header += socket.inet_aton(IPV4[NEAR]) + socket.inet_aton(IPV4[FAR])
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF
    ethernet = bytes.fromhex((MAC[FAR] + MAC[NEAR]).replace(":", "")) + b"\x08\x00"
    return ethernet + header[:10] + struct.pack("!H", checksum) + header[12:] + udp


def pcap(sequences):
    """A capture of such packets."""
    out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for at, packet in enumerate(map(frame, sequences)):
        out += struct.pack("<IIII", at // 5000, at % 5000 * 200, len(packet), len(packet)) + packet
    return bytes(out)


class Damaged(Between):
    """Datagrams with a wrong UDP checksum, which the kernel drops as they are read."""

    SEND = (
        "import socket, sys\n"
        "raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n"
        "raw.bind((sys.argv[1], 0))\n"
        "for line in open(sys.argv[2]): raw.send(bytes.fromhex(line))\n"
    )

    def send(self, *frames):
        path = self.folder / "frames"
        path.write_text("".join(packet.hex() + "\n" for packet in frames))
        path.chmod(0o644)
        python = next(filter(netns.reaches, (sys.executable, "/usr/bin/python3")), None)
        if not python:
            self.skipTest("an ordinary user has no python3")
        self.spaces.run(NEAR, python, "-c", self.SEND, netns.DEVICE[NEAR], str(path))

    def test_they_are_not_losses_of_the_wire(self):
        for gro in ("true", "false"):
            with self.subTest(gro=gro):
                child = self.foreign_receiver(
                    "--set", f"streams.packets.receiver.transport.options.gro={gro}"
                )
                for at in range(0, 500, FLIGHT):
                    self.send(
                        *(frame(n, n % 10 == 5) for n in range(at, at + FLIGHT) if n % 50 != 7)
                    )
                    wait_until(lambda: netns.udp_socket(child.pid, PORT)[0] == 0, 60, f"all is read\n{child}")
                self.stop(child)
                stream = self.stream_of(FAR)
                self.assertEqual(stream["messages_sent"], 500)
                self.assertEqual(stream["dropped"], {"udp_checksum": 50, "wire": 10})
                self.assertRegex(child.stderr, "UDP checksum is wrong")

    def test_behind_the_last_they_are_losses(self):
        child = self.foreign_receiver()
        self.send(*(frame(n, n >= 90) for n in range(100)))
        self.stop(child)
        stream = self.stream_of(FAR)
        self.assertEqual([stream[key] for key in ("messages_sent", "messages_delivered")], [100, 90])
        self.assertEqual(stream["dropped"], {"udp_checksum": 10})


class ToFfmpeg(Between):
    def decoded(self, *arguments):
        """MD5 of each frame that ffmpeg decodes."""
        out = self.folder / "frames"
        command = ["ffmpeg", "-v", "error", "-y", *arguments, "-map", "0:v"]
        return out, [*command, "-fps_mode", "passthrough", "-f", "framemd5", str(out)]

    def sums(self, path):
        lines = path.read_text().splitlines()
        return [line.split()[-1] for line in lines if not line.startswith("#")]

    def test_a_video_frame_for_frame(self):
        need("ffmpeg")
        video, description = self.folder / "video.ts", self.folder / "video.sdp"
        source = ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-t", "4"]
        codec = ["-c:v", "mpeg2video", "-bf", "0", "-b:v", "2M", "-f", "mpegts", str(video)]
        subprocess.run(["ffmpeg", "-v", "error", *source, *codec], check=True)
        video.chmod(0o644)
        out, command = self.decoded("-i", str(video))
        subprocess.run(command, check=True)
        wanted = self.sums(out)
        out.unlink()
        description.write_text(
            f"v=0\no=- 0 0 IN IP4 {IPV4[NEAR]}\ns=video\nc=IN IP4 {IPV4[FAR]}\nt=0 0\n"
            f"m=video {PORT} RTP/AVP 33\na=rtpmap:33 MP2T/90000\n"
        )
        out, command = self.decoded("-protocol_whitelist", "file,udp,rtp", "-buffer_size", str(4 << 20), "-i", str(description))
        ffmpeg = Program(self, [*self.spaces.enter(FAR), *command])
        wait_until(
            lambda: netns.is_at(ffmpeg.pid, FAR) and netns.udp_socket(ffmpeg.pid, PORT), 60, "ffmpeg receives"
        )
        options = f'{{to: "{IPV4[FAR]}:{PORT}", payload_type: 33}}'
        path = self.file(
            message=1316,
            sender=f"{{source: {{type: file, file: {video}}}, rate: 4 Mbps, burst: 16 KiB, "
            f"transport: {{options: {options}}}}}",
        )
        self.ended(self.at(NEAR, "send", path))
        wait_until(lambda: netns.udp_socket(ffmpeg.pid, PORT)[0] == 0, 60, "ffmpeg has all of it")
        # RTCP says that this was all (RFC 3550, 6.6): an empty report, and BYE.
        bye = r"\x80\xc9\x00\x01\x00\x00\x00\x07\x81\xcb\x00\x01\x00\x00\x00\x07"
        self.spaces.run(NEAR, "bash", "-c", f"printf '{bye}' >/dev/udp/{IPV4[FAR]}/{PORT + 1}")
        self.assertEqual(ffmpeg.wait(), 0, ffmpeg.lines)
        got = self.sums(out)
        self.assertEqual(len(wanted), 100)
        # Its demuxer gives out a frame when the next one begins: the last stays in it.
        self.assertEqual(got, wanted[:-1])


class Planted(Between):
    """Packets that are lost on the way are found, to the packet; the sender's count is the measure.

    Packets are small and slow enough for an ordinary user's socket to hold what comes while
    the receiver waits for a CPU."""

    def pair(self, count, framing="rtp", sender="", receiver="", family=IPV4):
        host = f"[{family[FAR]}]" if ":" in family[FAR] else family[FAR]
        kind = "ipv6" if ":" in family[FAR] else "ipv4"
        path = self.file(
            control=f'{{address: "{host}:18600", insecure: true}}',
            framing=f"{framing}, family: {kind}",
            message=200,
            sender=f"{{count: {count}, rate: 8 Mbps{sender}}}",
            receiver=f"{{sink: verify{receiver}}}",
        )
        far = self.at(FAR, "receive", path)
        near = self.at(NEAR, "send", path)
        far.wait()  # first: what ended it says why its peer failed, too
        self.ended(far)
        self.ended(near)
        stream = self.stream_of(FAR)
        self.assertEqual(stream["messages_sent"], count)
        self.assertEqual(stream["sent_basis"], "counted")
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assert_accounted(stream)
        return stream

    def test_nothing_planted(self):
        for framing in ("rtp", "sequence"):
            with self.subTest(framing):
                self.assertEqual(self.pair(5000, framing)["dropped"], {})

    def test_over_ipv6(self):
        self.assertEqual(self.pair(5000, family=IPV6)["dropped"], {})

    def test_by_a_classifier(self):
        """A classifier in BPF picks RTP packets by their sequence number; they go to a
        queue that drops all."""
        need("tc")
        device = netns.DEVICE[NEAR]
        # ldb [23]; UDP (17), or 0; ldh [44] (Ethernet 14, IPv4 20, UDP 8, RTP 2); mod 97;
        # 5: -1 (the class), else 0. The control channel's TCP must pass: there [44] is in
        # the acknowledgement, which stays the same in each packet sent again.
        program = (
            "7,48 0 0 23,21 0 4 17,40 0 0 44,148 0 0 97,21 0 1 5,6 0 0 4294967295,6 0 0 0"
        )
        try:
            for words in (
                f"qdisc add dev {device} root handle 1: htb",
                f"class add dev {device} parent 1: classid 1:2 htb rate 10gbit",
                f"qdisc add dev {device} parent 1:2 handle 2: blackhole",
            ):
                self.spaces.run(NEAR, "tc", *words.split())
            self.spaces.run(
                NEAR, "tc", "filter", "add", "dev", device, "parent", "1:", "protocol", "ip",
                "bpf", "bytecode", program, "flowid", "1:2",
            )
        except AssertionError as error:
            self.skipTest(f"this kernel has no htb, blackhole or cls_bpf: {error}")
        stream = self.pair(5000, sender=", transport: {options: {gso: false}}")
        shown = self.spaces.run(NEAR, "tc", "-s", "qdisc", "show", "dev", device)
        dropped = int(re.search(r"qdisc blackhole 2:.*?dropped (\d+)", shown, re.S)[1])
        self.assertIn(dropped, (51, 52))  # 5000 / 97
        self.assertEqual(stream["dropped"], {"wire": dropped})

    def test_by_the_filter(self):
        faults = "drop_ppm: 40000, duplicate_ppm: 20000, reorder_ppm: 20000, seed: 3"
        transport = f"filters: [{{plugin: fault, options: {{{faults}}}}}]"
        stream = self.pair(5000, sender=f", transport: {{{transport}}}")
        injected = self.stream_of(NEAR)["sender"]["counters"]
        self.assertGreater(injected["injected_drop"], 100)
        self.assertEqual(stream["dropped"], {"injected": injected["injected_drop"]})
        self.assertEqual(stream["duplicates"], injected["injected_duplicate"])
        self.assertEqual(stream["reordered"], injected["injected_reorder"])


if __name__ == "__main__":
    main()
