"""Queries that differ in constants are evaluated together, and nobody can tell from feeds and answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.app.describing.queries import describe
from quadrill.continuous.engine import Engine
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.groups.registry import GroupRegistry
from quadrill.continuous.streams.push_call import PushCall
from tests.examples import examples

from ..engines import Bench, E, bench

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
WINDOWS = ("[NOW]", "[RANGE 4ms]", "[TRIPLES 3]", "[RANGE 4ms SLIDE 2ms]", "[RANGE 3ms SLIDE 5ms]")
CLOSING = 3
"""From here on windows have closes."""
REPORTS: tuple[Any, ...] = ("on-content-change", "on-window-close", "on-window-close", {"periodic": "3ms"})
PLACES = ("hall", "kitchen", "yard")
PEOPLE = ("a", "b", "c")
TEMPLATES = (
    "SELECT ?x WHERE { STREAM :s %w { ?x :in :$place } }",
    "SELECT ?x ?n WHERE { STREAM :s %w { ?x :in :$place } ?x :name ?n }",
    "SELECT ?l WHERE { STREAM :s %w { ?x :in ?l } ?x :name '$person' }",
    "SELECT ?l ?n WHERE { STREAM :s %w { :$person :in ?l } ?l :name ?n }",
    "SELECT ?x ?y WHERE { STREAM :s [NOW] { ?x :in ?l } STREAM :s %w { ?y :in ?l } ?x :knows ?y ."
    " ?x :name '$person' FILTER(?x != ?y) }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :in ?l ; :heat ?v } FILTER(?v > $number) }",
    "SELECT ?x ?n WHERE { STREAM :s %w { ?x :in :$place } OPTIONAL { ?x :name ?n FILTER(?n != '$person') } }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :in :$place }"
    " OPTIONAL { STREAM :s [RANGE 3ms] { ?x :heat ?v } } }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :in :$place OPTIONAL { ?x :heat ?v"
    " FILTER NOT EXISTS { ?x :in :hall } } } }",
    "SELECT ?x WHERE { { STREAM :s %w { ?x :in :$place } } UNION { STREAM :s %w { ?x :heat $number } } }",
    "SELECT ?l (COUNT(*) AS ?n) (SUM(?v) AS ?w) WHERE { STREAM :s %w { ?x :in ?l ; :heat ?v }"
    " ?x :knows :$person }"
    " GROUP BY ?l HAVING (?n < $number)",
    "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s %w { ?x :in :$place } }",
    "SELECT DISTINCT ?l WHERE { STREAM :s %w { ?x :in ?l } { SELECT DISTINCT ?x { ?x :knows :$person } } }",
    "SELECT ?x ?t WHERE { STREAM :s %w { ?x :in :$place } BIND(NOW() AS ?t) }",
    "SELECT ?x ?z WHERE { STREAM :s %w { ?x :in ?l } BIND(CONCAT(STR(?x), '$person') AS ?z) }",
    "SELECT ?x ?z WHERE { STREAM :s %w { ?x :heat ?v } BIND(CONCAT(STR(0$number), STR(?v)) AS ?z) }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l } MINUS { ?x :knows :$person } }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l } FILTER NOT EXISTS { ?x :knows :$person } }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l }"
    " FILTER EXISTS { STREAM :s [RANGE 6ms] { ?x :in :$place } } }",
    "ASK { STREAM :s %w { ?x :in :$place } }",
    "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s %w { ?x :in ?l } ?x :knows :$person }",
    "SELECT ?x ?n WHERE { STREAM :s %w { ?x :in ?l } OPTIONAL { ?x :heat ?v . ?x :name ?n }"
    " MINUS { ?n :knows :$person } }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l } FILTER EXISTS {"
    " { SELECT ?x { STREAM :s [RANGE 6ms] { ?x :in :hall } ?x :knows :$person } } } }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l } MINUS { STREAM :s [RANGE 6ms] { ?x :in ?m }"
    " OPTIONAL { ?x :knows :$person . ?x :name ?n } FILTER(!BOUND(?n)) } }",
    "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l }"
    " { SELECT ?x { STREAM :s %w { ?x :in ?m } ?x :knows :$person } ORDER BY ?x LIMIT 1 } }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :heat ?v FILTER(?v > $bound) } }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :heat ?v ; :in ?l } ?l :name ?n"
    " FILTER($bound <= ?v && ?l != :hall) }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :heat ?v } FILTER(?v < $bound && ?v >= $number) }",
    "SELECT ?x ?v WHERE { STREAM :s %w { ?x :heat ?v }"
    " STREAM :s [RANGE 6ms] { ?x :in ?l FILTER(?l = $bound) } }",
    "SELECT ?l (SUM(?v) AS ?w) WHERE { STREAM :s %w { ?x :in ?l ; :heat ?v } }"
    " GROUP BY ?l HAVING (?w >= $bound)",
    "SELECT (COUNT(DISTINCT *) AS ?n) WHERE { STREAM :s %w { ?x :in ?l } ?y :knows :$person }",
    "SELECT ?l (COUNT(DISTINCT *) AS ?n) WHERE { STREAM :s %w { ?x :in ?l } ?x :knows ?y ."
    " ?y :name '$person' } GROUP BY ?l",
)
BOUNDS = ("1", "2", "3", "2.0", "1.5", "2e0", '"2"^^xsd:float', '"INF"^^xsd:double', '"2"', ":hall", "true")
FIXED = "SELECT ?x WHERE { STREAM :s %w { ?x :in ?l } }"


def text_of(template: int, window: int, chance: random.Random) -> str:
    text = TEMPLATES[template].replace("%w", WINDOWS[window])
    text = text.replace("$place", chance.choice(PLACES)).replace("$person", chance.choice(PEOPLE))
    if "$bound" in text:
        prefix = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
        text = prefix + text.replace("$bound", chance.choice(BOUNDS))
    return text.replace("$number", str(chance.randrange(1, 4)))


def facts(chance: random.Random) -> str:
    lines = [f"<{E}{a}> <{E}knows> <{E}{b}> ." for a in PEOPLE for b in PEOPLE if chance.random() < 0.5]
    lines += [f'<{E}{a}> <{E}name> "{chance.choice(PEOPLE)}" .' for a in (*PEOPLE, *PLACES)]
    return " ".join(lines)


def element(chance: random.Random) -> str:
    lines = []
    for _ in range(chance.randrange(1, 3)):
        who = chance.choice(PEOPLE)
        lines.append(f"<{E}{who}> <{E}in> <{E}{chance.choice(PLACES)}> .")
        if chance.random() < 0.5:
            lines.append(f'<{E}{who}> <{E}heat> "{chance.randrange(1, 4)}"^^<{INTEGER}> .')
    return "\n".join(lines) + "\n"


def joined(engine: Engine) -> int:
    """How many queries are members of a group."""
    return sum(
        entry.running is not None and entry.running.group.plan_slot is not None
        for entry in engine.parts.catalogue.entries()
    )


@contextmanager
def ungrouped() -> Iterator[None]:
    """Every query has a timeline of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GroupRegistry, "enter", lambda self, running: [])
        yield


