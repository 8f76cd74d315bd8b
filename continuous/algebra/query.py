"""A parsed query of any dialect: its algebra and its other clauses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from pyoxigraph import NamedNode

from .nodes import Algebra, Expr, TermPattern, TriplePattern, TripleTerm, Var
from .variables import Names, in_scope

Dialect = OneOf["cqels", "rspql", "csparql", "sparql"]
Form = OneOf["select", "construct", "ask", "describe"]
Output = OneOf["istream", "dstream", "rstream", "changes"]


MATCH = NamedNode("urn:quadrill:match")
"""The IRI of a match of SEQ, and the prefix of the predicates that hold the match's variables."""


@dataclass(frozen=True, slots=True)
class SequenceElement:
    """One step of a SEQ block: a pattern that matches one element of a stream.

    The variable ``at`` of a SEQ step is bound to the element's time. The ``conditions`` of a SEQ step can use
    the variables of earlier steps, too.
    """

    stream: NamedNode
    pattern: Algebra
    negated: bool = False
    repeat: int = 1
    at: Var | None = None
    conditions: tuple[Expr, ...] = ()

    @property
    def variables(self) -> Names:
        """The variables of a SEQ step's pattern, without those of blank nodes, which differ by element."""
        return frozenset(name for name in in_scope(self.pattern) if not Var(name).hidden)


@dataclass(frozen=True, slots=True)
class SequencePattern:
    """A SEQ block: steps that elements match one after the other.

    With ``skip``, an element belongs to at most one match of the SEQ block per key.
    """

    steps: tuple[SequenceElement, ...]
    within_ms: int
    skip: bool = False
    base_iri: str | None = None

    @property
    def streams(self) -> tuple[NamedNode, ...]:
        """The streams of a SEQ block's steps in the order of the text, without duplicates."""
        return tuple(dict.fromkeys(step.stream for step in self.steps))


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """The specification of a window of docs/semantics.md, section 3.

    All times of a window specification are milliseconds of event time.

    kind       text                          members used
    now        [NOW]                         -
    range      [RANGE w] (CQELS-QL)          width_ms
    past       [RANGE w TO p]                width_ms, past_ms
    grid       [RANGE w SLIDE|STEP s]        width_ms, slide_ms, t0_ms; with TO p past_ms
    session    [SESSION g PARTITION BY ?v …] width_ms, keys, pattern
    latest     [LATEST n BY ?v … WITHIN d]   count, width_ms (0 without WITHIN), keys, pattern
    triples    [TRIPLES n]                   count
    batch      [RANGE TRIPLES n]             count
    elements   [ELEMENTS n STEP m]           count, step
    all        [ALL]                         -
    sequence   SEQ {…} WITHIN w              sequence: on its first stream; the window holds matches
    step       -                             count, feeds: what another stream gives that sequence

    ``keys`` are variables by which the window groups elements; ``pattern`` is the pattern of the window's
    block.

    Window kinds of extensions (docs/extending.md) use ``count`` and ``step`` for the numbers of their text.
    """

    kind: str
    width_ms: int = 0
    slide_ms: int = 0
    past_ms: int = 0
    count: int = 0
    step: int = 1
    t0_ms: int | None = None
    keys: tuple[Var, ...] = ()
    pattern: Algebra | None = None
    sequence: SequencePattern | None = None
    feeds: NamedNode | None = None


@dataclass(frozen=True, slots=True)
class WindowDeclaration:
    """A window on a stream; ``stream`` is a variable if static data binds it (CQELS-QL).

    ``by_element`` says that a block reads the window with AT. ``bounds`` are the variables of BOUNDS; windows
    that differ only in the names of these variables are equal.
    """

    name: NamedNode
    stream: NamedNode | Var
    spec: WindowSpec
    lateness_ms: int | None = None
    by_element: bool = False
    bounds: tuple[Var, Var] | None = field(default=None, compare=False)

    @property
    def contents(self) -> Iterator[WindowDeclaration]:
        """The window's contents as windows: whole, by element if AT reads it, and its ends with BOUNDS."""
        yield self
        if self.by_element:
            yield replace(self, name=elements_of(self.name))
        if self.bounds is not None:
            yield replace(self, name=ends_of(self.name), spec=WindowSpec("now"))


def elements_of(window: NamedNode) -> NamedNode:
    """Return the name of a window's content with a graph for each element."""
    return NamedNode(f"{_ELEMENTS}{window.value}")


def is_elements(content: NamedNode) -> bool:
    """Return True for a name that `elements_of` has returned."""
    return content.value.startswith(_ELEMENTS)


def ends_of(window: NamedNode) -> NamedNode:
    """Return the name of a window's content that says where the window begins and ends."""
    return NamedNode(f"{_ENDS}{window.value}")


