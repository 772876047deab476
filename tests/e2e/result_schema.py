#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The schema of results, apps/result.schema.json: validates results by it, and writes the tables
of docs/reference/result-json.md (--write).

Only the standard library: a machine that tests may have no other. What the schema says and this
does not know is an error.
"""
import functools
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "apps" / "result.schema.json"
PAGE = ROOT / "docs" / "reference" / "result-json.md"
BEGIN = "<!-- From apps/result.schema.json, by tests/e2e/result_schema.py --write -->\n"
NOTES = {"$schema", "$comment", "$defs", "title", "description"}
TYPES = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
    "integer": int, "number": (int, float),
}  # fmt: skip


@functools.cache
def schema():
    return json.loads(SCHEMA.read_text())


# ---- Validation ----


def is_type(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def same(a, b):
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def is_valid(value, rule):
    return next(findings(value, rule, ""), None) is None


def of_object(value, rule, place):
    known = rule.get("properties", {})
    for key in rule.get("required", []):
        if key not in value:
            yield f"{place}: lacks {key!r}"
    for key, child in value.items():
        if key in known:
            yield from findings(child, known[key], f"{place}.{key}")
        else:
            yield from findings(child, rule.get("additionalProperties", True), f"{place}.{key}")


def of_list(value, rule, place):
    if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
        yield f"{place}: has {len(value)} items"
    for index, child in enumerate(value):
        yield from findings(child, rule.get("items", True), f"{place}[{index}]")


def of_choice(value, rule, place):
    for name, number in (("anyOf", None), ("oneOf", 1)):
        if name in rule:
            met = sum(is_valid(value, each) for each in rule[name])
            if met != (number or max(met, 1)):
                yield f"{place}: {value!r} is of {met} of {name}"
    for each in rule.get("allOf", []):
        yield from findings(value, each, place)
    if "if" in rule:
        then = rule["then"] if is_valid(value, rule["if"]) else rule.get("else", True)
        yield from findings(value, then, place)


def of_value(value, rule, place):
    types = rule.get("type", [])
    if types and not any(is_type(value, name) for name in ([types] if isinstance(types, str) else types)):
        yield f"{place}: {value!r} is no {types}"
    if "const" in rule and not same(value, rule["const"]):
        yield f"{place}: {value!r} is not {rule['const']!r}"
    if "enum" in rule and not any(same(value, each) for each in rule["enum"]):
        yield f"{place}: {value!r} is none of {rule['enum']}"
    if is_type(value, "number"):
        if not rule.get("minimum", value) <= value <= rule.get("maximum", value):
            yield f"{place}: {value!r} is out of range"
    if isinstance(value, str):
        if len(value) < rule.get("minLength", 0) or not re.search(rule.get("pattern", ""), value):
            yield f"{place}: {value!r} is no such text"


CHECKS = {
    of_value: {"type", "const", "enum", "minimum", "maximum", "minLength", "pattern"},
    of_choice: {"anyOf", "oneOf", "allOf", "if", "then", "else"},
    of_object: {"properties", "required", "additionalProperties"},
    of_list: {"items", "minItems", "maxItems"},
}
KNOWN = NOTES.union({"$ref"}, *CHECKS.values())


def findings(value, rule, place):
    """Yields the parts of the value that break the rule, a line each."""
    if isinstance(rule, bool):
        if not rule:
            yield f"{place}: is not in the schema"
        return
    assert KNOWN.issuperset(rule), f"unknown to this validator: {set(rule) - KNOWN}"
    if "$ref" in rule:
        yield from findings(value, schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")], place)
    for check in (of_value, of_choice):
        yield from check(value, rule, place)
    if isinstance(value, dict):
        yield from of_object(value, rule, place)
    if isinstance(value, list):
        yield from of_list(value, rule, place)


def once(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise AssertionError(f"a key comes twice: {keys}")
    return dict(pairs)


def no_number(word):
    raise AssertionError(f"{word} is no JSON")


def read(text):
    """The result that is in this text; fails where it breaks the schema."""
    result = json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    found = list(findings(result, schema(), "result"))
    if found:
        raise AssertionError("breaks apps/result.schema.json:\n" + "\n".join(found) + "\n" + text)
    return result


# ---- The page ----


def name_of(rule):
    return rule["$ref"].removeprefix("#/$defs/")


def title_of(name):
    rule = schema()["$defs"][name]
    return rule["description"].rstrip(".") if "properties" in rule else name


def value_text(value):
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def type_text(rule):
    if "anyOf" in rule:
        return " or ".join(type_text(each) for each in rule["anyOf"])
    if "$ref" in rule:
        return f"[{name_of(rule)}](#{title_of(name_of(rule)).lower().replace(' ', '-')})"
    if "oneOf" in rule:
        return "string, below"
    if "enum" in rule or "const" in rule:
        return " ".join(value_text(each) for each in rule.get("enum", [rule.get("const")]))
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    of = {"array": "items", "object": "additionalProperties"}
    return " or ".join(
        {"array": "list of ", "object": "name: "}[name] + type_text(rule[of[name]]) if name in of else name
        for name in types
    )  # fmt: skip


def table(properties):
    yield "| key | value | what it is |\n| --- | --- | --- |\n"
    for key, rule in properties.items():
        yield f"| `{key}` | {type_text(rule)} | {rule['description']} |\n"


def choices(name, rule):
    yield f"\n| {name} | what it means |\n| --- | --- |\n"
    for each in rule["oneOf"]:
        yield f"| {value_text(each['const'])} | {each['description']} |\n"


def page():
    """The page's tables, each key with a line."""
    yield "\n"
    yield from table(schema()["properties"])
    for name, rule in schema()["$defs"].items():
        yield f"\n## {title_of(name)}\n"
        if "properties" in rule:
            yield "\n"
            yield from table(rule["properties"])
            for key, child in rule["properties"].items():
                if "oneOf" in child:
                    yield from choices(f"`{key}`", child)
        else:
            yield from choices(f"`{name}`", rule)


def written():
    """The page as it should be."""
    head = PAGE.read_text().split(BEGIN)[0]
    return head + BEGIN + "".join(page())


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(written())
    else:
        read(pathlib.Path(sys.argv[1]).read_text())
