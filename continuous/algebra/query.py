"""A parsed query of any dialect: its algebra and everything around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from pyoxigraph import NamedNode

from .nodes import Algebra, Expr, TermPattern, TriplePattern, TripleTerm, Var
from .variables import Names, in_scope

Dialect = OneOf["cqels", "rspql", "csparql", "sparql"]
Form = OneOf["select", "construct", "ask", "describe"]
Output = OneOf["istream", "dstream", "rstream", "changes"]


MATCH = NamedNode("urn:quadrill:match")
"""What a match of SEQ is; the predicates of its variables begin so."""


@dataclass(frozen=True, slots=True)
class SequenceElement:
    """One step of SEQ: a pattern over one element of a stream alone.

    ``at`` is bound to the element's time. ``conditions`` see the variables of earlier steps, too.
    """

    stream: NamedNode
    pattern: Algebra
    negated: bool = False
    repeat: int = 1
    at: Var | None = None
    conditions: tuple[Expr, ...] = ()

    @property
    def variables(self) -> Names:
        """The variables that its pattern gives a match; each element may bind blank nodes differently."""
        return frozenset(name for name in in_scope(self.pattern) if not Var(name).hidden)


@dataclass(frozen=True, slots=True)
class SequencePattern:
    """SEQ: elements one after the other. ``skip``: each in one match of its key at most."""

    steps: tuple[SequenceElement, ...]
    within_ms: int
    skip: bool = False
    base_iri: str | None = None

    @property
    def streams(self) -> tuple[NamedNode, ...]:
        """The streams of its steps in the order of the text, each once."""
        return tuple(dict.fromkeys(step.stream for step in self.steps))


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window as section 3 of docs/language.md lists them. Times are milliseconds.

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

    ``keys`` are variables of the ``pattern``, that of the window's block.

    Kinds from outside (docs/extending.md) use ``count`` and ``step`` for the numbers of their text.
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
    """A window on a stream. ``stream`` is a variable when static data binds it (CQELS-QL)."""

    name: NamedNode
    stream: NamedNode | Var
    spec: WindowSpec
    lateness_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DatasetClause:
    """FROM and FROM NAMED. Both empty: the whole dataset of the store."""

    default: tuple[NamedNode, ...] = ()
    named: tuple[NamedNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateQuad:
    """One triple of a CONSTRUCT template; blank nodes are hidden variables, fresh per solution."""

    triple: TriplePattern
    graph: NamedNode | Var | None = None

    @property
    def terms(self) -> tuple[TermPattern | None, ...]:
        """Subject, predicate, object and graph; None is the default graph."""
        return self.triple.subject, self.triple.predicate, self.triple.object, self.graph

    @property
    def variables(self) -> frozenset[Var]:
        """The variables in it, also those in triple terms."""
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
    """ONCE PER: rows are told whose key has not been told for a while; None: never before."""

    variables: tuple[Var, ...]
    every_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ResultDeclaration:
    """The kind and name that a REGISTER clause gives the result; all None in a text without the clause.

    ``name`` is the bare name that C-SPARQL has in place of an IRI.
    """

    kind: OneOf["query", "stream"] | None = None
    iri: NamedNode | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EmissionClauses:
    """The clauses of a text that say when its answers are reported and which rows are emitted.

    Attributes:
        computed_every_ms: COMPUTED EVERY.
        t0_ms: STARTING AT of the REGISTER clause, in milliseconds since 1970.
        report: Kolibrie's REPORT words as the text has them.
        emit: EMIT as the registration's ``report`` has it: a word or milliseconds.
        after_ms: AFTER.
        once_per: ONCE PER.
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

    ``root`` includes the solution modifiers; for SELECT its outermost Project gives the columns, also
    listed in ``columns``. ``output`` is None where the text does not say (the profile then decides).
    ``describe`` lists DESCRIBE's terms. ``refresh_every_ms`` is REFRESH EVERY of static parts and
    ``into_graph`` INTO GRAPH. ``parameters`` are the placeholder names that were found (bound ones
    included), ``named_aliases`` the SELECT aliases that stand where SPARQL does not see them (HAVING).
    ``warnings`` are sentences for the user.
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
        """True when its template has blank nodes."""
        return any(
            isinstance(term, Var) and term.hidden
            for quad in self.template
            for term in (quad.triple.subject, quad.triple.predicate, quad.triple.object, quad.graph)
        )
