"""The column order of ``SELECT *``.

SPARQL leaves the order of the columns open; people, and the CSV results of the W3C tests, expect that of the
first occurrence in the text. Oxigraph gives the alphabetical one, so the star is written out before the text
is handed to it.
"""

from __future__ import annotations

import re

from quadrill.continuous.analysis.prepared import MOST_PARSED, prepared
from quadrill.continuous.language.parser import parse
from quadrill.store.errors import ReportedError
from quadrill.store.sparql.skeletons import split_constants

_SPACE = r"(?:[ \t\r\n]|\#[^\r\n]*+)"
_IRI = r"<[^<>\"{}|^`\x00-\x20]*+>"
_STAR = re.compile(
    rf"(?:{_SPACE}|PREFIX{_SPACE}++[^\s<:]*+:{_SPACE}*+{_IRI}|BASE{_SPACE}*+{_IRI}"
    rf"|VERSION{_SPACE}*+(?:\"[^\"\\\r\n]*+\"|'[^'\\\r\n]*+'))*+"
    rf"SELECT{_SPACE}*+(?:(?:DISTINCT|REDUCED){_SPACE}*+)?\*",
    re.IGNORECASE,
)
"""What stands before the star of the outermost SELECT, and the star."""


def with_ordered_columns(text: str) -> str:
    """The text with the outermost ``SELECT *`` replaced by the variables in order of first occurrence.

    A text that our parser refuses, or one without variables, is returned as it is: the evaluator judges it.
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
    """The columns of a long text, which nobody keeps."""
    try:
        return tuple([column.name for column in parse(text, dialect="sparql").columns])
    except ReportedError:
        return ()
