"""A query that the store refused, read again by the parser of continuous queries, which tells faults better.

The store's parser tries every way to go on and names the place where the last one ended; ours names the
token that is wrong, what it should be, and lists independent faults together. It reads a text only when the
store has refused it, so nothing that the store takes depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from quadrill.continuous.language.parser import parse
from quadrill.store.errors import QuadrillError, QueryTextError


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


def _found(text: str, base_iri: str) -> QueryTextError | None:
    try:
        parse(text, dialect="sparql", base_iri=base_iri)
    except QueryTextError as error:
        return error if error.code == QueryTextError.code and error.line is not None else None
    except QuadrillError:
        pass
    return None
