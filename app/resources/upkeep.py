"""``/optimize``, ``/mirror`` and ``/restores``: jobs on the whole store."""

from __future__ import annotations

from quadrill.store.registry import JobRecord

from ..http.answers import WholeAnswer, json_answer
from ..http.request import Request
from ..security import refuse_when_read_only
from ..upkeep.jobs import describe
from ..wiring import Services
from .links import base_url


def optimize(services: Services, request: Request) -> WholeAnswer:
    """Enqueue a job that compacts the database files of the store."""
    request.arguments.check()
    return _queued(services, request, services.jobs.submit_optimize())


def mirror(services: Services, request: Request) -> WholeAnswer:
    """Enqueue a job that writes the Parquet mirror; ``?compact=true`` merges later commits into its files."""
    request.arguments.check({"compact"})
    return _queued(services, request, services.jobs.submit_mirror(compact=request.arguments.flag("compact")))


def show_mirror(services: Services, request: Request) -> WholeAnswer:
    """Return the version and size of the Parquet mirror, and how far the store is ahead of the mirror."""
    request.arguments.check()
    return json_answer(services.jobs.mirror())


def restore(services: Services, request: Request) -> WholeAnswer:
    """Enqueue a job that replaces the dataset by the dataset of a backup, in one commit."""
    refuse_when_read_only(services.settings)
    members = request.json(services.settings.max_query_bytes, "the restore")
    return _queued(services, request, services.jobs.submit_restore(members.get("folder")))


def _queued(services: Services, request: Request, record: JobRecord) -> WholeAnswer:
    return json_answer(describe(record), 202, {"Location": f"{base_url(services, request)}jobs/{record.id}"})
