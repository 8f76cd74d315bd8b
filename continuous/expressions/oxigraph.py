"""What Oxigraph evaluates for native expressions: one operator or built-in at a time.

Rare functions (regular expressions of Rust's syntax, arithmetic of dates and durations, casts) are not
written a second time: a second implementation could only be as good or wrong. A call costs some 20 µs, a
remembered one 0.2 µs.
"""

from __future__ import annotations

from functools import lru_cache

from pyoxigraph import BlankNode, Literal, QuerySolutions, Store, Triple

from quadrill.store.documents.wall_clock import require_epoch
from quadrill.store.terms import Term, term_text

from .values import Maybe, Value, term_of, value_of

_INFIX = frozenset({"+", "-", "*", "/", "=", "!=", "<", ">", "<=", ">=", "||", "&&"})
_REMEMBERED = 65_536
_SHORT = 1_000
_store = Store()


def ask(function: str, *arguments: Value) -> Maybe:
    """``function(arguments)`` by Oxigraph: an operator, a built-in, or a function's ``<IRI>``.

    The arguments have no error among them. None when Oxigraph gives an error. A function that Oxigraph does
    not know raises its exception, so check names with `known` when the query is registered.
    """
    # What is remembered must stay small.
    asked = _ask.__wrapped__ if any(map(_is_long, arguments)) else _ask
    term = asked(function, None, tuple(map(term_of, arguments)))
    return None if term is None else value_of(term)


def ask_with_base(function: str, base_iri: str | None, *arguments: Value) -> Maybe:
    """`ask` with a base IRI, for ``IRI()``."""
    term = _ask(function, base_iri, tuple(map(term_of, arguments)))
    return None if term is None else value_of(term)


def known(function: str, arity: int) -> str | None:
    """Oxigraph's refusal of a function with so many arguments; None when it accepts it."""
    names = [f"?a{number}" for number in range(arity)]
    try:
        _one(f"SELECT ({_call(function, names)} AS ?r) {{}}", "r")
    except (SyntaxError, RuntimeError, ValueError, OSError) as error:
        return str(error)
    return None


@lru_cache(maxsize=_REMEMBERED)
def canonical(term: Term) -> Term:
    """A term of a query text in the store's form: ``01`` is ``1``, an xsd:int is an xsd:integer."""
    if isinstance(term, Triple):
        return Triple(canonical(term.subject), term.predicate, canonical(term.object))  # type: ignore[arg-type]
    if not isinstance(term, Literal):
        return term
    stored = _one(f"SELECT ?t {{ VALUES ?t {{ {term} }} }}", "t")
    return term if stored is None else stored


@lru_cache(maxsize=_REMEMBERED)
def _ask(function: str, base_iri: str | None, arguments: tuple[Term, ...]) -> Term | None:
    # Values come through VALUES: Oxigraph's `substitutions` let it take `=` for sameTerm.
    names = [f"?a{number}" for number in range(len(arguments))]
    if any(map(_holds_blank_node, arguments)):
        return None  # VALUES cannot hold one, and it is an error to every function that is asked
    values = " ".join(map(term_text, arguments))
    text = f"SELECT ({_call(function, names)} AS ?r) {{ VALUES ({' '.join(names)}) {{ ({values}) }} }}"
    return _one(text, "r", base_iri)


def _one(text: str, variable: str, base_iri: str | None = None) -> Term | None:
    """The binding in the only solution."""
    require_epoch()
    solutions = _store.query(text, base_iri=base_iri)
    assert isinstance(solutions, QuerySolutions)
    (solution,) = solutions
    result: Term | None = solution[variable]
    return result


def _is_long(value: Value) -> bool:
    return len(value if type(value) is str else value.value if type(value) is Literal else "") > _SHORT


def _holds_blank_node(term: Term) -> bool:
    if isinstance(term, Triple):
        return _holds_blank_node(term.subject) or _holds_blank_node(term.object)
    return isinstance(term, BlankNode)


def _call(function: str, marks: list[str]) -> str:
    if function in _INFIX and len(marks) == 2:
        return f"{marks[0]} {function} {marks[1]}"
    if function in ("+", "-", "!"):
        return f"{function}{marks[0]}"
    return f"{function}({', '.join(marks)})"
