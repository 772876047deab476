#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the C files of a build folder that lie outside tests/.

usage: run-tidy.py BUILD
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys


def main():
    build = pathlib.Path(sys.argv[1])
    root = pathlib.Path(__file__).resolve().parent.parent
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {(pathlib.Path(entry["directory"]) / entry["file"]).resolve() for entry in commands}
    files = sorted(file for file in files if file.relative_to(root).parts[0] != "tests")

    def tidy(file):
        return subprocess.run(
            ["clang-tidy", "--quiet", "-p", str(build), str(file)], capture_output=True, text=True
        )

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        findings = [run.stdout for run in pool.map(tidy, files) if run.returncode]
    print("".join(findings), end="")
    print(f"clang-tidy: {len(files)} files, {len(findings)} with findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
