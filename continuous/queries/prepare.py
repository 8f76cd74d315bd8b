"""The preparation of a registration: profile, report, output, names and the choice of the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyoxigraph import NamedNode

from quadrill.store.documents.members import last_segment
from quadrill.store.documents.times import readable_duration
from quadrill.store.errors import InputError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.build import all_nodes
from ..algebra.columnar import StaticEngines
from ..algebra.extension_calls import reject_nondeterministic_calls
from ..algebra.graphs import Reads, is_lenient, reads_of
from ..algebra.nodes import Var, Window
from ..algebra.query import ContinuousQuery, Output
from ..algebra.reports import Report, ReportKind
from ..algebra.scalar_functions import EXTENSION_FUNCTIONS
from ..algebra.volatile import uses_timestamps
from ..evaluate.evaluator import Evaluator
from ..evaluate.native import NativeEvaluator
from ..evaluate.recomputing import ReferenceEvaluator
from ..expressions.element_keys import keys_of
from ..language.analysis import Analysis, KeptAnalyses
from ..language.registration import Profile, Registration, check_after, check_view, output_of
from ..remote.query import QuerySources
from ..remote.spec import SourceSpec
from ..rows import QueryLimits
from ..rules.built_in import rules_of
from ..rules.definition import RuleSetDefinition
from ..rules.strata import require_for_windows
from ..settings import EngineSettings
from ..static.rule_graphs import NamedRules
from ..static.static_evaluator import EvaluationOptions
from ..static.table_registry import TableRegistry
from ..windows.kinds import kind_of, show_window
from ..windows.query_streams import ContentOf, StreamsOf
from ..windows.timeline import QueryTimeline


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A registration with all decisions that precede the execution of the query.

    ``result_iri`` is the IRI of the stream that a CONSTRUCT query makes; for a SELECT query it names the
    feed, which no window may read. ``base_iri`` is the base IRI from which stream names become IRIs.
    ``sources`` are the remote sources of the query; None if it has none. ``rules`` is the rule set whose
    consequences the windows include; None without one. ``looked_up`` are the static parts that were looked up
    before a restart, by position, with the reason; None decides again which parts are looked up. ``analysis``
    is that part of the preparation which follows from the query text alone.
    """

    registration: Registration
    query: ContinuousQuery
    name: str | None
    profile: Profile
    output: Output
    report: Report
    t0_ms: int | None
    result_iri: str | None
    warnings: tuple[str, ...]
    base_iri: str
    analysis: Analysis
    sources: QuerySources | None = None
    rules: NamedRules | None = None
    looked_up: Mapping[int, str | None] | None = None
    default_limits: QueryLimits = QueryLimits()

    @property
    def source_specs(self) -> tuple[SourceSpec, ...]:
        """The remote sources that the query reads."""
        return () if self.sources is None else self.sources.specs

    @property
    def refresh(self) -> str | int:
        """How static parts are refreshed: ``trigger``, ``manual`` or an interval in milliseconds.

        The registration's ``refresh`` takes precedence over REFRESH EVERY in the text.
        """
        asked = self.registration.refresh
        every = self.query.refresh_every_ms
        return every if asked == "trigger" and every is not None else asked

    @property
    def streams(self) -> tuple[str, ...]:
        """The stream IRIs in the query text, in the order of the text, without duplicates."""
        names = [w.stream.value for w in self.query.windows if isinstance(w.stream, NamedNode)]
        return tuple(dict.fromkeys(names))

    @property
    def names_its_streams(self) -> bool:
        """True if the query text names each window's stream.

        If the query text does not name the stream of a window, static parts bind a stream variable.
        """
        return all(isinstance(window.stream, NamedNode) for window in self.query.windows)

    @property
    def into_graph(self) -> NamedNode | None:
        """The graph of the query's view, from the registration or INTO GRAPH; None if there is none."""
        asked = self.registration.into_graph
        return self.query.into_graph if asked is None else NamedNode(asked)

    @property
    def made_stream(self) -> str | None:
        """The IRI of the stream that a CONSTRUCT query makes; None for other queries."""
        return self.result_iri if self.query.form == "construct" else None

    @property
    def on_commit(self) -> bool:
        """True if each commit is an instant at which the query is evaluated."""
        return not self.query.windows or self.report.kind == "on-content-change"

    @property
    def repeats(self) -> bool:
        """True if a query may emit events although the contents of its windows are unchanged."""
        whole = self.output == "rstream" and self.query.form != "ask"
        return whole or self.depends_on_instant

    @property
    def depends_on_instant(self) -> bool:
        """True if the answer over equal windows depends on the instant, by NOW, RAND or BOUNDS."""
        return self.analysis.depends_on_instant or any(each.bounds for each in self.query.windows)

    def under_name(self, name: str) -> PreparedQuery:
        """Return the query with its final name, from which the IRI of a CONSTRUCT query's stream follows.

        An IRI for the result stream in the text or the registration takes precedence. A CONSTRUCT query that
        reads the stream with its default result IRI derives no stream.
        """
        iri, own = self.result_iri, self.base_iri + name
        if iri is None and self.query.form == "construct" and own not in self.streams:
            iri = own
        return replace(self, name=name, registration=replace(self.registration, name=name), result_iri=iri)

    @property
    def entailed_graph(self) -> NamedNode | None:
        """The graph of the rule set that the registration names; None without one."""
        return next(iter(self.query.dataset.added), None)

    def over(self, graph: NamedNode | None, definition: RuleSetDefinition | None = None) -> PreparedQuery:
        """Return the query with the graph of a rule set in its default graph; None hides all such graphs.

        The windows of the query include the consequences of their contents by the set ``definition``.

        Raises:
            InputError: the query has windows, and a rule of the set negates or aggregates derived triples.
            UnsupportedError: the query has windows, and reads event times of triples.
        """
        added = () if graph is None else (graph,)
        dataset = replace(self.query.dataset, added=added, asserted=graph is None)
        rules = None
        if graph is not None and self.query.windows:
            if uses_timestamps(self.query.root):
                raise UnsupportedError(
                    "timestamp() in a query that names an entailment",
                    hint="Consequences of several elements have no event time; leave timestamp() out.",
                )
            name = self.registration.evaluation.entailment or ""
            if definition is not None:
                require_for_windows(name, rules_of(definition, self.base_iri, None))
            rules = NamedRules(name, graph, definition)
        return replace(self, query=replace(self.query, dataset=dataset), rules=rules)

    def require_for_windows(self, definition: RuleSetDefinition) -> None:
        """Check that the windows of the query, if any, can have the consequences of its rule set.

        Args:
            definition: a definition of the rule set, which may be newer than that of the preparation.

        Raises:
            InputError: a rule of the definition negates or aggregates derived triples.
        """
        rules = self.rules
        if rules is not None and definition != rules.definition:
            require_for_windows(rules.name, rules_of(definition, self.base_iri, None))

    def reads(self) -> Reads:
        """Return the streams and graphs that the query reads, according to its dataset clause."""
        return reads_of(
            self.query, lenient=is_lenient(self.query, strict=self.registration.evaluation.strict_dataset)
        )

    def bounded(self, ms: int, rows: int) -> PreparedQuery:
        """Return the query with at most ``ms`` milliseconds and ``rows`` rows for one evaluation."""
        costs = self.registration.costs
        bounded = replace(
            costs,
            max_time=min(costs.max_time or ms, ms),
            max_rows=min(costs.max_rows or rows, rows),
        )
        return replace(self, registration=replace(self.registration, costs=bounded))

    def options(
        self, quoted_asserted: frozenset[NamedNode], engines: StaticEngines | None = None
    ) -> EvaluationOptions:
        """Return the options of the query's evaluator.

        The argument ``quoted_asserted`` has the streams whose annotated triples count as asserted.
        """
        asked = self.registration.evaluation
        return EvaluationOptions(
            name=self.name or "",
            window_default_graph=asked.window_default_graph,
            strict_dataset=asked.strict_dataset,
            quoted_asserted=quoted_asserted,
            base_iri=self.query.base_iri,
            sources=self.sources,
            engines=engines or StaticEngines(),
            static_engine=asked.static_engine,
            static_tables=asked.static_tables,
            uncertain_filters=asked.uncertain_filters,
            looked_up=self.looked_up,
            limits=self.limits,
            rules=self.rules,
        )

    @property
    def limits(self) -> QueryLimits:
        """The limits of the query: those of the registration, and the settings for all other limits."""
        return self.registration.costs.over(self.default_limits)


