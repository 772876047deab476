#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A receiver whose memory is slower than its sink: checks are put off, and nothing is given back
while it is read, also where checking fails."""

from harness import FAKES, Case, main


class Room(Case):
    def stream_file(self, options, receiver=""):
        return self.config(
            "- name: packets\n"
            "  message: 200 B\n"
            "  ring: 16384\n"
            "  receiver:\n"
            f"    memory: {{plugin: late, options: {{{options}}}}}\n"
            "    sink: verify\n"
            f"{receiver}",
            top="threads: {count: 1}\n",
        )

    def run_late(self, *arguments):
        return ["run", "--plugin-path", FAKES, *arguments]

    def verified(self, *arguments):
        result, _ = self.run_json(*self.run_late(*arguments))
        stream = self.only_stream(result)
        self.assertEqual(stream["verified"], stream["messages_delivered"])
        self.assertEqual(stream["messages_sent"], stream["messages_delivered"])
        self.assertEqual(stream["corrupted"], 0)
        self.assert_accounted(stream)

    def test_messages(self):
        self.verified(self.stream_file("delay: 30 ms"), "--count", 60000)

    def test_frames(self):
        assemble = "    assemble: {packets: 10000, frames: 2, timeout: 1 h}\n"
        self.verified(self.stream_file("delay: 5 ms", assemble), "--count", 60000)

    def test_a_check_that_fails(self):
        for assemble in ("", "    assemble: {packets: 1000, frames: 2, timeout: 1 h}\n"):
            with self.subTest(assemble=assemble):
                file = self.stream_file("delay: 30 ms, fail: verify_result, nth: 7", assemble)
                child = self.run_program(*self.run_late(file, "--count", 30000), expect=1)
                self.assertIn("cannot check the messages: Input/output error", child.stderr)
                self.assertNotIn("left; free them", child.stderr)


if __name__ == "__main__":
    main(side_by_side=3)
