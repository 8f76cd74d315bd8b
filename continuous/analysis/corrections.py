"""One-shot texts as Oxigraph should read them: those that name a construct of the list of corrections.

A text that needs no correction is left as it is, byte for byte. Texts are judged by their marks first, then
by their algebra; only what that changes is written anew (algebra/corrections.py has the list).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from pyoxigraph import NamedNode

from quadrill.store.errors import LimitError, ReportedError, UnsupportedError
from quadrill.store.terms import Term

from ..algebra import nodes as n
from ..algebra.corrected_expressions import CORRECTING
from ..algebra.corrected_patterns import IsNode
from ..algebra.corrections import CORRECTIONS, corrected, may_need
from ..algebra.nodes import Algebra, TermPattern
from ..algebra.print_triples import parts_of
from ..algebra.regex_text import BACK_REFERENCE
from ..algebra.text import SparqlText
from ..expressions.correcting import CORRECTING_FUNCTIONS
from .prepared import LIMITS, has_lateral, parsed

MOST_CHARACTERS = LIMITS.characters
"""Longer texts are not parsed."""

_MOST_KNOWN = 256
"""Corrected texts that are kept, before all are dropped."""

Functions = Mapping[NamedNode, Callable[..., Term | None]]


class Corrected(NamedTuple):
    """A text in the place of another one.

    Attributes:
        text: SPARQL Query with all IRIs in full.
        functions: what it calls.
        base: what IRI() resolves against, where the text it comes from says so.
    """

    text: str
    functions: Functions
    base: str | None

    @property
    def with_base(self) -> str:
        """The text, on its own."""
        return self.text if self.base is None else f"BASE <{self.base}> {self.text}"


def corrected_text(
    text: str,
    base_iri: str,
    *,
    body: str | None = None,
    merged: bool = False,
    is_node: IsNode | None = None,
    change: Callable[[Algebra], Algebra] | None = None,
) -> Corrected | None:
    """A query as Oxigraph should read it; None for one that is right as it stands.

    Args:
        text: a query.
        base_iri: what its relative IRIs resolve against.
        body: what is left of the text when it is cut (store/sparql/skeletons.py), where it is known.
        merged: the default graph of its dataset, which is given beside it, is merged from several graphs.
        is_node: tells which constants the graphs surely have.
        change: what else is to be written otherwise; the text is written anew then in any case.

    Raises:
        UnsupportedError: it has a regular expression with a back-reference.
        LimitError: it is too long to be corrected.
    """
    if not merged and change is None and not _may_need(body or text):
        return None
    if change is not None or len(text) > MOST_CHARACTERS:
        return _corrected(text, base_iri, merged, is_node, change)
    key = text, base_iri, merged
    with suppress(KeyError):
        return _KNOWN[key]
    asked = False

    def is_known(term: Term, graph: TermPattern | None) -> bool:
        nonlocal asked
        asked = True
        return is_node is not None and is_node(term, graph)

    found = _corrected(text, base_iri, merged, is_known, None)
    # What depends on the data is worked out for each request.
    if not asked:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _corrected(
    text: str,
    base_iri: str,
    merged: bool,
    is_node: IsNode | None,
    change: Callable[[Algebra], Algebra] | None,
) -> Corrected | None:
    """See `corrected_text`."""
    if len(text) > MOST_CHARACTERS:
        _check_long(text, merged=merged)
        return None
    try:
        query = _parsed(text, base_iri)
    except UnsupportedError as error:
        if change is not None or error.construct == BACK_REFERENCE:
            raise
        return None
    except ReportedError:
        if change is not None:
            raise
        return None  # Oxigraph judges it
    own = bool(query.dataset.default or query.dataset.named)
    merged = (merged and not own) or len(query.dataset.default) > 1
    root, changed = corrected(query.root, merged=merged, is_node=None if own else is_node)
    if change is not None:
        root, changed = change(root), True
    if not changed and not (own and CORRECTIONS[-1].mark.search(text)):
        return None
    calls = {each.iri for each in parts_of(root) if isinstance(each, n.FunctionCall)} & CORRECTING
    base = query.base_iri if query.base_iri != base_iri and "base" in text.lower() else None
    written = SparqlText(root).query(query)
    if has_lateral(text):
        written = written.replace(f"SERVICE {n.LATERAL}", "LATERAL")
    return Corrected(written, {iri: CORRECTING_FUNCTIONS[iri] for iri in calls}, base)


_KNOWN: dict[tuple[str, str, bool], Corrected | None] = {}
"""Corrected texts that do not depend on the data."""


@lru_cache(maxsize=2048)
def _may_need(body: str) -> bool:
    return may_need(body)


_parsed = lru_cache(maxsize=256)(parsed)


_CONSTANTS = re.compile(
    r"<[^<>\"{}|^`\x00-\x20]*+>|\"(?:[^\"\\\\]|\\\\.)*+\"|'(?:[^'\\\\]|\\\\.)*+'", re.DOTALL
)


def _check_long(text: str, *, merged: bool) -> None:
    """Refuse a long text that names a construct of the list outside of its IRIs and strings."""
    plain = _CONSTANTS.sub("<>", text)
    named = (
        CORRECTIONS[-1] if merged else next((each for each in CORRECTIONS if each.mark.search(plain)), None)
    )
    if named is not None:
        raise LimitError(
            f"a text of {len(text):,} characters may not use {named.name}; the most is {MOST_CHARACTERS:,}",
            hint="Shorten the text, or put its data into a graph.",
        )
