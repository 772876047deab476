#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of options in the READMEs of plugins, which config/README.md has from the plugins' own tables.

    tests/readme_options.py --write     writes them; check-tree.py says where one differs"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ("transports", "filters", "memory")
BEGIN, END = "<!-- options: tests/readme_options.py --write -->\n", "<!-- end of options -->\n"


def readmes():
    """(family, name, path) of each plugin."""
    return [(family, path.parent.name, path.parent / "README.md")
            for family in FAMILIES for path in sorted((ROOT / family).glob("*/options.c"))]  # fmt: skip


def table(family, name):
    """Table and rules of a plugin in config/README.md."""
    reference = (ROOT / "config" / "README.md").read_text()
    title = {"memory": "memories"}.get(family, family)
    (part,) = re.findall(rf"(?ms)^## Options of {title}\n(.*?)(?=^## |\Z)", reference)
    (section,) = re.findall(rf"(?ms)^### `{name}`\n(.*?)(?=^### |\Z)", part)
    return section[section.index("| key"):].strip() + "\n" if "| key" in section else "It has none.\n"


def written(family, name, text):
    """A README's text with the table as it has to be."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"{family}/{name}/README.md has no lines {BEGIN!r} and {END!r}")
    head, rest = text.split(BEGIN, 1)
    return head + BEGIN + "\n" + table(family, name) + "\n" + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    for family, name, path in readmes():
        text = path.read_text()
        if BEGIN in text:
            path.write_text(written(family, name, text))
