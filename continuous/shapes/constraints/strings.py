"""String-based constraints: lengths, sh:pattern, sh:languageIn, sh:uniqueLang (SHACL section 4.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import Literal, NamedNode

from ...algebra.nodes import PathExpr, Term
from ...expressions.functions import regex
from ..data_graph import DataGraph
from ..dependencies import NONE, Dependencies
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component
from .common import OnTerms

_UNIQUE_LANG = component("UniqueLang")


def string_of(term: Term) -> str | None:
    """Return the text that SPARQL's STR gives for a node; None for a blank node or a triple term."""
    return term.value if isinstance(term, Literal | NamedNode) else None


@dataclass(frozen=True, slots=True)
class MinLength(OnTerms):
    """``sh:minLength``: the text of each value node has at least ``length`` characters."""

    length: int

    def fits(self, term: Term) -> bool:
        """Return True if the node has a text that is long enough."""
        text = string_of(term)
        return text is not None and len(text) >= self.length

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the length."""
        return f"is not a text of at least {_characters(self.length)}"


@dataclass(frozen=True, slots=True)
class MaxLength(OnTerms):
    """``sh:maxLength``: the text of each value node has at most ``length`` characters."""

    length: int

    def fits(self, term: Term) -> bool:
        """Return True if the node has a text that is short enough."""
        text = string_of(term)
        return text is not None and len(text) <= self.length

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the length."""
        return f"is not a text of at most {_characters(self.length)}"


@dataclass(frozen=True, slots=True)
class Pattern(OnTerms):
    """``sh:pattern`` and ``sh:flags``: SPARQL's REGEX matches the text of each value node."""

    pattern: str
    flags: str = ""

    def fits(self, term: Term) -> bool:
        """Return True if the node has a text that the pattern matches."""
        text = string_of(term)
        return text is not None and regex(text, self.pattern, self.flags) is True

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that shows the pattern."""
        return f"does not match the pattern {self.pattern!r}" + (
            f" with the flags {self.flags!r}" if self.flags else ""
        )


@dataclass(frozen=True, slots=True)
class LanguageIn(OnTerms):
    """``sh:languageIn``: each value node is a string with a language tag that one of the ranges matches."""

    ranges: tuple[str, ...]

    def fits(self, term: Term) -> bool:
        """Return True for a string whose language tag matches."""
        tag = (term.language or "").lower() if isinstance(term, Literal) else ""
        return any(_matches(tag, each.lower()) for each in self.ranges)

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that lists the languages."""
        return f"has no language tag that matches one of {', '.join(map(repr, self.ranges))}"


@dataclass(frozen=True, slots=True)
class UniqueLang:
    """``sh:uniqueLang``: no two value nodes have the same language tag."""

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result without a value for each language tag that several value nodes have."""
        literals = [data.literal(value) for value in values]
        tags = Counter(each.language.lower() for each in literals if each is not None and each.language)
        for tag, count in tags.items():
            if count > 1:
                message = f"{count} values have the language tag {tag!r}, but at most one may"
                yield shape.result(data, _UNIQUE_LANG, focus, None, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with several value nodes."""
        assert values.column is not None  # only property shapes have the constraint
        return values.nodes & values.column.subjects_of_many


def _matches(tag: str, wanted: str) -> bool:
    """Return True if SPARQL's langMatches is true for a tag and a range, both in lower case."""
    if wanted == "*":
        return tag != ""
    return tag == wanted or tag.startswith(f"{wanted}-")


def _characters(number: int) -> str:
    return "1 character" if number == 1 else f"{number} characters"
