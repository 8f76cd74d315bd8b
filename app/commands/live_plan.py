"""Printer of a running query's plan: a tree of operators with rows and time shares, then static tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import output, tables
from .hints import with_commands

_Operator = Mapping[str, Any]
_BARS = " ▏▎▍▌▋▊▉█"
"""Block characters that fill zero to eight eighths of a character cell."""
_GROUP = re.compile(
    r"\"(?>[^\"\\]|\\.)*+\"|'(?>[^'\\]|\\.)*+'|\b(?P<kind>GRAPH|SERVICE)\s+(?:SILENT\s+)?(?P<name>\S+)\s*\{|[{}]"
)
"""Expression of the groups in a printed pattern; strings are matched, so that no brace in them is found."""
_BAR_WIDTH = 8
"""Length in characters of the bar for a share of 100 %."""


def show(document: Mapping[str, Any]) -> None:
    """Print a query's plan with row counts and times from the server's response to EXPLAIN ANALYZE."""
    rates, counters = document["rates"] or {}, document["counters"] or {}
    print(
        f"{document['name']}: {document['state']}, engine {document['engine']}, "
        f"{rates.get('elements_per_second', 0):g} elements/s in, "
        f"{rates.get('events_per_second', 0):g} events/s out, "
        f"{output.counted(counters.get('late', 0), 'late element')}"
    )
    for each in document["waiting_for"] or ():
        print(f"waiting: {with_commands(each['text'])}")
    parts = document["static_parts"] or ()
    titles = _titles(parts)
    operators: Sequence[_Operator] = document["operators"] or ()
    if operators:
        print()
        tables.print_table(
            ("operator", "rows in", "rows out", "kept", "time", "", "what"), _rows(operators, titles), "none"
        )
        print(f"\n{_measured(document, operators)}")
    else:
        print(f"\nno operators: the engine {document['engine']} evaluates the answer as a whole")
    if parts:
        print()
        unit, ages = output.durations([each.get("age_ms") for each in parts])
        names = ("static table", "rows", "version", f"age, {unit}", "refreshed by", "pattern")
        rows = [_part(each, titles[each["name"]], age) for each, age in zip(parts, ages, strict=True)]
        tables.print_table(names, rows, "none")


def _titles(parts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a title for each static part by its name: the graphs and services that its pattern reads."""
    titles: dict[str, str] = {}
    for part in parts:
        read, rest = _sources_of(part["pattern"])
        title = ", ".join(dict.fromkeys([*read, *(["default graph"] if rest or not read else [])]))
        same = sum(each.partition(" #")[0] == title for each in titles.values())
        titles[part["name"]] = f"{title} #{same + 1}" if same else title
    return titles


def _sources_of(pattern: str) -> tuple[list[str], str]:
    """Return the graphs and services that a printed pattern reads, and the pattern without their groups."""
    read, rest, depth, start = [], "", 0, 0
    for found in _GROUP.finditer(pattern):
        mark = found[0]
        if depth == 0 and found["name"]:
            read.append(found["name"] if found["kind"].upper() == "GRAPH" else f"SERVICE {found['name']}")
            rest += pattern[start : found.start()]
            depth = 1
        elif depth and mark.endswith("{"):
            depth += 1
        elif depth and mark == "}":
            depth -= 1
            start = found.end()
    return read, f"{rest}{'' if depth else pattern[start:]}".strip(" .{}\n")


def _rows(operators: Sequence[_Operator], titles: Mapping[str, str]) -> list[list[str]]:
    """Return one table row per operator; the rows of an operator's inputs follow the operator's row."""
    by_number = {each["number"]: each for each in operators}
    total = sum(_times(operators).values())
    rows = []
    for prefix, each in _tree(operators, by_number):
        share = _share(each, total)
        rows.append(
            [
                f"{prefix}{each['operator']}",
                output.shown(each["rows_in"]),
                output.shown(each["rows_out"]),
                output.shown(each["state_rows"] or None),
                share if isinstance(share, str) else f"{share:.0%}",
                "" if isinstance(share, str) else _bar(share),
                titles.get(each["detail"], "")
                if each["operator"].startswith("table")
                else _line(each["detail"]),
            ]
        )
    return rows


def _tree(
    operators: Sequence[_Operator], by_number: Mapping[int, _Operator]
) -> Iterator[tuple[str, _Operator]]:
    """Yield operators in tree order, each with a prefix of box-drawing characters.

    The roots are the operators that no other operator reads. An operator with several readers is repeated
    with "(above)" and without its inputs.
    """
    read = {number for each in operators for number in each["inputs"]}
    waiting = [("", "", each) for each in operators if each["number"] not in read]
    seen: set[int] = set()
    while waiting:
        before, below, each = waiting.pop()
        again = each["number"] in seen
        yield before, {**each, "operator": f"{each['operator']} (above)"} if again else each
        if again:
            continue
        seen.add(each["number"])
        inputs = [by_number[number] for number in each["inputs"]]
        for place, child in reversed(list(enumerate(inputs, start=1))):
            joint, line = ("└─ ", "   ") if place == len(inputs) else ("├─ ", "│  ")
            waiting.append((below + joint, below + line, child))


def _times(operators: Sequence[_Operator]) -> dict[int, float]:
    """Return the measured microseconds per step of a plan's operators, by operator number.

    The time of an operator includes the operators that are measured together with it.
    """
    return {
        each["timed_with"]: each["microseconds"] for each in operators if each["microseconds"] is not None
    }


def _share(operator: _Operator, total: float) -> str | float:
    """Return an operator's share of the time of a step, from 0 to 1, or a text without a separate time.

    The text in place of a share points up or down to the operator with which ``operator`` is measured, or is
    empty before the first measurement.
    """
    if operator["timed_with"] != operator["number"]:
        return "with ↑" if operator["timed_with"] > operator["number"] else "with ↓"
    if operator["microseconds"] is None or not total:
        return ""
    return float(operator["microseconds"]) / total


def _bar(share: float) -> str:
    eighths = round(share * _BAR_WIDTH * 8)
    return "█" * (eighths // 8) + _BARS[eighths % 8].strip()


def _measured(document: Mapping[str, Any], operators: Sequence[_Operator]) -> str:
    steps, timed = document["steps"] or 0, document["timed_steps"] or 0
    total = sum(_times(operators).values())
    if not timed:
        return f"{output.counted(steps, 'step')}, none of them timed yet: only few are"
    text = f"{output.counted(steps, 'step')}, {timed:,} of them timed, {total:,.0f} µs of CPU time a step"
    if any(each["timed_with"] != each["number"] for each in operators):
        text += "; with ↓ or with ↑: included in the time of the operator below or above"
    return text


def _line(text: str) -> str:
    return " ".join(text.split())


def _part(part: Mapping[str, Any], title: str, age: str) -> list[str]:
    return [
        title,
        output.shown(part["rows"]) if part.get("lookup") is None else "looked up",
        output.shown(part["version"]),
        age,
        part.get("cause") or "",
        _line(part["pattern"]),
    ]
