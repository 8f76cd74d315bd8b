"""``/health`` and ``/metrics``: liveness, readiness and Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import EngineStoppedError
from quadrill.store.documents.release import release_of
from quadrill.store.errors import StoreUnwritableError

from ..describing.figures import journal_state
from ..http.answers import WholeAnswer, json_answer, text_answer
from ..http.request import Request
from ..http.request_metrics import CONTENT_TYPE
from ..wiring import Services


def live(services: Services, request: Request) -> WholeAnswer:
    """Return status 200, which shows that the server answers requests."""
    return json_answer({"status": "live"})


def ready(services: Services, request: Request) -> WholeAnswer:
    """Return 200 if the store, the registry and the engine work and the journal is writable; else 503.

    During the replay of the journal, the answer contains the progress of the replay.
    """
    starting = services.engine.parts.starting
    if starting.active:
        document = {"status": "starting", "version": release_of(), "replay": starting.to_json()}
        return json_answer(document, 503, {"Retry-After": "2"})
    checks: dict[str, Callable[[], object]] = {
        "store": lambda: services.store.reader.solutions("SELECT * { ?s ?p ?o } LIMIT 1"),
        "registry": lambda: services.registry.tokens.all(),
        "engine": lambda: _check_engine(services.engine),
    }
    found = {name: _outcome(check) for name, check in checks.items()}
    good = all(outcome == "ok" for outcome in found.values())
    document = {"status": "ready" if good else "not ready", "version": release_of(), "checks": found}
    return json_answer(document, 200 if good else 503)


def metrics(services: Services, request: Request) -> WholeAnswer:
    """Return the metrics of the server in Prometheus' text format."""
    return text_answer(services.metrics.text(), CONTENT_TYPE)


def _check_engine(engine: Engine) -> None:
    if not engine.running:
        raise EngineStoppedError("the engine is not running")
    state = journal_state(engine)
    if state is not None and state["trouble"] is not None:
        raise StoreUnwritableError(state["trouble"])


def _outcome(check: Callable[[], object]) -> str:
    try:
        check()
    except Exception as error:
        # The answer to ``/health`` has only the class of an error, because everybody may read it.
        return type(error).__name__
    return "ok"
