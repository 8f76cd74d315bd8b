"""A sink that publishes events to a topic of an MQTT broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.hosts import AllowedHosts

from ..declaration import DeclarationMember, flag
from ..envelopes import STYLE, body_of, key_of
from ..errors import ConnectorError
from ..sink import Sink
from .mqtt_connection import MEMBERS, MqttConnection, check_broker, topic_name

_LOOK_S = 0.25
_TIMEOUT_S = 30.0
_MOST_UNACKNOWLEDGED = 1_000


class MqttSink(Sink):
    """A sink that publishes each event as one message; with MQTT 5, user properties contain id and kind."""

    members = (
        *MEMBERS,
        DeclarationMember("topic", topic_name, "the topic that events are published to", required=True),
        DeclarationMember(
            "retain",
            flag,
            "whether the broker sends the last event to later subscribers",
            default=False,
        ),
        STYLE,
    )
    guarantee = (
        "with QoS 1 each event arrives at least once, in order, again with the same id; with 0 at most once"
    )

    _connection: MqttConnection | None = None

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Check an MQTT sink's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        check_broker(given, hosts)

    def open(self) -> None:
        """Connect the sink to the MQTT broker."""
        check_broker(self.given, self.context.hosts)
        self._refused: dict[int, ReasonCode] = {}
        self._connection = connection = MqttConnection(self.given, f"quadrill-sink-{self.context.name}")
        connection.client.max_inflight_messages_set(_MOST_UNACKNOWLEDGED)
        connection.client.on_publish = self._published
        connection.open(self.context.sleep)

    def close(self) -> None:
        """Disconnect the sink from the MQTT broker."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Publish events, and wait until the MQTT broker has acknowledged them (with QoS 0: until sent).

        Raises:
            ConnectorError: the MQTT broker does not answer, or refuses an event.
        """
        connection = self._connection
        assert connection is not None
        connection.check()
        self._refused.clear()
        sent = [self._publish(connection, each) for each in events]
        waited = 0.0
        for info in sent:
            while info.rc == MQTTErrorCode.MQTT_ERR_SUCCESS and not info.is_published():
                connection.check()
                self.context.sleep(0)
                if waited > _TIMEOUT_S:
                    raise ConnectorError(f"<{self.given['url']}> does not acknowledge published events")
                info.wait_for_publish(_LOOK_S)
                waited += _LOOK_S
            if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                connection.check()
                raise ConnectorError(f"<{self.given['url']}> cannot be sent to: {info.rc.name}")
            if info.mid in self._refused:
                raise connection.refusal(f"refuses the topic {self.given['topic']}", self._refused[info.mid])

    def _publish(self, connection: MqttConnection, event: StoredEvent) -> Any:
        given, properties = self.given, None
        if connection.is_v5:
            properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
            properties.ContentType = "application/json"
            properties.PayloadFormatIndicator = 1
            properties.UserProperty = [("id", key_of(event)), ("event", event.kind)]
        body = body_of(event, given["style"], given["query"])
        return connection.client.publish(given["topic"], body, given["qos"], given["retain"], properties)

    def _published(self, _client: Any, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        if reason.is_failure:
            self._refused[mid] = reason
