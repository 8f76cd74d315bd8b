"""The table of routes without a page behind it."""

from __future__ import annotations

from quadrill.app.http.answers import Answer
from quadrill.app.http.request import Request
from quadrill.app.wiring import Services


def no_page(services: Services, request: Request) -> Answer:
    """Stand for the page where only the table is of interest."""
    raise NotImplementedError
