r"""One expression for all lines of an element that looks like many before it.

A sensor sends the same predicates again and again, in one order, each with values of one kind. When enough
such elements were read line by line, all lines of the next are read by one expression:

    (<subject>) <p1> ("number"^^<decimal>) .
    \1 <p2> ("text") .

What it reads is what is read line by line, half as fast; what it does not fit goes that way. It is made from
patterns that are quickly compiled, a millisecond for ten lines: IRIs are looked at afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .subject_columns import PredicateList

_READS_BEFORE_SHAPE = 200
"""So many elements with a list of predicates were read when an expression is made for them."""
_RETRY_FACTOR = 64
"""So many times as many, when one for other elements was given up."""
_MOST = 64
_MOST_OBJECTS = 32
"""Elements with more have none: it would be large and take long to make."""
_MISS_WEIGHT = 4
"""An element that does not fit counts for so many that do."""
_MOST_MISSED = 400
_IRI = "(<[^<> ]*+>)"


class _ElementShape:
    """The expression for elements with these predicates; ``iris``: which of their objects are IRIs.

    ``missed`` grows with elements that it did not fit, and falls with others.
    """

    __slots__ = ("iris", "match", "missed", "predicates")

    def __init__(self, predicates: PredicateList, kinds: list[str]) -> None:
        lines = [
            rf"{re.escape(each)}{kind} \." for each, kind in zip(predicates.line_starts, kinds, strict=True)
        ]
        self.predicates = predicates
        self.iris = [place for place, kind in enumerate(kinds) if kind is _IRI]
        self.match = re.compile(f"{_IRI} " + r"\n\1 ".join(lines)).fullmatch
        self.missed = 0


class ElementShapes:
    """The expressions that are known, by the first predicate; None where elements are too different."""

    def __init__(self, is_iri: Callable[[str], object], plain: str, values: Mapping[str, str]) -> None:
        """``plain`` is the pattern of a string's text, ``values`` are those of values by their datatypes.

        ``is_iri`` looks at an IRI.
        """
        self._is_iri = is_iri
        self._plain = f'("{plain}")'
        self._values = {f"<{each}>": f'("{text}"\\^\\^<{re.escape(each)}>)' for each, text in values.items()}
        self._known: dict[str, _ElementShape | None] = {}

    def read(self, text: str, subject: str) -> tuple[PredicateList, tuple[str, ...]] | None:
        """Predicates and objects of lines that begin with the subject and a blank; None where none fits."""
        begin = len(subject) + 1
        first = text[begin : text.find(" ", begin)]
        shape = self._known.get(first)
        if shape is None:
            return None
        matched = shape.match(text)
        if matched is not None and self._is_iri(subject):
            objects = matched.groups()[1:]
            if all([self._is_iri(objects[place]) for place in shape.iris]):
                shape.missed -= shape.missed > 0
                return shape.predicates, objects
        shape.missed += _MISS_WEIGHT
        if shape.missed > _MOST_MISSED:
            self._known[first] = None
        return None

    def learn(self, predicates: PredicateList, objects: tuple[str, ...]) -> None:
        """An element was read line by line; its objects are of the kinds that the next have, too."""
        predicates.times_read += 1
        first = predicates.texts[0]
        due = _READS_BEFORE_SHAPE * _RETRY_FACTOR if first in self._known else _READS_BEFORE_SHAPE
        if predicates.times_read % due or self._known.get(first) is not None or len(objects) > _MOST_OBJECTS:
            return
        kinds = [kind for each in objects if (kind := self._kind(each)) is not None]
        if len(kinds) == len(objects):
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[first] = _ElementShape(predicates, kinds)

    def _kind(self, text: str) -> str | None:
        """The pattern of such objects."""
        if text[0] == "<":
            return _IRI
        value, mark, datatype = text.rpartition('"^^')
        if mark:
            return self._values.get(datatype)
        return self._plain if text[-1] == '"' else None
