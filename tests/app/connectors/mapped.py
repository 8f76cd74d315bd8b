"""A stream whose mapping reads JSON, a query over it, and what both say of good and bad messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.app.conftest import LiveServer
from tests.app.connectors.test_sources import S

CONSTRUCT = 'CONSTRUCT { ?s <urn:c> ?c } WHERE { BIND(IRI(CONCAT("urn:", ?_topic, ":", ?sensor)) AS ?s) }'
MAPPING = {"format": "json", "construct": CONSTRUCT, "time": "ts", "time_format": "s"}
QUERY = f"SELECT ?s {{ STREAM <{S}> [NOW] {{ ?s <urn:c> ?c }} FILTER(?c > 20) }}"
MESSAGES = (
    '{"sensor": "a", "c": 21.5, "ts": 10}',
    '{"sensor": "b", "c": 30, "ts": "soon"}',
    '{"sensor": "c"',
)
LAST = '{"sensor": "d", "c": 22, "ts": 20}'


def declare(server: LiveServer) -> None:
    """The stream and the query."""
    given = {"mapping": MAPPING, "retention": "1h", "lateness": "1h"}
    assert server.client.put("/streams", params={"iri": S}, json=given).status_code in (200, 201)
    headers = {"Content-Type": "text/plain"}
    assert server.client.put("/queries/warm", content=QUERY, headers=headers).status_code == 201


def check(server: LiveServer, topic: str, until: Callable[[Callable[[], object]], None]) -> None:
    """The good messages are in the stream, the bad ones are dead letters with what is wrong with them."""
    until(lambda: server.client.get("/sources/it").json()["refused"] == 2)
    until(lambda: server.client.get("/streams", params={"iri": S}).json()["accepted"] == 2)
    elements = server.services.engine.parts.streams.newest(S, 10)
    assert sorted(each.event_time for each in elements) == [10_000, 20_000]
    subjects = {str(quad.subject.value) for each in elements for quad in each.quads}
    assert subjects == {f"urn:{topic}:a", f"urn:{topic}:d"}
    letters: list[dict[str, Any]] = server.client.get("/sources/it/dead-letters").json()["letters"]
    assert {("soon" in each["record"], "the field ts" in each["error"]) for each in letters} == {
        (True, True), (False, False),
    }  # fmt: skip
    server.services.engine.streams.heartbeat(S, 30_000 + 3_600_000, wait=True)
    until(lambda: server.services.engine.queries.feed("warm").history.last_id >= 2)
