#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The receiver detects the faults that the filter `fault` injects, to the message.

PENSTOCK_FAULT_MESSAGES=10000000 makes the runs as long as one likes."""
import os
import re
import unittest

from harness import FAKES, FEWER, SANITIZED, Case, main, yaml_stream

MESSAGES = int(os.environ.get("PENSTOCK_FAULT_MESSAGES", 50_000 if SANITIZED else 500_000 // FEWER))
KINDS = ("drop", "duplicate", "reorder", "corrupt", "delay")
# Messages of a run over a reliable, ordered transport that was neither.
WHY = {
    "drop": r"lost on a reliable transport \(",
    "duplicate": r"arrived twice on a transport that promises each once",
    "reorder": r"came late on a transport that promises their order",
    "corrupt": r"corrupted",
}
PLACES = {
    "direct": "{memory: host, path: direct}",
    "staged": "{memory: host, path: staged}",
    "staged to memory out of the CPU's reach": "{memory: {plugin: late, options: {delay: 20 us}}}",
}


class Fault(Case):
    def run_faulty(self, receiver, expect=1, **options):
        settings = ", ".join(f"{key}: {value}" for key, value in options.items())
        transport = f"{{plugin: loopback, filters: [{{plugin: fault, options: {{{settings}}}}}]}}"
        path = self.config(
            yaml_stream(
                message="256 B",
                ring=1024,
                sender=f"{{count: {MESSAGES}, transport: {transport}}}",
                receiver=receiver,
            )
        )
        result, child = self.run_json(
            "run", path, "--plugin-path", FAKES, expect=expect, seconds=300
        )
        return self.only_stream(result), child

    def ledger(self, stream):
        """The values of each counter; of a list its entries."""
        counters = stream["sender"]["counters"].items()
        return {name: value if isinstance(value, list) else [value] for name, value in counters}

    def assert_detected(self, stream):
        injected = {name: values[0] for name, values in self.ledger(stream).items()}
        for name, detected in {
            "injected_drop": stream["dropped"].get("injected", 0),
            "injected_duplicate": stream["duplicates"],
            "injected_corrupt": stream["corrupted"],
        }.items():
            self.assertEqual(detected, injected[name], name)
        self.assertEqual(
            stream["reordered"], injected["injected_reorder"] + injected["delayed_late"]
        )
        self.assertEqual(
            stream["messages_sent"],
            stream["messages_delivered"] + sum(stream["dropped"].values()),
        )
        self.assertNotIn("unattributed", stream["dropped"])
        return injected

    def test_rates_that_are_too_many(self):
        """A mistake that a plugin itself finds in its options, and no rule can express, is a mistake, too."""
        for command in ("check", "run"):
            child = self.run_program(command, "config/loopback.yaml", "--set", "transport={plugin: loopback, filters: "
                                     "[{plugin: fault, options: {drop_ppm: 600000, corrupt_ppm: 600000}}]}", expect=2)  # fmt: skip
            self.assertIn("the rates add up to more than 1000000 per million", child.stderr)

    def test_every_kind_at_once(self):
        rates = {f"{kind}_ppm": 10000 for kind in KINDS}
        for place, receiver in PLACES.items():
            with self.subTest(place):
                stream, child = self.run_faulty(receiver, seed=7, delay_time="20 us", **rates)
                injected = self.assert_detected(stream)
                for kind in KINDS:
                    about = injected[f"injected_{kind}"] / MESSAGES
                    self.assertTrue(0.008 < about < 0.012, (kind, about))
                self.assertRegex(child.stderr, r"corrupted")

    def test_a_bound_of_one_kind_hides_no_other(self):
        path = self.config(yaml_stream(sender="{count: 20000}", expect="{max_corrupted: 20000, max_duplicates: 20000}"))
        child = self.run_program(
            "run", path, "--set", "transport={plugin: loopback, filters: [{plugin: fault, options: "
            "{corrupt_ppm: 10000, duplicate_ppm: 10000, drop_ppm: 10000}}]}", expect=1)
        self.assertRegex(child.stderr, "error: stream 'packets': lost on a reliable transport")
        self.assertEqual(child.stderr.count("penstock: error:"), 1, str(child))

    def test_each_kind_alone(self):
        for kind in KINDS[:4]:
            with self.subTest(kind):
                stream, child = self.run_faulty(PLACES["direct"], **{f"{kind}_ppm": 10000})
                self.assertRegex(child.stderr, WHY[kind])
                (error,) = stream["errors"]
                self.assertEqual(child.stderr.count("penstock: error:"), 1, child)
                if kind == "corrupt":
                    self.assertRegex(error["text"], r"first found: message \d+, byte \d+: expected 0x")
                injected = self.assert_detected(stream)
                self.assertGreater(injected[f"injected_{kind}"], 0)
                for other in set(KINDS) - {kind}:
                    self.assertEqual(injected[f"injected_{other}"], 0)

    def test_loss_on_a_reliable_transport_says_why(self):
        stream, child = self.run_faulty(PLACES["direct"], drop_ppm=10000)
        self.assertRegex(child.stderr, r"lost on a reliable transport")
        self.assertRegex(child.stderr, r"dropped: \d+ injected")
        self.assertFalse(stream["ok"])

    def test_same_seed_same_ledger(self):
        def once(seed):
            stream, _ = self.run_faulty(
                PLACES["direct"], seed=seed, drop_ppm=5000, corrupt_ppm=5000, duplicate_ppm=5000
            )
            ledger = self.ledger(stream)
            return {
                name: values
                for name, values in ledger.items()
                if re.match(r"injected_|ledger_checksum|.*_at$", name)
            }

        first = once(11)
        self.assertEqual(first, once(11))
        self.assertNotEqual(first, once(12))

    def test_kill(self):
        stream, child = self.run_faulty(PLACES["direct"], kill_at=1000)
        self.assertFalse(stream["ok"])
        self.assertEqual(self.ledger(stream)["injected_kill"], [1])
        self.assertLessEqual(stream["messages_delivered"], 1000)


if __name__ == "__main__":
    main()
