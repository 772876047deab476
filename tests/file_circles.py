# SPDX-License-Identifier: Apache-2.0
"""Circles of .c files: each file of one needs, by way of the others, a symbol of each other file.

What a file defines and needs, `nm` reads from the object files of a build. Only files of one
folder are looked at together: that folders form no circle is held by the libraries' links.
"""
import collections
import json
import pathlib
import subprocess

FOLDERS = ("core/*", "transports/*", "memory/*", "filters/*", "apps", "apps/*")


class NotBuilt(Exception):
    """Why the circles of this tree, or of this folder, cannot be known."""


def folders(root):
    """The folders with .c files."""
    found = {path for pattern in FOLDERS for path in root.glob(pattern) if any(path.glob("*.c"))}
    return sorted(str(path.relative_to(root)) for path in found)


def objects_of(root, build):
    """The object file of each source; of a source that tests compile too, the product's own."""
    try:
        commands = json.loads((build / "compile_commands.json").read_text())
    except FileNotFoundError:
        raise NotBuilt(f"{build} is not the folder of a build: PENSTOCK_BUILD names one") from None
    objects = {}
    for command in commands:
        source = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        if source.is_relative_to(root) and not command["output"].startswith("tests/"):
            objects[str(source.relative_to(root))] = build / command["output"]
    return objects


def symbols_of(objects):
    """{object: (defined, needed)}, by one run of nm."""
    symbols = {path: (set(), set()) for path in objects}
    run = subprocess.run(["nm", "-A", "-g", "-P", *symbols], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        place, name, kind = line.split()[:3]
        symbols[pathlib.Path(place.rstrip(":"))][kind in "Uwv"].add(name)
    return symbols


def needs_of(symbols):
    """{file: the other files that define what it needs} of {file: (defined, needed)}."""
    definers = collections.defaultdict(set)
    for file, (defined, _) in symbols.items():
        for name in defined:
            definers[name].add(file)
    return {
        file: {definer for name in needed for definer in definers[name]} - {file}
        for file, (_, needed) in symbols.items()
    }


def largest_circle(needs):
    """The largest strongly connected component of {file: the files it needs}, sorted."""

    def reached(start, edges):
        seen, waiting = {start}, [start]
        while waiting:
            for file in edges[waiting.pop()] - seen:
                seen.add(file)
                waiting.append(file)
        return seen

    needed_by = {file: {other for other in needs if file in needs[other]} for file in needs}
    circles = [reached(file, needs) & reached(file, needed_by) for file in sorted(needs)]
    return sorted(max(circles, key=len))


def needs_in(root, build, folder):
    """{name of a .c file of the folder: the files of the folder that it needs}; without the files
    that this build leaves out."""
    objects = objects_of(root, build)
    files = {path.name: objects[f"{folder}/{path.name}"]
             for path in sorted((root / folder).glob("*.c")) if f"{folder}/{path.name}" in objects}  # fmt: skip
    if not files:
        raise NotBuilt(f"{build} leaves {folder} out")
    for name, path in files.items():
        if not path.exists() or path.stat().st_mtime < (root / folder / name).stat().st_mtime:
            raise NotBuilt(f"{folder}/{name} is not yet compiled in {build}")
    symbols = symbols_of(files.values())
    return needs_of({name: symbols[path] for name, path in files.items()})
