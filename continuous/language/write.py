"""A query as text of its dialect: indented, with its prefixes and without BASE. `parse` gives it back.

The text is the one normal form of its algebra: written, read and written again it does not change. EXPLAIN
shows queries and their static parts so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.nodes import Algebra, Var
from ..algebra.query import ContinuousQuery, Dialect
from .windows import DIALECT_NAMES
from .write_groups import Blocks, GroupWriter, enclosed, window_names
from .write_select import select_parts, select_text
from .write_terms import Names, duration_text, window_text

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


def write_pattern(
    node: Algebra, prefixes: Mapping[str, str] | None = None, dialect: Dialect = "sparql"
) -> str:
    """A pattern alone, for people: what stands between the braces, without the prefixes' declarations."""
    names = Names(prefixes or {}, dialect, node, free=True)
    declared = {name: _shown_window(name) for name in window_names(node)}
    writer = GroupWriter(names, Blocks(clauses=declared))
    return "\n".join(writer.inside(node))


def _shown_window(name: NamedNode) -> str:
    return str(name)


def _written(query: ContinuousQuery, clauses: int) -> tuple[str, list[NamedNode]]:
    """The text with that many windows as dataset clauses, and the order of the windows of its blocks."""
    nodes = (query.root, query.template, query.describe)
    names = Names(query.prefixes, query.dialect, nodes)
    blocks = Blocks({window.name: window for window in query.windows}, query.report)
    if query.dialect == "cqels":
        blocks.clauses = _window_variables(query, names, clauses)
    writer = GroupWriter(names, blocks)
    dataset = list(_dataset(query, names, blocks))
    parts = select_parts(query.root, projected=query.form == "select")
    head = _head(query, writer)
    lines = select_text(writer, parts, head, dataset)
    if query.form == "describe" and parts.pattern == a.Bgp():
        lines.remove("WHERE { }")
    register = _register(query, names)
    prologue = [
        f"PREFIX {prefix}: <{query.prefixes[prefix]}>" for prefix in query.prefixes if prefix in names.used
    ]
    if query.base_iri not in (None, _DEFAULT_BASE) and _calls_iri(nodes):
        prologue.insert(0, f"BASE <{query.base_iri}>")
    return "\n".join([*prologue, *register, *lines]) + "\n", blocks.order


def _window_variables(query: ContinuousQuery, names: Names, clauses: int) -> dict[NamedNode, str]:
    variables: dict[NamedNode, str] = {}
    for number, window in enumerate(query.windows[:clauses], 1):
        name = f"w{number}"
        while name in names.count:
            name += "_"
        variables[window.name] = f"?{name}"
    return variables


def _head(query: ContinuousQuery, writer: GroupWriter) -> list[str] | None:
    """What stands in the place of SELECT and its columns."""
    names = writer.names
    match query.form:
        case "select":
            return None
        case "ask":
            return ["ASK"]
        case "describe":
            return [f"DESCRIBE {' '.join(map(names.term, query.describe)) or '*'}"]
        case "construct":
            lines: list[str] = []
            for graph, quads in groupby(query.template, key=lambda quad: quad.graph):
                triples = writer.triples.lines([quad.triple for quad in quads])
                lines += triples if graph is None else enclosed(f"GRAPH {names.term(graph)}", triples)
            return enclosed("CONSTRUCT", lines)


def _dataset(query: ContinuousQuery, names: Names, blocks: Blocks) -> Iterable[str]:
    for window in query.windows:
        brackets = window_text(window, query.dialect, blocks.takes_report(window.name))
        stream = names.term(window.stream)
        if query.dialect == "rspql":
            yield f"FROM NAMED WINDOW {names.iri(window.name)} ON {stream} {brackets}"
        elif query.dialect == "csparql":
            yield f"FROM STREAM {stream} {brackets}"
        elif window.name in blocks.clauses:
            yield f"FROM NAMED {stream} {brackets} AS {blocks.clauses[window.name]}"
    for graph in query.dataset.default:
        yield f"FROM {names.iri(graph)}"
    for graph in query.dataset.named:
        yield f"FROM NAMED {names.iri(graph)}"
    if query.refresh_every_ms is not None:
        yield f"REFRESH EVERY {duration_text(query.refresh_every_ms, query.dialect)}"
    if query.into_graph is not None:
        yield f"INTO GRAPH {names.iri(query.into_graph)}"


def _register(query: ContinuousQuery, names: Names) -> list[str]:
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
    iri = "" if query.result_iri is None else names.iri(query.result_iri)
    words = ["REGISTER", kind, iri or query.result_name or "", *every, "AS"]
    return [" ".join(word for word in words if word)]


def _calls_iri(nodes: object) -> bool:
    """True when an IRI() resolves against the base."""
    stack = [nodes]
    while stack:
        each = stack.pop()
        if isinstance(each, a.Call) and each.name == "IRI":
            return True
        if isinstance(each, tuple):
            stack.extend(each)
        elif type(each).__module__ == a.__name__ and not isinstance(each, Var):
            stack.extend(getattr(each, name) for name in getattr(each, "__slots__", ()))
    return False
