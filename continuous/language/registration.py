"""A registration of a query: the query text, and options that override the text and its dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache
from itertools import chain
from typing import Any, get_args
from typing import Literal as OneOf

from quadrill.store.documents.members import MemberReader, check_iri, check_name, flag, one_of
from quadrill.store.documents.parsing import is_untagged
from quadrill.store.documents.times import duration_ms, instant_ms, readable_duration
from quadrill.store.errors import InputError, UnsupportedError

from ..algebra.columnar import ENGINES
from ..algebra.nodes import Values
from ..algebra.print_triples import parts_of
from ..algebra.query import ContinuousQuery, Dialect, Output
from ..rows import QueryLimits

Profile = OneOf["cqels", "rspql", "csparql"]
FilterPlaces = OneOf["early", "late", "auto"]
NO_INFERRED = "none"
"""The value of the member ``entailment`` that leaves the graphs of all rule sets out."""
_EVERY = {"report": "periodic", "refresh": "every", "start": "from"}
"""For each registration member whose time is written as an object, the key of the time in that object."""


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError("a registration needs its query text", hint='Write {"query": "SELECT ..."}')
    return value


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{name} is {value!r}, it must be an object")
    return value


def _positive(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} is {value!r}, it must be a positive integer")
    return value


def _word_or(words: tuple[str, ...], read_time: MemberReader, example: str) -> MemberReader:
    """Return a reader for a registration member with one of ``words`` or an object with a time.

    The text ``example`` shows such an object in error messages.
    """

    def read(value: Any, name: str) -> Any:
        if value in words:
            return value
        key = _EVERY[name]
        if isinstance(value, dict) and set(value) == {key}:
            return read_time(value[key], f"{name}.{key}")
        shown = ", ".join(f'"{word}"' for word in words)
        raise InputError(f"{name} is {value!r}", hint=f"It is {shown} or {example}")

    return read


def _period(value: Any, name: str) -> int:
    return duration_ms(value, name, positive=True)


def _member(read: MemberReader, default: Any = None) -> Any:
    """Declare a member of query registrations, with a default value."""
    return field(default=default, metadata={"read": read})


_REPORT = _word_or(("on-content-change", "on-window-close"), _period, '{"periodic": "10s"}')
_REFRESH = _word_or(("trigger", "manual"), _period, '{"every": "30s"}')
_START = _word_or(("now", "when-ready"), instant_ms, '{"from": <instant>}')


@dataclass(frozen=True, slots=True)
class AskedCosts:
    """Budgets of a registered query, above which the query fails; None means the server's default.

    Attributes:
        memory: quads that the query's windows may hold, inferred triples included.
        max_rows: rows that one evaluation may make, and rows of the answer.
        max_time: milliseconds that one evaluation may take.
        max_rows_per_minute, max_cpu_per_minute, max_bytes_per_minute: rows, milliseconds of CPU time and
            emitted bytes over a sliding minute.
    """

    memory: int | None = _member(_positive)
    max_rows: int | None = _member(_positive)
    max_time: int | None = _member(_period)
    max_rows_per_minute: int | None = _member(_positive)
    max_cpu_per_minute: int | None = _member(_period)
    max_bytes_per_minute: int | None = _member(_positive)

    @property
    def of_minutes(self) -> bool:
        """True if a budget per minute is set, which is then checked after each input of the query."""
        return any((self.max_rows_per_minute, self.max_cpu_per_minute, self.max_bytes_per_minute))

    def over(self, given: QueryLimits) -> QueryLimits:
        """Return the query's limits: the limits ``given``, with the budgets that the registration sets."""
        rows, ms = self.max_rows, self.max_time
        if rows is not None:
            given = replace(given, rows=rows, kept=min(rows, given.kept or rows))
        return replace(
            given,
            ms=given.ms if ms is None else ms,
            minute_rows=self.max_rows_per_minute or given.minute_rows,
            minute_ms=self.max_cpu_per_minute or given.minute_ms,
            minute_bytes=self.max_bytes_per_minute or given.minute_bytes,
        )


