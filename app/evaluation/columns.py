"""The column order of ``SELECT *``.

SPARQL leaves the order of the columns of ``SELECT *`` open; users, and the CSV results of the W3C tests,
expect the order of first occurrence in the text. Oxigraph returns columns of ``SELECT *`` in alphabetical
order, so the star is replaced by variables before Oxigraph gets the text.
"""

from __future__ import annotations

import re

from quadrill.continuous.analysis.prepared import MOST_PARSED, prepared
from quadrill.continuous.language.parser import parse
from quadrill.store.errors import ReportedError
from quadrill.store.sparql.skeletons import split_constants

_SPACE = r"(?>[ \t\r\n]|\#[^\r\n]*+)"
_IRI = r"<[^<>\"{}|^`\x00-\x20]*+>"
_STAR = re.compile(
    rf"(?>{_SPACE}|PREFIX{_SPACE}++[^\s<:]*+:{_SPACE}*+{_IRI}|BASE{_SPACE}*+{_IRI}"
    rf"|VERSION{_SPACE}*+(?:\"[^\"\\\r\n]*+\"|'[^'\\\r\n]*+'))*+"
    rf"SELECT{_SPACE}*+(?:(?:DISTINCT|REDUCED){_SPACE}*+)?\*",
    re.IGNORECASE,
)
"""Pattern of a query's prologue and outermost ``SELECT``, up to and including its star."""


def with_ordered_columns(text: str) -> str:
    """Replace the star of a query's outermost ``SELECT *`` by its variables in order of first occurrence.

    A query text that the parser of continuous queries rejects, or a text without variables, is returned
    unchanged.
    """
    star = _STAR.match(text) if "*" in text else None
    if star is None:
        return text
    columns = prepared(text, split_constants(text)).columns
    if not columns and len(text) > MOST_PARSED:
        columns = _columns_of(text)
    if not columns:
        return text
    return text[: star.end() - 1] + " ".join([f"?{name}" for name in columns]) + text[star.end() :]


def _columns_of(text: str) -> tuple[str, ...]:
    """Return the columns of a long query text, which is parsed because long texts are not cached."""
    try:
        return tuple([column.name for column in parse(text, dialect="sparql").columns])
    except ReportedError:
        return ()
