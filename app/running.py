"""Start and stop of a complete server: services, application and listening socket."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .config import Settings
from .front.pipeline import Front
from .http.observer import RequestObserver
from .page.application import create_page
from .page.handler import Page
from .page.pace import Pace
from .routes import all_routes
from .server.connection import Timeouts
from .server.connection_loop import ConnectionLimits
from .server.proxies import TrustedProxies
from .server.server import Server, ServerLimits
from .upkeep.garbage import CollectionSchedule
from .wiring import Services, open_services

log = logging.getLogger("quadrill.server")

SWITCH_INTERVAL_SECONDS = 0.0005
"""Python's thread switch interval in seconds; with the default, requests wait longer for a busy engine."""


CLOSE_SECONDS = 3.0


@dataclass(slots=True)
class RunningServer:
    """Running server with its address and services.

    ``ended`` is False if an evaluation that cannot be interrupted still runs after the stop: only the exit of
    the process ends its thread. If an evaluation still runs when the process exits, acknowledged inputs are
    as durable as after a crash.
    """

    url: str
    services: Services
    ended: bool = True


@contextmanager
def serve(
    settings: Settings, *, demo: Pace | None = None, is_cancelled: Callable[[], bool] = lambda: False
) -> Iterator[RunningServer]:
    """Run a server until the block ends, then finish running requests and close the store.

    With ``demo``, the pace of its replay, the web page shows the demo. The start of the server polls the
    function ``is_cancelled`` and ends early if the function returns True.

    Raises:
        EngineStoppedError: the start of the server was cancelled.
        AddressError: the address is in use or not allowed.
        TokenRequiredError: the address is not loopback and no token exists, or the token is too short.
        ReportedError: the data folder or the registry cannot be opened.
    """
    with ExitStack() as stack:
        # Almost all objects created during the start stay alive, so garbage collection would only double the
        # time of the start.
        gc.disable()
        stack.callback(gc.enable)
        garbage = CollectionSchedule()
        stack.callback(garbage.stop)
        services = open_services(settings)
        found = RunningServer("", services)
        stack.callback(_close, found)
        services.security.check_address()
        stack.callback(_log_access(settings))
        server = Server(
            Front(all_routes(Page(create_page(services, demo=demo))), services),
            host=settings.host,
            port=settings.port,
            limits=_limits(settings),
            proxies=TrustedProxies(settings.trusted_proxies),
            observer=RequestObserver(services.metrics),
            background=services.endpoint.large_answers,
            stop_departed=services.endpoint.processes.stop_departed,
        )
        stack.callback(_stop, server, found)
        sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
        services.engine.parts.starting.begin(is_cancelled)
        # During the replay of the journal the server answers health checks, and queries can be paused and
        # dropped.
        server.start()
        found.url = server.url
        log.info("listening at %s; the server is starting", server.url)
        services.start()
        garbage.start()
        yield found


def _limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        settings.threads,
        Timeouts(settings.header_timeout, settings.request_timeout, settings.max_header_bytes),
        ConnectionLimits(
            settings.max_connections,
            settings.max_connections_per_address,
            settings.max_unfinished_requests,
            settings.max_unfinished_per_address,
        ),
        settings.shutdown_timeout,
    )


def _stop(server: Server, found: RunningServer) -> None:
    found.ended = server.stop(found.services.cancel)


def _close(found: RunningServer) -> None:
    """Close the server's services; an update that still runs may hold the writer's lock for a long time."""
    if found.ended:
        found.services.close()
        return
    log.warning("an evaluation that cannot be interrupted is abandoned")
    closing = threading.Thread(target=found.services.close, name="quadrill-close", daemon=True)
    closing.start()
    closing.join(CLOSE_SECONDS)


def _log_access(settings: Settings) -> Callable[[], None]:
    """Open the access log at the place of its setting, and return a function that closes the log."""
    logger = logging.getLogger("quadrill.access")
    if not settings.access_log:
        return lambda: None
    handler: logging.Handler = (
        logging.StreamHandler(sys.stderr)
        if settings.access_log == "-"
        else logging.FileHandler(Path(settings.access_log).expanduser(), encoding="utf-8")
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def undo() -> None:
        logger.removeHandler(handler)
        handler.close()

    return undo


def leave() -> NoReturn:
    """Exit the process at once, after all services were closed.

    A regular exit of Python would free all objects one by one, which takes seconds with thousands of queries,
    and would wait for threads that cannot be interrupted.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