def run(
    seed: int,
    template: int,
    window: int,
    late: str,
    lateness: int,
    *,
    seen: Callable[[Bench], object] = lambda _: None,
    **settings: Any,
) -> Any:
    """Feeds, answers and counts of a random run; ``seen`` is called after each step."""
    chance = random.Random(seed)
    how: dict[str, Any] = {}
    if window >= CLOSING:
        other = random.Random(seed + 1)
        how = {"report": other.choice(REPORTS), "non_empty": other.random() < 0.5}
        how |= other.choice([{}, {"bounds": "open-closed"}])
    most = 0
    with bench(**settings) as b:
        b.store.writer.update(f"INSERT DATA {{ {facts(chance)} }}")
        b.engine.streams.declare(E + "s", name="s", late=late, lateness=lateness)
        names: list[str] = []
        feeds: list[Any] = []
        answers: list[Any] = []

        def register(number: int) -> None:
            output = chance.choice(["istream", "istream", "changes", "dstream", "rstream"])
            text = text_of(template, window, chance)
            if chance.random() < 0.1:
                text = FIXED.replace("%w", WINDOWS[window])
            options = {} if "ASK" in text else {"output": output}
            names.append(f"q{number}")
            b.register(names[-1], text, **options, **how)
            feeds.append(b.engine.queries.feed(names[-1]))

        for number in range(4):
            register(number)
        at = 0
        for number in range(4, 40):
            match chance.choices(
                ["push", "many", "late", "beat", "register", "commit", "drop", "pause", "refresh", "ask"],
                [11, 4, 2, 2, 4, 4, 1, 2, 1, 3],
            )[0]:
                case "push":
                    at += chance.randrange(0, 3)
                    b.engine.streams.push(
                        PushCall(E + "s", "application/n-triples", at=at), element(chance).encode()
                    )
                case "many":
                    lines = []
                    for _ in range(chance.randrange(2, 9)):
                        at += chance.randrange(0, 3)
                        lines.append(json.dumps({"at": at, "data": element(chance)}))
                    b.engine.streams.push(
                        PushCall(E + "s", "application/x-ndjson"), "\n".join(lines).encode()
                    )
                case "late":
                    b.engine.streams.push(
                        PushCall(E + "s", "application/n-triples", at=max(0, at - 2)),
                        element(chance).encode(),
                    )
                case "beat":
                    at += chance.randrange(0, 4)
                    b.engine.streams.heartbeat(E + "s", at)
                case "register":
                    register(number)
                case "commit":
                    added = facts(chance)
                    gone = chance.choice(PEOPLE)
                    b.store.writer.update(f"DELETE WHERE {{ <{E}{gone}> ?p ?o }} ; INSERT DATA {{ {added} }}")
                case "drop" if names:
                    b.engine.queries.drop(names.pop(chance.randrange(len(names))))
                case "pause" if names:
                    name = chance.choice(names)
                    paused = describe(b.engine, name)["state"] == "paused"
                    b.engine.queries.patch(name, {"state": "running" if paused else "paused"})
                case "refresh" if names:
                    b.engine.queries.refresh(chance.choice(names))
                case "ask" if names:
                    answers += [shown(b, name) for name in names]
            seen(b)
            most = max(most, joined(b.engine))
        answers += [shown(b, name) for name in names]
        told = [[(event.id, event.kind, event.data) for event in feed.subscribe(0).take()] for feed in feeds]
    return told, answers, most


