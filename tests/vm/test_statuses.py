#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soft-RoCE's answer to each error that a transport meets: the table beside this file."""
import difflib

import guests
from guests import BUILD, HERE, main

TABLE = HERE / "statuses-rxe.txt"
PROGRAM = BUILD / "tests" / "vm" / "statuses"


class Statuses(guests.Case):
    count = 1

    def setUp(self):
        guests.need(PROGRAM)
        super().setUp()

    def test_they_are_those_of_the_table(self):
        guest = self.guest()
        kernel = guest.run("uname -r -v").stdout
        found = guest.run(f"exec {PROGRAM}", seconds=300).stdout
        found = f"# soft-RoCE (rxe) of Linux {kernel}# build/tests/vm/statuses, in a guest\n{found}"
        kept = BUILD / "vm" / TABLE.name
        kept.write_text(found)
        self.assertEqual(
            self.differences(TABLE.read_text(), found),
            [],
            f"if it is right, copy {kept} over {TABLE}. Kernel: {kernel}",
        )

    @staticmethod
    def differences(recorded, found):
        """Line by line, what says where it was found left out."""
        texts = [
            [line for line in text.splitlines() if not line.startswith("#")] for text in (recorded, found)
        ]
        return list(difflib.unified_diff(*texts, "recorded", "found", lineterm="", n=0))


if __name__ == "__main__":
    main()
