"""From a request to the WSGI application and back (PEP 3333)."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from .connection import Connection
from .reply import SERVER_NAME, AnswerBrokenError, Reply, refusal
from .wire import Fields, WireRequest

log = logging.getLogger("quadrill.server")

CONNECTION = "quadrill.connection"
"""Names the connection in the environment: an event stream takes its socket."""
HOME = "quadrill.home"
"""Names, in the environment, who takes a connection back that was lent."""
BODY = "quadrill.body"
"""Names the stream of a large body in the environment."""
COUNTED = "quadrill.counted"
"""Set in the environment of a request that was counted for its token before."""
TRUSTED = "quadrill.trusted"
"""Set in the environment of a request that a trusted proxy sent."""
_BUFFER_BYTES = 64 << 10


class Gateway:
    """Answers requests by a WSGI application."""

    def __init__(self, application: Callable[..., Iterable[bytes]], port: int, home: Any) -> None:
        """Make a gateway; ``port`` is the one that the server listens on, ``home`` its intake."""
        self._application = application
        self._always = {
            "SCRIPT_NAME": "",
            "SERVER_NAME": SERVER_NAME,
            "SERVER_PORT": str(port),
            "SERVER_SOFTWARE": SERVER_NAME,
            "wsgi.errors": sys.stderr,
            "wsgi.multiprocess": False,
            "wsgi.multithread": True,
            "wsgi.run_once": False,
            "wsgi.url_scheme": "http",
            "wsgi.version": (1, 0),
            HOME: home,
        }

    def answer(self, connection: Connection, request: WireRequest, reply: Reply) -> None:
        """Run the application and send what it answers.

        Raises:
            AnswerBrokenError: the answer ended early; the connection must be cut.
            OSError: the client is gone.
        """
        environ = self._environ(connection, request)

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: Any = None
        ) -> Callable[[bytes], None]:
            if exc_info and reply.begun:
                raise exc_info[1]
            stream = request.stream
            if stream is not None and not stream.finished:
                # What the client still sends would be taken for its next request.
                reply.close = True
            return reply.start(status, headers)

        body: Iterable[bytes] = ()
        try:
            body = self._application(environ, start_response)
            for block in body:
                if block:
                    reply.write(block)
            if not connection.handed_over and not request.lent:
                reply.end()
        except (AnswerBrokenError, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            if connection.handed_over or request.lent or reply.begun:
                raise AnswerBrokenError(repr(error)) from error
            log.exception("the application failed")
            reply.close = True
            connection.send(refusal(500, ""))
        finally:
            close = getattr(body, "close", None)
            if close is not None:
                close()

    def _environ(self, connection: Connection, request: WireRequest) -> dict[str, Any]:
        stream = request.stream
        environ: dict[str, Any] = {
            **self._always,
            **(request.fields.environ or _of_fields(request.fields)),
            "REQUEST_METHOD": request.method,
            # A slash that is part of a name stays encoded.
            "PATH_INFO": _decoded(request.path),
            "QUERY_STRING": request.query_string.decode("latin-1"),
            "REQUEST_URI": request.target,
            # The path as it came: percent-decoding of graph names is done once, by us.
            "RAW_URI": request.target,
            "REMOTE_ADDR": connection.client,
            "REMOTE_PORT": str(connection.port),
            "wsgi.input": io.BytesIO(request.body)
            if stream is None
            else io.BufferedReader(stream, _BUFFER_BYTES),
            CONNECTION: connection,
        }
        if stream is not None:
            environ[BODY] = stream
        if request.counted:
            environ[COUNTED] = True
        if request.trusted:
            environ[TRUSTED] = True
        return environ


def _of_fields(fields: Fields) -> dict[str, Any]:
    """The part of the environment that the header gives, the same for all requests with it.

    A name with an underscore would be taken for the one with a hyphen: it is left out, as nginx does.
    """
    environ: dict[str, Any] = {
        f"HTTP_{name.upper().replace('-', '_')}": value
        for name, value in fields.values.items()
        if "_" not in name
    }
    for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if (value := environ.pop(f"HTTP_{name}", None)) is not None:
            environ[name] = value
    environ["SERVER_PROTOCOL"] = f"HTTP/1.{fields.minor_version}"
    environ["wsgi.input_terminated"] = fields.chunked
    fields.environ.update(environ)
    return environ


def _decoded(path: str) -> str:
    if "%" not in path:
        return path
    kept = path.replace("%2F", "%252F").replace("%2f", "%252F")
    return unquote_to_bytes(kept).decode("latin-1")
