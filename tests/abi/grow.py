#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: grow.py HEADER OUTPUT

A public header as a later minor could have it: structs that cross by themselves are
longer, the minor is raised, and each set of bits or numbers has one more.
"""
import pathlib
import re
import sys

FIELDS = "  uint64_t later[3]; /* of a later minor */\n"
CALLS = "  int (*later)(void *object, uint64_t argument); /* of a later minor */\n"
# What gets one more, by the next bit or number.
ENUMS = {
    "pst_option_scope": "PST_SCOPE_LATER",
    "pst_memory_capability": "PST_MEMORY_CAP_LATER",
    "pst_transport_capability": "PST_CAP_LATER",
    "pst_opcode": "PST_OP_LATER",
    "pst_request_flag": "PST_REQUEST_LATER",
    "pst_event": "PST_EVENT_LATER",
}


def grow_struct(match):
    name, body = match.groups()
    if not re.match(r"\s*uint32_t struct_size;", body):
        return match[0]
    return f"struct {name} {{{body}{CALLS if name.endswith('_ops') else FIELDS}}};"


def grow_enum(match):
    name, body = match.groups()
    if name not in ENUMS:
        return match[0]
    code = re.sub(r"/\*.*?\*/", "", body, flags=re.S).rstrip()
    bits = [int(bit) for bit in re.findall(r"= 1u << (\d+)", code)]
    numbers = [int(number) for number in re.findall(r"= (\d+)(?! <|u)", code)]
    value = f"1u << {max(bits) + 1}" if bits else str(max(numbers) + 1)
    comma = "" if code.endswith(",") else ","
    return f"enum {name} {{{body.rstrip()}{comma}\n  {ENUMS[name]} = {value},\n}};"


def grow(text):
    text = re.sub(r"(#define PST_ABI_MINOR )(\d+)u", lambda m: f"{m[1]}{int(m[2]) + 1}u", text)
    text = re.sub(r"^struct (\w+) \{(.*?)^\};", grow_struct, text, flags=re.S | re.M)
    return re.sub(r"^enum (\w+) \{(.*?)^\};", grow_enum, text, flags=re.S | re.M)


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(grow(pathlib.Path(sys.argv[1]).read_text()))
