"""The definition of shapes: the checked parameters of their PUT, and the shapes graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, TypeAlias, get_args

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Triple

from quadrill.store.changes.commit import GraphName, graph_key
from quadrill.store.documents.times import duration_ms, show_duration
from quadrill.store.errors import InputError
from quadrill.store.terms import Term, term_text

Mode: TypeAlias = Literal["watch", "warn", "reject"]
"""What happens to a commit that adds a violation: nothing, a header in the answer, or a refusal."""
MODES: tuple[Mode, ...] = get_args(Mode)
_MAX_TIME, _MAX_RESULTS = "10s", 100_000
_DIGEST = 16


@dataclass(frozen=True, slots=True)
class ShapesDefinition:
    """Shapes as a client defines them.

    Attributes:
        text: the shapes graph; see `shapes_text`.
        graph: the graph of the store from which the PUT read the shapes; None if they were in its body.
        mode: what a violation does to its commit.
        data: the graphs whose union is checked; None for the default graph and every named graph that has no
            owner and no shapes.
        into: the graph that holds the report; None for none.
        max_time_ms: maximum time that the validation of one commit may take, in milliseconds.
        max_results: maximum number of results of the whole report.
    """

    text: str
    graph: NamedNode | None = None
    mode: Mode = "watch"
    data: tuple[GraphName, ...] | None = None
    into: NamedNode | None = None
    max_time_ms: int = duration_ms(_MAX_TIME, "max_time")
    max_results: int = _MAX_RESULTS

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the PUT as JSON members."""
        found: dict[str, Any] = {"mode": self.mode}
        if self.data is not None:
            found["data"] = list(map(graph_key, self.data))
        if self.into is not None:
            found["into"] = self.into.value
        if self.graph is not None:
            found["graph"] = self.graph.value
        return found | {"max_time": show_duration(self.max_time_ms), "max_results": self.max_results}

    def members(self) -> dict[str, Any]:
        """Return the members that the registry keeps; see `from_members`."""
        return self.parameters() | {"text": self.text}


def from_members(members: Mapping[str, Any]) -> ShapesDefinition:
    """Return the definition whose method `ShapesDefinition.members` returned these members.

    Raises:
        InputError: a member is wrong.
    """
    graph = members.get("graph")
    return read_parameters(
        {name: value for name, value in members.items() if name not in ("text", "graph")},
        members["text"],
        None if graph is None else _iri(graph, "graph"),
    )


def read_parameters(
    parameters: Mapping[str, Any], text: str, graph: NamedNode | None = None
) -> ShapesDefinition:
    """Check the parameters of a PUT.

    Args:
        parameters: texts and numbers by name; ``data`` is a list of texts.
        text: the shapes graph; see `shapes_text`.
        graph: the graph of the store from which the shapes were read; None if they were in the body.

    Raises:
        InputError: a parameter is wrong.
    """
    mode = next((each for each in MODES if each == parameters.get("mode", MODES[0])), None)
    if mode is None:
        raise InputError(f"mode must be one of {', '.join(MODES)}", code="parameter")
    into = parameters.get("into")
    given: Sequence[str] | None = parameters.get("data")
    if given is not None and (not isinstance(given, list | tuple) or not given):
        raise InputError("data must name graphs: IRIs, or default for the default graph", code="parameter")
    definition = ShapesDefinition(
        text,
        graph,
        mode,
        None if given is None else tuple(dict.fromkeys(_graph(each) for each in given)),
        None if into is None else _iri(into, "into"),
        duration_ms(parameters.get("max_time", _MAX_TIME), "max_time", positive=True),
        _number(parameters.get("max_results", _MAX_RESULTS), "max_results"),
    )
    if definition.into is not None and definition.into in (*(definition.data or ()), graph):
        raise InputError(
            f"into is {definition.into}, which the shapes read",
            code="cycle",
            hint="choose another graph for the report",
        )
    return definition


def shapes_text(triples: Iterable[Triple]) -> str:
    """Return a shapes graph as N-Triples in the order of ``triples``; equal documents give equal texts.

    The labels of blank nodes contain a digest of the graph, so that other shapes have other labels.
    """
    numbers: dict[str, int] = {}

    def term(each: Term, digest: str) -> str:
        if isinstance(each, BlankNode):
            return f"_:shape{digest}x{numbers.setdefault(each.value, len(numbers))}"
        return term_text(each)

    def lines(digest: str) -> dict[str, None]:
        found = (
            f"{term(each.subject, digest)} {each.predicate} {term(each.object, digest)} .\n"
            for each in listed
        )
        return dict.fromkeys(found)

    listed = list(triples)
    digest = sha256("".join(lines("")).encode()).hexdigest()[:_DIGEST]
    return "".join(lines(digest))


def _graph(value: object) -> GraphName:
    return DefaultGraph() if value == "default" else _iri(value, "data")


def _iri(value: object, name: str) -> NamedNode:
    try:
        return NamedNode(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {value!r} is not an absolute IRI", code="parameter") from error


def _number(value: object, name: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise InputError(f"{name} must be a number of results, 0 or more, not {value!r}", code="parameter")
    return int(text)
