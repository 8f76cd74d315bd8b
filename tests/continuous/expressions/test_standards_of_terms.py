"""Functions of several terms on boundary values: by the standards in plain Python, by us, and by Oxigraph.

REGEX and REPLACE (17.4.3.14 and .15, with the flags of XPath), SUBSTR with a length, STRDT, STRLANG,
TIMEZONE, ADJUST, and the forms that judge terms: IF, COALESCE, BOUND, IN and NOT IN of lists. Characters are
Unicode's, also those beyond the first 65,536, which have two halves elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Store

from quadrill.continuous.expressions.choices import Functions
from quadrill.continuous.expressions.oxigraph import canonical

from . import standard as by
from .standard import XSD, Number, Text
from .test_standards import NAMES, TERMS, ours, oxigraphs, typed

NONE = Literal("")
STRINGS = [*map(Literal, ["", "abc", "aBc", "a.c", "a\nb", "a\n", "aab", "é😀z", "😀😀", "12 a", "a$b\\"])]
TEXTS: list[Any] = [
    None,
    NamedNode("http://e/a"),
    *STRINGS,
    Literal("abc", language="en"),
    typed("12", XSD + "integer"),
]
FLAGS = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE}
PATTERNS = [
    *map(
        Literal, ["", "b", "^a", "c$", "b$", "a.c", "^a.b$", "a+", "[a-c]{2}", "\\d+", "😀", "^.{3}$", "^..$"]
    )
]
PATTERNS += map(Literal, ["(a)(b)?", "a\\.c", "(", "[", "*", "(.)b", "a b", ".*"])
BAD_PATTERNS: list[Any] = [None, Literal("a", language="en"), NamedNode("http://e/a")]
NUMBERS = [typed(each, XSD + "integer") for each in ("-3", "0", "1", "2", "3", "9", "9223372036854775807")]
NUMBERS += [typed(each, XSD + "double") for each in ("1.5", "NaN", "INF")]


def expression(pattern: Any, flags: Any) -> re.Pattern[str] | None:
    """A pattern of XPath that reads alike here; None for an error."""
    one, two = by.value_of(pattern), by.value_of(flags)
    if not isinstance(one, Text) or one.language or not isinstance(two, Text) or two.language:
        return None
    if set(two.text) - set("ismxq"):
        return None
    written = one.text
    if "q" in two.text:
        written = re.escape(written)
    elif "x" in two.text:
        written = re.sub(r"\s", "", written)
    if "m" not in two.text and "q" not in two.text and written.endswith("$"):
        # Here `$` stands before a last line break as well.
        written = written[:-1] + r"\Z"
    try:
        return re.compile(written, sum(FLAGS[flag] for flag in set(two.text) & set(FLAGS)))
    except re.error:
        return None


def regex(text: Any, pattern: Any, flags: Any = NONE) -> Any:
    found, value = expression(pattern, flags), by.value_of(text)
    if found is None or not isinstance(value, Text):
        return None
    return canonical(Literal(found.search(value.text) is not None))


def replace(text: Any, pattern: Any, replacement: Any, flags: Any = NONE) -> Any:
    found, value, put = expression(pattern, flags), by.value_of(text), by.value_of(replacement)
    if found is None or not isinstance(value, Text) or not isinstance(put, Text) or put.language:
        return None
    if found.search("") is not None:
        return None  # FORX0003: the pattern matches the empty string
    if "q" not in flags.value and not re.fullmatch(r"(?:[^\\$]|\\[\\$]|\$\d)*", put.text, re.DOTALL):
        return None  # FORX0004: a sign that is no escape and names no group

    def group(match: re.Match[str], digits: str) -> str:
        if len(digits) > 1 and int(digits) > match.re.groups:
            return group(match, digits[:-1]) + digits[-1]
        return match[int(digits)] or "" if int(digits) <= match.re.groups else ""

    def filled(match: re.Match[str]) -> str:
        if "q" in flags.value:
            return put.text
        return re.sub(r"\\([\\$])|\$(\d+)", lambda each: each[1] or group(match, each[2]), put.text)

    return _text(found.sub(filled, value.text), value.language)


def _text(text: str, language: str) -> Literal:
    return Literal(text, language=language) if language else Literal(text)


def substring(text: Any, start: Any, length: Any) -> Any:
    """The characters whose place is in start .. start + length; SPARQL's are integers."""
    value, begin, many = by.value_of(text), by.value_of(start), by.value_of(length)
    if not isinstance(value, Text) or not all(
        isinstance(each, Number) and each.kind == "integer" for each in (begin, many)
    ):
        return None
    assert isinstance(begin, Number) and isinstance(many, Number)
    kept = [x for at, x in enumerate(value.text, 1) if begin.value <= at < begin.value + many.value]
    return _text("".join(kept), value.language)


