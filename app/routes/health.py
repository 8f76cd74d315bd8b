"""``/health`` and ``/metrics``: alive, ready, and how much of what."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response

from quadrill.continuous.errors import EngineStoppedError
from quadrill.store.errors import StoreUnwritableError

from ..describing.figures import journal_state
from ..http.request_metrics import CONTENT_TYPE
from ..security import PUBLIC, needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("health", __name__)


@blueprint.get("/health/live")
@needs(PUBLIC)
def live() -> Response:
    """200 as long as requests are answered."""
    return incoming.json_response({"status": "live"})


@blueprint.get("/health/ready")
@needs(PUBLIC)
def ready() -> Response:
    """200 when store and registry answer queries, the engine runs and its logs can be written, else 503.

    While the journal is replayed the answer says how far that is.
    """
    starting = services().engine.parts.starting
    if starting.active:
        document = {"status": "starting", "replay": starting.to_json()}
        return incoming.json_response(document, 503, {"Retry-After": "2"})
    checks: dict[str, Callable[[], object]] = {
        "store": lambda: services().store.solutions("SELECT * { ?s ?p ?o } LIMIT 1"),
        "registry": lambda: services().registry.list_tokens(),
        "engine": _check_engine,
    }
    found = {name: _outcome(check) for name, check in checks.items()}
    good = all(outcome == "ok" for outcome in found.values())
    return incoming.json_response(
        {"status": "ready" if good else "not ready", "checks": found}, 200 if good else 503
    )


@blueprint.get("/metrics")
@needs("read")
def metrics() -> Response:
    """The figures for Prometheus."""
    return Response(services().metrics.text(), content_type=CONTENT_TYPE)


def _check_engine() -> None:
    if not services().engine.running:
        raise EngineStoppedError("the engine is not running")
    state = journal_state(services().engine)
    if state is not None and state["trouble"] is not None:
        raise StoreUnwritableError(state["trouble"])


def _outcome(check: Callable[[], object]) -> str:
    try:
        check()
    except Exception as error:
        # Names the kind of fault only: health is public.
        return type(error).__name__
    return "ok"
