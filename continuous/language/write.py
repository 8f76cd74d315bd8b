"""Serialisation of a query as indented text of its dialect, for EXPLAIN; `parse` reads the text back.

The written text of a query is a normal form: if it is parsed and written again, it does not change.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from pyoxigraph import NamedNode

from quadrill.store.documents.times import units_of

from ..algebra import nodes as a
from ..algebra.print_triples import TermPrinter, parts_of
from ..algebra.printer import BlockNames, Printer
from ..algebra.query import ContinuousQuery, Dialect, EmissionClauses, WindowDeclaration, WindowSpec
from ..algebra.select_parts import select_parts
from .windows import DIALECT_NAMES, word_of

_DEFAULT_BASE = "http://localhost/"


def write(query: ContinuousQuery) -> str:
    """Return the text of a parsed query; parameters are written as the terms to which they are bound.

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
    if any(window.spec.sequence is not None for window in query.windows):
        return query.text  # The original text is returned, because SEQ blocks have no normal form.
    for count in range(len(declared) + 1):
        text, order = _written(query, count)
        # A STREAM block in a written text numbers its window by its position in the text. If a STREAM block's
        # position does not give the right window number, the windows up to it are written as dataset clauses,
        # which come before all blocks.
        if query.dialect != "cqels" or order == declared[count:]:
            return text
    raise AssertionError(f"the windows of this {DIALECT_NAMES[query.dialect]} query have no order")


def _written(query: ContinuousQuery, clauses: int) -> tuple[str, list[NamedNode]]:
    """Return the written text, and the windows of its blocks in order.

    The first ``clauses`` windows of the query are written as dataset clauses.
    """
    nodes = (query.root, query.template, query.describe)
    terms = TermPrinter(nodes, query.prefixes, placeholders=query.dialect != "sparql")
    # Kolibrie's REPORT words are written into the first window.
    brackets = [
        window_text(window, query.dialect, None if number else query.emission.report)
        for number, window in enumerate(query.windows)
    ]
    blocks = BlockNames()
    if query.dialect == "cqels":
        declared = {window.name: (window, text) for window, text in zip(query.windows, brackets, strict=True)}
        blocks = BlockNames(_window_variables(query, terms.names, clauses), declared)
    writer = Printer(terms, query.dialect, blocks)
    dataset = list(_dataset(query, writer, brackets))
    parts = select_parts(query.root, projected=query.form == "select")
    lines = writer.select(parts, writer.head(query, terms), dataset)
    if query.form == "describe" and parts.pattern == a.Bgp():
        lines.remove("WHERE { }")
    register = _register(query, terms)
    prologue = [
        f"PREFIX {prefix}: <{query.prefixes[prefix]}>" for prefix in query.prefixes if prefix in terms.used
    ]
    if query.base_iri not in (None, _DEFAULT_BASE) and _calls_iri(nodes):
        prologue.insert(0, f"BASE <{query.base_iri}>")
    endings = _endings(query.emission, query.dialect)
    return "\n".join([*prologue, *register, *lines, *endings]) + "\n", blocks.order


def _window_variables(query: ContinuousQuery, names: Container[str], clauses: int) -> dict[NamedNode, str]:
    variables: dict[NamedNode, str] = {}
    for number, window in enumerate(query.windows[:clauses], 1):
        name = f"w{number}"
        while name in names:
            name += "_"
        variables[window.name] = f"?{name}"
    return variables


def _dataset(query: ContinuousQuery, writer: Printer, brackets: Sequence[str]) -> Iterable[str]:
    terms, clauses = writer.terms, writer.blocks.clauses
    for window, text in zip(query.windows, brackets, strict=True):
        stream = terms.term(window.stream)
        if query.dialect == "rspql":
            yield f"FROM NAMED WINDOW {terms.iri(window.name)} ON {stream} {text}"
        elif query.dialect == "csparql":
            yield f"FROM STREAM {stream} {text}"
        elif window.name in clauses:
            yield f"FROM NAMED {stream} {text} AS {clauses[window.name]}"
    for graph in query.dataset.default:
        yield f"FROM {terms.iri(graph)}"
    for graph in query.dataset.named:
        yield f"FROM NAMED {terms.iri(graph)}"
    if query.refresh_every_ms is not None:
        yield f"REFRESH EVERY {duration_text(query.refresh_every_ms, query.dialect)}"
    if query.into_graph is not None:
        yield f"INTO GRAPH {terms.iri(query.into_graph)}"


