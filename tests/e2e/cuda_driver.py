# SPDX-License-Identifier: Apache-2.0
"""Which driver the tests of GPU memory run on: the fake one, whose work is done late and whose
errors are scripted, or, with PENSTOCK_CUDA=real, the machine's, which nobody scripts."""
import functools
import os
import subprocess
import unittest

from harness import BUILD, FAKES

IS_REAL = os.environ.get("PENSTOCK_CUDA") == "real"
# The fake's IPC opens another process' descriptor, which Landlock may forbid; CUDA's does not.
SANDBOX = os.environ.get("PENSTOCK_SANDBOX", "off")
HAS_KERNELS = (BUILD / "memory" / "nvidia" / "kernels.fatbin").exists()
# Tests of an error that the fake makes by order.
scripted = unittest.skipIf(IS_REAL, "it scripts the driver's answers")


def environment(script):
    if IS_REAL:
        return {}
    return {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "FAKE_CUDA": script, "PENSTOCK_SANDBOX": SANDBOX}


def counting(script, file):
    """The environment in which the number of copies that a process submits is written into this file."""
    library = FAKES / "cuda" / "libcuda.so.1"
    if IS_REAL:
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
        library = next(line.split()[-1] for line in listed.splitlines() if line.split()[:1] == ["libcuda.so.1"])
    others = os.environ.get("LD_LIBRARY_PATH", "").split(":") if IS_REAL else [FAKES / "cuda"]
    folders = [FAKES / "cuda_counting", *filter(None, others)]
    return {**environment(script), "LD_LIBRARY_PATH": ":".join(map(str, folders)), "PENSTOCK_CUDA_LIBRARY": str(library),
            "PENSTOCK_CUDA_COPIES": str(file), "PENSTOCK_SANDBOX": "off"}  # fmt: skip


def plugins():
    """Where no nvcc was, the plugin that goes with the fake."""
    return [] if IS_REAL or HAS_KERNELS else ["--plugin-path", FAKES / "cuda"]


@functools.lru_cache(maxsize=None)
def gpus():
    """How many a test may ask for."""
    if not IS_REAL:
        return 2
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return len(listed.stdout.splitlines())
