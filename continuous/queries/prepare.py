"""What is decided about a registration before it runs: profile, report, output, names, and its evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyoxigraph import NamedNode

from quadrill.store.documents.members import last_segment
from quadrill.store.errors import InputError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..algebra.build import all_nodes
from ..algebra.columnar import StaticEngines
from ..algebra.graphs import Reads, is_lenient, reads_of
from ..algebra.nodes import Var, Window
from ..algebra.outside import refuse_unrepeatable
from ..algebra.query import ContinuousQuery, Output
from ..algebra.reports import Report, ReportKind
from ..algebra.scalar_functions import OUTSIDE
from ..evaluate.evaluator import Evaluator
from ..evaluate.native import NativeEvaluator
from ..evaluate.recomputing import ReferenceEvaluator
from ..expressions.element_keys import keys_of
from ..language.analysis import Analysis, KeptAnalyses
from ..language.registration import Profile, Registration, check_after, check_view, output_of
from ..remote.query import QuerySources
from ..remote.spec import SourceSpec
from ..rows import QueryLimits
from ..settings import EngineSettings
from ..static.static_evaluator import EvaluationOptions
from ..static.table_registry import TableRegistry
from ..windows.kinds import kind_of, show_window


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """Everything decided about a registration before it runs.

    ``result_iri`` names the stream of a CONSTRUCT query's output; for a SELECT it is the name of a feed that
    no window may read. ``base_iri`` completes the names of streams. ``sources`` are what it reads from other
    servers, None when it reads nothing there. ``looked_up`` are the static parts that were looked up
    before a restart, by their place; None decides it anew. ``analysis`` is what follows from the text alone.
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
    looked_up: Mapping[int, str | None] | None = None
    default_limits: QueryLimits = QueryLimits()

    @property
    def source_specs(self) -> tuple[SourceSpec, ...]:
        """What it reads from other servers."""
        return () if self.sources is None else self.sources.specs

    @property
    def refresh(self) -> str | int:
        """How static parts are refreshed: ``trigger``, ``manual`` or every so many milliseconds.

        What the registration asks for goes before REFRESH EVERY in the text.
        """
        asked = self.registration.refresh
        every = self.query.refresh_every_ms
        return every if asked == "trigger" and every is not None else asked

    @property
    def streams(self) -> tuple[str, ...]:
        """The stream IRIs that the text names, in its order, each once."""
        names = [w.stream.value for w in self.query.windows if isinstance(w.stream, NamedNode)]
        return tuple(dict.fromkeys(names))

    @property
    def names_its_streams(self) -> bool:
        """True when the text names the stream of each window; static parts bind a stream's variable."""
        return all(isinstance(window.stream, NamedNode) for window in self.query.windows)

    @property
    def into_graph(self) -> NamedNode | None:
        """The graph that is kept equal to the answer: INTO GRAPH, or the registration's member."""
        asked = self.registration.into_graph
        return self.query.into_graph if asked is None else NamedNode(asked)

    @property
    def made_stream(self) -> str | None:
        """The IRI of the stream that its answers make, which windows may read; None where they make none."""
        return self.result_iri if self.query.form == "construct" else None

    @property
    def on_commit(self) -> bool:
        """True when a commit is an instant of evaluation."""
        return not self.query.windows or self.report.kind == "on-content-change"

    @property
    def repeats(self) -> bool:
        """True when an evaluation over the same contents as the one before may emit something."""
        whole = self.output == "rstream" and self.query.form != "ask"
        return whole or self.analysis.depends_on_instant

    def under_name(self, name: str) -> PreparedQuery:
        """The query under its final name, which also names the stream that a CONSTRUCT query makes.

        A text or registration that names the stream itself goes before; a query never makes what it reads.
        """
        iri, own = self.result_iri, self.base_iri + name
        if iri is None and self.query.form == "construct" and own not in self.streams:
            iri = own
        return replace(self, name=name, registration=replace(self.registration, name=name), result_iri=iri)

    def reads(self) -> Reads:
        """What it reads, by its dataset clause."""
        return reads_of(
            self.query, lenient=is_lenient(self.query, strict=self.registration.evaluation.strict_dataset)
        )

    def options(
        self, quoted_asserted: frozenset[NamedNode], engines: StaticEngines | None = None
    ) -> EvaluationOptions:
        """How its evaluator works; ``quoted_asserted`` are the streams with that option."""
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
        )

    @property
    def limits(self) -> QueryLimits:
        """What it may cost: as the registration says, of its answer, too, else as the settings do."""
        return self.registration.costs.over(self.default_limits)


# --- from text and options -------------------------------------------------------------------------


