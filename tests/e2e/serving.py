# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of serve and its clients."""
import hashlib
import os
import pathlib
import re
import signal
import subprocess

from harness import BUILD, Case, PATIENCE, wait_until

MIB = 1 << 20
PART = ".penstock-part"


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree(folder):
    """Returns the contents of a folder: relative name to contents' hash, or to None for a folder."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): None if path.is_dir() else sha256(path)
            for path in folder.rglob("*") if path.is_dir() or path.is_file()}  # fmt: skip


def parts(folder):
    return sorted(path.name for path in pathlib.Path(folder).rglob("*" + PART))


class ServeCase(Case):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "root"
        self.here = self.folder / "here"
        for folder in (self.root, self.here):
            folder.mkdir()
        self.server = None

    def serve(self, *arguments, root=True, **options):
        """A server, once it listens; self.address is its."""
        files = ["--root", self.root] if root else []
        # Each server touches all of this when it starts; the default is 256 MiB.
        memory = [] if "--in-flight" in arguments else ["--in-flight", "32MiB"]
        self.server = self.start("serve", "127.0.0.1:0", "-v", *files, *memory, *arguments, **options)
        port = self.server.wait_line(r"serve: listening on 127\.0\.0\.1:0, port (\d+)")[1]
        self.address = f"127.0.0.1:{port}"
        return self.server

    def count(self, pattern):
        """Lines of the server's like it."""
        return sum(bool(re.search(pattern, line)) for line in list(self.server.lines["stderr"]))

    def wait_joined(self, number):
        """So many clients have come, since the server began."""
        wait_until(lambda: self.count(r"has joined, \d+ here$") >= number, 20, f"{number} clients are there")

    def wait_all_left(self):
        """All that have come have gone."""
        wait_until(lambda: self.count(" left after ") == self.count(r"has joined, \d+ here$"), 30, "all have left")

    def get(self, *arguments, **options):
        options.setdefault("cwd", self.here)
        return self.run_program("get", self.address, *arguments, **options)

    def put(self, *arguments, **options):
        options.setdefault("cwd", self.here)
        return self.run_program("put", self.address, *arguments, **options)

    def stop(self, server=None):
        """The server ends in order; what it said at last."""
        server = server or self.server
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0, str(server))
        return server

    def assert_healthy(self):
        """The server still serves."""
        self.assertIsNone(self.server.poll(), str(self.server))
        self.run_program("request", "write", self.address, "--count", 3, "--size", 10000)

    def stranger(self, *lines, region=65536, status=0):
        """Returns the server's answers to these lines, a line each."""
        run = subprocess.run([BUILD / "tests" / "e2e" / "stranger", self.address, str(region)],
                             input="\n".join(lines) + "\n", capture_output=True, text=True, errors="replace",
                             timeout=60 * PATIENCE,
                             env=dict(os.environ, TMPDIR=str(self.temporary)))  # fmt: skip
        self.assertEqual(run.returncode, status, f"{run.stdout}\n{run.stderr}")
        return run.stdout.splitlines()

    def wait_let_go(self, *paths):
        """The server has none of these open: what a client that died had asked for has ended."""
        names = {str(path) for path in paths}
        folder = pathlib.Path(f"/proc/{self.server.pid}/fd")

        def open_ones():
            for path in folder.iterdir():
                try:
                    yield os.readlink(path)
                except FileNotFoundError:  # closed meanwhile
                    pass

        wait_until(lambda: names.isdisjoint(open_ones()), 30, f"the server has closed {names}")

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def resident(self):
        """Bytes of its memory that is its own: what it maps of others' comes and goes."""
        text = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return sum(int(line.split()[1]) * 1024 for line in text.splitlines()
                   if line.startswith(("RssAnon:", "RssShmem:")))  # fmt: skip
