"""The front answers as it did when these requests were recorded: heads, bodies, log lines and figures.

Each file of ``recorded/`` is one scenario: requests in a fixed order to a new server in memory.

Some things may change without a word to clients and are not compared: the order of headers, the case of their
names, the reason after the status, the order of the values of ``Vary``, ``Allow`` and the lists of CORS, the
milliseconds and the order of log lines, and how an answer is cut into chunks or compressed. Some differ from
run to run: the server's address, dates, times of now, random names, measured figures, states of sources and
sinks, and the lengths of answers that contain these. The length that an answer to HEAD announces is not
compared. Of pages only the title is compared, of long JSON documents the names of the members, of other long
texts a digest, of ``/ui/static``, ``/openapi.json``, ``/metrics`` and the service description only the head:
they have their own tests. An answer has the usual lines of `normal.USUAL` unless it is recorded as without.
The label ``route`` of the request metrics is part of the contract.

``make record-requests`` records again (`tests.app.front.recording`). That is right only together with a
change of the HTTP contract; the diff of ``recorded/`` then shows what the change does to clients.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quadrill.app.routes import all_routes
from tests.app.routes import no_page

from . import operations
from .replay import RECORDED, differences, read, run

SHOWN = 8
"""Differences that a failure shows."""
FILES = sorted(RECORDED.glob("*.jsonl"))
# The scenario "workers" starts a process.
_MARKS = {"workers": pytest.mark.process}


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=_MARKS.get(file.stem, ()), id=file.stem) for file in FILES]
)
def test_answers_are_as_recorded(file: Path, tmp_path: Path) -> None:
    scenario, expected = read(file)
    found = [*differences(scenario, expected, run(scenario, tmp_path, expected))]
    assert not found, f"{len(found)} differences in {file.name}:\n\n" + "\n\n".join(found[:SHOWN])


def test_recorded_requests_are_many() -> None:
    requests = sum(len(answers) for file in FILES for answers in read(file)[1].answers)
    assert requests > 3000


def test_requests_are_recorded_for_every_operation() -> None:
    recorded = {
        tuple(step.send[0].split(" ", 2)[:2])
        for file in FILES
        if file.stem == "operations-admin"
        for step in read(file)[0].steps
    }
    requests = [(method, target.partition("?")[0]) for method, target in recorded]
    missing = [
        f"{route.method} {route.path}"
        for route in all_routes(no_page)
        if route.summary
        and not any(
            method == route.method and re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(route.path)), path)
            for method, path in requests
        )
    ]
    assert missing == [], (
        "extend tests/app/front/operations.py and run make record-requests SCENARIO=operations-admin"
    )


def test_recorded_requests_stand_in_the_order_of_the_routes() -> None:
    """Otherwise the next recording has lines of other routes, too."""
    made = next(each for each in operations.scenarios() if each.name == "operations-admin")
    recorded = read(RECORDED / "operations-admin.jsonl")[0]
    assert [step.send[0].partition("\r")[0] for step in recorded.steps] == [
        step.send[0].partition("\r")[0] for step in made.steps
    ], "run make record-requests SCENARIO=operations-admin"
