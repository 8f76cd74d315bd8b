"""Streams and graphs that queries make and others read, and whether a query would read what it makes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .graphs import EVERY_GRAPH, Flow


def is_read(made: Flow, read: Collection[Flow]) -> bool:
    """True when what is made there can change the answer of a query that reads this."""
    return made in read or (made[0] == "graph" and EVERY_GRAPH in read)


def find_cycle(
    made: Iterable[Flow], own: Collection[Flow], others: Sequence[tuple[Collection[Flow], Sequence[Flow]]]
) -> tuple[Flow, Flow] | None:
    """What of that made leads, over what others make of what they read, to what its maker reads, and to what.

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