def strdt(text: Any, datatype: Any) -> Any:
    value = by.value_of(text)
    if not isinstance(value, Text) or value.language or not isinstance(datatype, NamedNode):
        return None
    return canonical(Literal(value.text, datatype=datatype))


def strlang(text: Any, tag: Any) -> Any:
    value, language = by.value_of(text), by.value_of(tag)
    if not isinstance(value, Text) or value.language or not isinstance(language, Text) or language.language:
        return None
    well_formed = re.fullmatch(r"[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*", language.text)
    return canonical(Literal(value.text, language=language.text)) if well_formed else None


def timezone(term: Any) -> Any:
    value = by.value_of(term)
    if not isinstance(value, by.Time) or value.zone is None:
        return None
    hours, minutes = divmod(abs(value.zone), 60)
    shown = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") or "0S"
    return typed(f"{'-' if value.zone < 0 else ''}PT{shown}", XSD + "dayTimeDuration")


def adjust(moment: Any, zone: Any) -> Any:
    """XPath 9.6, by Python's calendar; the empty string removes the zone (SEP-0002)."""
    kind = moment.datatype.value.removeprefix(XSD) if isinstance(moment, Literal) else ""
    if kind not in FORMS or not isinstance(zone, Literal):
        return None
    form, before, after = FORMS[kind]
    offset = re.search(r"(Z|[+-]\d\d:\d\d)$", moment.value)
    text = moment.value[: offset.start()] if offset else moment.value
    if zone == Literal(""):
        return canonical(typed(text, moment.datatype.value))
    found = re.fullmatch(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", zone.value)
    if zone.datatype.value != XSD + "dayTimeDuration" or found is None:
        return None
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
    shift = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if shift > timedelta(hours=14) or shift.seconds % 60:
        return None
    signed = -shift if found[1] else shift
    local = datetime.fromisoformat(before + text + after)
    if offset:
        sign = -1 if offset[1].startswith("-") else 1
        west, _, east = offset[1].lstrip("+-").partition(":")
        old = timedelta() if offset[1] == "Z" else sign * timedelta(hours=int(west), minutes=int(east))
        local += signed - old
    total = round(shift.total_seconds()) // 60
    shown = f"{'-' if found[1] else '+'}{total // 60:02}:{total % 60:02}" if total else "Z"
    return canonical(typed(local.strftime(form) + shown, moment.datatype.value))


FORMS = {
    "dateTime": ("%Y-%m-%dT%H:%M:%S.%f", "", ""),
    "date": ("%Y-%m-%d", "", "T00:00:00"),
    "time": ("%H:%M:%S.%f", "2000-01-15T", ""),
}


def if_(condition: Any, then: Any, otherwise: Any) -> Any:
    truth = by.ebv(by.value_of(condition))
    return None if truth is None else then if truth else otherwise


def coalesce(*terms: Any) -> Any:
    return next((term for term in terms if term is not None), None)


def one_of(left: Any, *right: Any) -> Any:
    """``=`` with any; an error only where none is and one is an error (17.4.1.9)."""
    found = [by.equal(by.value_of(left), by.value_of(each)) for each in right]
    return canonical(Literal(True)) if True in found else None if None in found else canonical(Literal(False))


def none_of(left: Any, *right: Any) -> Any:
    found = one_of(left, *right)
    return None if found is None else canonical(Literal(found.value == "false"))


IRIS: list[Any] = [NamedNode(XSD + name) for name in ("integer", "decimal", "boolean", "dateTime", "string")]
TAGS: list[Any] = [
    *map(Literal, ["en", "EN-gb", "", "a b", "1", "toolongtag"]),
    None,
    NamedNode("http://e/t"),
]
TAGS += [Literal("en", language="en")]
REPLACEMENTS = [*map(Literal, ["", "x", "[$1]", "😀", "$0$0", "\\$", "$2"])]
REPLACEMENTS += map(Literal, ["$", "$$", "a$", "$x", "${1}", "$1a", "$12", "$21", "{$1}"])
REPLACEMENTS += map(Literal, ["\\", "\\\\", "\\n", "\\\\$1"])
_DOLLARS = re.compile(r"(?:[^$]|\$\d)*")
WEST = typed("2020-01-01T00:00:00-03:30", XSD + "dateTime")
MOMENTS = [
    typed(text, XSD + kind)
    for kind, texts in {
        "dateTime": [f"2020-02-29T{clock}" for clock in ("00:00:00", "10:30:00.25", "23:59:59")],
        "date": ["2020-01-01", "2020-02-29"],
        "time": ["00:00:00", "10:30:00.5", "23:59:59"],
    }.items()
    for text in [each + zone for each in texts for zone in ("", "Z", "+14:00", "-03:30")]
]
ZONES: list[Any] = [None, Literal(""), Literal("PT1H"), NamedNode("http://e/z")]
ZONES += [typed("P1M", XSD + "duration")]
ZONES += [
    typed(each, XSD + "dayTimeDuration")
    for each in ("PT0S", "PT2H", "-PT5H30M", "PT14H", "-PT14H", "PT14H1M", "PT1H1S", "P1D", "PT330M")
]
SOME = [None, *TERMS[1:6], *map(canonical, [Literal(True), Literal(False)]), *NUMBERS[:3], *TEXTS[-2:]]
SOME += [typed("maybe", XSD + "boolean"), typed("NaN", XSD + "double"), typed("x", "http://e/t")]
CALLS: dict[str, tuple[str, Callable[..., Any], list[tuple[Any, ...]]]] = {
    "REGEX": ("REGEX", regex, [*product(TEXTS, PATTERNS + BAD_PATTERNS)]),
    "REGEX with flags": (
        "REGEX", regex, [*product(TEXTS, PATTERNS, map(Literal, ["", "i", "s", "m", "x", "q", "ism", "z"]))],
    ),
    "REPLACE": (
        "REPLACE", replace,
        [*product(TEXTS, PATTERNS + BAD_PATTERNS, REPLACEMENTS)],
    ),
    "REPLACE with flags": (
        "REPLACE", replace,
        [
            *product(
                TEXTS, PATTERNS,
                map(Literal, ["x", "[$1]", "$", "\\$0"]), map(Literal, ["", "i", "s", "m", "q", "z"]),
            )
        ],
    ),
    "SUBSTR": ("SUBSTR", substring, [*product(TEXTS, NUMBERS, NUMBERS)]),
    "STRDT": ("STRDT", strdt, [*product(TERMS, [*IRIS, NamedNode("http://e/t"), None, Literal("x")])]),
    "STRLANG": ("STRLANG", strlang, [*product(TERMS, TAGS)]),
    "TIMEZONE": ("TIMEZONE", timezone, [(term,) for term in [*TERMS, WEST]]),
    "ADJUST": ("ADJUST", adjust, [*product([*MOMENTS, *SOME], ZONES)]),
    "IF": ("IF", if_, [*product(TERMS, [Literal("x"), None], [NamedNode("http://e/y"), None])]),
    "COALESCE": ("COALESCE", coalesce, [*product(SOME, SOME)]),
    "BOUND": ("BOUND", lambda term: canonical(Literal(term is not None)), [(term,) for term in TERMS]),
    "IN": ("IN", one_of, [*product(SOME, SOME, SOME)]),
    "NOT IN": ("NOT IN", none_of, [*product(SOME, SOME, SOME)]),
}  # fmt: skip


def written(term: Any) -> str:
    return "an error" if term is None else str(term)


def _matches_nothing(row: tuple[Any, ...]) -> bool:
    found = expression(row[1], row[3] if len(row) > 3 else NONE)
    return found is not None and found.search("") is not None


def _has_no_truth(term: Any) -> bool:
    value = by.value_of(term)
    return (isinstance(value, by.Opaque) and value.ill_typed) or (
        isinstance(value, Text) and value.language != ""
    )


def _is_tagged_and_opaque(row: tuple[Any, ...]) -> bool:
    values = list(map(by.value_of, row))
    tagged = any(isinstance(each, Text) and each.language for each in values)
    return tagged and any(isinstance(each, by.Opaque) for each in values)


BOTH: dict[str, tuple[str, Callable[[tuple[Any, ...]], bool]]] = {
    "a literal that is ill-typed or has a language is neither true nor false, but an error": (
        "IF", lambda row: _has_no_truth(row[0]),
    ),
    "IN: a string with a language never equals a literal of another datatype": ("IN", _is_tagged_and_opaque),
    "NOT IN: a string with a language never equals one": ("NOT IN", _is_tagged_and_opaque),
}  # fmt: skip
"""Where both engines differ from the standard, and why."""
OXIGRAPH: dict[str, tuple[str, Callable[[tuple[Any, ...]], bool]]] = {
    "REPLACE takes a pattern that matches the empty string, which XPath 3.1 forbids and XPath 4 allows": (
        "REPLACE", _matches_nothing,
    ),
    "a replacement has no escapes, the flag q leaves it: a backslash stands for itself, $ may stand alone": (
        "REPLACE",
        lambda row: isinstance(row[2], Literal)
        and ("\\" in row[2].value or not _DOLLARS.fullmatch(row[2].value) or "q" in row[-1].value),
    ),
    "the digits behind a dollar sign are all of the group's name, and letters as well": (
        "REPLACE", lambda row: isinstance(row[2], Literal) and bool(re.search(r"\$\d\w", row[2].value)),
    ),
    "ADJUST takes no empty string for a moment without a zone": (
        "ADJUST", lambda row: row[1] == Literal(""),
    ),
    "SUBSTR is an error where the start and the length add up to more than 64 bits": (
        "SUBSTR", lambda row: sum(int(each.value) for each in row[1:]) >= 2**63,
    ),
}  # fmt: skip
"""Where Oxigraph alone does; continuous queries give what the standard says."""


def reasons(who: str, call: str, row: tuple[Any, ...]) -> list[str]:
    known = BOTH if who == "we" else BOTH | OXIGRAPH
    return [reason for reason, (name, holds) in known.items() if name == call and holds(row)]


@pytest.mark.parametrize("name", CALLS)
def test_every_call_gives_what_the_standard_says(name: str) -> None:
    call, function, rows = CALLS[name]
    rows = [tuple(None if term is None else canonical(term) for term in row) for row in rows]
    wrong, used = [], set[str]()
    for row, mine, theirs in zip(rows, ours(call, rows), oxigraphs(call, rows), strict=True):
        wanted = function(*row)
        for who, found in (("we", mine), ("Oxigraph", theirs)):
            if found == wanted:
                continue
            why = reasons(who, call, row)
            used.update(why)
            if not why:
                shown = " | ".join(map(written, row))
                wrong.append(f"{who}: {name} {shown} is {written(found)}, not {written(wanted)}")
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong[:30])
    with_flags = name.endswith("flags")
    assert with_flags or used == {reason for reason, (of, _) in (BOTH | OXIGRAPH).items() if of == call}


@pytest.mark.parametrize("name", ["REPLACE", "REPLACE with flags"])
def test_a_recomputation_by_oxigraph_gives_what_we_give(name: str) -> None:
    call, _, rows = CALLS[name]
    rows = [tuple(None if term is None else canonical(term) for term in row) for row in rows]
    choices = Functions("", {})
    variables = NAMES[: len(rows[0])]
    values = " ".join(f"({' '.join('UNDEF' if term is None else str(term) for term in row)})" for row in rows)
    found = Store().query(
        f"SELECT ({choices.function(call)}({', '.join(f'?{each}' for each in variables)}) AS ?r) "
        f"{{ VALUES ({' '.join(f'?{each}' for each in variables)}) {{ {values} }} }}",
        custom_functions=choices.functions,
    )
    assert [solution["r"] for solution in found] == ours(call, rows)  # type: ignore[union-attr]
