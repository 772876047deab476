#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts for machines with a GPU, tests/gpu/run and the demo's part, tried out on the fake driver: they run to
their end, say whose figures these are, and fail where a step does."""
import re
import stat
import unittest

from cuda_driver import HAS_KERNELS
from harness import BUILD, FAKES, ROOT, SANITIZED, Case, free_port, main

# In place of compute-sanitizer: takes its options, then runs the program.
SHIM = """#!/bin/sh
while :; do
  case "$1" in
  --error-exitcode | --report-api-errors) shift 2 ;;
  *) break ;;
  esac
done
exec "$@"
"""


@unittest.skipIf(SANITIZED, "the scripts are what is tried out, and the programs were sanitized elsewhere")
class GpuRun(Case):
    def rows(self, *arguments, script="delay_us=100,devices=2", expect=0):
        """Name and outcome of each step, and what was printed."""
        child = self.run_program(
            "--fake", "--build", BUILD, "--out", self.folder / "out", *arguments, expect=expect,
            program=ROOT / "tests" / "gpu" / "run", seconds=400,
            environment={"FAKE_CUDA": script, "PENSTOCK_REQUIRE": "cuda", "PENSTOCK_GPU_PORT": str(free_port(5))},
        )  # fmt: skip
        self.assertIn("no GPU took part in any of this", child.stdout)
        return dict(re.findall(r"(?m)^([a-z][\w-]+) +(passed|FAILED|skipped) +\d+ s$", child.stdout)), child

    def passed(self, part, *wanted):
        shim = self.write("sanitizer", SHIM)
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
        rows, child = self.rows("--only", part, "--sanitizer", shim)
        skipped = {name for name, word in rows.items() if word == "skipped"}
        consumers = {"gpu-consumer", "sanitizer-gpu-consumer"} & set(rows)
        built = (BUILD / "apps" / "examples" / "gpu-consumer").exists()
        lacks = set() if built else consumers
        if not (BUILD / "transports" / "transport-ethernet.so").exists():
            lacks |= {"ethernet-memif", "ethernet-memif-frames"} & set(rows)
        self.assertEqual(skipped, lacks, child)
        self.assertLess(set(wanted), set(rows))
        return child

    def test_regions(self):
        self.passed("regions", "share", "sanitizer-regions", "killed-owner-vmm-two-gpus", "region-malloc",
                    "router", "router-two-gpus")  # fmt: skip

    def test_serve(self):
        self.passed("serve", "serve-vmm")

    def test_igpu(self):
        self.passed("igpu", "igpu-contract", "igpu-loopback-write-combined", "igpu-udp", "igpu-e2e")

    def test_all_else(self):
        child = self.passed("rest", "e2e-cuda", "e2e-cuda-regions", "sanitizer-run", "sanitizer-run-frames",
                            "contract", "bench-pattern")  # fmt: skip
        self.assertRegex(child.stdout, r"(?m)^pattern +1462 B in order +fill +[\d.]+ GB/s, .* verify +[\d.]+ GB/s, ")

    def test_steps_that_fail(self):
        """Nothing is under way when it is to be killed, and the sanitizer is not there."""
        rows, child = self.rows("--only", "regions", "--sanitizer", "no-such-sanitizer",
                                script="delay_us=100,devices=2,ipc_refused", expect=1)  # fmt: skip
        for name in ("killed-owner-malloc", "killed-writer-malloc", "region-malloc", "region-example-malloc",
                     "sanitizer-regions"):  # fmt: skip
            self.assertEqual(rows[name], "FAILED", child)
        self.assertEqual(rows["killed-owner-vmm"], "passed", child)

    def demo(self, script):
        environment = {"LD_LIBRARY_PATH": str(FAKES / "cuda"), "FAKE_CUDA": script}
        if not HAS_KERNELS:
            environment["PENSTOCK_PLUGIN_PATH"] = str(FAKES / "cuda")
        return self.run_program("demo", "gpu", program=ROOT / "run", seconds=120,
                                environment={**environment, "PENSTOCK_BUILD": str(BUILD)})  # fmt: skip

    def test_the_demo(self):
        child = self.demo("delay_us=100")
        self.assertIn("== Packets into the memory of Fake GPU", child.stdout)
        self.assertIn("It is a simulation in host memory", child.stdout)
        self.assertRegex(child.stderr, r"packets: .*\| staged")
        self.assertIn(" 0 corrupted", child.stderr)

    def test_the_demo_without_a_gpu(self):
        child = self.demo("devices=0")
        self.assertIn("No packets into a GPU: the NVIDIA driver finds no CUDA device", child.stdout)


if __name__ == "__main__":
    main(side_by_side=3)
