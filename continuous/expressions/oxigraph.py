"""Evaluation of single operators and built-ins by Oxigraph, for compiled expressions.

Rare functions (regular expressions in Rust's syntax, arithmetic of dates and durations, casts) have no second
implementation in Python, so that both engines give the same results. A call of Oxigraph for one operator
takes about 20 µs, a cached call 0.2 µs.
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
    """Let Oxigraph evaluate ``function(arguments)``; a function is an operator, a built-in or an ``<IRI>``.

    No argument of the function may be None. The result of an operator that Oxigraph evaluates is None if
    Oxigraph reports an error of the expression. Calling a function that Oxigraph does not know raises
    Oxigraph's exception, so `known` checks names when a query is registered.
    """
    # Calls of Oxigraph with long arguments are not cached, because the cache must stay small.
    asked = _ask.__wrapped__ if any(map(_is_long, arguments)) else _ask
    term = asked(function, None, tuple(map(term_of, arguments)))
    return None if term is None else value_of(term)


def ask_with_base(function: str, base_iri: str | None, *arguments: Value) -> Maybe:
    """Evaluate like `ask`, with a base IRI for the function ``IRI()``."""
    term = _ask(function, base_iri, tuple(map(term_of, arguments)))
    return None if term is None else value_of(term)


def known(function: str, arity: int) -> str | None:
    """Return Oxigraph's error message for a function with ``arity`` arguments.

    Returns no message (None) if Oxigraph accepts the function.
    """
    names = [f"?a{number}" for number in range(arity)]
    try:
        _one(f"SELECT ({_call(function, names)} AS ?r) {{}}", "r")
    except (SyntaxError, RuntimeError, ValueError, OSError) as error:
        return str(error)
    return None


@lru_cache(maxsize=_REMEMBERED)
def canonical(term: Term) -> Term:
    """Return a term in the store's form: ``01`` becomes ``1``, an xsd:int becomes an xsd:integer."""
    if isinstance(term, Triple):
        return Triple(canonical(term.subject), term.predicate, canonical(term.object))  # type: ignore[arg-type]
    if not isinstance(term, Literal):
        return term
    stored = _one(f"SELECT ?t {{ VALUES ?t {{ {term} }} }}", "t")
    return term if stored is None else stored


@lru_cache(maxsize=_REMEMBERED)
def _ask(function: str, base_iri: str | None, arguments: tuple[Term, ...]) -> Term | None:
    # Arguments are passed to Oxigraph in VALUES, because with `substitutions` Oxigraph evaluates `=` as
    # sameTerm.
    names = [f"?a{number}" for number in range(len(arguments))]
    if any(map(_holds_blank_node, arguments)):
        # VALUES cannot contain blank nodes, and for all these functions a blank node is an error.
        return None
    values = " ".join(map(term_text, arguments))
    text = f"SELECT ({_call(function, names)} AS ?r) {{ VALUES ({' '.join(names)}) {{ ({values}) }} }}"
    return _one(text, "r", base_iri)


def _one(text: str, variable: str, base_iri: str | None = None) -> Term | None:
    """Let Oxigraph evaluate a query with exactly one solution; return the term of ``variable`` in it."""
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
