#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of a run on a terminal: one for each stream, which renews itself."""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import HANGS, PROGRAM, Case, main, wait_until, yaml_stream


class Screen:
    """As much of a terminal as the program uses: text, carriage return, newline, up, clear below."""

    def __init__(self, columns):
        self.columns, self.lines, self.row, self.column = columns, [""], 0, 0

    def feed(self, text):
        for up, clear, colour, end, char in re.findall(r"\x1b\[(\d+)A|(\x1b\[J)|(\x1b\[\d*m)|(\r|\n)|([^\x1b\r\n])", text):
            if up:
                self.row -= int(up)
                assert self.row >= 0, "above the screen"
            elif clear:
                self.lines[self.row :] = [self.lines[self.row][: self.column]]
            elif end == "\r":
                self.column = 0
            elif end == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif char:
                assert self.column < self.columns, "beyond the last column"
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1


class Live(Case):
    @contextlib.contextmanager
    def terminal(self, *arguments, columns=240, rows=24, **environment):
        """The program on a terminal of its own; what it writes there."""
        control, terminal = pty.openpty()
        fcntl.ioctl(control, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {"TERM": "xterm", "LC_ALL": "C.UTF-8", **environment}
        child = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=terminal, env={**os.environ, "NO_COLOR": "", **environment},
                                 start_new_session=True)  # fmt: skip
        os.close(terminal)
        self.control = control
        try:
            yield child
        finally:
            child.kill()
            child.wait()
            os.close(control)

    def read(self, until, seconds=HANGS):
        """Returns the output until the text has this, or until the end."""
        text, deadline = b"", time.monotonic() + seconds
        while time.monotonic() < deadline:
            if select.select([self.control], [], [], 1)[0]:
                try:
                    got = os.read(self.control, 65536)
                except OSError:  # the other end is closed
                    break
                text += got
                if until and re.search(until, text.decode(errors="replace")):
                    break
        return text.decode(errors="replace")

    def stream(self, *names):
        return self.config("".join(yaml_stream(name, message="1462 B", sender="{rate: 20 Mbps}") for name in names or ("packets",)))

    def test_renews(self):
        """After three seconds there is one line a stream, with its bars; below stands how it ended."""
        with self.terminal("run", self.stream("a", "b"), "--duration", "3.3") as child:
            text = self.read(None)
            self.assertEqual(child.wait(), 0)
        self.assertIn("\x1b[2A", text)
        self.assertIn("\x1b[32m", text)
        screen = Screen(240)
        screen.feed(text.replace("\r\n", "\n\r"))
        for name in ("a", "b"):
            lines = [line for line in screen.lines if re.match(rf"{name}: [▁-█]{{3}} Got \d+", line)]
            self.assertEqual(len(lines), 1, screen.lines)
        self.assertIn("limited by", screen.lines[-2])
        self.assertEqual(screen.lines[-1], "")

    def test_plain(self):
        """No colour, no bars of Unicode, no terminal."""
        path = self.stream()
        with self.terminal("run", path, "--duration", "2.3", NO_COLOR="1", LC_ALL="C"):
            text = self.read(None)
        self.assertNotIn("\x1b[3", text)
        self.assertRegex(text, r"packets: [_.:=+*#-]+ Got")
        self.assertTrue(text.isascii())
        for term in ("dumb", ""):
            with self.terminal("run", path, "--duration", "1.3", TERM=term):
                self.assertRegex(text := self.read(None), r"\npackets: Got \d+ packets")
            self.assertNotIn("\x1b", text)
        with self.terminal("run", path, "--duration", "1.3", "-q"):
            self.assertEqual(self.read(None), "")
        self.assertNotIn("\x1b", self.run_program("run", path, "--duration", "1.3").stderr)

    def test_pause(self):
        """The seconds of a process that was stopped get no lines of their own."""
        child = self.start("run", self.stream())
        child.wait_line("Got")
        with child.stopped():
            time.sleep(3.5)
        wait_until(lambda: sum("Got" in line for line in list(child.lines["stderr"])) >= 4, HANGS, "four lines")
        child.signal(signal.SIGINT)
        child.wait()
        self.assertNotIn("during 0.00 sec", child.stderr)

    def test_narrow(self):
        """Lines are cut to what the terminal has, also when it becomes smaller; of more streams than
        fit some are counted."""
        names = [f"s{i}" for i in range(8)]
        with self.terminal("run", self.stream(*names), "--duration", "4", columns=60, rows=6):
            text = self.read(r"(?s)and 4 more.*and 4 more")
            fcntl.ioctl(self.control, termios.TIOCSWINSZ, struct.pack("HHHH", 6, 20, 0, 0))
            rest = self.read(r"(?s)and 4 more.*and 4 more")
        lines = re.findall(r".*(?: Got |more).*", re.sub(r"\x1b\[\d*[AJm]", "", text))
        self.assertGreaterEqual(len(lines), 5)
        for line in lines:
            self.assertLess(len(line.strip()), 60, text)
        block = rest[rest.index("s0: ") :]
        self.assertNotIn("\x1b[5A", rest[: rest.index("s0: ")], "goes up into lines that may be broken")
        # The last account, where a loaded machine has come so far, is no such line.
        for line in re.findall(r".*(?: Got |more).*", re.sub(r"\x1b\[\d*[AJm]", "", block)):
            self.assertLess(len(line.strip()), 20, rest)

    def test_interrupted(self):
        """^C, once and twice: all that was begun is ended, and the cursor stands below."""
        for count in (1, 2):
            with self.terminal("run", self.stream()) as child:
                text = self.read(r"Got")
                for _ in range(count):
                    child.send_signal(signal.SIGINT)
                text += self.read(None)
                self.assertIn(child.wait(), (0, 130))
            screen = Screen(240)
            screen.feed(text.replace("\r\n", "\n\r"))
            self.assertEqual((screen.lines[-1], screen.column), ("", 0), text)
            self.assertEqual(text.count("\x1b[32m"), text.count("\x1b[0m"))


if __name__ == "__main__":
    main()
