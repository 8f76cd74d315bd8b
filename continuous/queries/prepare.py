"""What is decided about a registration before it runs: profile, report, output, the names of its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pyoxigraph import NamedNode

from quadrill.store.errors import QueryTextError, UnsupportedError

from ..algebra.query import ContinuousQuery, Output, WindowDeclaration
from ..errors import InputError
from ..language.parser import parse
from ..remote.query import QuerySources
from ..remote.spec import SourceSpec
from ..settings import EngineSettings
from ..streams.stream import last_segment
from ..windows.kinds import kind_of, show_window
from ..windows.reports import Report
from .registration import Profile, Registration

_PROFILE_OF = {"cqels": "cqels", "rspql": "rspql", "csparql": "csparql", "sparql": "cqels"}
_OUTPUT_OF: dict[str, Output] = {"cqels": "istream", "rspql": "rstream", "csparql": "rstream"}
# Kolibrie's REPORT words; PERIODIC needs a period, which COMPUTED EVERY or the registration gives.
_REPORT_WORDS = {
    "ON_WINDOW_CLOSE": "on-window-close",
    "ON_CONTENT_CHANGE": "on-content-change",
    "NON_EMPTY_CONTENT": "non-empty",
    "PERIODIC": "periodic",
}


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """Everything decided about a registration before it runs.

    ``result_iri`` names the stream of a CONSTRUCT query's output; for a SELECT it is the name of a feed that
    no window may read. ``base_iri`` completes the names of streams. ``sources`` are what it reads from other
    servers, None when it reads nothing there. ``looked_up`` are the static parts that were looked up
    before a restart, by their place; None decides it anew.
    """

    registration: Registration
    query: ContinuousQuery
    name: str | None
    profile: Profile
    output: Output
    report: Report
    non_empty: bool
    t0_ms: int | None
    result_iri: str | None
    warnings: tuple[str, ...]
    base_iri: str
    sources: QuerySources | None = None
    looked_up: Mapping[int, str | None] | None = None

    @property
    def source_specs(self) -> tuple[SourceSpec, ...]:
        """What it reads from other servers."""
        return () if self.sources is None else self.sources.specs

    def pins(self) -> dict[str, list[Any]]:
        """Which contents of these its static parts reflect."""
        return {} if self.sources is None else self.sources.pins()

    @property
    def refresh(self) -> str | int:
        """How static parts are refreshed: ``trigger``, ``manual`` or every so many milliseconds.

        What the registration asks for goes before REFRESH EVERY in the text.
        """
        asked = self.registration.refresh
        every = self.query.refresh_every_ms
        return every if asked == "trigger" and every is not None else asked

    @property
    def windows(self) -> tuple[WindowDeclaration, ...]:
        """The declared windows in text order."""
        return self.query.windows

    @property
    def open_closed(self) -> bool:
        """``bounds: open-closed``."""
        return self.registration.bounds == "open-closed"

    def under_name(self, name: str) -> PreparedQuery:
        """The query under its final name, which also names the stream that a CONSTRUCT query makes.

        A text or registration that names the stream itself goes before; a query never makes what it reads.
        """
        iri = self.result_iri
        if (
            iri is None
            and self.query.form == "construct"
            and self.base_iri + name not in streams_read(self.query)
        ):
            iri = self.base_iri + name
        return replace(self, name=name, registration=self.registration.named(name), result_iri=iri)

    @property
    def into_graph(self) -> NamedNode | None:
        """The graph that is kept equal to the answer: INTO GRAPH, or the registration's member."""
        asked = self.registration.into_graph
        return self.query.into_graph if asked is None else NamedNode(asked)

    @property
    def makes_stream(self) -> bool:
        """True when the output is a stream that windows may read."""
        return self.query.form == "construct" and self.result_iri is not None


def prepare(registration: Registration, settings: EngineSettings) -> PreparedQuery:
    """The text parsed, and everything decided that it and the options leave open.

    Raises:
        QueryTextError: the text is wrong.
        UnsupportedError: it uses something that is missing.
        InputError: an option does not go with the text.
    """
    query = parse(
        registration.query,
        dialect=registration.dialect,
        base_iri=settings.base_iri,
        parameters=registration.parameters,
    )
    if query.form == "describe":
        raise UnsupportedError("DESCRIBE in a continuous query", hint="Use CONSTRUCT")
    profile = registration.profile or cast(Profile, _PROFILE_OF[query.dialect])
    output = _output(registration, query, profile)
    if query.form == "construct" and output in ("dstream", "changes") and _has_blank_nodes(query):
        raise UnsupportedError(f"a CONSTRUCT template with blank nodes and output {output}")
    _check_bounds(registration, query)
    _check_view(registration, query)
    t0 = registration.t0 if registration.t0 is not None else query.t0_ms
    report, non_empty = _report(registration, query, profile, t0)
    iri = registration.result_iri or (query.result_iri.value if query.result_iri is not None else None)
    name = registration.name or (last_segment(iri) if iri is not None else None) or query.result_name
    return PreparedQuery(
        registration=registration,
        query=query,
        name=name,
        profile=profile,
        output=output,
        report=report,
        non_empty=non_empty,
        t0_ms=t0,
        result_iri=iri,
        warnings=(*query.warnings, *_warnings(query)),
        base_iri=settings.base_iri,
    )