def new_timeline(
    prepared: PreparedQuery,
    max_empty_windows: int = 1_000,
    content_of: ContentOf | None = None,
    variable_streams: StreamsOf | None = None,
) -> QueryTimeline:
    """Create the timeline of a query that has taken no input; see `QueryTimeline` for the arguments."""
    return QueryTimeline(
        prepared.query.windows,
        prepared.report,
        t0_ms=prepared.t0_ms,
        open_closed=prepared.registration.bounds == "open-closed",
        max_empty_windows=max_empty_windows,
        lateness_ms=prepared.registration.lateness,
        content_of=content_of,
        variable_streams=variable_streams,
    )


# --- preparation from text and options -------------------------------------------------------------


def prepare(
    registration: Registration, settings: EngineSettings, texts: KeptAnalyses | None = None
) -> PreparedQuery:
    """Parse the text of a registration, or reuse its analysis, and choose the options that it leaves open.

    Raises:
        QueryTextError: the text is wrong.
        UnsupportedError: the text uses an unsupported construct, or the requested bounds do not fit a window.
        InputError: an option does not fit the text.
    """
    asked = registration
    analysis = (texts or KeptAnalyses()).analyse(
        asked.query, asked.dialect, settings.base_iri, asked.parameters
    )
    query = analysis.query
    if query.form == "describe":
        raise UnsupportedError("DESCRIBE in a continuous query", hint="Use CONSTRUCT")
    profile: Profile = registration.profile or ("cqels" if query.dialect == "sparql" else query.dialect)
    output = output_of(registration, query, profile)
    check_after(registration, query)
    _check_bounds(registration, query)
    if EXTENSION_FUNCTIONS:
        reject_nondeterministic_calls(query.root)
    check_view(registration, query)
    t0 = registration.t0 if registration.t0 is not None else query.emission.t0_ms
    report = _report(registration, query, profile, t0)
    _check_ends(query, report)
    iri = registration.result_iri or (query.result.iri.value if query.result.iri is not None else None)
    name = registration.name or (last_segment(iri) if iri is not None else None) or query.result.name
    return PreparedQuery(
        registration=registration,
        query=query,
        name=name,
        profile=profile,
        output=output,
        report=report,
        t0_ms=t0,
        result_iri=iri,
        warnings=(*query.warnings, *_warnings(query)),
        base_iri=settings.base_iri,
        analysis=analysis,
        default_limits=settings.limits,
    )


