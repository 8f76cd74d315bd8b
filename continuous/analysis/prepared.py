"""What is known of one-shot texts: worked out once for all that differ in constants alone.

    SELECT * { <http://e/a> ?p ?o }   --cut-->   SELECT * { <> ?p ?o }   --parsed-->   columns p and o

Nothing that depends on constants is kept here. What needs them (the sizes of the graphs that a text names)
has their numbers, and is decided for each text. Where our parser does not read a text, nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyoxigraph import NamedNode

from quadrill.store.errors import QueryTextError, ReportedError
from quadrill.store.sparql.skeletons import MOST_CHARACTERS, SplitText

from ..algebra import nodes as n
from ..algebra.query import ContinuousQuery
from ..language.context import LanguageLimits
from ..language.parser import parse, scope_error
from .growth import Growth, growth_of
from .query import NOT_JUDGED, Shape, shape_of

LIMITS = LanguageLimits(characters=200_000, nesting=1_000, patterns=20_000, operators=1_000)
"""Of texts that are parsed; it takes a second for some 150 kB."""

MOST_PARSED = 20_000
"""Characters of a skeleton, rows of data aside; nothing is known of longer ones."""
_MOST_KEPT = 4_000_000
"""Characters of all skeletons that are kept, before all are dropped."""
_MOST_TEXTS = 4_000
NUMBERED = re.compile(r"(.*)quadrill-constant-([0-9]+)")
"""The IRI of a constant: what stands before its number, and that."""
_FILLINGS = {"<": "<urn:quadrill-constant-{}>", '"': '"{}"', ":": ":quadrill-constant-{}"}
_VALUES = re.compile(r"\bVALUES\s*+([?$]\w++|\([^(){}]*+\))\s*+\{[^{}]*+\}", re.IGNORECASE)
_LATERAL = re.compile(
    r"""(\"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*+'{3}"""
    r"""|<[^<>"{}|^`\x00-\x20]*+>|"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+'|\#[^\n]*)"""
    r"""|(?<![\w:?$.-])LATERAL(?=\s*\{)""",
    re.IGNORECASE,
)
"""LATERAL before a group; strings, IRIs and comments come first."""


class Prepared(NamedTuple):
    """What is known of a skeleton.

    Attributes:
        columns: of a SELECT, those of ``*`` in the order of their first occurrence.
        breaks_scopes: it breaks a rule about names that Oxigraph does not check.
        named_aliases: of its SELECT, those that HAVING names, where SPARQL does not see them.
        shape: of its patterns.
        growth: of the values that its expressions make.
    """

    columns: tuple[str, ...] = ()
    breaks_scopes: bool = False
    named_aliases: tuple[str, ...] = ()
    shape: Shape = NOT_JUDGED
    growth: Growth = Growth()

    @property
    def names_constants(self) -> bool:
        """True when it names constants of the text by their numbers."""
        graphs = (graph for graph in self.shape.graphs if graph is not None)
        return bool(self.growth.replacements) or any(NUMBERED.fullmatch(graph.value) for graph in graphs)


def prepared(text: str, parts: SplitText) -> Prepared:
    """What is known of a text, which was cut into ``parts``, and of all others with its skeleton."""
    plain = bool(parts.constants)
    body = _with_one_row(parts.body) if plain else parts.body
    if len(body) > MOST_PARSED or len(text) > MOST_CHARACTERS:
        return Prepared()
    whole, shared = (*parts.skeleton, False), (parts.prologue, body, True)
    known = (
        _cache.texts.get(whole) if body == parts.body else _cache.texts.get(shared) or _cache.texts.get(whole)
    )
    if known is None:
        known = _analysed(_with_one_row(numbered(text, parts)) if plain else text, numbered=plain)
        # Constants of rows are numbered, too: with another number of rows those behind have other numbers.
        _cache.add(whole if body == parts.body or known.names_constants else shared, known)
    return known


@dataclass(slots=True)
class _PreparedCache:
    """What is known, by prologue and body; True: by a body with one row in each block of data."""

    texts: dict[tuple[str, str, bool], Prepared] = field(default_factory=dict)
    characters: int = 0

    def add(self, key: tuple[str, str, bool], known: Prepared) -> None:
        self.characters += len(key[1])
        if self.characters > _MOST_KEPT or len(self.texts) >= _MOST_TEXTS:
            self.texts.clear()
            self.characters = len(key[1])
        self.texts[key] = known


_cache = _PreparedCache()


def constant_named(graph: NamedNode, constants: Sequence[str]) -> str | None:
    """The IRI that a graph of a `Shape` stands for; None where it had to be resolved or unescaped."""
    numbered = NUMBERED.fullmatch(graph.value)
    if numbered is None:
        return None
    constant = constants[int(numbered[2])]
    return constant[1:-1] if constant[0] == "<" else numbered[1] + constant[1:]


def parsed(text: str, base_iri: str) -> ContinuousQuery:
    """The algebra of a one-shot query; raises as `parse`."""
    # The grammar is that of SPARQL 1.1. A call of a service has the same scope and place.
    written = _without_lateral(text, f"SERVICE {n.LATERAL}")
    return parse(written, dialect="sparql", base_iri=base_iri, limits=LIMITS)


def scope_error_of(text: str, whole: str | None = None, start: int = 0) -> QueryTextError | None:
    """See `scope_error`."""
    return scope_error(_without_lateral(text, " " * len("LATERAL")), LIMITS, whole, start)


def _analysed(text: str, *, numbered: bool) -> Prepared:
    try:
        query = parsed(text, "http://localhost/")
        columns = tuple([column.name for column in query.columns])
        growth = growth_of(query, numbered=numbered)
        return Prepared(columns, False, query.named_aliases, shape_of(query), growth)
    except RecursionError:
        return Prepared()
    except ReportedError:
        return Prepared(breaks_scopes=scope_error_of(text) is not None)


def numbered(text: str, parts: SplitText, *, as_iris: bool = False) -> str:
    """The text with constants that are all different; ``as_iris``: all but names become IRIs."""
    pieces, at = [], 0
    for number, (start, end) in enumerate(parts.spans(text)):
        kind = "<" if as_iris and text[start] != ":" else text[start]
        pieces += [text[at:start], _FILLINGS.get(kind, "{}").format(number)]
        at = end
    return "".join([*pieces, text[at:]])


def _with_one_row(text: str) -> str:
    """The text with one row in each block of data: how many there are changes nothing that is known here."""
    return _VALUES.sub(_one_row, text) if "values" in text.lower() else text


def _one_row(block: re.Match[str]) -> str:
    names = block[1]
    row = "UNDEF" if names[0] != "(" else f"({' '.join(['UNDEF'] * len(names.strip('()').split()))})"
    return f"VALUES {names} {{ {row} }}"


def has_lateral(text: str) -> bool:
    """True for a text that may call LATERAL."""
    return "lateral" in text.lower()


def _without_lateral(text: str, instead: str) -> str:
    return _LATERAL.sub(lambda found: found[1] or instead, text) if has_lateral(text) else text
