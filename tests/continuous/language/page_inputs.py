"""Inputs as the pages of docs/ write them, in Turtle with the prefixes of the query."""

from __future__ import annotations

from urllib.parse import urljoin

from quadrill.continuous.streams.push_call import PushCall
from tests.continuous.engines import Bench


def sparql_prologue(prefixes: dict[str, str]) -> str:
    """BASE and PREFIX lines for texts of a page."""
    lines = [f"PREFIX {prefix}: <{namespace}>" for prefix, namespace in prefixes.items()]
    return "\n".join(["BASE <http://localhost/>", *lines, ""])


def iri_of(text: str, prefixes: dict[str, str]) -> str:
    """The IRI that a page writes as ``<…>`` or with a prefix."""
    if text.startswith("<"):
        return urljoin("http://localhost/", text[1:-1])
    prefix, _, local = text.partition(":")
    return prefixes[prefix] + local


def take(one: Bench, at: int, stream: str, data: str, prefixes: dict[str, str]) -> None:
    """An element, or a heartbeat when there is no data."""
    one.clock.set(max(at, one.clock.now_ms()))
    if data:
        one.engine.streams.push(
            PushCall(stream, "application/trig", at=at), (sparql_prologue(prefixes) + data).encode()
        )
    else:
        one.engine.streams.heartbeat(stream, at)


def store(one: Bench, data: str, prefixes: dict[str, str]) -> None:
    """Insert what a page calls stored."""
    one.store.writer.update(sparql_prologue(prefixes) + f"INSERT DATA {{ {data} }}")
