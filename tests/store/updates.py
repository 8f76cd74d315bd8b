"""Random updates over few terms, so that operations meet: what one inserts another deletes or matches."""

from __future__ import annotations

import re
from functools import cache
from itertools import count

from hypothesis import strategies as st

IRIS = ("ex:a", "ex:b", "<http://e/c>")
PREDICATES = ("ex:p", "ex:q", "a")
GRAPHS = ("ex:g", "ex:h", "<http://e/i>")
LITERALS = (
    "1",
    "01",
    "1.50",
    '"x"@EN',
    '"y"',
    "true",
    '"2024-01-01T24:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>',
)
PROLOGUE = "PREFIX ex: <http://e/>\n"

iris = st.sampled_from(IRIS)
predicates = st.sampled_from(PREDICATES)
graphs = st.sampled_from(GRAPHS)
literals = st.sampled_from(LITERALS)
ground_terms = st.one_of(
    iris,
    literals,
    st.builds(lambda s, p, o: f"<<( {s} {p} {o} )>>", iris, st.sampled_from(PREDICATES[:2]), literals),
)
variables = st.sampled_from(("?x", "?y", "?z"))


def _blank(label: str) -> st.SearchStrategy[str]:
    return st.sampled_from((f"_:{label}", "[]", f"[ ex:p _:{label} ]"))


def _in_graphs(triples: st.SearchStrategy[str], names: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A block of one to three triples, each in the default graph or in a named one."""
    part = st.one_of(triples, st.builds(lambda g, t: f"GRAPH {g} {{ {t} }}", names, triples))
    return st.lists(part, min_size=1, max_size=3).map(" ".join)


def _triples(subjects, preds, objects):
    return st.builds(lambda s, p, o: f"{s} {p} {o} .", subjects, preds, objects)


ground_triples = _triples(iris, predicates, ground_terms)
pattern_triples = _triples(
    st.one_of(iris, variables, st.just("_:w")),
    st.one_of(predicates, st.just("?p")),
    st.one_of(ground_terms, variables, st.just("<<( ?x ex:p ?y )>>")),
)
template_triples = _triples(
    st.one_of(iris, variables), st.one_of(predicates, st.just("?p")), st.one_of(ground_terms, variables)
)
wheres = st.one_of(
    _in_graphs(pattern_triples, st.one_of(graphs, st.just("?g"))),
    st.builds(
        lambda a, b: f"{a} OPTIONAL {{ {b} }}",
        _in_graphs(pattern_triples, graphs),
        _in_graphs(pattern_triples, st.just("?g")),
    ),
    st.builds(lambda a, b: f"{{ {a} }} UNION {{ {b} }}", pattern_triples, pattern_triples),
    st.builds(lambda a: f"{a} FILTER(!isLiteral(?x)) BIND(<<( ex:a ex:p ?y )>> AS ?z)", pattern_triples),
    st.just("SELECT ?x (COUNT(*) AS ?y) { ?x ?p ?o } GROUP BY ?x"),
    st.just("GRAPH ?g {}"),
    st.just(""),
)


kinds = st.sampled_from(
    ("insert data", "delete data", "delete where", "modify", "modify", "modify", "graph", "graph")
)
silences = st.sampled_from(("", "SILENT "))
deleted_data = _in_graphs(ground_triples, graphs)
templates = _in_graphs(template_triples, st.one_of(graphs, st.just("?g")))
templates_or_none = st.one_of(st.none(), templates)
withs = st.one_of(st.just(""), graphs.map(lambda g: f"WITH {g} "))
usings = st.one_of(
    st.just(""),
    graphs.map(lambda g: f" USING {g}"),
    st.builds(lambda g, h: f" USING {g} USING NAMED {h}", graphs, graphs),
)
targets = st.one_of(st.sampled_from(("DEFAULT", "NAMED")), graphs.map(lambda g: f"GRAPH {g}"))
sources = st.one_of(st.just("DEFAULT"), graphs)
graph_operations = st.sampled_from(
    (
        "CLEAR {silent}{target}",
        "DROP {silent}{target}",
        "CREATE {silent}GRAPH {graph}",
        "COPY {silent}{one} TO {two}",
        "MOVE {silent}{one} TO {two}",
        "ADD {silent}{one} TO {two}",
        "DROP ALL",
    )
)


@cache
def _inserted_data(number: int) -> st.SearchStrategy[str]:
    blank = _blank(f"b{number}")
    return _in_graphs(_triples(st.one_of(iris, blank), predicates, st.one_of(ground_terms, blank)), graphs)


@cache
def _inserted(number: int) -> st.SearchStrategy[str]:
    blank = _blank(f"b{number}")
    new = _triples(st.one_of(iris, variables, blank), predicates, st.one_of(ground_terms, variables, blank))
    return _in_graphs(new, st.one_of(graphs, st.just("?g")))


@cache
def _inserted_or_none(number: int) -> st.SearchStrategy[str | None]:
    return st.one_of(st.none(), _inserted(number))


@st.composite
def operations(draw: st.DrawFn, number: int) -> str:
    """One operation; ``number`` keeps the blank node labels of operations apart."""
    kind = draw(kinds)
    silent = draw(silences)
    match kind:
        case "insert data":
            return f"INSERT DATA {{ {draw(_inserted_data(number))} }}"
        case "delete data":
            return f"DELETE DATA {{ {draw(deleted_data)} }}"
        case "delete where":
            return f"DELETE WHERE {{ {draw(templates)} }}"
        case "modify":
            delete = draw(templates_or_none)
            insert = draw(_inserted_or_none(number) if delete else _inserted(number))
            with_graph = draw(withs)
            using = draw(usings)
            # A label may not stand in two basic graph patterns: each place gets its own.
            places = count()
            where = re.sub("_:w", lambda _: f"_:w{number}x{next(places)}", draw(wheres))
            parts = (f"DELETE {{ {delete} }}" if delete else "", f"INSERT {{ {insert} }}" if insert else "")
            return f"{with_graph}{' '.join(parts)}{using} WHERE {{ {where} }}"
        case _:
            return draw(graph_operations).format(
                silent=silent,
                target=draw(targets),
                graph=draw(graphs),
                one=draw(sources),
                two=draw(sources),
            )


_operation = cache(operations)


@cache
def _lengths(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most)


@st.composite
def requests(draw: st.DrawFn, max_operations: int = 4) -> str:
    """A request of one or several operations."""
    length = draw(_lengths(max_operations))
    return PROLOGUE + " ;\n".join(draw(_operation(number)) for number in range(length))
