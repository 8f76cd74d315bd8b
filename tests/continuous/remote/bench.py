"""An engine for tests whose store may reach one endpoint; not threaded, a clock driven by hand."""

from __future__ import annotations

import json
from typing import Any

from quadrill.app.describing.queries import describe
from quadrill.continuous.remote.settings import RemoteSettings
from quadrill.store.hosts import AllowedHosts
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

from ..engines import Bench, tick
from .endpoint import Endpoint


class Remote(Bench):
    """A bench whose store may reach one endpoint."""

    def __init__(self, far: Endpoint, **remote: int) -> None:
        self.far = far
        self.settings = RemoteSettings(**{"timeout_ms": 60_000, "every_ms": 60_000, **remote})
        super().__init__(
            store=QuadStore.open(
                None, StoreOptions(clock_ms=lambda: 0, allowed_hosts=AllowedHosts([far.host]))
            ),
            remote=self.settings,
        )

    def wait(self, ms: int) -> None:
        """Let time go on and look at it."""
        self.clock.advance(ms)
        tick(self.engine)

    def rows(self, name: str) -> list[str]:
        """The current answer: rows of short terms, sorted."""
        found = self.engine.queries.current_answer(name)
        names = found["head"]["vars"]
        return sorted(
            " ".join(_short(row[each]) if each in row else "-" for each in names)
            for row in found["results"]["bindings"]
        )

    def source(self, name: str) -> dict[str, Any]:
        """The description of the one source of a query."""
        (source,) = describe(self.engine, name)["sources"]
        found: dict[str, Any] = source
        return found

    def heads(self, name: str) -> list[dict[str, Any]]:
        """All events of a feed: kind, rows, and the marks of sources."""
        return [json.loads(event.data) for event in self.engine.queries.feed(name).subscribe(0).take()]


def _short(term: dict[str, Any]) -> str:
    return str(term["value"]).rpartition("/")[2]
