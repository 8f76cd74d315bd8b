"""The command ``quadrill explain``, which prints the plan of a query text or of a registered query."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from quadrill.store.errors import ReportedError

from . import live_plan, output
from .arguments import DIALECTS, OfflineError, add_client_command, dialect_of, query_path, read_text
from .connection import connect


def add_commands(commands: Any) -> None:
    """Add the command ``explain`` to the command line parser."""
    explain = add_client_command(
        commands,
        "explain",
        _explain,
        "show the plan of a query text, or of a registered query",
        "explain alert.cqels",
        "explain alert --analyze",
        further="A file is explained without a server",
    )
    explain.add_argument("query", help="a file with a query text, or the name of a registered query")
    explain.add_argument(
        "--dialect", choices=DIALECTS, help="default: by the file's ending, else detected from the text"
    )
    explain.add_argument(
        "--analyze",
        action="store_true",
        help="show live figures of a registered query: rows and time share of each operator, static tables",
    )
    explain.add_argument(
        "--code", action="store_true", help="show the Python source that is generated from the plan"
    )


def _explain(options: argparse.Namespace) -> int:
    file = Path(options.query)
    if not file.is_file():
        if "/" in options.query:
            raise OfflineError(f"there is no file {file}")
        _registered(options)
        return 0
    if options.analyze:
        raise OfflineError(
            f"{file} is a file with a query text, which has no live figures", hint="Name a registered query."
        )
    dialect = options.dialect or dialect_of(file)
    members: dict[str, Any] = {"query": read_text(file), "dialect": dialect}
    # The engine is imported here, because the import is slow and only the plan of a query text needs an
    # engine in this process.
    from quadrill.continuous.algebra.query_advice import variable_advice
    from quadrill.continuous.language.registration import Registration

    from ..config import MEMORY, Settings, load_settings
    from ..describing.plan_text import code_text, explain_text, plan_document
    from ..describing.queries import validate
    from ..wiring import open_services

    services = open_services(Settings(data=MEMORY, extensions=load_settings().extensions), threaded=False)
    try:
        registration = Registration.from_json({k: v for k, v in members.items() if v is not None})
        found = validate(services.engine, registration, code=options.code)
        # The store of this process is empty, so EXPLAIN cannot compare names of the query with names in the
        # server's store.
        slips = variable_advice(services.engine.lifecycle.prepare(registration).query)
    finally:
        services.close()
    if options.json:
        code = {"code": code_text(found)} if options.code else {}
        output.print_json(plan_document(found, analyze=False) | code)
    else:
        print(code_text(found) if options.code else explain_text(found))
    output.warn((*found["warnings"], *slips))
    return 0


def _registered(options: argparse.Namespace) -> None:
    as_json = options.json or options.analyze
    parameters = {flag: "true" for flag in ("analyze", "code") if getattr(options, flag)}
    headers = {"Accept": "application/json" if as_json else "text/plain"}
    try:
        with connect(options) as server:
            answer = server.call(
                "GET", query_path(options.query, "/explain"), params=parameters, headers=headers
            )
    except ReportedError as error:
        if not Path(options.query).suffix:
            raise
        # A name with a suffix, such as alert.cqels, may be the name of a missing file.
        raise OfflineError(f"there is no file {options.query}; {error.message}", hint=error.hint) from error
    if options.json:
        output.print_json(answer.json())
    elif options.analyze:
        document = answer.json()
        live_plan.show(document)
        if options.code:
            print("\n" + document["code"])
    else:
        print(answer.text.strip())
