#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes inputs that mutation alone would take long to find: seeds.py TARGET FOLDER"""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent


# ---- Configurations ------------------------------------------------------------


def yaml_seeds():
    for path in sorted((HERE.parent.parent / "config").glob("*.yaml")):
        yield path.read_bytes()
    head = "penstock: 1\n"
    for text in (HERE / "seeds-yaml.txt").read_text().split("\n====\n"):
        yield (head + text).encode()
    yield from (text.encode() for text in [
        "", "~", "[1]", "penstock: 2", "penstock: [1]", "streams: []", "\t", "a: b: c", "[1", '"a',
        "'a\n---\n", "penstock: 1\n---\nb: 1", "\ufeffpenstock: 1\nstreams: [{name: a}]", "- a\nb",
        "a\nb: c", "%", "@a", "a: &b {c: *b}", "*none", "&a [*a]", "!!str a", "penstock: 1\nstreams: {a: b}",
        "{a: 1}: b", "<<: a", "a: 1\na: 2", "[" * 40,
        "x: &a [[[[[[[[[[1]]]]]]]]]]\ny: &b [[[[[[[[[[*a]]]]]]]]]]\nz: &c [[[[[[[[[[*b]]]]]]]]]]\nw: [[[*c]]]",
        "".join(f"k{i}: 1\n" for i in range(258)),
        "[" + ",".join(f"&a{i} 1" for i in range(258)) + "]",
        head + "streams: [" + "," * 0 + ",".join("a" for _ in range(2)) + "]",
        head + "threads: {cpus: [" + ",".join(["1"] * 1030) + "]}\nstreams: [{name: a}]\n",
        head + "transport: {filters: [" + ",".join(["bare"] * 18) + "]}\nstreams: [{name: a}]\n",
        head + "streams: [" + "a: b," * 0 + ",".join(["~"] * 4100)[:9000] + "]\n",
        "\n".join(f"a{i}: &a{i} [" + (",".join([f"*a{i - 1}"] * 9) if i else "1,1,1,1,1,1,1,1,1") + "]" for i in range(7)),
        head + "".join(f"b{i}: 1\n" for i in range(40)),
    ])  # fmt: skip
    yield from (b"a: \xff", b"a: \x00", b"a\r\nb\rc\x01", b'a: "\\0"', b'"\\x07": 1', "ä: \x7f".encode(),
                "a: \u0085\u2028é€😀".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x28\xa1")  # fmt: skip


def set_seeds():
    lines = (HERE / "seeds-set.txt").read_text().splitlines()
    for line in lines:
        yield line.encode()
    for at in range(0, len(lines) - 4, 4):
        yield "\n".join(lines[at:at + 4]).encode()
    yield b"streams=[" + b",".join(b"{name: s%d}" % i for i in range(12)) + b"]\nstreams.zzzz.ring=3"
    yield b"streams=[~,a,{plugin: fault},[1]]\nstreams.x.ring=3"


# ---- Control messages: just enough of CBOR ---------------------------------------


def head(major, value):
    for size, code, form in ((24, None, None), (1 << 8, 24, ">B"), (1 << 16, 25, ">H"), (1 << 32, 26, ">I"), (1 << 64, 27, ">Q")):
        if value < size:
            return bytes([major << 5 | value]) if code is None else bytes([major << 5 | code]) + struct.pack(form, value)
    raise ValueError(value)


def cbor(value):
    if isinstance(value, bool):
        return bytes([0xF5 if value else 0xF4])
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(k) + cbor(v) for k, v in value.items())


HELLO = {0: 1, 1: "penstock", 2: [1, 0], 3: {}, 4: 1, 5: "host", 6: 4711, 8: "0.1.0"}
TOTALS = {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: {0: 1, 99: 2}, 9: {"ring": 5, "no-slot": 6}}
PAIRS = {"message": "1462 B", "ring": "1024"}