def _check_bounds(registration: Registration, query: ContinuousQuery) -> None:
    """Raise UnsupportedError if a registration asks for window bounds that a window cannot have."""
    for window in query.windows:
        if window.spec.keys:
            # The call raises an error if the pattern of a window's keys is not a valid query.
            keys_of(window.spec)
        bounds = kind_of(window.spec).bounds
        if bounds is not None and registration.bounds not in (None, bounds, "open-closed"):
            raise UnsupportedError(
                f"the bounds {registration.bounds} for {show_window(window.spec)}",
                hint=f"Its own bounds are {bounds}; open-closed can be asked for.",
            )


def _check_ends(query: ContinuousQuery, report: Report) -> None:
    """Raise InputError for BOUNDS of sessions by key, unless the query reports their closes."""
    for window in query.windows:
        if window.bounds is not None and window.spec.keys and report.kind != "on-window-close":
            raise InputError(
                f"BOUNDS of {show_window(window.spec)} needs reports on close: several sessions are open",
                hint="Write EMIT ON CLOSE behind the query, or leave PARTITION BY out.",
            )


@dataclass(frozen=True, slots=True)
class _ReportRequest:
    """The request for a report policy in a query text and its registration."""

    registration: Registration
    query: ContinuousQuery
    profile: Profile

    @property
    def words(self) -> list[str]:
        """The words of Kolibrie's REPORT clause, which names no period for PERIODIC."""
        return (self.query.emission.report or "").lower().replace("_", "-").split()

    @property
    def requested(self) -> str | int | None:
        """The report policy that registration or text ask for: a kind, or a period in ms; or None."""
        said = self.query.emission
        return self.registration.report or (said.computed_every_ms if said.emit is None else said.emit)

    @property
    def named_kind(self) -> str | int | None:
        """The requested report policy, or else a report kind that Kolibrie's REPORT clause names, or None."""
        kinds = ("on-window-close", "on-content-change")
        return self.requested or next((word for word in kinds if word in self.words), None)

    @property
    def kind(self) -> str | int:
        """The requested report policy, or else the default of the profile."""
        sequences = any(window.spec.sequence is not None for window in self.query.windows)
        own = self.profile == "cqels" or (sequences and not self.closes)
        return self.named_kind or ("on-content-change" if own else "on-window-close")

    @property
    def closes(self) -> bool:
        """True if a window whose content the query matches has closes.

        A window that only SEQ steps name does not count, because a step uses only the window's stream.
        """
        windows, root = self.query.windows, self.query.root
        if any(window.spec.sequence is not None for window in windows):
            read = {each.name for each in all_nodes(root) if isinstance(each, Window)}
            if not any(isinstance(each, Var) for each in read):
                windows = tuple(window for window in windows if window.name in read)
        return any(kind_of(window.spec).closes for window in windows)

    @property
    def shown_windows(self) -> str:
        """The windows of the query as text, for a message."""
        return ", ".join(show_window(window.spec) for window in self.query.windows)


