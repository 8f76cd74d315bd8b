"""Regular expressions of the product read texts rightly on every supported interpreter.

Before CPython 3.11.5, a possessive quantifier of a group that backtracks accepts wrong texts (CPython
issue 106052). The product writes ``(?>…)*+`` in place of ``(?:…)*+``: an atomic group never backtracks, so
every interpreter from 3.11.2 on reads it rightly. Both mean the same if the group matches no empty text.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TOP_FOLDERS = ("app", "continuous", "store", "migrations")
_QUANTIFIER = re.compile(r"\)(?:[*+?]|\{+[0-9,]+\}+)\+")
_UNITS = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "ATOMIC_GROUP")
COLLECT = """
import json, re, sys
from importlib import import_module
from pkgutil import walk_packages
found, compiled = {}, re._compiler.compile
def keep(pattern, flags=0):
    if isinstance(pattern, (str, bytes)):
        text = pattern if isinstance(pattern, str) else pattern.decode("latin-1")
        found[text, int(flags), isinstance(pattern, bytes)] = None
    return compiled(pattern, flags)
re._compiler.compile = keep
for top in ("store", "continuous", "app"):
    for each in walk_packages(import_module(f"quadrill.{top}").__path__, f"quadrill.{top}."):
        if not each.name.endswith("__main__"):
            import_module(each.name)
json.dump(list(found), sys.stdout)
"""


def possessive_groups(tree: Any) -> Iterator[str]:
    """Yield the groups of a parsed expression that have a possessive quantifier and may backtrack."""
    for operator, argument in tree:
        if str(operator) == "POSSESSIVE_REPEAT":
            body = list(argument[2])
            while len(body) == 1 and str(body[0][0]) == "SUBPATTERN" and body[0][1][0] is None:
                body = list(body[0][1][-1])
            if len(body) != 1 or str(body[0][0]) not in _UNITS:
                yield str(body)
        pending = [argument]
        while pending:
            each = pending.pop()
            if isinstance(each, re._parser.SubPattern):  # type: ignore[attr-defined]
                yield from possessive_groups(each)
            elif isinstance(each, tuple | list):
                pending += each


def parsed(text: str, flags: int, is_bytes: bool) -> Any:
    source = text.encode("latin-1") if is_bytes else text
    return re._parser.parse(source, flags)  # type: ignore[attr-defined]


def written_groups(line: str) -> Iterator[str]:
    """Yield the groups ``(?:…)`` and ``(…)`` of a source line that have a possessive quantifier."""
    opened: list[int] = []
    place = 0
    while place < len(line):
        if line[place] == "\\":
            place += 1
        elif line[place] == "[":
            end = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]").match(line, place)
            place = end.end() - 1 if end else place
        elif line[place] == "(":
            opened.append(place)
        elif line[place] == ")" and opened:
            begin = opened.pop()
            # Two parentheses without text between them are characters of a set.
            is_group = place > begin + 1 and not line.startswith("(?>", begin)
            if is_group and _QUANTIFIER.match(line, place):
                yield line[begin : place + 3]
        place += 1


def test_expressions_of_all_modules_have_possessive_quantifiers_only_where_nothing_backtracks() -> None:
    made = subprocess.run([sys.executable, "-c", COLLECT], capture_output=True, text=True, check=True)
    found = json.loads(made.stdout)
    # Expressions of libraries are checked as well: the product reads texts with them.
    assert len(found) > 300 and sum("*+" in text for text, *_ in found) > 50
    wrong = [text for text, *how in found if list(possessive_groups(parsed(text, *how)))]
    assert not wrong, "write (?>…) in place of (?:…) before a possessive quantifier"


def test_source_lines_have_possessive_quantifiers_only_behind_atomic_groups() -> None:
    wrong = {
        (path.relative_to(ROOT).as_posix(), number, group)
        for top in TOP_FOLDERS
        for ending in ("*.py", "*.lark")
        for path in (ROOT / top).rglob(ending)
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for group in written_groups(line)
    }
    assert not wrong, "write (?>…) in place of (?:…) before a possessive quantifier"


@pytest.mark.parametrize("text", ["(?:ab?c)*+", "x(ab|a)?+", "(?:a|b(?:cd?e){0,3}+)", "((?:a+b))++"])
def test_the_check_finds_groups_that_backtrack(text: str) -> None:
    assert list(possessive_groups(parsed(text, 0, False)))
    assert list(written_groups(f'    r"{text}"'))


@pytest.mark.parametrize("text", [r"[^\"]*+", "(?>ab?c)*+", "a++b{2,3}+", r"\)*\+", "(?>a|(?>bc)?+d)++"])
def test_the_check_accepts_what_cannot_backtrack(text: str) -> None:
    assert not list(possessive_groups(parsed(text, 0, False)))
    assert not list(written_groups(f'    r"{text}"'))


@pytest.mark.parametrize("seed", range(20))
def test_atomic_groups_with_possessive_quantifiers_match_as_the_definition(seed: int) -> None:
    """A possessive quantifier means the greedy one in an atomic group, which all interpreters know."""
    chance = random.Random(seed)
    for _ in range(100):
        body = f"{chance.choice('abc')}{_random(chance, 3)}"
        quantifier = chance.choice(("*", "+", "?", "{0,3}"))
        after = _random(chance, 2)
        ours = re.compile(f"(?>{body}){quantifier}+{after}")
        definition = re.compile(f"(?>(?:{body}){quantifier}){after}")
        for _ in range(5):
            text = "".join(chance.choices("abc", k=chance.randrange(10)))
            first, second = ours.match(text), definition.match(text)
            assert (first and first.span()) == (second and second.span()), (ours.pattern, text)


def _random(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(6) if depth else 0
    if kind < 2:
        return chance.choice(("a", "b", "c", "[ab]", "[^a]", "."))
    if kind == 2:
        return _random(chance, depth - 1) + _random(chance, depth - 1)
    if kind == 3:
        return f"(?:{_random(chance, depth - 1)}|{_random(chance, depth - 1)})"
    if kind == 4:
        return f"(?:{_random(chance, depth - 1)}){chance.choice(('*', '+', '?', '{1,2}'))}"
    return f"(?!{_random(chance, depth - 1)})"
