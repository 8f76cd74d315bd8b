"""What is answered while the server starts: everything else is 503 with ``Retry-After``."""

from __future__ import annotations

from flask import Flask, request

from ..wiring import Services

ANSWERED = frozenset(
    (
        *("health.live", "health.ready", "health.metrics", "openapi.document"),
        *("queries.list_queries", "queries.describe", "queries.patch", "queries.drop"),
        *("login.log_in", "login.log_out"),
        *("admin.index", "admin.query", "admin.login", "admin.static"),
    )
)
"""Endpoints that need neither the store nor the streams as they are at the end of the replay."""


def install(app: Flask, services: Services) -> None:
    """Refuse requests of ``app`` that cannot be answered before the journal is replayed."""
    starting = services.engine.parts.starting

    @app.before_request
    def _refuse() -> None:
        if starting.active and request.endpoint is not None and request.endpoint not in ANSWERED:
            starting.require_over()
