"""The demo's elements by way of an MQTT broker: published there, and brought in by sources of the server."""

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
WAIT_S = 60.0
_LOOK_S = 0.02


class BrokerClient:
    """As `DemoClient`, but elements go to topics of a broker, from which sources of the server take them.

    Raises: DemoError when the broker or a source of it is not there.
    """

    def __init__(self, client: DemoClient, url: str) -> None:
        self._client = client
        self._url = url
        self._sent: dict[str, int] = {}
        # A topic of this run alone: others may use the broker, too.
        self._topic = f"quadrill-demo/{uuid.uuid4().hex[:8]}"
        self._mqtt = Client(CallbackAPIVersion.VERSION2)

    def open(self) -> None:
        """Connect to the broker, and declare the sources."""
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
        """Drop the sources and disconnect from the broker."""
        for stream in self._sent:
            self._client.drop_source(_name(stream))
        self._mqtt.disconnect()
        self._mqtt.loop_stop()

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Publish elements, one line of NDJSON each, as one message."""
        self._mqtt.publish(self._topic_of(stream), "\n".join(lines), qos=1)
        self._sent[stream] += len(lines)

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Move the watermark of a stream, once all that was published has come."""
        self._wait(stream)
        self._client.heartbeat(stream, at_ms)

    def update(self, text: str) -> None:
        """Run a SPARQL update, once all that was published has come."""
        for stream in self._sent:
            self._wait(stream)
        self._client.update(text)

    def _topic_of(self, stream: str) -> str:
        return f"{self._topic}/{_name(stream)}"

    def _wait(self, stream: str) -> None:
        """Wait until a source runs and has brought in everything."""
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
            time.sleep(_LOOK_S)


def _name(stream: str) -> str:
    return f"demo-{stream.rsplit('/', 1)[1]}"
