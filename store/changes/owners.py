"""Owners of graphs: views, rule sets and shapes, which alone change the quads of their graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal as OneOf

from ..errors import ConflictError
from .commit import GraphName, graph_key

_WORDS = {
    "view": ("the view of the query {}", "drop the query first"),
    "rules": ("the graph of the rule set {}", "drop the rule set first"),
    "shapes": ("the report of the shapes {}", "drop the shapes first"),
}


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a graph: a query with a view, a rule set, or shapes, with its name."""

    kind: OneOf["view", "rules", "shapes"]
    name: str

    @property
    def derived(self) -> bool:
        """True if the graph is a function of other graphs; operations such as CLEAR ALL leave it out."""
        return self.kind != "view"

    def refusal(self, graph: GraphName) -> OwnedGraphError:
        """Return the error for a write to the graph by anyone but the owner."""
        what, hint = _WORDS[self.kind]
        return OwnedGraphError(
            f"the graph {graph} is {what.format(self.name)}, which alone changes it",
            hint=f"leave it out, or {hint}",
            graph=graph_key(graph),
        )


class OwnedGraphError(ConflictError):
    """A write touches a graph that only its owner may change: HTTP 409."""

    code = "graph-owned"


Owners = Mapping[GraphName, Owner]
"""The owners of graphs, by graph; every client may write to a graph that is not in the mapping."""

NO_OWNERS: Owners = MappingProxyType({})
"""No graph has an owner."""


# The last argument of `derived_graphs` and its result, cached because a commit calls it several times.
_newest: tuple[Owners, Owners] = (NO_OWNERS, NO_OWNERS)


def derived_graphs(owned: Owners) -> Owners:
    """Return the graphs that are functions of other graphs, with their owners."""
    global _newest
    known, derived = _newest
    if known is not owned:
        derived = {graph: owner for graph, owner in owned.items() if owner.derived}
        _newest = owned, derived
    return derived


def refuse_targets(owned: Owners, targets: Iterable[GraphName], owner: Owner | None = None) -> None:
    """Refuse a write whose target is a derived graph, even if the write would change nothing.

    Args:
        owned: the owners of graphs.
        targets: the graphs that the write names.
        owner: the owner that writes; None for a client.

    Raises:
        OwnedGraphError: a target is a derived graph of another owner.
    """
    derived = derived_graphs(owned)
    if not derived:
        return
    for target in targets:
        other = derived.get(target)
        if other is not None and other != owner:
            raise other.refusal(target)
