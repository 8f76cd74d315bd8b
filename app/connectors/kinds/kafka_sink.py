"""Kafka sink: produces events to a topic of a Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.hosts import AllowedHosts

from ..declaration import DeclarationMember, shown_message
from ..envelopes import STYLE, body_of, key_of
from ..sink import Sink
from .kafka_connection import (
    LOOK_S,
    MEMBERS,
    BrokerErrors,
    ask,
    check_brokers,
    configuration,
    error_of,
    require_advertised,
    topic_name,
)

_TOO_LONG = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.RECORD_LIST_TOO_LARGE)
_MESSAGE_TIMEOUT_MS = 30_000


class KafkaSink(Sink):
    """A sink that produces one Kafka record per event.

    The key of a Kafka record consists of the sink name, the registration time of the query, and the event id.
    The headers of a Kafka record contain its key and the kind of the event.
    """

    members = (
        *MEMBERS,
        DeclarationMember("topic", topic_name, "the topic that events are produced to", required=True),
        STYLE,
    )
    guarantee = "each event arrives at least once, in order, with its id in the key"

    _producer: Producer | None = None

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Check a Kafka sink's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        check_brokers(given, hosts)

    def open(self) -> None:
        """Make a Kafka producer, and check that a broker answers and that all brokers are allowed hosts."""
        given, context = self.given, self.context
        check_brokers(given, context.hosts)
        self._troubles = BrokerErrors()
        self._failed: dict[int, KafkaError] = {}
        options = {name: each for name, each in given["options"].items() if name != "isolation.level"}
        self._producer = producer = Producer(
            {
                **configuration({**given, "options": options}, context.name, self._troubles),
                "enable.idempotence": True,
                "message.timeout.ms": _MESSAGE_TIMEOUT_MS,
            }
        )
        require_advertised(ask(producer, self._troubles, given["url"], given["topic"]), context.hosts)

    def close(self) -> None:
        """Drop undelivered records and the Kafka producer; the next producer delivers these events again."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.poll(0)
            self._producer = None

    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Produce a Kafka record per event, and wait until the brokers have acknowledged all records.

        Raises:
            ConnectorError: the Kafka brokers have not accepted an event.
        """
        producer, given = self._producer, self.given
        assert producer is not None
        self._failed.clear()
        for place, event in enumerate(events):
            self._produce(producer, place, event)
        while len(producer):
            producer.flush(LOOK_S)
            self._troubles.raise_final(given["url"])
            if len(producer) and self._troubles.newest is not None:
                figures = self.context.figures
                figures.state = "waiting"
                figures.error = shown_message(error_of(given["url"], self._troubles.newest).message)
            self.context.sleep(0)
        if not self._failed:
            self._troubles.forget()
            self.context.connected()
        for place, error in sorted(self._failed.items()):
            if error.code() not in _TOO_LONG:
                raise self._troubles.error(given["url"], error)
            self.context.refuse(events[place], error.str())

    def _produce(self, producer: Producer, place: int, event: StoredEvent) -> None:
        """Pass one event to librdkafka, and wait while the queue of librdkafka is full."""

        def delivered(error: KafkaError | None, _message: Any) -> None:
            if error is not None:
                self._failed[place] = error

        key = f"{self.context.name}-{self.context.query_ms}-{key_of(event)}"
        body = body_of(event, self.given["style"], self.given["query"])
        while True:
            try:
                producer.produce(
                    self.given["topic"],
                    body,
                    key,
                    on_delivery=delivered,
                    headers=[("id", key.encode()), ("event", event.kind.encode())],
                )
                return
            except BufferError:
                producer.poll(LOOK_S)
                self.context.sleep(0)
            except KafkaException as error:
                self._failed[place] = error.args[0]
                return
