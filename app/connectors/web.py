"""Shared parts of HTTP sources and sinks: declaration members, headers, checks of addresses."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any

import httpx

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import WEB, AllowedHosts

from .declaration import DeclarationMember, mapping_of, text

_FORBIDDEN = frozenset("host content-length transfer-encoding connection".split())


def header_text(value: Any, name: str) -> str:
    """Return the value of an HTTP header in a declaration, which must be printable text in one line."""
    found = text(value, name)
    header = name.rpartition(".")[2].lower()
    if header in _FORBIDDEN or not found.isprintable() or not header.replace("-", "").isalnum():
        raise InputError(f"{name} is no header that can be sent", code="member")
    return found


def url_member(what: str) -> DeclarationMember:
    """Return the declaration member ``url`` of a source or sink."""
    return DeclarationMember("url", text, what, required=True)


HEADERS = DeclarationMember(
    "headers", mapping_of(header_text), "headers of each request", default={}, secret=True
)
FINAL = frozenset((400, 401, 403, 404, 405, 406, 410))
"""HTTP statuses at which a source ends (except `poll` at 404); after any other error status it retries."""
SIGNATURE = "X-Hub-Signature-256"
"""Name of the HTTP header with the HMAC-SHA256 signature of a webhook's body."""
TOKEN = DeclarationMember("token", header_text, "the bearer token of each request", secret=True)
TIMEOUT = DeclarationMember(
    "timeout",
    lambda value, name: duration_ms(value, name, positive=True),
    "maximum time without an answer of the remote system",
    default=30_000,
)


def headers_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the HTTP request headers that a connector's declaration sets."""
    headers = {"User-Agent": "Quadrill", **given["headers"]}
    if given["token"]:
        headers["Authorization"] = f"Bearer {given['token']}"
    return headers


def signature_of(secret: str, body: bytes) -> str:
    """Return the signature of a webhook's body, for the header `X-Hub-Signature-256`."""
    return f"sha256={hmac.new(secret.encode(), body, 'sha256').hexdigest()}"


def require_no_password(url: str, form: str = "") -> None:
    """Raise InputError if a URL, even an invalid one, has a user name, because URLs are shown to clients.

    ``form`` describes the required form of a URL in the error message.
    """
    if "@" in re.split("[/?#]", url.partition("://")[2] or url, maxsplit=1)[0]:
        message = f"url holds a password{form and f', it must be {form}'}"
        raise InputError(message, code="member", hint="Secrets have members of their own")


def require_url(url: str, hosts: AllowedHosts, ports: Mapping[str, int] = WEB) -> None:
    """Check the URL of the remote system of a connector.

    Raises:
        InputError: the URL is invalid, or has a user name or password.
        NetworkRefusedError: the host of the URL is not allowed.
    """
    require_no_password(url)
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise InputError(f"url is {url!r}, which is no URL: {error}", code="member") from error
    if parsed.scheme not in ports or not parsed.host:
        raise InputError(
            f"url is {url!r}, it must begin with {' or '.join(f'{scheme}://' for scheme in ports)}",
            code="member",
        )
    hosts.require(url, "reaching", ports)
