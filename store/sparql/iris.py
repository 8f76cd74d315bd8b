"""Resolution of IRI tokens of SPARQL texts, by Oxigraph's own parser."""

from __future__ import annotations

import re
from typing import Any

from pyoxigraph import NamedNode, QuerySolutions, Store

from ..documents.wall_clock import require_epoch
from ..errors import QueryTextError

_ABSOLUTE = re.compile(r"<[A-Za-z][A-Za-z0-9+.\-]*:[^\\]*>")


def resolve_iri(token: str, prologue: str, **options: Any) -> NamedNode:
    """Return the absolute IRI of a relative or prefixed token; ``options`` go to Oxigraph's ``query``.

    Raises:
        QueryTextError: the token is no IRI, its prefix is not declared, or a relative IRI has no base.
    """
    try:
        if _ABSOLUTE.fullmatch(token):
            return NamedNode(token[1:-1])
        require_epoch()
        solutions = Store().query(f"{prologue} SELECT ({token} AS ?iri) {{}}", **options)
    except (SyntaxError, ValueError) as error:
        raise QueryTextError(
            f"{token} is not a valid IRI here", hint="declare its prefix, or BASE for a relative IRI"
        ) from error
    assert isinstance(solutions, QuerySolutions)
    term = next(iter(solutions))[0]
    assert isinstance(term, NamedNode)
    return term