@dataclass(frozen=True, slots=True)
class AskedEvaluation:
    """Options for the data that a query reads and for the engine that evaluates the query.

    Attributes:
        static_engine: the engine for static parts; None lets the server choose.
        static_tables: the storage of static parts: a table in memory or a look-up in the store.
        uncertain_filters: the place where conditions with uncertainty functions are evaluated, before or
            after the joins of their group.
        entailment: the rule set whose graph the default graph includes; `NO_INFERRED` leaves the graphs of
            all rule sets out; None for neither.
    """

    strict_dataset: bool = _member(flag, default=False)
    window_default_graph: OneOf["union", "default"] = _member(one_of("union", "default"), default="union")
    static_engine: OneOf["oxigraph", "spark"] | None = _member(one_of(*ENGINES))
    static_tables: OneOf["table", "lookup", "own"] | None = _member(one_of("table", "lookup", "own"))
    uncertain_filters: FilterPlaces = _member(one_of(*get_args(FilterPlaces)), default="early")
    entailment: str | None = _member(check_name)


@dataclass(frozen=True, slots=True)
class Registration:
    """A query's registration as a client sends it; None leaves the choice to the text or the dialect.

    All times of a registration are in milliseconds. The member ``report`` of a registration is
    ``on-content-change``, ``on-window-close`` or a period. The member ``refresh`` of a registration is
    ``trigger``, ``manual`` or a period. The member ``after`` of a registration is the time from the first
    instant during which the query emits nothing. The member ``start`` of a registration is ``now``, an event
    time, or ``when-ready``; a query with ``when-ready`` begins with the elements that arrive after its static
    parts have been read. In a registration's JSON, the members of ``costs`` and ``evaluation`` are top-level
    members.
    """

    query: str = field(metadata={"read": _text})
    name: str | None = _member(lambda value, _: check_name(value, "query name"))
    dialect: Dialect | None = _member(one_of(*get_args(Dialect)))
    output: Output | None = _member(one_of(*get_args(Output)))
    report: str | int | None = _member(_REPORT)
    strict: bool = _member(flag, default=False)
    t0: int | None = _member(instant_ms)
    after: int | None = _member(_period)
    refresh: str | int = _member(_REFRESH, default="trigger")
    parameters: dict[str, Any] = field(default_factory=dict, metadata={"read": _object})
    profile: Profile | None = _member(one_of(*get_args(Profile)))
    bounds: str | None = _member(one_of("open-closed", "closed-open", "closed"))
    non_empty: bool = _member(flag, default=False)
    start: str | int = _member(_START, default="now")
    lateness: int = _member(duration_ms, default=0)
    costs: AskedCosts = field(default_factory=AskedCosts, metadata={"group": AskedCosts})
    evaluation: AskedEvaluation = field(default_factory=AskedEvaluation, metadata={"group": AskedEvaluation})
    result_iri: str | None = _member(lambda value, _: check_iri(value))
    into_graph: str | None = _member(lambda value, _: check_iri(value))

    @classmethod
    def from_json(cls, document: Any, *, name: str | None = None) -> Registration:
        """Read a registration from the JSON body of ``POST /queries``; a null member counts as absent.

        ``name`` is the query name in the address of the registration request, if any.

        Raises:
            InputError: a member is unknown or has a wrong value, the two names differ, or the query is
                missing.
        """
        if not isinstance(document, dict):
            raise InputError("a registration is a JSON object", hint='Write {"query": "SELECT ..."}')
        members = registration_members()
        unknown = sorted(document.keys() - members.keys())
        if unknown:
            raise InputError(
                f"a registration has no member {unknown[0]!r}", hint=f"Members are {', '.join(members)}"
            )
        own = document.get("name")
        if name is not None and own not in (None, name):
            raise InputError(f"the name is {own!r} in the body and {name!r} in the address")
        given = {"query": None} | {key: value for key, value in document.items() if value is not None}
        if name is not None:
            given["name"] = name
        read: dict[type, dict[str, Any]] = {cls: {}}
        for key, value in given.items():
            owner, member = members[key]
            read.setdefault(owner, {})[key] = member.metadata["read"](value, key)
        groups = {each.name: each.metadata["group"] for each in fields(cls) if "group" in each.metadata}
        parts = {name: group(**read[group]) for name, group in groups.items() if group in read}
        return cls(**read[cls], **parts)

    @classmethod
    def restored(
        cls, name: str | None, text: str, dialect: str | None, options: Mapping[str, Any]
    ) -> Registration:
        """Rebuild a registration from a record of the registry, the journal or a checkpoint (see `options`).

        Raises:
            InputError: the record has an option that this version does not support.
        """
        return cls.from_json({"query": text, "dialect": dialect, **options}, name=name)

    @property
    def start_from(self) -> int | None:
        """The event time from which the query processes retained elements; None if it starts otherwise."""
        return self.start if isinstance(self.start, int) else None

    def options(self) -> dict[str, Any]:
        """Return the JSON members that differ from their defaults, except name, text and dialect.

        `restored` rebuilds the registration from the returned members.
        """
        plain = _flat(Registration(self.query, self.name, self.dialect))
        return {
            key: {_EVERY[key]: value} if key in _EVERY and isinstance(value, int) else value
            for key, value in _flat(self).items()
            if value != plain[key]
        }

    def changed(self, members: Mapping[str, Any]) -> Registration:
        """Return a copy of the registration with new JSON values for some members.

        Raises:
            InputError: a value of a registration member is wrong.
        """
        given = {key: value for key, value in self.options().items() if key not in members}
        return Registration.restored(self.name, self.query, self.dialect, given | dict(members))


