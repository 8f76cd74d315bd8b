"""Webhook sink: posts events of a query to a URL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import time
from typing import Any

import httpx

from quadrill.store.errors import InputError
from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.hosts import AllowedHosts
from quadrill.store.network.exchange import Exchanges, ExchangeStoppedError, drain

from ..bodies import BodyTemplate, check_names, read_template
from ..declaration import DeclarationMember, ValueReader, flag, number, one_of, shown_message, text
from ..envelopes import CLOUD_EVENT, CLOUD_EVENTS, body_of, cloud_event, key_of
from ..errors import ConnectorError, ConnectorFailedError, StoppedError
from ..sink import Sink
from ..web import HEADERS, SIGNATURE, TIMEOUT, TOKEN, headers_of, require_url, signature_of, url_member

_AGAIN = (408, 425, 429)
_FINAL = (401, 403, 410)
_LONGEST_WAIT_S = 300.0
_MOST_ANSWER_BYTES = 64 << 10
"""Maximum bytes read from a webhook receiver's response; after a longer response the connection is closed."""


class WebhookSink(Sink):
    """A webhook sink, which posts each event in one request, or all pending events as an array in one."""

    members = (
        url_member("the URL that receives the events"),
        DeclarationMember("style", one_of("json", "cloudevents"), "the form of an event", default="json"),
        DeclarationMember(
            "array", flag, "whether one request contains all pending events as an array", default=False
        ),
        DeclarationMember(
            "body",
            ValueReader(read_template, "object"),
            "a template of the requests' JSON, in which {{name}} is the value of a column of the query",
        ),
        DeclarationMember(
            "per", one_of("row", "event"), "what one request of a body is about", default="row"
        ),
        DeclarationMember("secret", text, f"the key of the HMAC-SHA256 in {SIGNATURE}", secret=True),
        DeclarationMember(
            "tries",
            number(1, 1_000_000),
            "number of attempts after which an event becomes a dead letter",
            default=20,
        ),
        HEADERS,
        TOKEN,
        TIMEOUT,
    )
    guarantee = "each event arrives at least once, in order, with its id in Idempotency-Key"

    _exchanges: Exchanges | None = None
    _tried = (0, "")
    # The key of the newest event that was posted row by row, and the number of its posted rows.
    _posted = ("", 0)

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Check a webhook sink's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        require_url(given["url"], hosts)
        if given["body"] is not None and (given["array"] or given["style"] != "json"):
            raise InputError(
                "a body is the whole request: it has neither array nor style",
                code="member",
                hint='Leave them out, or write "per": "event" with {{rows}} in the body.',
            )

    @classmethod
    def check_columns(cls, given: Mapping[str, Any], columns: Sequence[str]) -> None:
        """Raise InputError if the body has a name that is no column of the query."""
        if given["body"] is not None:
            check_names(given["body"], columns)

    def open(self) -> None:
        """Check the webhook's URL; the first request opens the connection."""
        require_url(self.given["url"], self.context.hosts)
        self._exchanges = Exchanges(self.context.stopping.is_set)

    def close(self) -> None:
        """Close the connections to the webhook's receiver."""
        if self._exchanges is not None:
            self._exchanges.close()

    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Post events to the webhook, one per request or all as one array."""
        if self.given["array"]:
            self._post(events)
            return
        for event in events:
            if self.given["body"] is None:
                self._post([event])
            else:
                self._post_bodies(event, BodyTemplate(self.given["body"], self.given["per"] == "row"))
            if event.id is not None:
                self.context.position = event.id

    def _post_bodies(self, event: StoredEvent, template: BodyTemplate) -> None:
        """Post the bodies of an event that have not been posted before an error."""
        key = key_of(event)
        begin = self._posted[1] if self._posted[0] == key else 0
        for place, body in enumerate(template.bodies(event, self.given["query"])):
            if place >= begin:
                self._post([event], body, f"-{place}")
                self._posted = key, place + 1

    def _post(self, events: Sequence[StoredEvent], made: bytes | None = None, more: str = "") -> None:
        """Post events to the webhook in one request; events that the receiver rejects become dead letters.

        An event counts as rejected if the webhook's receiver will never accept it, or after ``tries`` failed
        requests.

        Raises:
            ConnectorError: the webhook's receiver may accept the events later.
            ConnectorFailedError: the webhook's receiver rejects all requests of the sink.
        """
        body, headers = self._request(events, made, more)
        assert self._exchanges is not None
        url, answer, seconds = self.given["url"], None, self.given["timeout"] / 1000
        try:
            with self._exchanges.exchange("POST", url, seconds, headers=headers, content=body) as answer:
                # Only the status of the webhook's answer matters; a short body is read so that the connection
                # can be reused.
                with suppress(httpx.HTTPError, ExchangeStoppedError):
                    drain(answer, _MOST_ANSWER_BYTES)
        except ExchangeStoppedError:
            raise StoppedError from None
        except httpx.TimeoutException:
            failure, answer = f"<{url}> has not answered within {seconds:g} seconds", None
        except httpx.HTTPError as error:
            failure, answer = f"<{url}> cannot be reached: {error or type(error).__name__}", None
        else:
            if answer.is_success:
                self._tried = (0, "")
                self.context.connected()
                return
            failure = f"<{url}> answered with status {answer.status_code}"
            if answer.status_code in _FINAL:
                raise ConnectorFailedError(failure)
            if answer.status_code < 500 and answer.status_code not in _AGAIN:
                self._give_up(events, failure)
                return
        key = headers["Idempotency-Key"]
        tries = self._tried[0] + 1 if self._tried[1] == key else 1
        self._tried = (tries, key)
        if tries >= self.given["tries"]:
            self._give_up(events, f"{failure}, in each of {tries} tries")
            return
        if answer is not None and (wait := _retry_after(answer)):
            self.context.figures.state, self.context.figures.error = "waiting", shown_message(failure)
            self.context.sleep(wait)
        raise ConnectorError(failure)

    def _give_up(self, events: Sequence[StoredEvent], why: str) -> None:
        for event in events:
            self.context.refuse(event, shown_message(why))

    def _request(
        self, events: Sequence[StoredEvent], made: bytes | None, more: str
    ) -> tuple[bytes, dict[str, str]]:
        """Return the body and the headers of the request that posts some events to a webhook.

        ``made`` is the body of a template, with ``more`` as the end of the request's key.
        """
        given, array = self.given, self.given["array"]
        if made is not None:
            body, media_type = made, "application/json"
        elif given["style"] == "cloudevents":
            source = f"/queries/{given['query']}"
            documents = [cloud_event(each, given["query"], source) for each in events]
            body = json.dumps(documents if array else documents[0], ensure_ascii=False).encode()
            media_type = CLOUD_EVENTS if array else CLOUD_EVENT
        else:
            lines = [body_of(each, "json", given["query"]) for each in events]
            body = b"[" + b", ".join(lines) + b"]" if array else lines[0]
            media_type = "application/json"
        headers = {
            **headers_of(given),
            "Content-Type": media_type,
            "Idempotency-Key": f"{self.context.name}-{self.context.query_ms}-{key_of(events[-1])}{more}",
        }
        if given["secret"]:
            headers[SIGNATURE] = signature_of(given["secret"], body)
        return body, headers


def _retry_after(answer: httpx.Response) -> float:
    """Return the seconds of a response's Retry-After header (RFC 9110, 10.2.3); 0 without the header."""
    asked = answer.headers.get("Retry-After", "").strip()
    if asked.isascii() and asked.isdigit():
        return min(float(asked[:9]), _LONGEST_WAIT_S)
    try:
        return max(0.0, min(parsedate_to_datetime(asked).timestamp() - time(), _LONGEST_WAIT_S))
    except (ValueError, TypeError):
        return 0.0
