#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real files through two processes: equality, memory use, refusals, a full disk."""
import hashlib
import os
import stat
import pathlib
import subprocess
import threading
import unittest

from harness import Case, PATIENCE, PROGRAM, main, random_file, wait_until, yaml_stream

MIB = 1 << 20


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileCase(Case):
    def setUp(self):
        super().setUp()
        self.sent = self.folder / "sent"
        self.output = self.folder / "output"
        self.output.mkdir()
        self.received = self.output / "received"

    def file_config(self, message="64 KiB", ring=64, sink="", extra=""):
        return self.config(
            yaml_stream(
                "file",
                message=message,
                ring=ring,
                sender=f"{{source: {{type: file, file: {self.sent}}}}}",
                receiver=f"{{sink: {{type: file, file: {self.received}{sink}}}}}",
            )
            + extra
        )

    def transfer(self, path, first="receive"):
        second = "send" if first == "receive" else "receive"
        one = self.start(first, path)
        if first == "receive":
            # The second starts when the first already waits.
            wait_until(lambda: one.lines["stderr"], 60, "the first process has spoken")
        two = self.start(second, path)
        for child in (one, two):
            self.assertEqual(child.wait(), 0, f"{one}\n{two}")
        return (one, two) if first == "receive" else (two, one)


class Files(FileCase):
    def test_receiver_first(self):
        random_file(self.sent, 96 * MIB + 12345)
        self.transfer(self.file_config(), "receive")
        self.assertEqual(sha256(self.sent), sha256(self.received))
        self.assertEqual([path.name for path in self.output.iterdir()], ["received"])
        self.assert_nothing_left()

    def test_sender_first(self):
        random_file(self.sent, 96 * MIB + 1)
        self.transfer(self.file_config(), "send")
        self.assertEqual(sha256(self.sent), sha256(self.received))
        self.assert_nothing_left()

    def test_an_empty_file_is_streamed_whole(self):
        self.sent.touch()
        self.transfer(self.file_config())
        self.assertEqual(self.received.stat().st_size, 0)
        self.received.unlink()
        result, _ = self.run_json("run", self.file_config())
        self.assertEqual(self.received.stat().st_size, 0)
        stream = self.only_stream(result)
        self.assertEqual((stream["stopped"], stream["messages_sent"]), ("source_end", 0))
        self.assertIsNone(stream["verdict"]["limited_by"])

    def test_a_file_that_grows_is_sent_as_it_was(self):
        """Bytes that are appended meanwhile are no part of the file, and a message says so."""
        random_file(self.sent, 4 * MIB)
        receiver = self.start("receive", self.file_config())
        sender = self.start("send", self.file_config(), "--set", "streams.file.sender.rate=50 Mbps")
        receiver.wait_line("peer:")
        with open(self.sent, "ab") as file:
            file.write(b"more")
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}{receiver}")
        self.assertEqual(self.received.stat().st_size, 4 * MIB)
        self.assertRegex(sender.stderr, "warning: .* grew while it was sent: its first 4194304 of 4194308 bytes")

    def test_a_fifo_is_written_once_somebody_reads_it(self):
        self.sent.write_bytes(b"a file" * 1000)
        os.mkfifo(self.received)
        child = self.start("run", self.file_config(message="1 KiB"))
        child.wait_line(f"waiting for a reader of the FIFO .*{self.received.name}")
        self.assertEqual(self.received.read_bytes(), b"a file" * 1000)
        self.assertEqual(child.wait(), 0, str(child))

    def test_a_receiver_that_verifies_is_refused(self):
        """A file is no pattern: nothing of it is corrupted."""
        self.sent.write_bytes(b"a file" * 1000)
        receiver = self.start("receive", self.config(yaml_stream("file", message="1 KiB"), name="verify.yaml"))
        sender = self.start("send", self.file_config(message="1 KiB"))
        self.assertEqual((receiver.wait(), sender.wait()), (2, 1), f"{receiver}{sender}")
        self.assertIn("sink: verify checks the pattern source, and the sender has another one", receiver.stderr)
        self.assertNotIn("corrupted", receiver.stderr + sender.stderr)

    def test_example_with_set(self):
        random_file(self.sent, 16 * MIB)
        sets = [
            "--set",
            f"streams.file.sender.source.file={self.sent}",
            "--set",
            f"streams.file.receiver.sink.file={self.received}",
            "--set",
            f"control.address=127.0.0.1:{self.port}",
            "--set",
            "streams.file.timeout=1 min",
        ]
        receiver = self.start("receive", "config/loopback-file.yaml", *sets)
        sender = self.start("send", "config/loopback-file.yaml", *sets)
        self.assertEqual((sender.wait(), receiver.wait()), (0, 0), f"{sender}\n{receiver}")
        self.assertEqual(sha256(self.sent), sha256(self.received))

    def test_lengths_at_the_edges(self):
        for length in (0, 1, 4095, 4096, 4097, 8 * 4096, 8 * 4096 + 1):
            with self.subTest(length=length):
                random_file(self.sent, length)
                self.received.unlink(missing_ok=True)
                self.transfer(self.file_config(message="4 KiB", ring=4))
                self.assertEqual(self.sent.read_bytes(), self.received.read_bytes())

    def test_in_one_process(self):
        random_file(self.sent, 32 * MIB + 7)
        self.run_program("run", self.file_config())
        self.assertEqual(sha256(self.sent), sha256(self.received))

    def test_a_file_of_the_kernel_that_has_no_size(self):
        self.run_program("run", self.file_config(), "--set", "streams.file.sender.source.file=/proc/version")
        self.assertEqual(self.received.read_bytes(), pathlib.Path("/proc/version").read_bytes())

    def test_memory_use_does_not_depend_on_the_size(self):
        peaks = []
        for size in (64 * MIB, 512 * MIB):
            random_file(self.sent, size)
            self.received.unlink(missing_ok=True)
            receiver, sender = self.transfer(self.file_config())
            peaks.append((receiver.usage.ru_maxrss, sender.usage.ru_maxrss))
        self.assertEqual(sha256(self.sent), sha256(self.received))
        for small, large in zip(*peaks):
            self.assertLess(large, small + 16 * 1024, peaks)  # KiB

    def test_an_existing_file_is_not_replaced_unasked(self):
        random_file(self.sent, MIB)
        self.received.write_text("precious")
        child = self.run_program("run", self.file_config(), expect=None)
        self.assertNotEqual(child.status, 0, str(child))
        self.assertIn(str(self.received), child.stderr)
        self.assertIn("overwrite", child.stderr)
        self.assertEqual(self.received.read_text(), "precious")
        self.run_program("run", self.file_config(sink=", overwrite: true"))
        self.assertEqual(sha256(self.sent), sha256(self.received))

    @unittest.skipIf(os.geteuid() != 0, "only root makes device nodes")
    def test_a_disk_is_not_replaced_unasked(self):
        disk = self.output / "disk"
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(7, 0xfffff))  # a loop device that nobody has
        self.received = disk
        self.sent.write_bytes(b"data")
        for command, status in (("check", 0), ("run", 2)):
            child = self.run_program(command, self.file_config(), expect=status)
            self.assertIn(f"{disk} is a block device, whose content would be lost", child.stderr)
        child = self.run_program("run", "config/loopback.yaml", "--json", disk, expect=2)
        self.assertIn(f"{disk} is a block device, and the new result would replace it", child.stderr)

    def test_a_missing_file_is_named(self):
        child = self.run_program("run", self.file_config(), expect=None)
        self.assertIn(child.status, (1, 2, 3), str(child))
        self.assertIn(str(self.sent), child.stderr)
        self.assert_nothing_left(self.output)

    def test_without_standard_streams(self):
        """A process that lacks them must not write its lines into what it opens instead."""
        random_file(self.sent, 3 * MIB + 1)
        path = self.file_config()
        started = f'exec "{PROGRAM}" run "{path}" <&- >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", started], timeout=60 * PATIENCE).returncode, 0)
        self.assertEqual(sha256(self.sent), sha256(self.received))

    def test_into_a_fifo(self):
        random_file(self.sent, 4 * MIB)
        os.mkfifo(self.received)
        digest = []
        reader = threading.Thread(target=lambda: digest.append(sha256(self.received)))
        reader.start()
        try:
            self.run_program("run", self.file_config())
        finally:
            if reader.is_alive():
                reader.join(10)
            if reader.is_alive():  # nobody opened the other end: do it, so that it ends
                os.close(os.open(self.received, os.O_WRONLY | os.O_NONBLOCK))
                reader.join()
        self.assertEqual(digest, [sha256(self.sent)])


class FullDisk(FileCase):
    def setUp(self):
        super().setUp()
        mount = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "penstock-test", self.output],
            capture_output=True,
            text=True,
        )
        if mount.returncode:
            super().tearDown()
            self.skipTest(f"cannot mount a small file system: {mount.stderr.strip()}")

    def tearDown(self):
        for child in self.children:
            child.kill()
        subprocess.run(["umount", self.output], check=True)
        super().tearDown()

    def test_says_so_and_leaves_nothing(self):
        random_file(self.sent, 64 * MIB)
        path = self.file_config()
        receiver = self.start("receive", path)
        sender = self.start("send", path)
        self.assertEqual((receiver.wait(), sender.wait()), (1, 1), f"{receiver}\n{sender}")
        self.assertRegex(receiver.stderr, "(?i)no space left")
        self.assertIn(str(self.received), receiver.stderr)
        self.assertRegex(sender.stderr, "(?i)no space left")
        self.assert_nothing_left(self.output)



if __name__ == "__main__":
    main(side_by_side=3)
