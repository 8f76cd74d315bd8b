"""Every query of the cookbook, the concepts and docs/coming-from.md gives the rows that stand below it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, QueryResultsFormat, RdfFormat, parse, parse_query_results

from quadrill.continuous.algebra.print_triples import TermPrinter
from quadrill.continuous.engine import Registration
from quadrill.continuous.language import parse as parse_text
from tests.continuous.engines import Bench, bench
from tests.continuous.language.page_inputs import iri_of, sparql_prologue, store, take

DOCS = Path(__file__).parents[3] / "docs"
PAGES = [DOCS / "cookbook" / "queries.md", DOCS / "coming-from.md", *sorted((DOCS / "concepts").glob("*.md"))]
RUN = re.compile(
    r"^```(cqels|rspql|csparql)([^\n]*)\n(.*?)^```\n(?:\n```input\n(.*?)^```\n\n```rows\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
MIDNIGHT = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
SIGNS = {"insert": "+", "delete": "-", "answer": "=", "resolved": "~"}


def recipes(page: Path) -> list[tuple[str, ...]]:
    """Dialect, options, text, input and rows of each query of a page."""
    return RUN.findall(page.read_text("utf-8"))


EXAMPLES = [
    pytest.param(*recipe, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, recipe in enumerate(recipes(page), 1)
]


def test_every_recipe_has_a_query() -> None:
    headings = re.findall(r"^## ", PAGES[0].read_text("utf-8"), re.MULTILINE)
    assert len(recipes(PAGES[0])) == len(headings)


@pytest.mark.parametrize(("dialect", "options", "text", "given", "rows"), EXAMPLES)
def test_a_query_gives_the_rows_of_the_page(
    dialect: str, options: str, text: str, given: str, rows: str
) -> None:
    assert rows, "every query of these pages says what it gives"
    members = dict(each.split("=") for each in options.split())
    assert replay(dialect, members, text, given) == rows.splitlines()


def replay(dialect: str, members: dict[str, Any], text: str, given: str) -> list[str]:
    """The feed of a query, as rows, after the inputs of a page."""
    query = parse_text(text)
    assert (query.dialect, query.warnings) == (dialect, ())
    prefixes = {"": "http://example.org/", **query.prefixes}
    with bench() as one:
        lines = given.splitlines()
        for line in lines:
            if line.startswith("stored "):
                store(one, line.removeprefix("stored "), prefixes)
        one.engine.queries.register(Registration.from_json({"query": text, **members}, name="recipe"))
        for line in lines:
            if not line.startswith("stored "):
                take_line(one, line, prefixes)
        events = one.engine.queries.feed("recipe").subscribe(0).take()
        return [row for event in events for row in shown(event, prefixes)]


def take_line(one: Bench, line: str, prefixes: dict[str, str]) -> None:
    """One line of an input: an update, an element or a heartbeat."""
    time, stream, *data = line.split(" ", 2)
    hours, minutes, seconds = time.split(":")
    at = MIDNIGHT + int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000)
    if stream == "update":
        one.clock.set(at)
        one.store.writer.update(sparql_prologue(prefixes) + data[0])
    else:
        take(one, at, iri_of(stream, prefixes), "".join(data), prefixes)


def shown(event: Any, prefixes: dict[str, str]) -> list[str]:
    """The rows of an event in their order; its instant alone when it has none."""
    document = json.loads(event.data)
    names = TermPrinter((), prefixes)
    time = datetime.fromtimestamp(document["at"] / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    start = f"{SIGNS[event.kind]} {time.removesuffix('.000')}"
    rows = []
    if "quads" in document:
        for quad in parse(input=document["quads"], format=RdfFormat.N_QUADS):
            graph = [] if isinstance(quad.graph_name, DefaultGraph) else [quad.graph_name]
            rows.append([quad.subject, quad.predicate, quad.object, *graph])
    else:
        body = json.dumps({"head": document["head"], "results": document["results"]}).encode()
        results = parse_query_results(body, QueryResultsFormat.JSON)
        rows = [[row[name] for name in results.variables] for row in results]  # type: ignore[union-attr]
    lines = ["  ".join([start, *(cell(term, names) for term in row)]) for row in rows]
    return lines or [start]


def cell(term: Any, names: TermPrinter) -> str:
    """A term as the page writes it: numbers by their figures, other terms as in a query."""
    if term is None:
        return "UNDEF"
    if getattr(term, "datatype", None) is not None and "XMLSchema#" in term.datatype.value:
        return str(term.value)
    return names.term(term)
