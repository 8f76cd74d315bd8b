"""``quadrill explain``: the plan of a query text, or by a server of a registered query."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from quadrill.store.errors import QuadrillError

from ..config import MEMORY, Settings
from .connection import add_server_options, connect
from .given import OfflineError, add_command, read_text


def add_commands(commands: Any) -> None:
    """Add the command."""
    summary = "show the plan of a query text, or of a registered query"
    explain = add_command(commands, "explain", _explain, summary)
    explain.add_argument("query", help="a file with a query text, or the name of a registered query")
    explain.add_argument("--dialect", choices=("cqels", "rspql", "csparql", "sparql"))
    explain.add_argument("--analyze", action="store_true", help="JSON with live figures (registered queries)")
    explain.add_argument("--code", action="store_true", help="the generated source that runs the plan")
    add_server_options(explain)


def _explain(options: argparse.Namespace) -> int:
    file = Path(options.query)
    if not file.is_file():
        if "/" in options.query:
            raise OfflineError(f"there is no file {file}")
        print(_explained(options))
        return 0
    if options.analyze:
        raise OfflineError(f"{file} is a text: it has no live figures", hint="Name a registered query.")
    members: dict[str, Any] = {"query": read_text(file), "dialect": options.dialect}
    # Only a text needs an engine here.
    from quadrill.continuous.algebra.advice import variable_advice
    from quadrill.continuous.queries.registration import Registration

    from ..describing.plan_text import code_text, explain_text
    from ..wiring import open_services

    services = open_services(Settings(data=MEMORY), threaded=False)
    try:
        registration = Registration.from_json({k: v for k, v in members.items() if v is not None})
        found = services.engine.validate(registration, code=options.code)
        # There is no store here whose names it could be compared with.
        slips = variable_advice(services.engine.prepare(registration).query)
    finally:
        services.close()
    print(code_text(found) if options.code else explain_text(found))
    for warning in (*found["warnings"], *slips):
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def _explained(options: argparse.Namespace) -> str:
    parameters = {flag: "true" for flag in ("analyze", "code") if getattr(options, flag)}
    path = f"queries/{quote(options.query, safe='')}/explain"
    try:
        with connect(options) as server:
            return server.call("GET", path, params=parameters).text.strip()
    except QuadrillError as error:
        if not Path(options.query).suffix:
            raise
        # What looks like the name of a file may be meant as one.
        raise OfflineError(f"there is no file {options.query}; {error.message}", hint=error.hint) from error
