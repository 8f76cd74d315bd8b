"""The syntax tree of a query text, before prefixes, scopes and rules of dialects are applied.

Each kind of node is a frozen dataclass. ``at`` is the offset of a syntax node's first character in the text.
The grammar callbacks in `build_queries.py` and `build_patterns.py` create syntax nodes while the parser runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .syntax_terms import (
    AggregateCall,
    AKeyword,
    AnnotationBlock,
    Blank,
    Boolean,
    Braces,
    Collection,
    ExistsText,
    Expression,
    FunctionCallText,
    Iri,
    IriReference,
    LiteralText,
    Node,
    Number,
    Object,
    Operation,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    PathText,
    PrefixedName,
    Property,
    PropertyList,
    Reified,
    Reifier,
    StringToken,
    Subject,
    Triples,
    TripleTermText,
    Undef,
    Variable,
)

# The list includes the nodes of `syntax_terms`, because other modules refer to all nodes as `syntax.X`.
__all__ = [
    "AKeyword", "Alternatives", "AnnotationBlock", "BindClause", "Blank", "Boolean", "Collection",
    "Declaration", "DurationText", "Element", "ExistsText", "Expression", "FilterClause",
    "FunctionCallText", "GraphBlock", "GraphClause", "GroupPattern", "GroupKey", "InstantText", "IntoClause",
    "Iri",
    "IriReference", "LiteralText", "Modifiers", "Node", "Number", "Object", "Operation", "Optional",
    "OrderKey", "PathAlternative", "PathInverse", "PathNegated", "PathRepeat", "PathSequence",
    "PathText", "PrefixedName", "Property", "PropertyList", "Query", "RefreshClause", "Register", "Reified",
    "Reifier",
    "SelectClause", "SelectItem", "SequenceBlock", "SequenceStep", "ServiceBlock", "AggregateCall",
    "StreamBlock", "StringToken",
    "SubSelect", "Subject", "TemplateGraph", "TripleTermText", "Triples", "Undef", "Unit",
    "ValuesBlock", "ValuesRow", "Variable", "WindowBlock", "WindowClause", "WindowText", "MinusGroup",
]  # fmt: skip

# --- graph patterns -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupPattern(Braces):
    """A group graph pattern ``{ … }``: its elements in text order, or one sub-select."""

    elements: tuple[Element, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The alternatives of ``{} UNION {} …``, or a single nested group."""

    groups: tuple[GroupPattern, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Optional:
    """An ``OPTIONAL {}`` block."""

    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class MinusGroup:
    """A ``MINUS {}`` block."""

    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class GraphBlock:
    """A ``GRAPH name {}`` block."""

    name: Variable | Iri
    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class ServiceBlock:
    """A ``SERVICE [SILENT] name {}`` block."""

    name: Variable | Iri
    group: GroupPattern
    silent: bool
    at: int


@dataclass(frozen=True, slots=True)
class FilterClause:
    """A ``FILTER condition`` in a group."""

    condition: Expression
    at: int


@dataclass(frozen=True, slots=True)
class BindClause:
    """A ``BIND (expression AS ?v)`` in a group."""

    expression: Expression
    variable: Variable
    at: int


@dataclass(frozen=True, slots=True)
class ValuesBlock:
    """A ``VALUES`` block: its variables and rows of terms."""

    variables: tuple[Variable, ...]
    rows: tuple[ValuesRow, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ValuesRow:
    """One row of a ``VALUES`` block."""

    cells: tuple[Node | Undef, ...]
    at: int


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """A ``STREAM name [window] {} [AT ?t]`` block of CQELS-QL; ``time`` is the variable of AT."""

    name: Variable | Iri
    window: WindowText
    group: GroupPattern
    at: int
    time: Variable | None = None


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """A step of SEQ, ``[NOT] STREAM iri {} [AT ?t] [REPEAT n]``; ``of_window`` if the IRI names a window."""

    negated: bool
    of_window: bool
    name: Iri
    group: GroupPattern
    time: Variable | None
    repeat: Number | None
    at: int


@dataclass(frozen=True, slots=True)
class SequenceBlock:
    """A ``SEQ [EACH|SKIP] { step ; … } WITHIN d`` block."""

    skip: bool
    steps: tuple[SequenceStep, ...]
    within: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class WindowBlock:
    """A ``WINDOW name {} [AT ?t]`` block of RSP-QL*; ``time`` is the variable of AT."""

    name: Variable | Iri
    group: GroupPattern
    at: int
    time: Variable | None = None


@dataclass(frozen=True, slots=True)
class SubSelect:
    """A sub-query: a SELECT inside a group."""

    select: SelectClause
    where: GroupPattern
    modifiers: Modifiers
    values: ValuesBlock | None


Element: TypeAlias = (
    Triples
    | Alternatives
    | Optional
    | MinusGroup
    | GraphBlock
    | ServiceBlock
    | FilterClause
    | BindClause
    | ValuesBlock
    | StreamBlock
    | SequenceBlock
    | WindowBlock
    | SubSelect
)

# --- windows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DurationText:
    """A duration: pairs of a number and a unit, or one token such as ``PT10S`` or ``2000``."""

    parts: tuple[tuple[str, str], ...]
    at: int
    words: bool = False


@dataclass(frozen=True, slots=True)
class InstantText:
    """The value of STARTING AT: a number of milliseconds or a string with date and time."""

    value: Number | StringToken
    at: int


@dataclass(frozen=True, slots=True)
class WindowText:
    """A window in brackets; ``kind`` is the window's grammar rule, ``word`` the keyword of an extension.

    ``end`` is the distance from now to the end of a past window (``RANGE a TO b``); ``keys`` are the
    variables of BY, ``bounds`` those of BOUNDS.
    """

    kind: str
    at: int
    width: DurationText | None = None
    step: DurationText | None = None
    end: DurationText | None = None
    keys: tuple[Variable, ...] = ()
    tumbling: bool = False
    count: Number | None = None
    count_step: Number | None = None
    lateness: DurationText | None = None
    starting: InstantText | None = None
    report: str | None = None
    tick: str | None = None
    word: str = ""
    numbers: tuple[Number, ...] = ()
    bounds: tuple[Variable, Variable] | None = None


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window that is declared in a dataset clause.

    ``name`` of such a window is an IRI in RSP-QL*, a variable in CQELS's 2010 form, None in C-SPARQL.
    """

    stream: Iri
    window: WindowText
    name: Variable | Iri | None
    at: int


# --- query forms --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One item of SELECT: ``?v`` or ``(expression AS ?v)``."""

    variable: Variable
    expression: Expression | None


@dataclass(frozen=True, slots=True)
class SelectClause:
    """The SELECT clause; ``items`` is None for ``SELECT *``, ``mode`` is DISTINCT, REDUCED or None."""

    mode: str | None
    items: tuple[SelectItem, ...] | None
    at: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One GROUP BY condition."""

    expression: Expression
    variable: Variable | None
    at: int


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One ORDER BY condition."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class Modifiers:
    """The solution modifiers of a query; ``limit`` and ``offset`` are numbers as they are written."""

    group_by: tuple[GroupKey, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    limit: Number | None = None
    offset: Number | None = None


@dataclass(frozen=True, slots=True)
class GraphClause:
    """A dataset clause ``FROM iri`` or ``FROM NAMED iri``."""

    iri: Iri
    named: bool


@dataclass(frozen=True, slots=True)
class RefreshClause:
    """A ``REFRESH EVERY d`` clause."""

    every: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class IntoClause:
    """An ``INTO GRAPH iri`` clause."""

    iri: Iri
    at: int


@dataclass(frozen=True, slots=True)
class OnceClause:
    """A ``ONCE PER ?v … [UNTIL GONE [RESOLVED]] [EVERY d]`` clause after the query."""

    variables: tuple[Variable, ...]
    every: DurationText | None
    at: int
    until_gone: bool = False
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class AfterClause:
    """An ``AFTER d`` clause after the query."""

    after: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class EmitClause:
    """An ``EMIT ON CLOSE``, ``EMIT ON CHANGE`` or ``EMIT EVERY d`` clause after the query."""

    when: str | DurationText
    at: int


@dataclass(frozen=True, slots=True)
class TemplateGraph:
    """A block ``GRAPH name { triples }`` of a template.

    ``name`` is None for template triples outside of a GRAPH block.
    """

    name: Variable | Iri | None
    triples: Triples | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query form with its clauses; ``template`` is None in the short form of CONSTRUCT.

    ``describe`` is None for a query ``DESCRIBE *``.
    """

    form: str
    datasets: tuple[GraphClause | WindowClause | RefreshClause | IntoClause, ...]
    where: GroupPattern | None
    modifiers: Modifiers
    values: ValuesBlock | None
    at: int
    select: SelectClause | None = None
    template: tuple[TemplateGraph, ...] | None = None
    describe: tuple[Variable | Iri, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """A ``BASE``, ``PREFIX`` or ``VERSION`` declaration; ``prefix`` has no colon."""

    kind: str
    prefix: str
    value: str
    at: int


@dataclass(frozen=True, slots=True)
class Register:
    """A ``REGISTER kind target COMPUTED EVERY d STARTING AT t AS`` clause.

    ``entailment`` is the offset of an UNDER ENTAILMENT REGIME clause, None without this clause.
    """

    kind: str | None
    iri: Iri | None
    name: str | None
    every: DurationText | None
    starting: InstantText | None
    at: int
    entailment: int | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """The syntax tree of a whole query text."""

    declarations: tuple[Declaration, ...]
    register: Register | None
    query: Query
    endings: tuple[OnceClause | EmitClause | AfterClause, ...] = ()
