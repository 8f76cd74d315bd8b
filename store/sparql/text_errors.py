"""Oxigraph's syntax errors as errors with line, column, excerpt and hint."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import QueryTextError
from .scan import first_mistake
from .tokens import excerpt_at, line_and_column


def text_error(
    text: str, message: str, *, base_iri: str | None = None, prefixes: Iterable[str] = ()
) -> QueryTextError:
    """Return Oxigraph's syntax error with line, column, excerpt and, for frequent mistakes, a hint.

    Oxigraph's parser backtracks, so the position of its error may lie after the mistake. An undeclared prefix
    or a relative IRI without a base is therefore searched by its token and reported at that token.

    Args:
        text: the text that the user sent.
        message: the parser's message, ``error at line:column: expected ...``.
        base_iri: the base IRI that the request gives outside of the text.
        prefixes: the prefixes that the request declares outside of the text.
    """
    line, column, expected = _place(message)
    slip = first_mistake(text, base_iri is not None, prefixes)
    if slip is not None:
        token, what, hint = slip
        line, column = line_and_column(text, token.start)
    elif line is None or column is None:
        return QueryTextError(message)
    else:
        what, hint = _shorten(expected), None
    return QueryTextError(
        f"syntax error at line {line}, column {column}: {what}",
        line=line,
        column=column,
        excerpt=excerpt_at(text, line, column),
        hint=hint,
    )


def _place(message: str) -> tuple[int | None, int | None, str]:
    head, _, rest = message.partition(": ")
    place = head.removeprefix("error at ").split(":")
    if head.startswith("error at ") and len(place) == 2 and all(part.isdigit() for part in place):
        return int(place[0]), int(place[1]), rest
    return None, None, message


def _shorten(expected: str) -> str:
    for plain in (
        "Prefix not found",
        "IRI parsing failed",
        "Variables and blank nodes are not allowed in DELETE DATA",
        "Blank nodes are not allowed in DELETE WHERE",
        "The SELECT contains a variable that is unbound",
    ):
        if plain in expected:
            return plain[0].lower() + plain[1:]
    # The message leaves out the names of character classes, which only authors of grammars understand.
    names = [name.strip() for name in expected.removeprefix("expected ").removeprefix("one of ").split(", ")]
    shown = [name for name in names if name and not name.startswith("[") and "|" not in name]
    return f"expected {' or '.join(shown)}" if shown else "unexpected text"
