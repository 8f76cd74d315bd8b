"""``/processes``: the one-shot queries that run now, and stopping one."""

from __future__ import annotations

from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.request import Request
from ..wiring import Services


def list_processes(services: Services, request: Request) -> WholeAnswer:
    """The running queries, oldest first."""
    return json_answer({"processes": services.endpoint.processes.list()})


def stop_process(services: Services, request: Request) -> WholeAnswer:
    """Stop a running query."""
    services.endpoint.processes.cancel(request.names["process_id"])
    return no_content()
