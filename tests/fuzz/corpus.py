#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The inputs that a fuzz target begins with, an archive for each target in tests/fuzz/corpus.

usage: corpus.py unpack TARGET FOLDER    writes the target's inputs into FOLDER, which it empties first
       corpus.py pack TARGET FOLDER      makes the target's archive of the files in FOLDER

Equal inputs make an equal archive: it has neither times nor owners, and each file is named by
its place among them, the shortest first.
"""
import gzip
import io
import pathlib
import shutil
import sys
import tarfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def archive(target):
    return CORPUS / f"{target}.tar.gz"


def unpack(target, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if not archive(target).exists():
        return
    with tarfile.open(archive(target)) as tar:
        for member in tar:
            (folder / pathlib.PurePath(member.name).name).write_bytes(tar.extractfile(member).read())


def pack(target, folder):
    """How many inputs, and their bytes."""
    inputs = sorted({path.read_bytes() for path in folder.iterdir()}, key=lambda data: (len(data), data))
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for number, data in enumerate(inputs):
            member = tarfile.TarInfo(f"{number:03}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    CORPUS.mkdir(exist_ok=True)
    archive(target).write_bytes(gzip.compress(made.getvalue(), mtime=0))
    return len(inputs), sum(map(len, inputs))


def main():
    commands = {"pack": pack, "unpack": unpack}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2], pathlib.Path(sys.argv[3]))


if __name__ == "__main__":
    main()
