"""A source that reads topics of a Kafka cluster from where its stream's journal says it is."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Record

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ..declaration import Member, list_of
from ..errors import ConnectorError
from ..source import JSON, N_QUADS, Message, Source
from .kafka_connection import (
    LOOK_S,
    MEMBERS,
    TIMEOUT_S,
    Troubles,
    check_brokers,
    configuration,
    error_of,
    require_advertised,
    topic_name,
)

log = logging.getLogger("quadrill.connectors")

_LAG_EVERY_S = 1.0
Place: TypeAlias = "tuple[str, int]"
"""A topic and the number of a partition."""


def _begin(value: Any, name: str) -> str | int:
    """``earliest``, ``latest``, or milliseconds of an instant."""
    if value in ("earliest", "latest"):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62:
        return value
    with suppress(TypeError, ValueError, OverflowError):
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return max(0, round(moment.timestamp() * 1000))
    raise InputError(
        f"{name} is {value!r}, it must be earliest, latest or an instant (xsd:dateTime, milliseconds)",
        code="member",
    )


class KafkaSource(Source):
    """Each record enters with the place behind it: the next offset of every partition.

    All partitions are read, without a consumer group; several sources of one topic each get all of it.
    """

    members = (
        *MEMBERS,
        Member("topic", list_of(topic_name), "the topics", required=True),
        Member("from", _begin, "where it begins: earliest, latest, or an instant", default="earliest"),
        Member(
            "refresh",
            lambda value, name: duration_ms(value, name, positive=True),
            "the time between two looks for new partitions",
            default=30_000,
        ),
    )
    guarantee = "each record enters exactly once"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Raises InputError, NetworkRefusedError."""
        check_brokers(given, hosts)
        if not given["topic"]:
            raise InputError("topic names none", code="member")

    def run(self) -> None:
        """Read on and on."""
        given, context = self.given, self.context
        check_brokers(given, context.hosts)
        self._troubles = Troubles()
        self._consumer = Consumer(
            {
                "isolation.level": "read_committed",
                **configuration(given, context.name, self._troubles),
                # No group: the place is the journal's. librdkafka wants a name all the same.
                "group.id": f"quadrill-{context.name}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
            }
        )
        self._next: dict[Place, int] = _places(context.position)
        self._assigned: set[Place] = set()
        self._ends: dict[Place, int] = {}
        try:
            refreshed = told = float("-inf")
            while True:
                now = time.monotonic()
                if now - refreshed >= given["refresh"] / 1000:
                    self._assign()
                    refreshed = now
                    context.connected()
                if now - told >= _LAG_EVERY_S:
                    self._tell_lag()
                    told = now
                self._take()
                context.sleep(0)
        except KafkaException as error:
            raise self._troubles.error(given["url"], error.args[0]) from error
        finally:
            self._consumer.close()

    # --- partitions -----------------------------------------------------------------------------

    def _assign(self) -> None:
        """Begin with the partitions that are there and not read yet."""
        places = self._partitions()
        new = [each for each in places if each not in self._assigned]
        if not new:
            return
        unknown = [each for each in new if each not in self._next]
        if unknown:
            # A new partition of a topic that is read already is read whole: what it has came since.
            known = {topic for topic, _ in self._next}
            for place in unknown:
                self._next[place] = self._offset(
                    place, "earliest" if place[0] in known else self.given["from"]
                )
            self.context.push(b"", N_QUADS, position=_text(self._next))
        self._consumer.incremental_assign([TopicPartition(*each, self._next[each]) for each in new])
        self._assigned.update(new)

    def _partitions(self) -> list[Place]:
        """The partitions of the topics.

        Raises:
            NetworkRefusedError: the cluster has a broker that is not allowed.
            ConnectorError: a topic is not there.
        """
        found: list[Place] = []
        for topic in self.given["topic"]:
            try:
                metadata = self._consumer.list_topics(topic, timeout=TIMEOUT_S)
            except KafkaException:
                self._consumer.poll(0)  # what librdkafka has to tell beside
                self._troubles.raise_final(self.given["url"])
                raise
            require_advertised(metadata, self.context.hosts)
            described = metadata.topics[topic]
            if described.error is not None:
                raise error_of(f"{self.given['url']}/{topic}", described.error)
            if not described.partitions:
                raise ConnectorError(f"<{self.given['url']}> has no topic {topic}")
            found += ((topic, number) for number in described.partitions)
        return found

    def _offset(self, place: Place, begin: str | int) -> int:
        """The offset of the first record that is wanted of a partition."""
        low, high = self._watermarks(place)
        if begin == "earliest":
            return low
        if begin == "latest":
            return high
        asked = TopicPartition(*place, int(begin))
        found = self._consumer.offsets_for_times([asked], timeout=TIMEOUT_S)[0]
        if found.error is not None:
            raise KafkaException(found.error)
        return high if found.offset < 0 else found.offset

    def _watermarks(self, place: Place) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=TIMEOUT_S)
        if found is None:
            raise ConnectorError(f"<{self.given['url']}> does not tell what {place[0]}[{place[1]}] has")
        return found

    def _tell_lag(self) -> None:
        """How many records wait at the brokers, as far as these have told."""
        lag = 0
        for place in self._assigned:
            known = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            if known is not None:
                lag += max(0, known[1] - self._next[place])
        self.context.figures.lag = lag

    # --- records --------------------------------------------------------------------------------

    def _take(self) -> None:
        """Bring in the next records: those that are there already, together."""
        first = self._consumer.poll(LOOK_S)
        if first is None:
            self._troubles.raise_final(self.given["url"])
            return
        records = [first, *self._consumer.consume(self.given["batch"] - 1, timeout=0)]
        good: list[Record] = []
        for record in records:
            error = record.error()
            if error is None:
                good.append(record)
                continue
            # Those before it enter first: the place that is written for it is behind them.
            self._bring(good)
            good = []
            self._look_into(record, error)
        self._bring(good)

    def _bring(self, records: Sequence[Record]) -> None:
        """Bring in records without errors, with the places behind them."""
        messages: list[tuple[Message, str | None]] = []
        skipped = 0
        for record in records:
            place = _place_of(record)
            offset = record.offset()
            assert offset is not None
            self._next[place] = offset + 1
            body = record.value()
            if body is None:
                skipped += 1
            else:
                messages.append((_message_of(record, body), _text(self._next)))
        self.context.push_messages(messages, self.given["format"] or JSON)
        if skipped:
            self.context.figures.skipped += skipped
            self.context.push(b"", N_QUADS, position=_text(self._next))

    def _look_into(self, record: Record, error: KafkaError) -> None:
        """What came in place of a record: a place that is gone is told and left, all else raised."""
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise KafkaException(error)
        place = _place_of(record)
        gone, begin = self._next[place], self._offset(place, self.given["from"])
        told = f"offset {gone} of {place[0]}[{place[1]}] is not there any more, it goes on at {begin}"
        log.warning("the source %s: %s", self.context.name, told)
        self.context.letters.add(f"{place[0]}[{place[1]}]", told)
        self._next[place] = begin
        self.context.push(b"", N_QUADS, position=_text(self._next))
        self._consumer.incremental_unassign([TopicPartition(*place)])
        self._consumer.incremental_assign([TopicPartition(*place, begin)])


def _place_of(record: Record) -> Place:
    topic, partition = record.topic(), record.partition()
    assert topic is not None and partition is not None
    return topic, partition


def _text(places: Mapping[Place, int]) -> str:
    """Next offsets by topic and partition, as text."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(places.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def _places(position: str | None) -> dict[Place, int]:
    """The places of a text of `_text`."""
    by_topic = {} if position is None else json.loads(position)
    return {
        (topic, int(partition)): offset
        for topic, offsets in by_topic.items()
        for partition, offset in offsets.items()
    }


def _message_of(record: Record, body: bytes | str) -> Message:
    """A record with what a mapping sees of it beside its value."""
    key, (_, at) = record.key(), record.timestamp()
    fields: dict[str, Any] = {
        "_topic": record.topic(),
        "_partition": record.partition(),
        "_offset": record.offset(),
        "_timestamp": at if at >= 0 else None,
        "_key": None if key is None else _as_text(key),
    }
    headers: Any = record.headers() or ()
    for name, value in headers:
        fields[f"_header_{name}"] = None if value is None else _as_text(value)
    return Message(body.encode() if isinstance(body, str) else body, fields)


def _as_text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
