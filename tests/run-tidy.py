#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the C files of build folders that lie outside tests/ and subprojects/, each once, as the first
folder that has it compiles it.

usage: run-tidy.py BUILD...
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

# The analyzer visits at most so many states of a function: a third of its default. It visits first what it
# has not seen, and reaches the same blocks; the rest are further ways to these, and most of its time.
STATES = ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = {}
    for build in sys.argv[1:]:
        for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
            file = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
            if file.relative_to(root).parts[0] not in ("tests", "subprojects"):
                files.setdefault(file, build)

    def tidy(file):
        return subprocess.run(
            ["clang-tidy", "--quiet", *(f"--extra-arg={word}" for word in STATES), "-p", files[file], str(file)],
            capture_output=True,
            text=True,
        )

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [run.stdout for run in pool.map(tidy, sorted(files)) if run.returncode]
    print("".join(findings), end="")
    print(f"clang-tidy: {len(files)} files, {len(findings)} with findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
