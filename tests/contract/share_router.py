#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The transport contract through `penstock share`: share_router.py PENSTOCK CONTRACT PLUGIN TRANSPORT
[KEY=VALUE]... [-- LAUNCHER...]; the launcher has the router's adapter."""
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def main():
    penstock, contract, plugin, transport, *rest = sys.argv[1:]
    options, launcher = (rest[: rest.index("--")], rest[rest.index("--") + 1 :]) if "--" in rest else (rest, [])
    with tempfile.TemporaryDirectory(prefix="share-") as folder:
        socket = pathlib.Path(folder) / "socket"
        command = [*launcher, penstock, "share", "--socket", str(socket), "--transport", transport]
        for option in options:
            command += ["--transport-option", option]
        said = pathlib.Path(folder) / "said"
        with said.open("w") as file:
            router = subprocess.Popen(command, stderr=file)
        while "share: serving" not in said.read_text() and router.poll() is None:
            time.sleep(0.01)
        status = subprocess.run([contract, plugin, "--option", f"socket={socket}"], check=False).returncode
        ended_early = router.poll() is not None
        router.send_signal(signal.SIGINT)  # once: a launcher passes it on
        if router.wait() != 0 or ended_early or status not in (0, 77):
            print("\n".join(said.read_text().splitlines()[-40:]))
            print(f"the router's exit status is {router.returncode}")
        # Cases that the router's transport cannot do are left out here, as without a router.
        return status if status not in (0, 77) else int(router.returncode != 0 or ended_early)


sys.exit(main())
