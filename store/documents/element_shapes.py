r"""Regular expressions that read all lines of an element at once, for streams of similar elements.

A sensor often sends the same predicates in the same order, each with values of one datatype. When enough
elements with the same predicates were read line by line, one regular expression reads all lines of the next
element:

    (<subject>) <p1> ("number"^^<decimal>) .
    \1 <p2> ("text") .

The regular expression gives the same result as reading an element line by line, in half of the time. An
element that does not match the regular expression is read line by line. Compiling a regular expression for
elements takes a millisecond for ten lines, because IRIs are validated afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .subject_columns import PredicateList

_READS_BEFORE_SHAPE = 200
"""Number of elements with the same predicates after which a regular expression is compiled for them."""
_RETRY_FACTOR = 64
"""Factor of `_READS_BEFORE_SHAPE` after an expression for the same first predicate was given up."""
_MOST = 64
_MOST_OBJECTS = 32
"""Maximum number of objects of an element with an expression: larger expressions take long to compile."""
_MISS_WEIGHT = 4
"""Number of elements matching an expression that make up for an element that does not match."""
_MOST_MISSED = 400
_IRI = "(<[^<> ]*+>)"


class _ElementShape:
    """The regular expression for elements with a given list of predicates; ``iris`` marks IRI objects.

    The count ``missed`` grows with each element that does not match the expression, and falls with each
    element that matches.
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
    """The compiled expressions by an element's first predicate; None if such elements differ too much."""

    def __init__(self, is_iri: Callable[[str], object], plain: str, values: Mapping[str, str]) -> None:
        """Create an empty cache of expressions.

        The regular expression ``plain`` matches a plain string's text in N-Triples; ``values`` maps each
        datatype IRI to the regular expression of its literals' texts.

        The function ``is_iri`` returns whether a text is a valid IRI.
        """
        self._is_iri = is_iri
        self._plain = f'("{plain}")'
        self._values = {f"<{each}>": f'("{text}"\\^\\^<{re.escape(each)}>)' for each, text in values.items()}
        self._known: dict[str, _ElementShape | None] = {}

    def read(self, text: str, subject: str) -> tuple[PredicateList, tuple[str, ...]] | None:
        """Return predicates and objects of lines about the subject; None if no expression matches."""
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
        """Record an element that was read line by line, as a sample of the elements to come."""
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
        """Return the regular expression for objects of the same kind (IRI or datatype) as this object."""
        if text[0] == "<":
            return _IRI
        value, mark, datatype = text.rpartition('"^^')
        if mark:
            return self._values.get(datatype)
        return self._plain if text[-1] == '"' else None
