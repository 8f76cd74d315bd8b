"""MQTT source: subscribes to topics of an MQTT broker."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paho.mqtt.client import MQTTMessage
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ..declaration import DeclarationMember, list_of
from ..source import JSON, N_QUADS, Message, Source
from .mqtt_connection import MEMBERS, MqttConnection, check_broker, topic_filter

_LOOK_S = 0.25
_FULL_S = 0.01
"""Seconds between two checks whether a full queue of MQTT messages has room again."""
_WAITING_PUSHES = 4
"""Maximum number of batches of MQTT messages in memory; the connection is not read while it is reached."""
_MOST_UNACKNOWLEDGED = 65_535
_MOST_TOPICS = 1_000
"""Number of MQTT topics after which no further topics are declared as partitions of the stream."""


class MqttSource(Source):
    """A source that reads each MQTT message as one record, and acknowledges messages stored in the journal.

    The position of an MQTT source is the list of topics in its session at the broker. An MQTT source
    unsubscribes from topics of its session that were removed from its declaration.
    """

    members = (
        *MEMBERS,
        DeclarationMember(
            "topic",
            list_of(topic_filter),
            "the topics; + matches one level, # all following levels",
            required=True,
        ),
        DeclarationMember(
            "session",
            lambda value, name: duration_ms(value, name, positive=True),
            "how long the broker keeps messages for a disconnected source (MQTT 5)",
            default=7 * 86_400_000,
        ),
    )
    _partitioned = False
    guarantee = "each message of QoS 1 enters at least once, even if sent while the source was disconnected"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Check an MQTT source's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        check_broker(given, hosts)
        if not given["topic"]:
            raise InputError("topic names none", code="member")

    def run(self) -> None:
        """Push MQTT messages into the stream until the connection ends."""
        given, context = self.given, self.context
        check_broker(given, context.hosts)
        self._topics: dict[str, bool] = {}
        waiting: queue.Queue[MQTTMessage] = queue.Queue()
        most = _WAITING_PUSHES * given["batch"]
        taking, ended = threading.Event(), threading.Event()

        def put(message: MQTTMessage) -> None:
            # The queue is unlimited until the broker answers the subscription, because messages of an
            # existing session may arrive before that answer.
            while taking.is_set() and waiting.qsize() >= most and not ended.wait(_FULL_S):
                continue
            waiting.put(message)

        connection = MqttConnection(
            given,
            f"quadrill-{context.name}",
            session_s=max(1, min(given["session"] // 1000, 2**32 - 1)),
            receive_maximum=min(given["batch"], _MOST_UNACKNOWLEDGED),
            on_message=put,
        )
        try:
            connection.open(context.sleep)
            self._subscribe(connection)
            context.connected()
            taking.set()
            while True:
                self._take(connection, waiting)
                context.figures.lag = waiting.qsize()
        finally:
            ended.set()
            connection.close()

    def _subscribe(self, connection: MqttConnection) -> None:
        """Subscribe to the declared MQTT topics, and unsubscribe from topics of an older declaration."""
        topics, before = sorted(set(self.given["topic"])), self.context.position
        gone = sorted(set(json.loads(before)) - set(topics)) if before else []
        if gone and connection.session_present:
            connection.client.unsubscribe(gone)
        answered = threading.Event()
        reasons: list[ReasonCode] = []

        def subscribed(
            _client: Any, _data: Any, _mid: int, codes: list[ReasonCode], _properties: Any
        ) -> None:
            reasons.extend(codes)
            answered.set()

        connection.client.on_subscribe = subscribed
        qos = self.given["qos"]
        if connection.is_v5:
            # With RETAIN_SEND_IF_NEW_SUB the broker does not send retained MQTT messages again for a
            # subscription that the session has.
            options = SubscribeOptions(qos, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
            connection.client.subscribe([(each, options) for each in topics])
        else:
            connection.client.subscribe([(each, qos) for each in topics])
        connection.wait(answered, self.context.sleep, "does not answer the subscription")
        for topic, reason in zip(topics, reasons, strict=True):
            if reason.is_failure:
                raise connection.refusal(f"refuses the topic {topic}", reason, stays=not connection.is_v5)
        position = json.dumps(topics)
        if position != before:
            self.context.push(b"", N_QUADS, position=position)

    def _take(self, connection: MqttConnection, waiting: queue.Queue[MQTTMessage]) -> None:
        """Push at most one batch of queued MQTT messages, and acknowledge them to the broker."""
        try:
            messages = [waiting.get(timeout=_LOOK_S)]
        except queue.Empty:
            connection.check()
            self.context.sleep(0)
            return
        try:
            while len(messages) < self.given["batch"]:
                messages.append(waiting.get_nowait())
        except queue.Empty:
            pass
        position = self.context.position
        media_type = self.given["format"] or JSON
        for topic, own in self._by_topic(messages):
            self.context.push_messages([(_message_of(each), position) for each in own], media_type, topic)
        for each in messages:
            connection.client.ack(each.mid, each.qos)

    def _by_topic(self, messages: Sequence[MQTTMessage]) -> Iterable[tuple[str | None, list[MQTTMessage]]]:
        """Group MQTT messages by topic if the stream has partitions; else return them as one group."""
        by_topic: dict[str | None, list[MQTTMessage]] = {}
        for each in messages:
            by_topic.setdefault(each.topic, []).append(each)
        new = {topic for topic in by_topic if topic is not None} - self._topics.keys()
        if new and len(self._topics) < _MOST_TOPICS:
            self._topics |= dict.fromkeys(sorted(new), False)
            self._partitioned = self.context.declare_partitions(self._topics) is not None
        return by_topic.items() if self._partitioned else [(None, list(messages))]


def _message_of(message: MQTTMessage) -> Message:
    """Convert an MQTT message to a record with the topic and its levels as fields for a mapping."""
    topic = message.topic
    levels = {f"_topic_{place}": level for place, level in enumerate(topic.split("/"))}
    return Message(bytes(message.payload), {"_topic": topic, **levels}, origin={"topic": topic})