def _register(query: ContinuousQuery, terms: TermPrinter) -> list[str]:
    result, emission = query.result, query.emission
    if result.kind is None:
        return []
    every = []
    if emission.computed_every_ms is not None:
        every.append(f"COMPUTED EVERY {duration_text(emission.computed_every_ms, query.dialect)}")
    if emission.t0_ms is not None:
        every.append(f"STARTING AT {emission.t0_ms}")
    kind = query.output.upper() if query.output is not None else result.kind.upper()
    if query.dialect == "rspql" and kind == "QUERY":
        kind = ""
    iri = "" if result.iri is None else terms.iri(result.iri)
    words = ["REGISTER", kind, iri or result.name or "", *every, "AS"]
    return [" ".join(word for word in words if word)]


def _endings(emission: EmissionClauses, dialect: Dialect) -> Iterable[str]:
    if emission.after_ms is not None:
        yield f"AFTER {duration_text(emission.after_ms, dialect)}"
    once = emission.once_per
    if once is not None:
        every = "" if once.every_ms is None else f" EVERY {duration_text(once.every_ms, dialect)}"
        until = " UNTIL GONE" if once.until_gone else ""
        resolved = " RESOLVED" if once.resolved else ""
        yield f"ONCE PER {' '.join(f'?{each.name}' for each in once.variables)}{until}{resolved}{every}"
    if isinstance(emission.emit, int):
        yield f"EMIT EVERY {duration_text(emission.emit, dialect)}"
    elif emission.emit is not None:
        yield f"EMIT ON {'CLOSE' if emission.emit == 'on-window-close' else 'CHANGE'}"


def _calls_iri(nodes: object) -> bool:
    """Return True if the query calls IRI(), whose result depends on the base IRI."""
    return any(isinstance(each, a.Call) and each.name == "IRI" for each in parts_of(nodes))


# --- windows


def window_text(window: WindowDeclaration, dialect: Dialect, report: str | None = None) -> str:
    """Return the text of a window, with brackets, in the syntax of its dialect."""
    spec = window.spec
    match spec.kind:
        case "now" | "all":
            inside = spec.kind.upper()
        case "triples":
            inside = f"TRIPLES {spec.count}"
        case "batch":
            inside = f"RANGE TRIPLES {spec.count}"
        case "elements":
            inside = f"ELEMENTS {spec.count} STEP {spec.step}"
        case "range" | "past" | "grid":
            inside = f"RANGE {duration_text(spec.width_ms, dialect)}"
            if spec.past_ms:
                inside += f" TO {duration_text(spec.past_ms, dialect)}"
            if spec.kind == "grid":
                word = "SLIDE" if dialect == "cqels" else "STEP"
                inside += f" {word} {duration_text(spec.slide_ms, dialect)}"
        case "session":
            by = f" PARTITION BY {_keys(spec)}" if spec.keys else ""
            inside = f"SESSION {duration_text(spec.width_ms, dialect)}{by}"
        case "latest":
            within = f" WITHIN {duration_text(spec.width_ms, dialect)}" if spec.width_ms else ""
            inside = f"LATEST {spec.count} BY {_keys(spec)}{within}"
        case _:
            inside = word_of(spec.kind).text(spec)
    if spec.t0_ms is not None:
        inside += f" STARTING AT {spec.t0_ms}"
    if window.lateness_ms is not None:
        lateness = duration_text(window.lateness_ms, dialect) if window.lateness_ms else "0"
        inside += f" LATENESS {lateness}"
    if report is not None:
        inside += f" REPORT {report}"
    if window.bounds is not None:
        inside += f" BOUNDS {' '.join(f'?{each.name}' for each in window.bounds)}"
    return f"[{inside}]"


def _keys(spec: WindowSpec) -> str:
    return " ".join(f"?{each.name}" for each in spec.keys)


def duration_text(milliseconds: int, dialect: Dialect) -> str:
    """Return the text of a duration: ``1h30m``, or ``PT1H30M`` in RSP-QL*.

    >>> duration_text(5_400_000, "cqels"), duration_text(90_500, "rspql")
    ('1h30m', 'PT1M30.500S')
    """
    parts: dict[str, object] = dict(units_of(milliseconds))
    if dialect != "rspql":
        return "".join(f"{count}{unit}" for unit, count in parts.items()) or "0"
    days = f"{parts.pop('d')}D" if "d" in parts else ""
    if "ms" in parts:
        parts["s"] = f"{parts.get('s', 0)}.{milliseconds % 1000:03}"
        del parts["ms"]
    time = "".join(f"{count}{unit.upper()}" for unit, count in parts.items())
    return f"P{days}" + (f"T{time}" if time else "") if days or time else "PT0S"
