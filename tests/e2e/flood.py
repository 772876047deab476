#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What any user of the host can do to a control channel, as fast as it can, until it is killed.

    flood.py PORT [KIND]
        connect   connections that end at once
        half      connections that say half a frame, and stay
        join      a HELLO and a JOIN that show no user
        side      connections to every side-socket of the host

All of them in turn, without a KIND. Says "flooding" on stderr after the first hundred."""
import collections
import glob
import socket
import sys

KINDS = ("join", "connect", "half", "side")
# A HELLO {0: 1, 1: "penstock", 2: [1, 3], 3: {}, 4: 4 (a node)}, a JOIN {0: 12, 17: {}, 18: {}, 19: h''}
HELLO = b"\xa5\0\1\1\x68penstock\2\x82\1\3\3\xa0\4\4"
JOIN = b"\xa4\0\x0c\x11\xa0\x12\xa0\x13\x40"
FRAMES = b"".join(len(body).to_bytes(4, "big") + body for body in (HELLO, JOIN))


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def once(port, kind, kept):
    if kind == "side":
        for path in glob.glob("/tmp/penstock-side-*/s") + glob.glob("/run/user/*/penstock-side-*/s"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as side:
                side.connect(path)
        connect(port).close()
    elif kind == "connect":
        connect(port).close()
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
    kept = collections.deque()
    times = 0
    while True:
        try:
            once(port, kinds[times % len(kinds)], kept)
        except OSError:  # turned away, at any point
            pass
        times += 1
        if times == 100:
            print("flooding", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
