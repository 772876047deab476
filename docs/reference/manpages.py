#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manpages.py --program PENSTOCK --out FOLDER [--html FOLDER] [--scdoc S] [--mandoc M] [--other NAME]...: all manual pages.

What a page says comes from where it is kept: `penstock COMMAND --help`, `penstock schema`, the
comments of the headers, apps/result.schema.json, and the plugins' README files. The help texts of
other programs are read from their sources, since these programs are built later, or not at all.
A page is written as scdoc(5), which scdoc makes a manual page of, and mandoc HTML.
"""
import argparse
import concurrent.futures
import html
import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "core" / "include" / "penstock"
# Headers that applications include: tests/abi/test_surface.py has the same list.
APPLICATION_HEADERS = ("penstock.h", "types.h", "config.h", "stream.h", "node.h", "stats.h", "pattern.h", "share.h",
                       "dlpack.h")  # fmt: skip
PLUGIN_FOLDERS = {"transport": "transports", "memory": "memory", "filter": "filters"}
RESULT = "penstock-result"
# The plugins of the program's own build, whatever the caller looks for.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}


# ---- scdoc ---------------------------------------------------------------------------------


def escaped(text):
    return re.sub(r"([\\*_`#\[\]|~<>])", r"\\\1", text)


def inline(text):
    """Markdown, or a comment of a header, in a line: code and names of calls are bold."""
    text = re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)", r"\1", text)
    out = []
    for piece in re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\bpst_\w+\(\))", " ".join(text.split())):
        if re.fullmatch(r"pst_\w+\(\)", piece):
            out.append(f"*{escaped(piece[:-2])}*(3)")
        elif piece[:1] == "`" or piece[:2] == "**":
            inner = piece.strip("`*")
            # scdoc takes a bold text's end from the asterisk behind it
            out.append(f"*{escaped(inner)}*")
        else:
            out.append(escaped(piece))
    text = "".join(out)
    # Neither may be taken for a list or a table.
    return re.sub(r"^([-.|:\]])", r"\\\1", text)


def code(text):
    return ["```", *text.rstrip("\n").split("\n"), "```", ""]


def paragraph(text, indent=""):
    return [indent + inline(text), ""] if text.strip() else []


def term(name, detail, text):
    """An entry of a list of definitions."""
    return [f"*{escaped(name)}*" + (f" ({escaped(detail)})" if detail else ""), *paragraph(text, "\t")]


def table(rows):
    """Rows of a Markdown table, the first its head: a definition for each, since a page is narrow."""
    head, *body = rows
    for row in body:
        cells = [f"{name}: {cell}" if name and index and len(head) > 2 else cell
                 for index, (name, cell) in enumerate(zip(head, row)) if cell]  # fmt: skip
        rest = ". ".join(cell.rstrip(".") for cell in cells[1:])
        yield from [inline(cells[0] if cells else ""), *paragraph(rest + ".", "\t")] if rest else paragraph(cells[0])


def markdown(text):
    """Markdown without headings."""
    lines = text.strip("\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith("```"):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].lstrip().startswith("```"))
            yield from code("\n".join(lines[at + 1 : end]))
            at = end + 1
        elif line.startswith("|"):
            end = next((i for i in range(at, len(lines)) if not lines[i].startswith("|")), len(lines))
            rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]
                    for row in lines[at:end]]  # fmt: skip
            yield from table([rows[0], *rows[2:]])
            at = end
        elif line.startswith("!["):
            at += 1
        elif re.match(r"- |\d+\. ", line):
            end = next((i for i in range(at + 1, len(lines)) if not lines[i].startswith("  ")), len(lines))
            yield "- " + inline(re.sub(r"^(?:-|\d+\.) ", "", " ".join(lines[at:end])))
            at = end
            if at == len(lines) or not re.match(r"- |\d+\. ", lines[at]):
                yield ""
        elif line.strip():
            end = next((i for i in range(at, len(lines)) if re.match(r"\s*$|\||```|- ", lines[i])), len(lines))
            end = max(end, at + 1)
            yield from paragraph(" ".join(lines[at:end]))
            at = end
        else:
            at += 1


def sections(text):
    """(heading, text) of each section of a Markdown page, those below it included."""
    for part in re.split(r"(?m)^## ", re.sub(r"(?s)<!--.*?-->", "", text))[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), re.sub(r"(?m)^### (.*)$", r"**\1**\n", body)


class Page:
    def __init__(self, name, section, summary):
        self.name, self.section = name, section
        self.others = []  # further names
        self.lines = [f'{name}({section}) "Penstock" "Penstock Manual"', "", "# NAME", "",
                      f"{escaped(name)} - {inline(summary)}", ""]  # fmt: skip

    def add(self, heading, lines):
        lines = list(lines)
        if lines:
            self.lines += [f"# {heading}", "", *lines]

    def see(self, *pages):
        self.add("SEE ALSO", [", ".join(f"*{escaped(name)}*({section})" for name, section in pages), ""])

    def text(self):
        return "\n".join(self.lines).rstrip() + "\n"


# ---- Section 1: what --help says --------------------------------------------------------------


def help_of(program, *words):
    run = subprocess.run([program, *words, "--help"], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    return run.stdout


def commands(program):
    """(name, summary) of each."""
    listed = help_of(program).split("\nCommands:\n")[1].split("\n\n")[0]
    for line in listed.splitlines():
        name, rest = line.split(None, 1)
        yield name, re.split(r"\s{2,}", line.strip(), maxsplit=2)[-1]


def sentence(words):
    """With a capital and a full stop; names of operations stay as they are."""
    return (words if re.match(r"(?:send|write|read)[,:]", words) else words[:1].upper() + words[1:]).rstrip(".") + "."


def options(text):
    """Entries of the list of options: names and values, then words."""
    entries = []
    for line in text.splitlines():
        found = re.match(r"  (?:-(\w), |    )--([\w-]+)(?: ([^ ]+))?(?: {2,}(.*))?$", line)
        if found:
            short, name, value, words = found.groups()
            left = (f"*-{short}*, " if short else "") + f"*--{escaped(name)}*" + (f" _{escaped(value)}_" if value else "")
            entries.append([left, words or ""])
        elif line.strip():
            entries[-1][1] += " " + line.strip()
    for left, words in entries:
        yield from [left, *paragraph(sentence(words.strip()), "\t")]


def examples(text):
    """Command lines, and under each what it is for."""
    for line in text.splitlines():
        if line.startswith("      "):
            yield from paragraph(line)
        else:
            yield from code(line.strip())


def split_help(text):
    """Usage, what it does, examples, options."""
    usage, rest = text.split("\n\n", 1)
    rest, _, listed = rest.partition("\n\nOptions:\n")
    does, _, shown = rest.partition("\n\nExamples:\n")
    return usage.removeprefix("Usage: "), does, shown, listed


def listed(text, heading):
    """A list of --help: a line for each name."""
    for line in text.split(f"\n{heading}:\n")[1].split("\n\n")[0].splitlines():
        name, words = re.fullmatch(r"  (\S+)\s+(.*)", line).groups()
        yield from term(name, "", sentence(words))


def pages_of_commands(program):
    all_commands = list(commands(program))
    page = Page("penstock", 1, "stream data over fast networks into GPU and host memory")
    text = help_of(program)
    page.add("SYNOPSIS", [f"*penstock* _COMMAND_ [options]{'++'}", "*penstock* help _KEY_", ""])
    page.add("DESCRIPTION", [*paragraph(text.split("\n\n")[1]),
                             *paragraph("`penstock help` explains a key of the YAML file or an option of a plugin, as in `penstock help streams.ring`.")])  # fmt: skip
    page.add("COMMANDS", (line for name, words in all_commands
                          for line in [f"*penstock-{escaped(name)}*(1)", *paragraph(sentence(words), "\t")]))  # fmt: skip
    page.add("EXAMPLES", code(re.search(r"\n\nExamples:\n(.*?)\n\n", text, re.S)[1].replace("\n  ", "\n").strip()))
    page.add("EXIT STATUS", listed(text, "Exit status"))
    page.add("ENVIRONMENT", listed(text, "Environment"))
    page.see(*((f"penstock-{name}", 1) for name, _ in all_commands), ("libpenstock", 3), ("penstock.yaml", 5), (RESULT, 5), ("penstock", 7))
    yield page
    for name, words in all_commands:
        usage, does, shown, listed_options = split_help(help_of(program, name))
        page = Page(f"penstock-{name}", 1, words)
        page.add("SYNOPSIS", [f"*penstock {escaped(name)}*{escaped(usage.removeprefix(f'penstock {name}'))}", ""])
        page.add("DESCRIPTION", (line for part in does.split("\n\n") for line in paragraph(part)))
        page.add("OPTIONS", options(listed_options))
        page.add("EXAMPLES", examples(shown))
        page.add("EXIT STATUS", listed(text, "Exit status"))
        page.see(("penstock", 1), ("penstock.yaml", 5), (RESULT, 5), ("penstock", 7))
        yield page


# Other programs: what each is, and the sources that have its help, the first the program's own.
OTHERS = {
    "penstock-contract": ("test a plugin against its contract", ["tests/contract/program.c"]),
    "penstock-simverbs": ("run a program on simulated RDMA devices",
                          ["subprojects/simverbs/launcher/main.c", "subprojects/simverbs/launcher/ctl.c"]),
}  # fmt: skip


def help_in(source):
    """The text that a program prints at --help: the first string of its source that begins with its usage."""
    literals = re.search(r'\[\] =\s*((?:"(?:[^"\\]|\\.)*"\s*)+);', (ROOT / source).read_text())[1]
    text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
    return text.replace("\\n", "\n").replace('\\"', '"')


def other_options(text):
    """Entries of a list of options: names, then words beside them or below."""
    for found in re.finditer(r"(?m)^  (--\S+(?: \S+)*)(?: {2,}(.*))?$((?:\n {6,}.*)*)", text):
        name, *values = found[1].split()
        left = f"*{escaped(name)}*" + "".join(f" _{escaped(value)}_" for value in values)
        yield from [left, *paragraph(sentence(" ".join(f"{found[2] or ''} {found[3]}".split())), "\t")]


def page_of_other(name):
    summary, sources = OTHERS[name]
    page = Page(name, 1, summary)
    text, *more = map(help_in, sources)
    usage, does, listed_options, *rest = text.split("\n\n")
    page.add("SYNOPSIS", code(re.sub(r"(?m)^(?:[Uu]sage:|      ) | +\(.*\)$", "", usage)))
    page.add("DESCRIPTION", [line for part in [does, *rest] if not re.match(r"Environment:|Exit status:", part)
                             for line in paragraph(part)])  # fmt: skip
    page.add("OPTIONS", other_options(listed_options))
    for part in more:
        usage, does, *lists, _ = part.split("\n\n")
        page.add("CTL", [*code(usage.removeprefix("usage: ")), *paragraph(does), *code("\n\n".join(lists))])
    for heading in ("Environment", "Exit status"):
        page.add(heading.upper(), (line for part in rest if part.startswith(heading)
                                   for line in paragraph(sentence(part.split(": ", 1)[1].strip().rstrip(".")))))  # fmt: skip
    page.see(("penstock", 1), *((each, 1) for each in OTHERS if each != name))
    return page


# ---- Section 3: what the headers say ----------------------------------------------------------


class Group:
    """Calls with one comment."""

    def __init__(self, header, title, comment):
        self.header, self.title, self.comment = header, title, comment
        self.calls = []  # declarations

    def names(self):
        return [re.search(r"\b(pst_\w+)\(", call)[1] for call in self.calls]


def comment_text(comment):
    return re.sub(r"(?m)^\s*/?\*+/? ?|\*/\s*$", "", comment).strip()


def read_header(path):
    """(what the header is, groups of calls, {struct or enum: its definition})."""
    text = re.sub(r"(?ms)^#ifdef __cplusplus.*?^#endif\n", "", path.read_text())
    about = comment_text(re.search(r"(?ms)^/\*\n.*?\*/", text)[0])
    text = text[text.index("#define", text.index("#ifndef PENSTOCK_")) :]
    groups, types, title, group, comment = [], {}, "", None, ""
    token = re.compile(
        r"(?P<comment>/\*.*?\*/)|(?P<blank>\n[ \t]*\n)|(?P<macro>^#(?:[^\n]|\\\n)*)"
        r"|(?P<call>^PST_EXPORT [^;{]*;)|(?P<type>^(?:struct|enum) (?P<name>\w+) \{.*?^\};)|(?P<other>[^\n]+|\n)", re.S | re.M)  # fmt: skip
    for found in token.finditer(text):
        kind = found.lastgroup if found.lastgroup != "name" else "type"
        if found["comment"] and text[: found.start()].endswith("\n"):
            words = found["comment"]
            heading = re.match(r"/\* -{4} (.*?) -+ ?\*/", words)
            if heading:
                title = heading[1]
            group, comment = None, "" if heading else words
        elif found["call"]:
            if group is None:
                group = Group(path.name, title, comment_text(comment))
                groups.append(group)
            group.calls.append(found["call"])
        elif found["type"]:
            types[found["name"]] = (comment + "\n" if comment else "") + found["type"]
            group, comment = None, ""
        elif kind == "blank":
            group, comment = None, ""
    return about, groups, types


RETURNS = re.compile(
    r"(?:(?<=[.;:)] )|(?<=\n\n)|^)(?=Returns |0[;,:.] |In \*error: |-E[A-Z]+\b[^.]*?: |NULL(?:: | if )|0 to )")  # fmt: skip


def is_example(part):
    return re.match(r" {3,}", part) or re.search(r"\n {4,}", part)


def prose(text):
    """Paragraphs of a comment; an indented part is an example."""
    for part in re.split(r"\n\s*\n", text):
        if is_example(part):
            yield from code(part)
        else:
            yield from paragraph(re.sub(r"(?<![*\w])\*(\w+)\*(?!\*)", r"**\1**", part))


def split_returns(text):
    """Describes a call: its effect, and its return value."""
    flat = "\n\n".join(part if is_example(part) else " ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    found = RETURNS.search(flat)
    return (re.sub(r"; *$", ".", flat[: found.start()]), flat[found.start() :]) if found else (flat, "")


def returned(text):
    """The lines of RETURN VALUE and those of ERRORS: each value with its meaning, then what holds for all."""
    value = re.compile(r"(?:-E[A-Z0-9]+(?:, -E[A-Z0-9]+)*(?:, …| \([^()]*\))?|0|NULL)(?=[:;] |\.|$)")
    lead, *parts = re.split(rf"(?:[;.:] |^)(?={value.pattern})", re.sub(r"\s+", " ", text).strip())
    lists, after = {False: [], True: []}, {False: [], True: []}
    for part in parts:
        name = value.match(part)[0]
        words, *rest = re.split(r"\. (?=[A-Z][a-z]+ |$)", part[len(name) :].strip(" .;"), maxsplit=1)
        if not words.startswith(":"):
            words, rest = ": Success" if name == "0" else "", [each for each in (words, *rest) if each]
        words = words[1:].strip()
        if re.match(r"(?:a|[a-z]{2,})[ ,]", words):
            words = words[:1].upper() + words[1:]
        lists[name.startswith("-")] += [f"*{escaped(name)}*", *(paragraph(words + ".", "\t") if words else [""])]
        after[name.startswith("-")] += filter(None, rest)
    in_error = lead.startswith("In *error")
    values = lists[False] if in_error or not lead else paragraph(lead.rstrip(".") + ".") + lists[False]
    said = {key: [line for words in after[key] for line in paragraph(words[:1].upper() + words[1:] + ".")] for key in after}
    return values + said[False], (["In *\\*error*:", ""] if in_error else []) + lists[True] + said[True]


def types_of(calls, types):
    """The structs and enums that the calls name, and those that these name, in order."""
    seen, todo = [], re.findall(r"\b(?:struct|enum) (\w+)", " ".join(calls))
    while todo:
        name = todo.pop(0)
        if name in types and name not in seen and name != "pst_error":
            seen.append(name)
            todo += re.findall(r"\b(?:struct|enum) (pst_\w+)", types[name])
    return [types[name] for name in seen[:6]]


def summary_of(comment):
    """The first sentence, in few words."""
    flat = re.sub(r" \([^()]*\)", "", " ".join(comment.split()))
    flat = re.sub(r"`[^`]*`", lambda quoted: quoted[0].replace(" ", "\0"), flat)
    first = re.split(r"(?<=[a-z0-9)`\"])[.;:](?:\s|$)", flat, maxsplit=1)[0].rstrip(".").replace("\0", " ")
    first = first[:1].lower() + first[1:] if not re.match(r"[A-Z]{2}|pst_", first) else first
    while len(first) > 90 and re.search(r"[,(:] ", first):
        first = re.split(r"[,(:] (?!.*[,(:] )", first)[0].rstrip()
    return first


def pages_of_calls():
    headers = {name: read_header(HEADERS / name) for name in APPLICATION_HEADERS}
    types = {name: text for _, _, found in headers.values() for name, text in found.items()}
    groups = [group for _, found, _ in headers.values() for group in found]
    page = Page("libpenstock", 3, "send and receive streams from an application")
    page.add("SYNOPSIS", code("#include <penstock/penstock.h>\n\ncc program.c $(pkg-config --cflags --libs penstock)"))
    page.add("DESCRIPTION", prose(headers["penstock.h"][0]))
    for name in APPLICATION_HEADERS[2:]:
        page.add(f"HEADER {escaped(name)}", prose(headers[name][0]))
    page.add("CALLS", (line for group in groups
                       for line in [", ".join(f"*{escaped(name)}*(3)" for name in group.names()),
                                    *paragraph(summary_of(group.comment) + ".", "\t")]))  # fmt: skip
    page.see(("penstock", 1), ("penstock.yaml", 5), ("penstock", 7))
    yield page
    for group in groups:
        name, *others = group.names()
        page = Page(name, 3, summary_of(group.comment) or "undocumented")
        page.others = others
        if others:
            page.lines[4] = ", ".join(escaped(each) for each in [name, *others]) + page.lines[4].removeprefix(escaped(name))
        include = "dlpack.h" if group.header == "dlpack.h" else "penstock.h"
        calls = [re.sub(r"\s+", " ", call.removeprefix("PST_EXPORT ")) for call in group.calls]
        page.add("SYNOPSIS", code(f"#include <penstock/{include}>\n\n" + "\n\n".join(wrapped(call) for call in calls)))
        does, returns = split_returns(group.comment)
        page.add("DESCRIPTION", prose(does) if does.strip() else prose(group.comment))
        values, errors = returned(returns if does.strip() else "")
        if not values and (errors or "error" in calls[0]) and calls[0].startswith("int "):
            values = ["*0*", *paragraph("Success.", "\t")]
        page.add("RETURN VALUE", values)
        page.add("ERRORS", errors)
        shown = types_of(calls, types)
        page.add("STRUCTS AND CONSTANTS", (line for text in shown for line in code(text)))
        page.add("NOTES", [f"From the header _penstock/{escaped(group.header)}_. *libpenstock*(3) says what holds for all calls: threads, errors, structs that grow.", ""])
        near = [each for other in groups if other.title == group.title and other.header == group.header
                for each in other.names() if each not in group.names()]  # fmt: skip
        page.see(*((each, 3) for each in near), ("libpenstock", 3))
        yield page


def wrapped(call):
    """A declaration in lines of at most 76 columns."""
    lines, indent = [""], 8
    for part in re.findall(r"[^,]+,? ?", call):
        if len(lines[-1]) + len(part) > 76 and lines[-1]:
            lines.append(" " * indent)
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


# ---- Section 5: what the schemas say ----------------------------------------------------------


def key_lines(name, key):
    detail = key["x-type"]
    if key.get("x-values"):
        detail += f": {key['x-values']}"
    if key.get("x-required"):
        detail += "; required"
    elif key.get("x-default"):
        detail += f"; default {key['x-default'].replace('`', '')}"
    if key.get("x-testing"):
        detail += "; for tests"
    return term(name, detail, f"{key['description']} {key.get('x-scope', '')}")


def page_of_yaml(schema):
    page = Page("penstock.yaml", 5, "configuration of streams")
    readme = (ROOT / "config" / "README.md").read_text()
    intro = readme.split("\n## Keys")[0].split("\n", 2)[2]
    page.add("DESCRIPTION", markdown(re.sub(r"(?m)^This page is made by.*$", "", intro)))
    plugins = []
    for name, rule in schema["$defs"].items():
        if "x-kind" in rule:
            plugins.append((f"penstock-{rule['x-name']}", 7))
            continue
        title = "KEYS OF THE FILE" if name == "file" else f"KEYS OF {name.upper()}"
        lines = [*paragraph(rule["description"])]
        for key, entry in rule["properties"].items():
            lines += key_lines(key, entry)
        page.add(title, lines)
    page.add("FILES", [*term("share/penstock/*.yaml", "", "Examples, each with comments."),
                       *term("share/penstock/config.schema.json", "", "The JSON Schema of this file, which `penstock schema` prints.")])  # fmt: skip
    page.see(("penstock", 1), ("penstock-check", 1), ("penstock-schema", 1), *plugins)
    return page


def result_type(rule):
    if "anyOf" in rule:
        return " or ".join(result_type(each) for each in rule["anyOf"])
    if "$ref" in rule:
        return rule["$ref"].removeprefix("#/$defs/")
    if "oneOf" in rule:
        return "text, one of those below"
    if "enum" in rule or "const" in rule:
        return " ".join(json.dumps(each).strip('"') for each in rule.get("enum", [rule.get("const")]))
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    of = {"array": ("list of ", "items"), "object": ("name: ", "additionalProperties")}
    return " or ".join(of[name][0] + result_type(rule[of[name][1]]) if name in of else name for name in types)


def result_lines(rule):
    for name, key in rule.get("properties", {}).items():
        yield from term(name, result_type(key), key["description"])
        for each in key.get("oneOf", []):
            yield from ["\t" + f"*{escaped(str(each['const']))}*", *paragraph(each["description"], "\t\t")]
    for each in rule.get("oneOf", []):
        yield from term(str(each["const"]), "", each["description"])


def page_of_result():
    schema = json.loads((ROOT / "apps" / "result.schema.json").read_text())
    page = Page(RESULT, 5, "what a command writes by --json")
    intro = (ROOT / "docs" / "reference" / "result-json.md").read_text().split("<!--")[0].split("\n", 2)[2]
    page.add("DESCRIPTION", markdown(intro))
    page.add("KEYS", result_lines(schema))
    for name, rule in schema["$defs"].items():
        page.add(escaped(name.upper()), [*paragraph(rule.get("description", "") + "."), *result_lines(rule)])
    page.see(("penstock", 1), ("penstock.yaml", 5))
    return page


# ---- Section 7 --------------------------------------------------------------------------------


def page_of_concepts():
    page = Page("penstock", 7, "streams into GPU and host memory: the terms and how they fit")
    for heading, body in sections((ROOT / "docs" / "concepts.md").read_text()):
        page.add(escaped(heading.upper()), markdown(body))
    page.see(("penstock", 1), ("libpenstock", 3), ("penstock.yaml", 5))
    return page


def pages_of_plugins(schema):
    plugins = [rule for rule in schema["$defs"].values() if "x-kind" in rule]
    for rule in plugins:
        kind, name = rule["x-kind"], rule["x-name"]
        page = Page(f"penstock-{name}", 7, f"{kind} plugin: {rule['title'][:1].lower() if rule['title'][1:2].islower() else rule['title'][:1]}{rule['title'][1:]}")
        readme = ROOT / PLUGIN_FOLDERS[kind] / name / "README.md"
        told_whole = re.sub(r"(?s)<!--.*?-->\n*", "", readme.read_text()) if readme.exists() else f"\n{rule['title']}.\n"
        told = list(sections(told_whole))

        def section(pattern):
            return [line for heading, body in told if re.search(pattern, heading, re.I) for line in markdown(body)]

        key = {"transport": "transport", "memory": "memory", "filter": "filters"}[kind]
        shown = section(r"synopsis|example") or code(f"{key}: {name}")
        page.add("SYNOPSIS", shown)
        about = re.split(r"(?m)^## ", told_whole)[0].split("\n", 1)[1]
        page.add("DESCRIPTION", markdown(about))
        page.add("REQUIREMENTS", paragraph(rule.get("x-needs", "None") + "."))
        page.add("OPTIONS", (line for each, entry in rule["properties"].items() for line in key_lines(each, entry)))
        page.add("RULES BETWEEN OPTIONS", (line for words in rule.get("x-rules", []) for line in paragraph(words + ".")))
        page.add("COUNTERS", section("counter"))
        page.add("LIMITS", section("limit"))
        page.add("PROOF", paragraph(f"How far it has been shown to work: {rule['x-rung']}.") if rule.get("x-rung") else [])
        page.see(("penstock-plugins", 1), ("penstock.yaml", 5), *((f"penstock-{each['x-name']}", 7) for each in plugins if each is not rule))
        yield page


# ---- All ------------------------------------------------------------------------------------


def all_pages(program, others):
    run = subprocess.run([program, "schema"], check=True, capture_output=True, text=True, env=ENVIRONMENT)
    schema = json.loads(run.stdout)
    yield from pages_of_commands(program)
    yield from map(page_of_other, others)
    yield from pages_of_calls()
    yield page_of_yaml(schema)
    yield page_of_result()
    yield page_of_concepts()
    yield from pages_of_plugins(schema)


def without_empty_paragraphs(roff):
    """scdoc begins paragraphs that have no text, of which mandoc's lint complains."""
    before = None
    while before != roff:
        before = roff
        roff = re.sub(r"(?m)^\.P\n\.RE\n", ".RE\n.P\n", roff)
        roff = re.sub(r"(?m)^(\.(?:S[HS] |TH ).*\n)\.P\n", r"\1", roff)
        roff = re.sub(r"(?m)^(\.RS.*\n)\.P\n", r"\1", roff)
        roff = re.sub(r"(?m)^\.P\n(?=\.(?:P|SH|SS)\b|\Z)", "", roff)
    return roff


