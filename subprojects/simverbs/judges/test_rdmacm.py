#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rdma-core's own programs (Debian's rdmacm-utils), and perftest's -R, on the simulated rdma_cm."""
import itertools
import pathlib

from judge import ETHERNET, Judge, main, need, wait_until
from test_perftest import rows

ADDRESS = "127.0.0.1"  # of the default fabric's RoCE device
PACKAGE = "rdmacm-utils"
ports = itertools.count(20000)


def is_listening(port):
    """Whether an abstract socket of that port of rdma_cm accepts: flag __SO_ACCEPTCON."""
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if words[-1].startswith("@simverbs-cm/") and words[-1].endswith(f"/{port}") and int(words[3], 16) & 0x10000:
            return True
    return False


class ByRdmaCm(Judge):
    package = PACKAGE

    def wait_listening(self, child, port):
        def listening():
            if child.poll() is not None:
                raise AssertionError(f"ended before it listened\n{child}")
            return is_listening(port)

        wait_until(listening, 20, f"listening on port {port} of rdma_cm")

    def meet(self, server, client, seconds=240):
        """Both to the end, `server` and `client` being command lines; their outputs."""
        port = next(ports)
        listener = self.start_judge(*server, "-p", port)
        self.wait_listening(listener, port)
        caller = self.start_judge(*client, "-p", port)
        statuses = caller.wait(seconds), listener.wait(seconds)
        self.assertEqual(statuses, (0, 0), f"client:\n{caller}\nserver:\n{listener}")
        return caller, listener


class RdmaCm(ByRdmaCm):
    def setUp(self):
        super().setUp()
        need("rping", PACKAGE)

    def test_rping(self):
        """Its payload is compared at the client (-V)."""
        client, _ = self.meet(("rping", "-s", "-C", 100, "-S", 4000),
                              ("rping", "-c", "-a", ADDRESS, "-C", 100, "-S", 4000, "-V", "-v"))
        self.assertEqual(client.stdout.count("ping data: "), 100, str(client))

    def test_rping_without_listener(self):
        child = self.start_judge("rping", "-c", "-a", ADDRESS, "-p", next(ports), "-C", 1)
        self.assertNotEqual(child.wait(60), 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", child.stdout + child.stderr)

    def test_rping_persistent_server(self):
        port = next(ports)
        server = self.start_judge("rping", "-s", "-P", "-p", port)
        self.wait_listening(server, port)
        for _ in range(3):
            self.run_judge("rping", "-c", "-a", ADDRESS, "-p", port, "-C", 5, "-V")
        self.assertIsNone(server.poll(), str(server))

    def test_ucmatose(self):
        client, _ = self.meet(("ucmatose", "-C", 100, "-c", 8), ("ucmatose", "-s", ADDRESS, "-C", 100, "-c", 8))
        self.assertIn("data transfers complete", client.stdout, str(client))
        self.assertIn("return status 0", client.stdout, str(client))

    def test_ucmatose_migrates(self):
        client, _ = self.meet(("ucmatose", "-C", 10, "-m"), ("ucmatose", "-s", ADDRESS, "-C", 10, "-m"))
        self.assertIn("return status 0", client.stdout, str(client))

    def test_synchronous(self):
        for letter in ("", "x"):
            with self.subTest(letter):
                client, _ = self.meet((f"rdma_{letter}server",), (f"rdma_{letter}client", "-s", ADDRESS))
                self.assertRegex(client.stdout, f"rdma_{letter}client: end 0")

    def test_xrc_is_refused(self):
        child = self.start_judge("rdma_xserver", "-c", "x", "-p", next(ports),
                                 environment={"PENSTOCK_SIMVERBS_LOG": "2"})
        child.wait(60)
        self.assertRegex(child.stdout + child.stderr, "IBV_QPT_RC.*XRC.*is not simulated: EOPNOTSUPP")
        self.assertRegex(child.stdout + child.stderr, "rdma_create_ep: .*not supported")

    def test_connections(self):
        """cmtime: many at once, each step timed. Its server never ends."""
        port = next(ports)
        self.wait_listening(self.start_judge("cmtime", "-p", port), port)
        client = self.run_judge("cmtime", "-s", ADDRESS, "-p", port, "-c", 100)
        for step in ("create id", "resolve addr", "resolve route", "create qp", "connect", "disconnect", "destroy"):
            self.assertRegex(client.stdout, rf"{step} *: +\d", str(client))


class Perftest(ByRdmaCm):
    def setUp(self):
        super().setUp()
        need("ib_write_bw", "perftest")

    def test_perftest(self):
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_write_lat", "ib_send_lat"):
            with self.subTest(program):
                command = (program, "-R", "-F", "-d", ETHERNET, "-n", 100)
                client, _ = self.meet(command, (*command, ADDRESS))
                self.assertEqual([row[1] for row in rows(client.stdout)], [100], str(client))

    def test_several_queue_pairs(self):
        command = ("ib_write_bw", "-R", "-F", "-d", ETHERNET, "-n", 100, "-q", 4)
        client, _ = self.meet(command, (*command, ADDRESS))
        self.assertTrue(rows(client.stdout), str(client))


if __name__ == "__main__":
    main()
