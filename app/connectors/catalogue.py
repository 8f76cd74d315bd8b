"""The kinds of sources and sinks by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TypeAlias

from quadrill.continuous.errors import InputError
from quadrill.store.errors import UnsupportedError

from .sink import Sink
from .source import Source

_Table: TypeAlias = "dict[str, tuple[str, str, str | None]]"
"""Kind -> module and class below `kinds`, and the extra that it needs."""

_SOURCES: _Table = {
    "file": ("file_source", "FileSource", None),
    "kafka": ("kafka_source", "KafkaSource", "kafka"),
    "mqtt": ("mqtt_source", "MqttSource", "mqtt"),
    "poll": ("poll_source", "PollSource", None),
    "sse": ("sse_source", "SseSource", None),
    "webhook": ("webhook_source", "WebhookSource", None),
    "websocket": ("websocket_source", "WebSocketSource", "websocket"),
}
_SINKS: _Table = {
    "file": ("file_sink", "FileSink", None),
    "kafka": ("kafka_sink", "KafkaSink", "kafka"),
    "mqtt": ("mqtt_sink", "MqttSink", "mqtt"),
    "webhook": ("webhook_sink", "WebhookSink", None),
}


def source_kind(kind: object) -> type[Source]:
    """The class of a kind of source.

    Raises:
        InputError: there is no such kind.
        UnsupportedError: its library is not installed.
    """
    found = _load(kind, _SOURCES, "source")
    assert issubclass(found, Source)
    return found


def sink_kind(kind: object) -> type[Sink]:
    """The class of a kind of sink.

    Raises: as `source_kind`.
    """
    found = _load(kind, _SINKS, "sink")
    assert issubclass(found, Sink)
    return found


def _load(kind: object, table: _Table, what: str) -> type[Source] | type[Sink]:
    if not isinstance(kind, str) or kind not in table:
        raise InputError(
            f"there is no {what} of the kind {kind!r}" if kind is not None else f"a {what} needs its kind",
            code="member",
            hint=f"Kinds are {', '.join(table)}",
        )
    module, name, extra = table[kind]
    try:
        found: type[Source] | type[Sink] = getattr(import_module(f"{__package__}.kinds.{module}"), name)
    except ModuleNotFoundError as error:
        if extra is None:
            raise
        raise UnsupportedError(
            f"a {what} of the kind {kind}",
            f"a {what} of the kind {kind} needs the library {error.name}, which is not installed",
            hint=f"pip install 'quadrill[{extra}]'",
        ) from error
    return found
