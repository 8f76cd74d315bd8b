"""Jobs that materialise a rule set after a PUT that did not wait."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from quadrill.continuous.lifecycle.rule_put import RulePut
from quadrill.store.registry import JobRecord, Registry

from .progress import PROGRESS_SECONDS, progress_of

RULES = "rules"
"""The kind of these jobs."""


class UpdateJob(Protocol):
    """Stores the state and the progress of a job."""

    def __call__(self, *, state: str, progress: dict[str, Any]) -> None:
        """Store the state and the progress of the job."""


def rules_request(put: RulePut) -> dict[str, Any]:
    """Return the member ``request`` of the job: the name and the graph of the set."""
    return {"rules": put.name, "into": put.definition.into.value}


def run_put(put: RulePut, update: UpdateJob) -> None:
    """Run the PUT of a rule set, and store the number of inferred triples in its job twice a second.

    Raises:
        ReportedError: the PUT failed, for instance because the set exceeds a budget.
    """
    started, ended = time.monotonic(), threading.Event()

    def show(stage: str, state: str) -> None:
        progress = progress_of(stage, put.progress.inferred, 0, started)
        update(state=state, progress=progress | {"violations": put.progress.violations})

    def watch() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            show("materialise", "running")

    show("materialise", "running")
    watcher = threading.Thread(target=watch, name="quadrill-rules-progress", daemon=True)
    watcher.start()
    try:
        put.run()
    finally:
        ended.set()
        watcher.join()
    show("done", "done")


def is_complete(registry: Registry, record: JobRecord) -> bool:
    """Return True if the PUT of an unfinished job is complete, because the server's start completed it."""
    found = registry.rule_sets.get(record.request["rules"])
    return found is not None and found.state in ("ready", "suspended")
