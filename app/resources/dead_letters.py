"""``/streams/{name}/dead-letters``: list, retry or drop the dead letters of a stream."""

from __future__ import annotations

from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import BackPressureError
from quadrill.store.errors import NotFoundError, ReportedError
from quadrill.store.feeds.subscription import Subscription

from ..feeds.dead_letters import watch_dead_letters
from ..feeds.events import EventStream, event_form, written_as
from ..feeds.sources import Write
from ..http import negotiation
from ..http.answers import WholeAnswer, json_answer
from ..http.errors import HttpError
from ..http.parameters import check_name
from ..http.request import Request
from ..server.takeover import Takeover
from ..wiring import Services

_LISTED = 20
"""Maximum number of errors listed in the answer to a retry of several dead letters."""


def get_dead_letters(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return the dead letters of a stream, oldest first, as JSON or as events that include new letters."""
    request.arguments.check()
    name = check_name(request.name, "the stream name")
    form = event_form(request.accept, (negotiation.JSON_RESULTS,))
    if form is None:
        return json_answer({"letters": services.engine.streams.dead_letters(name)})
    return EventStream(
        _Letters(watch_dead_letters(services.engine, name), written_as(form)),
        services.fanout,
        form,
        retry_ms=services.settings.sse_retry_ms,
        permitted=services.security.grant(request).holds,
    )


class _Letters:
    """The dead letters of a stream as server-sent events."""

    more = False

    def __init__(self, watcher: Subscription, write: Write) -> None:
        self._watcher = watcher
        self._write = write
        self.listen = watcher.listen
        self.close = watcher.close
        self.finished = False

    def take(self) -> list[bytes]:
        """Return the available events of dead letters; set ``finished`` when the subscription has ended."""
        ready = [self._write(event.kind, event.data, None) for event in self._watcher.take()]
        self.finished = self._watcher.exhausted
        return ready


def retry_dead_letters(services: Services, request: Request) -> WholeAnswer:
    """Retry the dead letter ``?id=``, or all dead letters with the reason ``?reason=``, oldest first."""
    stream, letter, reason = _chosen(request)
    engine = services.engine
    if letter is not None:
        return json_answer(engine.streams.retry_dead_letter(stream, letter))
    retried, failed = 0, []
    for each in _letters_of(engine, stream, reason):
        try:
            engine.streams.retry_dead_letter(stream, each)
            retried += 1
        except BackPressureError:
            raise
        except NotFoundError:
            continue  # this letter is gone, for instance as the retry of an older one restarted its query
        except ReportedError as error:
            failed.append({"id": each, "error": error.message})
    answer: dict[str, Any] = {"retried": retried, "failed": len(failed), "errors": failed[:_LISTED]}
    return json_answer(answer)


def drop_dead_letters(services: Services, request: Request) -> WholeAnswer:
    """Drop the dead letter ``?id=``, or all dead letters with the reason ``?reason=``."""
    stream, letter, reason = _chosen(request)
    engine = services.engine
    letters = [letter] if letter is not None else _letters_of(engine, stream, reason)
    while True:
        try:
            engine.streams.drop_dead_letters(stream, letters)
            return json_answer({"dropped": len(letters)})
        except NotFoundError:
            if letter is not None:
                raise
        # Some listed dead letters were evicted by newer letters, or were retried by another request.
        kept = set(_letters_of(engine, stream, reason))
        letters = [each for each in letters if each in kept]


def _chosen(request: Request) -> tuple[str, str | None, str | None]:
    """Return the stream of a request, and the id or the reason of the dead letters that the request names."""
    request.arguments.check({"id", "reason"})
    letter, reason = request.arguments.get("id"), request.arguments.get("reason")
    if bool(letter) == bool(reason):
        raise HttpError(
            400,
            "the request must say which dead letters: either id or reason",
            code="parameter",
            hint="GET /streams/{name}/dead-letters lists them.",
        )
    return check_name(request.name, "the stream name"), letter, reason


def _letters_of(engine: Engine, stream: str, reason: str | None) -> list[str]:
    """Return the ids of the dead letters with a given reason."""
    return [each["id"] for each in engine.streams.dead_letters(stream) if each["reason"] == reason]