@cache
def registration_members() -> dict[str, tuple[type, Field[Any]]]:
    """Return where each member of ``POST /queries`` is stored: a dataclass and its field, by member name."""
    found: dict[str, tuple[type, Field[Any]]] = {}
    for each in fields(Registration):
        owner = each.metadata.get("group")
        if owner is None:
            found[each.name] = Registration, each
        else:
            found |= {inner.name: (owner, inner) for inner in fields(owner)}
    return found


def _flat(registration: Registration) -> dict[str, Any]:
    """Return the values of all registration members by name."""
    found: dict[str, Any] = {}
    for each in fields(registration):
        value = getattr(registration, each.name)
        if "group" in each.metadata:
            found |= {inner.name: getattr(value, inner.name) for inner in fields(value)}
        else:
            found[each.name] = value
    return found


# --- checks of a registration against the text of its query ------------------------------------


def output_of(registration: Registration, query: ContinuousQuery, profile: Profile) -> Output:
    """Return a query's output mode, from its registration, else its text, else its profile.

    Raises InputError or UnsupportedError if the query cannot have this output mode.
    """
    output = registration.output or query.output or _usual_output(query, profile)
    if query.emission.once_per is not None and output not in ("istream", "changes"):
        raise InputError(
            f"ONCE PER is of rows that come, the output is {output}",
            hint='Register with "output": "istream" or "changes".',
        )
    if query.form == "construct" and output in ("dstream", "changes") and query.makes_blank_nodes:
        raise UnsupportedError(f"a CONSTRUCT template with blank nodes and output {output}")
    return output


def _usual_output(query: ContinuousQuery, profile: Profile) -> Output:
    # A continuous query in plain SPARQL has no window, so by default it emits insertions and retractions.
    if query.dialect == "sparql" and not query.windows:
        return "changes" if query.form != "construct" or not query.makes_blank_nodes else "istream"
    return "istream" if profile == "cqels" or query.emission.once_per is not None else "rstream"


def check_after(registration: Registration, query: ContinuousQuery) -> None:
    """Check that AFTER in the text equals ``after`` of the registration, and that the query has a window."""
    asked, said = registration.after, query.emission.after_ms
    if None not in (asked, said) and asked != said:
        raise InputError(
            f"AFTER is {readable_duration(said or 0)} in the text, "
            f"after is {readable_duration(asked or 0)} in the registration",
            hint="Leave one of them out.",
        )
    if (asked or said) and not query.windows:
        raise InputError("AFTER counts from the first instant of streams, the query has no window")


def check_constants(query: ContinuousQuery) -> None:
    """Reject a CONSTRUCT query with a literal that RDF documents cannot contain.

    An update of the store has the same check of literals.
    """
    if query.form != "construct":
        return
    for each in parts_of((query.template, query.root)):
        terms = chain.from_iterable(each.rows) if isinstance(each, Values) else (each,)
        fault = next(filter(is_untagged, terms), None)
        if fault is not None:
            raise InputError(
                f"the literal {fault} has no language tag, which its datatype requires",
                hint='Write "text"@en, or give the literal another datatype.',
            )


def check_view(registration: Registration, query: ContinuousQuery) -> None:
    """Check that a query with INTO GRAPH, in the text or the registration, can maintain a view."""
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
    if query.makes_blank_nodes:
        raise UnsupportedError("a CONSTRUCT template with blank nodes and INTO GRAPH")
