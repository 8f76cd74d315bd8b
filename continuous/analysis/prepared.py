"""Analysis of one-shot texts, shared by all texts that differ only in constants.

    SELECT * { <http://e/a> ?p ?o }   --cut-->   SELECT * { <> ?p ?o }   --parsed-->   columns p and o

The cached analysis of a skeleton contains nothing that depends on constants. The sizes of graphs that a text
names, for example, are looked up for each query text, by the numbers of its constants. If the parser rejects
a query text, its analysis is empty.
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
from .query import NOT_JUDGED, QueryShape, shape_of

LIMITS = LanguageLimits(characters=200_000, nesting=1_000, patterns=20_000, operators=1_000)
"""Limits on the size of texts that are parsed for analysis; parsing 150 kB takes about one second."""

MOST_PARSED = 20_000
"""Upper bound in characters of an analysed skeleton, without rows of VALUES; longer texts have no
analysis."""
_MOST_KEPT = 4_000_000
"""Maximum total length in characters of all cached skeletons; when it is exceeded, the cache is cleared."""
_MOST_TEXTS = 4_000
NUMBERED = re.compile(r"(.*)quadrill-constant-([0-9]+)")
"""Matches the IRI that stands for a constant in a skeleton: the namespace, then a number."""
_FILLINGS = {"<": "<urn:quadrill-constant-{}>", '"': '"{}"', ":": ":quadrill-constant-{}"}
_VALUES = re.compile(r"\bVALUES\s*+([?$]\w++|\([^(){}]*+\))\s*+\{[^{}]*+\}", re.IGNORECASE)
_LATERAL = re.compile(
    r"""(\"{3}(?>[^"\\]|\\.|"(?!""))*+\"{3}|'{3}(?>[^'\\]|\\.|'(?!''))*+'{3}"""
    r"""|<[^<>"{}|^`\x00-\x20]*+>|"(?>[^"\\\n]|\\.)*+"|'(?>[^'\\\n]|\\.)*+'|\#[^\n]*)"""
    r"""|(?<![\w:?$.-])LATERAL(?=\s*\{)""",
    re.IGNORECASE,
)
"""Matches LATERAL before a group; strings, IRIs and comments are matched first, so LATERAL inside them is
skipped."""


class Prepared(NamedTuple):
    """The analysis of a skeleton, a query text without its constants.

    Attributes:
        columns: the columns of a SELECT; for ``SELECT *`` the variables in the order of their first
            occurrence.
        breaks_scopes: True if the text breaks a rule about variable names that Oxigraph does not check.
        named_aliases: aliases of the SELECT clause that HAVING uses, although they are not in scope there.
        shape: the shape of the graph patterns.
        growth: upper bound of the length of the strings that expressions build.
    """

    columns: tuple[str, ...] = ()
    breaks_scopes: bool = False
    named_aliases: tuple[str, ...] = ()
    shape: QueryShape = NOT_JUDGED
    growth: Growth = Growth()

    @property
    def names_constants(self) -> bool:
        """True if the analysis refers to constants of the query text by their numbers."""
        graphs = (graph for graph in self.shape.graphs if graph is not None)
        return bool(self.growth.replacements) or any(NUMBERED.fullmatch(graph.value) for graph in graphs)


def prepared(text: str, parts: SplitText) -> Prepared:
    """Return the analysis of a text split into ``parts``; texts with equal skeletons share it."""
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
        # Constants in VALUES rows are numbered, too: with a different number of rows, the constants after the
        # rows have different numbers.
        _cache.add(whole if body == parts.body or known.names_constants else shared, known)
    return known


@dataclass(slots=True)
class _PreparedCache:
    """Cached analyses by prologue and body of a skeleton.

    The key of a cached analysis ends with True if each VALUES block was cut to one row.
    """

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
    """Return the IRI that a graph of a `QueryShape` stands for; None if the IRI is relative or escaped."""
    numbered = NUMBERED.fullmatch(graph.value)
    if numbered is None:
        return None
    constant = constants[int(numbered[2])]
    return constant[1:-1] if constant[0] == "<" else numbered[1] + constant[1:]


def parsed(text: str, base_iri: str) -> ContinuousQuery:
    """Parse a one-shot query, with the errors of `parse`."""
    # The grammar of query texts is that of SPARQL 1.1, so LATERAL is parsed as a SERVICE call, which may
    # stand at the same places and has the same scope.
    written = _without_lateral(text, f"SERVICE {n.LATERAL}")
    return parse(written, dialect="sparql", base_iri=base_iri, limits=LIMITS)


def scope_error_of(text: str, whole: str | None = None, start: int = 0) -> QueryTextError | None:
    """Return the violation of a scope rule in a text that may call LATERAL; see `scope_error`."""
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
    """Return a text with distinct constants; ``as_iris`` turns all but prefixed names into IRIs."""
    pieces, at = [], 0
    for number, (start, end) in enumerate(parts.spans(text)):
        kind = "<" if as_iris and text[start] != ":" else text[start]
        pieces += [text[at:start], _FILLINGS.get(kind, "{}").format(number)]
        at = end
    return "".join([*pieces, text[at:]])


def _with_one_row(text: str) -> str:
    """Return a text with one row per VALUES block, as the analysis ignores the number of rows."""
    return _VALUES.sub(_one_row, text) if "values" in text.lower() else text


def _one_row(block: re.Match[str]) -> str:
    names = block[1]
    row = "UNDEF" if names[0] != "(" else f"({' '.join(['UNDEF'] * len(names.strip('()').split()))})"
    return f"VALUES {names} {{ {row} }}"


def has_lateral(text: str) -> bool:
    """Return True if the query text contains the word LATERAL, possibly in a string or an IRI."""
    return "lateral" in text.lower()


def _without_lateral(text: str, instead: str) -> str:
    return _LATERAL.sub(lambda found: found[1] or instead, text) if has_lateral(text) else text
