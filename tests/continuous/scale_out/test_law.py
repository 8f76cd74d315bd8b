"""The events of key groups are those of the single engine, for each number of groups and batches.

The oracle is ``quadrill run`` without an engine, which evaluates the whole query in one engine.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from quadrill.continuous.scale_out import inputs
from quadrill.continuous.scale_out.checkpoint import CheckpointError
from quadrill.continuous.scale_out.job import JobError, JobOptions
from quadrill.continuous.scale_out.local_runtime import LocalRuntime
from quadrill.continuous.scale_out.program import Program, StaticFile, WorkOrder

from . import jobs

W = "FROM NAMED WINDOW :w ON :s [RANGE 2s STEP 1s]\n"
V = "FROM NAMED WINDOW :w ON :s [RANGE 3s STEP 2s]\nFROM NAMED WINDOW :u ON :t [RANGE 2s STEP 1s]\n"
QUERIES = {
    "rows": f"SELECT ?x ?v {W} WHERE {{ WINDOW :w {{ ?x :p ?v }} }}",
    "rows without the key": f"SELECT ?v {W} WHERE {{ WINDOW :w {{ ?x :p ?v }} }}",
    "groups by the key": f"SELECT ?x (COUNT(?v) AS ?n) (AVG(?v) AS ?m) {W}"
    "WHERE { WINDOW :w { ?x :p ?v } } GROUP BY ?x HAVING(COUNT(?v) > 1)",
    "one count": f"SELECT (COUNT(?x) AS ?n) {W} WHERE {{ WINDOW :w {{ ?x :p ?v }} }}",
    "groups by a value": f"SELECT ?v (COUNT(DISTINCT ?x) AS ?n) {W}"
    "WHERE { WINDOW :w { ?x :p ?v ; :q ?u } } GROUP BY ?v",
    "distinct": f"SELECT DISTINCT ?v {W} WHERE {{ WINDOW :w {{ ?x :p ?v }} }}",
    "first rows": f"SELECT ?x ?v {W} WHERE {{ WINDOW :w {{ ?x :p ?v }} }} ORDER BY DESC(?v) ?x LIMIT 2",
    "ask": f"ASK {W} WHERE {{ WINDOW :w {{ ?x :p 3 }} }}",
    "not exists": f"SELECT ?x ?v {W}"
    "WHERE { WINDOW :w { ?x :p ?v } FILTER NOT EXISTS { WINDOW :w { ?x :q ?u } } }",
    "two windows": f"SELECT ?x ?v ?u {V} WHERE {{ WINDOW :w {{ ?x :p ?v }} WINDOW :u {{ ?x :q ?u }} }}",
    "sliding": "SELECT ?x ?v { STREAM :s [RANGE 1s] { ?x :p ?v } }",
    "two streams": "SELECT ?x ?v ?u { STREAM :s [RANGE 1s] { ?x :p ?v } STREAM :t [RANGE 2s] { ?x :q ?u } }",
    "optional": "SELECT ?x ?v ?u { STREAM :s [RANGE 1s] { ?x :p ?v } "
    "OPTIONAL { STREAM :t [RANGE 2s] { ?x :q ?u } } }",
    "static": "SELECT ?x ?r ?v { STREAM :s [RANGE 1s] { ?x :p ?v } ?x :in ?r }",
    "static rows without elements": "SELECT ?x ?v { ?x :in ?r "
    "OPTIONAL { STREAM :s [RANGE 1s] { ?x :p ?v } } }",
    "sliding groups": "SELECT ?v (COUNT(*) AS ?n) { STREAM :s [RANGE 1s] { ?x :p ?v } } GROUP BY ?v",
    "sliding maximum": "SELECT (MAX(?v) AS ?n) { STREAM :s [RANGE 1s] { ?x :p ?v } }",
    "latest": "SELECT ?x ?v { STREAM :s [LATEST 1 BY ?x WITHIN 4s] { ?x :p ?v } }",
    "session": "SELECT ?x ?v { STREAM :s [SESSION 1s PARTITION BY ?x] { ?x :p ?v } }",
    "sequence": "SELECT ?x ?v ?u { SEQ { STREAM :s { ?x :p ?v } ; STREAM :s { ?x :q ?u } } WITHIN 5s }",
    "once per": "SELECT ?x ?v { STREAM :s [RANGE 2s] { ?x :p ?v } } ONCE PER ?x EVERY 3s",
    "until gone": "SELECT ?x ?v { STREAM :s [RANGE 1s] { ?x :p ?v } } "
    "ONCE PER ?x UNTIL GONE RESOLVED EVERY 3s",
    "times": "SELECT ?x ?v ?t ?o { STREAM :s [RANGE 1s SLIDE 1s BOUNDS ?o ?c] { ?x :p ?v } AT ?t }",
    "sliding times": "SELECT ?x ?v ?u ?t { STREAM :s [RANGE 1s] { ?x :p ?v OPTIONAL { ?x :q ?u } } AT ?t }",
    "times and counts": "SELECT ?o (COUNT(*) AS ?n) (MAX(?t) AS ?m) "
    "{ STREAM :s [RANGE 2s SLIDE 1s BOUNDS ?o ?c] { ?x :p ?v } AT ?t } GROUP BY ?o",
    "quads": "CONSTRUCT { ?x :r ?v } { STREAM :s [RANGE 1s] { ?x :p ?v } }",
    "quads without the key": "CONSTRUCT { :a :r ?v } { STREAM :s [RANGE 1s] { ?x :p ?v } }",
}
OUTPUTS = (None, "changes", "rstream", "istream", "dstream")
_IN_EVERY_RUN = {
    ("rows", None),
    ("rows without the key", "istream"),
    ("groups by the key", None),
    ("one count", None),
    ("first rows", "istream"),
    ("ask", None),
    ("two streams", "changes"),
    ("static rows without elements", None),
    ("sliding", "rstream"),
    ("latest", "changes"),
    ("sequence", None),
    ("once per", None),
    ("until gone", None),
    ("times", None),
    ("sliding times", "changes"),
    ("times and counts", "changes"),
    ("quads without the key", "changes"),
}
CASES = [
    pytest.param(name, output, marks=() if (name, output) in _IN_EVERY_RUN else pytest.mark.slow)
    for name in QUERIES
    for output in OUTPUTS
]


def elements(chance: random.Random, number: int, *, single: bool) -> list[tuple[int, str]]:
    """Elements in the order of their times; several may have one instant."""
    found = []
    for at in sorted(chance.randrange(0, number * 3) * 100 for _ in range(number)):
        triples = {
            f"<urn:x{chance.randrange(6)}> <http://example.org/{chance.choice('pq')}> {chance.randrange(4)} ."
            for _ in range(1 if single else chance.choice([1, 1, 2]))
        }
        typed = [each.replace(" .", "", 1).rsplit(" ", 1) for each in sorted(triples)]
        found.append(
            (at, "\n".join(f'{s} "{v}"^^<http://www.w3.org/2001/XMLSchema#integer> .' for s, v in typed))
        )
    return found


@pytest.mark.parametrize(("name", "output"), CASES)
def test_groups_give_the_events_of_one_engine(
    name: str, output: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(f"{name} {output}")
    text = jobs.HEAD + QUERIES[name]
    options = {} if output is None else {"output": output}
    static = tmp_path / "rooms.nt"
    static.write_text("".join(f"<urn:x{n}> <http://example.org/in> <urn:r{n % 2}> .\n" for n in range(7)))
    query = tmp_path / "q.txt"
    query.write_text(text)
    streams = jobs.STREAMS if ":t " in text else jobs.STREAMS[:1]
    files = (StaticFile.of(str(static)),)
    order = WorkOrder(text, options, streams, static=files, groups=7)
    try:
        split = Program(order).split
    except Exception as error:
        pytest.skip(f"the query cannot have this output: {error}")
    if not split.splits:
        pytest.skip(f"the query does not split: {split.why}")
    single = any(word in text for word in ("LATEST", "SESSION"))
    recorded = {iri: elements(chance, 60, single=single) for iri in streams}
    sources = {}
    for place, (iri, each) in enumerate(recorded.items()):
        for part in range(20):
            jobs.write(tmp_path / f"in{place}", f"{part:02}.ndjson", each[part * 3 : part * 3 + 3], part + 1)
        sources[iri] = f"files:{tmp_path / f'in{place}'}"
    given = [] if output is None else ["--option", f'output="{output}"']
    expected = jobs.reference(capsys, query, sources, "--static", str(static), *given)
    assert expected or name in ("session", "latest", "sequence")
    for groups, batches in ((2, 1), (7, 3), (7, 20), (1, 3)):
        folder = tmp_path / f"{groups}-{batches}"
        order = WorkOrder(text, options, streams, static=files, groups=groups)
        totals = jobs.run(
            folder, order, list(sources.values()), JobOptions(once=True, files_per_batch=20 // batches + 1)
        )
        found = jobs.answers_of(folder / "out")
        assert found == expected, (groups, batches, found - expected, expected - found)
        assert (totals.elements, totals.late) == (60 * len(streams), 0)


def test_a_job_continues_where_the_last_one_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New files come between two runs; the number of tasks changes; batches that ran are not read again."""
    chance = random.Random(4)
    text = jobs.HEAD + QUERIES["groups by a value"]
    (tmp_path / "q.txt").write_text(text)
    each = elements(chance, 60, single=False)
    order = WorkOrder(text, {}, jobs.STREAMS[:1], groups=5)
    source = f"files:{tmp_path / 'in'}"
    for part in range(4):
        jobs.write(tmp_path / "in", f"{part}.ndjson", each[part * 15 : part * 15 + 15], part + 1)
        one = jobs.job(tmp_path, order, [source], JobOptions(files_per_batch=1))
        plan, _ = one._next_plan(2)
        assert plan is not None
        one.checkpoint.plan(plan["batch"], plan)
        one._batch(LocalRuntime(part + 1), plan)
        one.checkpoint.close()
    totals = jobs.run(tmp_path, order, [source])
    assert (totals.batches, totals.elements) == (1, 0)
    assert jobs.run(tmp_path, order, [source]).batches == 0
    expected = jobs.reference(capsys, tmp_path / "q.txt", {jobs.STREAMS[0]: source})
    assert jobs.answers_of(tmp_path / "out") == expected


