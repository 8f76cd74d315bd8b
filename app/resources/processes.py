"""``/processes``: list running one-shot queries, updates and graph dumps, and stop one of them."""

from __future__ import annotations

from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.request import Request
from ..wiring import Services


def list_processes(services: Services, request: Request) -> WholeAnswer:
    """Return the running one-shot queries, updates and graph dumps, oldest first."""
    return json_answer({"processes": services.endpoint.processes.list()})


def stop_process(services: Services, request: Request) -> WholeAnswer:
    """Stop a running one-shot query, update or graph dump by its id."""
    services.endpoint.processes.cancel(request.names["process_id"])
    return no_content()
