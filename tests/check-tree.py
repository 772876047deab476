#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tree as it is checked in, file by file; and how its files need each other."""
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "e2e"))
import file_circles  # noqa: E402
import readme_options  # noqa: E402
import result_schema  # noqa: E402
import unit_names  # noqa: E402
from harness import BUILD, main  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNLICENSED_NAMES = {"LICENSE", ".gitignore", ".gitattributes", ".clang-format", ".clang-tidy",
                    ".editorconfig"}  # fmt: skip
UNLICENSED_SUFFIXES = {".md", ".pcap", ".txt", ".bin", ".in"}

# Files that have intrinsics of a CPU, each beside plain C.
BOTH = {"transports/datagram/framing.c", "transports/ethernet/checksum.c"}
X86_FILES = {"memory/host/pattern_x86.c", *BOTH}
X86 = re.compile(r"\b_mm(?:256|512)?_\w+\(|\b__m(?:64|128|256|512)[id]?\b|\b__builtin_ia32_|\bintrin\.h|\w+intrin\.h")
NEON_FILES = {"memory/host/pattern_neon.c", *BOTH}
NEON = re.compile(r"\barm_(?:neon|acle)\.h|\bv\w+q?_[uspf](?:8|16|32|64)\b|\buint(?:8x16|16x8|32x4|64x2)_t\b")
# A page is the machine's: pst_page_size() of penstock/page.h.
PAGE = re.compile(
    r"(?i:page|align|memlock|memfd|mmap|ftruncate)[^;]*\b409[56][uUlL]*\b"
    r"|\b409[56][uUlL]*\b[^;]*(?i:page|align|memlock|memfd|mmap|ftruncate)"
    r"|[%&/~]\s*\(?(?:409[56]|0x1000)[uUlL]*\b|\b(?:_SC_PAGE_?SIZE|PAGE_SIZE|getpagesize)\b")  # fmt: skip
# Sizes that are of no page.
NO_PAGES = {
    "_Static_assert(sizeof(struct lb_gate_page) == 4096, \"crosses\");",
    "return (uint64_t)sysconf(_SC_PAGESIZE);",
}

# Sentences of pages, in words: the mean of a page, and the longest.
MEAN_WORDS, MOST_WORDS = 18, 40
# Headings of a plugin's README, in their order; some plugins have no use for these in brackets.
README_FORM = ["Example", "[Needs]", "[How it works]", "Options", "[Paths]", "Limits", "Counters",
               "Check that it works", "How it was proved", "[See also]"]  # fmt: skip
# Subjects of the commits since this one are short.
SUBJECTS_SINCE, SUBJECT = "7875b6365a3fad26c1a8fbe8d13ac1344428769c", 72

# Beginnings and words that comments do not have: a comment names who does what.
MANNERED = re.compile(r"(?:^\W*|[.:;] )(?:Of [a-z]|(?:Who|Whom|Whose|Whoever) [^?]*$)"
                      r"|\b(?:had again|of no matter|the above knows|[Ll]ikewise"
                      r"|(?:is|are|was|were) told|tells of)\b")  # fmt: skip
# A comment begins with what a function does, or with a noun: no clause "What …", but for questions.
CLAUSE = re.compile(r"(?:^\W*|[.:;!?][)\"]? )What\b [^?]*$")

# `!p`, `sizeof(x)`, and `rc` for what a call returned; a result is the program's file.
# In a condition `p`, too; a bool is set by `p != NULL`.
DIALECT = re.compile(r"== NULL\b|\bsizeof [a-z*&]|\bint (?:result|ret|err|retval) ="
                     r"|!= NULL (?:&&|\|\||\?)|(?:&&|\|\|) [\w.>-]+(?:\(\S*\))? != NULL\b|\b(?:if|while) \(\S+ != NULL\)")  # fmt: skip

# A longer function has a comment, where it is defined or declared. In lines of its body.
PLAIN_LINES = 25

