"""The change feed over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quadrill.app.feeds.change_feed import ChangeFeed, ChangeSource, Selection
from quadrill.store.quads.quad_store import QuadStore
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader


def test_each_commit_is_one_event_with_its_version_as_id(server: LiveServer) -> None:
    start = server.services.store.reader.version
    with EventReader(server, "/changes") as feed:
        server.update("INSERT DATA { <urn:s> <urn:p> 1 . GRAPH <urn:g> { <urn:s> <urn:p> 2 } }")
        server.update("DELETE DATA { <urn:s> <urn:p> 1 }")
        first, second = feed.take(2)
    assert [first.id, second.id] == [str(start + 1), str(start + 2)]
    document = json.loads(first.data)
    assert document["version"] == start + 1
    assert isinstance(document["at"], int)
    assert document["graphs"] == {"default": {"added": 1, "removed": 0}, "urn:g": {"added": 1, "removed": 0}}
    assert "patch" not in document
    assert json.loads(second.data)["graphs"] == {"default": {"added": 0, "removed": 1}}


def test_the_feed_resumes_after_a_version_and_after_the_last_event(server: LiveServer) -> None:
    start = server.services.store.reader.version
    for number in range(5):
        server.update(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
    with EventReader(server, f"/changes?after={start + 2}") as feed:
        assert [event.id for event in feed.take(3)] == [str(start + n) for n in (3, 4, 5)]
    with EventReader(server, f"/changes?after={start}", {"Last-Event-ID": str(start + 4)}) as feed:
        assert [event.id for event in feed.take(1)] == [str(start + 5)]


def test_the_patch_holds_exactly_what_changed_and_graphs_filter(server: LiveServer) -> None:
    start = server.services.store.reader.version
    server.update("INSERT DATA { <urn:s> <urn:p> 1 }")
    server.update("INSERT DATA { GRAPH <urn:g> { <urn:s> <urn:p> 'x' } }")
    with EventReader(server, f"/changes?after={start}&patch=true&graph=urn:g") as feed:
        (event,) = feed.take(1)
    assert event.id == str(start + 2)
    assert 'A <urn:s> <urn:p> "x" <urn:g> .' in json.loads(event.data)["patch"]


def test_what_a_reader_is_sent_at_a_time_is_bounded_and_all_of_it_comes(tmp_path: Path) -> None:
    with QuadStore.open(tmp_path) as store:
        for number in range(8):
            store.writer.update(f"INSERT DATA {{ <http://e/s> <http://e/p> '{number}{'x' * 400_000}' }}")
        feed = ChangeFeed(store)
        source = ChangeSource(feed, 0, Selection(frozenset(), patch=True))
        pages = [source.take()]
        while source.more:
            pages.append(source.take())
        assert [len(page) for page in pages] == [3, 3, 2]
        found = [
            line for page in pages for frame in page for line in frame.split(b"\n") if line[:3] == b"id:"
        ]
        assert found == [b"id: %d" % version for version in range(1, 9)]
        feed.close()


def test_a_position_that_is_not_kept_gets_a_reset(start_server: Start) -> None:
    server = start_server(change_log_bytes=1)
    for number in range(600):
        server.services.store.writer.update(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
    with EventReader(server, "/changes?after=1") as feed:
        (event,) = feed.take(1)
        assert event.kind == "reset"
        assert json.loads(event.data)["version"] == 600
        server.update("CLEAR ALL")
        assert feed.take(1)[0].id == "601"
    with EventReader(server, "/changes?after=100000") as feed:
        assert feed.take(1)[0].kind == "reset"


@pytest.mark.parametrize("query", ["after=-1", "after=x", "graph=not%20iri", "patch=maybe", "other=1"])
def test_wrong_parameters_are_problems(server: LiveServer, query: str) -> None:
    problem_of(server.client.get(f"/changes?{query}", headers={"Accept": "text/event-stream"}), 400)


def test_only_events_are_offered(server: LiveServer) -> None:
    problem_of(server.client.get("/changes", headers={"Accept": "text/html"}), 406)


GRAND = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }"
RULES = {"rules": [GRAND], "into": "urn:inferred"}


def test_inferred_quads_are_counted_apart_and_left_out_of_patches(server: LiveServer) -> None:
    start = server.services.store.reader.version
    server.update("INSERT DATA { <urn:a> <urn:parent> <urn:b> . <urn:c> <urn:parent> <urn:d> }")
    assert server.client.put("/rules/family", json=RULES).status_code == 201
    written = server.client.post(
        "/update",
        content="INSERT DATA { <urn:b> <urn:parent> <urn:c> }",
        headers={"Content-Type": "application/sparql-update", "Prefer": "return=representation"},
    )
    assert written.json() == {
        "version": start + 3,
        "added": 1,
        "removed": 0,
        "inferred": {"added": 2, "removed": 0},
    }
    with EventReader(server, f"/changes?after={start}&patch=true") as feed:
        facts, rules, both = [json.loads(event.data) for event in feed.take(3)]
    assert "inferred" not in facts
    assert (rules["graphs"], rules["inferred"]) == ({}, {"urn:inferred": {"added": 0, "removed": 0}})
    assert both["graphs"] == {"default": {"added": 1, "removed": 0}}
    assert both["inferred"] == {"urn:inferred": {"added": 2, "removed": 0}}
    assert both["patch"].count("\nA ") == 1
    assert "urn:inferred" not in rules["patch"] + both["patch"]
    with EventReader(server, f"/changes?after={start + 1}&patch=true&inferred=true") as feed:
        rules, both = [json.loads(event.data) for event in feed.take(2)]
    assert "H created <urn:inferred> ." in rules["patch"]
    assert "A <urn:a> <urn:grand> <urn:c> <urn:inferred> ." in both["patch"]
    assert both["patch"].count("\nA ") == 3
    with EventReader(server, f"/changes?after={start + 2}&graph=urn:inferred") as feed:
        (only,) = [json.loads(event.data) for event in feed.take(1)]
    assert (only["graphs"], set(only["inferred"])) == ({}, {"urn:inferred"})


def test_the_removal_of_a_rule_set_and_older_commits_stay_marked(start_server: Start) -> None:
    server = start_server()
    start = server.services.store.reader.version
    server.update("INSERT DATA { <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> }")
    server.client.put("/rules/family", json=RULES)
    server.client.delete("/rules/family")
    server.update("INSERT DATA { GRAPH <urn:inferred> { <urn:a> <urn:b> <urn:c> } }")
    with EventReader(server, f"/changes?after={start + 1}&patch=true") as feed:
        made, removed, mine = [json.loads(event.data) for event in feed.take(3)]
    assert made["inferred"] == {"urn:inferred": {"added": 1, "removed": 0}}
    assert (removed["graphs"], removed["inferred"]) == ({}, {"urn:inferred": {"added": 0, "removed": 1}})
    assert "urn:inferred" not in removed["patch"]
    assert mine["graphs"] == {"urn:inferred": {"added": 1, "removed": 0}}
    assert "A <urn:a> <urn:b> <urn:c> <urn:inferred> ." in mine["patch"]