def test_a_batch_that_runs_again_writes_the_same_files(tmp_path: Path) -> None:
    """A crash after the files of a batch are written and before the batch commits."""
    text = jobs.HEAD + QUERIES["rows"]
    order = WorkOrder(text, {}, jobs.STREAMS[:1], groups=5)
    each = elements(random.Random(5), 60, single=False)
    jobs.write(tmp_path / "in", "1.ndjson", each)
    source = f"files:{tmp_path / 'in'}"
    one = jobs.job(tmp_path, order, [source])
    plan, _ = one._next_plan(3)
    assert plan is not None
    one.checkpoint.plan(plan["batch"], plan)
    one._commit = lambda: None  # type: ignore[method-assign]
    one._batch(LocalRuntime(3), plan)
    one.checkpoint.close()
    written = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert written
    jobs.run(tmp_path, order, [source], runtime=LocalRuntime(1))
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == written


def test_late_elements_are_dropped_and_counted(tmp_path: Path) -> None:
    text = jobs.HEAD + "SELECT ?x ?v { STREAM :s [NOW] { ?x :p ?v } }"
    order = WorkOrder(text, {}, jobs.STREAMS[:1], groups=3)
    folder = tmp_path / "in"
    p = "<http://example.org/p>"
    jobs.write(folder, "1.ndjson", [(1000, f"<urn:a> {p} <urn:1> ."), (5000, f"<urn:b> {p} <urn:2> .")], 1)
    jobs.write(folder, "2.ndjson", [(4000, f"<urn:c> {p} <urn:3> ."), (5000, f"<urn:d> {p} <urn:4> .")], 2)
    totals = jobs.run(tmp_path, order, [f"files:{folder}"], JobOptions(once=True, files_per_batch=1))
    assert (totals.batches, totals.elements, totals.late) == (2, 4, 1)
    assert {at for at, _, _ in jobs.answers_of(tmp_path / "out")} == {1000, 5000}
    jobs.write(folder, "3.ndjson", [(5000, f"<urn:e> {p} <urn:5> ."), (6000, f"<urn:f> {p} <urn:6> .")], 3)
    totals = jobs.run(tmp_path, order, [f"files:{folder}"])
    assert (totals.elements, totals.late) == (2, 1)


