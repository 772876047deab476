#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""penstock bench --all-pairs: ranks by a folder and by Open MPI, and what it says of slow links and dead ranks."""
import contextlib
import json
import os
import subprocess
import unittest
import xml.etree.ElementTree

from harness import BUILD, HANGS, LEAKS_OF_OTHERS, PATIENCE, PROGRAM, SANITIZED, Case, main, need_plugin, wait_until
from netns import need

BRIEF = ("--duration", "200ms" if SANITIZED else "50ms")
LOOPBACK = ("--transport", "loopback", "--memory", "host")
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe")
# Links of 20 Mbit/s between addresses of this host, of which one has 3.
SHAPED = """
set -e
ip link set lo up
tc qdisc add dev lo root handle 1: htb default 1
tc class add dev lo parent 1: classid 1:1 htb rate 10gbit quantum 60000
for a in 1 2 3; do for b in 1 2 3; do
  [ $a != $b ] || continue
  rate=20mbit; [ $a$b != 23 ] || rate=3mbit
  tc class add dev lo parent 1: classid 1:$a$b htb rate $rate burst 8k cburst 8k quantum 60000
  tc filter add dev lo parent 1: protocol ip prio 1 u32 match ip src 127.0.1.$a/32 \\
    match ip dst 127.0.1.$b/32 match ip protocol 17 0xff flowid 1:$a$b
done; done
exec "$@"
"""
# The command of a rank: its address is its own.
RANK = 'a=127.0.1.$((OMPI_COMM_WORLD_RANK+1)); exec "$@" --endpoint address=$a,transport.device=$a'


