"""The table of routes without a page behind it."""

from __future__ import annotations

from quadrill.app.http.answers import WholeAnswer
from quadrill.app.http.request import Request
from quadrill.app.wiring import Services


def no_page(services: Services, request: Request) -> WholeAnswer:
    """Stand for the page where only the table is of interest."""
    raise NotImplementedError
