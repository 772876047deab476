#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport contract on soft-RoCE, all of it: both ends in one machine, first in one process,
then in two. The part of it that goes between two machines is in test_verbs_rc.py."""
import re

import guests
from guests import BUILD, main
from test_verbs_rc import CONTRACT, PATIENT, PLUGIN

NODE_PIECES = BUILD / "tests" / "contract" / "node-pieces"
DOMAINS = BUILD / "tests" / "contract" / "verbs-rc-domains"
NODE_WITHDRAW = BUILD / "tests" / "contract" / "node-withdraw"
# By exchange a peer that is killed is noticed by its silence alone, for which a device must give up.
DEATHS = ("*_that_are_killed", "death_wakes_*")
GIVES_UP_SOON = {"timeout": 12, "retry_cnt": 6, "keepalive": "50ms"}
# verbs_rc lends no memory, and keeps no queue of SENDs for which the peer has no slot.
NOT_OFFERED = {
    "queued_sends_wait_for_slots",
    "region_is_announced_before_its_first_message",
    "send_is_done_when_it_is_released_in_post_order",
    "abort_cancels_what_was_not_taken_over",
    "deadline_ends_what_is_still_held_as_busy",
    "receiver_that_closes_gives_back_what_it_never_gave",
    "ring_without_memory_takes_what_is_lent",
}
# Within a machine nothing is lost, and by rdma_cm nothing is said before the peer can hear it: no
# device needs to send again, and none takes a guest that stands still for a loss.
NEVER_AGAIN = {"connection": "rdma_cm", "timeout": 24}
# The longest, of many connections or of threads that share the only CPU. The kernel sees them alike
# wherever the other end is: between processes alone.
LONG = ("flipped_bits_*", "peers_leave_*", "nothing_is_left_*", "concurrent_atomics_*", "fan_in_*", "two_sleeping_*")
# Cases that SENDs, several queue pairs, or shared receives do otherwise.
SHAPED = ("many_*", "every_length_*", "slots_*", "post_*", "written_*", "drained_*", "peers_come_*")
SHAPED_BY_CM = ("many_*", "slots_*", "drained_*", "peers_come_*")


class Contract(guests.Case):
    count = 1

    def setUp(self):
        guests.need(PLUGIN)
        super().setUp()

    def contract(self, options, cases=(), skip=(), under="", apart=False):
        """Returns the outcome of each case: a set of (title of its round, name, OK or SKIPPED)."""
        before = self.guest().resources()
        words = ["--apart"] if apart else []
        words += [f"--option {key}={value}" for key, value in {"device": "10.9.0.1", **options}.items()]
        words += [f"--case '{pattern}'" for pattern in cases] + [f"--skip '{pattern}'" for pattern in skip]
        job = self.guest().run(
            f"export CONTRACT_LOG=1; exec {under} {CONTRACT} {PLUGIN} {' '.join(words)}", expect=None, seconds=600
        )
        self.assertEqual(job.status, 0, str(job))
        self.assertEqual(self.guest().resources(), before, "left behind")
        title, found = None, set()
        for line in job.stdout.splitlines():
            if match := re.fullmatch("(in process|between processes): (.*)", line):
                title = match.groups()
            elif match := re.fullmatch(r"\[ +(\w+) +\] (\w+)", line):
                found.add((*title, match[2], match[1]))
        return {one for one in found if one[3] != "RUN"}

    def skipped(self, found):
        """But for those that only two processes can have."""
        return {
            name
            for where, group, name, result in found
            if result == "SKIPPED" and (where, group) != ("in process", "processes")
        }

    def whole(self, found, rounds):
        self.assertEqual(self.skipped(found), NOT_OFFERED)
        groups = {(where, group) for where, group, _, result in found if result == "OK"}
        for group in ("life", "stream", "share", "one-sided", "wake-up", "close", "dynamic", "threads"):
            for where in rounds:
                self.assertIn((where, group), groups)
        self.assertIn(("between processes", "processes"), groups)

    def test_keys_of_other_peers_are_refused(self):
        job = self.guest().run(f"exec {DOMAINS} {PLUGIN} - 10.9.0.1", expect=None, seconds=300)
        self.assertEqual(job.status, 0, str(job))
        for case in ("a_ring_of_another_peer", "a_range_of_another_peer", "a_flush_of_ones_own"):
            self.assertRegex(job.stdout, rf"\[ +OK \] {case}")

    def test_the_whole_by_exchange(self):
        found = self.contract(PATIENT, skip=DEATHS + LONG)
        long = self.contract(PATIENT, cases=LONG, apart=True)
        done = [name for *_, name, result in long if result == "OK"]
        for pattern in LONG:
            self.assertTrue([name for name in done if name.startswith(pattern[:-1])], pattern)
        self.whole(found | long, ("in process", "between processes"))
        found = self.contract(GIVES_UP_SOON, cases=DEATHS)
        died = {name for _, group, name, result in found if group == "processes" and result == "OK"}
        killed = {f"{who}_that_are_killed" for who in ("receivers", "senders", "peers_written_to")}
        self.assertEqual(died, {*killed, "death_wakes_a_sleeper"})

    def test_the_whole_by_rdma_cm(self):
        """Between processes: in one process, no more than connecting differs from the above, and that the
        other tests by rdma_cm show."""
        self.whole(self.contract({**PATIENT, **NEVER_AGAIN}, apart=True), ("between processes",))

    def test_a_kernel_that_lags_behind(self):
        """Data are there long before the kernel's threads have heard that a connection stands, since
        a process that polls before all others leaves them a twentieth of the only CPU: closing it
        then must not wait until the kernel gives up repeating its answer."""
        found = self.contract(NEVER_AGAIN, cases=("connects_*",), under="chrt -f 10")
        self.assertEqual({where for where, *_ in found}, {"in process", "between processes"})
        self.assertEqual(self.skipped(found), set())

    def nodes(self, program):
        before = self.guest().resources()
        options = " ".join(f"{key}={value}" for key, value in {**PATIENT, "device": "10.9.0.1"}.items())
        self.guest().run(f"exec {program} verbs_rc {options}", seconds=120)
        self.assertEqual(self.guest().resources(), before, "left behind")

    def test_lists_of_more_pieces_than_the_device_takes(self):
        """soft-RoCE has at most 32 in a work request: longer lists are several."""
        self.nodes(NODE_PIECES)

    def test_regions_that_are_withdrawn(self):
        """In time and too early: what comes too late is refused, and ends that connection alone."""
        self.nodes(NODE_WITHDRAW)

    def test_other_shapes(self):
        for options, cases in (
            ({"operation": "send"}, SHAPED),
            ({"qps": 4}, SHAPED),
            ({"srq": "true"}, SHAPED),
            ({**NEVER_AGAIN, "srq": "true"}, SHAPED_BY_CM),
            ({**NEVER_AGAIN, "qps": 4}, SHAPED_BY_CM),
        ):
            with self.subTest(options):
                found = self.contract({**PATIENT, **options}, cases=cases)
                self.assertEqual(self.skipped(found), set())
                for pattern in cases:
                    ran = {where for where, _, name, _ in found if name.startswith(pattern[:-1])}
                    self.assertEqual(ran, {"in process", "between processes"}, pattern)


if __name__ == "__main__":
    main()
