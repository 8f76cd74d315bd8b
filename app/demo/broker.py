"""Client of the demo that publishes elements to an MQTT broker, from which server sources read them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from .client import NDJSON, DemoClient, DemoError
from .data import rdf

PORT = 1883
"""Standard port of MQTT brokers."""
WAIT_S = 60.0
"""Maximum seconds until a source has read all published elements."""
_POLL_S = 0.02
"""Seconds between two requests for the state of a source."""


class BrokerClient:
    """Client of the demo that publishes elements to an MQTT broker; sources of the server read them there.

    Raises: DemoError when the broker is unreachable, or a source fails or does not deliver all elements in
        time.
    """

    def __init__(self, client: DemoClient, url: str) -> None:
        self._client = client
        self._url = url
        self._sent: dict[str, int] = {}
        # The demo's MQTT topic is unique to this run, because other clients may use the same broker.
        self._topic = f"quadrill-demo/{uuid.uuid4().hex[:8]}"
        self._mqtt = Client(CallbackAPIVersion.VERSION2)

    def open(self) -> None:
        """Connect to the MQTT broker, declare one source per stream, and wait until the sources run."""
        parts = urlsplit(self._url)
        try:
            self._mqtt.connect(parts.hostname or "", parts.port or PORT)
        except (OSError, ValueError) as error:
            raise DemoError(f"no MQTT broker answers at {self._url}: {error}") from error
        self._mqtt.loop_start()
        for stream in (rdf.DEPARTURES, rdf.WEATHER):
            self._sent[stream] = 0
            self._client.declare_source(_name(stream), {
                "kind": "mqtt", "url": self._url, "topic": self._topic_of(stream), "stream": stream,
                "client_id": self._topic_of(stream).replace("/", "-"), "session": "1m", "format": NDJSON,
            })  # fmt: skip
            self._wait(stream)

    def close(self) -> None:
        """Delete the demo's sources on the server, and disconnect from the MQTT broker."""
        for stream in self._sent:
            self._client.drop_source(_name(stream))
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Publish elements, one NDJSON line each, as one MQTT message."""
        self._mqtt.publish(self._topic_of(stream), "\n".join(lines), qos=1)
        self._sent[stream] += len(lines)

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Advance the watermark of a stream, after its source has read all published elements."""
        self._wait(stream)
        self._client.heartbeat(stream, at_ms)

    def update(self, text: str) -> None:
        """Run a SPARQL update, after the sources have read all published elements."""
        for stream in self._sent:
            self._wait(stream)
        self._client.update(text)

    def _topic_of(self, stream: str) -> str:
        return f"{self._topic}/{_name(stream)}"

    def _wait(self, stream: str) -> None:
        """Wait until a stream's source is running and has read all elements that the demo published."""
        deadline = time.monotonic() + WAIT_S
        while True:
            source = self._client.source(_name(stream))
            if source["state"] == "running" and source["taken"] >= self._sent[stream]:
                return
            if source["state"] == "failed" or time.monotonic() > deadline:
                raise DemoError(
                    f"the source {_name(stream)} is {source['state']} with {source['taken']} of"
                    f" {self._sent[stream]} elements: {source['error']}"
                )
            time.sleep(_POLL_S)


def _name(stream: str) -> str:
    return f"demo-{stream.rsplit('/', 1)[1]}"
