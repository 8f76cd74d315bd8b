"""Data flow between queries and rule sets: what they write and read, and cycles among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from .graphs import EVERY_GRAPH, Flow

FlowEdge: TypeAlias = tuple[Collection[Flow], Sequence[Flow]]
"""The inputs and the outputs of one query or rule set."""


def is_read(made: Flow, read: Collection[Flow]) -> bool:
    """Return True if writing the flow ``made`` can change a query that reads the flows ``read``."""
    return made in read or (made[0] == "graph" and EVERY_GRAPH in read)


def find_cycle(
    made: Iterable[Flow], own: Collection[Flow], others: Sequence[FlowEdge]
) -> tuple[Flow, Flow] | None:
    """Return an output of a query and the input of the query that it reaches, directly or not, or None.

    ``own`` are the inputs of the query; ``others`` are those of the other queries and of rule sets, with
    their outputs. The query may be a rule set.

    >>> a, b = ("stream", "urn:a"), ("stream", "urn:b")
    >>> find_cycle([a], {b}, [({a}, [b])]), find_cycle([a], {b}, [])
    ((('stream', 'urn:a'), ('stream', 'urn:b')), None)
    """
    for start in made:
        reached = [start]
        for node in reached:
            if is_read(node, own):
                return start, node
            for reads, makes in others:
                if is_read(node, reads):
                    reached += [each for each in makes if each not in reached]
    return None
