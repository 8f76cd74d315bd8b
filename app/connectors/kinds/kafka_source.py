"""Kafka source: reads topics of a Kafka cluster from the position stored in the journal of its stream."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import InputError
from quadrill.store.hosts import AllowedHosts

from ..declaration import DeclarationMember, list_of, shown_message
from ..errors import ConnectorError
from ..source import JSON, N_QUADS, Message, Source, SourceContext
from .kafka_connection import (
    LOOK_S,
    MEMBERS,
    TIMEOUT_S,
    BrokerErrors,
    ask,
    check_brokers,
    configuration,
    error_of,
    require_advertised,
    topic_name,
)

_LAG_EVERY_S = 1.0
_ASK_EVERY_S = 5.0
"""Maximum seconds between two checks for new partitions of Kafka topics and for recreated topics."""
_IDS_S = 3.0
_IDS = "@ids"
"""The key of the topic ids in a Kafka source's position; no Kafka topic can have this name."""
Place: TypeAlias = "tuple[str, int]"
"""The name of a Kafka topic and the number of a partition."""


def _begin(value: Any, name: str) -> str | int:
    """Read the declaration member ``from``: ``earliest``, ``latest``, or an instant, which becomes ms."""
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
    """A source that pushes each Kafka record together with the next offsets of all partitions.

    A Kafka source reads all partitions without a consumer group, so each of several sources reads the whole
    topic.
    """

    members = (
        *MEMBERS,
        DeclarationMember("topic", list_of(topic_name), "the topics to read", required=True),
        DeclarationMember(
            "from", _begin, "where to start: earliest, latest, or an instant", default="earliest"
        ),
        DeclarationMember(
            "refresh",
            lambda value, name: duration_ms(value, name, positive=True),
            "the time between two checks for new partitions",
            default=30_000,
        ),
    )
    guarantee = "each record enters exactly once"

    _partitioned = False
    _ids: Mapping[str, str] = {}

    def __init__(self, given: Mapping[str, Any], context: SourceContext) -> None:
        super().__init__(given, context)
        # End offsets of Kafka partitions, kept across reconnects to count the lost records of a deleted
        # topic.
        self._ends: dict[Place, int] = {}

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folders: Sequence[Path]) -> None:
        """Check a Kafka source's declaration; raises InputError or NetworkRefusedError for an invalid one."""
        check_brokers(given, hosts)
        if not given["topic"]:
            raise InputError("topic names none", code="member")

    def run(self) -> None:
        """Read Kafka records and push them into the stream until the source is stopped."""
        given, context = self.given, self.context
        check_brokers(given, context.hosts)
        self._troubles = BrokerErrors()
        self._consumer = Consumer(
            {
                "isolation.level": "read_committed",
                **configuration(given, context.name, self._troubles),
                # librdkafka requires a group id, although the source's position comes from the journal and
                # not from a consumer group.
                "group.id": f"quadrill-{context.name}",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # librdkafka reports the end of each partition, so that the source's position moves past
                # transaction markers.
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
            }
        )
        self._admin = AdminClient(configuration(given, context.name, self._troubles))
        self._next: dict[Place, int] = places_of(context.position)
        self._ids = ids_of(context.position)
        self._has_ids = True
        self._assigned: set[Place] = set()
        context.figures.lag = None
        try:
            refreshed = reported = float("-inf")
            while True:
                now = time.monotonic()
                if now - refreshed >= min(_ASK_EVERY_S, given["refresh"] / 1000):
                    self._assign()
                    refreshed = now
                    context.connected()
                if now - reported >= _LAG_EVERY_S:
                    self._measure_lag()
                    reported = now
                self._poll()
                context.sleep(0)
        except KafkaException as error:
            raise self._troubles.error(given["url"], error.args[0]) from error
        finally:
            context.figures.lag = None
            self._consumer.close()

    # --- partitions -----------------------------------------------------------------------------

    def _assign(self) -> None:
        """Start reading the Kafka partitions that the source does not read yet."""
        places = self._partitions()
        self._check_ids()
        new = [each for each in places if each not in self._assigned]
        if not new:
            return
        unknown = [each for each in new if each not in self._next]
        # A new partition of a known Kafka topic is read from its start, because all its records are new.
        known = {topic for topic, _ in self._next}
        for place in new:
            low, high = self._watermarks(place)
            self._ends[place] = high
            if place in unknown:
                begin = "earliest" if place[0] in known else self.given["from"]
                self._next[place] = self._offset(place, begin)
        if unknown:
            self.context.push(b"", N_QUADS, position=self._text())
        self._consumer.incremental_assign([TopicPartition(*each, self._next[each]) for each in new])
        self._assigned.update(new)
        self._declare()

    def _check_ids(self) -> None:
        """Start again at the beginning of Kafka topics that were deleted and created again."""
        if not self._has_ids:
            return
        topics = TopicCollection(list(dict.fromkeys(self.given["topic"])))
        for topic, answer in self._admin.describe_topics(topics, request_timeout=_IDS_S).items():
            try:
                found = str(answer.result().topic_id)
            except KafkaException as error:
                # A Kafka broker that does not know requests for topic ids lets them time out.
                self._has_ids = error.args[0].code() != KafkaError._TIMED_OUT
                continue
            before = self._ids.get(topic)
            self._ids = {**self._ids, topic: found}
            if before not in (None, found):
                self._restart(topic)

    def _restart(self, topic: str) -> None:
        """Report lost records of a deleted Kafka topic; read the new topic of that name from its start."""
        gone = [each for each in self._next if each[0] == topic]
        # The source asks for the new topic's offsets before it reports the loss, because a broker may refuse
        # them.
        begins = {each: self._watermarks(each)[0] for each in self._partitions() if each[0] == topic}
        for place in gone:
            end, offset = self._ends.pop(place, None), self._next.pop(place)
            unread = None if end is None else max(0, end - offset)
            loss = (
                "the number of unread records is not known"
                if unread is None
                else f"{unread} records were not read"
            )
            if unread != 0:
                self.context.lose(
                    f"{topic}[{place[1]}]",
                    f"the topic was deleted and created again: its old records from offset {offset} on are "
                    f"gone, {loss}; the source continues at the start of the new topic",
                    unread or 1,
                    **_origin(place, offset),
                )
        self._consumer.incremental_unassign(
            [TopicPartition(*each) for each in gone if each in self._assigned]
        )
        self._assigned.difference_update(gone)
        self._next.update(begins)
        self.context.push(b"", N_QUADS, position=self._text())

    def _partitions(self) -> list[Place]:
        """Return the partitions of all Kafka topics of the source.

        Raises:
            NetworkRefusedError: the Kafka cluster has a broker whose host is not allowed.
            ConnectorError: a Kafka topic of the source does not exist.
        """
        found: list[Place] = []
        for topic in self.given["topic"]:
            metadata = ask(self._consumer, self._troubles, self.given["url"], topic)
            require_advertised(metadata, self.context.hosts)
            described = metadata.topics[topic]
            if described.error is not None:
                raise error_of(f"{self.given['url']}/{topic}", described.error)
            if not described.partitions:
                raise ConnectorError(f"<{self.given['url']}> has no topic {topic}")
            found += ((topic, number) for number in described.partitions)
        return found

    def _offset(self, place: Place, begin: str | int) -> int:
        """Return the offset of the first record to read in a Kafka partition, according to ``begin``."""
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
            raise ConnectorError(f"<{self.given['url']}> returns no offsets of {place[0]}[{place[1]}]")
        return found

    def _declare(self) -> None:
        """Declare the Kafka partitions to the stream; partitions with unread records delay its watermark."""
        waiting = {each: self._ends.get(each, 0) > self._next[each] for each in sorted(self._assigned)}
        times = self.context.declare_partitions({_name(each): unread for each, unread in waiting.items()})
        self._partitioned = times is not None

    def _measure_lag(self) -> None:
        """Update the source's lag, the number of unread records that the Kafka brokers are known to have."""
        for place in self._assigned:
            known = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
            if known is not None and known[1] >= 0:
                self._ends[place] = known[1]
        self._declare()
        if self._troubles.newest is None:
            lags = [max(0, self._ends[each] - self._next[each]) for each in self._assigned]
            self.context.figures.lag = sum(lags)

    # --- records --------------------------------------------------------------------------------

    def _poll(self) -> None:
        """Poll the next batch of Kafka records and push the records into the stream."""
        first = self._consumer.poll(LOOK_S)
        if first is None:
            self._check_brokers()
            return
        records = [first, *self._consumer.consume(self.given["batch"] - 1, timeout=0)]
        good: list[Record] = []
        for record in records:
            error = record.error()
            if error is None:
                good.append(record)
                continue
            # The source first pushes the records before an error, because its position after the error is
            # behind them.
            self._push_records(good)
            good = []
            self._handle_error(record, error)
        self._push_records(good)

    def _check_brokers(self) -> None:
        """Show Kafka broker errors in the source's state; raise permanent errors, or that all are down."""
        self._troubles.raise_final(self.given["url"])
        trouble, figures = self._troubles.newest, self.context.figures
        if trouble is not None and trouble.code() == KafkaError._ALL_BROKERS_DOWN:
            raise error_of(self.given["url"], trouble)
        if trouble is not None:
            figures.state, figures.lag = "waiting", None
            figures.error = shown_message(error_of(self.given["url"], trouble).message)

    def _push_records(self, records: Sequence[Record]) -> None:
        """Push Kafka records without errors, grouped by partition if the stream has partitions."""
        if not self._partitioned:
            self._push(records, None)
            return
        by_place: dict[Place, list[Record]] = {}
        for record in records:
            by_place.setdefault(_place_of(record), []).append(record)
        for place, own in by_place.items():
            self._push(own, _name(place))

    def _push(self, records: Sequence[Record], partition: str | None) -> None:
        messages: list[tuple[Message, str | None]] = []
        skipped = 0
        for record in records:
            place, offset = _place_of(record), record.offset()
            assert offset is not None
            self._next[place] = offset + 1
            body = record.value()
            if body is None:
                skipped += 1
            else:
                messages.append((_message_of(record, body), self._text()))
        self.context.push_messages(messages, self.given["format"] or JSON, partition)
        if skipped:
            self.context.figures.skipped += skipped
            self.context.push(b"", N_QUADS, position=self._text())

    def _handle_error(self, record: Record, error: KafkaError) -> None:
        """Handle the end of a Kafka partition, or report a lost offset; raise other Kafka errors."""
        if error.code() == KafkaError._PARTITION_EOF:
            place, end = _place_of(record), record.offset()
            if end is not None and self._next.get(place, end) < end:
                # Between the source's position and the partition's end are only transaction markers and
                # records that a consumer cannot read.
                self._next[place] = end
                self.context.push(b"", N_QUADS, position=self._text())
            return
        if error.code() not in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise KafkaException(error)
        self._check_ids()
        place = _place_of(record)
        if place not in self._assigned:
            return  # `_check_ids` has restarted the recreated topic of this partition
        gone, begin = self._next[place], self._watermarks(place)[0]
        number = max(0, begin - gone)
        loss = f"{number} records are gone" if number else "the log was cut before this offset"
        self.context.lose(
            f"{place[0]}[{place[1]}]",
            f"offset {gone} of {_name(place)} is gone, the source continues at {begin}, the log's start; "
            f"{loss}",
            number or 1,
            **_origin(place, gone),
            gone=number,
        )
        self._next[place] = begin
        self.context.push(b"", N_QUADS, position=self._text())
        self._consumer.incremental_unassign([TopicPartition(*place)])
        self._consumer.incremental_assign([TopicPartition(*place, begin)])

    def _text(self) -> str:
        """Return the source's position as JSON: next offsets by Kafka topic and partition, and topic ids."""
        by_topic: dict[str, dict[str, Any]] = {}
        for (topic, partition), offset in sorted(self._next.items()):
            by_topic.setdefault(topic, {})[str(partition)] = offset
        if self._ids:
            by_topic[_IDS] = dict(sorted(self._ids.items()))
        return json.dumps(by_topic, separators=(",", ":"))


