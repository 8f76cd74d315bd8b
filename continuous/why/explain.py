"""The reason of one row of an event: elements and quads over which the query alone gives the row.

moments     the evaluations that may have had the row, from the retained inputs
candidates  what solutions of the query match, else all that the query reads
check       the query over a candidate alone; only a candidate that gives the row is returned
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import GraphName
from quadrill.store.errors import GoneError, LimitError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra import nodes as n
from ..algebra.build import operands, with_operands
from ..algebra.graphs import Dataset, dataset_of, is_lenient, may_change
from ..algebra.static import merged_background
from ..inputs import StreamInput
from ..queries.prepare import PreparedQuery
from ..rules.built_in import rules_of
from ..rules.definition import cause_of
from ..rules.store_facts import InputGraphs
from ..rules.triggers import Occurrence, occurrences, predicates_of
from ..windows.query_streams import StreamsOf
from .check import ReasonCheck
from .limits import WHY_LIMITS, Deadline, WhyLimits
from .moments import ElementIndex, ElementKey, Moment, MomentReplay, moments_at, newest_elements
from .past import PastDataset, expired
from .search import MomentSearch, Reason, stream_of
from .shrink import shrunk
from .target import EventRow

_MOST_VERSIONS = 20
"""Maximum number of versions before a deletion at which the server searches for the deleted row."""
_MOST_CHECKS = 20
"""Maximum number of reasons that are checked at one moment; further solutions of the query rarely help."""


@dataclass(frozen=True, slots=True)
class ExplainedQuery:
    """The query of an event, as it was when the event was found.

    Attributes:
        prepared: the query.
        scopes: sequences of retained inputs of its streams, which are read and tried in turn: first the
            inputs since the query began, then all.
        streams_of: the streams of windows with a stream variable; None if all windows name their streams.
        quoted_asserted: the streams whose annotated triples count as asserted.
        rules_changed: True if ``prepared`` has another definition of the rule set than the query had when it
            was registered.
    """

    prepared: PreparedQuery
    scopes: Iterable[Sequence[StreamInput]]
    streams_of: StreamsOf | None
    quoted_asserted: frozenset[NamedNode]
    rules_changed: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """The reason of a row.

    Attributes:
        elements: the elements, with their N-Quads, in the order of streams and sequence numbers.
        quads: the quads of the store that rule sets do not infer.
        inferred: the quads of the store that rule sets infer.
        truncated: True if a list was cut at a limit; what is listed may then not suffice for the row.
    """

    elements: list[tuple[ElementKey, list[str]]]
    quads: list[str]
    inferred: list[str]
    truncated: bool


def explain(
    store: QuadStore, query: ExplainedQuery, row: EventRow, limits: WhyLimits = WHY_LIMITS
) -> Explained:
    """Return elements and quads over which the query alone gives a row.

    For a deleted row, they are from an evaluation or a version before the deletion.

    Raises:
        GoneError: code ``why-expired``: elements, changes or rules that the row needs are no longer kept.
        LimitError: the search took too long, or an evaluation that might give the row exceeded a limit.
    """
    deadline, stopped = Deadline(limits.ms), None
    for inputs in query.scopes:
        explanation = _Explanation(store, query, inputs, row, limits, deadline)
        found = explanation.find()
        if found is not None:
            return found
        stopped = explanation.stopped or stopped
    if stopped is not None:
        raise stopped
    raise _underivable(store, query, row)


def _underivable(store: QuadStore, query: ExplainedQuery, row: EventRow) -> GoneError:
    """Return the error for a row that the query does not give over all that is kept."""
    rules = query.prepared.rules
    if rules is not None and (query.rules_changed or _are_replaced(store, rules.name, row.version)):
        return expired(
            f"the row cannot be derived again: the rule set {rules.name} was replaced or suspended after the "
            "query was registered, and its former rules are not kept",
            hint="for an event before that, ask before the rules change; for a later event, raise retention "
            "of the stream and of the changes",
        )
    return expired("the row cannot be derived again: elements or changes that it needs are no longer kept")


def _are_replaced(store: QuadStore, name: str, version: int) -> bool:
    """Return True if a commit after a version replaced a rule set."""
    try:
        return any(each.cause == cause_of(name) for each in store.commits_after(version, listed=False))
    except GoneError:
        return False


class _Explanation:
    """The search for the reason of one row over some retained inputs.

    Attributes:
        stopped: the last error of an evaluation that exceeded a limit of its own; None without one.
    """

    def __init__(
        self,
        store: QuadStore,
        query: ExplainedQuery,
        inputs: Sequence[StreamInput],
        row: EventRow,
        limits: WhyLimits,
        deadline: Deadline,
    ) -> None:
        self._store, self._row = store, row
        self._limits, self._deadline = limits, deadline
        self._prepared = prepared = query.prepared.bounded(limits.ms, limits.rows)
        inputs = newest_elements(inputs, limits.elements)
        self._index = ElementIndex(inputs)
        replay = MomentReplay(prepared, inputs, query.streams_of, deadline)
        self._moments = moments_at(replay, row.at, before=row.deleted)
        self._check = ReasonCheck(
            prepared, inputs, replay.reached, query.quoted_asserted, store.queue.owned, row
        )
        self.stopped: LimitError | None = None
        strict = prepared.registration.evaluation.strict_dataset
        self._dataset = dataset_of(prepared.query, lenient=is_lenient(prepared.query, strict=strict))
        self._static = _static_patterns(prepared.analysis.root)
        # The elements and quads that the query reads, and their dataset, if a limit has cut them.
        self._cut: tuple[Reason, PastDataset | None] | None = None

    def find(self) -> Explained | None:
        """Return the reason; None if the retained elements and changes do not give the row."""
        for past in self._versions():
            for moment in self._moments:
                for reason in islice(self._searched(moment, past), _MOST_CHECKS):
                    if self._gives(moment, reason) and self._is_right(past, reason):
                        return self._explained(reason, past)
        for past in self._versions():
            quads, complete = self._read(past)
            for moment in self._moments:
                for reason in self._whole(moment, past, quads, complete=complete):
                    if self._gives(moment, reason) and self._is_right(past, reason):
                        return self._explained(self._smaller(moment, reason), past)
        return None if self._cut is None else self._explained(*self._cut, cut=True)

    def _versions(self) -> Iterator[PastDataset | None]:
        """Yield the dataset at the event's version; for a deletion, then at earlier versions.

        An earlier version is left out if the commit after it cannot have changed the answer. The only item is
        None for a query that does not read the store.
        """
        rules = self._prepared.rules
        if not self._static and rules is None:
            yield None
            return
        past = PastDataset(self._store, self._row.version, self._limits, self._deadline)
        yield past
        if not self._row.deleted:
            return
        analysis = self._prepared.analysis
        patterns = [part.pattern for part in analysis.split[1]]
        if analysis.is_merged:
            patterns.append(merged_background(analysis.root).pattern)
        first = max(0, past.version - _MOST_VERSIONS)
        for commit in reversed(past.commits(first)):
            if rules is not None or any(may_change(pattern, [commit]) for pattern in patterns):
                past.back_to(commit.version - 1)
                yield past

    def _searched(self, moment: Moment, past: PastDataset | None) -> Iterator[Reason]:
        prepared = self._prepared
        union = prepared.registration.evaluation.window_default_graph == "union"
        dataset = self._dataset_at(past)
        search = MomentSearch(
            prepared.query,
            prepared.analysis,
            moment,
            self._index,
            past,
            dataset,
            self._deadline,
            union=union,
        )
        tried = set()
        for reason in search.reasons(self._row):
            if reason not in tried:
                tried.add(reason)
                yield reason

    def _dataset_at(self, past: PastDataset | None) -> Dataset:
        """Return the graphs that the query reads; no graphs of rule sets if it reads asserted quads only."""
        dataset = self._dataset
        if past is None or not self._prepared.query.dataset.asserted:
            return dataset
        default, named = dataset.default or (DefaultGraph(),), dataset.named
        names = tuple(past.graph_names()) if named is None else named
        return Dataset(
            tuple(graph for graph in default if graph not in past.inferred),
            tuple(graph for graph in names if graph not in past.inferred),
        )

    # --- all that the query reads ---------------------------------------------------------------

    def _read(self, past: PastDataset | None) -> tuple[frozenset[Quad], bool]:
        """Return the quads that the query reads at a version, and False if a limit has cut them."""
        read: dict[Quad, None] = {}
        complete = past is None or all([self._add_static(past, read), self._add_for_rules(past, read)])
        return (
            frozenset(islice(read, self._limits.matches)),
            complete and len(read) <= self._limits.matches,
        )

    def _whole(
        self, moment: Moment, past: PastDataset | None, quads: frozenset[Quad], *, complete: bool
    ) -> Iterator[Reason]:
        """Yield ``quads`` with the elements of the windows, then with all elements; see `_read`."""
        held = {
            key
            for window, content in moment.contents.items()
            for quad, at in content.items()
            if (key := self._index.source(stream_of(self._prepared.query, window), quad, at)) is not None
        }
        every = {key for key, each in self._index.elements.items() if each.event_time <= moment.at}
        if not complete and self._cut is None:
            self._cut = Reason(frozenset(held), quads), past
        yield Reason(frozenset(held), quads)
        if every - held:
            yield Reason(frozenset(every), quads)

    def _add_static(self, past: PastDataset, read: dict[Quad, None]) -> bool:
        """Add the quads that patterns outside of windows match; return False if one matches too many."""
        dataset, complete = self._dataset_at(past), True
        for occurrence in self._static:
            match occurrence.graph:
                case None:
                    graphs: Sequence[GraphName | None] = dataset.default or (DefaultGraph(),)
                case n.Var():
                    graphs = (None,)
                case name:
                    graphs = (name,)
            for graph in graphs:
                complete = self._add(occurrence, graph, past, read) and complete
        return complete

    def _add_for_rules(self, past: PastDataset, read: dict[Quad, None]) -> bool:
        """Add the quads that rules for the windows match; return False if a pattern matches too many."""
        named, complete = self._prepared.rules, True
        if named is None or named.definition is None:
            return True
        inputs = InputGraphs.of(named.definition.sources, named.into, self._store.queue.owned)
        found: dict[Quad, None] = {}
        for rule in rules_of(named.definition, self._prepared.base_iri, None):
            for occurrence in rule.patterns:
                complete = self._add(occurrence, None, past, found) and complete
        read.update(
            (each, None) for each in found if each.graph_name in inputs or each.graph_name == named.into
        )
        return complete

    @staticmethod
    def _add(
        occurrence: Occurrence, graph: GraphName | None, past: PastDataset, read: dict[Quad, None]
    ) -> bool:
        """Add the quads of a graph (None: any) that a pattern matches; return False if too many match."""
        try:
            for pattern in _constants_of(occurrence):
                read.update(dict.fromkeys(past.match(*pattern, graph)))
        except LimitError as error:
            if error.code == "query-timeout":
                raise
            return False
        return True

    def _smaller(self, moment: Moment, reason: Reason) -> Reason:
        """Return a smaller reason that gives the row, as small as the time allows."""
        deadline = Deadline(min(self._limits.shrink_ms, self._deadline.left_ms))
        items: list[ElementKey | Quad] = [*sorted(reason.elements), *reason.quads]

        def suffices(chosen: Sequence[ElementKey | Quad]) -> bool:
            try:
                return self._gives(moment, _reason_of(chosen), deadline)
            except LimitError:  # The deadline has passed; the reason so far stays.
                return False

        return _reason_of(shrunk(items, suffices, deadline))

    # --- checks and the answer ------------------------------------------------------------------

    def _gives(self, moment: Moment, reason: Reason, deadline: Deadline | None = None) -> bool:
        """Return True if a reason gives the row; note an error that stopped the evaluation and return False.

        Raises:
            LimitError: code ``query-timeout``: the deadline (None: of the whole search) has passed.
        """
        try:
            return self._check.gives(moment.at, reason.elements, reason.quads, deadline or self._deadline)
        except LimitError as error:
            if error.code == "query-timeout":
                raise
            self.stopped = error
            return False

    @staticmethod
    def _is_right(past: PastDataset | None, reason: Reason) -> bool:
        return past is None or past.holds(reason.quads)

    def _explained(self, reason: Reason, past: PastDataset | None, *, cut: bool = False) -> Explained:
        most = self._limits.listed
        inferred = () if past is None else past.inferred
        quads = sorted(reason.quads, key=str)
        asserted = [f"{quad} ." for quad in quads if quad.graph_name not in inferred]
        derived = [f"{quad} ." for quad in quads if quad.graph_name in inferred]
        sources = self._index.elements
        elements = [(key, [f"{each} ." for each in sources[key].quads]) for key in sorted(reason.elements)]
        cut = cut or max(len(asserted), len(derived), len(elements)) > most
        return Explained(elements[:most], asserted[:most], derived[:most], cut)


def _reason_of(items: Sequence[ElementKey | Quad]) -> Reason:
    return Reason(
        frozenset(each for each in items if isinstance(each, tuple)),
        frozenset(each for each in items if isinstance(each, Quad)),
    )


def _static_patterns(root: n.Algebra) -> list[Occurrence]:
    """Return the triple patterns and paths that match quads of the store."""
    merged = [
        found
        for node in _windows(root)
        if node.name == n.MERGED
        for found in occurrences(node.input)
        if found.graph is None
    ]
    return [*occurrences(_without_windows(root)), *merged]


def _windows(node: n.Algebra) -> Iterator[n.Window]:
    if isinstance(node, n.Window):
        yield node
        return
    for each in operands(node):
        yield from _windows(each)


def _without_windows(node: n.Algebra) -> n.Algebra:
    if isinstance(node, n.Window):
        return n.Bgp()
    return with_operands(node, [_without_windows(each) for each in operands(node)])


def _constants_of(
    occurrence: Occurrence,
) -> Iterator[tuple[NamedNode | None, NamedNode | None, n.Term | None]]:
    """Yield subject, predicate and object of quads that a pattern can match; None is a wildcard."""
    pattern = occurrence.pattern
    if isinstance(pattern, n.Path):
        predicates = predicates_of(pattern.path)
        yield from [(None, None, None)] if predicates is None else [(None, each, None) for each in predicates]
        return
    subject, predicate, value = pattern.subject, pattern.predicate, pattern.object
    yield (
        subject if isinstance(subject, NamedNode) else None,
        predicate if isinstance(predicate, NamedNode) else None,
        None if isinstance(value, n.Var | n.TripleTerm) else value,
    )