_REFUSED_REPORTS: tuple[
    tuple[Callable[[_ReportRequest], bool], Callable[[_ReportRequest], str], str], ...
] = (
    (
        lambda request: _differ(request.query.emission.emit, request.registration.report),
        lambda request: (
            f"the report is {_shown_report(request.query.emission.emit)} in the text and "
            f"{_shown_report(request.registration.report)} in the registration"
        ),
        'Leave "report" or EMIT out.',
    ),
    (
        lambda request: _differ(request.query.emission.emit, request.query.emission.computed_every_ms),
        lambda request: "EMIT and COMPUTED EVERY in the text differ",
        "Leave one of them out.",
    ),
    (
        lambda request: not request.query.windows and isinstance(request.named_kind, int),
        lambda request: (
            "a query without windows has no event time, so a report at fixed instants never comes"
        ),
        'Leave EMIT EVERY, COMPUTED EVERY or "report" out: it is evaluated at each commit.',
    ),
    (
        lambda request: not request.query.windows and request.named_kind == "on-window-close",
        lambda request: (
            "a query without windows has no window close, so a report at window closes never comes"
        ),
        'Leave EMIT ON CLOSE, REPORT or "report" out: it is evaluated at each commit.',
    ),
    (
        lambda request: request.requested is None and "periodic" in request.words,
        lambda request: "REPORT PERIODIC needs its period",
        'Write COMPUTED EVERY PT10S or register with "report": {"periodic": "10s"}',
    ),
    (
        lambda request: (
            bool(request.query.windows) and request.kind == "on-window-close" and not request.closes
        ),
        lambda request: (
            f"no window of the query ever closes ({request.shown_windows}), so on-window-close would "
            "report nothing"
        ),
        'Give a window a STEP or SLIDE, or register with "report": "on-content-change"',
    ),
)
"""The invalid requests for a report policy, in the order of the checks: test, message and hint."""


def _report(registration: Registration, query: ContinuousQuery, profile: Profile, t0: int | None) -> Report:
    """Return the report policy of a query, which says when to evaluate the query.

    Raises:
        InputError: the text and the registration contradict each other, or the report would never happen.
    """
    request = _ReportRequest(registration, query, profile)
    for is_refused, message, hint in _REFUSED_REPORTS:
        if is_refused(request):
            raise InputError(message(request), hint=hint)
    non_empty = registration.non_empty or "non-empty-content" in request.words
    after = query.emission.after_ms if registration.after is None else registration.after
    once = query.emission.once_per
    repeats = once is not None and once.until_gone and once.every_ms is not None
    if isinstance(request.requested, int):
        return Report("periodic", request.requested, t0 or 0, registration.strict, non_empty, after, repeats)
    kind: ReportKind = "on-window-close" if request.kind == "on-window-close" else "on-content-change"
    return Report(kind, t0_ms=t0 or 0, non_empty=non_empty, after_ms=after, repeats=repeats)


def _differ(one: str | int | None, other: str | int | None) -> bool:
    """Return True if both of two settings are present and different."""
    return None not in (one, other) and one != other


def _shown_report(report: str | int | None) -> str:
    return f"every {readable_duration(report)}" if isinstance(report, int) else str(report)


def _warnings(query: ContinuousQuery) -> list[str]:
    """Return warnings about a valid query whose behaviour may surprise its author."""
    if any("[ALL]" in warning for warning in query.warnings):
        return []
    streams = [w.stream for w in query.windows if w.spec.kind == "all"]
    shown = [f"<{s.value}>" if isinstance(s, NamedNode) else f"?{s.name}" for s in streams]
    return [f"The window [ALL] on {stream} keeps everything: its state is unbounded." for stream in shown]


# --- the evaluator ---------------------------------------------------------------------------------


@dataclass(slots=True)
class EvaluatorChoice:
    """Creates evaluators: the native one if it supports the query, else the reference evaluator.

    A fallback to the reference evaluator is visible in the name of its engine, ``reference (not native: <the
    construct>)``. Without a table registry ``statics``, each evaluator reads its static parts itself and has
    its own term dictionary. The ``engines`` evaluate static parts that are too large for the store.
    """

    statics: TableRegistry | None = None
    engines: StaticEngines = StaticEngines()

    def __call__(
        self, prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
    ) -> Evaluator:
        """Create a query's evaluator; ``quoted_asserted``: streams whose annotated triples count as asserted.

        Raises QueryTextError or UnsupportedError if neither evaluator supports the query.
        """
        query, sources = prepared.query, prepared.sources
        options = prepared.options(quoted_asserted, self.engines)
        # Tables of static parts follow only the store, so a query that reads remote graphs refreshes its
        # static parts itself.
        tables = self.statics if sources is None or not sources.remote_graphs else None
        terms = None if self.statics is None else self.statics.terms
        try:
            if not query.windows and sources is not None:
                raise UnsupportedError("a query without windows that reads other servers")
            return NativeEvaluator(query, store, options, terms, statics=tables, analysis=prepared.analysis)
        except UnsupportedError as reason:
            made = ReferenceEvaluator(
                query, store, options, terms, statics=tables, analysis=prepared.analysis
            )
            made.engine = f"reference (not native: {reason.construct})"
            return made
