#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Debian's perftest on the simulated device: every test over RC, the datagram ones, DC.

perftest does not look at what arrived (Debian's has no --data_validation); that every size runs to
the end at both ends, with as many iterations as asked for, is what it can judge.
"""
import re

from judge import ETHERNET, INFINIBAND, Judge, main, need

ALL_SIZES = [1 << exponent for exponent in range(1, 24)]
ITERATIONS = 100
VERBS = ("write", "read", "send", "atomic")


def rows(text):
    """The table: size and iterations of each line."""
    found = []
    inside = False
    for line in text.splitlines():
        if line.startswith(" #bytes"):
            inside = True
        elif inside:
            match = re.match(r"\s*(\d+)\s+(\d+)\s+(\S+)", line)
            if match:
                found.append((int(match[1]), int(match[2]), match[3]))
    return found


class Perftest(Judge):
    def setUp(self):
        super().setUp()
        need("ib_write_bw", "perftest")

    # A machine with fewer idle cores than the two that spin takes milliseconds a message.
    def play(self, program, *arguments, sizes=(65536,), iterations=ITERATIONS, device=ETHERNET, **options):
        place = ("-d", device, "-F") + (("-x", "3") if device == ETHERNET else ())
        caller, _ = self.pair(program, *place, "-n", iterations, *arguments, **options)
        table = rows(caller.stdout)
        self.assertEqual([row[0] for row in table], list(sizes), str(caller))
        for _, done, figure in table:
            self.assertGreaterEqual(done, iterations, str(caller))
            self.assertGreaterEqual(float(figure), 0, str(caller))
        return caller

    def every_verb(self, kind, *arguments, verbs=VERBS, **options):
        for verb in verbs:
            more, size = dict(options), ()
            if verb == "atomic":
                more["sizes"] = (8,)  # and it refuses to be told so
            elif "sizes" in more and len(more["sizes"]) == 1:
                size = ("-s", more["sizes"][0])
            with self.subTest(program=f"ib_{verb}_{kind}"):
                self.play(f"ib_{verb}_{kind}", *size, *arguments, **more)

    def test_bandwidth_of_every_size(self):
        self.every_verb("bw", "-a", sizes=ALL_SIZES, verbs=("write", "read", "send"), iterations=20)

    def test_latency_of_every_size(self):
        self.every_verb("lat", "-a", sizes=ALL_SIZES, verbs=("read", "send"), iterations=5)
        # ib_write_lat spins on memory, where no library can make it yield to its peer: fewer sizes.
        for size in (2, 4096, 1 << 20):
            self.play("ib_write_lat", "-s", size, sizes=(size,), iterations=5)

    def test_bandwidth(self):
        self.every_verb("bw")

    def test_latency(self):
        self.every_verb("lat", sizes=(64,))

    def test_bandwidth_on_infiniband(self):
        self.every_verb("bw", device=INFINIBAND)

    def test_latency_on_infiniband(self):
        self.every_verb("lat", sizes=(64,), device=INFINIBAND)

    def test_fetch_and_add(self):
        self.play("ib_atomic_bw", "-A", "FETCH_AND_ADD", sizes=(8,))

    def test_compare_and_swap(self):
        self.play("ib_atomic_bw", "-A", "CMP_AND_SWAP", sizes=(8,))

    def test_several_qps(self):
        self.every_verb("bw", "-q", "8")

    def test_events(self):
        # perftest has no events for WRITE.
        self.every_verb("bw", "-e", verbs=("read", "send", "atomic"))
        self.every_verb("lat", "-e", sizes=(64,), verbs=("read", "send", "atomic"))

    def test_inline(self):
        self.every_verb("bw", "-I", "64", sizes=(64,), verbs=("write", "send"))
        self.every_verb("lat", "-I", "64", sizes=(64,), verbs=("write", "send"))

    def test_shared_receive_queue(self):
        self.play("ib_send_bw", "-r", "256", "--use-srq")
        self.play("ib_send_bw", "-r", "256", "--use-srq", "-q", "4")
        self.play("ib_send_lat", "-r", "256", "--use-srq", "-s", "64", sizes=(64,))

    def test_both_directions(self):
        self.every_verb("bw", "-b")

    def test_lists_of_requests(self):
        self.every_verb("bw", "-l", "16", iterations=160)

    def test_few_completions(self):
        self.every_verb("bw", "-Q", "16", iterations=160, verbs=("write", "send"))

    def test_the_old_way_to_post(self):
        self.every_verb("bw", "--use_old_post_send")

    def test_reversed(self):
        self.play("ib_write_bw", "--reversed")

    def test_uc(self):
        self.every_verb("bw", "-c", "UC", verbs=("write", "send"))
        self.every_verb("lat", "-c", "UC", sizes=(64,), verbs=("write", "send"))

    def test_ud(self):
        self.play("ib_send_bw", "-c", "UD", "-s", "1024", sizes=(1024,))
        self.play("ib_send_lat", "-c", "UD", "-s", "1024", sizes=(1024,))


class Dc(Perftest):
    """-c DC: a DCI and a DCT at each end."""

    def test_bandwidth(self):
        self.every_verb("bw", "-c", "DC")

    def test_latency(self):
        self.every_verb("lat", "-c", "DC", sizes=(64,))

    def test_bandwidth_on_infiniband(self):
        self.every_verb("bw", "-c", "DC", device=INFINIBAND)

    def test_several_qps(self):
        self.every_verb("bw", "-c", "DC", "-q", "4", verbs=("write", "send"))

    def test_both_directions(self):
        self.every_verb("bw", "-c", "DC", "-b", verbs=("write", "send"))

    def test_streams(self):
        self.every_verb("bw", "-c", "DC", "--log_dci_streams", "2", verbs=("write", "read", "send"))


# Dc takes Perftest's means, not its tests.
for name in [name for name in dir(Perftest) if name.startswith("test_") and name not in vars(Dc)]:
    setattr(Dc, name, None)


if __name__ == "__main__":
    main()
