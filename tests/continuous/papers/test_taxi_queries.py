"""The queries of DEBS 2015, end to end, against plain Python; Example 1 gives the row of the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from . import taxi
from .harness import QUERIES, istream, told

TAXI = "http://localhost/Taxi"
WIDTHS = (0, 15 * taxi.MINUTE, 30 * taxi.MINUTE)
OPEN = {"bounds": "open-closed"}
CASES: dict[str, tuple[Callable[[int], Counter[taxi.Row]], dict[str, Any]]] = {
    "debs2015-Q1-as-printed": (taxi.q1_as_printed, {}),
    "debs2015-Q1-official": (taxi.q1_official, {}),
    "debs2015-Q1-ranked": (taxi.q1_ranked, OPEN),
    "debs2015-Q2-as-printed": (taxi.q2_as_printed, {}),
    "debs2015-Q2-official": (taxi.q2_official, OPEN),
}
EXAMPLE_1 = """
<urn:trip1> <http://debs2015.org/taxi#taxi> "07290D3599E7A0D62097A346EFCC1FB5" .
<urn:trip1> <http://debs2015.org/taxi#pickup_datetime> "2013-01-01 00:00:00" .
<urn:trip1> <http://debs2015.org/taxi#dropoff_datetime> "2013-01-01 00:02:00" .
<urn:trip1> <http://debs2015.org/taxi#pickLon> "-73.956528"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<urn:trip1> <http://debs2015.org/taxi#pickLat> "40.716976"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<urn:trip1> <http://debs2015.org/taxi#dropLon> "-73.962440"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<urn:trip1> <http://debs2015.org/taxi#dropLat> "40.715008"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<urn:trip1> <http://debs2015.org/taxi#fare> "3.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<urn:trip1> <http://debs2015.org/taxi#tip> "0.0"^^<http://www.w3.org/2001/XMLSchema#decimal> .
"""


def test_example_1_gives_the_mapping_that_the_paper_states() -> None:
    found, by = told("debs2015-Q1-as-printed", [], TAXI, [(120_000, EXAMPLE_1)], 121_000)
    assert found == {120_000: Counter({("127", "213", "127", "212", "1"): 1})}
    assert by == "native"


@pytest.mark.parametrize("name", CASES)
def test_a_query_of_2015_gives_what_plain_python_gives(name: str) -> None:
    answer, options = CASES[name]
    end = taxi.TRIPS[-1].dropoff + 60 * taxi.MINUTE
    found, by = told(name, [], TAXI, taxi.elements(), end, **options)
    # With open bounds a trip leaves one instant earlier: at t + width instead of t + width + 1.
    widths = [width - 1 if options else width for width in WIDTHS]
    expected = istream(answer, [trip.dropoff for trip in taxi.TRIPS], widths)
    assert len(expected) > 40
    # Profitability is told last: a quotient, which the four columns before it already decide.
    seen = {at: Counter({tuple(map(float, row[:4])) + _rest(row, name): n for row, n in rows.items()})
            for at, rows in found.items()}  # fmt: skip
    assert seen == expected
    assert by == "native"


def _rest(row: tuple[str, ...], name: str) -> tuple[float, ...]:
    if "Q1" in name:
        return (float(row[4]),)
    assert float(row[4]) == pytest.approx(float(row[3]) / float(row[2]))
    return ()


def test_every_query_of_the_paper_is_run() -> None:
    assert set(CASES) == {path.stem for path in QUERIES.glob("debs2015-*.cqels")}
