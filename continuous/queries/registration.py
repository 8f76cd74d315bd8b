"""A registration: a query text and the options that override what the text and its dialect say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast
from typing import Literal as OneOf

from ..algebra.columnar import ENGINES
from ..algebra.query import Dialect, Output
from ..errors import InputError
from ..streams.stream import check_iri, check_name
from ..streams.times import duration_ms, instant_ms

Profile = OneOf["cqels", "rspql", "csparql"]

_DIALECTS = ("cqels", "rspql", "csparql", "sparql")
_PROFILES = ("cqels", "rspql", "csparql")
_OUTPUTS = ("istream", "dstream", "rstream", "changes")
_REPORTS = ("on-content-change", "on-window-close")
_BOUNDS = ("open-closed", "closed-open", "closed")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a client asks for; None where it leaves the choice to the text or the dialect. Times in ms.

    ``report`` is ``on-content-change``, ``on-window-close`` or the period in milliseconds; ``refresh`` is
    ``trigger``, ``manual`` or a period; ``start_from`` an event time; ``when_ready`` begins with what arrives
    when the static parts have been read; ``memory`` the quads that windows may
    hold before the query fails; ``static_engine`` who evaluates static parts, against the rule;
    ``static_tables`` whether they are held in memory or looked up in the store.
    """

    query: str
    name: str | None = None
    dialect: Dialect | None = None
    output: Output | None = None
    report: str | int | None = None
    strict: bool = False
    t0: int | None = None
    refresh: str | int = "trigger"
    parameters: dict[str, Any] = field(default_factory=dict)
    profile: Profile | None = None
    bounds: str | None = None
    non_empty: bool = False
    start_from: int | None = None
    when_ready: bool = False
    lateness: int = 0
    memory: int | None = None
    strict_dataset: bool = False
    window_default_graph: OneOf["union", "default"] = "union"
    result_iri: str | None = None
    into_graph: str | None = None
    static_engine: OneOf["oxigraph", "spark"] | None = None
    static_tables: OneOf["table", "lookup", "own"] | None = None

    @classmethod
    def from_json(cls, document: Any, *, name: str | None = None) -> Registration:
        """A registration from its JSON document.

        Args:
            document: the members of ``POST /queries``.
            name: the name in the request's address, if any.

        Raises:
            InputError: an unknown member, a wrong value, two differing names, no query.
        """
        if not isinstance(document, dict):
            raise InputError("a registration is a JSON object", hint='Write {"query": "SELECT ..."}')
        unknown = sorted(set(document) - set(_MEMBERS))
        if unknown:
            raise InputError(
                f"a registration has no member {unknown[0]!r}", hint=f"Members are {', '.join(_MEMBERS)}"
            )
        given = {key: value for key, value in document.items() if value is not None}
        own = given.get("name")
        if name is not None and own is not None and own != name:
            raise InputError(f"the name is {own!r} in the body and {name!r} in the address")
        text = given.get("query")
        if not isinstance(text, str) or not text.strip():
            raise InputError("a registration needs its query text", hint='Write {"query": "SELECT ..."}')
        chosen = name if name is not None else own
        return cls(
            query=text,
            name=None if chosen is None else check_name(chosen, "query name"),
            dialect=_one_of(given, "dialect", _DIALECTS),
            output=_one_of(given, "output", _OUTPUTS),
            report=_report(given.get("report")),
            strict=_flag(given, "strict"),
            t0=instant_ms(given["t0"], "t0") if "t0" in given else None,
            refresh=_refresh(given.get("refresh", "trigger")),
            parameters=_object(given, "parameters"),
            profile=_one_of(given, "profile", _PROFILES),
            bounds=_one_of(given, "bounds", _BOUNDS),
            non_empty=_flag(given, "non_empty"),
            start_from=_start(given.get("start")),
            when_ready=given.get("start") == "when-ready",
            lateness=duration_ms(given.get("lateness", 0), "lateness"),
            memory=_positive(given, "memory"),
            strict_dataset=_flag(given, "strict_dataset"),
            window_default_graph=_one_of(given, "window_default_graph", ("union", "default")) or "union",
            result_iri=check_iri(given["result_iri"]) if "result_iri" in given else None,
            into_graph=check_iri(given["into_graph"]) if "into_graph" in given else None,
            static_engine=_one_of(given, "static_engine", ENGINES),
            static_tables=_one_of(given, "static_tables", ("table", "lookup", "own")),
        )

    def options(self) -> dict[str, Any]:
        """The JSON members that are not left to their defaults, name, text and dialect apart.

        `from_json` of them with the text gives the registration again.
        """
        report: Any = {"periodic": self.report} if isinstance(self.report, int) else self.report
        refresh: Any = {"every": self.refresh} if isinstance(self.refresh, int) else self.refresh
        graphs = self.window_default_graph
        members = {
            "output": self.output,
            "report": report,
            "strict": self.strict or None,
            "t0": self.t0,
            "refresh": None if refresh == "trigger" else refresh,
            "parameters": self.parameters or None,
            "profile": self.profile,
            "bounds": self.bounds,
            "non_empty": self.non_empty or None,
            "start": _shown_start(self.start_from, self.when_ready),
            "lateness": self.lateness or None,
            "memory": self.memory,
            "strict_dataset": self.strict_dataset or None,
            "window_default_graph": None if graphs == "union" else graphs,
            "result_iri": self.result_iri,
            "into_graph": self.into_graph,
            "static_engine": self.static_engine,
            "static_tables": self.static_tables,
        }
        return {key: value for key, value in members.items() if value is not None}

    def named(self, name: str) -> Registration:
        """The same under a name."""
        return replace(self, name=name)