def control_seeds():
    offer = {0: 2, 16: "packets", 17: PAIRS, 18: {"a": ""}, 19: b"address", 20: 7, 21: 2}
    good = [
        HELLO,
        {**HELLO, 9: "/tmp/penstock-x/s", 10: bytes(16)},
        {**HELLO, 3: {"user": [1, {2: -3}, None, 1.0 and 2]}},
        {0: 1, 1: "penstock", 2: [7, 3], 3: 1},
        offer,
        {0: 3, 16: "s", 18: {}, 19: b"", 30: [1, -1, {"k": [None, True]}], 1 << 40: "later"},
        {0: 3, 16: "s", 18: {}, 19: b"at", 25: b"key", 26: 1 << 30},
        {0: 3, 16: "s", 18: {}, 19: b"at", 20: 3, 21: 4, 25: b"key", 26: 1, 27: 4},
        {0: 3, 16: "s", 18: {}, 19: b"at", 20: 3, 25: b"", 26: 8, 27: 2},
        {0: 4, 16: "s", 23: 22, 24: "no such stream"},
        {0: 5, 16: "s", 19: b"x" * 300, 20: 1 << 60, 21: 4},
        {0: 6, 16: "s", 22: {}},
        {0: 7, 16: "s", 22: TOTALS},
        {0: 8, 16: "s", 22: {**TOTALS, 10: [1]}},
        {0: 9, 16: "s", 23: 0, 24: "ende gut, alles gut: ä€"},
        {0: 10}, {0: 11}, {0: 11, 23: 104, 24: "bye"}, {0: 11, 24: "only words"},
        {0: 2, 16: "s", 17: {f"k{i}": "v" for i in range(64)}, 18: {}, 19: b""},
        {**HELLO, 4: 4}, {0: 12, 17: PAIRS, 18: {"message.max": "4096"}, 19: b"address", 20: 7, 21: 3},
        {0: 13, 18: {}, 19: b"at"}, {0: 14, 20: 3, 25: b"key", 26: 1 << 30, 27: 2, 28: 1, 29: 12},
        {0: 14, 25: b"", 26: 1, 28: 0xFFFFFFFF, 29: 0}, {0: 15, 28: 1}, {0: 15, 23: 28, 24: "too many", 28: 2},
        {0: 16, 28: 7}, {0: 17, 19: b"elsewhere", 20: 3, 21: 4},
    ]  # fmt: skip
    bad = [
        {}, {1: 2}, {0: 99}, {0: "x"}, {0: 1 << 40}, [], {"a": 1}, {0: 10, 12: [[[[[[1]]]]]]},
        {0: 10, 12: [0] * 257}, {0: 10, 9: 1, 8: 2}, {**HELLO, 1: "stockpen"}, {**HELLO, 2: [1]},
        {**HELLO, 2: [1 << 40, 0]}, {**HELLO, 2: [1, 1 << 40]}, {**HELLO, 4: 8}, {**HELLO, 10: b"short"},
        {**HELLO, 10: bytes(17)}, {**HELLO, 9: ""}, {**HELLO, 5: "x" * 65}, {**HELLO, 5: "\n"},
        {**HELLO, 3: 5}, {**HELLO, 2: 5}, {0: 1, 2: [7, 3]}, {0: 5, 16: "s", 19: b"", 21: 1}, {0: 5, 16: "s", 19: b"", 21: 5},
        {0: 5, 16: "s", 19: "text"}, {0: 5, 16: "s", 19: b"y" * 16385}, {0: 6, 16: "s", 22: {1: 1, 0: 1}},
        {0: 6, 16: "s", 22: {"a": 1}}, {0: 6, 16: "s", 22: {9: {"a" * 60: 1}}}, {0: 6, 16: "s", 22: {8: {0: "x"}}},
        {0: 3, 16: "s", 18: {}, 19: b"", 25: b"key"}, {0: 3, 16: "s", 18: {}, 19: b"", 26: 5},
        {0: 3, 16: "s", 18: {}, 19: b"", 25: b"key", 26: 0}, {0: 3, 16: "s", 18: {}, 19: b"", 25: b"y" * 16385, 26: 1},
        {0: 3, 16: "s", 18: {}, 19: b"", 25: b"key", 26: 1, 27: 1}, {0: 3, 16: "s", 18: {}, 19: b"", 20: 1, 25: b"k", 26: 1, 27: 5},
        {0: 3, 16: "s", 18: {}, 19: b"", 20: 1, 27: 1}, {0: 3, 16: "s", 18: {}, 19: b"", 25: "text", 26: 1},
        {0: 4, 16: "s", 23: 5000, 24: ""}, {0: 2, 16: "s", 17: {f"k{i}": "v" for i in range(65)}}, {0: 10, 12: {1: [{}]}},
        {0: 14, 25: b"", 26: 0, 28: 1, 29: 0}, {0: 14, 25: b"", 26: 1, 28: 0, 29: 0}, {0: 14, 25: b"", 26: 1, 28: 1},
        {0: 15, 28: 0}, {0: 15, 28: 1 << 32}, {0: 16}, {0: 12, 17: {}, 18: {}}, {0: 14, 25: b"", 26: 1, 28: 1, 29: 1 << 40},
    ]  # fmt: skip
    for message in good + bad:
        yield cbor(message)
    twice = cbor({0: 2, 16: "s", 17: {}})[:-1] + head(5, 2) + (cbor("k") + cbor("v")) * 2
    yield from (twice, cbor({0: 10}) + b"\0", cbor(HELLO)[:-3], b"", b"\xff", b"\xbf\xff", b"\xa1\x00\xf9\x00\x00",
                b"\xa1\x00\xfa\x00\x00\x00\x00", b"\xa1\x00\xfb" + bytes(8), b"\xa1\x00\xc1\x01", b"\xa1\x00\xf7",
                b"\xa2\x00\x0a\x0c\x5f\xff", b"\xa2\x00\x0a\x0c\x7f\xff", b"\xa2\x00\x0a\x0c\x9f\xff", b"\x1c", b"\xa1\x00\xf8\x10",
                b"\xa5\x00\x0a\x0c\x20\x0d\x38\x20\x0e\x39\x01\x00\x0f\x3a\x00\x01\x00\x00\x10\x3b" + bytes(8))  # fmt: skip


# ---- serve and its clients --------------------------------------------------------


