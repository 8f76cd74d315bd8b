"""Encodings of feed events for sinks: a line of JSON, the data alone, or a CloudEvent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from quadrill.store.feeds.subscription import StoredEvent

from ..feeds.sources import line
from .declaration import DeclarationMember, one_of

CLOUD_EVENT = "application/cloudevents+json"
CLOUD_EVENTS = "application/cloudevents-batch+json"

STYLE = DeclarationMember(
    "style",
    one_of("json", "data", "cloudevents"),
    "the form of an event; data sends the event's data without its id",
    default="json",
)
"""The declaration member `style` of sinks whose protocol carries an event's id outside of the body."""


def body_of(event: StoredEvent, style: str, query: str) -> bytes:
    """Encode a feed event in a form of `STYLE`: a JSON line, the data alone, or a CloudEvent."""
    if style == "data":
        return event.data.encode()
    if style == "cloudevents":
        return json.dumps(cloud_event(event, query, f"/queries/{query}"), ensure_ascii=False).encode()
    return line_of(event)[:-1]


def line_of(event: StoredEvent) -> bytes:
    """Encode an event of a query as a line of an NDJSON feed."""
    return line(event.kind, event.data, event.id)


def key_of(event: StoredEvent) -> str:
    """Return an event's key for sinks: unique within its query, equal at a repeated delivery.

    Two resets have the same key only if the query has emitted no event between them.
    """
    if event.id is not None:
        return str(event.id)
    return f"reset-{json.loads(event.data)['earliest']}" if event.kind == "reset" else event.kind


def cloud_event(event: StoredEvent, query: str, source: str) -> dict[str, Any]:
    """Encode an event of a query as CloudEvents 1.0.2; ``time`` is the instant of the answer."""
    data = json.loads(event.data)
    document = {
        "specversion": "1.0",
        "id": key_of(event),
        "source": source,
        "type": f"quadrill.{event.kind}",
        "subject": query,
        "datacontenttype": "application/json",
        "data": data,
    }
    at = data.get("at") if isinstance(data, dict) else None
    if isinstance(at, int) and 0 <= at < 253_402_300_800_000:
        moment = datetime.fromtimestamp(at / 1000, UTC)
        document["time"] = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return document
