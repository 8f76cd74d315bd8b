"""A query that the store refused, read again by the parser of continuous queries, which tells faults better.

The store's parser tries every way to go on and names the place where the last one ended; ours names the
token that is wrong, what it should be, and lists independent faults together. It reads a text only when the
store has refused it, when it breaks a rule about names that the store does not check, or when the store would
take a name in HAVING for a variable without a value.
"""

from __future__ import annotations

from typing import NoReturn

from pyoxigraph import Store

from quadrill.continuous.analysis.prepared import Prepared, scope_error_of
from quadrill.continuous.language.parser import parse
from quadrill.store.documents.wall_clock import require_epoch
from quadrill.store.errors import QueryTextError, ReportedError
from quadrill.store.sparql.text_errors import text_error


def tell_better(refused: QueryTextError, text: str, base_iri: str) -> NoReturn:
    """Raise the error of a refused text as our parser sees it.

    Args:
        refused: the store's.
        text: the query as the client sent it.
        base_iri: what its relative IRIs resolve against.

    Raises:
        QueryTextError: ours, or the store's where our parser finds no fault or has no place for it.
    """
    found = _found(text, base_iri)
    if found is None:
        raise refused
    raise found from refused


def refusal_of(text: str, base_iri: str) -> QueryTextError | None:
    """The store's error about a text, evaluated on nothing; None when it takes it."""
    try:
        require_epoch()
        Store().query(text, base_iri=base_iri)
    except SyntaxError as error:
        return text_error(text, str(error.msg or error), base_iri=base_iri)
    except (ValueError, RuntimeError, OSError):
        pass
    return None


def refuse_unchecked(text: str, base_iri: str, known: Prepared) -> None:
    """Refuse a query that the store would take although SPARQL's rules about scopes forbid it.

    So is one whose HAVING names a SELECT alias, as continuous queries may. In SPARQL that is a variable
    without a value: the store would answer with no rows. ``known`` is what is known of the text.

    Raises:
        QueryTextError: it is such a one.
    """
    if known.breaks_scopes and (refused := scope_error_of(text)) is not None:
        tell_better(refused, text, base_iri)
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