def serve_seeds():
    hello = {0: 1, 1: "penstock-serve", 2: 1, 3: 0, 4: "0.1.0"}
    span = {14: 1, 15: 4096, 10: 1 << 22}
    good = [
        hello, {**hello, 2: 9, 3: 4, 4: 1.0 and 5},
        {**hello, 0: 2, 12: 16, 25: 1 << 30, 26: 1 << 22, 27: 30 * 10**9, 28: 64},
        {0: 3, 5: 1, 20: 28, 21: "disk full: ä€"}, {0: 4, 5: 1 << 60},
        {0: 5, 5: 1, 6: 7, 7: 64, 8: 1, 9: 4, 10: 1 << 20, 11: 1000, 12: 1}, {0: 6, 5: 1, 22: 12345},
        {0: 7, 5: 1, 13: b"a/b.c"}, {0: 8, 5: 1, 14: 2, 16: 1 << 40, 17: 0o644},
        {0: 9, 5: 1, 6: 7, 7: 0, **dict(sorted(span.items()))}, {0: 10, 5: 1, 10: 9, 12: 2, 18: 0xDEADBEEF},
        {0: 11, 5: 1, 12: 12, 13: b"new", 16: 5, 17: 0o755}, {0: 12, 5: 1, 14: 3, 16: 0},
        {0: 13, 5: 1, 6: 7, 7: 0, 10: 1, 14: 1, 15: 0, 18: 1}, {0: 14, 5: 1, 10: 1 << 30, 14: 1, 15: 0},
        {0: 15, 5: 1, 10: 1, 14: 1, 15: 0}, {0: 15, 5: 1, 10: 1, 14: 1, 15: 0, 19: bytes(32)}, {0: 16, 5: 1, 19: bytes(range(32))},
        {0: 17, 5: 1, 14: 1}, {0: 17, 5: 1, 14: 1, 19: bytes(32)}, {0: 18, 5: 1, 14: 1},
        {0: 19, 5: 1, 13: b"", 23: 0}, {0: 20, 5: 1, 23: 9, 24: [1, b"f", 2, b"d" * 240, 3, b"l"]}, {0: 20, 5: 1, 23: 0, 24: []}, {0: 20, 5: 1, 23: 0, 24: [1, b"a/b", 1, b"..", 1, b"x" * 300]},
        {0: 21, 5: 1, 13: b"d/e", 17: 0o777}, {0: 22, 5: 1}, {0: 22, 5: 1, 99: {1: [None, True, -5, "x", b"y"]}},
    ]  # fmt: skip
    bad = [
        {}, [], {1: 2}, {0: 99}, {0: "x"}, {0: 1 << 40}, {0: 22}, {0: 22, 5: "x"}, {0: 22, 5: 1, 4: 1}, {**hello, 1: "other"},
        {0: 5, 5: 1, 6: 7, 7: 1 << 63, 8: 1}, {0: 5, 5: 1, 6: 7, 7: 0, 8: 3}, {0: 5, 5: 1, 6: 1, 7: 0, 8: 1, 9: 0},
        {0: 3, 5: 1, 20: 0}, {0: 3, 5: 1, 20: 5000}, {0: 3, 5: 1, 20: 1, 21: "a\nb"}, {0: 3, 5: 1, 20: 1, 21: "x" * 512},
        {0: 7, 5: 1, 13: b"n" * 1025}, {0: 7, 5: 1, 13: "text"}, {0: 16, 5: 1, 19: b"short"}, {0: 11, 5: 1, 12: 1 << 20},
        {0: 20, 5: 1, 23: 0, 24: [1]}, {0: 20, 5: 1, 23: 0, 24: [9, b"x"]}, {0: 20, 5: 1, 23: 0, 24: [1, b""]}, {0: 20, 5: 1, 23: 0, 24: 5},
        {0: 22, 5: 1, 99: [[[[[1]]]]]}, {0: 22, 5: 1, 99: [0] * 257},
    ]  # fmt: skip
    for name in (b"../x", b"/x", b"a/../b", b"a/..", b".", b"a//b", b"a/", b"a\0b", b"a\nb", b".x.penstock-part", b"a/" * 500 + b"b",
                 b"n" * 241, b""):  # fmt: skip
        good.append({0: 7, 5: 1, 13: name})
    for message in good + bad:
        yield cbor(message)
    yield from (cbor({0: 22, 5: 1}) + b"\0", cbor(hello)[:-3], b"", b"\xbf\xff", b"\xa2\x00\x16\x05\xf9\x00\x00",
                b"\xa2\x00\x16\x05\x5f\xff", b"\xa3\x00\x16\x05\x01\x18\x63\xfb" + bytes(8), b"\xa1\x00\xc1\x01",
                b"\xb9\x01\x01" + b"\x00\x16" * 257,
                b"\xa6\x00\x16\x05\x01\x18\x63\x20\x18\x64\x38\x20\x18\x65\x39\x01\x00\x18\x66\x3a" + bytes(4))  # fmt: skip


# ---- Messages and actions of serve's clients, in order: fuzz_server.c -------------------

JOIN, LEAVE, ASK, SAY, RAW, END_IO, END_OPERATION, OFFER, WITHDRAW, ROOM, VERIFY, WAIT, TRUNCATE, REPLACE = range(14)
MOVE, OPEN, FETCH, CREATE, STORE, HOLE, CHECK, COMMIT, CLOSE, LIST, MKDIR, PING = range(12)
NUMBERS = [0, 1, 7, 4095, 4096, 4097, 8192, 16384, 65536, 1 << 20, (1 << 20) + 1, 2 << 20, (4 << 20) + 1, 1 << 40, (1 << 63) - 1,
           (1 << 64) - 1]  # fmt: skip
NAMES = ["file", "sparse", "folder/inner", "new", "folder/new", "folder", "link-in", "link-out", "../secret", "", "fifo", "a/b/c",
         ".file.penstock-part", "none"]  # fmt: skip
READS, WRONG_CRC, HAS_SUM, LAST_SUM = 1, 2, 4, 8
VERIFIES, OVERWRITES, RESUMES, GOES_ON = 1, 4, 8, 64


def ask(request, name="file", how=0, file=0, offset=0, length=0, place=0, region=1, pieces=0, flags=0, peer=0):
    return bytes([ASK, peer, request, NAMES.index(name), how, file, NUMBERS.index(offset), NUMBERS.index(length),
                  NUMBERS.index(place), region, pieces, flags])  # fmt: skip