def test_lateness_holds_instants_back_and_a_heartbeat_releases_them(tmp_path: Path) -> None:
    text = jobs.HEAD + "SELECT ?x ?v { STREAM :s [NOW] { ?x :p ?v } }"
    order = WorkOrder(text, {"lateness": 2000}, jobs.STREAMS[:1], groups=3)
    p = "<http://example.org/p>"
    jobs.write(tmp_path / "in", "1.ndjson", [(at, f"<urn:a> {p} <urn:{at}> .") for at in (1000, 3000, 4000)])
    jobs.run(tmp_path, order, [f"files:{tmp_path / 'in'}"])
    assert {at for at, _, _ in jobs.answers_of(tmp_path / "out")} == {1000}
    jobs.run(tmp_path, order, [f"files:{tmp_path / 'in'}"], JobOptions(once=True, until=9000))
    assert {at for at, _, _ in jobs.answers_of(tmp_path / "out")} == {1000, 3000, 4000}


def test_an_element_of_several_keys_ends_a_job_with_keyed_windows(tmp_path: Path) -> None:
    """The window of one group would not see when the element leaves for the key of another group."""
    order = WorkOrder(jobs.HEAD + QUERIES["latest"], {}, jobs.STREAMS[:1], groups=64)
    p = "<http://example.org/p>"
    jobs.write(tmp_path / "in", "1.ndjson", [(1000, f"<urn:a> {p} <urn:1> .\n<urn:b> {p} <urn:2> .")])
    with pytest.raises(JobError, match=r"element 1 of .*1\.ndjson has keys of several key groups"):
        jobs.run(tmp_path, order, [f"files:{tmp_path / 'in'}"])


