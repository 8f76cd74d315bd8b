"""``If-Match`` and ``If-None-Match`` on the version of the dataset (RFC 9110 section 13).

The store version is one number for the whole dataset, so all resources have the same ETag ``"<version>"``.
"""

from __future__ import annotations

import re

from ..http.errors import HttpError
from ..http.request import Request

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|\Z)')


def expected_version(request: Request, current: int, exists: bool) -> int | None:
    """Return the dataset version that a write requires; None if the request has no precondition.

    Args:
        request: the request.
        current: the current version of the dataset.
        exists: True if the resource exists, which the header value ``*`` tests.

    Raises: HttpError 412 when a precondition is false at the current version.
    """
    expected: int | None = None
    if_match = request.headers.get("If-Match")
    if if_match is not None:
        if if_match.strip() == "*":
            if not exists:
                raise _failed("the resource does not exist", current)
        elif current not in _versions(if_match):
            raise _failed(f"the dataset is at version {current}, If-Match asks for {if_match}", current)
        expected = current
    if_none_match = request.headers.get("If-None-Match")
    if if_none_match is not None:
        if if_none_match.strip() == "*" and exists:
            raise _failed("the resource exists already", current)
        if current in _versions(if_none_match):
            raise _failed(f"the dataset is at version {current}", current)
        # The precondition holds at the current version, so the write has to require this version.
        expected = current
    return expected


def check_reading(request: Request, current: int) -> None:
    """Check the header ``If-Match`` of a read.

    Raises: HttpError 412 when the header does not match the current version.
    """
    if_match = request.headers.get("If-Match")
    if if_match is not None and if_match.strip() != "*" and current not in _versions(if_match):
        raise _failed(f"the dataset is at version {current}, If-Match asks for {if_match}", current)


def is_known(request: Request, current: int) -> bool:
    """Return True if ``If-None-Match`` lists the current version, so that the answer is 304."""
    if_none_match = request.headers.get("If-None-Match")
    return if_none_match is not None and current in _versions(if_none_match)


def _versions(header: str) -> set[int]:
    """Parse the versions in a list of entity tags; ignore tags that are not versions."""
    return {
        int(tag) for _weak, tag in _TAG.findall(header) if tag.isascii() and tag.isdigit() and len(tag) < 19
    }


def _failed(message: str, current: int) -> HttpError:
    return HttpError(
        412,
        message,
        code="precondition-failed",
        hint="Read the resource again, and send its new version.",
        version=current,
    )
