"""Webhook source: accepts posted bodies, with a required signature if a secret is set."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quadrill.store.hosts import AllowedHosts

from ...http.errors import HttpError
from ..declaration import DeclarationMember, text
from ..source import Source
from ..web import SIGNATURE, signature_of


class WebhookSource(Source):
    """A source that accepts bodies posted to ``/sources/{name}``; with a ``secret``, only signed bodies."""

    members = (
        DeclarationMember(
            "secret",
            text,
            f"the key of the HMAC-SHA256 of each body in {SIGNATURE}; without it no signature is needed",
            secret=True,
        ),
    )
    guarantee = "a body answered with 200 is in the journal; a repeated body enters again"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Accept any webhook declaration, because no values of it can contradict each other."""

    def run(self) -> None:
        """Wait until the source is stopped; posted bodies arrive through `receive`."""
        self.context.connected()
        while True:
            self.context.sleep(3600)

    def receive(self, body: bytes, media_type: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Push the body of one webhook request into the stream.

        Raises: HttpError 401 for a body without the right signature; the errors of
            `SourceContext.push_or_raise`.
        """
        secret = self.given["secret"]
        if secret is not None:
            expected = signature_of(secret, body)
            if not hmac.compare_digest(expected.encode(), headers.get(SIGNATURE, "").encode()):
                raise HttpError(
                    401,
                    f"the signature of this request, {SIGNATURE}, is missing or not that of the secret",
                    code="signature",
                    headers={"WWW-Authenticate": "Signature"},
                )
        return self.context.push_or_raise(body, self.given["format"] or media_type)
