"""Recognition of common mistakes in streams and windows, from the characters around a fault.

The module `mistakes` recognises a mistake by the state of the parser. Mistakes in windows are recognised by
the characters, because a name without a colon, an unknown unit or round brackets fail before the grammar has
recognised a window.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..algebra.query import Dialect

_EXAMPLE: dict[Dialect, str] = {
    "cqels": "[RANGE 10s] or [RANGE 10s SLIDE 5s]",
    "rspql": "[RANGE PT10S STEP PT5S]",
    "csparql": "[RANGE 10s STEP 5s]",
    "sparql": "[RANGE 10s]",
}
_EVERY: dict[Dialect, str] = {
    "cqels": 'Write [RANGE 10s SLIDE 5s] as the window, or register with "report": {"periodic": "5s"}.',
    "rspql": "Write [RANGE PT10S STEP PT5S] as the window, or REGISTER STREAM <o> COMPUTED EVERY PT5S AS ….",
    "csparql": "Write [RANGE 10s STEP 5s] as the window, or REGISTER QUERY name COMPUTED EVERY 5s AS ….",
    "sparql": "EVERY belongs to a continuous query: register the text, POST /queries.",
}  # fmt: skip
_EMIT = "EMIT ON CLOSE, EMIT ON CHANGE or EMIT EVERY 5s stands behind the whole query."
_DAYS = {"week": 7, "fortnight": 14, "month": 30, "quarter": 90, "year": 365}
_WINDOW_WORDS = {
    "row": "[TRIPLES 10] or [ELEMENTS 10]",
    "rows": "[TRIPLES 10] or [ELEMENTS 10]",
    "triple": "[TRIPLES 10]",
    "element": "[ELEMENTS 10]",
    "last": "[RANGE 10s]",
    "size": "[RANGE 10s]",
    "duration": "[RANGE 10s]",
    "time": "[RANGE 10s]",
    "hopping": "[RANGE 10s SLIDE 5s]",
    "unbounded": "[ALL]",
}
_NAME_OF_STREAM = re.compile(r"\b(?:STREAM|ON)\s*\Z", re.IGNORECASE)
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*\Z")
_STREAM_NAMED = re.compile(r"\b(?:STREAM|ON)\s+(?:<[^<>\s]*>|[?$]?[\w.-]*:?[\w.-]*)\s*\Z", re.IGNORECASE)
_BARE = re.compile(r"[A-Za-z_][\w.-]*(?!\S*:)")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class WindowMistake:
    """A mistake's message (None for the usual "unexpected …, expected …") and a correction."""

    message: str | None
    hint: str


def window_slip(dialect: Dialect, text: str, at: int, choices: set[str]) -> WindowMistake | None:
    """Return the mistake in a stream or window at an offset of the text, if it is known.

    ``choices`` are the terminals that the grammar allows at the mistake.
    """
    before, char = text[:at][-400:], text[at : at + 1]
    found = _WORD.match(text, at)
    word = found.group().lower() if found else ""
    if word == "every":
        return WindowMistake(None, _EVERY[dialect])
    if word == "emit":
        return WindowMistake(None, _EMIT)
    if _NAME_OF_STREAM.search(before) and "IRIREF" in choices:
        return _stream_name(text, at)
    if choices == {"LSQUARE"} or ("LSQUARE" in choices and _STREAM_NAMED.search(before)):
        if char == "(":
            return WindowMistake(
                "a window stands in square brackets, not in round ones", f"Write {_EXAMPLE[dialect]}."
            )
        if word in ("range", "now", "triples", "elements", "all", "tumbling", "sliding", "latest", "session"):
            return WindowMistake(
                f"the square brackets around the window, before {word.upper()}, are missing",
                f"Write {_EXAMPLE[dialect]}.",
            )
    if "RANGE" in choices and "VAR" not in choices:
        return _kind(dialect, word)
    if "COMPACT_DURATION" in choices and char in ("-", "+"):
        return WindowMistake("a duration has no sign", "Write how long, for example 10s or PT10S.")
    if "UNIT" in choices or "STEP" in choices:
        return _in_window(text, at, before, word, char)
    if choices == {"LBRACE"} and re.search(r"\]\s*\Z", before):
        return WindowMistake("the pattern behind a window stands in braces", "Write … [window] { ?s ?p ?o }.")
    return None


def iri_without_brackets(prefix: str, text: str, at: int) -> str | None:
    """Return a hint if an undeclared prefix is the scheme of an IRI without angle brackets."""
    if prefix.lower() not in ("http", "https", "urn", "file", "mailto", "tag", "ws", "mqtt"):
        return None
    name = re.match(r"[^\s\[\]{}()<>\"',;]+", text[at:])
    shown = name.group() if name else f"{prefix}:…"
    return f"An IRI stands in angle brackets: <{shown[:60]}>"


def _stream_name(text: str, at: int) -> WindowMistake | None:
    if text[at : at + 1] in ("'", '"'):
        quoted = re.match(r"(['\"])([^'\"\s<>]*)\1", text[at:])
        name = quoted.group(2) if quoted else "…"
        return WindowMistake("a stream is named by an IRI, not by a string", f"Write <{name}>.")
    bare = _BARE.match(text, at)
    if bare is None:
        return None
    name = bare.group()
    return WindowMistake(
        f'"{name}" is not the name of a stream: the colon of a prefix or the brackets of an IRI are missing',
        f"Write <{name}> for the server's stream of that name, or :{name} with PREFIX : <…> before it.",
    )


def _kind(dialect: Dialect, word: str) -> WindowMistake | None:
    """Return the mistake at the first word between the brackets of a window."""
    if word in _WINDOW_WORDS:
        return WindowMistake(None, f"Write {_WINDOW_WORDS[word]}.")
    if word in ("slide", "step"):
        return WindowMistake("the width stands before the step", f"Write {_EXAMPLE[dialect]}.")
    return None


def _in_window(text: str, at: int, before: str, word: str, char: str) -> WindowMistake | None:
    """Return the mistake after the number between the brackets of a window."""
    number = _DURATION.search(before)
    if char == "," and number is not None and text[at + 1 : at + 2].isdigit():
        return WindowMistake(
            "a number has a point, not a comma", f"Write {number.group('number')}.5 for a half."
        )
    if char == "{":
        return WindowMistake("the window is not closed", "Write ] before the brace.")
    if char == ")":
        return WindowMistake("the window began with a square bracket", "Write ] instead of ).")
    if number is None or not word:
        return None
    days = _DAYS.get(word.removesuffix("s"))
    if days is not None:
        amount = float(number.group("number")) * days
        return WindowMistake(
            f'unexpected "{word}", which is no unit of time',
            f"Write {amount:g}d: units are ns, ms, s, m, h, d, or seconds, minutes, hours, days.",
        )
    if word in ("lateness", "report", "slide", "step", "starting", "tick", "tumbling"):
        return None
    return WindowMistake(
        f'unexpected "{word}", which is no unit of time',
        "Units are ns, ms, s, m, h, d, or milliseconds, seconds, minutes, hours, days.",
    )