def prepare(
    registration: Registration, settings: EngineSettings, texts: KeptAnalyses | None = None
) -> PreparedQuery:
    """The text parsed, or found among those that were, and everything decided that it leaves open.

    Raises:
        QueryTextError: the text is wrong.
        UnsupportedError: it uses something that is missing.
        InputError: an option does not go with the text.
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
    if OUTSIDE:
        refuse_unrepeatable(query.root)
    check_view(registration, query)
    t0 = registration.t0 if registration.t0 is not None else query.emission.t0_ms
    iri = registration.result_iri or (query.result.iri.value if query.result.iri is not None else None)
    name = registration.name or (last_segment(iri) if iri is not None else None) or query.result.name
    return PreparedQuery(
        registration=registration,
        query=query,
        name=name,
        profile=profile,
        output=output,
        report=_report(registration, query, profile, t0),
        t0_ms=t0,
        result_iri=iri,
        warnings=(*query.warnings, *_warnings(query)),
        base_iri=settings.base_iri,
        analysis=analysis,
        default_limits=settings.limits,
    )


def _check_bounds(registration: Registration, query: ContinuousQuery) -> None:
    """`closed` and `closed-open` only name what a window has by itself; otherwise they would be ignored."""
    for window in query.windows:
        if window.spec.keys:
            keys_of(window.spec)  # refuses a pattern that is no query of its own
        bounds = kind_of(window.spec).bounds
        if bounds is not None and registration.bounds not in (None, bounds, "open-closed"):
            raise UnsupportedError(
                f"the bounds {registration.bounds} for {show_window(window.spec)}",
                hint=f"Its own bounds are {bounds}; open-closed can be asked for.",
            )


@dataclass(frozen=True, slots=True)
class _ReportRequest:
    """What a text and its registration say about the report."""

    registration: Registration
    query: ContinuousQuery
    profile: Profile

    @property
    def words(self) -> list[str]:
        """Kolibrie's REPORT words; the period of PERIODIC comes from COMPUTED EVERY or the registration."""
        return (self.query.emission.report or "").lower().replace("_", "-").split()

    @property
    def requested(self) -> str | int | None:
        """The kind, or the period in milliseconds, that was asked for."""
        said = self.query.emission
        return self.registration.report or (said.computed_every_ms if said.emit is None else said.emit)

    @property
    def named_kind(self) -> str | int | None:
        """The same, or else the first REPORT word that is a kind."""
        kinds = ("on-window-close", "on-content-change")
        return self.requested or next((word for word in kinds if word in self.words), None)

    @property
    def kind(self) -> str | int:
        """What was asked for, else the default of the profile."""
        sequences = any(window.spec.sequence is not None for window in self.query.windows)
        own = self.profile == "cqels" or (sequences and not self.closes)
        return self.named_kind or ("on-content-change" if own else "on-window-close")

    @property
    def closes(self) -> bool:
        """True when a window that is read closes; steps of SEQ may name a window for its stream alone."""
        windows, root = self.query.windows, self.query.root
        if any(window.spec.sequence is not None for window in windows):
            read = {each.name for each in all_nodes(root) if isinstance(each, Window)}
            if not any(isinstance(each, Var) for each in read):
                windows = tuple(window for window in windows if window.name in read)
        return any(kind_of(window.spec).closes for window in windows)

    @property
    def shown_windows(self) -> str:
        """The windows, for a message."""
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
            "a query without windows has none that closes, so a report at the close of windows never comes"
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
"""Reports that are refused, in the order of the checks: the test, the message, the hint."""


def _report(registration: Registration, query: ContinuousQuery, profile: Profile, t0: int | None) -> Report:
    """When to evaluate.

    Raises:
        InputError: the text and the registration differ, or the report never comes.
    """
    request = _ReportRequest(registration, query, profile)
    for is_refused, message, hint in _REFUSED_REPORTS:
        if is_refused(request):
            raise InputError(message(request), hint=hint)
    non_empty = registration.non_empty or "non-empty-content" in request.words
    after = query.emission.after_ms if registration.after is None else registration.after
    if isinstance(request.requested, int):
        return Report("periodic", request.requested, t0 or 0, registration.strict, non_empty, after)
    kind: ReportKind = "on-window-close" if request.kind == "on-window-close" else "on-content-change"
    return Report(kind, t0_ms=t0 or 0, non_empty=non_empty, after_ms=after)


def _differ(one: str | int | None, other: str | int | None) -> bool:
    """True when both are given and are not the same."""
    return None not in (one, other) and one != other


def _shown_report(report: str | int | None) -> str:
    return f"every {report} ms" if isinstance(report, int) else str(report)


def _warnings(query: ContinuousQuery) -> list[str]:
    """Warnings about a query that is right but will surprise when it runs."""
    if any("[ALL]" in warning for warning in query.warnings):
        return []
    streams = [w.stream for w in query.windows if w.spec.kind == "all"]
    shown = [f"<{s.value}>" if isinstance(s, NamedNode) else f"?{s.name}" for s in streams]
    return [f"The window [ALL] on {stream} keeps everything: its state is unbounded." for stream in shown]


# --- the evaluator ---------------------------------------------------------------------------------


@dataclass(slots=True)
class EvaluatorChoice:
    """Makes the evaluators of one engine: the native one where it can serve, else the one by definition.

    A query that falls back says so: the word for its engine is ``reference (<the construct>)``. Without
    ``statics`` each reads its static parts itself and has terms of its own. ``engines`` evaluate static parts
    that are too large for the store.
    """

    statics: TableRegistry | None = None
    engines: StaticEngines = StaticEngines()

    def __call__(
        self, prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
    ) -> Evaluator:
        """The evaluator of a query; ``quoted_asserted`` are the streams with that option.

        Raises QueryTextError or UnsupportedError for what neither evaluates.
        """
        query, sources = prepared.query, prepared.sources
        options = prepared.options(quoted_asserted, self.engines)
        # Parts that look into fetched graphs and the store at once are read anew when either changes.
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