class AllPairs(Case):
    def ranks(self, count, *arguments, absent=(), expect=0, seconds=60):
        """One process a rank, by a folder; rank 0's."""
        exchange = self.folder / "exchange"
        exchange.mkdir(exist_ok=True)
        children = [
            self.start("bench", "--all-pairs", *LOOPBACK, *BRIEF, "--exchange", exchange, "--rank", rank,
                       "--ranks", count, "--json", self.folder / "out.json", *arguments)
            for rank in range(count) if rank not in absent
        ]  # fmt: skip
        statuses = [child.wait(seconds) for child in children]
        self.assertEqual(statuses[0], expect, children[0])
        self.assertEqual(list(exchange.iterdir()), [], "rank 0 removes its file")
        return children

    def mpirun(self, count, *arguments, prefix=(), wrapper=(), seconds=90):
        need("mpirun")
        if SANITIZED:
            raise unittest.SkipTest("Open MPI starts the usual build")
        if "built without" in subprocess.run(
            [PROGRAM, "bench", "--all-pairs", *LOOPBACK], capture_output=True, text=True,
            env={**os.environ, "PMIX_RANK": "0", "PMIX_NAMESPACE": "none"}).stderr:  # fmt: skip
            raise unittest.SkipTest("the program is built without PMIx")
        child = self.start(*MPIRUN[1:], "-np", count, *wrapper, PROGRAM, "bench", "--all-pairs", *arguments,
                           "--json", self.folder / "out.json", program=MPIRUN[0], prefix=prefix,
                           environment=LEAKS_OF_OTHERS)  # fmt: skip
        self.assertEqual(child.wait(seconds), 0, child)
        return child

    def assert_whole(self, result, ends):
        pairs = result["bench"]["all_pairs"]
        self.assertEqual(len(pairs["ends"]), ends)
        for i, row in enumerate(pairs["matrix"]):
            for j, value in enumerate(row):
                strangers = pairs["ends"][i]["rank"] != pairs["ends"][j]["rank"]
                self.assertEqual(value is not None, strangers, pairs["matrix"])
        met = [(row["from"]["rank"], row["from"]["endpoint"], row["to"]["rank"], row["to"]["endpoint"])
               for row in result["rows"]]  # fmt: skip
        self.assertEqual(len(set(met)), len(met))
        self.assertEqual(len(met), sum(value is not None for row in pairs["matrix"] for value in row))
        return pairs

    def test_ranks_of_a_folder(self):
        picture = self.folder / "heat.svg"
        children = self.ranks(4, "--heat-map", picture)
        pairs = self.assert_whole(self.result(), 4)
        self.assertEqual(pairs["unit"], "Gbps")
        self.assertIn("12 links, median", children[0].stdout)
        for child in children[1:]:
            self.assertEqual((child.status, child.stdout), (0, ""), child)
        drawn = xml.etree.ElementTree.parse(picture).getroot()
        titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(len(titles), 16)
        self.assertEqual(sum("Gbps" in title for title in titles), 12)

    def test_endpoints_are_ends_of_their_own(self):
        self.ranks(2, "--endpoint", "cpu=0", "--endpoint", "address=lo", "--latency", "--size", 64, "--op", "write")
        result = self.result()
        pairs = self.assert_whole(result, 4)
        self.assertEqual(pairs["unit"], "us")
        self.assertEqual(len(result["rows"]), 8)
        self.assertEqual({row["op"] for row in result["rows"]}, {"write"})

    def test_ranks_of_mpirun_exchange_by_pmix(self):
        child = self.mpirun(3, *LOOPBACK, *BRIEF)
        self.assert_whole(self.result(), 3)
        self.assertIn("6 links, median", child.stdout)

    def test_ranks_of_mpirun_over_tcp(self):
        need_plugin("ucx")
        self.mpirun(3, "--transport", "ucx", "--memory", "host", *BRIEF, "--transport-option", "tls=tcp",
                    "--transport-option", "net_devices=lo")  # fmt: skip
        pairs = self.assert_whole(self.result(), 3)
        self.assertEqual({end["adapter"] for end in pairs["ends"]}, {None}, "lo is no adapter")
        self.assertEqual({row["carrier"] for row in self.result()["rows"]}, {"tcp"})

    def test_a_slow_link_is_named(self):
        """By udp in a network namespace whose links have a rate each."""
        need("unshare", "ip", "tc", "mpirun")
        enter = ("unshare", "-Urn")
        if subprocess.run([*enter, "sh", "-c", SHAPED, "sh", "true"], capture_output=True).returncode != 0:
            raise unittest.SkipTest("no network namespace with htb and u32 here")
        prefix = (*enter, "sh", "-c", SHAPED, "sh")

        def attempt():
            child = self.mpirun(3, "--transport", "udp", "--memory", "host", "--size", "1KiB", "--duration", "400ms",
                                "--transport-option", "sndbuf=16KiB", prefix=prefix,
                                wrapper=("sh", "-c", RANK, "sh"))  # fmt: skip
            pairs = self.assert_whole(self.result(), 3)
            named = [(slow["what"], slow["from"], slow["to"]) for slow in pairs["outliers"]]
            if named != [("link", 1, 2)]:
                return f"{named}\n{child}"
            self.assertRegex(child.stdout, r"(?m)^slow: link from rank 1 \(.*\) to 2 \(.*\): 0\.00\d+ Gbps, \d+% of")
            return None

        self.in_one_of_three(attempt)

    def test_a_rank_that_never_comes_is_named(self):
        children = self.ranks(4, "--wait", f"{10 * PATIENCE}s", absent=(2,), expect=1)
        self.assertIn("rank 2 of 4 has not come in time", children[0].stderr)
        for child in children[1:]:
            self.assertEqual(child.status, 1)
            self.assertIn("rank 0 ends the job: bench: rank 2 of 4 has not come", child.stderr)

    def lead(self, count):
        """Rank 0, where the others connect to it, and what rank N of them says first."""
        exchange = self.folder / "exchange"
        exchange.mkdir()
        child = self.start("bench", "--all-pairs", *LOOPBACK, *BRIEF, "--exchange", exchange, "--rank", 0,
                           "--ranks", count, "--json", self.folder / "out.json")  # fmt: skip
        wait_until(lambda: [path for path in exchange.iterdir() if path.suffix != ".new"], HANGS, "the file of rank 0")
        file = next(path for path in exchange.iterdir() if path.suffix != ".new")
        _, _, token, address = file.read_text().split()
        # That end is beyond loopback: rank 0 refuses to measure it, at once.
        return child, address, lambda rank: {
            "penstock_pairs": 2, "token": token, "rank": rank, "ranks": count, "hostname": "far", "pid": rank,
            "transport": "loopback", "ends": [{"address": f"192.0.2.{rank}:1"}]}  # fmt: skip

    def hostile(self, *lines, **hello):
        """Rank 0 of two, whose rank 1 says these lines."""
        child, address, first = self.lead(2)
        hello = {**first(1), **hello}
        subprocess.run([BUILD / "tests" / "e2e" / "rank", "connect", address], timeout=HANGS, stdout=subprocess.DEVNULL,
                       input="\n".join([json.dumps(hello), *lines, "<"]), text=True)  # fmt: skip
        self.assertEqual(child.wait(), 1, child)
        self.assertNotIn("NaN", (self.folder / "out.json").read_text())
        return child, self.result()

    def test_rows_that_cannot_be(self):
        row = '{"row": {"from": 0, "to": 0, "row": {"op": "send", "errors": %s, "gbps": %s}}}'
        for lines in (['{"rows": 9223372036854775808}'], ['{"rows": 2}'],
                      ['{"rows": 1}', "<", row % ('["x"]', "1")], ['{"rows": 1}', "<", row % ("[null]", "1")],
                      ['{"rows": 1}', "<", row % ("[]", "NaN")], ['{"rows": 1}', "<", row % ("[]", "1e999")],
                      ['{"rows": 1}', "<", '{"row": null}']):  # fmt: skip
            with self.subTest(lines=lines):
                child, result = self.hostile("<", *lines)
                (self.folder / "exchange").rmdir()
                self.assertRegex(child.stderr, r"rank 1 \(far, pid 1\) breaks the protocol")
                self.assertEqual(result["bench"]["all_pairs"]["matrix"][1], [None, None])

    def test_the_partner_of_a_lost_rank(self):
        """The partner does not wait: rank 0 says that the lost rank has gone, or gives it no measurement."""
        child, address, first = self.lead(4)
        with contextlib.ExitStack() as stack:
            ranks = [None] + [
                stack.enter_context(subprocess.Popen([BUILD / "tests" / "e2e" / "rank", "connect", address], text=True, bufsize=1,
                                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE))
                for _ in range(3)
            ]  # fmt: skip

            def says(rank, line):
                ranks[rank].stdin.write(line + "\n")

            def hears(rank):
                says(rank, "<")
                return json.loads(ranks[rank].stdout.readline())

            def meets(rank, other):
                self.assertEqual(hears(rank)["meet"][0]["address"].split(":")[0], f"192.0.2.{other}" if other else "127.0.0.1")

            for rank in (1, 2, 3):
                says(rank, json.dumps(first(rank)))
            # 0 and 3, 1 and 2. Rank 2 leaves after its rows, while rank 0 collects those of rank 3.
            meets(3, 0)
            says(3, '{"rows": 1}')
            meets(2, 1)
            meets(1, 2)
            for rank in (1, 2):
                says(rank, '{"rows": 0}')
            self.assertEqual(hears(3), {"row": 0})
            ranks[2].communicate(timeout=HANGS)
            says(3, '{"row": {"from": 0, "to": 0, "row": {"op": "send", "errors": []}}}')
            # 0 and 1, 2 and 3: rank 3 has no partner.
            meets(1, 0)
            self.assertEqual(hears(3), {"gone": True})
            says(1, '{"rows": 0}')
            # 1 and 3: rank 1 breaks the protocol.
            meets(1, 3)
            meets(3, 1)
            says(1, '{"rows": 2}')
            self.assertEqual(hears(3), {"gone": True})
            says(3, '{"rows": 0}')
            self.assertEqual(hears(3), {"goodbye": True})
            for rank in (1, 3):
                ranks[rank].communicate(timeout=HANGS)
        self.assertEqual(child.wait(), 1, child)
        self.assertRegex(child.stderr, r"rank 2 \(far, pid 2\) has gone")
        self.assertRegex(child.stderr, r"rank 1 \(far, pid 1\) breaks the protocol")

    def test_a_rank_in_trouble_is_never_success(self):
        child, _ = self.hostile(trouble="no such device", trouble_status=256)
        self.assertIn("bench: rank 1 (far): no such device", child.stderr)

    def test_a_rank_0_that_breaks_the_protocol(self):
        for said in ('{"row": 0}', '{"meet": [null], "goes_first": 1}', '{"meet": ["127.0.0.1:1"]}', '{"meet": []}', '{"meet": {}}', "{}"):
            with self.subTest(said=said):
                exchange = self.folder / "exchange"
                exchange.mkdir(exist_ok=True)
                rank = subprocess.Popen([BUILD / "tests" / "e2e" / "rank", "listen", "127.0.0.1:0"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
                with rank:
                    file = exchange / "penstock-all-pairs"
                    file.write_text(f"penstock-all-pairs 2 {'0' * 16} {rank.stdout.readline()}")
                    child = self.start("bench", "--all-pairs", *LOOPBACK, "--exchange", exchange, "--rank", 1,
                                       "--ranks", 2)  # fmt: skip
                    rank.communicate(f"<\n{said}\n<\n", timeout=HANGS)
                self.assertEqual(child.wait(), 1, child)
                self.assertIn("rank 1: rank 0 breaks the protocol", child.stderr)

    def test_without_rank_0_the_others_end(self):
        exchange = self.folder / "exchange"
        exchange.mkdir()
        child = self.run_program("bench", "--all-pairs", *LOOPBACK, "--exchange", exchange, "--rank", 1, "--ranks", 2,
                                 "--wait", "200ms", expect=1)  # fmt: skip
        self.assertIn("rank 1: rank 0 did not start in time", child.stderr)

    def test_a_rank_that_dies_is_named_and_the_others_go_on(self):
        exchange = self.folder / "exchange"
        exchange.mkdir()
        children = [
            self.start("bench", "--all-pairs", *LOOPBACK, "--duration", "1s", "--exchange", exchange, "--rank", rank,
                       "--ranks", 3, "--json", self.folder / "out.json")
            for rank in range(3)
        ]  # fmt: skip
        children[0].wait_line("all 3 ranks are here")
        children[2].process.kill()
        children[2].wait()
        self.assertEqual(children[0].wait(), 1, children[0])
        self.assertEqual(children[1].wait(), 0, children[1])
        self.assertRegex(children[0].stderr, rf"rank 2 \(.*, pid {children[2].pid}\) has gone: it was killed")
        matrix = self.result()["bench"]["all_pairs"]["matrix"]
        self.assertIsNotNone(matrix[0][1])
        self.assertIsNotNone(matrix[1][0])
        self.assertIsNone(matrix[0][2])

    def test_a_rank_that_cannot_measure_is_named(self):
        exchange = self.folder / "exchange"
        exchange.mkdir()
        for memories in (("host", "nowhere"), ("nowhere", "host")):
            with self.subTest(memories=memories):
                children = [
                    self.start("bench", "--all-pairs", "--transport", "loopback", "--memory", memory, "--exchange",
                               exchange, "--rank", rank, "--ranks", 2, "--wait", f"{HANGS}s")
                    for rank, memory in enumerate(memories)
                ]  # fmt: skip
                for child in children:
                    self.assertGreater(child.wait(), 0)
                self.assertRegex(children[0].stderr, "nowhere")
                self.assertRegex(children[1].stderr, "rank 0 ends the job: bench: .*nowhere")

    def test_what_cannot_be_is_refused(self):
        for arguments, why in (
            ((), "no key-value exchange: no launcher with PMIx has started it"),
            (("127.0.0.1",), "--all-pairs finds its ranks"),
            (("--size", "64,128"), "one --op and one --size"),
            (("--exchange", "/nowhere", "--rank", "0", "--ranks", "2"), "there is no such folder"),
            (("--exchange", self.folder), "the rank of this process is unknown"),
            (("--exchange", self.folder, "--rank", "2", "--ranks", "2"), "rank 2 of 2 is not possible"),
            (("--exchange", self.folder, "--rank", "0", "--ranks", "2", "--endpoint", "device=a"), "is none of address="),
            (("--exchange", self.folder, "--rank", "0", "--ranks", "2", "--endpoint", "address=203.0.113.16/28"),
             "this host has no such address"),
            (("--exchange", self.folder, "--rank", "0", "--ranks", "2", "--endpoint", "auto"), "the transport uses no adapter"),
            (("--exchange", self.folder, "--rank", "0", "--ranks", "2", "--endpoint", "auto", "--endpoint", "cpu=0"),
             "--endpoint auto stands alone"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                child = self.start("bench", "--all-pairs", *LOOPBACK, *arguments)
                self.assertGreater(child.wait(), 1, child)
                self.assertIn(why, child.stderr)
        child = self.run_program("bench", *LOOPBACK, "--heat-map", "x", expect=2)
        self.assertIn("are for --all-pairs", child.stderr)

    def test_a_file_of_a_dead_job_does_no_harm(self):
        exchange = self.folder / "exchange"
        exchange.mkdir()
        (exchange / "penstock-all-pairs").write_text("penstock-all-pairs 2 00000000 127.0.0.1:1")
        self.ranks(2)
        self.assert_whole(self.result(), 2)


if __name__ == "__main__":
    main()