def server_seeds():
    join, io, full, fails, short, done = bytes([JOIN, 1]), bytes([END_IO, 0]), bytes([END_IO, 2]), bytes([END_IO, 1]), bytes([END_IO, 3]), bytes([END_OPERATION, 0])
    wrong, leave, dies = bytes([END_OPERATION, 4]), bytes([LEAVE, 0, 0]), bytes([LEAVE, 0, 1])
    get = [join, ask(OPEN), ask(FETCH, length=16384), io, done, done, ask(CHECK, length=16384), io, ask(CLOSE)]
    put = [join, ask(CREATE, "new", length=8192), ask(STORE, length=4096), done, io, ask(HOLE, offset=4096, length=4096),
           ask(COMMIT), io, io, ask(CLOSE)]
    summed = [join, ask(CREATE, "new", length=4096, flags=OVERWRITES), ask(STORE, length=4096), done, io, ask(CHECK, length=4096, flags=GOES_ON), io,
              ask(COMMIT, how=HAS_SUM | LAST_SUM), io, io, ask(CLOSE)]
    resumed = [join, ask(CREATE, "new", length=4096), ask(STORE, length=4096), done, io, ask(CLOSE), ask(CREATE, "new", length=4096, flags=RESUMES),
               ask(CHECK, length=4096), io, ask(CHECK, length=4096, how=HAS_SUM | LAST_SUM), io, ask(COMMIT, how=HAS_SUM | LAST_SUM), io, io, io]
    moves = [join, bytes([OFFER, 0, 1, 12]), ask(MOVE, length=(4 << 20) + 1, region=2), ask(MOVE, length=2 << 20, region=2, pieces=3, flags=VERIFIES),
             ask(MOVE, how=READS, length=65536, pieces=40, flags=VERIFIES), done, done, done, done, bytes([VERIFY, 1]), done, done]
    sessions = [get, put, summed, resumed, moves]
    for how in range(8):
        yield bytes([how]) + b"".join(get + put)
    for session in sessions:
        for at in range(1, len(session) + 1):
            yield b"\1" + b"".join(session[:at])
            yield b"\1" + b"".join(session[:at]) + dies + join
            yield b"\0" + b"".join(session[:at]) + bytes([ROOM, 0, 0]) + b"".join(session[at:])
        for other in (full, fails, short):
            yield b"\0" + b"".join(other if step == io else step for step in session)
        yield b"\0" + b"".join(wrong if step == done else step for step in session)
        yield b"\0" + b"".join(step for step in session if step not in (io, done)) * 2 + leave
        yield b"\0" + b"".join(step * 2 for step in session)
    yield from (b"\0" + join + ask(LIST, name) + ask(MKDIR, name) + ask(OPEN, name) + ask(CREATE, name, length=1) for name in NAMES)
    yield from (b"\0" + join + ask(OPEN) + ask(CREATE, "new", length=number) + b"".join(
        ask(request, file=file, offset=number, length=number, place=number) for request in (FETCH, STORE, HOLE, CHECK, MOVE) for file in (0, 1)
    ) for number in NUMBERS)  # fmt: skip
    yield b"\0" + b"".join(summed[:5]) + ask(STORE, length=4096) + done + ask(COMMIT) + io * 4 + ask(COMMIT) + io * 3
    yield b"\0" + join + ask(OPEN) + ask(CHECK, length=4096, flags=GOES_ON) + ask(CHECK, offset=4096, length=4096, flags=GOES_ON) + io * 2
    yield b"\0" + join + ask(CREATE, "new", length=4096) + ask(STORE, offset=1, length=4096) + done + io + ask(HOLE, offset=4096, length=1)
    yield b"\0" + join + ask(CREATE, "new", length=1 << 40) + ask(STORE, length=(4 << 20) + 1) + done + io
    yield b"\0" + join + ask(CREATE, "new", length=4096) + ask(CHECK, length=4096, how=HAS_SUM) + io + ask(COMMIT) + io * 3
    yield b"\0" + join + ask(CREATE, "new", length=8192) + ask(STORE, length=4096) + ask(STORE, offset=4096, length=4096) + done + fails + done + io
    yield b"\0" + bytes([JOIN, 3]) + ask(PING)
    yield b"\0" + join + ask(OPEN) * 34 + ask(CLOSE, file=3) + ask(OPEN)
    yield b"\0" + join + ask(MOVE, length=4096) * 66
    yield b"\0" + join * 3 + ask(MOVE, length=2 << 20, peer=1) * 3 + ask(MOVE, length=4096, peer=2) * 3 + done * 4 + bytes([LEAVE, 1, 1]) + done * 8
    yield b"\0" + join + ask(OPEN) + bytes([TRUNCATE, 0, 1]) + ask(FETCH, length=16384) + io + ask(FETCH, length=1) + ask(CLOSE)
    yield b"\1" + join + ask(CREATE, flags=OVERWRITES) + bytes([REPLACE, 0, 0]) + ask(COMMIT) + io * 3
    yield b"\0" + join + bytes([WAIT, 255]) + ask(PING) + bytes([WAIT, 70]) + bytes([JOIN, 2]) + ask(PING)
    yield b"\0" + join + ask(MOVE, length=4096) + bytes([WITHDRAW, 0, 0]) + done + ask(MOVE, length=4096) + bytes([SAY, 0, 1] + [0] * 9)
    yield b"\0" + join + b"".join(bytes([SAY, 0, kind] + [0] * 9) for kind in range(23)) + bytes([RAW, 0, 3]) + b"\xa1\x00\x16"


# ---- Datagrams ---------------------------------------------------------------------


def setting(bits, initial=0, payload_type=-1, message_max=255, reorder=16, rate=90):
    return struct.pack(">BIBHHB", bits, initial, payload_type + 1, message_max, reorder, rate)


