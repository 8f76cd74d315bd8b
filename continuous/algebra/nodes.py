"""The algebra: SPARQL 1.1 section 18.2 with windows, as a closed union of frozen dataclasses.

The parsers of all dialects produce algebra nodes, and all engines start from them. Variables of the algebra
are plain names without the question mark; RDF terms are pyoxigraph's. Source: SPARQL 1.1 Query Language,
https://www.w3.org/TR/sparql11-query/#sparqlAlgebra. `Window` is WINDOW of Definition 8 of the RSP-QL* paper;
STREAM blocks of CQELS-QL (ISWC 2011, section 4.1) become the same node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple

MERGED = NamedNode("urn:quadrill:window:merged")
"""Name of the window for C-SPARQL's patterns outside GRAPH: all windows and the background graphs as one
dataset."""


@dataclass(frozen=True, slots=True)
class Var:
    """A query variable; a blank node of a pattern becomes a variable whose name starts with ``_:``.

    A variable that stands for a blank node never appears in ``SELECT *`` and is not projected.
    """

    name: str

    @property
    def hidden(self) -> bool:
        """True for a variable that stands for a blank node of the pattern."""
        return self.name.startswith("_:")


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """An RDF 1.2 triple term pattern ``<<( s p o )>>``; it may contain variables at any depth."""

    subject: TermPattern
    predicate: NamedNode | Var
    object: TermPattern


TermPattern: TypeAlias = NamedNode | Literal | Triple | Var | TripleTerm


@dataclass(frozen=True, slots=True)
class TriplePattern:
    """One triple pattern of a basic graph pattern; ``subject`` is never a literal."""

    subject: TermPattern
    predicate: NamedNode | Var
    object: TermPattern


# --- property path expressions (SPARQL 1.1, section 9) ----------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """A predicate IRI."""

    iri: NamedNode


@dataclass(frozen=True, slots=True)
class Inverse:
    """``^path``."""

    path: PathExpr


@dataclass(frozen=True, slots=True)
class Sequence:
    """``left / right``."""

    left: PathExpr
    right: PathExpr


@dataclass(frozen=True, slots=True)
class Alternative:
    """``left | right``."""

    left: PathExpr
    right: PathExpr


@dataclass(frozen=True, slots=True)
class ZeroOrMore:
    """``path*``."""

    path: PathExpr


@dataclass(frozen=True, slots=True)
class OneOrMore:
    """``path+``."""

    path: PathExpr


@dataclass(frozen=True, slots=True)
class ZeroOrOne:
    """``path?``."""

    path: PathExpr


@dataclass(frozen=True, slots=True)
class NegatedSet:
    """Negated property set ``!(iri | ^iri | ...)``: forward and inverse IRIs that do not match."""

    forward: tuple[NamedNode, ...]
    inverse: tuple[NamedNode, ...]


PathExpr: TypeAlias = (
    Link | Inverse | Sequence | Alternative | ZeroOrMore | OneOrMore | ZeroOrOne | NegatedSet
)


# --- expressions (section 17) -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant in an expression: a literal, an IRI or a ground triple term."""

    term: Term


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or built-in function in an expression, by its SPARQL name in upper case.

    Operators of expressions: ``|| && ! = != < > <= >= + - * / UNARY- UNARY+ IN NOT IN`` (for the last two the
    first argument is the left side). Built-in functions of expressions: ``STR``, ``LANG``, ``IF``,
    ``COALESCE``, ``BOUND``, ``NOW``, ``TRIPLE`` ... A triple term with variables in an expression is
    ``TRIPLE(s,p,o)``.
    """

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of an extension function or a cast by IRI; calls of aggregates by IRI are `Aggregate` nodes."""

    iri: NamedNode
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS { pattern }``, or ``NOT EXISTS`` when ``negated``."""

    pattern: Algebra
    negated: bool = False


Expr: TypeAlias = Var | Constant | Call | FunctionCall | Exists


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A set function (section 18.5.1) or one of Quadrill's extension aggregates.

    ``name`` is the aggregate's name in upper case: COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT MEDIAN STDDEV
    VARIANCE PERCENTILE. An aggregate of an extension has its IRI in angle brackets as name. ``expr``, the
    aggregated expression, is None for ``COUNT(*)``. The field ``separator`` belongs to GROUP_CONCAT,
    ``parameter`` to PERCENTILE (the requested percentile, a constant between 0 and 100).
    """

    name: str
    expr: Expr | None
    distinct: bool = False
    separator: str | None = None
    parameter: Expr | None = None


