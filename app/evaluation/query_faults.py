"""A query that the store refused, read again by the parser of continuous queries, which tells faults better.

The store's parser tries every way to go on and names the place where the last one ended; ours names the
token that is wrong, what it should be, and lists independent faults together. It reads a text only when the
store has refused it, when it breaks a rule about scopes (store/sparql/scopes.py), or when the store would
take a name in HAVING for a variable without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QuadrillError, QueryTextError
from quadrill.store.sparql.scopes import check_scopes, may_break_scopes

_HAVING = re.compile("having", re.IGNORECASE)


@contextmanager
def told_better(text: str, base_iri: str) -> Iterator[None]:
    """Within it a refused text is told as our parser sees it.

    Args:
        text: the query as the client sent it.
        base_iri: what its relative IRIs resolve against.

    Raises:
        QueryTextError: ours, or the store's where our parser finds no fault or has no place for it.
    """
    try:
        yield
    except QueryTextError as refused:
        found = _found(text, base_iri)
        if found is None:
            raise
        raise found from refused


def refuse_unchecked(text: str, base_iri: str) -> None:
    """Refuse a query that the store would take although SPARQL's rules about scopes forbid it.

    So is one whose HAVING names a SELECT alias, as continuous queries may. In SPARQL that is a variable
    without a value: the store would answer with no rows.

    Raises:
        QueryTextError: it is such a one.
    """
    if may_break_scopes(text):
        with told_better(text, base_iri):
            check_scopes(text)
    if _HAVING.search(text) is None:
        return
    try:
        named = parse(text, dialect="sparql", base_iri=base_iri).named_aliases
    except QuadrillError:
        # The store judges it.
        return
    if named:
        raise QueryTextError(
            f"HAVING names ?{named[0]}, which SPARQL binds only behind it",
            hint="Write its expression again in HAVING; continuous queries may name aliases there.",
        )


def _found(text: str, base_iri: str) -> QueryTextError | None:
    try:
        parse(text, dialect="sparql", base_iri=base_iri)
    except QueryTextError as error:
        return error if error.code == QueryTextError.code and error.line is not None else None
    except QuadrillError:
        pass
    return None
