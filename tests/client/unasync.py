"""Writes the client for programs that wait from the one for programs with an event loop (`make client`).

    async def drop(self, name):              def drop(self, name):
        await self._send(...)         ->         self._send(...)

Words are replaced token by token, so that texts and comments stay, except those sentences that are listed.
"""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "app" / "client"

NAMES = {
    "AsyncClient": "Client",
    "AsyncConnectors": "Connectors",
    "AsyncIterator": "Iterator",
    "AsyncRules": "Rules",
    "AsyncSender": "Sender",
    "AsyncShapes": "Shapes",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "aiter_bytes": "iter_bytes",
    "async_sender": "sender",
    "aread": "read",
    "asyncio": "time",
    "events_of_async": "events_of",
}
SENTENCES = {
    "asynchronous": {
        "The client, for programs with an event loop; `make client` writes `sync` from this module.": (
            "The client, for programs that wait; `make client` writes this module from `asynchronous`."
        ),
        "used from one event loop.": "every method may be called from any thread.",
        "Callable[[HttpCall], Awaitable[dict[str, Any]]]": "Callable[[HttpCall], dict[str, Any]]",
        "Callable[[HttpCall], Awaitable[httpx.Response]]": "Callable[[HttpCall], httpx.Response]",
        "AsyncIterator, Awaitable, Callable": "Callable, Iterator",
    },
    "async_sender": {
        "Requests and feeds of a client with an event loop; `make client` writes `sender` from here.": (
            "Requests and feeds of a client that waits; `make client` writes this module from `async_sender`."
        ),
        "import AsyncGenerator": "import Iterator",
        "AsyncGenerator[FeedEvent, None]": "Iterator[FeedEvent]",
        "`AsyncClient.feed`": "`Client.feed`",
    },
}
"""Sentences of each module that is the source of another, with what the other has in their place."""
WRITTEN = {"asynchronous": "sync", "async_sender": "sender"}


def synchronous(module: str) -> str:
    """The text of a module without its event loop; its layout is left to `ruff format`."""
    source = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    for old, new in SENTENCES[module].items():
        assert old in source, f"the module has no longer: {old}"
        source = source.replace(old, new)
    lines = source.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type == tokenize.NAME:
            row, begin, end = token.start[0] - 1, token.start[1], token.end[1]
            line = lines[row]
            if token.string in ("async", "await"):
                lines[row] = line[:begin] + line[end:].removeprefix(" ")
            elif token.string in NAMES:
                lines[row] = line[:begin] + NAMES[token.string] + line[end:]
    return "".join(lines)


if __name__ == "__main__":
    for source, written in WRITTEN.items():
        (FOLDER / f"{written}.py").write_text(synchronous(source), encoding="utf-8")
