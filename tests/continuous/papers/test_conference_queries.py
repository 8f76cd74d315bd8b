"""The queries of ISWC 2011 and of the report of 2010, end to end, against plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from . import conference
from .harness import QUERIES, Rows, istream, told

RFID = "http://deri.org/streams/rfid"
LOCSTREAMS = "http://deri.org/locstreams"
GIVEN = {"parameters": {"Name": conference.NAME}}
END = 200_000
WIDTHS = (0, 3_000, 5_000, 15_000, 30_000)

ISWC: dict[str, Callable[[int], Rows]] = {
    "iswc2011-Q1": conference.location_just_entered,
    "iswc2011-Q3": conference.co_authors_here,
    "iswc2011-Q4": conference.editors_nearby,
    "iswc2011-Q5": conference.co_authors_by_nearby_room,
}
REPORT: dict[str, Callable[[int], Rows]] = {
    "report2010-Q1": conference.where_everybody_is,
    "report2010-Q2": conference.co_authors_together,
    "report2010-Q3": conference.citing_each_other_together,
    "report2010-Q4": conference.most_cited,
    "report2010-Q1p": conference.where_i_am,
    "report2010-Q2p": conference.cited_by_me_here,
    "report2010-Q3p": conference.interested_here,
    "report2010-Q4p": conference.place_of_most_cited,
}
MEANT: dict[str, Callable[[int], Rows]] = {
    "report2010-Q4-arg-max": conference.most_cited_by_each,
    "report2010-Q4p-distinct": conference.place_of_most_distinct_cited,
}
FIGURES = {
    path.stem: REPORT[path.stem.rpartition("-")[0]]
    for path in sorted(QUERIES.glob("report2010-*-figure*.cqels"))
}
EVENTS = [at for at, _, _ in conference.SEEN]


@pytest.fixture(autouse=True)
def _one_element_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detections of one instant would be one transaction: give each [TRIPLES 1] its own instant."""
    spread, taken = [], set()
    for at, person, room in conference.SEEN:
        while at in taken:
            at += 1
        taken.add(at)
        spread.append((at, person, room))
    monkeypatch.setattr(conference, "SEEN", spread)


def _check(
    name: str, answer: Callable[[int], Rows], stream: str, predicate: str, engine: str = "native"
) -> None:
    parameters = GIVEN if "$Name$" in (QUERIES / f"{name}.cqels").read_text("utf-8") else {}
    found, by = told(
        name, conference.static_quads(), stream, conference.elements(predicate), END, **parameters
    )
    expected = istream(answer, [at for at, _, _ in conference.SEEN], WIDTHS)
    assert expected, "the data must give the query something to say"
    assert found == expected
    assert by == engine


@pytest.mark.parametrize("name", ISWC)
def test_a_query_of_2011_gives_what_plain_python_gives(name: str) -> None:
    _check(name, ISWC[name], RFID, conference.LV + "detectedAt")


def test_the_construct_query_of_2011_gives_what_plain_python_gives() -> None:
    found, by = told(
        "iswc2011-Q2", conference.static_quads(), RFID, conference.elements(conference.LV + "detectedAt"), END
    )
    solutions = istream(conference.reachable, [at for at, _, _ in conference.SEEN], WIDTHS)
    expected = {at: Counter({(a, b): 1 for a, b, _, _ in rows}) for at, rows in solutions.items()}
    assert len(expected) > 10
    assert found == expected
    assert by == "native"


@pytest.mark.parametrize("name", REPORT | FIGURES | MEANT)
def test_a_query_of_2010_gives_what_plain_python_gives(name: str) -> None:
    _check(name, (REPORT | FIGURES | MEANT)[name], LOCSTREAMS, conference.LOC + "at")


def test_every_query_of_the_two_papers_is_run() -> None:
    run = {"iswc2011-Q2", *ISWC, *REPORT, *FIGURES, *MEANT}
    assert run == {path.stem for path in QUERIES.glob("*.cqels") if not path.stem.startswith("debs2015")}
