#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Floods a control channel as any user of the host can, as fast as possible, until it is killed.

    flood.py PORT [KIND]
        connect   connections that end at once
        half      connections that say half a frame, and stay
        join      a HELLO and a JOIN that show no user
        side      connections to every Unix socket of the host

All of them in turn, without a KIND. Says "flooding" on stderr after the first hundred. What only the
server's own user can do has to be named:
        linger    passes sockets whose last close lingers, behind a claim
        nested    passes sockets in which such ones lie, whose closes nobody can hasten"""
import array
import collections
import glob
import re
import socket
import struct
import sys

KINDS = ("join", "connect", "half", "side")
# A HELLO {0: 1, 1: "penstock", 2: [1, 3], 3: {}, 4: 4 (a node)}, a JOIN {0: 12, 17: {}, 18: {}, 19: h''}
HELLO = b"\xa5\0\1\1\x68penstock\2\x82\1\3\3\xa0\4\4"
JOIN = b"\xa4\0\x0c\x11\xa0\x12\xa0\x13\x40"
FRAMES = b"".join(len(body).to_bytes(4, "big") + body for body in (HELLO, JOIN))


# The Unix socket's path and the token, in the server's HELLO.
SIDE = re.compile(rb"\x09(?:[\x60-\x77]|\x78.)(/[ -~]+/s)\x0a\x50(.{16})", re.DOTALL)
SO_NETNS_COOKIE = 71
LINGER_S = 3600


def place(address):
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address[0]) + struct.pack(">H", address[1])


def claimed(port):
    """A connection, and its Unix socket."""
    connection = connect(port)
    hello = b""
    while not (found := SIDE.search(hello)):
        more = connection.recv(4096)
        if not more:
            raise OSError("no HELLO")
        hello += more
    path, token = found.groups()
    side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    side.connect(path)
    cookie = connection.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
    side.send(token + cookie + place(connection.getsockname()) + place(connection.getpeername()))
    side.settimeout(0.1)
    if not side.recv(256):
        raise OSError("no claim")
    return connection, side


def pass_descriptors(side, data, *fds):
    side.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def lingering(kept):
    """A socket whose last close waits while the other end, which is kept, is open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        full = socket.create_connection(listener.getsockname())
        kept.append(listener.accept()[0])
    full.setblocking(False)
    try:
        while True:
            full.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    full.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
    return full


def pass_socket(port, is_nested, kept, clients):
    """The last few clients stay: a server does not say that it refuses those that have gone."""
    clients.append(claimed(port))
    side = clients[-1][1]
    with lingering(kept) as full:
        if is_nested:
            inner, outer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with inner, outer:
                pass_descriptors(inner, b"1", full.fileno())
                full.close()
                pass_descriptors(side, bytes(8), outer.fileno())
        else:
            pass_descriptors(side, bytes(8), full.fileno())
    if len(kept) > 200:
        kept.popleft().close()


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def once(port, kind, kept, clients):
    if kind == "side":
        for path in glob.glob("/tmp/penstock-unix-*/s") + glob.glob("/run/user/*/penstock-unix-*/s"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as side:
                side.connect(path)
        connect(port).close()
    elif kind == "connect":
        connect(port).close()
    elif kind in ("linger", "nested"):
        pass_socket(port, kind == "nested", kept, clients)
    elif kind == "half":
        connection = connect(port)
        connection.sendall(b"\0\0\x10\0" + b"\xa6" * 1000)
        kept.append(connection)
        if len(kept) > 100:
            kept.popleft().close()
    else:
        with connect(port) as connection:
            connection.sendall(FRAMES)
            while connection.recv(4096):
                pass


def main():
    port, kinds = int(sys.argv[1]), sys.argv[2:] or KINDS
    kept, clients = collections.deque(), collections.deque(maxlen=4)
    times = 0
    while True:
        try:
            once(port, kinds[times % len(kinds)], kept, clients)
        except OSError:  # turned away, at any point
            pass
        times += 1
        if times == 100:
            print("flooding", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