def is_ends(content: NamedNode) -> bool:
    """Return True for a name that `ends_of` has returned."""
    return content.value.startswith(_ENDS)


_ELEMENTS, _ENDS = "urn:quadrill:elements:", "urn:quadrill:ends:"


@dataclass(frozen=True, slots=True)
class DatasetClause:
    """FROM and FROM NAMED; if both are empty, the query reads the whole dataset of the store.

    Attributes:
        default: the graphs of FROM.
        named: the graphs of FROM NAMED.
        added: graphs of rule sets, which the registration adds to the default graph.
        asserted: True if the registration leaves the graphs of all rule sets out.
    """

    default: tuple[NamedNode, ...] = ()
    named: tuple[NamedNode, ...] = ()
    added: tuple[NamedNode, ...] = ()
    asserted: bool = False


@dataclass(frozen=True, slots=True)
class TemplateQuad:
    """One triple of a CONSTRUCT template; blank nodes are hidden variables, new for each solution."""

    triple: TriplePattern
    graph: NamedNode | Var | None = None

    @property
    def terms(self) -> tuple[TermPattern | None, ...]:
        """A quad of a template: subject, predicate, object and graph; None stands for the default graph."""
        return self.triple.subject, self.triple.predicate, self.triple.object, self.graph

    @property
    def variables(self) -> frozenset[Var]:
        """The variables of the template quad, including those inside triple terms."""
        found, terms = set(), list(self.terms)
        while terms:
            match terms.pop():
                case Var() as term:
                    found.add(term)
                case TripleTerm(subject, predicate, value):
                    terms += (subject, predicate, value)
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class OncePer:
    """The ONCE PER clause: a row is emitted unless a row with the same key was emitted within ``every_ms``.

    If ``every_ms`` is None, ONCE PER emits each key only once for all time. With ``until_gone``, a key is
    emitted when it enters the answer, and again ``every_ms`` after its last emission while it stays; with
    ``resolved``, an event says that the key has left the answer.
    """

    variables: tuple[Var, ...]
    every_ms: int | None = None
    until_gone: bool = False
    resolved: bool = False


@dataclass(frozen=True, slots=True)
class ResultDeclaration:
    """The kind and name that a REGISTER clause gives the result; all None in a text without the clause.

    ``name`` is the bare name of the result that C-SPARQL has in place of an IRI.
    """

    kind: OneOf["query", "stream"] | None = None
    iri: NamedNode | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EmissionClauses:
    """The clauses of a text that say when its answers are reported and which rows are emitted.

    Attributes:
        computed_every_ms: the period of COMPUTED EVERY in milliseconds.
        t0_ms: STARTING AT of the REGISTER clause, in milliseconds since 1970.
        report: Kolibrie's REPORT words as the text has them.
        emit: EMIT as the registration's ``report`` has it: a word or milliseconds.
        after_ms: the duration of AFTER in milliseconds.
        once_per: the clause ONCE PER.
    """

    computed_every_ms: int | None = None
    t0_ms: int | None = None
    report: str | None = None
    emit: str | int | None = None
    after_ms: int | None = None
    once_per: OncePer | None = None


@dataclass(frozen=True, slots=True)
class ContinuousQuery:
    """A parsed continuous query: one algebra for all dialects.

    The algebra ``root`` of a query includes the solution modifiers; for SELECT its outermost Project gives
    the columns, also listed in ``columns``. ``output`` (istream, dstream, ...) is None if the query text does
    not say; the profile then decides. ``describe`` lists the terms of a DESCRIBE query. ``refresh_every_ms``
    is the period of REFRESH EVERY for static parts and ``into_graph`` INTO GRAPH. ``parameters`` are the
    names of the placeholders in the query text, including those with a value, ``named_aliases`` the SELECT
    aliases that HAVING uses, although not in scope there. ``warnings`` are sentences on the query for the
    user.
    """

    text: str
    dialect: Dialect
    form: Form
    root: Algebra
    columns: tuple[Var, ...] = ()
    dataset: DatasetClause = DatasetClause()
    windows: tuple[WindowDeclaration, ...] = ()
    template: tuple[TemplateQuad, ...] = ()
    describe: tuple[TermPattern, ...] = ()
    output: Output | None = None
    result: ResultDeclaration = ResultDeclaration()
    emission: EmissionClauses = EmissionClauses()
    refresh_every_ms: int | None = None
    into_graph: NamedNode | None = None
    prefixes: dict[str, str] = field(default_factory=dict)
    base_iri: str | None = None
    parameters: tuple[str, ...] = ()
    named_aliases: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def makes_blank_nodes(self) -> bool:
        """True if the CONSTRUCT template has blank nodes."""
        return any(
            isinstance(term, Var) and term.hidden
            for quad in self.template
            for term in (quad.triple.subject, quad.triple.predicate, quad.triple.object, quad.graph)
        )