# A folder of .c files that is not built fails, where otherwise its circles are skipped.
WHOLE = "--whole" in sys.argv
sys.argv = [word for word in sys.argv if word != "--whole"]

# How many .c files of one folder may need each other in a circle.
CIRCLE = 4
# In a folder of more .c files than these, a header that more than two thirds of the others include
# is the inside of all of them.
FEW = 6

# Keys of a result that only some commands have: which, says `allOf`.
COMMANDS_OWN = {"config", "devices", "streams", "bench", "rows", "hardware", "checks", "doctor", "findings", "request", "copy", "serve",
                "topo"}

# Words in backquotes in messages that are no keys of a configuration: commands, values of keys, and
# fields of the structs that applications and the host fill.
COMMANDS = {"dmesg", "get", "put", "read", "request", "write", "ibstat", "ibtracert", "lscpu", "ibqueryerrors", "opensm", "perfquery", "ping", "receive", "run", "sminfo"}
VALUES = {"any", "auto", "clockid", "delta", "drop", "false", "rtp_marker", "true"}
FIELDS = {"access", "depth", "message_max", "messages", "offer_bytes", "offers", "peers", "pieces",
          "requests"}  # fmt: skip
# Their strings are the tables of keys, and the page that is made of these.
TABLES = {"options.c", "config-reference.c", "schema.c"}


def tracked():
    """Files of the tree; without git (a tarball), all but build folders."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if run.returncode == 0:
        names = run.stdout.split("\0")[:-1]
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*")
            if path.is_file() and not path.relative_to(ROOT).parts[0].startswith("build")]  # fmt: skip


def text_of(path):
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def comments(path):
    """(line's number, its comment) of sources, scripts and meson files; of Python the docstrings, too."""
    c_like = path.suffix in (".c", ".h", ".cu", ".cpp", ".hpp")
    start = r"^\s*\*[ /]|/\*|//" if c_like else r"(?:^|\s)#|\"\"\""
    if not c_like and path.suffix not in ("", ".py", ".build"):
        return
    for number, line in enumerate(text_of(path).splitlines(), 1):
        found = re.search(start, re.sub(r'"(?:[^"\\]|\\.)+"(?!")', "", line) if c_like else line)
        if found:
            yield number, found.string[found.start() :].strip()


def sentences(text):
    """Those of a page, table cells and items of lists too; without code, comments and headings."""
    text = re.sub(r"(?ms)^ *```.*?^ *```|<!--.*?-->", "\n\n", text)
    text = re.sub(r"`[^`\n]+\n?[^`\n]*`", "code", text)
    text = re.sub(r"(?m)^ {4}.*$|^#.*$|^\|[-:| ]+\|$", "\n", text)
    text = re.sub(r"(?m)^ *(?:[-*>]|\d+\.) +|^\||(?<!\\)\|", "\n\n", text)
    for block in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[)*_\"]*\s+(?=[A-Z(*\"\[]|code\b)", block):
            sentence = re.sub(r"!?\[([^\[\]]*)\]\([^)]*\)", r"\1", sentence)
            words = re.findall(r"[^\s.,;:!?()*]*\w[^\s]*", sentence)
            if len(words) > 3:  # fewer are a name or a number
                yield len(words), " ".join(sentence.split())


def functions(path):
    """(name, its comment's last line or "", lines of its body) of each function that a .c file defines."""
    lines = text_of(path).splitlines()
    for at, line in enumerate(lines):
        if line != "{":
            continue
        head = at - 1
        while head >= 0 and lines[head].strip() and not re.search(r"\*/$|[;}]$|^#", lines[head]):
            head -= 1
        declared = re.sub(r"__attribute__\(\(.*?\)\)+", "", " ".join(lines[head + 1 : at]))
        name = re.search(r"(\w+)\(", declared)
        if name:
            yield name[1], lines[head] if lines[head].endswith("*/") else "", lines.index("}", at) - at - 1


