"""What is wrong with a text, in words: place, excerpt with a caret, what was expected, a hint."""

from __future__ import annotations

from typing import Any

from lark import Lark
from lark.exceptions import UnexpectedInput

from quadrill.store.errors import QueryTextError

from .context import Context, Fault


def place_of(text: str, at: int) -> dict[str, Any]:
    """Line and column from 1, and the line with a caret line under it."""
    at = max(0, min(at, len(text)))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line_text = text[start : len(text) if end < 0 else end].rstrip("\r")
    column = at - start
    lead = "".join("\t" if char == "\t" else " " for char in line_text[:column]).ljust(column)
    excerpt = f"{line_text}\n{lead}^"
    return {"line": text.count("\n", 0, at) + 1, "column": column + 1, "excerpt": excerpt}


def error_of(context: Context) -> QueryTextError:
    """The error of all faults, the first in the text leading."""
    faults = sorted(context.faults, key=lambda fault: fault.at)
    described = tuple(_describe(context.text, fault) for fault in faults)
    first = described[0]
    return QueryTextError(
        first["message"],
        line=first["line"],
        column=first["column"],
        excerpt=first["excerpt"],
        hint=first["hint"],
        code=faults[0].code or "query-text",
        faults=described,
    )


def _describe(text: str, fault: Fault) -> dict[str, Any]:
    place = place_of(text, fault.at)
    message = f"line {place['line']}, column {place['column']}: {fault.message}"
    return {"message": message, **place, "hint": fault.hint}


def check_size(context: Context) -> None:
    pass


def explain(context: Context, grammar: Lark, error: UnexpectedInput) -> None:
    context.fault(str(error), error.pos_in_stream or 0)
