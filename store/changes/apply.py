"""Application of a net change to Oxigraph in one transaction.

Oxigraph gives Python no transaction object, but one update request is one transaction. The update request
contains quads without blank nodes as text. Text would rename blank nodes, so for quads with blank nodes the
update request calls custom functions that return the terms by row number and so keep their identity.
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
    """Apply a net change of quads and graph names to ``store`` in one transaction.

    Names of graphs that are blank nodes are added and removed one by one after the transaction, because
    SPARQL text cannot name blank nodes.

    Raises:
        OSError: the store cannot be written.
    """
    if change.added and not (change.removed or change.created or change.dropped):
        store.extend(change.added)  # `extend` is atomic, and several times faster than an update text
        return
    if len(change.added) == len(change.created) == 1 and not (change.removed or change.dropped):
        if change.added[0].graph_name == change.created[0]:
            store.extend(change.added)  # adding the quad adds its graph name, too
            return
    text, functions = change_text(change)
    if functions and not is_after_epoch():
        # Oxigraph's update would abort if the clock is before 1970. After a crash, recovery applies the
        # change again.
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
    """Return the SPARQL update text for a change, and the custom functions that the text calls.

    Args:
        change: the change; names of blank-node graphs are left out.
        by_number: pass every quad by row number instead of as text.
        names: prefix of the functions' names, different for each change in one request.
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
    """Return the quad as SPARQL text; None if the quad contains a blank node."""
    text = str(quad)
    # Terms are inspected only if the quad's text may contain a blank node, because commits can be large.
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
    """Return a SPARQL custom function that maps a row number to the row's term at index ``place``."""

    def term(number: Literal) -> Term | None:
        found = rows[int(number.value)][place]
        return None if isinstance(found, DefaultGraph) else found

    return term


def numbers(count: int) -> str:
    """Return the numbers from 0 to ``count`` - 1 as rows of a SPARQL VALUES block."""
    return " ".join(map(str, range(count)))


def _has_blank(quad: Quad) -> bool:
    return isinstance(quad.graph_name, BlankNode) or _any_blank((quad.subject, quad.object))


def _any_blank(terms: Iterable[object]) -> bool:
    return any(
        isinstance(term, BlankNode) or (isinstance(term, Triple) and _any_blank((term.subject, term.object)))
        for term in terms
    )
