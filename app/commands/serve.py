"""The command ``quadrill serve``, which runs the server until a signal; also adds the command ``demo``."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadrill.store.documents.release import release_of
from quadrill.store.documents.times import format_instant

from ..demo import arguments as demo
from .arguments import add_command
from .output import print_json

if TYPE_CHECKING:
    from ..config import Settings

log = logging.getLogger("quadrill.server")


def add_commands(commands: Any) -> None:
    """Add the commands ``serve`` and ``demo`` to the command line parser."""
    parser = add_command(
        commands,
        "serve",
        _serve,
        "run the server",
        "serve",
        "serve --data :memory: --port 8080",
        further="It runs until SIGINT or SIGTERM. Every setting can be given in the TOML file, or in an "
        "environment variable whose name is QUADRILL_ and the setting's name",
        json_help="print one JSON object per line: the start on standard output, the log on standard error",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="data folder, or :memory: to store nothing on disk (default: in the user's data directory)",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 7878, 0 for a free one)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="TOML file with settings")
    parser.add_argument(
        "--read-only", action="store_true", default=None, help="reject all requests that write"
    )
    parser.add_argument(
        "--extension",
        metavar="MODULE",
        action="append",
        help="load this Python module, which registers functions, aggregates or windows; can be repeated",
    )
    parser.add_argument(
        "--paused",
        metavar="NAME",
        action="append",
        help="pause this continuous query at the start without evaluating it; all pauses every query; "
        "can be repeated, or a list with commas",
    )
    add_command(
        commands,
        "demo",
        _demo,
        demo.SUMMARY,
        "demo",
        "demo --speed 600 --port 8080",
        further="Five continuous queries evaluate the flights in repeated rounds; the command prints the "
        "address of the page to open",
        json_help="print one JSON object per line for the start, the page, and the counts of all queries",
    )
    demo.add_arguments(commands.choices["demo"])


def settings_of(options: argparse.Namespace) -> Settings:
    """Load the settings of a server; command line options override environment variables and the file."""
    named = {
        "data": options.data,
        "host": options.host,
        "port": options.port,
        "read_only": options.read_only,
        "extensions": _names(options.extension) if options.extension else None,
        "paused": _names(options.paused) if options.paused else None,
    }
    # The settings are imported here and not at module level, because their import is slow.
    from ..config import load_settings

    given = {name: value for name, value in named.items() if value is not None}
    return load_settings(overrides=given, file=options.config)


def _demo(options: argparse.Namespace) -> int:
    from ..demo.run import run

    return run(options)


def _names(given: list[str]) -> tuple[str, ...]:
    return tuple(name.strip() for each in given for name in each.split(",") if name.strip())


def _warn_unknown(paused: tuple[str, ...], queries: list[str]) -> None:
    """Log a warning for each name in ``--paused`` that no query has, because it may be misspelt."""
    for name in paused:
        if name != "all" and name not in queries:
            log.warning("no query %s to pause; there are: %s", name, ", ".join(queries) or "none")


class _JsonLines(logging.Formatter):
    """Formatter that writes each log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "at": format_instant(round(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)


def quiet_libraries() -> None:
    """Set the log level of libraries to WARNING, because HTTP clients log URLs that contain tokens."""
    for each in ("alembic", "apscheduler", "httpx", "httpcore", "paho", "urllib3", "websockets"):
        logging.getLogger(each).setLevel(logging.WARNING)


def _serve(options: argparse.Namespace) -> int:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if options.json:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_JsonLines())
    quiet_libraries()
    settings = settings_of(options)
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    # The signal handlers are set before the server opens files: without a handler, a signal during the start
    # would end the process before the store is closed.
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    # Store and engine are imported only now, so errors in the settings are reported without the slow import.
    # Imported modules are never garbage, so garbage collection is disabled until `running.serve` enables it.
    gc.disable()
    from quadrill.continuous.errors import EngineStoppedError

    from .. import running

    try:
        with running.serve(settings, is_cancelled=stop.is_set) as server:
            if settings.paused:
                _warn_unknown(settings.paused, server.services.engine.queries.names())
            if options.json:
                print_json({"event": "ready", "url": server.url, "version": release_of()})
            else:
                print(f"Quadrill is ready at {server.url}", flush=True)
            stop.wait()
    except EngineStoppedError as error:
        if not stop.is_set():
            raise
        log.info(error.message)
    running.leave()
