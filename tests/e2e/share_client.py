# SPDX-License-Identifier: Apache-2.0
"""Clients of `penstock share` that say to the router what they like, and a router that does so to its clients
(core/include/penstock/share-protocol.h)."""
import array
import contextlib
import fcntl
import mmap
import os
import socket
import struct
import subprocess
import sys
import threading

VERSION = 1
OPEN, START, MR_REGISTER, MR_DEREGISTER, MR_PACK, WORKER_OPEN, WORKER_CLOSE, RING_OPEN, RING_CLOSE = range(1, 10)
ENDPOINT_OPEN, ENDPOINT_ADDRESS, ENDPOINT_CONNECT, ENDPOINT_PATH, ENDPOINT_CLOSE = range(10, 15)
REMOTE_OPEN, REMOTE_CLOSE, COUNTERS, DESCRIBE = range(15, 19)
SENDER, RECEIVER, RMA = 1, 2, 4
READ, WRITE, REMOTE, RING = 1, 2, 4 | 8 | 16, 0x20
REQUEST, REPLY, PLAN, EXPORT, TEXT = 224, 792, 64, 160, 512
EXPORT_FD, EXPORT_DMABUF, EXPORT_VENDOR_FD = 1, 2, 8
SUBMIT_TAIL, COMPLETE_TAIL, ROUTER_SLEEPS, CLIENT_SLEEPS = 0, 128, 256, 320
SUBMIT_AT, COMPLETE_AT, MEMORY, ENTRIES = 4096, 266240, 528384, 4096
DONE, MESSAGE, EVENT = 1, 2, 3


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
    def __init__(self, path, by_another=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        if by_another is not None:  # a process that ends at once connects, started behind these words
            there = [*by_another, sys.executable, "-c", "import socket, sys; socket.socket(fileno=int(sys.argv[1])).connect(sys.argv[2])"]
            subprocess.run([*there, str(self.socket.fileno()), str(path)], check=True, pass_fds=[self.socket.fileno()])
        else:
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

    def send(self, call, union=b"", *, worker=0, number=0, remote=0, flag=0, more=b"", version=VERSION, fds=()):
        head = struct.pack("=8I", version, call, worker, number, remote, flag, len(more), 0)
        self.send_raw((head + union).ljust(REQUEST, b"\0") + more, fds)

    def ask(self, call, union=b"", **parts):
        """The number and the bytes of the answer."""
        self.send(call, union, **parts)
        status, number, text, more = self.receive()
        if status < 0:
            raise Refused(status, text)
        return number, more

    def open(self, flags=0, ring_slots=64, token=b""):
        plan = struct.pack("=10IQQII", PLAN, flags, 1, 1, 1, 1, 0, 64, 1, 0, ring_slots, 4096, 1, 0)
        self.ask(OPEN, plan.ljust(PLAN + 64, b"\0") + token)

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


class Wanderer(Client):
    """Makes legal calls in any order, and with numbers that may be stale."""

    def __init__(self, path, chance):
        super().__init__(path)
        self.chance, self.tail = chance, 0
        self.mrs, self.rings, self.endpoints, self.remotes, self.blobs = [0], [0], [0], [(0, 0)], [(b"", ())]
        self.open(ring_slots=256)
        self.worker_number, self.router_event, _ = self.worker()

    def wander(self, steps):
        """Until it is disconnected, or has made so many."""
        calls = [getattr(self, name) for name in vars(Wanderer) if name.startswith("try_")]
        # Far enough first for what follows to be mostly right.
        begin = (self.try_register, self.try_ring, self.try_endpoint, self.try_address, self.try_pack) * 3
        for step in range(steps):
            try:
                with contextlib.suppress(Refused):
                    (begin[step] if step < len(begin) else self.chance.choice(calls))()
            except (EOFError, OSError):
                return

    def any_of(self, numbers):
        """One of the last, and now and then any, or none."""
        return self.chance.choice(numbers[1:][-3:] if len(numbers) > 1 and self.chance.random() < 0.995 else numbers)

    def of_endpoint(self, call, union=b"", **parts):
        return self.ask(call, union, worker=self.worker_number, number=self.any_of(self.endpoints), **parts)

    def try_register(self):
        length = self.chance.choice((4096, 65536))
        access = READ | WRITE | RING | self.chance.choice((0, REMOTE, REMOTE, REMOTE))
        self.mrs.append(self.register(self.memory(length), length, access))

    def try_deregister(self):
        if self.chance.random() < 0.02:
            self.ask(MR_DEREGISTER, number=self.any_of(self.mrs))

    def try_pack(self):
        have = len(self.fds)
        self.blobs.append((self.ask(MR_PACK, number=self.any_of(self.mrs))[1], self.fds[have:]))

    def try_start(self):
        self.ask(START)

    def try_ring(self):
        slots = self.chance.choice((1, 4, 16))
        self.rings.append(self.ring(self.worker_number, self.any_of(self.mrs), slots, 256, 128))

    def try_ring_close(self):
        if self.chance.random() < 0.02:
            self.ask(RING_CLOSE, worker=self.worker_number, number=self.any_of(self.rings))

    def try_endpoint(self):
        roles = self.chance.choice((SENDER | RECEIVER, SENDER | RECEIVER | RMA, SENDER, RECEIVER | RMA))
        ring = self.any_of(self.rings) if roles & RECEIVER else 0
        union = struct.pack("=QQQ6I", 128, 10**9, 0, roles, ring, 8, 2, self.any_of(self.mrs), 0)
        self.endpoints.append(self.ask(ENDPOINT_OPEN, union, worker=self.worker_number)[0])

    def try_address(self):
        have = len(self.fds)
        self.blobs.append((self.of_endpoint(ENDPOINT_ADDRESS)[1], self.fds[have:]))

    def blob(self):
        """An address or a key of this client, or nearly one."""
        blob, fds = self.any_of(self.blobs)
        if blob and self.chance.random() < 0.3:
            at = self.chance.randrange(len(blob))
            blob = blob[:at] + bytes([self.chance.randrange(256)]) + blob[at + self.chance.randrange(2) :]
        return {"more": blob, "fds": fds[: self.chance.choice((4, 4, 4, 1, 0))]}

    def try_connect(self):
        self.of_endpoint(ENDPOINT_CONNECT, flag=self.chance.choice((1, 1, 1, 0)), **self.blob())

    def try_path(self):
        self.of_endpoint(ENDPOINT_PATH)

    def try_close(self):
        if self.chance.random() < 0.1:
            self.of_endpoint(ENDPOINT_CLOSE, struct.pack("=QII", self.chance.choice((0, 2**64 - 1)), self.chance.choice((1, 2)), 0))

    def try_remote(self):
        endpoint = self.any_of(self.endpoints)
        number, _ = self.ask(REMOTE_OPEN, worker=self.worker_number, number=endpoint, **self.blob())
        self.remotes.append((endpoint, number))

    def try_remote_close(self):
        if self.chance.random() < 0.1:
            endpoint, remote = self.any_of(self.remotes)
            self.ask(REMOTE_CLOSE, worker=self.worker_number, number=endpoint, remote=remote)

    def try_counters(self):
        self.of_endpoint(self.chance.choice((COUNTERS, DESCRIBE)), flag=self.chance.randrange(3))

    def try_post(self):
        """A request whose numbers are right, and whose time may not be."""
        opcode, endpoint, remote = 1, self.any_of(self.endpoints), 0
        if len(self.remotes) > 1 and self.chance.random() < 0.7:
            opcode, (endpoint, remote) = self.chance.randrange(2, 7), self.any_of(self.remotes)
        entry = struct.pack("=BBBBHHIIQQ", 1, opcode, 0, 0, 0, 0, endpoint, self.any_of(self.mrs), 0, 64)
        self.submit(entry + struct.pack("=QQQ", remote, 0, 0))

    def try_release(self):
        if self.chance.random() < 0.02:
            token = (self.any_of(self.rings) - 1) % 2**32 << 32 | self.chance.randrange(4)
            self.submit(struct.pack("=BBBBI", 2, 0, 0, 1, 0) + struct.pack("=Q", token))

    def submit(self, entry):
        at = SUBMIT_AT + self.tail % ENTRIES * 64
        self.page[at : at + 64] = entry.ljust(64, b"\0")
        self.tail += 1
        self.page[SUBMIT_TAIL : SUBMIT_TAIL + 4] = struct.pack("=I", self.tail)
        self.page[COMPLETE_TAIL + 64 : COMPLETE_TAIL + 68] = self.page[COMPLETE_TAIL : COMPLETE_TAIL + 4]
        self.ask(COUNTERS, worker=self.worker_number, flag=1)  # the router has taken it


class Router:
    """Stands between clients and the router, and has the clients' memory; what changed(call, answer, fds)
    returns is what it passes on."""

    def __init__(self, path, behind, changed=lambda call, answer, fds: (answer, fds)):
        self.behind, self.changed = str(behind), changed
        self.page = self.endpoint = self.ring = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen()
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        while self.threads:
            self.threads.pop().join()
        self.listener.close()

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self.serve, args=[client]))
                self.threads[-1].start()
        except OSError:
            return

    def serve(self, client):
        with client, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as router:
            router.connect(self.behind)
            try:
                while self.pass_on(client, router):
                    pass
            except OSError:
                return

    def pass_on(self, client, router):
        asked, fds, _, _ = socket.recv_fds(client, 65536, 8)
        if not asked:
            return False
        socket.send_fds(router, [asked], fds)
        answer, more, _, _ = socket.recv_fds(router, 65536, 8)
        call, number = struct.unpack_from("=4xI", asked)[0], struct.unpack_from("=4xI", answer)[0]
        if call == WORKER_OPEN:
            self.page = mmap.mmap(more[0], MEMORY)
        elif call == RING_OPEN:
            self.ring = number - 1
        elif call == ENDPOINT_OPEN:
            self.endpoint = number
        answer, passed = self.changed(call, answer, more)
        socket.send_fds(client, [answer], passed)
        for fd in (*fds, *more):
            os.close(fd)
        return True

    def plant(self, kind, code, union=b"", count=1):
        """Completions that the router never gave, to the endpoint that was opened last."""
        (tail,) = struct.unpack("=I", self.page[COMPLETE_TAIL : COMPLETE_TAIL + 4])
        at = COMPLETE_AT + tail % ENTRIES * 64
        entry = struct.pack("=BBHiQ", kind, code, 0, 0, self.endpoint) + union
        self.page[at : at + 64] = entry.ljust(64, b"\0")
        self.page[COMPLETE_TAIL : COMPLETE_TAIL + 4] = struct.pack("=I", (tail + count) % 2**32)
