"""A query as text of its dialect, indented, with its prefixes; `parse` gives it back.

The text is the one normal form of its algebra: written, read and written again it does not change. EXPLAIN
shows queries and their static parts so.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.query import ContinuousQuery
from .windows import DIALECT_NAMES
from .write_clauses import duration_text, select_parts, window_text
from .write_groups import Blocks, QueryPrinter, parts_of

_DEFAULT_BASE = "http://localhost/"


def write(query: ContinuousQuery) -> str:
    """The text of a query. Parameters stand there as the terms that they were bound to.

    >>> from .parser import parse
    >>> print(write(parse("PREFIX : <http://e/> SELECT * { ?a :p ?b . ?a :q 1 FILTER(?b>1) }")), end="")
    PREFIX : <http://e/>
    SELECT ?a ?b
    WHERE {
      ?a :p ?b ;
        :q 1 .
      FILTER (?b > 1)
    }
    """
    declared = [window.name for window in query.windows]
    for count in range(len(declared) + 1):
        text, order = _written(query, count)
        # A STREAM block numbers its window by its place in the text; where that place does not give the
        # number, the windows up to there are clauses, which come before all blocks.
        if query.dialect != "cqels" or order == declared[count:]:
            return text
    raise AssertionError(f"the windows of this {DIALECT_NAMES[query.dialect]} query have no order")


def _written(query: ContinuousQuery, clauses: int) -> tuple[str, list[NamedNode]]:
    """The text with that many windows as dataset clauses, and the order of the windows of its blocks."""
    nodes = (query.root, query.template, query.describe)
    blocks = Blocks({window.name: window for window in query.windows}, query.report)
    writer = QueryPrinter(query.prefixes, query.dialect, nodes, blocks)
    if query.dialect == "cqels":
        blocks.clauses = _window_variables(query, writer, clauses)
    dataset = list(_dataset(query, writer))
    parts = select_parts(query.root, projected=query.form == "select")
    head = _head(query, writer)
    lines = writer.select(parts, head, dataset)
    if query.form == "describe" and parts.pattern == a.Bgp():
        lines.remove("WHERE { }")
    register = _register(query, writer)
    prologue = [
        f"PREFIX {prefix}: <{query.prefixes[prefix]}>" for prefix in query.prefixes if prefix in writer.used
    ]
    if query.base_iri not in (None, _DEFAULT_BASE) and _calls_iri(nodes):
        prologue.insert(0, f"BASE <{query.base_iri}>")
    return "\n".join([*prologue, *register, *lines]) + "\n", blocks.order


def _window_variables(query: ContinuousQuery, writer: QueryPrinter, clauses: int) -> dict[NamedNode, str]:
    variables: dict[NamedNode, str] = {}
    for number, window in enumerate(query.windows[:clauses], 1):
        name = f"w{number}"
        while name in writer.count:
            name += "_"
        variables[window.name] = f"?{name}"
    return variables


def _head(query: ContinuousQuery, writer: QueryPrinter) -> list[str] | None:
    """The text in the place of SELECT and its columns."""
    match query.form:
        case "select":
            return None
        case "ask":
            return ["ASK"]
        case "describe":
            return [f"DESCRIBE {' '.join(map(writer.term, query.describe)) or '*'}"]
        case "construct":
            lines: list[str] = []
            for graph, quads in groupby(query.template, key=lambda quad: quad.graph):
                triples = writer.triples([quad.triple for quad in quads])
                lines += triples if graph is None else writer.enclosed(f"GRAPH {writer.term(graph)}", triples)
            return writer.enclosed("CONSTRUCT", lines)


def _dataset(query: ContinuousQuery, writer: QueryPrinter) -> Iterable[str]:
    blocks = writer.blocks
    for window in query.windows:
        brackets = window_text(window, query.dialect, blocks.takes_report(window.name))
        stream = writer.term(window.stream)
        if query.dialect == "rspql":
            yield f"FROM NAMED WINDOW {writer.iri(window.name)} ON {stream} {brackets}"
        elif query.dialect == "csparql":
            yield f"FROM STREAM {stream} {brackets}"
        elif window.name in blocks.clauses:
            yield f"FROM NAMED {stream} {brackets} AS {blocks.clauses[window.name]}"
    for graph in query.dataset.default:
        yield f"FROM {writer.iri(graph)}"
    for graph in query.dataset.named:
        yield f"FROM NAMED {writer.iri(graph)}"
    if query.refresh_every_ms is not None:
        yield f"REFRESH EVERY {duration_text(query.refresh_every_ms, query.dialect)}"
    if query.into_graph is not None:
        yield f"INTO GRAPH {writer.iri(query.into_graph)}"


def _register(query: ContinuousQuery, writer: QueryPrinter) -> list[str]:
    every = []
    if query.computed_every_ms is not None:
        every.append(f"COMPUTED EVERY {duration_text(query.computed_every_ms, query.dialect)}")
    if query.t0_ms is not None:
        every.append(f"STARTING AT {query.t0_ms}")
    if query.register_as is None:
        return []
    kind = query.output.upper() if query.output is not None else query.register_as.upper()
    if query.dialect == "rspql" and kind == "QUERY":
        kind = ""
    iri = "" if query.result_iri is None else writer.iri(query.result_iri)
    words = ["REGISTER", kind, iri or query.result_name or "", *every, "AS"]
    return [" ".join(word for word in words if word)]


def _calls_iri(nodes: object) -> bool:
    """True when an IRI() resolves against the base."""
    return any(isinstance(each, a.Call) and each.name == "IRI" for each in parts_of(nodes))