def arrivals(*packets):
    return b"".join(bytes([bits, len(packet)]) + packet for bits, packet in packets)


def rtp(number, ssrc=1, first=0x80, kind=96, rest=b"payload and nonce"):
    return struct.pack(">BBHII", first, kind, number & 0xFFFF, number * 3000, ssrc) + rest


def sequence(number, payload=b"payload and nonce"):
    return struct.pack(">II", number & 0xFFFFFFFF, sum(payload)) + payload


def packet_seeds():
    cut, drops, follows, starved, back, checked = 4, 8, 16, 32, 64, 128
    run = [(checked, rtp(n)) for n in range(65530, 65540)]
    for bits in range(0, 128, 4):
        for framing in range(3):
            value = next(v for v in range(bits, bits + 4) if v % 3 == framing)
            yield setting(value, 65530) + arrivals(*run, (1, rtp(7)), (follows | checked, rtp(0)), (2, rtp(9)), (cut, rtp(1)))
            yield setting(value, 1 << 31) + arrivals(*((checked, sequence((1 << 31) + n)) for n in range(4)), (0, sequence(0)),
                                                     (follows | checked, sequence(0)), (checked, sequence(1, bytes(range(200)))))  # fmt: skip
    free_rtp = next(v for v in range(4) if v % 3 == 2)
    for packets in [
        [(0, rtp(1)), (drops, rtp(9)), (drops | starved, rtp(20)), (back, rtp(19)), (0, rtp(4))],
        [(0, rtp(1)), (1, rtp(500)), (1, rtp(501)), (0, rtp(2)), (1, rtp(502))],
        [(0, rtp(1)), (0, rtp(500, 2)), (0, rtp(501, 2)), (0, rtp(2))],
        [(0, rtp(40000)), (0, rtp(20)), (0, rtp(39000)), (0, rtp(20)), (0, rtp(21)), (0, rtp(20))],
        [(0, rtp(1, first=0x83, rest=bytes(12) + b"a")), (0, rtp(2, first=0x8F)), (0, rtp(3, first=0xA0, rest=b"abc\2")),
         (0, rtp(4, first=0xA0, rest=b"")), (0, rtp(5, first=0xA0, rest=b"\7")), (0, rtp(6, first=0x90, rest=b"\0\0\0\1abcd")),
         (0, rtp(7, first=0x90, rest=b"\0\0\0\2abcd")), (0, rtp(8, first=0x90, rest=b"\0")), (0, rtp(9, first=0x40)), (0, b"short")],
        [(0, rtp(1, kind=0xE0)), (0, rtp(2, kind=33))],
    ]:  # fmt: skip
        yield setting(free_rtp) + arrivals(*packets)
        yield setting(free_rtp, payload_type=96, message_max=3) + arrivals(*packets)
        yield setting(free_rtp, rate=0) + arrivals(*packets)
    # Numbered, from a fixed port, with tags: number, tag, payload.
    for value, header in ((22, sequence(0, b"")), (20, rtp(0, rest=b"PS\0\6"))):
        due, new, old, far = (header + struct.pack(">Q", number) + bytes(16) + b"payload" for number in (0, 1, 2, 1 << 20))
        yield setting(value, message_max=0x80FF) + arrivals((checked, due), (0, new), (checked | 1, new), (checked | follows, new),
            (checked | follows, new), (0, new), (0, far[:30]), (0, b"short"), (cut, old), (checked | follows, far),
            (checked | follows, old))  # fmt: skip


# ---- Frames of Ethernet ------------------------------------------------------------


