"""Owners of graphs: views, rule sets and shapes, which alone change the quads of their graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
        """True if the graph is a function of the rest of the dataset; operations on many graphs skip it."""
        return self.kind != "view"

    def refusal(self, graph: GraphName) -> OwnedGraphError:
        """Return the error for a write of another client to the graph."""
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
"""The owners of graphs; all other graphs belong to nobody."""
