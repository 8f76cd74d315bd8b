"""``If-Match`` and ``If-None-Match`` on the version of the dataset (RFC 9110 section 13).

A version is one number for the whole dataset, so that its tag is ``"<version>"`` on every resource.
"""

from __future__ import annotations

import re

from ..http.errors import HttpError
from ..http.request import Request

_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*(?:,|\Z)')


def expected_version(request: Request, current: int, exists: bool) -> int | None:
    """The version at which a write may happen; None for any.

    Args:
        request: the request.
        current: the version now.
        exists: whether the resource exists, for ``*``.

    Raises: HttpError 412 when a condition fails already.
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
        # What was looked at must still be so when the write happens.
        expected = current
    return expected


def check_reading(request: Request, current: int) -> None:
    """``If-Match`` on a read.

    Raises: HttpError 412.
    """
    if_match = request.headers.get("If-Match")
    if if_match is not None and if_match.strip() != "*" and current not in _versions(if_match):
        raise _failed(f"the dataset is at version {current}, If-Match asks for {if_match}", current)


def is_known(request: Request, current: int) -> bool:
    """True when the client says that it has this version already."""
    if_none_match = request.headers.get("If-None-Match")
    return if_none_match is not None and current in _versions(if_none_match)


def _versions(header: str) -> set[int]:
    """The versions in a list of tags; tags that are no versions match nothing."""
    return {
        int(tag) for _weak, tag in _TAG.findall(header) if tag.isascii() and tag.isdigit() and len(tag) < 19
    }


def _failed(message: str, current: int) -> HttpError:
    return HttpError(
        412,
        message,
        code="precondition-failed",
        hint="Read it again and decide anew.",
        version=current,
    )