def ethernet_frame_seeds():
    mended, cut, split, waits = 1, 2, 4, 128
    peer, ours = bytes.fromhex("02000000000b"), bytes.fromhex("02000000000a")
    v4 = [bytes([10, 0, 0, last]) for last in range(4)]
    v6 = [bytes([0xFD, *bytes(14), last]) for last in range(4)]
    link, none = bytes([0xFE, 0x80, *bytes(13), 2]), bytes(16)

    def frame(kind, body, tag=b""):
        return ours + peer + tag + struct.pack(">H", kind) + body

    def ip4(protocol, body, options=b"", field=0, to=v4[1]):
        return frame(0x800, struct.pack(">BBHHHBBH", 0x45 + len(options) // 4, 0, 20 + len(options) + len(body), 1, field, 1,
                                        protocol, 0) + v4[2] + to + options + body)  # fmt: skip

    def ip6(kind, body, source=v6[2], to=v6[1], hops=255, tag=b""):
        return frame(0x86DD, struct.pack(">IHBB", 6 << 28, len(body), kind, hops) + source + to + body, tag)

    def udp(length):
        return struct.pack(">HHHH", 4000, 5004, 8 + length, 0) + bytes(range(length))

    def arp(operation, sender, target, mac=peer):
        return frame(0x806, struct.pack(">HHBBH", 1, 0x800, 6, 4, operation) + mac + sender + bytes(6) + target)

    def nd(kind, flags, target, option):
        return struct.pack(">BBHI", kind, 0, 0, flags << 24) + target + option

    def mld(kind, delay, group, rest=b""):
        return b"\x3a\0\5\2\0\0\1\0" + struct.pack(">BBHHH", kind, 0, 0, delay, 0) + group + rest

    def igmp(kind, delay, group, rest=b""):
        return ip4(2, struct.pack(">BBH", kind, delay, 0) + group + rest, b"\x94\4\0\0")

    asm4, ssm4, asm6 = bytes([239, 1, 2, 3]), bytes([232, 1, 2, 3]), bytes([0xFF, 0x0E, *bytes(13), 1])
    datagrams = [ip4(17, udp(20)), ip4(17, udp(0)), ip4(17, udp(9), b"\1\1\1\0"), ip4(17, udp(9), b"\x83\3\4\0"),
                 ip4(17, udp(9), field=0x2000), ip6(17, udp(20)), ip6(17, udp(20), tag=b"\x81\0\0\5"),
                 ip6(17, udp(20), tag=b"\x81\0\0\5\x81\0\0\6"), ip6(0, b"\x11\0\1\4\0\0\0\0" + udp(5)),
                 ip6(43, b"\x11\0\0\1\0\0\0\0" + udp(5)), ip6(44, b"\x11\0\0\0\0\0\0\1" + udp(5)),
                 ip6(44, b"\x11\0\0\1\0\0\0\1" + udp(5)), ip6(60, b"\x11\0\xc2\4\0\0\0\0" + udp(5)),
                 frame(0x88CC, bytes(50)), ip4(6, bytes(20)), ip6(59, b"")]  # fmt: skip
    answers = [arp(2, v4[2], v4[1]), arp(2, v4[2], v4[1], bytes.fromhex("02000000000c")), arp(1, v4[2], v4[1]),
               arp(1, bytes(4), v4[1]), arp(1, v4[1], v4[1]), ip6(58, nd(136, 0x60, v6[2], b"\2\1" + peer)),
               ip6(58, nd(136, 0x40, v6[2], b"\2\1" + ours[:5] + b"\x0c")), ip6(58, nd(136, 0x20, v6[1], b"\2\1" + peer)),
               ip6(58, nd(135, 0, v6[1], b"\1\1" + peer)), ip6(58, nd(135, 0, link, b"")),
               ip6(58, nd(135, 0, v6[1], b""), none, b"\xff\2" + bytes(9) + b"\1\xff\0\0\1"),
               ip6(58, nd(136, 0x60, link, b""), link), ip6(58, bytes([134, 0]) + bytes(14)), ip6(58, nd(137, 0, v6[2], b""))]  # fmt: skip
    queries = [igmp(17, 100, bytes(4), b"\2\x7d\0\0"), igmp(17, 10, asm4, b"\2\x7d\0\0"), igmp(17, 0xFF, ssm4, b"\2\x7d\0\1" + v4[2]),
               igmp(17, 10, ssm4, b"\5\x7d\0\x11" + bytes(68)), igmp(17, 100, bytes(4)), igmp(17, 0, bytes(4)), igmp(22, 0, asm4),
               ip6(0, mld(130, 1000, none, b"\2\x7d\0\0"), link, hops=1), ip6(0, mld(130, 0x8FFF, asm6, b"\2\x7d\0\1" + v6[2]), link, hops=1),
               ip6(0, mld(130, 1000, none), link, hops=1), ip6(0, mld(131, 0, asm6), link, hops=1), ip6(0, mld(130, 1, asm6, b"\2"), link, hops=1),
               ip6(0, mld(143, 0, none), link, hops=1)]  # fmt: skip

    def say(bits, what, part=0, wait=10):
        return bytes([bits, len(what), part, wait]) + what

    for what in datagrams + answers + queries:
        yield say(mended, what)
        yield say(0, what)
        yield b"".join(say(mended | split, what, part) for part in (14, 42, 50, 62, 80))
        yield b"".join(say(mended | cut, what, part) for part in (13, 33, 41, 53, 61))
    for bits in range(16):
        yield say(mended | bits << 3, datagrams[0]) + say(bits << 3, datagrams[5]) + say(split | bits << 3, datagrams[0], 42)
    yield b"".join(say(mended, what, wait=200) for what in answers)
    yield b"".join(say(mended | waits, what, wait=40) for what in answers)
    yield b"".join(say(mended, what) for what in queries)
    yield b"".join(say(mended | waits, what, wait=60) for what in queries)


# ---- Captures ---------------------------------------------------------------------


def classic(magic, records, order="<", link=1, snaplen=65535):
    out = struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, snaplen, link)
    for seconds, fraction, length, original in records:
        out += struct.pack(order + "IIII", seconds, fraction, length, original) + bytes(i & 255 for i in range(length))
    return out


def block(kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def pcapng(packets, options=b"", snaplen=65535):
    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, snaplen) + options)
    for time, data in packets:
        out += block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + data)
    return out


def pcap_seeds():
    usual = [(1, 2, 60, 60), (1, 500, 14, 1500), (0, 7, 0, 0)]
    yield classic(0xA1B2C3D4, usual)
    yield classic(0xA1B23C4D, usual, order=">")
    yield classic(0xA1B2C3D4, [])
    yield classic(0xA1B2C3D4, [(i, 0, 1, 1) for i in range(300)])
    yield classic(0xA1B2C3D4, [(1, 0, 100, 100)])
    yield classic(0xA1B2C3D4, [(1, 0, 3000, 3000)])
    yield classic(0xA1B2C3D4, [(1, 0, 4, 70000)])
    yield classic(0xA1B2C3D4, [(1, 0, 4, 3)])
    yield classic(0xA1B2C3D4, [(0, 0, 4, 4), (0xFFFFFFFF, 0, 4, 4)])
    yield classic(0xA1B23C4D, [(0, 0, 4, 4), (200000, 0, 4, 4)])
    yield classic(0xA1B2C3D4, usual)[:-3] + b""
    yield classic(0xA1B2C3D4, [(1, 0, 8, 8)])[:-3]
    yield classic(0xA1B2CD34, usual)
    yield from (b"", b"abc", b"abcdabcdabcdabcdabcdabcdabcd")
    yield pcapng([(1 << 50, b"payload"), ((1 << 50) + 9, b"")])
    yield pcapng([(5, b"abcd")], options=struct.pack("<HHB3xHH", 9, 1, 0, 0, 0))
    yield pcapng([(5, b"abcd")], options=struct.pack("<HHB3xHHqHH", 9, 1, 0x80, 14, 8, -5, 0, 0))
    yield pcapng([(5, b"abcd")])[:-2]


