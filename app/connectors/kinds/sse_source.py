"""Source that follows Server-Sent Events, for instance the feed of another Quadrill server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from quadrill.client.event_stream import EventTooLongError, ServerEvent, events_of
from quadrill.store.hosts import AllowedHosts
from quadrill.store.network.exchange import Exchanges, ExchangeStoppedError, UnpackError, blocks

from ..declaration import DeclarationMember, list_of, text
from ..errors import ConnectorError, ConnectorFailedError, StoppedError
from ..rows import records_of
from ..source import JSON, Message, Source
from ..web import FINAL, HEADERS, TIMEOUT, TOKEN, headers_of, require_url, url_member

RESULTS = "application/sparql-results+json"
N_QUADS = "application/n-quads"


class SseSource(Source):
    """A source that pushes Server-Sent Events in order, and resumes after the last event that entered.

    The declaration member ``format`` determines the records of a Server-Sent Event: its data as one JSON
    record, each row of SPARQL results in JSON (with the member ``at``), or the ``quads`` of a feed with their
    event time.
    """

    members = (
        url_member("the address of the event stream"),
        DeclarationMember(
            "events", list_of(text), "the kinds of events to read; by default all events with data"
        ),
        DeclarationMember("from", text, "the event id after which the source starts"),
        HEADERS,
        TOKEN,
        TIMEOUT,
    )
    guarantee = "each event enters once if the remote system assigns and retains ids, else at most once"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Check an SSE source's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        require_url(given["url"], hosts)

    _before: str | None = None
    """The id of the Server-Sent Event before the one being processed."""

    def run(self) -> None:
        """Push the data of Server-Sent Events into the stream until the connection ends."""
        given, context = self.given, self.context
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **headers_of(given)}
        position = context.position or given["from"]
        if position is not None:
            headers["Last-Event-ID"] = position
        self._before = position
        url, seconds = given["url"], given["timeout"] / 1000
        try:
            with (
                Exchanges(context.stopping.is_set) as exchanges,
                exchanges.exchange("GET", url, seconds, headers=headers) as answer,
            ):
                if answer.status_code == 204:
                    raise ConnectorError(f"<{url}> has ended")
                if answer.status_code != 200 or "text/event-stream" not in answer.headers.get(
                    "content-type", ""
                ):
                    refused = ConnectorFailedError if answer.status_code in FINAL else ConnectorError
                    raise refused(f"<{url}> answered with status {answer.status_code}, no event stream")
                context.connected()
                exchanges.allow_silence(seconds)
                for events in events_of(self._chunks(answer)):
                    self._take(events)
        except ExchangeStoppedError:
            raise StoppedError from None
        except (httpx.HTTPError, EventTooLongError, UnpackError) as error:
            reason = str(error) or type(error).__name__
            raise ConnectorError(f"<{url}> could not be followed: {reason}") from error
        raise ConnectorError(f"<{url}> has ended the connection")

    def _chunks(self, answer: httpx.Response) -> Iterator[bytes]:
        for chunk in blocks(answer, 0):
            yield chunk
            self.context.sleep(0)

    def _take(self, events: Sequence[ServerEvent]) -> None:
        """Push the records of Server-Sent Events in batches; all rows of one event are in the same batch."""
        context, wanted = self.context, self.given["events"]
        asked = (self.given["format"] or JSON).partition(";")[0].strip()
        media_type = JSON if asked == RESULTS else asked
        messages: list[tuple[Message, str | None]] = []
        for event in events:
            if wanted is not None and event.kind not in wanted:
                continue
            found: list[Message] = []
            try:
                found = _messages_of(event, asked)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                context.refuse(event.data.encode(), f"the event is not of the format {asked}: {error}")
            if messages and len(messages) + len(found) > self.given["batch"]:
                context.push_messages(messages, media_type)
                messages = []
            # The source's position moves past an event only after all of the event's rows.
            messages += ((each, self._before) for each in found[:-1])
            messages += ((each, event.id) for each in found[-1:])
            self._before = event.id
        context.push_messages(messages, media_type)


def _messages_of(event: ServerEvent, asked: str) -> list[Message]:
    """Return the records that the data of a Server-Sent Event contains.

    Raises: ValueError, KeyError, TypeError, AttributeError: the event's data does not have the format
    ``asked``.
    """
    extra = {"_event": event.kind, "_id": event.id}
    if asked == JSON:
        return [Message(event.data.encode(), extra)]
    document = json.loads(event.data)
    if asked == RESULTS:
        return [Message(json.dumps(each).encode()) for each in records_of(document, extra)]
    return [Message(document["quads"].encode(), at=document.get("at"))] if "quads" in document else []
