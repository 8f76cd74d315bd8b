"""Better error messages for one-shot queries, from the parser of continuous queries.

Oxigraph's parser tries all alternatives of the grammar and names the place where the last alternative failed.
The parser of continuous queries names the wrong token and the expected one, and lists independent faults
together. The parser of continuous queries reads a one-shot query only in three cases: the store has rejected
the text, the text breaks a rule about names that the store does not check, or the store would take an alias
in HAVING for a variable without a value.
"""

from __future__ import annotations

from typing import NoReturn

from pyoxigraph import Store

from quadrill.continuous.analysis.prepared import Prepared, scope_error_of
from quadrill.continuous.language.parser import parse
from quadrill.store.documents.wall_clock import require_epoch
from quadrill.store.errors import QueryTextError, ReportedError
from quadrill.store.sparql.text_errors import text_error


def raise_better(refused: QueryTextError, text: str, base_iri: str) -> NoReturn:
    """Raise the error that the parser of continuous queries finds in a rejected text.

    Args:
        refused: the error with which the store rejected the text.
        text: the query text of the client.
        base_iri: the base of relative IRIs.

    Raises:
        QueryTextError: the error of the parser of continuous queries, or ``refused`` if that parser finds no
            fault with a line number.
    """
    found = _found(text, base_iri)
    if found is None:
        raise refused
    raise found from refused


def refusal_of(text: str, base_iri: str) -> QueryTextError | None:
    """Evaluate a query on an empty store and return its syntax error, or None for a valid text."""
    try:
        require_epoch()
        Store().query(text, base_iri=base_iri)
    except SyntaxError as error:
        return text_error(text, str(error.msg or error), base_iri=base_iri)
    except (ValueError, RuntimeError, OSError):
        pass
    return None


def refuse_unchecked(text: str, base_iri: str, known: Prepared) -> None:
    """Reject a query that the store would accept although SPARQL's rules about scopes forbid it.

    A one-shot query whose HAVING names a SELECT alias is rejected too. Continuous queries allow aliases in
    HAVING, but in SPARQL an alias has no value there, and the store would return no rows. ``known`` is the
    analysis of the query text.

    Raises:
        QueryTextError: the query breaks a rule about scopes, or its HAVING names a SELECT alias.
    """
    if known.breaks_scopes and (refused := scope_error_of(text)) is not None:
        raise_better(refused, text, base_iri)
    if known.named_aliases:
        raise QueryTextError(
            f"HAVING names ?{known.named_aliases[0]}, which SPARQL binds only behind it",
            hint="Write its expression again in HAVING; continuous queries may name aliases there.",
        )


def _found(text: str, base_iri: str) -> QueryTextError | None:
    try:
        parse(text, dialect="sparql", base_iri=base_iri)
    except QueryTextError as error:
        return error if error.code == QueryTextError.code and error.line is not None else None
    except ReportedError:
        pass
    return None
