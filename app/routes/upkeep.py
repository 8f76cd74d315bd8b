"""``/optimize``, ``/mirror`` and ``/restores``: work on the whole store, as jobs."""

from __future__ import annotations

from flask import Blueprint, Response

from quadrill.store.registry import JobRecord

from ..security import needs, refuse_when_read_only
from ..upkeep.jobs import describe
from . import requests as incoming
from .requests import services

blueprint = Blueprint("upkeep", __name__)


@blueprint.post("/optimize")
@needs("admin")
def optimize() -> Response:
    """Queue a compaction of the database files."""
    incoming.known_parameters(())
    return _queued(services().jobs.submit_optimize())


@blueprint.post("/mirror")
@needs("admin")
def mirror() -> Response:
    """Queue the making of the Parquet mirror, or its compaction, which takes in what was committed since."""
    incoming.known_parameters(("compact",))
    return _queued(services().jobs.submit_mirror(compact=incoming.flag("compact")))


@blueprint.get("/mirror")
def show_mirror() -> Response:
    """The mirror's version and size, and how far the store is ahead of it."""
    incoming.known_parameters(())
    return incoming.json_response(services().jobs.mirror())


@blueprint.post("/restores")
@needs("admin")
def restore() -> Response:
    """Queue the replacement of the dataset by that of a backup, as one commit."""
    refuse_when_read_only(services().settings)
    members = incoming.json_body(services().settings.max_query_bytes, "the restore")
    return _queued(services().jobs.submit_restore(members.get("folder")))


def _queued(record: JobRecord) -> Response:
    return incoming.json_response(
        describe(record), 202, {"Location": f"{incoming.base_url()}jobs/{record.id}"}
    )
