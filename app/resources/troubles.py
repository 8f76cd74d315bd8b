"""What fails or waits in a server: queries, sources and sinks, jobs, rule sets, shapes, streams, the disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from quadrill.store.registry import ConnectorRole

from ..describing.figures import journal_state
from ..describing.listing import QuerySelection, list_part
from ..describing.waiting import waiting_for
from ..wiring import Services

MOST_TROUBLES = 100
"""Maximum number of entries that are listed."""
MOST_QUERIES = 50
"""Maximum number of running queries that are asked why they wait, because each answer needs a description."""
_JOBS = 20
"""Number of newest jobs among which failed ones are listed."""
_READY = frozenset({"ready", "running", "stopped"})


class Trouble(NamedTuple):
    """One thing that fails or waits.

    Attributes:
        kind: query, stream, source, sink, job, rules, shapes or server.
        name: the name of the thing; empty for the server.
        state: ``failed`` or ``waiting``.
        text: the reason, in one sentence.
    """

    kind: str
    name: str
    state: str
    text: str


def troubles(services: Services) -> tuple[list[Trouble], bool]:
    """Return what fails or waits, failed things first, and whether there is more than is listed."""
    parts = (_server, _queries, _connectors, _rules, _shapes, _jobs, _streams)
    found = list(islice(chain.from_iterable(part(services) for part in parts), MOST_TROUBLES + 1))
    found.sort(key=lambda each: each.state != "failed")
    return found[:MOST_TROUBLES], len(found) > MOST_TROUBLES


def _server(services: Services) -> Iterator[Trouble]:
    journal = journal_state(services.engine)
    if journal is not None and journal["trouble"] is not None:
        yield Trouble("server", "", "failed", f"Inputs are refused: {journal['trouble']}")


def _queries(services: Services) -> Iterator[Trouble]:
    for state, shown in (("failed", "failed"), ("materialising", "waiting"), ("running", "waiting")):
        part = QuerySelection(state=state, limit=MOST_QUERIES)
        for query in list_part(services.engine, part)["queries"]:
            reasons = [each.text for each in waiting_for(query)]
            if reasons:
                yield Trouble("query", query["name"], shown, reasons[0])


def _connectors(services: Services) -> Iterator[Trouble]:
    roles: tuple[ConnectorRole, ...] = ("source", "sink")
    for role in roles:
        for each in services.connectors.all(role):
            if each["state"] == "failed":
                yield Trouble(role, each["name"], "failed", each["error"] or "it has failed")
            elif each["state"] != "stopped" and (each["error"] or each["state"] not in _READY):
                yield Trouble(role, each["name"], "waiting", each["error"] or f"it is {each['state']}")


def _rules(services: Services) -> Iterator[Trouble]:
    for each in services.rules.describe_all():
        if each["state"] not in _READY:
            state = "waiting" if each["state"] == "materialising" else "failed"
            yield Trouble("rules", each["name"], state, each["error"] or f"its graph is {each['state']}")


def _shapes(services: Services) -> Iterator[Trouble]:
    for each in services.shapes.reports.describe_all():
        if each["state"] not in _READY:
            yield Trouble("shapes", each["name"], "failed", each["error"] or f"they are {each['state']}")


def _jobs(services: Services) -> Iterator[Trouble]:
    for record in services.jobs.list()[-_JOBS:]:
        if record.state == "failed":
            yield Trouble("job", record.id, "failed", f"The {record.kind} job failed: {record.error}")
        elif record.state == "queued":
            yield Trouble("job", record.id, "waiting", f"The {record.kind} job waits for the jobs before it")


def _streams(services: Services) -> Iterator[Trouble]:
    for stream in sorted(services.engine.parts.streams, key=lambda each: each.name):
        letters = len(stream.dead_letters)
        if letters:
            yield Trouble(
                "stream",
                stream.name,
                "waiting",
                f"{letters:,} dead {'letter is' if letters == 1 else 'letters are'} stored",
            )
