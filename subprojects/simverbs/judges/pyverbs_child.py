#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pyverbs' own tests and writes a line of JSON when a test begins and when it ends.

usage: pyverbs_child.py FOLDER RECORDS DEVICE < names, one a line, to leave out
"""
import json
import os
import random
import sys
import unittest
import zlib

FOLDER, RECORDS, DEVICE = sys.argv[1:4]


class Result(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file
        self.pid = os.getpid()
        self.outcome = None

    def write(self, *fields):
        # Tests fork, and a child that falls out of its function comes here.
        if os.getpid() == self.pid:
            self.file.write(json.dumps(fields) + "\n")
            self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        # They draw sizes and flags by lot: the same ones each time.
        random.seed(zlib.crc32(test.id().encode()))
        self.outcome = ("passes", "")
        self.write("begin", test.id())

    def stopTest(self, test):
        super().stopTest(test)
        self.write("end", test.id(), *self.outcome)

    def addError(self, test, err):
        super().addError(test, err)
        if not hasattr(test, "_testMethodName"):  # of a module or a class
            self.write("end", str(test), "fails", str(err[1]))
        self.outcome = ("fails", f"{err[0].__name__}: {err[1]}")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.outcome = ("fails", f"{err[0].__name__}: {err[1]}")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.outcome = ("skips", reason)


def cases(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from cases(item)
        else:
            yield item


def main():
    sys.path.insert(0, FOLDER)
    sys.argv[1:] = ["--dev", DEVICE]
    from args_parser import parser  # pyverbs' own

    parser.parse_args()
    from importlib.machinery import SourceFileLoader

    tests = SourceFileLoader("tests", os.path.join(FOLDER, "__init__.py")).load_module()
    done = set(sys.stdin.read().split("\n"))
    loader = unittest.defaultTestLoader
    suite = unittest.TestSuite(
        case for module in tests.__test_modules__ for case in cases(loader.loadTestsFromModule(module))
        if case.id() not in done)
    with open(RECORDS, "a") as file:
        suite.run(Result(file))
        file.write(json.dumps(["finished"]) + "\n")


if __name__ == "__main__":
    main()
