#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""verbs_rc by `connection: rdma_cm` between two machines: all that it does by exchange, and what
only the kernel's connection manager can do or refuse."""
import signal

import guests
import test_verbs_rc
from guests import main, tcp_listener

PORT = 20049


class RdmaCm(test_verbs_rc.VerbsRc):
    OPTIONS = {"connection": "rdma_cm"}
    # A connection carries the same by exchange, which is tried in full on bad wires: here one queue pair
    # and four connect on them. The kernel sends one of its messages at a time, so losses affect them and
    # reordering does not.
    MORE_BAD_WIRES = ()
    BAD_WIRES_OF_FOUR = test_verbs_rc.BAD_WIRES[:1]

    test_the_hardware_check = None  # its streams connect by exchange
    test_the_page_for_two_hosts = None  # its commands do, too
    test_clients_of_a_router = None  # as are those of any program

    def assert_nothing_left(self):
        super().assert_nothing_left()
        for name in "ab":
            self.assertEqual(self.guest(name).run("rdma resource show cm_id").stdout, "")

    def test_a_receiver_that_is_killed(self):
        """The kernel says so, or the control channel, of which either may be first: nobody waits
        for retries to run out."""
        self.remember()
        receiver, sender = self.both()
        receiver.wait_line(r"Got \d{2,}")
        receiver.signal(signal.SIGKILL)
        self.assertEqual(sender.wait(20), 1, str(sender))
        self.assertRegex(
            sender.stderr,
            "RDMA_CM_EVENT_DISCONNECTED.*Check: whether the peer runs|the connection closed unexpectedly; it was killed",
        )
        self.transfer()

    def test_a_port_that_is_in_use(self):
        self.remember()
        rping = self.guest("b").start(f"exec rping -s -a 10.9.0.2 -p {PORT}")
        rping.await_listener(guests.RDMA_CM_LISTENER)
        settings = f"--set transport.options.cm_port={PORT}"
        refused = self.penstock("b", "receive", settings)
        self.assertEqual(refused.wait(30), 3, str(refused))
        self.assertRegex(refused.stderr, f"port {PORT} of 10.9.0.2 is in use.*cm_port")
        rping.signal()
        rping.wait(20)
        receiver, sender = self.both(settings, "--count", "200", receiver=[settings])
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        self.assert_nothing_left()

    def test_ends_that_disagree(self):
        receiver = self.penstock("b", "receive")
        receiver.await_listener(tcp_listener(18515))
        sender = self.penstock("a", "send", "--count", "200", "--set", "transport.options.connection=exchange")
        self.assertNotEqual(sender.wait(), 0, str(sender))
        self.assertNotEqual(receiver.wait(), 0, str(receiver))
        self.assertRegex(sender.stderr + receiver.stderr, "rdma_cm.*exchange.*both need the same")


class Routed(test_verbs_rc.Routed):
    OPTIONS = {"connection": "rdma_cm"}

    test_doctor_finds_a_hop_limit_of_1 = None  # it moves no data

    def test_a_hop_limit_of_1_is_named_first(self):
        self.hop_limit_1()
        errors = self.guest("r").network_counter("Ip", "InHdrErrors")
        receiver, sender = self.both(timeout="15s")
        self.assertEqual((receiver.wait(60), sender.wait(60)), (1, 1), f"{receiver}{sender}")
        self.assertGreater(self.guest("r").network_counter("Ip", "InHdrErrors"), errors)
        # The sender is who asks.
        self.assertRegex(
            sender.stderr,
            f"RDMA_CM_EVENT_UNREACHABLE.*Check: `hop_limit`.*{test_verbs_rc.TOLD_BY_THE_ROUTER}.*"
            r"sent_pkts \+[1-9]\d*, rcvd_pkts \+0",
        )


if __name__ == "__main__":
    main()
