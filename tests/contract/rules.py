#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rules.py OUTPUT HEADER... -- SOURCE...: where the headers say what the cases' contract_rule()
quotes, as C. Fails where no header has a quoted sentence word for word."""
import json
import pathlib
import re
import sys

QUOTED = re.compile(r'\bcontract_rule\(\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')


class Header:
    """Its text with the marks of comments gone and each run of white space as one space."""

    def __init__(self, path):
        self.name = path.name
        self.text = ""
        self.lines = []  # of each character of the text
        for number, line in enumerate(path.read_text().splitlines(), 1):
            line = re.sub(r"^\s*\*(?!/)", " ", line).replace("/*", " ").replace("*/", " ")
            for word in line.split():
                self.text += word + " "
                self.lines += [number] * (len(word) + 1)

    def line_of(self, sentence):
        at = self.text.find(sentence)
        return self.lines[at] if at >= 0 else None


def quoted(path):
    """Each quoted sentence, with its line."""
    text = path.read_text()
    for found in QUOTED.finditer(text):
        pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(1))
        yield json.loads('"' + "".join(pieces) + '"'), text.count("\n", 0, found.start()) + 1


def place_of(sentence, headers):
    for header in headers:
        line = header.line_of(sentence)
        if line:
            return header.name, line
    return None


def main():
    split = sys.argv.index("--")
    headers = [Header(pathlib.Path(name)) for name in sys.argv[2:split]]
    places, wrong = {}, []
    for path in map(pathlib.Path, sys.argv[split + 1 :]):
        for sentence, line in quoted(path):
            places[sentence] = place_of(sentence, headers)
            if not places[sentence]:
                wrong.append(f"{path}:{line}: no header says: {sentence}")
    if wrong:
        sys.exit("\n".join(wrong))
    rows = [
        f"    {{{json.dumps(sentence)}, {json.dumps(header)}, {line}}},"
        for sentence, (header, line) in sorted(places.items())
    ]
    pathlib.Path(sys.argv[1]).write_text(
        "\n".join(
            ["/* Made by rules.py. */", '#include "common.h"', ""]
            + ["const struct contract_place contract_places[] = {", *rows, "    {NULL, NULL, 0}};", ""]
        )
    )


main()
