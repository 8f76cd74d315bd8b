"""The errors of connectors.

ConnectorError           cannot go on now: it waits and tries again
└── ConnectorFailedError cannot go on before somebody changes something
"""

from __future__ import annotations

from quadrill.store.errors import ReportedError


class ConnectorError(ReportedError):
    """The other side is away, or has refused something for now; the connector tries again later."""

    code = "connector"
    status = 502


class ConnectorFailedError(ConnectorError):
    """What the other side says will not change by itself, for instance wrong credentials."""

    code = "connector-failed"


class StoppedError(Exception):
    """The connector is being stopped; raised inside of its thread only."""
