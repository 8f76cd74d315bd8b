"""``/streams/{name}/dead-letters``: what did not get where it should, tried again or dropped."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from quadrill.continuous.errors import BackPressureError
from quadrill.store.errors import NotFoundError, QuadrillError
from quadrill.store.feeds.subscription import Subscription

from ..feeds.dead_letters import watch_dead_letters
from ..feeds.events import EventStream, event_form, written_as
from ..feeds.sources import Write
from ..http import negotiation
from ..http.errors import HttpError
from ..security import needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("dead_letters", __name__)
_LISTED = 20
"""Errors in an answer about many letters."""


@blueprint.get("/streams/<part:name>/dead-letters")
def get_dead_letters(name: str) -> Response:
    """The dead letters of a stream, oldest first: as JSON, or as events that go on with what comes."""
    incoming.known_parameters(())
    incoming.check_name(name, "the stream name")
    form = event_form(request.headers.get("Accept"), (negotiation.JSON_RESULTS,))
    if form is None:
        return incoming.json_response({"letters": services().engine.dead_letters(name)})
    return EventStream(
        _Letters(watch_dead_letters(services().engine, name), written_as(form)),
        services().fanout,
        form,
        retry_ms=services().settings.sse_retry_ms,
        head_only=request.method == "HEAD",
    )


class _Letters:
    """Dead letters as events."""

    more = False

    def __init__(self, watcher: Subscription, write: Write) -> None:
        self._watcher = watcher
        self._write = write
        self.listen = watcher.listen
        self.close = watcher.close
        self.finished = False

    def take(self) -> list[bytes]:
        """The events that are ready; after the end of the buffer the client has to begin again."""
        ready = [self._write(event.kind, event.data, None) for event in self._watcher.take()]
        self.finished = self._watcher.exhausted
        return ready


@blueprint.post("/streams/<part:name>/dead-letters:retry")
@needs("push")
def retry_dead_letters(name: str) -> Response:
    """Try the dead letter ``?id=`` once more, or those that are kept for ``?reason=``, the oldest first."""
    stream, letter, reason = _chosen(name)
    engine = services().engine
    if letter is not None:
        return incoming.json_response(engine.retry_dead_letter(stream, letter))
    retried, failed = 0, []
    for each in _letters_of(stream, reason):
        try:
            engine.retry_dead_letter(stream, each)
            retried += 1
        except BackPressureError:
            raise
        except NotFoundError:
            continue  # its query has begun anew before it, with an older letter
        except QuadrillError as error:
            failed.append({"id": each, "error": error.message})
    answer: dict[str, Any] = {"retried": retried, "failed": len(failed), "errors": failed[:_LISTED]}
    return incoming.json_response(answer)


@blueprint.delete("/streams/<part:name>/dead-letters")
def drop_dead_letters(name: str) -> Response:
    """Drop the dead letter ``?id=`` for good, or those that are kept for ``?reason=``."""
    stream, letter, reason = _chosen(name)
    engine = services().engine
    letters = [letter] if letter is not None else _letters_of(stream, reason)
    while True:
        try:
            engine.drop_dead_letters(stream, letters)
            return incoming.json_response({"dropped": len(letters)})
        except NotFoundError:
            if letter is not None:
                raise
        # Some have made room for newer ones, or were tried again, since they were listed.
        kept = set(_letters_of(stream, reason))
        letters = [each for each in letters if each in kept]


def _chosen(name: str) -> tuple[str, str | None, str | None]:
    """The stream of a request, and the letter or the reason that it names."""
    incoming.known_parameters({"id", "reason"})
    letter, reason = request.args.get("id"), request.args.get("reason")
    if bool(letter) == bool(reason):
        raise HttpError(
            400,
            "the request must say which dead letters: either id or reason",
            code="parameter",
            hint="GET /streams/{name}/dead-letters lists them.",
        )
    return incoming.check_name(name, "the stream name"), letter, reason


def _letters_of(stream: str, reason: str | None) -> list[str]:
    """The ids of the letters that are kept for a reason."""
    return [each["id"] for each in services().engine.dead_letters(stream) if each["reason"] == reason]