_MEMBERS = (
    "name", "query", "dialect", "output", "report", "strict", "t0", "refresh", "parameters", "profile",
    "bounds", "non_empty", "start", "lateness", "memory", "strict_dataset",
    "window_default_graph", "result_iri", "into_graph", "static_engine",
    "static_tables",
)  # fmt: skip


def _one_of(document: dict[str, Any], name: str, values: tuple[str, ...]) -> Any:
    value = document.get(name)
    if value is not None and value not in values:
        raise InputError(f"{name} is {value!r}, it must be one of {', '.join(values)}")
    return value


def _flag(document: dict[str, Any], name: str) -> bool:
    value = document.get(name, False)
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}, it must be true or false")
    return value


def _object(document: dict[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{name} is {value!r}, it must be an object")
    return cast(dict[str, Any], value)


def _positive(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} is {value!r}, it must be a positive integer")
    return value


def _report(value: Any) -> str | int | None:
    if value is None or value in _REPORTS:
        return cast("str | None", value)
    if isinstance(value, dict) and set(value) == {"periodic"}:
        return duration_ms(value["periodic"], "report.periodic", positive=True)
    raise InputError(
        f"report is {value!r}", hint='It is "on-content-change", "on-window-close" or {"periodic": "10s"}'
    )


def _refresh(value: Any) -> str | int:
    if value in ("trigger", "manual"):
        return cast(str, value)
    if isinstance(value, dict) and set(value) == {"every"}:
        return duration_ms(value["every"], "refresh.every", positive=True)
    raise InputError(f"refresh is {value!r}", hint='It is "trigger", "manual" or {"every": "30s"}')


def _start(value: Any) -> int | None:
    if value is None or value in ("now", "when-ready"):
        return None
    if isinstance(value, dict) and set(value) == {"from"}:
        return instant_ms(value["from"], "start.from")
    raise InputError(f"start is {value!r}", hint='It is "now", "when-ready" or {"from": <instant>}')


def _shown_start(start_from: int | None, when_ready: bool) -> Any:
    if start_from is not None:
        return {"from": start_from}
    return "when-ready" if when_ready else None
