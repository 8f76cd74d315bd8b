"""Which queries are light enough to be evaluated within the server process, where nothing can stop them.

The judgement follows from the skeleton of a text, once for all that differ in constants, and from the sizes
of the graphs that it names. What is not known counts as heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from quadrill.continuous.analysis.prepared import constant_named, prepared
from quadrill.continuous.analysis.query import Shape
from quadrill.store.sparql.skeletons import MOST_CHARACTERS, SplitText, split_constants

BOUND = 10_000_000
"""Combinations of quads that are tried within some seconds."""
MAX_SCANNED_QUADS = 2_000_000
"""A single pattern may run over that many quads before its rows are sorted or counted."""
MOST_HELD = 1_000_000
"""Combinations that may be sorted, grouped or kept apart: a row of three variables takes 200 bytes."""
MOST_JOINED = 100_000
"""Combinations whose texts GROUP_CONCAT may put together; nothing limits its result within the server."""

_SHORT_CHARACTERS = 1_000
_GROUP = r"\{(?:[^{}]|\{[^{}]*+\})*+\}\s*"
_SHORT_UPDATE = re.compile(
    rf"\s*(?:(?:INSERT|DELETE)\s+DATA\s*{_GROUP}"
    rf"|(?:DELETE\s*{_GROUP})?(?:INSERT\s*{_GROUP})?WHERE\s*(?P<where>{_GROUP})"
    rf"|DELETE\s+WHERE\s*(?P<both>{_GROUP}))",
    re.IGNORECASE | re.ASCII,
)

SLOW_SECONDS = 1.0
MAX_SLOW_TEXTS = 1000


class SlowTexts:
    """Texts that took long although they were taken for light: the next time they go to a worker."""

    def __init__(self, after_seconds: float = SLOW_SECONDS) -> None:
        self.texts: dict[str, None] = {}
        self.after_seconds = after_seconds

    def ended(self, text: str, seconds: float) -> None:
        """Learn from an evaluation within the server."""
        if seconds < self.after_seconds or len(text) > MOST_CHARACTERS:
            return
        if len(self.texts) >= MAX_SLOW_TEXTS:
            self.texts.clear()
        self.texts[text] = None


def _unknown_size(graph: str) -> int | None:
    return None


def is_light(
    shape: Shape,
    constants: Sequence[str],
    quads: int,
    size_of: Callable[[str], int | None] = _unknown_size,
) -> bool:
    """True when the evaluation over so many quads is short, or streams so that it can be stopped.

    Args:
        shape: of the query.
        constants: of its text.
        quads: in the whole store.
        size_of: the number of quads in a named graph, None where there is no such graph. It is asked for
            graphs that a query names which would be heavy otherwise.
    """
    if shape.is_unjudged:
        return False
    return _is_light(shape, quads) or _is_bounded_by_its_graphs(shape, constants, quads, size_of)


def _is_light(shape: Shape, quads: int) -> bool:
    if max(quads, 2) ** shape.patterns <= _most(shape):
        return True
    if shape.components > 1:
        return False
    if shape.patterns <= 1:
        return shape.anchored or not shape.buffers_rows or quads <= MAX_SCANNED_QUADS
    return shape.anchored


def _most(shape: Shape) -> int:
    return MOST_JOINED if shape.concatenates else MOST_HELD if shape.buffers_rows else BOUND


def _is_bounded_by_its_graphs(
    shape: Shape, constants: Sequence[str], quads: int, size_of: Callable[[str], int | None]
) -> bool:
    """True when the sizes of the graphs that are named leave few combinations of quads to try."""
    if not any(shape.graphs):
        return False
    combinations = 1
    for graph in shape.graphs:
        name = None if graph is None else constant_named(graph, constants)
        # Segments of dots may go when an IRI is resolved, even one that is absolute.
        known = name is not None and _SCHEME.match(name) and not _DOTS.search(name)
        size = size_of(name) if known and name is not None else None
        combinations *= max(quads if size is None else size, 2)
        if combinations > _most(shape):
            return False
    return True


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_DOTS = re.compile(r"[:/]\.")


def is_short_update(text: str) -> bool:
    """True for one operation with data, or with a WHERE part that goes along quads from known terms.

    It is asked where others wait, so that it answers False for a skeleton that comes for the first time.
    """
    if len(text) > _SHORT_CHARACTERS:
        return False
    parts = split_constants(text)
    known = _short_updates.get(parts.skeleton)
    if known is None:
        came_before = parts.skeleton in _short_updates
        if len(_short_updates) >= _MOST_SHORT_UPDATES:
            _short_updates.clear()
        known = _short_updates[parts.skeleton] = _is_short_update(parts, parse=came_before)
    return bool(known)


_MOST_SHORT_UPDATES = 2048
_short_updates: dict[tuple[str, str], bool | None] = {}
"""Whether a skeleton is that of a short update; None for one that came once."""


def _is_short_update(parts: SplitText, *, parse: bool) -> bool | None:
    operation = _SHORT_UPDATE.fullmatch(parts.body)
    if operation is None:
        return False
    where = operation["where"] or operation["both"]
    if where is None or not parse:
        return True if where is None else None
    select = f"{parts.prologue}SELECT * {where}"
    shape = prepared(select, SplitText("", select, ())).shape
    return shape.anchored and shape.components <= 1 and not (shape.is_unjudged or shape.buffers_rows)
