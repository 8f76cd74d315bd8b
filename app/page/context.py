"""Accessors for the services and the current request in views of the web page."""

from __future__ import annotations

from flask import current_app, request

from ..http.request import Request
from ..wiring import Services
from .handler import REQUEST


def services() -> Services:
    """Return the services of the server: store, registry, engine and others."""
    found: Services = current_app.extensions["quadrill"]
    return found


def received() -> Request:
    """Return the current request as the server has received it."""
    found: Request = request.environ[REQUEST]
    return found
