"""The column order of ``SELECT *``.

SPARQL leaves the order of the columns open; people, and the CSV results of the W3C tests, expect that of the
first occurrence in the text. Oxigraph gives the alphabetical one, so the star is written out before the text
is handed to it.
"""

from __future__ import annotations

import re

from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QuadrillError
from quadrill.store.sparql.tokens import Kind, tokens

_STAR = re.compile(r"select\s+(?:distinct\s+|reduced\s+)?\*", re.IGNORECASE)


def with_ordered_columns(text: str) -> str:
    """The text with the outermost ``SELECT *`` replaced by the variables in order of first occurrence.

    A text that our parser refuses, or one without variables, is returned as it is: the evaluator judges it.
    """
    if not _STAR.search(text):
        return text
    place = _outermost_star(text)
    if place is None:
        return text
    try:
        columns = parse(text, dialect="sparql").columns
    except QuadrillError:
        return text
    if not columns:
        return text
    return text[:place] + " ".join(f"?{column.name}" for column in columns) + text[place + 1 :]


def _outermost_star(text: str) -> int | None:
    select = False
    for token in tokens(text):
        if token.kind is Kind.PUNCT and token.text == "{":
            return None
        if token.word == "SELECT":
            select = True
        elif select and token.word not in ("DISTINCT", "REDUCED"):
            return token.start if token.text == "*" else None
    return None
