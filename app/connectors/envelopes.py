"""An event of a feed as others get it: a line of JSON, its data alone, or a CloudEvent."""

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
    "the form of an event, data: without its id",
    default="json",
)
"""The member of sinks whose other side carries id and kind beside the body, too."""


def body_of(event: StoredEvent, style: str, query: str) -> bytes:
    """An event in one of the forms of `STYLE`."""
    if style == "data":
        return event.data.encode()
    if style == "cloudevents":
        return json.dumps(cloud_event(event, query, f"/queries/{query}"), ensure_ascii=False).encode()
    return line_of(event)[:-1]


def line_of(event: StoredEvent) -> bytes:
    """An event as a feed in NDJSON has it."""
    return line(event.kind, event.data, event.id)


def key_of(event: StoredEvent) -> str:
    """What tells an event from all others of its query; the same when it is delivered again."""
    return event.kind if event.id is None else str(event.id)


def cloud_event(event: StoredEvent, query: str, source: str) -> dict[str, Any]:
    """An event by CloudEvents 1.0.2: its time is the instant that the answer is of."""
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