def shown(b: Bench, name: str) -> Any:
    """What a description tells that must not depend on who evaluates the query."""
    document = describe(b.engine, name)
    kept = ("state", "error", "version", "instant", "watermark", "counters", "last_result", "windows")
    return json.dumps([b.engine.queries.current_answer(name), *(document[each] for each in kept)])


@pytest.mark.always("*0", "*2", "*4", "*6", "*8")
@pytest.mark.parametrize("template", range(len(TEMPLATES)))
def test_feeds_and_answers_are_those_of_queries_that_are_evaluated_alone(template: int) -> None:
    most = 0

    @settings(max_examples=examples(6), deadline=None)
    @given(
        st.integers(0, 2**32),
        st.sampled_from(range(len(WINDOWS))),
        st.sampled_from(["drop", "admit"]),
        st.sampled_from([0, 0, 2]),
    )
    def law(seed: int, window: int, late: str, lateness: int) -> None:
        nonlocal most
        told, answers, number = run(seed, template, window, late, lateness, templates=True)
        with ungrouped():
            alone, others, none = run(seed, template, window, late, lateness, templates=False)
        assert none == 0
        assert told == alone
        assert answers == others
        most = max(most, number)

    law()
    assert most >= 2


def test_queries_without_windows_are_evaluated_alone() -> None:
    with bench(templates=True) as b:
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}knows> <{E}b> . <{E}b> <{E}knows> <{E}c> }}")
        for name in ("b", "c"):
            b.register(name, f"SELECT ?x WHERE {{ ?x :knows :{name} }}")
        b.store.writer.update(f"INSERT DATA {{ <{E}d> <{E}knows> <{E}c> }}")
        assert joined(b.engine) == 0
        for name, rows in (("b", ["a"]), ("c", ["b", "d"])):
            assert describe(b.engine, name)["engine"] == "native"
            found = b.engine.queries.current_answer(name)["results"]["bindings"]
            assert sorted(row["x"]["value"] for row in found) == [E + each for each in rows]
        for entry in b.engine.parts.catalogue.entries():
            assert entry.running is not None
            assert isinstance(entry.running.evaluator, NativeEvaluator)
            assert entry.running.evaluator.template is None


def test_a_count_over_other_rows_of_a_static_part_falls_to_zero_for_one_member() -> None:
    text = "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [NOW] { ?x :seen ?v } ?x :knows :%s }"

    def told(*, templates: bool) -> Any:
        with bench(templates=templates) as b:
            b.store.writer.update(
                f"INSERT DATA {{ <{E}a> <{E}knows> <{E}p>, <{E}q> . <{E}b> <{E}knows> <{E}p> }}"
            )
            for name in ("p", "q"):
                b.register(name, text % name, output="changes")
            # Where they could meet both count one.
            b.push(0, "a")
            b.push(1, "b")
            return [b.engine.queries.feed(name).subscribe(0).take() for name in ("p", "q")]

    assert told(templates=True) == told(templates=False)


def test_static_parts_may_differ_where_their_rows_can_bear_the_number_of_a_member(
    caplog: pytest.LogCaptureFixture,
) -> None:
    window = "STREAM :s [NOW] { ?x :seen ?v }"
    other = "STREAM :s [RANGE 5ms] { ?x :seen ?w } ?x :knows :%s"
    texts = {
        f"{window} FILTER NOT EXISTS {{ ?x :knows :%s }}": 4,
        f"{window} MINUS {{ ?x :knows :%s }}": 4,
        f"{window} OPTIONAL {{ {other} }}": 4,
        # The queries for q are two.
        f"{window} OPTIONAL {{ ?x :name ?y }} MINUS {{ ?y :knows :%s }}": 2,
        f"{window} FILTER EXISTS {{ {{ SELECT ?x {{ {other} }} }} }}": 2,
        f"{window} {{ SELECT (COUNT(*) AS ?n) {{ {other} }} }}": 2,
        f"{window} {{ SELECT ?x {{ {other} }} ORDER BY ?x LIMIT 1 }}": 2,
    }
    for text, members in texts.items():
        with bench() as b:
            b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}knows> <{E}p> . <{E}b> <{E}knows> <{E}q> }}")
            for number, name in enumerate("pqrq"):
                b.register(f"q{number}", f"SELECT ?x WHERE {{ {text % name} }}")
            b.push(0, "a", "b", "c")
            assert joined(b.engine) == members, text
    assert not caplog.records
