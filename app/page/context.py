"""What views of the page use of the request that they answer."""

from __future__ import annotations

from flask import current_app, request

from ..http.request import Request
from ..wiring import Services
from .handler import REQUEST


def services() -> Services:
    """The store, the registry and the engine behind the page."""
    found: Services = current_app.extensions["quadrill"]
    return found


def received() -> Request:
    """The request as the server has received it."""
    found: Request = request.environ[REQUEST]
    return found
