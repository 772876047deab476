# SPDX-License-Identifier: Apache-2.0
"""A client of `penstock share` that says to the router what it likes (core/include/penstock/share-protocol.h)."""
import array
import fcntl
import mmap
import os
import socket
import struct

VERSION = 1
OPEN, _START, MR_REGISTER, _DEREGISTER, _PACK, WORKER_OPEN, _WORKER_CLOSE, RING_OPEN = range(1, 9)
ENDPOINT_OPEN, ENDPOINT_ADDRESS, _CONNECT, _PATH, ENDPOINT_CLOSE = range(10, 15)
SENDER, RECEIVER = 1, 2
READ, WRITE, RING = 1, 2, 0x20
REQUEST, REPLY, PLAN, EXPORT, TEXT = 224, 792, 64, 160, 512
EXPORT_FD, EXPORT_DMABUF, EXPORT_VENDOR_FD = 1, 2, 8
SUBMIT_TAIL, COMPLETE_TAIL, ROUTER_SLEEPS, CLIENT_SLEEPS = 0, 128, 256, 320
SUBMIT_AT, MEMORY = 4096, 528384


class Refused(Exception):
    """An answer of the router that is an errno."""

    def __init__(self, status, text):
        super().__init__(f"{os.strerror(-status)}: {text}")
        self.code, self.text = -status, text


def sealed(length, flags=0):
    """A memfd as the router wants it."""
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC | flags)
    os.ftruncate(fd, length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return fd


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.fds, self.page = [], None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def memory(self, length, flags=0):
        """A memfd of this client."""
        self.fds.append(sealed(length, flags))
        return self.fds[-1]

    def send_raw(self, packet, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([packet], rights)

    def receive(self):
        """Status, object, text and the bytes behind; EOFError: the router hung up."""
        got, fds, _, _ = socket.recv_fds(self.socket, 65536, 8)
        if not got:
            raise EOFError
        self.fds += fds
        status, number = struct.unpack_from("=iI", got)
        text = got[REPLY - TEXT : REPLY].split(b"\0")[0].decode()
        return status, number, text, got[REPLY:]

    def raw(self, packet):
        self.send_raw(packet)
        return self.receive()

    def send(self, call, union=b"", *, worker=0, number=0, version=VERSION, fds=()):
        head = struct.pack("=8I", version, call, worker, number, 0, 0, 0, 0)
        self.send_raw((head + union).ljust(REQUEST, b"\0"), fds)

    def ask(self, call, union=b"", **parts):
        """The number and the bytes of the answer."""
        self.send(call, union, **parts)
        status, number, text, more = self.receive()
        if status < 0:
            raise Refused(status, text)
        return number, more

    def open(self, flags=0, ring_slots=64):
        self.ask(OPEN, struct.pack("=10IQQII", PLAN, flags, 1, 1, 1, 1, 0, 64, 1, 0, ring_slots, 4096, 1, 0))

    def register(self, fd, length, access=READ | WRITE | RING, offset=0, *, kind=EXPORT_FD, base=0, base_length=0, device=""):
        export = struct.pack("=IIiIQQQQ48s", EXPORT, kind, -1, 0, offset, length, base, base_length, device.encode())
        export = export.ljust(EXPORT, b"\0")
        return self.ask(MR_REGISTER, struct.pack("=QQQII", length, 0, length, access, 0) + export,
                        fds=[] if fd is None else [fd])[0]  # fmt: skip

    def worker(self, index=0):
        """Its number, and its memory, the router's event and the client's."""
        have = len(self.fds)
        number, _ = self.ask(WORKER_OPEN, number=index)
        memory, router, client = self.fds[have:]
        self.page = mmap.mmap(memory, MEMORY)
        return number, router, client

    def ring(self, worker, mr, slots, stride=0, payload_max=0):
        union = struct.pack("=QQQ6I", 0, stride, payload_max, slots, mr, 0, 0, 1, 0)
        return self.ask(RING_OPEN, union, worker=worker)[0]

    def endpoint(self, worker, requests=64, pieces=1):
        union = struct.pack("=QQQ6I", 4096, 10**10, 0, SENDER, 0, requests, pieces, 0, 0)
        return self.ask(ENDPOINT_OPEN, union, worker=worker)[0]
