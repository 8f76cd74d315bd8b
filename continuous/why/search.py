"""The search for solutions that give a row at one moment, and for the elements and quads they match."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import DefaultGraph, NamedNode, Quad, Triple

from quadrill.store.changes.commit import GraphName
from quadrill.store.errors import ReportedError
from quadrill.store.sparql.window_graphs import WindowGraphs
from quadrill.store.sparql.workspace import Workspace

from ..algebra import nodes as n
from ..algebra.build import all_nodes
from ..algebra.graphs import Dataset
from ..algebra.query import ContinuousQuery, is_ends
from ..algebra.reify import has_reifiers
from ..algebra.rewrites import windows_read
from ..algebra.variables import certain, in_scope
from ..algebra.window_times import TIMES
from ..algebra.windows_as_graphs import WindowsAsGraphs
from ..evaluate.recomputing import MERGED_KEY
from ..language.analysis import Analysis
from ..rules.interfaces import Premise
from ..rules.layout import Frame, Layout
from ..rules.matching import BodyCompiler
from ..rules.terms import RuleTerms
from ..rules.trace import Trace
from ..windows.content_parts import seq_of
from ..windows.window_delta import WindowKey
from .facts import MomentFacts
from .limits import Deadline
from .moments import ElementIndex, ElementKey, Moment
from .past import PastDataset
from .target import EventRow

_MOST_SOLUTIONS = 20
"""Maximum number of solutions of one moment that are tried."""
_MOST_PREMISES = 200_000
"""Maximum number of matches of one group; a larger group is not explained."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The stream elements and the quads of the store that give a row."""

    elements: frozenset[ElementKey]
    quads: frozenset[Quad]


class MomentSearch:
    """The search for reasons at one moment, which is one evaluation of the query."""

    def __init__(
        self,
        query: ContinuousQuery,
        analysis: Analysis,
        moment: Moment,
        index: ElementIndex,
        past: PastDataset | None,
        dataset: Dataset,
        deadline: Deadline,
        *,
        union: bool,
    ) -> None:
        """Load the contents of the windows.

        ``union`` says that patterns of a window outside of GRAPH match all graphs of its elements.
        """
        self._query, self._analysis = query, analysis
        self._moment, self._index = moment, index
        self._past, self._deadline = past, deadline
        self._workspace = Workspace()
        self._windows: dict[WindowKey, WindowGraphs] = {}
        # For each graph with contents of a window: the window, and the name of the graph in its elements. The
        # name is None for the union of the graphs.
        self._places: dict[NamedNode, tuple[WindowKey, n.Term | None]] = {}
        self._by_triple: dict[WindowKey, dict[Triple, list[Quad]]] = {}
        if analysis.is_merged:
            self._windows[MERGED_KEY] = WindowGraphs(self._workspace, MERGED_KEY, 0)
        for number, (key, content) in enumerate(moment.contents.items(), 1):
            self._load(key, content, number, union=union)
        merged = self._windows.get(MERGED_KEY)
        graphs = {*self._places, *(window.names for window in self._windows.values())}
        self._facts = MomentFacts(
            RuleTerms(query.base_iri),
            self._workspace,
            graphs if merged is None else graphs | {merged.graph},
            None if merged is None else merged.graph,
            past,
            dataset,
            deadline,
        )

    def _load(self, key: WindowKey, content: Mapping[Quad, int], number: int, *, union: bool) -> None:
        window = self._windows[key] = WindowGraphs(self._workspace, key, number)
        merged = self._windows.get(MERGED_KEY)
        into = [window.graph] if merged is None else [window.graph, merged.graph]
        window.load(content, into, union=union, named=True)
        self._places[window.graph] = key, None
        for name in window.graph_names:
            self._places[window.graph_of(name)] = key, name

    def reasons(self, row: EventRow) -> Iterator[Reason]:
        """Yield the elements and quads that each solution with the row matches; callers check each reason.

        Nothing is yielded for a false ASK, and for a query with LIMIT in a sub-select, SERVICE, or reified
        triples in its windows.

        Raises:
            LimitError: code ``query-timeout``: the deadline has passed.
        """
        root = _without_limit(self._analysis.root)
        if row.value is False or any(isinstance(each, n.Slice | n.Service) for each in all_nodes(root)):
            return
        if any(map(has_reifiers, self._moment.contents.values())):
            return
        keys = list(self._moment.contents)
        body = WindowsAsGraphs(windows_read(self._query), keys, self._windows).rewrite(root)
        try:
            for bindings in self._bindings(row):
                yield from islice(self._solutions(body, bindings), _MOST_SOLUTIONS)
        except ReportedError as error:
            if error.code == "query-timeout":
                raise

    def _bindings(self, row: EventRow) -> Iterator[Mapping[str, n.Term | None]]:
        """Yield the values of variables with which the query gives the row."""
        if isinstance(row.value, bool):
            yield {}
        elif isinstance(row.value, Quad):
            for quad in self._query.template:
                found: dict[str, n.Term | None] = {}
                graph = row.value.graph_name
                is_default = isinstance(graph, DefaultGraph)
                same_graph = is_default if quad.graph is None else _unify(quad.graph, graph, found)
                if same_graph and _unify_triple(quad.triple, row.value.triple, found):
                    yield found
        else:
            names = [column.name for column in self._analysis.columns]
            yield dict(zip(names, row.value, strict=True))

    def _solutions(self, body: n.Algebra, bindings: Mapping[str, n.Term | None]) -> Iterator[Reason]:
        terms = self._facts.terms
        layout = Layout(terms)
        trace = Trace((), _MOST_PREMISES)
        compiler = BodyCompiler(layout, self._facts.count, trace)
        scope = compiler.scope(in_scope(body))
        values = {
            name: None if term is None else terms.id_of(term)
            for name, term in bindings.items()
            if name in scope
        }
        # A variable that the body may leave unbound is not bound in advance: unbound, it would match any
        # value.
        bound = frozenset(name for name, value in values.items() if value is not None) & certain(body)
        matcher = compiler.compile(body, scope, bound)
        frame: Frame = layout.frame()
        for name in bound:
            frame[scope[name]] = values[name]
        for _ in matcher(frame, self._facts):
            self._deadline.check()
            if all(frame[scope[name]] == value for name, value in values.items()):
                reason = self._reason(trace.premises())
                if reason is not None:
                    yield reason

    def _reason(self, premises: list[Premise]) -> Reason | None:
        elements: set[ElementKey] = set()
        quads: set[Quad] = set()
        for premise in premises:
            for found in self._sources(premise):
                if found is None:
                    return None
                if isinstance(found, Quad):
                    quads.add(found)
                else:
                    elements.add(found)
        return Reason(frozenset(elements), frozenset(quads))

    def _sources(self, premise: Premise) -> Iterator[Quad | ElementKey | None]:
        """Yield the quad or the element that has the triple of a premise; None if there is none."""
        if premise.graph is None:
            yield self._asserted_first(self._facts.default_quads(premise.triple))
            return
        name = self._facts.terms.term(premise.graph)
        matched = self._facts.named_quads(premise.triple, name)
        if not self._facts.is_window(name):
            yield self._asserted_first(matched)
            return
        assert isinstance(name, NamedNode)
        merged = self._windows.get(MERGED_KEY)
        if merged is not None and name == merged.graph:
            places: list[tuple[WindowKey, n.Term | None]] = [(key, None) for key in self._moment.contents]
        elif name in self._places:
            places = [self._places[name]]
            if is_ends(places[0][0][0]):
                return  # the instants at which a window begins and ends
        else:
            return  # the graph with the names of windows and their graphs
        for quad in matched[:1]:
            sources = (self._element(key, quad.triple, graph) for key, graph in places)
            element = next((each for each in sources if each is not None), None)
            in_store = [each for each in matched if each.graph_name != name]
            yield element or self._asserted_first(in_store)

    def _asserted_first(self, quads: list[Quad]) -> Quad | None:
        inferred = () if self._past is None else self._past.inferred
        return min(quads, key=lambda quad: quad.graph_name in inferred, default=None)

    def _element(self, key: WindowKey, triple: Triple, graph: n.Term | None) -> ElementKey | None:
        """Return the element of a window that has a triple, in one graph or in any."""
        stream, content = stream_of(self._query, key), self._moment.contents[key]
        seq = seq_of(triple.subject if graph == TIMES else graph)
        if seq is not None:
            return (stream, seq) if (stream, seq) in self._index.elements else None
        for quad in self._quads_of(key).get(triple, ()):
            if graph is None or quad.graph_name == graph:
                found = self._index.source(stream, quad, content[quad])
                if found is not None:
                    return found
        return None

    def _quads_of(self, key: WindowKey) -> dict[Triple, list[Quad]]:
        """Return the quads of a window by their triples."""
        found = self._by_triple.get(key)
        if found is None:
            found = self._by_triple[key] = {}
            for quad in self._moment.contents[key]:
                found.setdefault(quad.triple, []).append(quad)
        return found


