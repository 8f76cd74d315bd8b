"""Rewrites one-shot texts that use a construct which Oxigraph evaluates incorrectly.

A query text that needs no correction reaches Oxigraph unchanged, byte for byte. Regular expressions first
decide whether a text may contain a construct that Oxigraph evaluates incorrectly; only then is the text
parsed, rewritten and printed (algebra/corrections.py lists the constructs).
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
"""Maximum length in characters of a text that is parsed to rewrite what Oxigraph evaluates incorrectly."""

_MOST_KNOWN = 256
"""Maximum number of cached corrected texts; a full cache is cleared."""

Functions = Mapping[NamedNode, Callable[..., Term | None]]


class Corrected(NamedTuple):
    """A corrected text, which Oxigraph evaluates in place of the original text.

    Attributes:
        text: a SPARQL query with all IRIs in full.
        functions: the custom functions that the text calls, by IRI.
        base: the IRI of the BASE declaration of the original text, against which IRI() resolves; None if the
            original text has no BASE of its own.
    """

    text: str
    functions: Functions
    base: str | None

    @property
    def with_base(self) -> str:
        """The corrected text with its BASE declaration, if it has one."""
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
    """Return a query corrected for Oxigraph; None if the query needs no correction.

    Args:
        text: the query.
        base_iri: the IRI that relative IRIs of the text resolve against.
        body: the text without prologue and constants (store/sparql/skeletons.py), if the caller has split the
            text.
        merged: the default graph, which the request names apart from the text, is merged from several graphs.
        is_node: tells whether a constant certainly occurs as a node of a graph.
        change: a further rewriting of the algebra; with one, every text is printed from its algebra except a
            text that is too long to be parsed, for which the function returns None.

    Raises:
        UnsupportedError: the text has a regular expression with a back-reference.
        LimitError: the text needs a correction and is too long to be parsed.
        QueryTextError, UnsupportedError: with ``change``, the query text is wrong or uses a construct that
        the parser does not support.
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
    # A correction that asked `is_node` depends on the data, so a text with such a correction is corrected for
    # each request.
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
    """Correct a query text without the cache, with the arguments and errors of `corrected_text`."""
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
        # A text that cannot be parsed is not corrected, because Oxigraph reports the syntax error.
        return None
    own = bool(query.dataset.default or query.dataset.named)
    merged = merged or len(query.dataset.default) > 1
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
"""Cache of corrected texts that do not depend on the data; None for a text that needs no correction."""


@lru_cache(maxsize=2048)
def _may_need(body: str) -> bool:
    return may_need(body)


_parsed = lru_cache(maxsize=256)(parsed)


_CONSTANTS = re.compile(
    r"<[^<>\"{}|^`\x00-\x20]*+>|\"(?>[^\"\\\\]|\\\\.)*+\"|'(?>[^'\\\\]|\\\\.)*+'", re.DOTALL
)


def _check_long(text: str, *, merged: bool) -> None:
    """Reject a text that is too long to be parsed and uses a construct that needs a correction."""
    plain = _CONSTANTS.sub("<>", text)
    named = (
        CORRECTIONS[-1] if merged else next((each for each in CORRECTIONS if each.mark.search(plain)), None)
    )
    if named is not None:
        raise LimitError(
            f"a text of {len(text):,} characters may not use {named.name}; the most is {MOST_CHARACTERS:,}",
            hint="Shorten the text, or put its data into a graph.",
        )
