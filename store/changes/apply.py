"""A net change made in Oxigraph as one transaction.

Oxigraph gives Python no transaction object, but one update request is one transaction. Ground quads travel as
text; quads with blank nodes cannot (text would rename the nodes), so the request calls functions of ours
that hand the terms over by number, which keeps their identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store, Triple

from ..documents.wall_clock import is_after_epoch
from ..terms import Term
from .commit import NetChange

Functions: TypeAlias = dict[NamedNode, Callable[..., Term | None]]


def apply_change(store: Store, change: NetChange) -> None:
    """Make the change in one transaction.

    The exception are the names of blank-node graphs that become or stay empty: no SPARQL text can name them,
    so they are listed and unlisted one by one afterwards.

    Raises:
        OSError: the store cannot be written.
    """
    if change.added and not (change.removed or change.created or change.dropped):
        store.extend(change.added)  # atomic, and several times faster than text
        return
    if len(change.added) == len(change.created) == 1 and not (change.removed or change.dropped):
        if change.added[0].graph_name == change.created[0]:
            store.extend(change.added)  # the quad lists its graph
            return
    text, functions = change_text(change)
    if functions and not is_after_epoch():
        # Oxigraph would abort. After a crash in between the log makes the change again.
        for quad in change.removed:
            store.remove(quad)
        for name in change.dropped:
            store.remove_graph(name)
        for name in change.created:
            store.add_graph(name)
        store.extend(change.added)
        return
    if text:
        store.update(text, custom_functions=functions)
    for name in change.dropped:
        if isinstance(name, BlankNode):
            store.remove_graph(name)
    for name in change.created:
        if isinstance(name, BlankNode):
            store.add_graph(name)


def change_text(change: NetChange, *, by_number: bool = False, names: str = "q") -> tuple[str, Functions]:
    """The update request that makes the change, and the functions that it calls.

    Args:
        change: the change; names of blank-node graphs are left out.
        by_number: hand over every quad by number, none as text.
        names: begins the names of the functions; one for each change that goes into the same request.
    """
    operations: list[str] = []
    functions: Functions = {}
    _quads_text(operations, functions, f"{names}:d", "DELETE", change.removed, by_number)
    operations += [f"DROP SILENT GRAPH {name}" for name in change.dropped if isinstance(name, NamedNode)]
    operations += [f"CREATE SILENT GRAPH {name}" for name in change.created if isinstance(name, NamedNode)]
    _quads_text(operations, functions, f"{names}:i", "INSERT", change.added, by_number)
    return " ;\n".join(operations), functions


def _quads_text(
    operations: list[str], functions: Functions, names: str, verb: str, quads: Sequence[Quad], by_number: bool
) -> None:
    ground: list[str] = []
    numbered: list[Quad] = []
    for quad in quads:
        text = None if by_number else _ground_text(quad)
        if text is None:
            numbered.append(quad)
        else:
            ground.append(text)
    if ground:
        operations.append(f"{verb} DATA {{ {''.join(ground)} }}")
    in_default = [quad for quad in numbered if isinstance(quad.graph_name, DefaultGraph)]
    in_named = [quad for quad in numbered if not isinstance(quad.graph_name, DefaultGraph)]
    if in_default:
        operations.append(_by_number(functions, f"{names}:t", verb, "?s ?p ?o", in_default, "spo"))
    if in_named:
        operations.append(
            _by_number(functions, f"{names}:q", verb, "GRAPH ?g { ?s ?p ?o }", in_named, "spog")
        )


def _ground_text(quad: Quad) -> str | None:
    """The quad as SPARQL writes it, None for one with a blank node."""
    text = str(quad)
    # A large commit is many quads: their terms are looked at one by one only where there may be such a node.
    if "_:" in text and _has_blank(quad):
        return None
    graph = quad.graph_name
    if isinstance(graph, DefaultGraph):
        return f"{text} ."
    return f"GRAPH {graph} {{ {text.removesuffix(f' {graph}')} . }}"


def _by_number(
    functions: Functions, names: str, verb: str, template: str, quads: list[Quad], variables: str
) -> str:
    places = {"s": 0, "p": 1, "o": 2, "g": 3}
    binds = []
    for variable in variables:
        name = NamedNode(f"urn:quadrill:{names}:{variable}")
        functions[name] = term_function([tuple(quad) for quad in quads], places[variable])
        binds.append(f"BIND({name}(?i) AS ?{variable})")
    return f"{verb} {{ {template} }} WHERE {{ VALUES ?i {{ {numbers(len(quads))} }} {' '.join(binds)} }}"


def term_function(
    rows: Sequence[Sequence[Term | DefaultGraph | None]], place: int
) -> Callable[..., Term | None]:
    """A function for Oxigraph: the number of a row to its term at ``place``; None leaves it unbound."""

    def term(number: Literal) -> Term | None:
        found = rows[int(number.value)][place]
        return None if isinstance(found, DefaultGraph) else found

    return term


def numbers(count: int) -> str:
    """The rows of a VALUES block that counts from 0."""
    return " ".join(map(str, range(count)))


def _has_blank(quad: Quad) -> bool:
    return isinstance(quad.graph_name, BlankNode) or _any_blank((quad.subject, quad.object))


def _any_blank(terms: Iterable[object]) -> bool:
    return any(
        isinstance(term, BlankNode) or (isinstance(term, Triple) and _any_blank((term.subject, term.object)))
        for term in terms
    )
