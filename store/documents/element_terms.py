"""Conversion of elements' terms: values to the store's canonical form, blank nodes to unique labels."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from quadrill.store.terms import store_form, term_text

from .statements import STORED_VALUE, term_of
from .subject_columns import Statement, Statements

_ATOM = re.compile(r'<[^<(>][^>]*+>|"(?>[^"\\]++|\\.)*+"|_:[^\s]++', re.DOTALL)
"""Matches one term in N-Quads: inside a triple term, or alone."""


def as_stored(statements: Statements) -> tuple[Statements, bool]:
    """Return quads with canonical values, and whether a blank node may be among them."""
    forms: dict[str, str] = {}
    blank = False
    # Most values of a document occur several times in it, so each distinct value is converted once.
    for value in {value for _, _, value, _ in statements}:
        nested = value.startswith("<<")
        if nested or (value[0] == '"' and value[-1] == ">" and not STORED_VALUE(value)):
            term: Any = term_of(value)
            form = store_form(term)
            if form is not term and form != term:
                forms[value] = term_text(form)
        blank = blank or nested or value[0] == "_"
    blank = blank or any([subject[0] == "_" or graph[:1] == "_" for subject, _, _, graph in statements])
    if forms:
        statements = tuple([(s, p, forms.get(value, value), g) for s, p, value, g in statements])
    return statements, blank


def relabel_blank_nodes(statements: Iterable[Statement], stream: str, seq: int) -> Statements:
    """Return the quads of an element with blank node labels that no other element has.

    The new label of a blank node is a function of the stream, the sequence number of the element and the
    position of the label in the element, so a replay gives the same terms.
    """
    prefix = f"_:e{_digest(stream)}x{seq}x"
    labels: dict[str, str] = {}

    def label(text: str) -> str:
        renamed_label = labels.get(text)
        if renamed_label is None:
            renamed_label = labels[text] = f"{prefix}{len(labels)}"
        return renamed_label

    def renamed(text: str) -> str:
        if text[:1] == "_":
            return label(text)
        return _ATOM.sub(of_label, text) if text[:2] == "<<" and "_:" in text else text

    def of_label(match: re.Match[str]) -> str:
        text = match[0]
        return label(text) if text[0] == "_" else text

    return tuple(
        [
            (renamed(subject), predicate, renamed(value), renamed(graph) if graph else graph)
            for subject, predicate, value, graph in statements
        ]
    )


@lru_cache(maxsize=1_024)
def _digest(stream: str) -> str:
    return hashlib.sha256(stream.encode()).hexdigest()[:12]
