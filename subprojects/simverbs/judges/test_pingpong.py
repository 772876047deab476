#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rdma-core's own examples (Debian's ibverbs-utils) on the simulated device."""
import re

from judge import ETHERNET, INFINIBAND, Judge, main, need

PACKAGE = "ibverbs-utils"


class Devices(Judge):
    def setUp(self):
        super().setUp()
        need("ibv_devinfo", PACKAGE)

    def test_devices_lists_both(self):
        lines = self.run_judge("ibv_devices").stdout.splitlines()
        found = {line.split()[0]: line.split()[1] for line in lines[2:]}
        self.assertEqual(sorted(found), [ETHERNET, INFINIBAND])
        for guid in found.values():
            self.assertRegex(guid, r"^[0-9a-f]{16}$")
        self.assertEqual(len(set(found.values())), 2)

    def test_devinfo_shows_both_link_layers(self):
        for device, layer in ((ETHERNET, "Ethernet"), (INFINIBAND, "InfiniBand")):
            text = self.run_judge("ibv_devinfo", "-d", device).stdout
            self.assertRegex(text, rf"hca_id:\s+{device}\b")
            self.assertRegex(text, r"transport:\s+InfiniBand \(0\)")
            self.assertRegex(text, r"vendor_id:\s+0x02c9")
            self.assertRegex(text, r"state:\s+PORT_ACTIVE \(4\)")
            self.assertRegex(text, rf"link_layer:\s+{layer}")

    def test_devinfo_verbose_reads_every_table(self):
        text = self.run_judge("ibv_devinfo", "-v", "-d", ETHERNET).stdout
        for kind in ("RoCE v1", "RoCE v2"):
            self.assertRegex(text, rf"GID\[\s*\d+\]:\s+\S+, {kind}")
        self.assertRegex(text, r"max_qp_wr:\s+[1-9]")
        self.assertRegex(text, r"atomic_cap:\s+ATOMIC_HCA \(1\)")

    def test_a_device_that_is_not_there(self):
        self.run_judge("ibv_devinfo", "-d", "mlx5_77", expect=255)


class Pingpong(Judge):
    """Each checks nothing but that as many messages arrive as were sent: both ends must end well."""

    BYTES = 8192000  # both directions: 1000 times 4096, twice

    def setUp(self):
        super().setUp()
        need("ibv_rc_pingpong", PACKAGE)

    def play(self, program, *arguments, bytes_moved=BYTES):
        for child in self.pair(program, *arguments):
            found = re.search(r"^(\d+) bytes in ", child.stdout, re.MULTILINE)
            self.assertTrue(found, str(child))
            self.assertEqual(int(found[1]), bytes_moved, str(child))

    def both_layers(self, program, *arguments, **options):
        for device, more in ((ETHERNET, ("-g", "3")), (INFINIBAND, ())):
            with self.subTest(device=device):
                self.play(program, "-d", device, *more, *arguments, **options)

    def test_rc(self):
        self.both_layers("ibv_rc_pingpong")

    def test_rc_checks_its_payload(self):
        self.both_layers("ibv_rc_pingpong", "-c")

    def test_rc_by_events(self):
        self.both_layers("ibv_rc_pingpong", "-e")

    def test_rc_by_the_new_interface(self):
        self.both_layers("ibv_rc_pingpong", "-N")

    def test_rc_with_time_stamps(self):
        self.both_layers("ibv_rc_pingpong", "-t")

    def test_rc_with_large_messages(self):
        self.both_layers("ibv_rc_pingpong", "-s", "1048576", "-n", "100", "-m", "4096",
                         bytes_moved=2 * 100 * 1048576)

    def test_srq(self):
        self.both_layers("ibv_srq_pingpong", bytes_moved=Pingpong.BYTES)

    def test_srq_by_events(self):
        self.both_layers("ibv_srq_pingpong", "-e")

    def test_uc(self):
        self.both_layers("ibv_uc_pingpong")

    def test_ud(self):
        self.both_layers("ibv_ud_pingpong", "-s", "1024", bytes_moved=2 * 1000 * 1024)

    def test_ud_by_events(self):
        self.both_layers("ibv_ud_pingpong", "-e", "-s", "1024", bytes_moved=2 * 1000 * 1024)


if __name__ == "__main__":
    main()
