# SPDX-License-Identifier: Apache-2.0
"""Sets and reads options of sockets for programs under qemu-aarch64, which knows few: calls.c passes the socket.

A request: level, name, what to do, length, 512 bytes of value, with the socket beside it. The answer: an errno or 0,
and what was read. Host and program have one byte order and one layout.
"""
import ctypes
import fcntl
import os
import socket
import struct
import threading

REQUEST = struct.Struct("=iiiI512s")
ERROR = struct.Struct("=i")
READS, SETS, ASKS_ETHTOOL = range(3)
SIOCETHTOOL, NAME_BYTES = 0x8946, 16


def ethtool(its, value, length):
    """Calls SIOCETHTOOL with the name of a struct ifreq and the bytes behind it, which it points to."""
    data = ctypes.create_string_buffer(value[NAME_BYTES : NAME_BYTES + length], length)
    fcntl.ioctl(its, SIOCETHTOOL, struct.pack("16sQ16x", value[:NAME_BYTES], ctypes.addressof(data)))
    return data.raw


def answer(message, descriptor):
    level, name, does, length, value = REQUEST.unpack(message)
    with socket.socket(fileno=descriptor) as its:
        try:
            if does == ASKS_ETHTOOL:
                return ERROR.pack(0) + ethtool(its, value, length)
            if does == READS:
                return ERROR.pack(0) + its.getsockopt(level, name, length)
            its.setsockopt(level, name, value[:length])
            return ERROR.pack(0)
        except OSError as error:
            return ERROR.pack(error.errno)


def serve(listener):
    while True:
        connection, _ = listener.accept()
        with connection:
            message, descriptors, _, _ = socket.recv_fds(connection, REQUEST.size, 1)
            if descriptors:  # else its process has ended
                connection.send(answer(message, descriptors[0]), socket.MSG_NOSIGNAL)


def start(path):
    """Answers at this path until the process ends."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    os.chmod(path, 0o666)  # ordinary users have sockets, too
    listener.listen(64)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