# ---- Loopback: a byte or two for each choice, as fuzz_loopback.c takes them ----------------


def loopback_seeds():
    meeting, poll, send, read = b"\0\0\0\0", b"\x0b\x0f", b"\0\1\x20\x20", b"\1\1\x10\1\x10\2"
    remote, release, arrive, arm = b"\x0a\0", b"\7", b"\x08\3\x40", b"\x09"
    for scribbles in range(3):
        begin = bytes([scribbles]) + meeting
        yield begin + poll + send + poll
        yield begin + remote + read + b"\2\0\x20\1" + b"\3\0\0\0" + poll + arm
        yield begin + (arrive + poll + release) * 4 + arm + send * 8 + poll
        yield begin + b"\4\x08\x10" + poll + b"\5\x08\x20" + send + poll
        yield begin + remote + b"\6\0\0" + read + poll
    for place in range(24):
        for value in range(9):
            yield b"\0\1" + bytes([value, place]) + b"\0\0\0" + remote + send + poll
            yield b"\0" + meeting + poll + b"\x0a\1" + bytes([value, place]) + read + poll


# ---- Messages of two peers to a control channel, as fuzz_flow.c takes them ------------------


def flow_seeds():
    def say(kind, peer=0, stream=0, terms=1, fds=0, totals=1):
        return bytes([kind << 1 | peer, stream, terms, 16, fds, 0, 1, 4, 5, 4, totals, 9])

    offer, address, beat, finish, counts, fail, keep, bye = (say(kind) for kind in (2, 5, 6, 7, 8, 9, 10, 11))
    met, ours = b"\0\0", lambda what: bytes([18 << 1, 5, 0, what])
    whole = met + offer + beat + finish + ours(1) + counts + bye
    yield whole
    yield met + offer + say(2, peer=1) + say(2, peer=1, stream=1) + finish + ours(1) + counts
    yield met + offer + address + say(17) + keep + fail + ours(2)
    yield met + offer + ours(2) + fail + bye
    yield met + say(2, terms=0) + say(2, stream=2) + offer + finish + finish
    yield met + offer + say(2, fds=255) + beat
    yield met + say(12) + say(13) + say(14) + say(15) + say(16)
    yield b"\xff\0" + offer + say(2, peer=1)
    for kind in range(1, 18):
        yield met + say(kind) + offer + say(kind) + finish + say(kind) + ours(1) + say(kind)


# ---- Messages of peers to a node's control channel, as fuzz_nodes.c takes them -------------------


def nodes_seeds():
    def say(kind, peer=0, terms=0, length=16, region=0, remote=2, code=0, passed=0):
        more = [remote] if kind == 14 else []
        return bytes([kind * 4 + peer, terms, length, region, 1, *more, code, passed])

    def ours(what, peer=1, fds=1):
        return bytes([19 * 4, fds, what, 1, peer - 1])

    met, join = b"\1\1", say(12, passed=1)
    regions = say(14, passed=2) + say(14, region=1, remote=0) + say(14, region=2, remote=1)
    yield met + join + regions + say(16) + say(15) + say(17, passed=1) + say(10) + say(11)
    yield met + join + ours(0) + say(15) + say(15) + ours(8) + say(15, code=5) + ours(1) + ours(2)
    yield met + join + say(12, peer=1, passed=1) + regions + say(14, peer=1, passed=3) + ours(0, 3) + say(15, peer=1)
    yield met + join + say(14) + say(14)
    yield met + join + say(14) + say(16) + say(16) + say(14, region=3) + say(14, region=2) + say(14, region=1) + say(14)
    yield met + join + join
    yield met + say(12, length=3) + say(14)
    yield met + say(12, terms=7) + say(13)
    yield met + say(13, peer=2, passed=1) + say(14, peer=2) + ours(0, 2) + say(15, peer=2) + say(16, peer=2) + say(12, peer=2)
    yield met + say(13, peer=2) + ours(7, 2) + say(14, peer=2) + say(11, peer=2)
    yield met + ours(2, 2) + say(13, peer=2) + say(13, peer=2)
    found = say(13, peer=2)
    for two in ((14, 14), (16, 16), (15, 15)):
        yield met + found + say(14, peer=2) + b"".join(say(kind, peer=2) for kind in two)
    yield met + found + b"".join(say(14, peer=2, region=i) for i in range(4))
    for passed in (1 + 64, 1 + 128, 64, 128, 3, 3 + 64 + 128):
        yield met + say(12, passed=passed) + say(14, passed=passed) + say(17, passed=passed)
    yield met + bytes([18 * 4, 7]) + b"1234567" + join
    yield met + bytes([18 * 4, 8]) + b"12345678" + join
    yield b"\0\0" + join + say(14, passed=1)
    yield b"\xff\1" + join
    for kind in range(1, 18):
        yield met + say(kind) + join + say(kind) + say(kind, peer=2) + say(13, peer=2) + say(kind, peer=2)


# ---- Addresses, behind their magic ------------------------------------------------------------


def datagram_blob_seeds():
    for framing in range(4):
        for family in (4, 6, 5):
            yield bytes([framing, family, framing & 1, 2]) + struct.pack(">HBx", 5004, 96) + bytes(range(40)) + bytes(128)
            yield bytes([framing, family, framing & 1, 1]) + struct.pack(">HBB", 5004, 96, 1) + bytes(range(40)) + bytes(128)
    yield bytes([0, 4, 0, 9]) + struct.pack(">HBx", 5004, 96)


