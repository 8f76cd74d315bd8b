"""The kinds of sources and sinks by name; each is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

from quadrill.store.errors import InputError, UnsupportedError
from quadrill.store.registry import ConnectorRole

from .sink import SINK_MEMBERS, Sink
from .source import SOURCE_MEMBERS, Source

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


def described_kinds(role: ConnectorRole) -> list[dict[str, Any]]:
    """All kinds of sources or sinks with their members but ``kind``, for who declares one.

    Of a kind whose library is not installed there is what it ``needs`` alone.
    """
    table, common = (_SOURCES, SOURCE_MEMBERS) if role == "source" else (_SINKS, SINK_MEMBERS)
    described = []
    for kind, (_, _, extra) in table.items():
        told: dict[str, Any] = {"kind": kind, "needs": None, "guarantee": None, "members": []}
        try:
            found = source_kind(kind) if role == "source" else sink_kind(kind)
        except UnsupportedError:
            told["needs"] = f"quadrill[{extra}]"
        else:
            own = {each.name: each for each in (*common, *found.members) if each.name != "kind"}
            told |= {"guarantee": found.guarantee, "members": [each.to_json() for each in own.values()]}
        described.append(told)
    return described


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
