# SPDX-License-Identifier: Apache-2.0
"""A cgroup with a limit on memory: the page cache of files that are read and written counts."""
import contextlib
import os
import pathlib
import subprocess

CGROUPS = pathlib.Path("/sys/fs/cgroup")


def own(controller):
    """This process's cgroup, from the root of the hierarchy with this controller; "" is v2's."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return None


def places():
    """Where a cgroup may be made, and the file that limits it: v2 first, then v1."""
    for hierarchy, controller, limit in ((CGROUPS, "", "memory.max"), (CGROUPS / "memory", "memory", "memory.limit_in_bytes")):
        path = own(controller)
        if path is not None:
            yield hierarchy / path, limit
            yield hierarchy, limit


def is_in_memory(folder):
    """Files there are memory themselves, which cannot be got back."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True)
    return kind.stdout.strip() in ("tmpfs", "ramfs")


class Cgroup:
    def __init__(self, size, name):
        """OSError: none can be made here."""
        for place, limit in places():
            self.folder = place / f"penstock-{os.getpid()}-{name}"
            try:
                self.folder.mkdir()
                with open(self.folder / limit, "r+") as file:  # which the kernel has put there
                    file.write(str(size))
                swap = self.folder / "memory.swap.max"
                if swap.exists():
                    swap.write_text("0")
                return
            except OSError as error:
                why = error
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
        raise OSError(f"no cgroup with a limit on memory can be made: {why}")

    def prefix(self):
        """The words before a command that is to run in this control group."""
        return ["sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh"]

    def killed(self):
        """How often something in it was killed for want of memory."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                for line in (self.folder / name).read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def peak(self):
        """Bytes that were ever in use at a time, pages of files that could have gone included."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            with contextlib.suppress(OSError):
                return int((self.folder / name).read_text())
        return None

    def remove(self):
        self.folder.rmdir()
