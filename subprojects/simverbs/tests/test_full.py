# SPDX-License-Identifier: Apache-2.0
"""A file system that fills up under a fabric: objects are refused, and nobody is killed for it."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, Case, main  # noqa: E402

LAUNCHER = BUILD / "penstock-simverbs"
CHILD = BUILD / "tests/full_child"


class Full(Case):
    def launch(self, mebibytes, expect):
        """In a mount namespace of its own, with a /dev/shm of this size."""
        script = f'mount -t tmpfs -o size={mebibytes}m penstock-test /dev/shm && exec "$@"'
        namespace = ["unshare", "--mount", "sh", "-c", script, "sh"]
        tried = subprocess.run([*namespace, "true"], capture_output=True, text=True)
        if tried.returncode:
            self.skipTest(f"cannot mount a small file system: {tried.stderr.strip()}")
        options = ["--own", CHILD, "/dev/shm/full"]
        return self.run_program(*options, program=LAUNCHER, prefix=namespace, expect=expect)

    def test_objects_are_refused(self):
        self.assertIn("no room for", self.launch(80, expect=0).stderr)


if __name__ == "__main__":
    main()
