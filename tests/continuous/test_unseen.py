"""A registration is told of predicates and graphs that neither the store nor the streams have."""

from __future__ import annotations

from quadrill.app.describing.advice import advice
from quadrill.app.describing.queries import validate
from quadrill.continuous.engine import Registration

from .engines import PREFIX, Bench, E, bench

KNOWN = "SELECT ?x { STREAM :s [RANGE 10s] { ?x :seen [] } GRAPH :rooms { ?x :in :r } }"


def warnings(b: Bench, text: str) -> list[str]:
    registration = Registration(PREFIX + text)
    told = list(validate(b.engine, registration)["warnings"])
    return told + advice(b.engine.lifecycle.prepare(registration), b.store.reader, b.engine)


def of(b: Bench, name: str) -> list[str]:
    prepared = b.engine.queries.prepared(name)
    assert prepared is not None
    return advice(prepared, b.store.reader, b.engine)


def test_what_the_store_and_the_streams_have_is_no_news() -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ GRAPH <{E}rooms> {{ <{E}a> <{E}in> <{E}r> }} }}")
        assert warnings(b, KNOWN) == [], "a stream without elements says nothing"
        b.push(1_000, "a")
        assert warnings(b, KNOWN) == []
        b.register("q", KNOWN)
        assert of(b, "q") == []


def test_predicates_and_graphs_that_nobody_has_are_told() -> None:
    with bench() as b:
        b.store.writer.update(f"INSERT DATA {{ GRAPH <{E}rooms> {{ <{E}a> <{E}in> <{E}r> }} }}")
        for at in (1_000, 2_000):
            b.push(at, "a")
        wrong = KNOWN.replace(":seen", ":sean").replace(":rooms", ":roms").replace("?x :in", "?x :inn/:in")
        told = [
            f"None of the newest 2 elements of <{E}s> has a triple with the predicate <{E}sean>.",
            f"No triple of the store has the predicate <{E}inn>.",
            f"The store has no graph <{E}roms>.",
        ]
        assert warnings(b, wrong) == told
        b.register("q", wrong)
        assert of(b, "q") == told
        b.store.writer.update(f"INSERT DATA {{ GRAPH <{E}roms> {{ <{E}a> <{E}inn> <{E}r> }} }}")
        assert of(b, "q") == told[:1], "it is so no more"
        assert b.engine.queries.prepared("none") is None


def test_merged_windows_are_looked_up_in_all_streams_and_in_the_store() -> None:
    text = "REGISTER QUERY q AS SELECT ?x %s WHERE { ?x :%s [] }"
    one = text % ("FROM STREAM :s [RANGE 10s STEP 5s]", "%s")
    two = text % ("FROM STREAM :s [RANGE 10s STEP 5s] FROM STREAM :t [RANGE 10s STEP 5s]", "%s")
    with bench() as b:
        assert warnings(b, one % "sean") == [], "a stream without elements says nothing"
        b.push(1_000, "a")
        known = [warnings(b, each % "seen") for each in (one, two)]
        assert known == [[], []]
        told = f"The newest element of <{E}s> has no triple with the predicate <{E}sean>."
        assert warnings(b, one % "sean") == [told]
        assert warnings(b, two % "sean") == [], "the other stream may have it"
        b.push(1_000, "a", stream=E + "t")
        told = (
            f"None of the newest 2 elements of <{E}s> and <{E}t> has a triple with the predicate <{E}sean>."
        )
        assert warnings(b, two % "sean") == [told]
        b.store.writer.update(f"INSERT DATA {{ <{E}a> <{E}sean> <{E}r> }}")
        assert warnings(b, two % "sean") == []


def test_what_any_predicate_matches_and_what_is_asked_elsewhere_is_left_out() -> None:
    with bench() as b:
        b.push(1_000, "a")
        assert warnings(b, "SELECT ?x { STREAM :s [NOW] { ?x ?p ?x . ?p ?x ?p } }") == []
        assert warnings(b, "SELECT ?x { STREAM :s [NOW] { ?x (:seen|!:other) ?x } }") == []


def test_slips_in_the_names_of_variables_are_told_with_them() -> None:
    with bench() as b:
        text = "SELECT ?celsius { STREAM :s [NOW] { [] :seen ?celsius } FILTER(?celsuis > 20) }"
        assert warnings(b, text)[-1] == "?celsuis is never bound: is ?celsius meant?"