def _output(registration: Registration, query: ContinuousQuery, profile: Profile) -> Output:
    if registration.output is not None:
        return registration.output
    if query.output is not None:
        return query.output
    # A plain SPARQL text that stays open tells its changes, whatever leaves or comes.
    if query.dialect == "sparql" and not query.windows:
        return "changes" if query.form != "construct" or not _has_blank_nodes(query) else "istream"
    return _OUTPUT_OF[profile]


def _check_bounds(registration: Registration, query: ContinuousQuery) -> None:
    """`closed` and `closed-open` only name what a window has by itself; otherwise they would be ignored."""
    for window in query.windows:
        bounds = kind_of(window.spec).bounds
        if bounds is not None and registration.bounds not in (None, bounds, "open-closed"):
            raise UnsupportedError(
                f"the bounds {registration.bounds} for {show_window(window.spec)}",
                hint=f"Its own bounds are {bounds}; open-closed can be asked for.",
            )


def _check_view(registration: Registration, query: ContinuousQuery) -> None:
    """What INTO GRAPH, in the text or the registration, needs of a query."""
    asked, said = registration.into_graph, query.into_graph
    if asked is not None and said is not None and asked != said.value:
        raise InputError(f"the view is <{said.value}> in the text and <{asked}> in the registration")
    if asked is None and said is None:
        return
    if query.form != "construct":
        raise InputError(f"into_graph needs a CONSTRUCT query, this is {query.form.upper()}")
    if any(quad.graph is not None for quad in query.template):
        raise InputError(
            "the template has a GRAPH block, but all triples of a view go into its own graph",
            hint="leave GRAPH out of the template, or register a query for each graph",
        )
    if _has_blank_nodes(query):
        raise UnsupportedError("a CONSTRUCT template with blank nodes and INTO GRAPH")


def _has_blank_nodes(query: ContinuousQuery) -> bool:
    return any(
        getattr(term, "hidden", False)
        for quad in query.template
        for term in (quad.triple.subject, quad.triple.predicate, quad.triple.object, quad.graph)
    )


def _report(
    registration: Registration, query: ContinuousQuery, profile: Profile, t0: int | None
) -> tuple[Report, bool]:
    """When to evaluate, and whether empty windows are left out."""
    words = {_REPORT_WORDS.get(word.upper(), word) for word in (query.report or "").replace(",", " ").split()}
    non_empty = registration.non_empty or "non-empty" in words
    asked = registration.report
    every = asked if isinstance(asked, int) else query.computed_every_ms
    if isinstance(asked, int) or (asked is None and query.computed_every_ms is not None):
        assert every is not None
        return Report("periodic", every, t0 or 0, registration.strict), non_empty
    kind = asked
    if kind is None and "periodic" in words:
        raise InputError(
            "REPORT PERIODIC needs its period",
            hint='Write COMPUTED EVERY PT10S or register with "report": {"periodic": "10s"}',
        )
    if kind is None:
        kind = next((word for word in ("on-window-close", "on-content-change") if word in words), None)
    if kind is None:
        kind = "on-content-change" if profile == "cqels" else "on-window-close"
    if kind == "on-window-close" and query.windows and not any(kind_of(w.spec).closes for w in query.windows):
        shown = ", ".join(show_window(w.spec) for w in query.windows)
        raise InputError(
            f"no window of the query ever closes ({shown}), so on-window-close would report nothing",
            hint='Give a window a STEP or SLIDE, or register with "report": "on-content-change"',
        )
    return Report(kind, t0_ms=t0 or 0), non_empty  # type: ignore[arg-type]  # one of the two words


def _warnings(query: ContinuousQuery) -> list[str]:
    """Warnings about a query that is right but will surprise when it runs."""
    if any("[ALL]" in warning for warning in query.warnings):
        return []
    streams = [w.stream for w in query.windows if w.spec.kind == "all"]
    shown = [f"<{s.value}>" if isinstance(s, NamedNode) else f"?{s.name}" for s in streams]
    return [f"The window [ALL] on {stream} keeps everything: its state is unbounded." for stream in shown]


def streams_read(query: ContinuousQuery) -> tuple[str, ...]:
    """The stream IRIs that a text names, in its order, each once."""
    names = [w.stream.value for w in query.windows if isinstance(w.stream, NamedNode)]
    return tuple(dict.fromkeys(names))


def refuse_solution_stream(iri: str, query_name: str) -> QueryTextError:
    """The error for a window on the result of a SELECT."""
    return QueryTextError(
        f"<{iri}> is the feed of solutions of the query {query_name}; a window can read RDF streams only",
        hint=f"Register {query_name} with CONSTRUCT instead of SELECT to make its results a stream",
    )
