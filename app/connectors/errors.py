"""The errors of sources and sinks.

ConnectorError           temporary failure: the connector waits and retries
└── ConnectorFailedError permanent failure until a user changes something
"""

from __future__ import annotations

from quadrill.store.errors import ReportedError


class ConnectorError(ReportedError):
    """Temporary failure of a connector: the remote system is unreachable or refuses; it is retried later."""

    code = "connector"
    status = 502


class ConnectorFailedError(ConnectorError):
    """Permanent failure of a connector, for instance because of wrong credentials."""

    code = "connector-failed"


class StoppedError(Exception):
    """The connector is being stopped; this error is raised only in the connector's thread."""
