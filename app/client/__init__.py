"""``quadrill.client``: a Python client of a server, whose only dependency is httpx.

    from quadrill.client import Client

    with Client("http://127.0.0.1:7878") as server:
        server.register("SELECT ?s { STREAM <urn:s> [NOW] { ?s ?p ?o } }", name="seen")
        for event in server.feed("seen", resume=0):
            print(event.id, event.answer.rows())

The client imports rdflib, pandas, polars, pyarrow and anywidget only in the methods that return their types.
The public names of `quadrill.client` are imported on first access, because importing asyncio is slow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import Answer, FeedEvent
    from .asynchronous import AsyncClient
    from .errors import QuadrillError
    from .live import LiveFrame
    from .sync import Client

__all__ = ["Answer", "AsyncClient", "Client", "FeedEvent", "LiveFrame", "QuadrillError"]

_MODULES = {
    "Answer": "answers",
    "AsyncClient": "asynchronous",
    "Client": "sync",
    "FeedEvent": "answers",
    "LiveFrame": "live",
    "QuadrillError": "errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its submodule on first access (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
