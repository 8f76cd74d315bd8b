"""CONSTRUCT with the outputs that delete quads: events are the difference of the sets of quads, however kept.

The oracle instantiates the template over all solutions before and after, and compares the two sets.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.continuous.algebra.nodes import Term, TriplePattern, TripleTerm, Var
from quadrill.continuous.algebra.query import TemplateQuad
from quadrill.continuous.expressions.construct import Template
from quadrill.continuous.expressions.quad_keys import QuadKeys
from quadrill.continuous.output.emission import difference
from quadrill.continuous.output.quad_counts import QuadCounts
from quadrill.continuous.rows import Solution
from quadrill.store.dictionary import TermDictionary
from quadrill.store.results import in_fixed_order
from tests.examples import examples

from ..engines import Bench, E, all_held_is_known, bench, reference_evaluator, sweep_always
from ..remote.test_law import pattern

COLUMNS = (Var("x"), Var("y"), Var("z"))
NAMES = [NamedNode(f"urn:{letter}") for letter in "ab"]
INTEGER = NamedNode("http://www.w3.org/2001/XMLSchema#integer")
TERMS: list[Term] = [
    *NAMES,
    BlankNode("b"),
    Literal("1", datatype=INTEGER),
    Literal("01", datatype=INTEGER),
    Literal("long enough for an entry"),
    Triple(NAMES[0], NAMES[1], NAMES[0]),
]
variables = st.sampled_from([*COLUMNS, Var("never")])
nodes = st.one_of(variables, variables, st.sampled_from(NAMES))
values = st.one_of(variables, variables, st.sampled_from(TERMS[:2] + TERMS[3:]))
triple_terms = st.builds(TripleTerm, nodes, nodes, values)
templates = st.lists(
    st.builds(
        TemplateQuad,
        st.builds(TriplePattern, nodes, nodes, st.one_of(values, values, triple_terms)),
        st.one_of(st.none(), st.none(), nodes),
    ),
    min_size=1,
    max_size=3,
)
solutions = st.lists(st.tuples(*[st.one_of(st.none(), st.sampled_from(TERMS))] * 3), max_size=6)


@settings(max_examples=examples(400), deadline=None)
@given(template=templates, answers=st.lists(solutions, min_size=1, max_size=5), sweep=st.booleans())
def test_a_change_of_solutions_gives_the_difference_of_the_sets_of_quads(
    template: list[TemplateQuad], answers: list[list[Solution]], sweep: bool
) -> None:
    instances, terms = Template(template, COLUMNS, "q"), TermDictionary()
    counts = QuadCounts(QuadKeys(instances, COLUMNS, terms), terms)
    terms.hold(counts.referenced_rows)
    before: list[Solution] = []
    quads: list[Quad] = []
    for answer in answers:
        delta = counts.coded(difference(before, answer), difference(answer, before))
        deleted, inserted = counts.change(delta, ordered=False)
        now = instances.quads(in_fixed_order(answer), 0)
        assert deleted == difference(quads, now)
        assert inserted == difference(now, quads)
        assert len(counts) == len(now)
        before, quads = answer, now
        if sweep:
            terms.sweep()


TEMPLATES = [
    "?x :a ?n",
    "?x :a ?n . ?n :b ?l . ?n :a ?x",
    ":all :has ?x , ?n",
    "?x :is 01 , true , 'text'@en . ?x ?n ?l",
    "?x :says <<( ?x :a ?n )>> , <<( :all ?n ?l )>> . ?x :says ?l",
    "?x :a ?n . GRAPH ?n { ?x :a ?n , ?l } GRAPH :g { ?n :a ?l }",
]
WINDOWS = ["[RANGE 10s]", "[NOW]", "[RANGE 4s SLIDE 2s]", "[TRIPLES 2]"]
SEEDS = [*range(4), *(pytest.param(each, marks=pytest.mark.slow) for each in range(4, 150))]


def construct(chance: random.Random) -> str:
    """A random query; its rows have an order, or a limit, now and then."""
    where = pattern(chance, "GRAPH :copy { ... }")
    if chance.random() < 0.3:
        where = f"{{ SELECT DISTINCT ?x ?n {{ {where} }} }}"
    if chance.random() < 0.8:
        where = f"STREAM :s {chance.choice(WINDOWS)} {{ ?x :seen ?v }} {where}"
    modifiers = chance.choice(["", "", "ORDER BY ?x ?n ?l", "ORDER BY ?x DESC(?n) ?l LIMIT 2"])
    return f"CONSTRUCT {{ {chance.choice(TEMPLATES)} }} WHERE {{ {where} }} {modifiers}"


def take(one: Bench, chance: random.Random, at: int) -> None:
    """A random push, commit, pause or refresh."""
    match chance.randrange(6):
        case 0 | 1:
            one.push(at, *chance.sample("abc", chance.randint(1, 2)))
        case 2:
            lines = [(at + step * 300, chance.choice("abc")) for step in range(4)]
            one.lines(*lines)
        case 3 | 4:
            predicate = chance.choice(["near", "label", "other"])
            value = (
                chance.choice([":a", ":b", "1", "2"]) if predicate != "near" else f":{chance.choice('abc')}"
            )
            triple = f":{chance.choice('abc')} :{predicate} {value}"
            place = "%s" if predicate == "near" else "GRAPH :copy { %s }"
            word = chance.choice(["INSERT", "INSERT", "DELETE"])
            one.store.writer.update(f"PREFIX : <{E}> {word} DATA {{ {place % triple} }}")
        case _:
            for name in ("changes", "deletes", "whole", "single"):
                one.engine.queries.refresh(name)
    one.engine.sync()


def events(one: Bench, name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(each.kind, json.loads(each.data)) for each in one.engine.queries.feed(name).subscribe(0).take()]


def quads(document: dict[str, Any]) -> set[Quad]:
    return set(parse(document["quads"], RdfFormat.N_QUADS))


def folded(found: Sequence[tuple[str, dict[str, Any]]]) -> dict[tuple[int, int], set[Quad]]:
    """The set of quads behind each instant and version, by the events that delete and insert them."""
    held: set[Quad] = set()
    behind: dict[tuple[int, int], set[Quad]] = {}
    for kind, document in found:
        told = quads(document)
        if kind == "delete":
            assert told <= held
            held = held - told
        else:
            assert not told & held
            held = held | told
        behind[(document["at"], document["version"])] = held
    return behind


@pytest.mark.parametrize("evaluated", ["native", "reference", "swept"])
@pytest.mark.parametrize("seed", SEEDS)
def test_events_add_up_to_the_whole_answer_at_every_instant(seed: int, evaluated: str) -> None:
    chance = random.Random(f"counts{seed}")
    text = construct(chance)
    with pytest.MonkeyPatch.context() as patch:
        if evaluated == "swept":
            sweep_always(patch, 4)
        made = reference_evaluator if evaluated == "reference" else None
        with bench(make_evaluator=made) as one:
            one.register("changes", text, dialect="cqels", output="changes")
            one.register("deletes", text, dialect="cqels", output="dstream")
            one.register("whole", text, dialect="cqels", output="rstream")
            # Looked at after each instant, so it takes them one by one.
            one.register("single", text, dialect="cqels", output="changes", memory=1_000_000)
            for step in range(1, 16):
                take(one, chance, step * 2_000)
                all_held_is_known(one.engine.parts.statics.terms.dictionary)
            changes, whole = events(one, "changes"), events(one, "whole")
            assert changes == events(one, "single"), text
            gone = [each for each in changes if each[0] == "delete"]
            assert gone == events(one, "deletes"), text
            behind, expected = folded(changes), {}
            for _, document in whole:
                expected[(document["at"], document["version"])] = quads(document)
            held: set[Quad] = set()
            for place, found in sorted(expected.items()):
                held = behind.get(place, held)
                assert held == found, (place, text)
            assert quads(one.engine.queries.current_answer("changes")) == held


@pytest.mark.parametrize("output", ["changes", "dstream"])
@pytest.mark.parametrize("into", ["", "INTO GRAPH :view"])
def test_a_commit_and_a_push_of_one_quad_look_at_one_solution(
    monkeypatch: pytest.MonkeyPatch, output: str, into: str
) -> None:
    asked: list[Any] = []
    of, instantiate = QuadKeys.of, Template.quads
    monkeypatch.setattr(QuadKeys, "of", lambda self, row: asked.append(row) or of(self, row))
    monkeypatch.setattr(
        Template, "quads", lambda self, rows, at: asked.extend(rows) or instantiate(self, rows, at)
    )
    with bench() as one:
        rows = " ".join(f":x{number} :near :y ." for number in range(300))
        one.store.writer.update(f"PREFIX : <{E}> INSERT DATA {{ {rows} }}")
        copy = into.replace(":view", ":copy")
        one.register("static", f"CONSTRUCT {{ ?x :a ?y }} {into} {{ ?x :near ?y }}", output=output)
        window = "STREAM :s [RANGE 1h] { ?x :seen ?v }"
        one.register("window", f"CONSTRUCT {{ ?x :a ?v }} {copy} {{ {window} }}", output=output)
        one.push(1, *[f"x{number}" for number in range(300)])
        assert len(asked) >= 600
        asked.clear()
        one.store.writer.update(f"PREFIX : <{E}> DELETE DATA {{ :x7 :near :y }}")
        one.engine.sync()
        one.push(2, "another")
        # A view counts by itself.
        assert len(asked) == (4 if into else 2)
