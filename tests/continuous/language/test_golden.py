"""Each construct of each dialect beside its algebra: tests/golden/language-*.txt.

A file is a list of cases between lines of ``====``: a comment and the text, a line ``----``, windows, registration
and algebra. ``QUADRILL_WRITE_GOLDEN=1`` writes the second halves anew; read the difference before it is committed.
"""  # noqa: E501

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.algebra.nodes import Var
from quadrill.continuous.algebra.query import ContinuousQuery, WindowSpec
from quadrill.continuous.algebra.show import show
from quadrill.continuous.language import parse

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("language-*.txt"))
RULE, CASE = "\n----\n", "\n====\n"
AROUND = {
    "output": "output",
    "register_as": "result.kind",
    "result_iri": "result.iri",
    "result_name": "result.name",
    "computed_every_ms": "emission.computed_every_ms",
    "t0_ms": "emission.t0_ms",
    "report": "emission.report",
}
"""The words of a golden file before the windows, and where a query has their values."""


def shown(query: ContinuousQuery) -> str:
    lines = [
        f"{name} {value}" for name, place in AROUND.items() if (value := attrgetter(place)(query)) is not None
    ]
    for window in query.windows:
        stream = f"?{window.stream.name}" if isinstance(window.stream, Var) else str(window.stream)
        default = WindowSpec(window.spec.kind)
        values = ((name, getattr(window.spec, name)) for name in WindowSpec.__slots__)
        spec = [
            f"{name}={value}" for name, value in values if name == "kind" or value != getattr(default, name)
        ]
        lateness = [] if window.lateness_ms is None else [f"lateness_ms={window.lateness_ms}"]
        lines.append(" ".join(["window", str(window.name), stream, *spec, *lateness]))
    lines += [f"from {graph}" for graph in query.dataset.default]
    lines += [f"from named {graph}" for graph in query.dataset.named]
    for quad in query.template:
        terms = (quad.triple.subject, quad.triple.predicate, quad.triple.object, quad.graph)
        lines.append("template " + " ".join(str(term) for term in terms if term is not None))
    return "\n".join([*lines, show(query.root)])


def answer(text: str, dialect: Any) -> str:
    return shown(parse(text, dialect=dialect, parameters={"name": "Ann"}))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_construct_has_the_algebra_that_its_golden_file_shows(path: Path) -> None:
    dialect = path.stem.partition("-")[2]
    texts = [case.partition(RULE)[0].strip() for case in path.read_text(encoding="utf-8").split(CASE)]
    found = CASE.join(text + RULE + answer(text, dialect) for text in texts) + "\n"
    if os.environ.get("QUADRILL_WRITE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def test_every_dialect_has_its_file() -> None:
    assert [path.stem for path in GOLDEN] == [
        f"language-{d}" for d in ("cqels", "csparql", "rspql", "sparql")
    ]
