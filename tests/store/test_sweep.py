"""Sweeps in slices: whatever happens between two slices, what somebody holds is never forgotten."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyoxigraph import Literal, NamedNode

from quadrill.continuous.rows import PinnedIds
from quadrill.store.dictionary import TermDictionary
from quadrill.store.sweep import SweepPace
from quadrill.store.terms import Term

PLACES = 4
NAMES: list[Term] = [NamedNode(f"http://e/{number}") for number in range(8)]
# Ids that hold their term come and go with the rest.
TERMS: list[Term] = [*NAMES, Literal("short"), Literal("longer than six")]

places = st.integers(0, PLACES - 1)
terms = st.sampled_from(TERMS)


class SweepMachine(RuleBasedStateMachine):
    """Ids flow from place to place as they do in an engine, from windows to operators to answers.

    Law: an id that lies in some place or is pinned is known, by the term that it was given for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = TermDictionary(most=5)
        self.places: list[dict[int, Term]] = [{} for _ in range(PLACES)]
        self.late: list[dict[int, Term]] = []
        self.pinned: list[tuple[int, Term]] = []
        self.pins = PinnedIds(self.table)
        self.cache: dict[int, Term] = {}

    @initialize(apart=st.booleans())
    def register(self, apart: bool) -> None:
        """Places are held by one holder each, or by one together."""
        self.table.forget_with(self.cache)
        if apart:
            for place in self.places:
                self.table.hold(lambda place=place: [list(place)])
            return

        def held() -> Iterator[list[int]]:
            for place in self.places:
                yield list(place)

        self.table.hold(held)

    @rule(place=places, term=terms)
    def ask(self, place: int, term: Term) -> None:
        """An element brings a term."""
        self.places[place][self.table.ids[term]] = term

    @rule(place=places, term=terms)
    def ask_by_text(self, place: int, term: Term) -> None:
        """An element brings a term by how it is written."""
        self.places[place][self.table.texts[str(term)]] = term

    @rule(source=places, steps=st.integers(1, PLACES - 1), move=st.booleans(), which=st.integers(0, 99))
    def flow(self, source: int, steps: int, move: bool, which: int) -> None:
        """A row is made from another, which may go at the same time."""
        given = self.places[source]
        if given:
            term_id = sorted(given)[which % len(given)]
            later = [*self.places, *self.late][source + steps :]
            if later:
                later[which % len(later)][term_id] = given[term_id]
            if move:
                del given[term_id]

    @rule(place=places, which=st.integers(0, 99))
    def leave(self, place: int, which: int) -> None:
        """A row goes."""
        given = self.places[place]
        if given:
            del given[sorted(given)[which % len(given)]]

    @rule()
    def new_holder(self) -> None:
        """A query begins; what is made for it is behind everything else."""
        place: dict[int, Term] = {}
        self.late.append(place)
        self.table.hold(lambda: [list(place)])

    @rule(term=terms, compact=st.booleans())
    def pin(self, term: Term, compact: bool) -> None:
        """A table takes a row."""
        term_id = self.table.ids[term]
        self.table.pin([term_id], compact=compact)
        self.pinned.append((term_id, term))

    @precondition(lambda self: self.pinned)
    @rule(which=st.integers(0, 99), place=st.none() | places)
    def unpin(self, which: int, place: int | None) -> None:
        """A table gives a row up; some query may not have taken that change yet."""
        term_id, term = self.pinned.pop(which % len(self.pinned))
        if place is not None:
            self.places[place][term_id] = term
        self.table.unpin([term_id])

    @rule(place=places)
    def read(self, place: int) -> None:
        """Somebody remembers something by id."""
        for term_id in self.places[place]:
            self.cache[term_id] = self.table.terms[term_id]

    @rule(least=st.integers(1, 6))
    def slice(self, least: int) -> None:
        """A slice of a few ids, whether the dictionary has grown or not."""
        self.table.pace = SweepPace(slice=least, least=least, per_term=0)
        self.table.sweep_slice()

    @rule()
    def whole(self) -> None:
        """A whole sweep forgets all that nobody holds."""
        self.table.sweep()
        compact = self.table.compact
        assert not compact.texts.keys() & self.table.text_of.keys()
        assert {term_id: text for text, term_id in compact.ids.items()} == compact.texts
        known = {each for each in self.table.text_of if each > 0} | compact.texts.keys()
        assert known == {each for each in self.held() if each > 0}
        assert set(self.cache) <= known | set(self.table.terms)
        assert set(self.table.texts.values()) == set(self.table.text_of)

    def held(self) -> dict[int, Term]:
        return {
            term_id: term
            for place in [*self.places, *self.late, dict(self.pinned)]
            for term_id, term in place.items()
        }

    @invariant()
    def what_is_held_is_known(self) -> None:
        for term_id, term in self.held().items():
            assert self.table.terms[term_id] == term
            if term_id > 0:
                found = dict.get(self.table.texts, str(term)) or self.table.compact.ids.get(str(term))
                assert found == term_id

    @invariant()
    def both_mappings_agree(self) -> None:
        for term, term_id in self.table.ids.items():
            assert dict.get(self.table.terms, term_id) == term
        assert {term_id: text for text, term_id in self.table.texts.items()} == self.table.text_of


SweepMachine.TestCase.settings = settings(deadline=None, max_examples=100, stateful_step_count=50)
test_what_is_held_is_never_forgotten = SweepMachine.TestCase


def test_a_slice_meets_few_ids_however_many_are_held() -> None:
    table = TermDictionary()
    held = [table.encode(NamedNode(f"http://e/{number}")) for number in range(30_000)]
    met: list[int] = []

    def rows() -> Iterator[tuple[int, ...]]:
        for term_id in held:
            met.append(term_id)
            yield (term_id,)

    table.hold(rows)
    table.hold(list)
    slices = 0
    while table.sweeping or not slices:
        before = len(met)
        table.sweep_slice()
        assert len(met) - before <= SweepPace().slice // 2, "the first, too: 30,000 terms came before it"
        slices += 1
    assert slices > 14
    assert len(table) == 30_000


def test_a_sweep_that_is_fed_ends_before_the_dictionary_doubles() -> None:
    table = TermDictionary(SweepPace(floor=1000, slice=1, least=1))
    window: list[int] = []
    table.hold(lambda: [tuple(window)])
    largest = 0
    for number in range(20_000):
        window.append(table.encode(NamedNode(f"http://e/{number}")))
        del window[:-400]
        if table.due:
            table.sweep_slice()
        largest = max(largest, len(table))
    assert table.forgotten > 18_000
    assert largest < 1400


def test_a_sweep_leaves_no_garbage_that_python_has_to_look_for() -> None:
    # What is in a cycle and old stays for minutes in a server (`gc.freeze`), and a sweep marks all that is.
    table = TermDictionary()
    held = [table.encode(NamedNode(f"http://e/{number}")) for number in range(1000)]
    table.hold(lambda: [held])
    table.sweep()
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            table.sweep()
        assert gc.collect() == 0
    finally:
        gc.enable()
