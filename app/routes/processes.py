"""``/processes``: the one-shot queries that run now, and stopping one."""

from __future__ import annotations

from flask import Blueprint, Response

from ..security import needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("processes", __name__)


@blueprint.get("/processes")
def list_processes() -> Response:
    """The running queries, oldest first."""
    return incoming.json_response({"processes": services().endpoint.processes.list()})


@blueprint.delete("/processes/<process_id>")
@needs("admin")
def stop_process(process_id: str) -> Response:
    """Stop a running query."""
    services().endpoint.processes.cancel(process_id)
    return Response(status=204)
