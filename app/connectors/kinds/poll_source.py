"""Source that polls a URL, and pushes each changed answer into its stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quadrill.store.documents.times import duration_ms
from quadrill.store.hosts import AllowedHosts
from quadrill.store.remote import FetchRefusedError, RemoteClient

from ..declaration import DeclarationMember, number
from ..errors import ConnectorFailedError
from ..source import Source
from ..web import FINAL, HEADERS, TIMEOUT, TOKEN, headers_of, require_url, url_member

_ACCEPT = "application/x-ndjson, application/json, text/turtle;q=0.9, application/n-quads;q=0.9, */*;q=0.5"


class PollSource(Source):
    """A source that polls a URL, and pushes each answer whose content has changed.

    The position of a poll source consists of the ETag, the Last-Modified time and the digest of the last
    answer.
    """

    members = (
        url_member("the URL to poll"),
        DeclarationMember(
            "every",
            lambda value, name: max(100, duration_ms(value, name, positive=True)),
            "the time between two requests",
            default=60_000,
        ),
        DeclarationMember("max_bytes", number(1, 1 << 30), "maximum bytes of an answer", default=64 << 20),
        HEADERS,
        TOKEN,
        TIMEOUT,
    )
    guarantee = "each changed answer enters once; a change that is undone between two requests is not seen"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Check a poll source's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        require_url(given["url"], hosts)

    def run(self) -> None:
        """Poll the URL until the source is stopped."""
        given, context = self.given, self.context
        client = RemoteClient(
            context.hosts,
            timeout_s=given["timeout"] / 1000,
            max_bytes=given["max_bytes"],
            ended=context.stopping.is_set,
        )
        headers = {"Accept": _ACCEPT, **headers_of(given)}
        while True:
            known = json.loads(context.position or "{}")
            try:
                fetched = client.get(
                    given["url"],
                    etag=known.get("etag"),
                    last_modified=known.get("last_modified"),
                    headers=headers,
                )
            except FetchRefusedError as error:
                # HTTP status 404 counts as a temporary failure, because the polled document may be created
                # later.
                if error.answered in FINAL - {404}:
                    raise ConnectorFailedError(error.message) from error
                raise
            context.connected()
            if fetched is not None:
                digest = hashlib.sha256(fetched.body).hexdigest()
                if digest != known.get("digest"):
                    media_type = given["format"] or fetched.media_type
                    if media_type is None:
                        raise ConnectorFailedError(
                            f"<{given['url']}> answers without a media type", hint="Declare the member format"
                        )
                    place = {
                        "etag": fetched.etag,
                        "last_modified": fetched.last_modified,
                        "digest": digest,
                    }
                    context.push(fetched.body, media_type, position=json.dumps(place))
            context.sleep(given["every"] / 1000)
