#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verbs_rc's messages when something is wrong, how soon, with which exit status; and a fresh run works after it, with
nothing left behind."""
import os
import re
import signal
import time

import guests
import test_verbs_rc
from guests import BUILD, main, tcp_listener, with_memlock
from harness import PROGRAM

FORGER = BUILD / "tests" / "vm" / "forger"
CONNECTS = BUILD / "tests" / "vm" / "connects"
NOTICED = 20  # seconds until a run has ended whose device gives up, or whose peer has
LINK_DOWN = 5
KILLS = int(os.environ.get("PENSTOCK_KILLS", 32))  # of clients; each takes half a second of the host's CPU
FLOWS = r"Got \d{2,}"


def sets(**values):
    return [f"--set {name.replace('__', '.')}={value}" for name, value in values.items()]


SMALL = sets(streams__packets__message="512B")
# Seven times 2 s, and twice as long: for longer than a guest stands still on a busy host.
GIVES_UP_LATE = sets(transport__options__retry_cnt=6, transport__options__timeout=19)
OUTLASTS = sets(transport__options__retry_cnt=6, transport__options__timeout=20)
GIVES_UP_SOON = sets(transport__options__retry_cnt=6, transport__options__timeout=17)


class Trouble(test_verbs_rc.Streams):
    def setUp(self):
        super().setUp()
        self.remember()

    def assert_all_is_well(self):
        receiver, sender = self.both("--count", "200")
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        stream = self.stream("b")
        self.assertEqual((stream["messages_delivered"], stream["corrupted"]), (200, 0), stream)
        self.assert_nothing_left()

    def forged(self, fields, *more):
        """A stream whose sender gets another address of the receiver's ring than the receiver sent."""
        receiver = self.penstock("b", "receive", *more)
        receiver.await_listener(tcp_listener(18515))
        forger = self.guest("b").start(f"exec {FORGER} 10.9.0.2 18516 10.9.0.2 18515 {fields}")
        forger.await_listener(tcp_listener(18516))
        sender = self.penstock("a", "send", *more, *sets(control__address="10.9.0.2:18516"))
        return receiver, sender

    def refused_by_the_peer(self, field):
        receiver, sender = self.forged(field)
        self.assertEqual((sender.wait(NOTICED), receiver.wait(NOTICED)), (1, 1), f"{sender}{receiver}")
        self.assertRegex(sender.stderr, r"IBV_WC_REM_ACCESS_ERR \(10;.*a key that is wrong.*an address out of the range")
        self.assertEqual(self.stream("b")["messages_delivered"], 0)
        self.assert_all_is_well()

    def test_a_key_that_is_wrong(self):
        self.refused_by_the_peer("rkey")

    def test_an_address_out_of_bounds(self):
        self.refused_by_the_peer("address")

    def test_a_receiver_that_is_not_ready(self):
        """The receiver is stopped, and its sender believes to have credit for twice as many messages. The
        sender is slow, so that the receiver is ahead of it until then, unless it stalls by itself."""
        slowly = sets(transport__options__rnr_retry=0, streams__packets__sender__rate="2Mbps")
        for _ in range(3):  # now and then soft-RoCE neither answers nor goes on: the stream's timeout ends that
            receiver, sender = self.forged("slots", *SMALL, *slowly)
            guests.wait_until(lambda: re.search(FLOWS, receiver.stderr) or sender.ended(), 60, "messages come")
            receiver.signal(signal.SIGSTOP)
            self.assertEqual(sender.wait(NOTICED), 1, str(sender))
            receiver.signal(signal.SIGCONT)
            self.assertEqual(receiver.wait(NOTICED), 1, str(receiver))
            if "neither it nor the device's own error came" not in sender.stderr:
                break
        self.assertRegex(sender.stderr, r"IBV_WC_RNR_RETRY_EXC_ERR \(13;.*no receive.*Check: `rnr_retry`")
        self.assertRegex(sender.stderr, r"rcvd_rnr_err \+\d+")
        self.assert_all_is_well()

    def test_a_peer_that_is_killed(self):
        for victim in (0, 1):
            with self.subTest("receiver" if victim == 0 else "sender"):
                both = self.both()
                both[0].wait_line(FLOWS)
                both[victim].signal(signal.SIGKILL)
                other = both[1 - victim]
                self.assertEqual(other.wait(NOTICED), 1, str(other))
                self.assertRegex(other.stderr, "the connection (to|from) .* (ended|failed): |closed unexpectedly; it was killed")
                self.assert_all_is_well()

    def endless(self, *more):
        """A stream that is under way, whatever happens when: its sender ends on SIGINT."""
        more = [*SMALL, *more]
        receiver, sender = self.both(*more, receiver=more)
        receiver.wait_line(FLOWS)
        return receiver, sender

    def take_the_link_down(self, receiver):
        """When it may be up again: seconds after the port has said that it is down."""
        self.addCleanup(self.guest("b").set_link, True)
        self.guest("b").set_link(False)
        receiver.wait_line("IBV_EVENT_PORT_ERR: the port is down; check: `rdma link`")
        return time.monotonic() + LINK_DOWN

    def bring_it_up(self, then):
        guests.wait_until(lambda: time.monotonic() >= then, 2 * LINK_DOWN, "the link was down long enough")
        self.guest("b").set_link(True)
        self.guest("b").await_port("ACTIVE")

    def assert_it_goes_on(self, receiver, sender, before):
        """And ends with each message delivered once."""
        receiver.wait_line(FLOWS, after=before)
        sender.signal(signal.SIGINT)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        self.assertRegex(receiver.stderr, "(?s)IBV_EVENT_PORT_ERR.*IBV_EVENT_PORT_ACTIVE")
        stream = self.stream("b")
        self.assertEqual(stream["messages_delivered"], stream["messages_sent"], stream)
        self.assertEqual((stream["corrupted"], stream["dropped"], stream["duplicates"]), (0, {}, 0), stream)
        self.assertEqual(stream["verified"], stream["messages_delivered"], stream)
        self.assert_nothing_left()

    def test_a_link_that_is_down_for_5_seconds(self):
        receiver, sender = self.endless(*GIVES_UP_LATE)
        then = self.take_the_link_down(receiver)
        self.assertEqual((sender.wait(NOTICED), receiver.wait(NOTICED)), (1, 1), f"{sender}{receiver}")
        self.assertRegex(sender.stderr, r"IBV_WC_RETRY_EXC_ERR \(12;.*retry_exceeded_err \+\d")
        self.bring_it_up(then)
        self.assert_all_is_well()

    def test_a_link_that_is_down_for_5_seconds_and_outlasted(self):
        """By a device that tries for longer, without a word."""
        receiver, sender = self.endless(*OUTLASTS)
        self.bring_it_up(self.take_the_link_down(receiver))
        self.assert_it_goes_on(receiver, sender, receiver.written())
        self.assertNotIn("IBV_WC", sender.stderr + receiver.stderr)

    def test_a_link_that_is_down_for_5_seconds_and_reconnected(self):
        """The device gives up, and the stream goes on: `reconnect`, with either operation, and over
        four queue pairs."""
        for operation, qps in (("write", "1"), ("send", "1"), ("write", "4")):
            with self.subTest(operation=operation, qps=qps):
                self.reconnected(transport__options__operation=operation, transport__options__qps=qps)

    def test_a_link_that_is_down_for_5_seconds_and_reconnected_by_rdma_cm(self):
        """The connection is made again once the kernel's requests pass, also with shared receives, and over
        four queue pairs."""
        by_cm = {"transport__options__connection": "rdma_cm"}
        by_send = {"transport__options__operation": "send", "transport__options__srq": "true"}
        for more in ({}, by_send, {"transport__options__qps": "4"}):
            with self.subTest(more):
                self.reconnected(**by_cm, **more)

    def reconnected(self, **options):
        receiver, sender = self.endless(
            *GIVES_UP_SOON, *sets(transport__options__reconnect="120s", **options)
        )
        then = self.take_the_link_down(receiver)
        sender.wait_line("IBV_WC_RETRY_EXC_ERR.*Reconnecting for up to 120.0 s")
        self.bring_it_up(then)
        sender.wait_line("the connection is re-established after .* s; [0-9]+ messages were sent again")
        self.assert_it_goes_on(receiver, sender, receiver.written())

    def test_too_little_locked_memory(self):
        """For the ring; and, where the messages fit, for what credit comes into."""
        for kib, guest, command, words in (
            (64, "b", "receive", "locked-memory limit of 64 KiB is less than the 512 KiB wanted: raise it .`ulimit -l"),
            (514, "a", "send", "locked-memory limit of 514 KiB is used up"),
        ):
            with self.subTest(kib):
                refused = self.penstock(guest, command, before=with_memlock(kib))
                self.assertEqual(refused.wait(NOTICED), 3, str(refused))
                self.assertRegex(refused.stderr, f"ibv_reg_mr.*Cannot allocate memory.*{words}")
                self.assert_all_is_well()

    def test_a_gid_index_that_is_not_there(self):
        refused = self.penstock("b", "receive", *sets(transport__options__gid_index=77))
        self.assertEqual(refused.wait(NOTICED), 3, str(refused))
        self.assertRegex(refused.stderr, r"no entry 77; it has 0: fe80.*1: 10\.9\.0\.2 \(RoCE v2\)")
        self.assert_all_is_well()

    def test_a_gid_index_of_the_wrong_address(self):
        receiver, sender = self.both(*sets(transport__options__gid_index=0))
        self.assertEqual((sender.wait(NOTICED), receiver.wait(NOTICED)), (1, 1), f"{sender}{receiver}")
        told = sender.stderr + receiver.stderr
        self.assertRegex(told, r"the other version of IP \(GID 0, fe80.*as gid_index says\); set gid_index")
        self.assert_all_is_well()

    def test_ends_of_different_mtus(self):
        receiver, sender = self.both("--count 200", "-v", *sets(transport__options__mtu=512), receiver=("-v",))
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        for end in (sender, receiver):
            self.assertRegex(end.stderr, r"connected: .*, MTU 512( \(8 packets a message\))?,")
        self.assert_nothing_left()

    def test_a_control_port_that_is_in_use(self):
        first = self.penstock("b", "receive")
        first.await_listener(tcp_listener(18515))
        second = self.penstock("b", "receive")
        self.assertEqual(second.wait(NOTICED), 3, str(second))
        self.assertRegex(second.stderr, "cannot listen on 10.9.0.2:18515: Address already in use; another receiver")
        first.signal()
        first.wait(NOTICED)
        self.assert_all_is_well()

    def connect_and_kill(self, count, *options):
        killer = self.guest("a").run(
            f"exec {CONNECTS} 10.9.0.2:18530 10.9.0.1 {count} 4 timeout=20 {' '.join(options)}",
            seconds=400,
        )
        self.assertIn(f"{count} killed, 0 otherwise", killer.stdout)

    def connects_and_kills(self, connection, **kept):
        """The page that FLUSHes read into stays: a worker registers it for the first range of a peer's."""
        more = f"--transport-option timeout=20 --transport-option connection={connection}"
        server = self.guest("b").start(
            f"exec {PROGRAM} serve 10.9.0.2:18530 --root . --insecure --transport verbs_rc"
            f" --transport-option device=10.9.0.2 {more} --json served.json"
        )
        server.wait_line("serve: listening on")  # it has all memory that it will have
        idle = self.held()
        self.connect_and_kill(KILLS, f"connection={connection}")
        kept = {"mr": 1, **kept}
        left = {kind: count + kept.get(kind, 0) for kind, count in idle.items()}
        guests.wait_until(lambda: self.held() == left, 60, f"the server has only {left}")
        self.assertFalse(server.ended(), str(server))
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(), 0, str(server))
        self.assert_all_is_well()

    def held(self):
        """By the server, listeners of rdma_cm's included, which belong to no device."""
        listeners = self.guest("b").run("rdma resource show cm_id").stdout.splitlines()
        return {**self.guest("b").resources(), "all_cm_ids": len(listeners)}

    def test_connects_and_kills(self):
        self.connects_and_kills("exchange")

    def test_connects_and_kills_by_rdma_cm(self):
        """The listener, made for the first, stays: with a domain and a context of librdmacm's."""
        self.connects_and_kills("rdma_cm", cm_id=1, all_cm_ids=1, pd=1, ctx=1)

    def test_receives_that_are_shared(self):
        """`srq`: streams by both operations, and clients that are killed beside one that goes on."""
        for operation in ("write", "send"):
            with self.subTest(operation):
                self.transfer(*sets(transport__options__srq="true", transport__options__operation=operation))
        options = "--insecure --transport verbs_rc --transport-option srq=true --transport-option timeout=20"
        server = self.guest("b").start(
            f"exec {PROGRAM} serve 10.9.0.2:18530 --root . -v {options} --transport-option device=10.9.0.2"
        )
        server.await_listener(tcp_listener(18530))
        client = self.guest("a").start(
            f"exec {PROGRAM} request write 10.9.0.2:18530 --size 5000B --depth 2 --duration 600s {options}"
            " --transport-option device=10.9.0.1"
        )
        server.wait_line("has prepared its memory")
        self.connect_and_kill(12, "srq=true")
        self.assertGreater(self.guest("b").resources()["srq"], self.before["b"]["srq"])
        client.signal(signal.SIGINT)
        self.assertEqual(client.wait(60), 1, str(client))
        self.assertRegex(str(client), r"stopped by SIGINT after \d+\.\d of 600\.0 seconds")
        self.assertRegex(client.stdout, "[1-9][0-9]* bytes verified")
        server.signal(signal.SIGINT)
        self.assertEqual(server.wait(60), 0, str(server))
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