def write_page(page, folder, scdoc):
    name = f"{page.name}.{page.section}"
    run = subprocess.run([scdoc], input=page.text(), capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr}{page.text()}")
    place = folder / f"man{page.section}"
    (place / name).write_text(without_empty_paragraphs(run.stdout))
    for other in page.others:
        (place / f"{other}.{page.section}").write_text(f".so man{page.section}/{name}\n")


def write_html(page, man, folder, mandoc):
    name = f"{page.name}.{page.section}"
    run = subprocess.run([mandoc, "-Thtml", "-O", "man=%N.%S.html", man / f"man{page.section}" / name],
                         check=True, capture_output=True, text=True)  # fmt: skip
    for each in [page.name, *page.others]:
        (folder / f"{each}.{page.section}.html").write_text(run.stdout)


def write_index(pages, folder):
    rows = [f'<li><a href="{page.name}.{page.section}.html">{html.escape(each)}({page.section})</a>'
            for page in sorted(pages, key=lambda page: (page.section, page.name)) for each in [page.name, *page.others]]  # fmt: skip
    (folder / "index.html").write_text(
        '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Manual pages of Penstock</title>\n'
        "<h1>Manual pages of Penstock</h1>\n<ul>\n" + "\n".join(rows) + "\n</ul>\n</html>\n")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--html", type=pathlib.Path)
    parser.add_argument("--scdoc", default="scdoc")
    parser.add_argument("--mandoc", default="mandoc")
    parser.add_argument("--depfile", type=pathlib.Path, help="gets the sources of the pages of --other")
    parser.add_argument("--other", action="append", default=[], choices=OTHERS)
    arguments = parser.parse_args()
    pages = list(all_pages(arguments.program, arguments.other))
    for folder in filter(None, (arguments.out, arguments.html)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for section in {page.section for page in pages}:
        (arguments.out / f"man{section}").mkdir()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda page: write_page(page, arguments.out, arguments.scdoc), pages))
        if arguments.html:
            list(pool.map(lambda page: write_html(page, arguments.out, arguments.html, arguments.mandoc), pages))
            write_index(pages, arguments.html)
    if arguments.depfile:
        sources = [str(ROOT / source) for name in arguments.other for source in OTHERS[name][1]]
        arguments.depfile.write_text(f"{arguments.out}: {' '.join(sources)}\n")


if __name__ == "__main__":
    main()