def declared_with_comments(paths):
    """Names of functions that have a comment where a header declares them."""
    found = set()
    for path in paths:
        text = text_of(path)
        for block in re.findall(r"(?m)^(?:/\*| (?=\*)).*\*/\n((?:(?!/\*|\n).*\n)+)", text):
            found |= set(re.findall(r"\b(\w+)\(", block))
        found |= set(re.findall(r"(?m)\b(\w+)\([^;]*\); +/\*", text))
    return found


class Tree(unittest.TestCase):
    maxDiff = None

    def test_every_file_names_its_licence(self):
        without = [
            str(path.relative_to(ROOT))
            for path in tracked()
            if (path.suffix not in UNLICENSED_SUFFIXES or path.name == "meson_options.txt")
            and path.name not in UNLICENSED_NAMES
            and (path.parent.name != "debian" or path.name == "rules")  # debian/copyright is of them
            and path.parent.parent.name != "debian"
            and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text_of(path).splitlines()[:3])
            and path.stat().st_size > 0
            and text_of(path)
        ]
        self.assertEqual(without, [])

    def test_every_c_file_says_what_it_is(self):
        """A comment stands before all else, but for the licence."""
        silent = []
        for path in tracked():
            lines = [line for line in text_of(path).splitlines() if line.strip() and "SPDX-License" not in line]
            if path.suffix in (".c", ".h", ".cu", ".cpp") and lines and not re.match(r"/\*|//", lines[0]):
                silent.append(str(path.relative_to(ROOT)))
        self.assertEqual(silent, [])

    def test_no_path_of_one_machine(self):
        pattern = re.compile(r"/(?:home|root|work|Users)/\w|/tmp/[a-z]/")
        found = [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for path in tracked()
            for number, line in enumerate(text_of(path).splitlines(), 1)
            if pattern.search(line) and path != pathlib.Path(__file__).resolve()
        ]
        self.assertEqual(found, [])

    def code_lines(self, *others):
        """(file, line's number, line) of plugins, core and program, and of these folders."""
        for path in tracked():
            place = path.relative_to(ROOT)
            if path.suffix in (".c", ".h") and place.parts[0] in ("apps", "core", "filters", "memory", "transports", *others):
                for number, line in enumerate(text_of(path).splitlines(), 1):
                    yield str(place), number, line.strip()

    def test_code_is_of_one_dialect(self):
        found = [f"{place}:{number}: {line}" for place, number, line in self.code_lines("docs", "subprojects", "tests")
                 if DIALECT.search(re.sub(r'"(?:[^"\\]|\\.)*"|/\*.*', "", line))
                 and not re.match(r"/\*|\*", line)]  # fmt: skip
        self.assertEqual(found, [])

    def test_functions_have_their_units_name(self):
        """Static ones, so that grep, gdb and perf show where one is; what the program's files share, a prefix."""
        wrong = [f"{place}: {name}" for path in tracked() if path.suffix in (".c", ".h")
                 for place in [path.relative_to(ROOT)] for name in unit_names.wrong_in(place, text_of(path))]  # fmt: skip
        self.assertEqual(wrong, [])

    def test_comments_are_plain(self):
        found = [f"{path.relative_to(ROOT)}:{number}: {line}"
                 for path in tracked() if path != pathlib.Path(__file__).resolve()
                 for number, line in comments(path) if MANNERED.search(line) or CLAUSE.search(line)]  # fmt: skip
        self.assertEqual(found, [])

    def test_long_functions_have_a_comment(self):
        product = [path for path in tracked()
                   if path.relative_to(ROOT).parts[0] in ("apps", "core", "filters", "memory", "transports")]  # fmt: skip
        described = declared_with_comments(path for path in product if path.suffix == ".h")
        bare = [f"{path.relative_to(ROOT)}: {name}, {count} lines" for path in product if path.suffix in (".c", ".cu")
                for name, comment, count in functions(path)
                if count > PLAIN_LINES and not comment and name not in described]  # fmt: skip
        self.assertEqual(bare, [])

    def test_pages_are_the_machine_s(self):
        """arm64's kernels have pages of 4, 16 and 64 KiB."""
        found = [
            f"{place}:{number}: {line}"
            for place, number, line in self.code_lines()
            if PAGE.search(re.sub(r"(?:/\*|//).*|\bidle % 4096 ", "", line))  # a count of polls
            and line not in NO_PAGES
        ]
        self.assertEqual(found, [])

    def test_intrinsics_are_in_their_files(self):
        for pattern, files in ((X86, X86_FILES), (NEON, NEON_FILES)):
            found = {place for place, _, line in self.code_lines() if pattern.search(line)}
            self.assertEqual(found, files)

    def test_no_unfinished_marks(self):
        pattern = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
        found = [
            f"{path.relative_to(ROOT)}:{number}"
            for path in tracked()
            for number, line in enumerate(text_of(path).splitlines(), 1)
            if pattern.search(line) and path != pathlib.Path(__file__).resolve()
        ]
        self.assertEqual(found, [])

    def test_links_between_documents_lead_somewhere(self):
        broken = []
        for path in tracked():
            if path.suffix != ".md":
                continue
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(path)):
                if "://" not in target and not (path.parent / target).exists():
                    broken.append(f"{path.relative_to(ROOT)}: {target}")
        self.assertEqual(broken, [])

    def test_figures_are_of_their_text(self):
        """docs/figures/draw writes into each figure the sum of the text that it was drawn from."""
        folder = ROOT / "docs" / "figures"
        for text in sorted(folder.glob("*.dot")):
            figure = text_of(text.with_suffix(".svg"))
            self.assertIn(f"of {text.name}, sha256 {hashlib.sha256(text.read_bytes()).hexdigest()}", figure,
                          "docs/figures/draw draws it")

    def test_sentences_are_short(self):
        for path in tracked():
            place = str(path.relative_to(ROOT))
            if path.suffix != ".md":
                continue
            found = list(sentences(text_of(path)))
            mean = sum(count for count, _ in found) / len(found)
            long = [f"{count} words: {sentence}" for count, sentence in found if count > MOST_WORDS]
            mannered = [sentence for _, sentence in found if re.match(r"(?:Of [a-z]|Who(?:m|se|ever)? )(?!.*\?$)", sentence)]
            with self.subTest(page=place):
                self.assertEqual([], long)
                self.assertEqual([], mannered)
                self.assertLessEqual(mean, MEAN_WORDS, "words a sentence in the mean")

    def test_readmes_of_plugins_have_one_form(self):
        """Checks a plugin's README: its purpose, the same headings in one order, an example that is YAML, and the
        plugin's own table of options."""
        for family, name, path in readme_options.readmes():
            text = path.read_text()
            with self.subTest(plugin=name):
                headings = re.findall(r"(?m)^## (.*)$", re.sub(r"(?ms)^```.*?^```", "", text))
                form = [word.strip("[]") for word in README_FORM]
                self.assertEqual(headings, [word for word in form if word in headings])
                self.assertEqual([], [word for word in README_FORM if word[0] != "[" and word not in headings])
                self.assertRegex(text, r"\A# .*\n\n[^#\n]{80}", "what it is for, before the example")
                self.assertRegex(text, r"(?m)^## Example\n+```yaml\n")
                self.assertEqual(text, readme_options.written(family, name, text),
                                 "python3 tests/readme_options.py --write")

    def test_counters_of_plugins_are_in_their_readmes(self):
        """Each name that a plugin's code, or the code that it shares, gives to a counter."""
        shared = {"udp": "datagram", "ethernet": "datagram", "verbs_rc": "verbs", "verbs_dc": "verbs"}
        for family, name, path in readme_options.readmes():
            code = "".join(text_of(file) for folder in (path.parent, ROOT / family / shared.get(name, name))
                           for file in folder.glob("*.c"))  # fmt: skip
            page = "".join((ROOT / family / sharer / "README.md").read_text() for sharer in shared.keys() | {name}
                           if shared.get(sharer) == shared.get(name) and (ROOT / family / sharer).is_dir())  # fmt: skip
            counted = set(re.findall(r'pst_counter_add\([^"]*?, "(\w+)"', code))
            with self.subTest(plugin=name):
                self.assertEqual([], sorted(word for word in counted if f"`{word}`" not in page))

    def test_variables_of_the_environment_are_in_their_page(self):
        """docs/internals/debugging.md names each that a program, a script or a test of the tree reads, and no other."""
        read = set()
        for path in tracked():
            if path.suffix in (".c", ".h", ".py", ".sh", "") and path.name != "check-tree.py":
                read |= set(re.findall(r"""(?:getenv|environment|number_in|environ\.get)\("(PENSTOCK_\w+)|environ\["(PENSTOCK_\w+)"""
                                       r"""|\$\{?(PENSTOCK_\w+)|"(PENSTOCK_\w+)" in os\.environ""", text_of(path)))  # fmt: skip
        page = (ROOT / "docs" / "internals" / "debugging.md").read_text()
        self.assertEqual({name for names in read for name in names if name}, set(re.findall(r"PENSTOCK_\w+", page)))

    def test_subjects_of_commits_are_short(self):
        run = subprocess.run(["git", "log", "--format=%h %s", f"{SUBJECTS_SINCE}.."],
                             cwd=ROOT, capture_output=True, text=True)  # fmt: skip
        if run.returncode:
            self.skipTest("no git, or not so much of the history")
        self.assertEqual([], [line for line in run.stdout.splitlines() if len(line.split(" ", 1)[1]) > SUBJECT])

    def test_tests_that_a_document_names_are_there(self):
        """`FILE: CASE` in docs/reference/rdma-questions.md: the test that shows what is said."""
        text = (ROOT / "docs" / "reference" / "rdma-questions.md").read_text()
        named = re.findall(r"`(tests/[^`:]+): ([^`]+)`", text)
        self.assertGreater(len(named), 40)
        missing = [
            f"{file}: {case}"
            for file, case in named
            if not (ROOT / file).is_file()
            or not re.search(rf"(?<![\w.-]){re.escape(case)}(?![\w-]|\.\w)", text_of(ROOT / file))
        ]
        self.assertEqual(missing, [])
        answers = [part for part in re.split(r"\n(?=\*\*)", text.split("\n## Out of scope")[0])[1:]]
        self.assertEqual([part.split("\n")[0] for part in answers if "`tests/" not in part], [])

    def test_every_row_of_shared_memory_has_its_litmus(self):
        """The table in docs/internals/memory-order.md, and tests/litmus: which pair, and what it fails without."""
        text = (ROOT / "docs" / "internals" / "memory-order.md").read_text()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
        named = {row[5]: set(row[6].split(", ")) for row in rows[2:]}
        words = {"WEAK_RELEASE": "release", "WEAK_ACQUIRE": "acquire", "WEAK_FENCE": "fences",
                 "WEAK_TOTAL": "a total order", "WEAK_RMW": "read-modify-write"}  # fmt: skip
        tried = {
            name: {words[word] for word in re.findall(r"WEAK_\w+", needs)}
            for path in (ROOT / "tests" / "litmus").glob("*.cpp")
            for name, needs in re.findall(r'litmus<[^"]*>\(\s*"([^"]+)",\s*\{([^}]*)\}', path.read_text())
        }
        self.assertEqual(named, tried)

    def test_every_key_of_a_result_is_in_its_page(self):
        """docs/reference/result-json.md has the schema's tables; each object of it is closed, and each key
        has a description."""
        self.assertEqual(result_schema.PAGE.read_text(), result_schema.written(),
                         "python3 tests/e2e/result_schema.py --write")

        def objects(rule):
            if isinstance(rule, dict):
                if rule.get("type") == "object":
                    yield rule
                for child in rule.values():
                    yield from objects(child)

        for rule in objects(result_schema.schema()):
            self.assertIn("additionalProperties", rule, rule)
            for key, child in rule["properties"].items():
                self.assertTrue(child.get("description"), key)
            if rule["additionalProperties"] is False:
                self.assertEqual(set(rule["properties"]) - set(rule["required"]),
                                 set(rule["properties"]) & COMMANDS_OWN, rule.get("description"))

    def test_keys_that_a_message_names_are_there(self):
        keys = set(re.findall(r"(?m)^\| `(?:\w+[.])*(\w+)`", (ROOT / "config/README.md").read_text()))
        self.assertIn("rcvbuf", keys)
        known = keys | COMMANDS | VALUES | FIELDS
        gone = []
        for path in tracked():
            place = path.relative_to(ROOT)
            if path.suffix != ".c" or place.parts[0] in ("tests", "subprojects") or path.name in TABLES:
                continue
            code = re.sub(r"(?s)/\*.*?\*/", "", text_of(path))
            code = re.sub(r'"\s*(?:PRI\w+\s*)?"', "", code)  # one literal of several
            for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"', code):
                named = re.findall(r"`(\w+)(?:`|: )", literal)
                gone += [f"{place}: {word}" for word in named if word not in known]
        self.assertEqual(gone, [])

    def test_files_of_a_folder_form_no_large_circle(self):
        folders = file_circles.folders(ROOT)
        unknown = []
        print()
        for folder in folders:
            try:
                needs = file_circles.needs_in(ROOT, BUILD, folder)
            except file_circles.NotBuilt as error:
                unknown.append(str(error))
                continue
            circle = file_circles.largest_circle(needs)
            print(f"{folder}: largest circle {len(circle)} of {len(needs)} files, at most {CIRCLE}")
            with self.subTest(folder=folder):
                self.assertLessEqual(len(circle), CIRCLE, f"these need each other: {', '.join(circle)}")
        if WHOLE:
            self.assertEqual(unknown, [])
        if unknown:
            self.skipTest(f"{len(unknown)} of {len(folders)} folders: {unknown[0]}")

    def test_no_header_is_the_inside_of_a_folder(self):
        print()
        for folder in file_circles.folders(ROOT):
            files = sorted((ROOT / folder).glob("*.c"))
            if len(files) <= FEW:
                continue
            includes = {path.stem: re.findall(r'^#include "([\w.]+)"', text_of(path), re.M) for path in files}
            counts = {header.name: sum(header.name in names for stem, names in includes.items() if stem != header.stem)
                      for header in sorted((ROOT / folder).glob("*.h"))}  # fmt: skip
            if not counts:
                continue
            most = max(counts, key=counts.get)
            bound = 2 * len(files) // 3
            print(f"{folder}: {most} is included by {counts[most]} of {len(files)} files, at most {bound}")
            with self.subTest(folder=folder):
                self.assertEqual([], [name for name, count in counts.items() if count > bound])

    def test_c_files_are_formatted(self):
        tool = shutil.which("clang-format")
        if not tool:
            self.skipTest("clang-format is not installed")
        files = [str(path) for path in tracked() if path.suffix in (".c", ".h", ".cu")]
        run = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
        unformatted = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line})
        self.assertEqual([str(pathlib.Path(name).relative_to(ROOT)) for name in unformatted], [])

    def test_options_of_the_build_are_in_their_page(self):
        options = set(re.findall(r"(?m)^option\('(\w+)'", (ROOT / "meson_options.txt").read_text()))
        page = set(re.findall(r"`-D(\w+)`", (ROOT / "docs/start/install.md").read_text()))
        self.assertEqual(options, page)

    def test_scripts_parse(self):
        for path in tracked():
            first = text_of(path).split("\n", 1)[0]
            if re.match(r"#!.*\bsh$", first):
                run = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True)
                self.assertEqual((path.name, run.stderr), (path.name, ""))
            elif path.suffix == ".py":
                compile(text_of(path), str(path), "exec")


if __name__ == "__main__":
    main()
