#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The guests themselves: soft-RoCE as the programs of others find it, on a wire that
works, on one that loses and reorders, and through a router."""
import re

import guests
from guests import main, tcp_listener

PORT = 18515  # perftest's and ibverbs-utils' own
DEVICE = "-d rxe0"
BANDWIDTHS = ("ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_atomic_bw")
BOTH_WAYS = ("ib_write_bw", "ib_read_bw")  # where requests are lost, and where answers are
CALIBRATIONS = 20


def gids(guest):
    """Index: (GID, type, interface), of those that are there."""
    found = guest.run(
        "cd /sys/class/infiniband/rxe0/ports/1\n"
        "for i in $(seq 0 15); do\n"
        "  if type=$(cat gid_attrs/types/$i 2>/dev/null); then\n"
        '    echo "$i $(cat gids/$i) $(cat gid_attrs/ndevs/$i) $type"\n'
        "  fi\n"
        "done"
    ).stdout
    rows = [line.split(None, 3) for line in found.splitlines()]
    return {int(index): (gid, kind, interface) for index, gid, interface, kind in rows}


def ipv4_gid(address):
    parts = [f"{int(part):02x}" for part in address.split(".")]
    return "0000:0000:0000:0000:0000:ffff:" + parts[0] + parts[1] + ":" + parts[2] + parts[3]


class Between(guests.Case):
    def between(self, program, server="", client="", to="10.9.0.2", seconds=60):
        """A program of perftest or ibverbs-utils: on b as a server, then on a; both jobs."""
        for _ in range(CALIBRATIONS):
            far = self.guest("b").start(f"exec {program} {DEVICE} {server}")
            far.await_listener(tcp_listener(PORT))
            near = self.guest("a").start(f"exec {program} {DEVICE} {client} {to}")
            near.wait(seconds)
            far.wait(seconds)
            # A guest that was held up just then: perftest knows not how fast its clock runs, and
            # tells no figure.
            if "Correlation coefficient" not in near.stderr + far.stderr:
                break
        self.assertEqual((near.status, far.status), (0, 0), f"{near}{far}")
        return near, far

    def assert_perftest_runs(self, program, iterations):
        near, _ = self.between(program, *[f"-x 1 -F -n {iterations}"] * 2)
        row = re.search(r"^ *(\d+) +(\d+) +[\d.]+ +[\d.]+\s+([\d.]+)", near.stdout, re.M)
        self.assertTrue(row, str(near))
        self.assertGreaterEqual(int(row[2]), iterations, str(near))
        self.assertGreater(float(row[3]), 0, str(near))  # messages: of bytes, few show as 0.00


class Wire(Between):
    def test_soft_roce_comes_up(self):
        for name in "ab":
            link = self.guest(name).run("rdma link show rxe0/1").stdout
            self.assertIn("state ACTIVE physical_state LINK_UP netdev eth0", link)

    def test_gids_are_of_the_link_and_then_of_its_address(self):
        found = gids(self.guest("b"))
        local = "fe80:0000:0000:0000:5054:00ff:fe00:0200"
        self.assertEqual(
            {0: (local, "RoCE v2", "eth0"), 1: (ipv4_gid("10.9.0.2"), "RoCE v2", "eth0")}, found
        )

    def test_gids_of_a_second_address_and_of_a_vlan(self):
        guest = self.guest("a")
        before = set(gids(guest).values())
        guest.run(
            "ip address add 10.9.7.1/24 dev eth0\n"
            "ip link add link eth0 name eth0.5 type vlan id 5\n"
            "ip address add 10.9.5.1/24 dev eth0.5\n"
            "ip link set eth0.5 up"
        )
        self.addCleanup(guest.run, "ip link del eth0.5; ip address del 10.9.7.1/24 dev eth0")
        wanted = {
            (ipv4_gid("10.9.7.1"), "RoCE v2", "eth0"),
            (ipv4_gid("10.9.5.1"), "RoCE v2", "eth0.5"),
        }
        guests.wait_until(
            lambda: wanted <= set(gids(guest).values()) - before, 20, f"GIDs {wanted}: {gids(guest)}"
        )

    def test_a_cable_and_an_address_raise_events(self):
        guest = self.guest("a")
        watch = guest.start("exec stdbuf -oL ibv_asyncwatch rxe0")
        watch.wait_line("async event FD")
        guest.set_link(False)
        watch.wait_line("IBV_EVENT_PORT_ERR .*port 1")
        guest.set_link(True)
        watch.wait_line("IBV_EVENT_PORT_ACTIVE .*port 1")
        guest.run("ip address add 10.9.8.1/24 dev eth0")
        self.addCleanup(guest.run, "ip address del 10.9.8.1/24 dev eth0")
        watch.wait_line("IBV_EVENT_GID_CHANGE .*port 1")

    def test_pingpong(self):
        near, _ = self.between("ibv_rc_pingpong", *["-g 1 -n 200"] * 2)
        self.assertIn("200 iters", near.stdout)

    def test_perftest(self):
        for program in BANDWIDTHS:
            with self.subTest(program):
                self.assert_perftest_runs(program, 100)

    def test_rdma_cm(self):
        far = self.guest("b").start("exec rping -s -a 10.9.0.2 -C 20 -V")
        far.await_listener(guests.RDMA_CM_LISTENER)
        self.guest("a").run("exec rping -c -a 10.9.0.2 -C 20 -V")
        self.assertEqual(far.wait(20), 0, str(far))

    def test_a_wire_that_loses(self):
        self.assert_endures("loss 1%")

    def test_a_wire_that_reorders(self):
        """One in a hundred is overtaken by what follows within 2 ms."""
        self.assert_endures("delay 2ms reorder 99%")

    def assert_endures(self, trouble):
        before = self.retries()
        with self.guest("a").netem(trouble), self.guest("b").netem(trouble):
            for program in BOTH_WAYS:
                with self.subTest(program):
                    self.assert_perftest_runs(program, 50)
        self.assertGreater(self.retries(), before)

    def retries(self):
        """Packets that either end found missing, or waited for in vain."""
        names = ("out_of_seq_request", "rcvd_seq_err", "completer_retry_err", "retry_exceeded_err")
        return sum(self.guest(end).counters()[name] for end in "ab" for name in names)


class Routed(Between):
    """The router takes one hop; what has one hop left goes no further."""

    router = True

    def test_ordinary_routes_lead_through(self):
        # Packets that another test sent have passed once this has.
        self.guest("a").run("busybox ping -c 1 -W 60 10.9.2.1")
        before = self.guest("r").network_counter("Ip", "InHdrErrors")
        near, _ = self.between("ibv_rc_pingpong", *["-g 1 -n 100"] * 2, to="10.9.2.1")
        self.assertIn("100 iters", near.stdout)
        self.assertEqual(self.guest("r").network_counter("Ip", "InHdrErrors"), before)

    def test_a_hop_limit_of_1_ends_at_the_router(self):
        """The programs meet by the second addresses, whose routes are ordinary ones."""
        for near, far in ((1, 2), (2, 1)):
            guest = self.guest("abr"[near - 1])
            route = f"10.9.{far}.0/24 via 10.9.{near}.254 src 10.9.{near}.1"
            guest.run(f"ip route replace {route} hoplimit 1")
            self.addCleanup(guest.run, f"ip route replace {route}")
        router = self.guest("r")
        errors = router.network_counter("Ip", "InHdrErrors")
        received = self.guest("b").counters()["rcvd_pkts"]

        far = self.guest("b").start("exec ibv_rc_pingpong -d rxe0 -g 1 -n 10")
        far.await_listener(tcp_listener(PORT))
        near = self.guest("a").start("exec ibv_rc_pingpong -d rxe0 -g 1 -n 10 10.8.2.1")
        guests.wait_until(
            lambda: router.network_counter("Ip", "InHdrErrors") > errors + 2, 60, "the router drops packets"
        )
        # The device retries for ever: retry_cnt is 7.
        self.assertFalse(near.ended(), str(near))
        self.assertFalse(far.ended(), str(far))
        self.assertGreater(self.guest("a").counters()["completer_retry_err"], 0)
        self.assertEqual(self.guest("b").counters()["rcvd_pkts"], received)


if __name__ == "__main__":
    main()
