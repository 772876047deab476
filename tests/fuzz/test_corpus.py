# SPDX-License-Identifier: Apache-2.0
"""The packed corpora: each target has one, and equal inputs make an equal archive."""
import os
import pathlib
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.dont_write_bytecode = True
import corpus  # noqa: E402
from harness import main  # noqa: E402


class Corpus(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def packed(self, inputs, name="inputs"):
        """The bytes of the archive of these inputs, and what pack() said."""
        folder = self.folder / name
        folder.mkdir()
        for number, data in enumerate(inputs):
            (folder / str(number)).write_bytes(data)
            os.utime(folder / str(number), (number, number))
        with mock.patch.object(corpus, "CORPUS", self.folder / "corpus"):
            said = corpus.pack("some", folder)
            return corpus.archive("some").read_bytes(), said

    def test_each_target_has_one(self):
        targets = {path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.c")}
        self.assertEqual({path.name for path in corpus.CORPUS.iterdir()}, {f"{target}.tar.gz" for target in targets})

    def test_those_of_the_tree_are_as_they_are_packed(self):
        for path in sorted(corpus.CORPUS.iterdir()):
            with tarfile.open(path) as tar:
                members = tar.getmembers()
                inputs = [tar.extractfile(member).read() for member in members]
            self.assertGreater(len(inputs), 0, path)
            self.assertEqual(inputs, sorted(set(inputs), key=lambda data: (len(data), data)), path)
            self.assertEqual([member.name for member in members], [f"{number:03}" for number in range(len(members))], path)
            self.assertEqual({(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members},
                             {(0, 0, 0, "", "")}, path)  # fmt: skip

    def test_equal_inputs_make_an_equal_archive(self):
        inputs = [b"three", b"", b"one", b"two"]
        made, said = self.packed(inputs)
        self.assertEqual(said, (4, 11))
        self.assertEqual(self.packed([*reversed(inputs), b"one"], "reversed"), (made, said))
        self.assertNotEqual(self.packed([*inputs, b"more"], "more")[0], made)

    def test_what_is_packed_comes_out(self):
        inputs = [b"", b"one", bytes(range(256)) * 40]
        self.packed(inputs)
        out = self.folder / "out"
        out.mkdir()
        (out / "old").touch()
        with mock.patch.object(corpus, "CORPUS", self.folder / "corpus"):
            corpus.unpack("some", out)
        self.assertEqual([path.read_bytes() for path in sorted(out.iterdir())], inputs)


if __name__ == "__main__":
    main()