# --- graph patterns ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern; if it is empty, it has one solution that binds nothing."""

    patterns: tuple[TriplePattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A property path pattern that cannot be written as a plain triple pattern."""

    subject: TermPattern
    path: PathExpr
    object: TermPattern


@dataclass(frozen=True, slots=True)
class Join:
    """Join(left, right) of the SPARQL algebra."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """LeftJoin(left, right, condition) of the SPARQL algebra; ``condition`` None means true."""

    left: Algebra
    right: Algebra
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter(condition, input) of the SPARQL algebra."""

    condition: Expr
    input: Algebra


@dataclass(frozen=True, slots=True)
class Union:
    """Union(left, right) of the SPARQL algebra."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Minus:
    """Minus(left, right) of the SPARQL algebra."""

    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Graph:
    """GRAPH name { input }; inside a window, GRAPH ranges over the graph names of the window's elements."""

    name: NamedNode | Var
    input: Algebra


@dataclass(frozen=True, slots=True)
class Window:
    """The dataset of one window: ``WINDOW <w> {}``, ``WINDOW ?w {}``, ``STREAM <s> [..] {}``.

    ``name`` is the name of a window that the query declares, or a variable that ranges over the names of all
    declared windows and is bound to them (RSP-QL*, Definition 16.6). ``stream`` is the variable of a ``STREAM
    ?s`` block, which the block binds to the stream's IRI; `rewrites.bind_streams` sets ``stream`` from the
    declarations. ``time`` is the variable of ``AT ?t``, and ``bounds`` are the variables of BOUNDS, of every
    window that the block may read; `window_times.read_window_times` replaces both.
    """

    name: NamedNode | Var
    input: Algebra
    stream: Var | None = None
    time: Var | None = None
    bounds: tuple[Var, ...] = ()

    @property
    def own_vars(self) -> tuple[Var, ...]:
        """The variables that the block binds itself, besides those of its pattern."""
        named = (self.name, self.stream, *self.bounds, self.time)
        return tuple(each for each in named if isinstance(each, Var))


LATERAL = NamedNode("urn:quadrill:lateral")
"""The IRI of a `Service` node that stands for LATERAL, which has no node class; see
`analysis.corrections`."""


@dataclass(frozen=True, slots=True)
class Service:
    """SERVICE [SILENT] name { input }; only static parts contain SERVICE calls.

    ``block`` is the number of equal SERVICE calls earlier in the text: each call has a separate answer with
    separate blank nodes.
    """

    name: NamedNode | Var
    input: Algebra
    silent: bool = False
    block: int = 0


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend(input, variable, expression), from BIND and SELECT expressions."""

    input: Algebra
    var: Var
    expr: Expr


@dataclass(frozen=True, slots=True)
class Values:
    """Inline data (VALUES): one tuple of terms per row, None for UNDEF."""

    vars: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Group(input, keys, aggregates) of the SPARQL algebra: GROUP BY with aggregates.

    ``keys`` of a GROUP BY are variables; grouping expressions are computed by `Extend` below. Each aggregate
    of a GROUP BY binds its result to its variable. A GROUP BY without keys has exactly one group, also over
    an empty input (section 18.5).
    """

    input: Algebra
    keys: tuple[Var, ...]
    aggregates: tuple[tuple[Var, Aggregate], ...]


@dataclass(frozen=True, slots=True)
class OrderCondition:
    """One condition of ORDER BY: an expression and its direction."""

    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class OrderBy:
    """OrderBy(input, conditions) of the SPARQL algebra."""

    input: Algebra
    conditions: tuple[OrderCondition, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """Project(input, variables), which is also the border of a sub-query's scope."""

    input: Algebra
    vars: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct(input)."""

    input: Algebra


@dataclass(frozen=True, slots=True)
class Slice:
    """Slice(input, offset, limit); ``limit`` None means all rows."""

    input: Algebra
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class TableNode:
    """The rows of a static part; `static.split_static` replaces the part's pattern by this node.

    ``certain`` are the names of the columns that every row of the static part binds.
    """

    name: str
    vars: tuple[Var, ...]
    certain: frozenset[str] = frozenset()


Algebra: TypeAlias = (
    Bgp
    | Path
    | Join
    | LeftJoin
    | Filter
    | Union
    | Minus
    | Graph
    | Window
    | Service
    | Extend
    | Values
    | Group
    | OrderBy
    | Project
    | Distinct
    | Slice
    | TableNode
)
