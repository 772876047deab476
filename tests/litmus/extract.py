#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Functions, structs and macros of C sources, by name, as C++ that a litmus compiles (litmus.h).

usage: extract.py OUTPUT ROOT [FILE:NAME,NAME...]...
"""
import pathlib
import re
import sys


def definition_of(text, name):
    """A function, `struct NAME`, `enum NAME` or `#define NAME`, as it stands there at column 0."""
    for form in (
        rf"(?m)^#define {name}\b(?:.*\\\n)*.*\n",
        rf"(?m)^(?:static )?(?:struct|enum) {name} \{{\n(?:.*\n)*?\}}.*;\n",
        rf"(?m)^(?:[A-Za-z_][^\n;=]*\n)?[A-Za-z_][^\n;=(]*(?:\(\(\w+\)\))?[^\n;=(]*\b{name}\([^;{{]*\)\n\{{\n(?:.*\n)*?\}}\n",
    ):
        found = list(re.finditer(form, text))
        if len(found) == 1:
            return found[0]
    return None


def as_cpp(text):
    """Types of Relacy's where C has qualifiers, or a pointer to a uint32_t that gcc's builtins get. A read that the
    compiler may not repeat is a read."""
    for name in set(re.findall(r"__atomic_\w+_n\((\w+),", text)):
        text = re.sub(rf"\buint32_t \*{name}\b", f"shared<uint32_t> *{name}", text)
    text = re.sub(r"_Atomic\((?:struct )?([^()]+)\)", r"::atomic<\1>", text)
    text = re.sub(r"(?:struct )?(\w+) \*_Atomic\b", r"::atomic<\1 *>", text)
    text = re.sub(r"_Atomic (\w+)", r"::atomic<\1>", text)
    text = re.sub(r"\*\(volatile \w+ \*\)&", "", text)
    return re.sub(r"\bvolatile (?=struct)", "", text)


def main():
    output, root, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    parts = []
    for one in wanted:
        file, names = one.rsplit(":", 1)
        text = (root / file).read_text()
        for name in names.split(","):
            found = definition_of(text, name)
            if not found:
                sys.exit(f"{file}: no definition of {name}, or several: tests/litmus names what is compiled from there")
            line = text.count("\n", 0, found.start()) + 1
            parts.append(f'#line {line} "{file}"\n{as_cpp(found[0])}')
    pathlib.Path(output).write_text("\n".join(parts))


if __name__ == "__main__":
    main()