def stream_of(query: ContinuousQuery, key: WindowKey) -> str:
    """Return the IRI of the stream that a window reads."""
    name, stream = key
    if stream is not None:
        return stream.value
    found = next(each.stream for each in windows_read(query) if each.name == name)
    assert isinstance(found, NamedNode)
    return found.value


def _without_limit(root: n.Algebra) -> n.Algebra:
    """Return the algebra without LIMIT and OFFSET of the whole query."""
    match root:
        case n.Slice(inner):
            return _without_limit(inner)
        case n.Project(inner, variables):
            return n.Project(_without_limit(inner), variables)
        case n.Distinct(inner):
            return n.Distinct(_without_limit(inner))
        case n.OrderBy(inner):
            return _without_limit(inner)
        case _:
            return root


def _unify_triple(
    pattern: n.TriplePattern | n.TripleTerm, triple: Triple, found: dict[str, n.Term | None]
) -> bool:
    """Return True if a triple of a template can become a triple; add the values of its variables."""
    return (
        _unify(pattern.subject, triple.subject, found)
        and _unify(pattern.predicate, triple.predicate, found)
        and _unify(pattern.object, triple.object, found)
    )


def _unify(pattern: n.TermPattern, term: GraphName | n.Term, found: dict[str, n.Term | None]) -> bool:
    """Return True if a term of a template can become a term; add the values of its variables."""
    if isinstance(pattern, n.TripleTerm):
        return isinstance(term, Triple) and _unify_triple(pattern, term, found)
    if not isinstance(pattern, n.Var):
        return pattern == term
    # A blank node of a template becomes a new blank node in each solution, so it matches any term.
    return not isinstance(term, DefaultGraph) and (
        pattern.hidden or found.setdefault(pattern.name, term) == term
    )
