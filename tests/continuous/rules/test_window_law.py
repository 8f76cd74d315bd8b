"""The law of rules over windows: the content equals the naive fixpoint after every change."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad, Store, Triple

from quadrill.continuous.rules.content_rules import ContentProgram
from quadrill.continuous.rules.facts import Fact, MemoryFacts, RememberedFacts
from quadrill.continuous.rules.fixpoint import InputChange
from quadrill.continuous.rules.store_facts import InputGraphs, StoreFacts
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.rules.window_content import WindowContent
from quadrill.store.changes.pending import StoreView

from ...examples import examples
from .test_fixpoint_law import random_quad
from .window_oracle import random_window_rules


class Background:
    """The graphs behind a window: a random set of quads, and its facts before and after a change."""

    def __init__(self, terms: RuleTerms, rng: random.Random) -> None:
        self.quads: set[Quad] = set()
        self._terms = terms
        self._rng = rng

    def facts(self) -> MemoryFacts:
        found = MemoryFacts()
        for quad in self.quads:
            found.add(self.fact(quad.triple))
            if not isinstance(quad.graph_name, DefaultGraph):
                found.add_in(self._terms.id_of(quad.graph_name), self.fact(quad.triple))
        return found

    def fact(self, triple: Triple) -> Fact:
        id_of = self._terms.id_of
        return id_of(triple.subject), id_of(triple.predicate), id_of(triple.object)

    def move(self) -> InputChange:
        added = {random_quad(self._rng) for _ in range(self._rng.choice((0, 1, 2, 5)))} - self.quads
        gone = self._rng.sample(
            sorted(self.quads, key=str), min(len(self.quads), self._rng.choice((0, 1, 3)))
        )
        self.quads = (self.quads | added) - set(gone)
        change = InputChange()
        for quad in (*added, *gone):
            change.background.append(self.fact(quad.triple))
            if not isinstance(quad.graph_name, DefaultGraph):
                change.quads.append((self._terms.id_of(quad.graph_name), self.fact(quad.triple)))
        return change


@pytest.mark.parametrize("seed", range(examples(100)))
def test_consequences_of_triples_equal_the_naive_fixpoint_over_a_store(seed: int) -> None:
    rng = random.Random(seed)
    rules = random_window_rules(rng)
    quads = {random_quad(rng) for _ in range(12)}
    own = {random_quad(rng).triple for _ in range(4)}
    store = Store()
    store.extend(quads)
    terms = RuleTerms("http://e/")
    window = WindowContent(ContentProgram(rules.rules, terms), lambda *_: None)
    background = StoreFacts(StoreView(store), terms, InputGraphs(), NamedNode("http://e/into"))
    ids, term = terms.dictionary.ids, terms.dictionary.terms
    content = [(ids[each.subject], ids[each.predicate], ids[each.object]) for each in own]
    window.replace(window.program, content, RememberedFacts(background))
    found = [Triple(term[s], term[p], term[o]) for s, p, o in window.consequences()]  # type: ignore[arg-type]
    assert len(found) == len(set(found))
    assert set(found) == rules.consequences(own, quads) - own


@pytest.mark.parametrize("seed", range(examples(1_000)))
def test_content_equals_the_naive_fixpoint_after_every_change(seed: int) -> None:
    rng = random.Random(seed)
    rules, terms = random_window_rules(rng), RuleTerms("http://e/")
    program = ContentProgram(rules.rules, terms)
    window, background = WindowContent(program, lambda *_: None), Background(terms, rng)
    content: dict[Fact, int] = {}
    own: set[Triple] = set()
    for _ in range(12):
        before = background.facts()
        if rng.random() < 0.4:
            change = background.move()
            if program.single is not None:
                program.single.changed(fact[1] for fact in change.background)
            delta = window.change_graphs(change, before, background.facts())
        else:
            added = {random_quad(rng).triple for _ in range(rng.choice((0, 1, 2, 4)))} - own
            gone = rng.sample(sorted(own, key=str), min(len(own), rng.choice((0, 0, 1, 2, 9))))
            own = (own | added) - set(gone)
            facts = [[background.fact(each) for each in each_set] for each_set in (added, gone)]
            delta = window.change(facts[0], facts[1], before)
        for fact, weight in delta.items():
            content[fact] = content.get(fact, 0) + weight
            assert content[fact] in (0, 1)
        shown = {
            Triple(*(terms.term(each) for each in fact))  # type: ignore[arg-type]
            for fact, weight in content.items()
            if weight
        }
        expected = rules.consequences(own, background.quads)
        assert shown == expected, (
            "\n".join(rules.texts),
            sorted(map(str, own)),
            sorted(map(str, background.quads)),
        )
        assert set(window.consequences()) == {background.fact(each) for each in expected - own}
