"""Key groups: the group of a key, the groups of an element, and the restriction of a query to one group.

element  <r1> :sensor <s7> ; :value 3      routes  (?r :sensor ?s) with the key ?s
key      <s7>                              group   crc32("<s7>") % 64
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from zlib import crc32

from pyoxigraph import Literal, NamedNode, Triple

from quadrill.store.documents.statements import term_of
from quadrill.store.documents.subject_columns import Statement, Statements, SubjectColumns
from quadrill.store.terms import Term, term_text

from ..algebra import scalar_functions
from ..algebra.build import children, with_children
from ..algebra.nodes import Algebra, Constant, Filter, FunctionCall, Path, TriplePattern, TripleTerm, Var
from ..algebra.scalar_functions import ScalarFunction
from ..expressions.oxigraph import canonical

IN_GROUP = NamedNode("urn:quadrill:in-key-group")
"""The function that is true for a term, a number of key groups and the number of the term's group."""
_TRUE, _FALSE = (
    Literal(text, datatype=NamedNode("http://www.w3.org/2001/XMLSchema#boolean"))
    for text in ("true", "false")
)
_REMEMBERED = 65_536

KeysOf = Callable[[Statements], set[str]]
"""A function that returns the keys of an element as N-Triples texts; it may return further terms."""


def group_of(text: str, groups: int) -> int:
    """Return the key group of a term in N-Triples syntax.

    >>> group_of("<urn:a>", 1)
    0
    """
    return crc32(text.encode()) % groups


@lru_cache(maxsize=_REMEMBERED)
def _in_group(term: Term, groups: Literal, group: Literal) -> Term:
    return _TRUE if group_of(term_text(term), int(groups.value)) == int(group.value) else _FALSE


scalar_functions.add(IN_GROUP, ScalarFunction(_in_group, (3,), is_built_in=True))


def restricted(node: Algebra, pattern: Algebra, key: Var, groups: int, group: int) -> Algebra:
    """Return an algebra whose ``pattern`` keeps only the solutions with a key of one group."""
    if node is pattern:
        numbers = (Constant(canonical(Literal(groups))), Constant(canonical(Literal(group))))
        return Filter(FunctionCall(IN_GROUP, (key, *numbers)), node)
    return with_children(node, [restricted(each, pattern, key, groups, group) for each in children(node)])


def keys_by(routes: Sequence[TriplePattern | Path], key: Var) -> KeysOf:
    """Return a function from an element's statements to the keys that the routes find in them.

    The keys of an element may include terms that no solution of the query binds: the element then reaches a
    group that does not need it.
    """
    exact = [found for each in routes if (found := _exact(each, key)) is not None]
    every = len(exact) < len(routes)
    plain = _of_one_subject(exact) if not every else None

    def keys_of(statements: Statements) -> set[str]:
        if plain is not None and type(statements) is SubjectColumns:
            return plain(statements)
        found: set[str] = set()
        for statement in statements:
            if every:
                found |= _every_term(statement)
                continue
            for places, fixed in exact:
                if all([statement[place] == text for place, text in fixed]):
                    found.add(statement[places[0]])
        return found

    return keys_of


_Exact = tuple[tuple[int, ...], tuple[tuple[int, str], ...]]


def _exact(route: TriplePattern | Path, key: Var) -> _Exact | None:
    """Return the places of the key and the constants of a triple pattern; None for any other route."""
    if isinstance(route, Path):
        return None
    terms = (route.subject, route.predicate, route.object)
    if any(isinstance(each, TripleTerm) for each in terms):
        return None
    places = tuple(place for place, each in enumerate(terms) if each == key)
    fixed = tuple(
        (place, term_text(canonical(each)))
        for place, each in enumerate(terms)
        if not isinstance(each, (Var, TripleTerm))
    )
    return places, fixed


def _of_one_subject(exact: Sequence[_Exact]) -> Callable[[SubjectColumns], set[str]] | None:
    """Return a fast function for elements in columns, if each route names its predicate and the key once."""
    by_predicate: dict[str, list[int]] = {}
    for places, fixed in exact:
        if len(places) != 1 or places[0] == 1 or len(fixed) != 1 or fixed[0][0] != 1:
            return None
        by_predicate.setdefault(fixed[0][1], []).append(places[0])

    def keys_of(columns: SubjectColumns) -> set[str]:
        found: set[str] = set()
        for predicate, value in zip(columns.predicates.texts, columns.objects, strict=True):
            for place in by_predicate.get(predicate, ()):
                found.add(value if place else columns.subject)
        return found

    return keys_of


def _every_term(statement: Statement) -> set[str]:
    """Return all terms of a statement, including those inside triple terms."""
    found = set(statement[:3])
    for text in statement[:3]:
        if text.startswith("<<"):
            found |= _inner_terms(text)
    return found


def _inner_terms(text: str) -> set[str]:
    found: set[str] = set()
    waiting = [term_of(text)]
    while waiting:
        term = waiting.pop()
        found.add(term_text(term))
        if isinstance(term, Triple):
            waiting += [term.subject, term.predicate, term.object]
    return found
