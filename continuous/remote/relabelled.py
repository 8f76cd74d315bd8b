"""Comparison of contents up to blank node labels, which some endpoints generate for each answer."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Triple

from ..algebra.nodes import Term
from .value import SourceValue

_ROUNDS = 8
"""Maximum rounds of colour refinement: a node is distinguished by rows at up to this distance."""
_MOST_NODES = 100_000
Rows: TypeAlias = list[tuple[Any, ...]]


def is_relabelled(before: SourceValue, after: SourceValue) -> bool:
    """Return True if a renaming of blank nodes was found that makes both contents equal.

    The search for a renaming of blank nodes uses colour refinement; the renaming is then applied to prove it
    right. Very symmetric contents may be equal up to a renaming that the search does not find; such contents
    count as changed.
    """
    if not before.digest or before.size != after.size:
        return False
    rows, others = _rows(before), _rows(after)
    nodes, new_nodes = _nodes(rows), _nodes(others)
    if not nodes or len(nodes) != len(new_nodes) or len(nodes) > _MOST_NODES:
        return False
    colours, new_colours = _colours(rows, nodes), _colours(others, new_nodes)
    classes: dict[int, list[str]] = defaultdict(list)
    for name in new_nodes:
        classes[new_colours[name]].append(name)
    renaming: dict[str, object] = {}
    for name in nodes:
        same = classes.get(colours[name])
        if not same:
            return False
        renaming[same.pop()] = ("node", name)
    own = {name: ("node", name) for name in nodes}
    return Counter(_keys(rows, own)) == Counter(_keys(others, renaming))


def _rows(value: SourceValue) -> Rows:
    return [*value.rows, *((each.subject, each.predicate, each.object) for each in value.quads)]


def _nodes(rows: Rows) -> list[str]:
    """Return the labels of all blank nodes in rows of a content, sorted."""
    found: set[str] = set()

    def visit(term: Term | None) -> None:
        if isinstance(term, BlankNode):
            found.add(term.value)
        elif isinstance(term, Triple):
            visit(term.subject)
            visit(term.object)

    for row in rows:
        for term in row:
            visit(term)
    return sorted(found)


def _colours(rows: Rows, nodes: list[str]) -> dict[str, int]:
    """Return a colour for each blank node, which depends on the rows around the node but not on its label."""
    colours = dict.fromkeys(nodes, 0)
    for _ in range(_ROUNDS):
        found: dict[str, list[int]] = {name: [] for name in nodes}
        for row, key in zip(rows, _keys(rows, colours), strict=True):
            for place, term in enumerate(row):
                for name in _nodes([(term,)]):
                    found[name].append(hash((place, key)))
        made = {name: hash((colours[name], *sorted(each))) for name, each in found.items()}
        if len(set(made.values())) == len(set(colours.values())) and len(set(colours.values())) > 1:
            return made
        colours = made
    return colours


def _keys(rows: Rows, names: Mapping[str, object]) -> Iterable[object]:
    """Return each row of a content with its blank nodes replaced by the given names."""
    return [tuple(_key(term, names) for term in row) for row in rows]


def _key(term: Term | None, names: Mapping[str, object]) -> object:
    if isinstance(term, BlankNode):
        return names[term.value]
    if isinstance(term, Triple):
        return (_key(term.subject, names), term.predicate, _key(term.object, names))
    return term
