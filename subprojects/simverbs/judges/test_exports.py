#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulated libraries beside the installed ones: the same symbols at the same versions, so that
whatever is linked against those (RTLD_NOW) loads; the same words for the same values."""
import errno
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from judge import BUILD, main, sanitizer_runtime

SIMULATED = BUILD
# Between the two simulated libraries.
OURS = "PENSTOCK_SIM"
WORDS = {"ibv_node_type_str": range(-2, 10), "ibv_port_state_str": range(-1, 9),
         "ibv_event_type_str": range(-1, 23), "ibv_wc_status_str": range(-1, 27)}
NUMBERS = {"ibv_rate_to_mult": range(-1, 27), "ibv_rate_to_mbps": range(-1, 27),
           "mult_to_ibv_rate": range(-1, 600),
           "mbps_to_ibv_rate": [2500, 14062, 425000, 1275000, 0, 7, 112500, 25781]}


def installed(name):
    """The library of that name that programs load without penstock-simverbs."""
    folders = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for line in folders.splitlines():
        if line.strip().startswith(name + " "):
            return pathlib.Path(line.split("=>")[1].strip())
    raise unittest.SkipTest(f"{name} is not installed: apt-get install rdma-core libibverbs1 ibverbs-providers")


def exports(path):
    text = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in text.splitlines()} - {""}


def needs(path):
    """Versioned symbols that a program wants of the two libraries."""
    text = subprocess.run(["nm", "-D", "--undefined-only", path], capture_output=True, text=True).stdout
    return set(re.findall(r"\b(\w+@(?:IBVERBS|MLX5)_\w[\w.]*)", text))


def answers(path):
    """Returns the answers of the library at path, asked in a process of its own."""
    code = ("import ctypes, json, sys\n"
            "words, numbers = json.loads(sys.argv[2])\n"
            "library = ctypes.CDLL(sys.argv[1])\n"
            "for name in words: getattr(library, name).restype = ctypes.c_char_p\n"
            "print(json.dumps({name: [str(getattr(library, name)(v)) for v in values]"
            " for name, values in {**words, **numbers}.items()}))\n")
    values = [{name: list(them) for name, them in table.items()} for table in (WORDS, NUMBERS)]
    run = subprocess.run([sys.executable, "-c", code, path, json.dumps(values)], capture_output=True, text=True,
                         env={**os.environ, **sanitizer_runtime()})
    if run.returncode:
        raise AssertionError(run.stderr)
    return json.loads(run.stdout)


class Exports(unittest.TestCase):
    maxDiff = None

    def compare(self, name, fewest=100):
        simulated = exports(SIMULATED / name)
        real = exports(installed(name))
        self.assertGreater(len(real), fewest)
        # A later rdma-core has more: those who need it see it named here.
        self.assertEqual(sorted(real - simulated), [])
        # A symbol without a version is none that a program could bind to by accident.
        strangers = {symbol for symbol in simulated - real if not symbol.endswith(OURS)}
        self.assertEqual(sorted(strangers), [])

    def test_libibverbs(self):
        self.compare("libibverbs.so.1")

    def test_libmlx5(self):
        self.compare("libmlx5.so.1")

    def test_librdmacm(self):
        if not (SIMULATED / "librdmacm.so.1").exists():
            self.skipTest("librdmacm was not built: apt-get install librdmacm-dev")
        self.compare("librdmacm.so.1", fewest=50)

    def test_versions_are_the_default_ones(self):
        """nm tells default versions by @@: a program linked against ours binds what it would bind there."""
        symbols = exports(SIMULATED / "libibverbs.so.1")
        self.assertIn("ibv_reg_mr@@IBVERBS_1.1", symbols)
        self.assertIn("ibv_reg_mr@IBVERBS_1.0", symbols)

    def test_what_is_installed_finds_what_it_needs(self):
        have = {symbol.replace("@@", "@") for name in ("libibverbs.so.1", "libmlx5.so.1")
                for symbol in exports(SIMULATED / name)}
        wanted = {}
        for folder, pattern in (("/usr/bin", "ib*_*"), ("/usr/lib/python3/dist-packages/pyverbs", "**/*.so")):
            for path in pathlib.Path(folder).glob(pattern):
                wanted.update({symbol: path for symbol in needs(path)})
        for name in ("librdmacm.so.1", "libefa.so.1"):
            try:
                wanted.update({symbol: name for symbol in needs(installed(name))})
            except unittest.SkipTest:
                pass
        if not wanted:
            self.skipTest("no program is installed: apt-get install perftest ibverbs-utils python3-pyverbs")
        self.assertEqual({symbol: str(who) for symbol, who in wanted.items() if symbol not in have}, {})

    def test_the_same_words_and_rates(self):
        real = answers(installed("libibverbs.so.1"))
        self.assertEqual(answers(SIMULATED / "libibverbs.so.1"), real)


class Refusals(unittest.TestCase):
    """Calls that are not simulated say so, each in its own way."""

    def call(self, name, kind, *arguments):
        """The answer and errno, asked in a process that loads a sanitizer first where need be."""
        code = ("import ctypes, json, sys\n"
                "library = ctypes.CDLL(sys.argv[1], use_errno=True)\n"
                "function = getattr(library, sys.argv[2])\n"
                "function.restype = getattr(ctypes, sys.argv[3])\n"
                "answer = function(*[ctypes.c_void_p(value) for value in json.loads(sys.argv[4])])\n"
                "print(json.dumps([answer, ctypes.get_errno()]))\n")
        run = subprocess.run([sys.executable, "-c", code, SIMULATED / "libmlx5.so.1", name, kind,
                              json.dumps(arguments)], capture_output=True, text=True,
                             env={**os.environ, **sanitizer_runtime(), "PENSTOCK_SIMVERBS_LOG": "2"})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"{name} is not simulated", run.stderr)
        return tuple(json.loads(run.stdout))

    def test_errno(self):
        self.assertEqual(self.call("mlx5dv_dr_domain_sync", "c_int", None, 0), (errno.EOPNOTSUPP,) * 2)

    def test_pointer(self):
        self.assertEqual(self.call("mlx5dv_dr_domain_create", "c_void_p", None, 0), (None, errno.EOPNOTSUPP))

    def test_negative(self):
        answer = self.call("mlx5dv_vfio_get_events_fd", "c_int", None)
        self.assertEqual(answer, (-errno.EOPNOTSUPP, errno.EOPNOTSUPP))
        answer = self.call("mlx5dv_devx_get_event", "c_long", None, None, 0)
        self.assertEqual(answer, (-1, errno.EOPNOTSUPP))


if __name__ == "__main__":
    main()
