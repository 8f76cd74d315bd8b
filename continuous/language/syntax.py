"""The syntax tree: what the text says, before prefixes, scopes and dialects are looked at.

One frozen dataclass per kind of node. ``at`` is the offset of the node's first character in the text,
from which diagnostics makes line and column. ``depth`` of an expression counts nested operators.
Grammar files name the rules; `build_queries.py` makes these nodes while the parser runs.
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

__all__ = [  # the terms too: the package reads all nodes as `syntax.X`
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
    """``{ … }``: its elements in text order, or one sub-select."""

    elements: tuple[Element, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Alternatives:
    """``{} UNION {} …``, or a single nested group."""

    groups: tuple[GroupPattern, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Optional:
    """``OPTIONAL {}``."""

    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class MinusGroup:
    """``MINUS {}``."""

    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class GraphBlock:
    """``GRAPH name {}``."""

    name: Variable | Iri
    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class ServiceBlock:
    """``SERVICE [SILENT] name {}``."""

    name: Variable | Iri
    group: GroupPattern
    silent: bool
    at: int


@dataclass(frozen=True, slots=True)
class FilterClause:
    """``FILTER condition``."""

    condition: Expression
    at: int


@dataclass(frozen=True, slots=True)
class BindClause:
    """``BIND (expression AS ?v)``."""

    expression: Expression
    variable: Variable
    at: int


@dataclass(frozen=True, slots=True)
class ValuesBlock:
    """``VALUES``: the variables and rows of terms."""

    variables: tuple[Variable, ...]
    rows: tuple[ValuesRow, ...]
    at: int


@dataclass(frozen=True, slots=True)
class ValuesRow:
    """One row of inline data."""

    cells: tuple[Node | Undef, ...]
    at: int


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """``STREAM name [window] {}`` of CQELS-QL."""

    name: Variable | Iri
    window: WindowText
    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """``[NOT] STREAM iri {} [AT ?t] [REPEAT n]``; ``of_window``: the iri names a window."""

    negated: bool
    of_window: bool
    name: Iri
    group: GroupPattern
    time: Variable | None
    repeat: Number | None
    at: int


@dataclass(frozen=True, slots=True)
class SequenceBlock:
    """``SEQ [EACH|SKIP] { step ; … } WITHIN d``."""

    skip: bool
    steps: tuple[SequenceStep, ...]
    within: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class WindowBlock:
    """``WINDOW name {}`` of RSP-QL*."""

    name: Variable | Iri
    group: GroupPattern
    at: int


@dataclass(frozen=True, slots=True)
class SubSelect:
    """A sub-query."""

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
    """A duration: pairs of a number and a unit, or one token (``PT10S``, ``2000``)."""

    parts: tuple[tuple[str, str], ...]
    at: int
    words: bool = False


@dataclass(frozen=True, slots=True)
class InstantText:
    """The value of STARTING AT: milliseconds or a date and time."""

    value: Number | StringToken
    at: int


@dataclass(frozen=True, slots=True)
class WindowText:
    """A window between brackets; ``kind`` is the word of the grammar rule, ``word`` one from outside.

    ``end`` is how long ago a window of the past ends, ``keys`` what BY names.
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


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window among the dataset clauses.

    ``name`` is the IRI of RSP-QL*, the variable of the 2010 form, None in C-SPARQL.
    """

    stream: Iri
    window: WindowText
    name: Variable | Iri | None
    at: int


# --- query forms --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectItem:
    """``?v`` or ``(expression AS ?v)``."""

    variable: Variable
    expression: Expression | None


@dataclass(frozen=True, slots=True)
class SelectClause:
    """``items`` None is ``*``; ``mode`` is DISTINCT, REDUCED or None."""

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
    """The solution modifiers. ``limit`` and ``offset`` are numbers as written."""

    group_by: tuple[GroupKey, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[OrderKey, ...] = ()
    limit: Number | None = None
    offset: Number | None = None


@dataclass(frozen=True, slots=True)
class GraphClause:
    """``FROM iri`` or ``FROM NAMED iri``."""

    iri: Iri
    named: bool


@dataclass(frozen=True, slots=True)
class RefreshClause:
    """``REFRESH EVERY d``."""

    every: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class IntoClause:
    """``INTO GRAPH iri``."""

    iri: Iri
    at: int


@dataclass(frozen=True, slots=True)
class OnceClause:
    """``ONCE PER ?v … [EVERY d]`` behind the query."""

    variables: tuple[Variable, ...]
    every: DurationText | None
    at: int


@dataclass(frozen=True, slots=True)
class AfterClause:
    """``AFTER d`` behind the query."""

    after: DurationText
    at: int


@dataclass(frozen=True, slots=True)
class EmitClause:
    """``EMIT ON CLOSE``, ``EMIT ON CHANGE`` or ``EMIT EVERY d`` behind the query."""

    when: str | DurationText
    at: int


@dataclass(frozen=True, slots=True)
class TemplateGraph:
    """``GRAPH name { triples }`` in a template, or the triples outside with no name."""

    name: Variable | Iri | None
    triples: Triples | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query form with its clauses. ``template`` None in CONSTRUCT means the short form.

    ``describe`` is None for ``DESCRIBE *``.
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
    """``BASE``, ``PREFIX`` (with its prefix, colon left out) or ``VERSION``."""

    kind: str
    prefix: str
    value: str
    at: int


@dataclass(frozen=True, slots=True)
class Register:
    """``REGISTER kind target COMPUTED EVERY d STARTING AT t AS``.

    ``entailment`` is the place of an UNDER ENTAILMENT REGIME clause.
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
    """The syntax of a whole text."""

    declarations: tuple[Declaration, ...]
    register: Register | None
    query: Query
    endings: tuple[OnceClause | EmitClause | AfterClause, ...] = ()
