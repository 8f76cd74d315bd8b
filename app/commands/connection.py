"""Connection of a command to a running server, with a feed reader that reconnects after a lost connection."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from http.client import HTTPResponse, IncompleteRead
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

from quadrill.client.event_stream import EventTooLongError, ServerEvent, events_of
from quadrill.store.documents.similar import did_you_mean
from quadrill.store.errors import ReportedError

from ..setting_values import SERVER_VARIABLE
from .arguments import DEFAULT_SERVER
from .plain_http import (
    CutError,
    HttpAnswer,
    HttpConnection,
    HttpError,
    Parameters,
    headers_of,
    pieces_of,
    read_whole,
)

_ADDRESS = f"Write {DEFAULT_SERVER} or 127.0.0.1:7878."
_TOKEN = "Give one by --token or the variable QUADRILL_TOKEN; `quadrill token add` makes one."
_LISTS = ("queries", "streams", "sources", "sinks", "rules", "shapes", "jobs")
"""Resources of a server that list named objects."""
_LIST_SECONDS = 1.0
"""Seconds without a byte after which the request for names similar to a misspelt one is given up."""
FEED_SILENCE_SECONDS = 60.0
"""Seconds without a byte of a feed, not even a heartbeat, after which the connection counts as lost."""


class ServerError(ReportedError):
    """Error that the server returned an error response, or no response at all.

    ``document`` is the problem document of the response; empty without one.
    """

    code = "server"

    def __init__(
        self, message: str, *, hint: str | None = None, document: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.document = found = document or {}
        self.status: int | None = found.get("status")
        self.line, self.column, self.excerpt = found.get("line"), found.get("column"), found.get("excerpt")


class UnreachableError(ServerError):
    """Error that no server responds at the address."""


class ServerConnection(AbstractContextManager["ServerConnection"]):
    """Connection of a command line command to one server."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url.rstrip("/") + "/"
        self._http = HttpConnection(self.url, headers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the server."""
        self._http.close()

    def answers(self) -> bool:
        """Return True if a server responds at the address; close the connection if no server responds.

        Raises: ServerError when the server rejects the request.
        """
        try:
            self.call("GET", "health/live")
        except ServerError as error:
            self.close()
            if isinstance(error, UnreachableError):
                return False
            raise
        return True

    def call(self, method: str, path: str, **options: Any) -> HttpAnswer:
        """Send one request and return the whole response.

        Raises: ServerError when the server cannot be reached or returns a status of 300 or above.
        """
        try:
            answer = read_whole(self._http.ask(method, path, **options))
        except HttpError as error:
            raise self._unreachable(error) from error
        if answer.status >= 300:
            raise self._problem(answer, path, options.get("params"))
        return answer

    def prefixes(self) -> dict[str, str]:
        """Return the server's namespaces by prefix; empty if the server does not list them."""
        try:
            listed = self.call("GET", "prefixes").json()
            return {each["prefix"]: each["uri"] for each in listed}
        except (ServerError, ValueError, LookupError, TypeError):
            return {}

    def replay(self) -> dict[str, Any] | None:
        """Return the progress of a starting server's journal replay; None if the server reports none."""
        try:
            answer = read_whole(self._http.ask("GET", "health/ready"))
        except HttpError:
            return None
        found = answer.json() if answer.status == 503 else {}
        return found.get("replay")

    def stream(
        self, method: str, path: str, answered: dict[str, str] | None = None, **options: Any
    ) -> Iterator[bytes]:
        """Send one request and yield the response body in pieces; store the response headers in ``answered``.

        Raises: ServerError when the server cannot be reached, rejects the request or sends an incomplete
            body.
        """
        try:
            answer = self._http.ask(method, path, **options)
            if answer.status >= 300:
                raise self._problem(read_whole(answer), path, options.get("params"))
            if answered is not None:
                answered.update(headers_of(answer))
            yield from pieces_of(answer)
        except CutError as error:
            raise ServerError("the answer was cut: it is not complete") from error
        except HttpError as error:
            raise self._unreachable(error) from error

    def events(
        self, path: str, parameters: Mapping[str, str], last_id: str | None
    ) -> Iterator[ServerEvent] | None:
        """Open a feed after the event ``last_id`` and return its events; None when the feed has ended."""
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        try:
            answer = self._http.ask(
                "GET", path, params=parameters, headers=headers, silence=FEED_SILENCE_SECONDS
            )
            if answer.status == 204 or answer.status >= 300:
                whole = read_whole(answer)
                if whole.status == 204:
                    return None
                raise self._problem(whole, path, parameters)
        except HttpError as error:
            raise self._unreachable(error) from error
        return (event for events in events_of(self._following(answer)) for event in events)

    def _following(self, answer: HTTPResponse) -> Iterator[bytes]:
        """Yield the pieces of a feed's response body, then close the connection, which cannot be reused."""
        try:
            yield from pieces_of(answer)
        finally:
            self.close()

    def _problem(self, answer: HttpAnswer, path: str, parameters: Parameters | None) -> ServerError:
        """Return the error of an error response; for an unknown name, the hint suggests similar names."""
        error = _problem(answer)
        resource, *rest = re.split("[/:]", path)
        given = (parameters or {}).get("iri") or (unquote(rest[0]) if rest else "")
        if answer.status != 404 or resource not in _LISTS or not given:
            return error
        try:
            listed = read_whole(self._http.ask("GET", resource, silence=_LIST_SECONDS)).json()[resource]
        except (*HttpError, ValueError, LookupError, TypeError):
            return error
        names = [each[key] for each in listed for key in ("id", "name", "iri") if each.get(key)]
        meant = "" if given in names else did_you_mean(str(given), names)
        error.hint = " ".join(filter(None, (meant, error.hint))) or None
        return error

    def _unreachable(self, error: BaseException) -> UnreachableError:
        if isinstance(error, IncompleteRead):
            return UnreachableError(f"the answer of {self.url} was cut: it is not complete")
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return UnreachableError(
            f"no server answers at {self.url}: {why}",
            hint="Start one with `quadrill serve`, or name it with --server.",
        )


def named_server(options: argparse.Namespace) -> str | None:
    """Return the server address of the option ``--server``, else of the environment; None without either."""
    return options.server or os.environ.get(SERVER_VARIABLE) or None


def connect(options: argparse.Namespace, default: str = DEFAULT_SERVER) -> ServerConnection:
    """Return a connection to the server of the options or environment, else to the ``default`` address."""
    token = options.token or os.environ.get("QUADRILL_TOKEN")
    return ServerConnection(server_url(named_server(options) or default), token)


def server_url(text: str) -> str:
    """Return a server's address as a URL; an address without a scheme, such as ``127.0.0.1:7878``, gets http.

    Raises: ServerError when the text is not a valid server address.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parsed = urlsplit(url)
        known = parsed.scheme in ("http", "https") and parsed.hostname and parsed.port != 0
    except ValueError as error:
        raise ServerError(f"{text!r} is not an address of a server: {error}", hint=_ADDRESS) from error
    if not known or any(character.isspace() for character in text):
        raise ServerError(f"{text!r} is not an address of a server", hint=_ADDRESS)
    return url


def events(server: ServerConnection, path: str, parameters: Mapping[str, str]) -> Iterator[ServerEvent]:
    """Yield the events of a feed until the feed ends; after a lost connection, resume after the last event.

    ``parameters`` give the position where reading of the feed begins, so that no event is lost if the first
    connection fails before its first event.

    Raises: ServerError when the server rejects the request, stays unreachable, or sends a malformed feed.
    """
    last_id: str | None = None
    connected, attempts = False, 0
    while True:
        try:
            found = server.events(path, parameters, last_id)
            if found is None:
                return
            connected = True
            for event in found:
                attempts = 0
                last_id = event.id or last_id
                yield event
        except HttpError:
            pass
        except EventTooLongError as error:
            raise ServerError(f"the feed cannot be read: {error}") from error
        except ServerError:
            if not connected or attempts > 5:
                raise
        attempts += 1
        time.sleep(min(2.0, 0.1 * 2**attempts))


def _problem(answer: HttpAnswer) -> ServerError:
    try:
        document = answer.json()
        message = str(document["detail"])
    except (ValueError, KeyError, TypeError):
        elsewhere = answer.headers.get("location")
        return ServerError(
            f"the server answered {answer.status} {answer.reason}",
            hint=f"It names another address: {elsewhere}" if elsewhere else None,
        )
    # The server's hint about tokens explains HTTP headers, but users of a command need the option
    # ``--token``.
    hint = _TOKEN if answer.status == 401 else document.get("hint")
    return ServerError(message, hint=hint, document=document)
