"""A client's connection to a running server: errors become ours, feeds are resumed."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import httpx

from quadrill.client.event_stream import ServerEvent, events_of
from quadrill.store.errors import QuadrillError

from ..config import SERVER_VARIABLE
from .given import add_command

DEFAULT_SERVER = "http://127.0.0.1:7878/"
_ADDRESS = f"Write {DEFAULT_SERVER} or 127.0.0.1:7878."
CONNECT_SECONDS = 5.0
FEED_SILENCE_SECONDS = 60.0


class ServerError(QuadrillError):
    """The server answered with a problem, or not at all."""

    code = "server"

    def __init__(
        self, message: str, *, hint: str | None = None, document: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        found = document or {}
        self.status: int | None = found.get("status")
        self.line, self.column, self.excerpt = found.get("line"), found.get("column"), found.get("excerpt")


class UnreachableError(ServerError):
    """No server answers at the address."""


class ServerConnection(AbstractContextManager["ServerConnection"]):
    """Requests to one server."""

    def __init__(self, url: str, token: str | None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = url.rstrip("/") + "/"
        self._client = httpx.Client(headers=headers, timeout=httpx.Timeout(None, connect=CONNECT_SECONDS))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connection up."""
        self._client.close()

    def answers(self) -> bool:
        """Whether a server is there; the connection is closed otherwise.

        Raises: ServerError when what is there refuses.
        """
        try:
            self.call("GET", "health/live")
        except ServerError as error:
            self.close()
            if isinstance(error, UnreachableError):
                return False
            raise
        return True

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """One request and its answer.

        Raises: ServerError when the server cannot be reached or refuses.
        """
        try:
            answer = self._client.request(method, self._url + path, **options)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.is_error:
            raise _problem(answer)
        return answer

    def stream(
        self, method: str, path: str, answered: dict[str, str] | None = None, **options: Any
    ) -> Iterator[bytes]:
        """One request and its answer in pieces, its headers in ``answered``; an answer that is cut raises."""
        try:
            with self._client.stream(method, self._url + path, **options) as answer:
                if answer.is_error:
                    answer.read()
                    raise _problem(answer)
                if answered is not None:
                    answered.update(answer.headers)
                yield from answer.iter_bytes()
        except httpx.RemoteProtocolError as error:
            raise ServerError("the answer was cut: it is not complete") from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def events(
        self, path: str, parameters: Mapping[str, str], last_id: str | None
    ) -> Iterator[ServerEvent] | None:
        """The events of one connection to a feed; None when the feed has ended."""
        headers = {"Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        request = self._client.build_request(
            "GET",
            self._url + path,
            params=dict(parameters),
            headers=headers,
            timeout=httpx.Timeout(FEED_SILENCE_SECONDS, connect=CONNECT_SECONDS),
        )
        try:
            answer = self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if answer.status_code == 204:
            answer.close()
            return None
        if answer.is_error:
            answer.read()
            raise _problem(answer)
        return _parse_events(answer)

    def _unreachable(self, error: httpx.HTTPError) -> UnreachableError:
        return UnreachableError(
            f"no server answers at {self._url}: {error}",
            hint="Start one with `quadrill serve`, or name it with --server.",
        )


def add_client_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    """The parser of a command that asks a server."""
    parser = add_command(commands, name, run, summary)
    add_server_options(parser)
    return parser


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """The options that every client command has."""
    parser.add_argument(
        "--server",
        metavar="URL",
        default=None,
        help=f"the server (default: the variable {SERVER_VARIABLE}, else {DEFAULT_SERVER})",
    )
    parser.add_argument("--token", default=None, help="bearer token (default: the variable QUADRILL_TOKEN)")


def named_server(options: argparse.Namespace) -> str | None:
    """The address that the options or else the environment name."""
    return options.server or os.environ.get(SERVER_VARIABLE) or None


def connect(options: argparse.Namespace, default: str = DEFAULT_SERVER) -> ServerConnection:
    """The connection that the options name."""
    token = options.token or os.environ.get("QUADRILL_TOKEN")
    return ServerConnection(server_url(named_server(options) or default), token)


def server_url(text: str) -> str:
    """The address of a server as a URL; ``127.0.0.1:7878`` and ``example.org`` are taken for http.

    Raises: ServerError for what is no address of a server.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ServerError(f"{text!r} is no address of a server: {error}", hint=_ADDRESS) from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ServerError(f"{text!r} is no address of a server", hint=_ADDRESS)
    return url


def events(server: ServerConnection, path: str, parameters: Mapping[str, str]) -> Iterator[ServerEvent]:
    """A feed's events for as long as it lives: a lost connection is taken up again after the last event."""
    last_id: str | None = None
    attempts = 0
    while True:
        try:
            found = server.events(path, parameters, last_id)
            if found is None:
                return
            for event in found:
                attempts = 0
                last_id = event.id or last_id
                yield event
        except httpx.HTTPError:
            pass
        except ServerError:
            if last_id is None or attempts > 5:
                raise
        attempts += 1
        time.sleep(min(2.0, 0.1 * 2**attempts))


def _parse_events(answer: httpx.Response) -> Iterator[ServerEvent]:
    try:
        for events in events_of(answer.iter_bytes()):
            yield from events
    finally:
        answer.close()


def _problem(answer: httpx.Response) -> ServerError:
    try:
        document = answer.json()
        message = str(document["detail"])
    except (ValueError, KeyError, TypeError):
        return ServerError(f"the server answered {answer.status_code} {answer.reason_phrase}")
    return ServerError(message, hint=document.get("hint"), document=document)