def rc_blob_seeds():
    for flags in range(0, 256, 5):
        yield (struct.pack(">BBBBHII16sHQQIIQIQQIIB", flags, 2, 3, 1, 7, 17, 19, bytes(16), 4791, 5, 0, 8, 4096, 4096, 9, 512, 512, 16, 8, 1)
               + bytes(128) + struct.pack(">III", 1, 0, 8))  # fmt: skip


# ---- TLS: a way for each flight, a client's first, as fuzz_tls.c takes them ------------------


def tls_seeds():
    ways = 8
    for kind in range(8):
        yield bytes([kind])
    for kind in (0, 1, 2, 5):
        for way in range(1, ways):
            for flight in range(5):
                for at in (5, 70):
                    yield bytes([kind]) + bytes(flight) + bytes([way, 0, at, 1]) + bytes(8)
    for kind in range(2):
        yield bytes([kind]) + bytes([7, 0, 0] * 16)
        for record in (b"\x15\x03\x03\0\2\2\x28", b"\x14\3\3\0\1\1" * 8, b"\x16\3\1\x40\0\1\1\x86\xa0", b"\x17\3\3\0\0"):
            for flight in range(5):
                yield bytes([kind]) + bytes(flight) + bytes([3, 0, 0, len(record)]) + record


# ---- UCX: a byte or two for each choice, as fuzz_ucx.c takes them --------------------------


def ucx_seeds():
    def message(kind, how=0, count=1, length=16, place=4, data=16, sequence=3, offset=0, flags=0):
        said = bytes([0, kind, flags, how, count])
        said += bytes([0]) if how & 2 else struct.pack("<H", length)
        said += bytes([place]) + (b"" if how & 4 else bytes([sequence]))
        said += bytes([0]) if how & 8 else struct.pack("<H", offset)
        return said + (b"" if how & 32 else struct.pack("<H", data)) + (b"" if how & 1 else bytes(range(data % 256)))

    poll, release, ended, step = b"\x0d\7", b"\x08\0", b"\7\0\0", b"\x0a"
    send = b"\x09\3\0\x10\1\x10\2\x40\3\xff"
    records = struct.pack("<QQII", 1, 2, 8, 0) * 2
    lists = bytes([0, 3, 0, 0, 2]) + struct.pack("<H", 0) + b"\4\3" + struct.pack("<HH", 0, 64) + records + bytes(16)
    for kind in range(12):
        for how in (0, 1, 2, 4, 8, 16, 32, 64):
            yield message(kind, how) + poll + release + step + send
        for place in (0, 3, 11, 12, 192, 193, 255):
            yield message(kind, place=place) + poll + message(kind) + poll + release
    yield message(2, count=4, data=64) + poll + (release + step) * 4 + message(2, count=8, length=8, data=64) + poll
    yield lists + poll + release * 2 + step + lists + poll
    for offset in (0, 16, 240, 241, 255):
        yield message(4, length=256, offset=offset) * 2 + message(4, length=256, offset=16, data=240) + poll
    yield message(5, how=1) + ended + poll + message(5, how=1, place=5) + message(2, place=4) + ended + poll
    yield message(6, place=200) + send * 6 + message(6, place=208) + send
    yield message(7, place=4) + step + message(2) + step + message(8, place=192) + send + message(8, place=193)
    for kind in (b"\x0b", b"\x0c"):
        for length in (0, 31, 32, 33, 63, 64, 65, 200):
            for mended in (b"\0", b"\1"):
                yield kind + mended + struct.pack("<H", length) + bytes([1, 2, 3, 4, 0x1f, 0, 0, 0]) + bytes(length)
                yield kind + mended + struct.pack("<H", length) + b"\xff" * length


# ---- Plugins --------------------------------------------------------------------------------------


def shared_object(needed=1, symbol=b"pst_plugin_v1", sections=4, machine=62, kind=3, undefined=False):
    strings = b"\0" + symbol + b"\0libc.so.6\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 0, 0 if undefined else 1, 64, 8)
    dynamic = struct.pack("<qQ", 1, len(symbol) + 2) * needed + bytes(16)
    at = 64 + 56
    places, body = [], b""
    for part in (strings, symbols, dynamic):
        places.append((at + len(body), len(part)))
        body += part + bytes(-len(part) % 8)
    table = at + len(body)
    header = b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 64, table, 0, 64, 56, 1, 64, sections, 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, table, table, 4096)

    def section(kind, place, link, entry):
        return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, *place, link, 0, 8, entry)

    return (header + load + body + section(0, (0, 0), 0, 0) + section(3, places[0], 0, 0)
            + section(11, places[1], 1, 24) + section(6, places[2], 1, 16))  # fmt: skip


def elf_seeds():
    whole = shared_object()
    yield whole
    yield from (shared_object(needed=0), shared_object(needed=9), shared_object(symbol=b"pst_plugin_v2"),
                shared_object(symbol=b"other"), shared_object(undefined=True), shared_object(machine=3),
                shared_object(kind=2), shared_object(sections=60000), shared_object(sections=0))  # fmt: skip
    yield from (whole[:cut] for cut in (0, 3, 16, 63, 64, 100, 200, len(whole) - 1))
    for at in range(0, len(whole), 8):
        yield whole[:at] + b"\xff" * 8 + whole[at + 8:]


def main():
    target, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(globals()[target + "_seeds"]()):
        (folder / f"seed-{number:03}").write_bytes(data)


if __name__ == "__main__":
    main()
