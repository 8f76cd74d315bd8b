"""The built-in kinds of sources and sinks, one module each, registered in the same way as by an extension.

The module of a kind of connector is imported on first use, because its library may be large or missing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..catalogue import Kind, register_sink, register_source


def _kind(module: str, name: str, extra: str | None = None) -> Kind:
    def load() -> Any:
        return getattr(import_module(f"{__name__}.{module}"), name)

    return Kind(load, extra)


for _name, _module, _class, _extra in (
    ("file", "file_source", "FileSource", None),
    ("kafka", "kafka_source", "KafkaSource", "kafka"),
    ("mqtt", "mqtt_source", "MqttSource", "mqtt"),
    ("poll", "poll_source", "PollSource", None),
    ("sse", "sse_source", "SseSource", None),
    ("webhook", "webhook_source", "WebhookSource", None),
    ("websocket", "websocket_source", "WebSocketSource", "websocket"),
):
    register_source(_name, _kind(_module, _class, _extra))

for _name, _module, _class, _extra in (
    ("file", "file_sink", "FileSink", None),
    ("kafka", "kafka_sink", "KafkaSink", "kafka"),
    ("mqtt", "mqtt_sink", "MqttSink", "mqtt"),
    ("webhook", "webhook_sink", "WebhookSink", None),
):
    register_sink(_name, _kind(_module, _class, _extra))