def _name(place: Place) -> str:
    return f"{place[0]}[{place[1]}]"


def _origin(place: Place, offset: int) -> dict[str, Any]:
    return {"topic": place[0], "partition": place[1], "offset": offset}


def _place_of(record: Record) -> Place:
    topic, partition = record.topic(), record.partition()
    assert topic is not None and partition is not None
    return topic, partition


def places_of(position: str | None) -> dict[Place, int]:
    """Return the next offset to read of each Kafka partition in a source's position."""
    by_topic = {} if position is None else json.loads(position)
    return {
        (topic, int(partition)): offset
        for topic, offsets in by_topic.items()
        if topic != _IDS
        for partition, offset in offsets.items()
    }


def ids_of(position: str | None) -> dict[str, str]:
    """Return the Kafka topic ids in a source's position; empty if the position has no topic ids."""
    return {} if position is None else dict(json.loads(position).get(_IDS, {}))


def _message_of(record: Record, body: bytes | str) -> Message:
    """Convert a Kafka record to a message with key, offset and other metadata as fields for a mapping."""
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
    offset = record.offset()
    assert offset is not None
    origin = {**_origin(_place_of(record), offset), "key": fields["_key"]}
    return Message(body.encode() if isinstance(body, str) else body, fields, origin=origin)


def _as_text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
