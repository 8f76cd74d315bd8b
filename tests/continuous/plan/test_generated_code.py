"""The generated source of samples, of loops, steps and readers of records: tests/golden/generated-*.txt.

A file is a list of cases between lines of ``====``: a name, a line ``----`` and the source.
``QUADRILL_WRITE_GOLDEN=1`` writes the files anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from quadrill.continuous.expressions.emitter import Emitter
from quadrill.continuous.language.mapping.context import Term
from quadrill.continuous.language.mapping.fields import FieldReader
from quadrill.continuous.language.mapping.jsonld_nodes import node_function
from quadrill.continuous.plan.compiled import CompiledPlan
from quadrill.continuous.streams.push_call import PushCall
from tests.continuous.engines import Bench, E, bench
from tests.continuous.test_run_loop import S, T, line, register

GOLDEN = Path(__file__).parents[2] / "golden"
RULE, CASE = "\n----\n", "\n====\n"
LOOPS = {
    "all": "istream", "star": "changes", "last": "changes", "two": "dstream", "groups": "changes",
    "ever": "istream", "first": "rstream", "texts": "rstream", "quads": "changes", "absent": "changes",
}  # fmt: skip


def check(name: str, cases: Iterable[tuple[str, str]]) -> None:
    path = GOLDEN / f"generated-{name}.txt"
    found = CASE.join(each + RULE + source.rstrip() for each, source in cases) + "\n"
    if os.environ.get("QUADRILL_WRITE_GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of the loops that are made from now on."""
    made: list[str] = []
    before = CompiledPlan.loop

    def loop(plan: CompiledPlan, around: Any) -> tuple[str, Any]:
        found = before(plan, around)
        made.append(found[0])
        return found

    monkeypatch.setattr(CompiledPlan, "loop", loop)
    return made


def push(b: Bench) -> None:
    for at in range(0, 40, 8):
        for stream in (S, T):
            body = "\n".join(line(at + step, report(step), named=False) for step in range(8))
            b.engine.streams.push(PushCall(stream, "application/x-ndjson"), body.encode())


def report(step: int) -> list[tuple[str, str, int]]:
    return [("abc"[step % 3], "seen", step % 3), ("abc"[step % 3], "felt", step)]


def loop_of(kind: str, output: str, loops: list[str]) -> str:
    loops.clear()
    with bench() as b:
        register(b, kind, output=output)
        push(b)
    return loops[0]


def test_loops_of_queries(loops: list[str]) -> None:
    check("loops", [(f"{kind} {output}", loop_of(kind, output, loops)) for kind, output in LOOPS.items()])


def members_of(pattern: str, output: str, loops: list[str]) -> str:
    loops.clear()
    with bench() as b:
        for stream in (S, T):
            b.engine.streams.declare(stream)
        for number in range(3):
            text = f"SELECT ?x {{ STREAM :s [RANGE 4ms] {{ {pattern.replace('$', str(number))} }} }}"
            b.register(f"q{number}", text, output=output)
        push(b)
    return loops[0]


def test_loops_of_groups(loops: list[str]) -> None:
    outputs = ("istream", "dstream", "changes")
    check("groups", [(output, members_of("?x :seen $", output, loops)) for output in outputs])


def test_steps_of_plans() -> None:
    cases = []
    for kind in ("filter", "groups", "optional", "newest"):
        with bench() as b:
            register(b, kind)
            running = b.engine.parts.catalogue.get("run").running
            assert running is not None
            state: Any = running.evaluator.state  # type: ignore[attr-defined]
            cases.append((kind, state.compiled.text))
    check("steps", cases)


def test_readers_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    before = Emitter.build

    def build(out: Emitter, head: str, name: str) -> Any:
        made.append("\n".join([head, *out.lines]))
        return before(out, head, name)

    monkeypatch.setattr(Emitter, "build", build)
    FieldReader(["sensor", "value_c"]).rows({"sensor": "a", "value": {"c": 21.5}, "other": 1})
    terms = [Term("@id"), Term("@type"), Term(f"{E}name"), Term(f"{E}of", coercion="@id"), None]
    node_function(terms, {})
    check("records", zip(("fields", "node"), made, strict=True))
