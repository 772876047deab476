#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches as PyTorch tensors, without a copy: a stream over loopback into a GPU's memory,
every byte of which PyTorch compares there with what was sent.

usage: dlpack.py LIBPENSTOCK MEMORY MESSAGES      exit status 77: no PyTorch here
"""
import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p

try:
    import torch
except ImportError:
    print("skipped: no PyTorch here")
    sys.exit(77)

STREAM = """penstock: 1
transport: {plugin: loopback, options: {mode: copy}}
threads: {count: 1}
streams: [{name: packets, message: 1462 B, ring: 1024, receiver: {memory: %s, path: staged}}]
"""
LENGTH, BATCH, TABLE, STEP = 1462, 256, 65536, 131
ENODATA, ENDED, SENDER_AND_RECEIVER, WAITING = -61, 4, 3, 1


class Error(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("code", c_int32), ("status", c_int32), ("reserved", c_uint32),
                ("text", c_char * 2048)]


class Params(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("roles", c_uint32), ("streams", c_void_p),
                ("count", c_uint32), ("reserved", c_uint32)]


class Slot(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("host", c_void_p), ("capacity", c_uint32),
                ("length", c_uint32), ("meta", c_uint64), ("sequence", c_uint64),
                ("reserved", c_uint64 * 3)]


class View(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("host", c_void_p), ("length", c_uint32),
                ("flags", c_uint32), ("sequence", c_uint64), ("rest", c_uint64 * 4)]


class Batch(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("capacity", c_uint32), ("views", POINTER(View)),
                ("count", c_uint32), ("reserved", c_uint32), ("ready", c_void_p)]


class Rows:
    """Views that from_dlpack() takes: they make one tensor."""

    def __init__(self, library, receiver, views, rows, stream):
        self.managed = c_void_p()
        native = c_void_p(stream.cuda_stream) if stream else None
        code = library.pst_receiver_dlpack(receiver, views, rows, native, 0, byref(self.managed))
        if code:
            sys.exit(f"pst_receiver_dlpack: {os.strerror(-code)}")
        self.device = (2, 0) if stream else (1, 0)

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        return new(self.managed, b"dltensor_versioned", None)


def load(path):
    library = ctypes.CDLL(path)
    for name in ("pst_session_sender", "pst_session_receiver"):
        getattr(library, name).restype = c_void_p
        getattr(library, name).argtypes = [c_void_p, c_char_p]
    library.pst_view_rows.restype = c_uint32
    library.pst_config_open_text.argtypes = [c_char_p, c_size_t, c_char_p, c_void_p, c_size_t,
                                             c_void_p, c_void_p]
    return library


def open_stream(library, memory):
    error, config, session = Error(ctypes.sizeof(Error)), c_void_p(), c_void_p()
    params = Params(ctypes.sizeof(Params), SENDER_AND_RECEIVER)
    text = (STREAM % memory).encode()
    if (library.pst_config_open_text(text, len(text), b"dlpack.py", None, 0, byref(config), byref(error))
            or library.pst_session_open(config, byref(params), byref(session), byref(error))
            or library.pst_session_start(session, byref(error))):
        sys.exit(error.text.decode())
    return [session] + [c_void_p(end(session, b"packets"))
                        for end in (library.pst_session_sender, library.pst_session_receiver)]


class Run:
    def __init__(self, library, memory, messages):
        self.library, self.messages = library, messages
        self.session, self.sender, self.receiver = open_stream(library, memory)
        self.table = torch.randint(0, 256, (TABLE + LENGTH,), dtype=torch.uint8)
        self.table[TABLE:] = self.table[:LENGTH]
        self.stream = torch.cuda.Stream() if memory == "cuda" else None
        device = "cuda" if self.stream else "cpu"
        self.expected = self.table.to(device)
        self.offsets = torch.arange(LENGTH, device=device)
        self.wrong = torch.zeros((), dtype=torch.int64, device=device)
        self.slots, self.views = (Slot * BATCH)(), (View * BATCH)()
        self.sent = self.received = 0
        torch.cuda.synchronize() if self.stream else None

    def send_some(self):
        n = self.library.pst_sender_acquire(self.sender, self.slots, min(BATCH, self.messages - self.sent))
        for slot in self.slots[:n]:
            slot.length = LENGTH
            ctypes.memmove(slot.host, self.table.data_ptr() + slot.sequence * STEP % TABLE, LENGTH)
        self.sent += n
        if n and self.library.pst_sender_submit(self.sender, self.slots, n):
            sys.exit("pst_sender_submit failed")
        if self.sent == self.messages:
            self.library.pst_sender_finish(self.sender)

    def check(self, first, rows):
        views = ctypes.cast(byref(self.views, first * ctypes.sizeof(View)), c_void_p)
        tensor = torch.from_dlpack(Rows(self.library, self.receiver, views, rows, self.stream))
        assert tensor.shape == (rows, LENGTH) and tensor.dtype == torch.uint8, tensor.shape
        assert tensor.data_ptr() == self.views[first].address  # not a copy
        starts = torch.arange(rows, device=tensor.device) + self.views[first].sequence
        places = (starts * STEP % TABLE)[:, None] + self.offsets
        self.wrong += (tensor != self.expected[places]).sum()

    def receive_some(self):
        batch = Batch(ctypes.sizeof(Batch), BATCH, self.views)
        n = self.library.pst_receiver_poll(self.receiver, byref(batch))
        if n == ENODATA:
            self.library.pst_receiver_finish(self.receiver)
        elif n < 0:
            sys.exit(f"pst_receiver_poll: {os.strerror(-n)}")
        at = 0
        while at < n:
            views = byref(self.views, at * ctypes.sizeof(View))
            rows = self.library.pst_view_rows(views, n - at)
            self.check(at, rows)
            at += rows
        self.received += max(n, 0)

    def to_the_end(self):
        while self.library.pst_receiver_state(self.receiver) != ENDED:
            if self.sent < self.messages:
                self.send_some()
            else:
                self.library.pst_sender_poll(self.sender)
            self.receive_some()


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    run = Run(load(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    if run.stream:
        with torch.cuda.stream(run.stream):
            run.to_the_end()
        run.stream.synchronize()
    else:
        run.to_the_end()
    wrong = int(run.wrong)
    print(f"{run.received} messages as PyTorch tensors on {run.expected.device}, {wrong} bytes wrong")
    run.library.pst_session_close(run.session)
    sys.exit(wrong != 0 or run.received != run.messages)


if __name__ == "__main__":
    main()
