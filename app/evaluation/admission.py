"""Admission: the decision whether a query is light enough to run in the server process.

The decision depends on the skeleton of the query text (the text without constants), which is analysed once,
and on the sizes of the graphs that the text names. A query whose cost is unknown counts as heavy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from quadrill.continuous.analysis.prepared import constant_named, prepared
from quadrill.continuous.analysis.query import QueryShape
from quadrill.store.sparql.skeletons import MOST_CHARACTERS, SplitText, split_constants

BOUND = 10_000_000
"""Maximum number of combinations of quads that a light query tries, which takes Oxigraph some seconds."""
MAX_SCANNED_QUADS = 2_000_000
"""Maximum size of the store in quads for a light query with one pattern whose rows are sorted or counted."""
MOST_HELD = 1_000_000
"""Maximum number of rows that a light query may buffer; a row of three variables takes 200 bytes."""
MOST_JOINED = 100_000
"""Maximum number of rows of a light query with GROUP_CONCAT, whose result has no size limit."""

_SHORT_CHARACTERS = 1_000
_GROUP = r"\{(?>[^{}]|\{[^{}]*+\})*+\}\s*"
_SHORT_UPDATE = re.compile(
    rf"\s*(?:(?:INSERT|DELETE)\s+DATA\s*{_GROUP}"
    rf"|(?:DELETE\s*{_GROUP})?(?:INSERT\s*{_GROUP})?WHERE\s*(?P<where>{_GROUP})"
    rf"|DELETE\s+WHERE\s*(?P<both>{_GROUP}))",
    re.IGNORECASE | re.ASCII,
)

SLOW_SECONDS = 1.0
MAX_SLOW_TEXTS = 1000


class SlowTexts:
    """Texts of light queries that ran for more than a second; a worker process executes the next run."""

    def __init__(self, after_seconds: float = SLOW_SECONDS) -> None:
        self.texts: dict[str, None] = {}
        self.after_seconds = after_seconds

    def ended(self, text: str, seconds: float) -> None:
        """Remember the text of a query if its evaluation in the server took too many seconds."""
        if seconds < self.after_seconds or len(text) > MOST_CHARACTERS:
            return
        if len(self.texts) >= MAX_SLOW_TEXTS:
            self.texts.clear()
        self.texts[text] = None


def _unknown_size(graph: str) -> int | None:
    return None


def is_light(
    shape: QueryShape,
    constants: Sequence[str],
    quads: int,
    size_of: Callable[[str], int | None] = _unknown_size,
) -> bool:
    """Return True if a query is light: its evaluation is short, or returns rows often enough to be stopped.

    Args:
        shape: the number of patterns and other properties of the query's algebra.
        constants: the constants of the query text.
        quads: number of quads in the store.
        size_of: returns the number of quads in a named graph, or None for an unknown graph; called only if
            the size of the whole store does not show that the query is light.
    """
    if shape.is_unjudged:
        return False
    return _is_light(shape, quads) or _is_bounded_by_its_graphs(shape, constants, quads, size_of)


def _is_light(shape: QueryShape, quads: int) -> bool:
    if max(quads, 2) ** shape.patterns <= _most(shape):
        return True
    if shape.components > 1:
        return False
    if shape.patterns <= 1:
        return shape.anchored or not shape.buffers_rows or quads <= MAX_SCANNED_QUADS
    return shape.anchored


def _most(shape: QueryShape) -> int:
    return MOST_JOINED if shape.concatenates else MOST_HELD if shape.buffers_rows else BOUND


def _is_bounded_by_its_graphs(
    shape: QueryShape, constants: Sequence[str], quads: int, size_of: Callable[[str], int | None]
) -> bool:
    """Return True if the sizes of the graphs that a query names limit its quad combinations enough."""
    if not any(shape.graphs):
        return False
    combinations = 1
    for graph in shape.graphs:
        name = None if graph is None else constant_named(graph, constants)
        # The resolution of an IRI may remove dot segments, so a graph's name may differ from the constant in
        # the text.
        known = name is not None and _SCHEME.match(name) and not _DOTS.search(name)
        size = size_of(name) if known and name is not None else None
        combinations *= max(quads if size is None else size, 2)
        if combinations > _most(shape):
            return False
    return True


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_DOTS = re.compile(r"[:/]\.")


def is_short_update(text: str) -> bool:
    """Return True for a short update: one operation with data, or with a WHERE part that starts at constants.

    The fast lane calls `is_short_update`, so it must be fast: a WHERE part with a new skeleton is not parsed,
    and the result is False at its first occurrence.
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
"""Maps the skeleton of an update's text to True if such updates are short; None: seen once, not analysed."""


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