def test_no_stream_waits_for_an_idle_one(tmp_path: Path) -> None:
    """The mark is in the plan, so the batch gives the same events when it runs again."""
    text = (
        jobs.HEAD + "SELECT ?x ?v { { STREAM :s [NOW] { ?x :p ?v } } UNION { STREAM :t [NOW] { ?x :p ?v } } }"
    )
    order = WorkOrder(text, {}, jobs.STREAMS, groups=3)
    p = "<http://example.org/p>"
    jobs.write(tmp_path / "a", "1.ndjson", [(at, f"<urn:a> {p} <urn:{at}> .") for at in (1000, 5000, 9000)])
    jobs.write(tmp_path / "b", "1.ndjson", [(2000, f"<urn:b> {p} <urn:1> .")])
    sources = [f"files:{tmp_path / 'a'}", f"files:{tmp_path / 'b'}"]
    one = jobs.job(tmp_path, order, sources, JobOptions(idle_ms=60_000))
    runtime = LocalRuntime()

    def batch() -> dict[str, object] | None:
        plan, ended = one._next_plan(2)
        assert not ended
        if plan is not None:
            one.checkpoint.plan(plan["batch"], plan)
            one._batch(runtime, plan)
        return plan

    assert batch() is not None
    assert {at for at, _, _ in jobs.answers_of(tmp_path / "out")} == {1000}
    assert batch() is None
    one._heard[1] -= 61
    plan = batch()
    assert plan is not None
    assert plan["idle"] == [1]
    assert {at for at, _, _ in jobs.answers_of(tmp_path / "out")} == {1000, 2000, 5000}
    assert batch() is None
    one.checkpoint.close()


def test_a_batch_has_a_bound_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "_BATCH_BYTES", 150)
    order = WorkOrder(jobs.HEAD + QUERIES["rows"], {}, jobs.STREAMS[:1], groups=3)
    p = "<http://example.org/p>"
    for part in range(6):
        jobs.write(tmp_path / "in", f"{part}.ndjson", [(part * 1000, f"<urn:a> {p} <urn:1> .")], part)
    assert jobs.run(tmp_path, order, [f"files:{tmp_path / 'in'}"]).batches == 3


def test_elements_without_a_time_are_refused(tmp_path: Path) -> None:
    order = WorkOrder(jobs.HEAD + QUERIES["rows"], {}, jobs.STREAMS[:1])
    (tmp_path / "a.nt").write_text("<urn:a> <http://example.org/p> <urn:1> .")
    with pytest.raises(JobError, match="has no event time"):
        jobs.run(tmp_path, order, [str(tmp_path / "a.nt")])


def test_a_sink_of_another_job_is_refused(tmp_path: Path) -> None:
    order = WorkOrder(jobs.HEAD + QUERIES["rows"], {}, jobs.STREAMS[:1], groups=5)
    jobs.write(tmp_path / "in", "1.ndjson", elements(random.Random(5), 60, single=False))
    source = f"files:{tmp_path / 'in'}"
    jobs.run(tmp_path, order, [source])
    jobs.run(tmp_path, order, [source])
    shutil.rmtree(tmp_path / "job")
    with pytest.raises(CheckpointError, match="events of another job"):
        jobs.run(tmp_path, order, [source])


def test_static_rows_do_not_depend_on_batches(tmp_path: Path) -> None:
    text = jobs.HEAD + QUERIES["static rows without elements"]
    static = tmp_path / "rooms.nt"
    static.write_text("".join(f"<urn:x{n}> <http://example.org/in> <urn:r{n % 2}> .\n" for n in range(7)))
    order = WorkOrder(text, {}, jobs.STREAMS[:1], static=(StaticFile.of(str(static)),), groups=7)
    folder = tmp_path / "in"
    for part in range(3):
        element = f"<urn:x{part}> <http://example.org/p> <urn:v{part}> ."
        jobs.write(folder, f"{part}.ndjson", [(1000 * (part + 1), element)], part + 1)
    answers = []
    for batch in (3, 1):
        run = tmp_path / f"run{batch}"
        jobs.run(run, order, [f"files:{folder}"], JobOptions(once=True, files_per_batch=batch))
        answers.append(jobs.answers_of(run / "out"))
    assert answers[0] == answers[1] and answers[0].total() > 6
