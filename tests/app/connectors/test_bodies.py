"""Bodies of webhook sinks by templates: what becomes of names, of rows, and of other services' schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.app.connectors.bodies import BodyTemplate, check_names, read_template
from quadrill.store.errors import InputError
from quadrill.store.feeds.subscription import StoredEvent
from tests.app.conftest import Start
from tests.app.connectors.processes import cookbook_blocks
from tests.app.test_feed_streams import until

from .test_sinks import push, receiving

INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def event(*rows: dict[str, Any], kind: Any = "insert", at: int = 1_767_268_800_000) -> StoredEvent:
    """An event with rows of plain values."""
    bindings = [
        {
            name: {"type": "literal", "value": str(value)}
            | ({"datatype": INTEGER} if isinstance(value, int) else {})
            for name, value in row.items()
            if value is not None
        }
        for row in rows
    ]
    document = {"at": at, "version": 0, "head": {"vars": ["s", "n"]}, "results": {"bindings": bindings}}
    return StoredEvent(7, kind, json.dumps(document))


def made(template: Any, one: StoredEvent, *, by_row: bool = True) -> list[Any]:
    text = read_template(template, "body")
    return [json.loads(body) for body in BodyTemplate(text, by_row).bodies(one, "q")]


@given(st.text(max_size=20), st.integers(-(10**6), 10**6) | st.none())
def test_each_value_is_escaped_for_its_place(text: str, number: int | None) -> None:
    template = '{"a": "{{s}}", "b": "x {{ s }} {{n}}", "c": {{n}}, "d": [{{s}}], "e": "{{n}}"}'
    (found,) = made(template, event({"s": text, "n": number}))
    shown = "null" if number is None else str(number)
    assert found == {
        "a": text, "b": f"x {text} {shown}", "c": number, "d": [text], "e": None if number is None else shown,
    }  # fmt: skip


def test_values_are_never_read_as_a_template_again() -> None:
    assert made({"a": "{{s}}"}, event({"s": "{{n}}", "n": 5})) == [{"a": "{{n}}"}]


def test_rows_and_events() -> None:
    both = event({"s": "a", "n": 1}, {"s": "b"})
    assert made({"x": "{{s}}"}, both) == [{"x": "a"}, {"x": "b"}]
    text = (
        '{"first": "{{s}}", "all": {{rows}}, "count": {{count}}, "of": "{{query}} {{event}} {{id}} {{at}}"}'
    )
    assert made(text, both, by_row=False) == [
        {
            "first": "a", "all": [{"s": "a", "n": 1}, {"s": "b"}], "count": 2,
            "of": "q insert 7 2026-01-01T12:00:00.000Z",
        }
    ]  # fmt: skip
    assert made({"x": 1}, event(kind="answer")) == made({"x": 1}, StoredEvent(None, "reset", "{}")) == []
    quads = StoredEvent(1, "insert", '{"at": 5, "quads": "<a> <b> <c> .\\n"}')
    assert made({"x": "{{quads}}"}, quads) == [{"x": "<a> <b> <c> .\n"}]


@pytest.mark.parametrize("text", ["{", '{"a": {{s}} 5}', "", '{"a": "}'])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no JSON"):
        read_template(text, "body")


def test_an_unknown_name_is_refused_and_a_column_hides_a_name_of_events() -> None:
    check_names('{"a": "{{s}} {{action}}"}', ["s"])
    with pytest.raises(InputError, match=r"\{\{x\}\}.*no column \?x"):
        check_names('{"a": "{{x}}"}', ["s"])
    mine = event({"id": "mine", "at": "here"})
    assert made({"a": "{{id}} {{at}}"}, mine) == [{"a": "mine here"}]


SLACK = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "maxLength": 40_000},
        "blocks": {
            "type": "array",
            "maxItems": 50,
            "items": {
                "type": "object",
                "required": ["type", "text"],
                "properties": {
                    "type": {"const": "section"},
                    "text": {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {
                            "type": {"enum": ["mrkdwn", "plain_text"]},
                            "text": {"type": "string", "minLength": 1, "maxLength": 3000},
                        },
                    },
                },
            },
        },
    },
}
TEAMS = {
    "type": "object",
    "required": ["type", "attachments"],
    "properties": {
        "type": {"const": "message"},
        "attachments": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["contentType", "content"],
                "properties": {
                    "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
                    "content": {
                        "type": "object",
                        "required": ["type", "version", "body"],
                        "properties": {
                            "type": {"const": "AdaptiveCard"},
                            "version": {"type": "string", "pattern": r"^1\.\d$"},
                            "body": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["type", "text"],
                                    "properties": {
                                        "type": {"const": "TextBlock"},
                                        "text": {"type": "string"},
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
PAGERDUTY = {
    "type": "object",
    "required": ["routing_key", "event_action"],
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "properties": {
                "summary": {"type": "string", "maxLength": 1024},
                "source": {"type": "string"},
                "severity": {"enum": ["critical", "error", "warning", "info"]},
                "timestamp": {"type": "string", "format": "date-time"},
                "custom_details": {"type": "object"},
            },
        },
    },
    "allOf": [
        {
            "if": {"properties": {"event_action": {"const": "resolve"}}},
            "then": {"required": ["dedup_key"]},
            "else": {"required": ["payload"]},
        }
    ],
}
"""What the services' documents say of the members that the page's bodies use."""
TEXT = (
    "SELECT ?sensor ?celsius { STREAM <http://e/s> [RANGE 5s] { ?sensor <urn:p> ?celsius } } "
    "ONCE PER ?sensor UNTIL GONE RESOLVED"
)


def page_body(service: str) -> Any:
    """The body of a service as docs/cookbook/webhook.md prints it."""
    blocks = [json.loads(each) for each in cookbook_blocks("webhook", "json")]
    marks = {"slack": "text", "teams": "attachments", "pagerduty": "routing_key"}
    return next(each for each in blocks if marks[service] in each)


@pytest.mark.parametrize(
    ("service", "schema"), [("slack", SLACK), ("teams", TEAMS), ("pagerduty", PAGERDUTY)]
)
def test_the_bodies_of_the_page_are_what_the_services_take(
    start_server: Start, service: str, schema: dict[str, Any]
) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        server.client.put("/queries/q", content=TEXT, headers={"Content-Type": "text/plain"})
        body = page_body(service)
        given = {
            "query": "q",
            "kind": "webhook",
            "url": receiver.url,
            "body": body,
            "headers": {"X-Key": "k"},
        }
        answer = server.client.put("/sinks/it", json=given)
        assert answer.status_code == 201, answer.text
        assert answer.json()["headers"] == "***" and answer.json()["body"] == body
        push(server, 1, 20)
        until(lambda: len(receiver.taken) >= 3)
        bodies = receiver.documents()
        for each in bodies:
            jsonschema.validate(each, schema)
        if service == "pagerduty":
            keys = [(each["event_action"], each["dedup_key"]) for each in bodies[:3]]
            assert keys == [("trigger", "urn:1"), ("resolve", "urn:1"), ("trigger", "urn:20")]
        assert len({headers["Idempotency-Key"] for headers, _ in receiver.taken}) == len(receiver.taken)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"body": {"text": "{{place}}"}}, "no column ?place"),
        ({"body": "{"}, "no JSON"),
        ({"body": {}, "array": True}, "neither array nor style"),
        ({"body": {}, "style": "cloudevents"}, "neither array nor style"),
        ({"body": {}, "per": "day"}, "row or event"),
    ],
)
def test_a_wrong_body_is_refused(start_server: Start, members: dict[str, Any], message: str) -> None:
    server = start_server(remote_hosts=("127.0.0.1",))
    server.client.put("/queries/q", content=TEXT, headers={"Content-Type": "text/plain"})
    given = {"query": "q", "kind": "webhook", "url": "http://127.0.0.1:1/", **members}
    answer = server.client.put("/sinks/it", json=given)
    assert answer.status_code == 400 and message in answer.text


def test_a_row_that_was_posted_is_not_posted_again_after_an_error(start_server: Start) -> None:
    with receiving() as receiver:
        server = start_server(remote_hosts=("127.0.0.1",))
        text = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"
        server.client.put("/queries/q", content=text, headers={"Content-Type": "text/plain"})
        receiver.statuses = [204, 503]
        given = {"query": "q", "kind": "webhook", "url": receiver.url, "body": {"s": "{{s}}"}}
        assert server.client.put("/sinks/it", json=given).status_code == 201
        answer = server.client.post(
            "/streams",
            params={"iri": "http://e/s", "at": "1000", "wait": "true"},
            content="".join(f"<urn:{each}> <urn:p> <urn:o> .\n" for each in "abc"),
            headers={"Content-Type": "application/n-triples"},
        )
        assert answer.status_code == 200
        until(lambda: len(receiver.taken) >= 3)
        assert receiver.documents() == [{"s": "urn:a"}, {"s": "urn:b"}, {"s": "urn:c"}]
