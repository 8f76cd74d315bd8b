"""Every example of docs/language.md runs on the engine and gives the answer that the page states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, QueryResultsFormat, RdfFormat, parse, parse_query_results

from quadrill.continuous.algebra.print_triples import TermPrinter
from quadrill.continuous.engine import Registration
from quadrill.continuous.language import parse as parse_text
from tests.continuous.engines import bench
from tests.continuous.language.page_inputs import iri_of, store, take

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(
    r"^```(?:cqels|rspql|csparql|sparql)(?: parameters=([^\n]*))?\n(.*?)^```\n(?:\n```run\n(.*?)^```$)?",
    PAGE,
    re.MULTILINE | re.DOTALL,
)
_INPUT = re.compile(r"(\d+) (\S+) ?(.*)")


def test_every_example_says_what_it_gives() -> None:
    assert [text for _, text, run in EXAMPLES if not run] == []
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize(("parameters", "text", "run"), EXAMPLES)
def test_an_example_gives_the_answer_of_the_page(parameters: str, text: str, run: str) -> None:
    assert replay(parameters, text, run) == [line for line in run.splitlines() if line.startswith("= ")]


def replay(parameters: str, text: str, run: str) -> list[str]:
    """The lines that state the answer, after the inputs of the others."""
    prefixes = {
        "": "http://example.org/",
        "xsd": "http://www.w3.org/2001/XMLSchema#",
        **parse_text(text, parameters=members(parameters)).prefixes,
    }
    with bench() as one:
        for line in run.splitlines():
            if line.startswith("stored "):
                store(one, line[7:], prefixes)
        registration = {"query": text, "parameters": members(parameters)}
        one.engine.queries.register(Registration.from_json(registration, name="example"))
        for line in run.splitlines():
            found = _INPUT.fullmatch(line)
            if found is not None:
                take(one, int(found[1]), iri_of(found[2], prefixes), found[3], prefixes)
        return shown(one.engine.queries.current_answer("example"), prefixes)


def members(parameters: str) -> dict[str, Any]:
    return json.loads(parameters) if parameters else {}


def shown(answer: dict[str, Any], prefixes: dict[str, str]) -> list[str]:
    """``= at 1000`` and a line for each row or quad, sorted."""
    names = TermPrinter((), prefixes)
    lines = []
    if "quads" in answer:
        for quad in parse(input=answer["quads"], format=RdfFormat.N_QUADS):
            terms = [quad.subject, quad.predicate, quad.object]
            if isinstance(quad.graph_name, NamedNode):
                terms.append(quad.graph_name)
            lines.append(" ".join(map(names.term, terms)))
    else:
        document = json.dumps({"head": answer["head"], "results": answer["results"]})
        results = parse_query_results(document.encode(), QueryResultsFormat.JSON)
        for row in results:  # type: ignore[union-attr]  # a SELECT
            cells = [
                f"?{variable.value} {names.term(row[variable])}"
                for variable in results.variables  # type: ignore[union-attr]
                if row[variable] is not None
            ]
            lines.append(", ".join(cells))
    return [f"= at {answer['at']}", *(f"= {line}" for line in sorted(lines))]
