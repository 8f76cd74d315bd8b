"""Kafka topics as sources and sinks of a job, by the client library ``confluent-kafka``.

A batch reads a fixed range of offsets of each partition, so a batch that runs again reads the same messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from quadrill.store.errors import ReportedError

from .recordings import RecordedElement, recorded_lines

_ANSWER_S = 5.0
"""Seconds within which brokers must answer."""
_SILENCE_S = 30.0
"""Seconds without a message after which a range of offsets cannot be read."""
_MESSAGES = 50_000
"""Maximum number of messages of one partition in a batch without ``--files-per-batch``."""
_AT_ONCE = 5_000


class KafkaError(ReportedError):
    """Error that a topic cannot be read or written."""

    code = "kafka"


def partitions_of(brokers: str, topic: str) -> list[int]:
    """Return the numbers of a topic's partitions.

    Raises:
        KafkaError: the client library is missing, no broker answers, or the topic does not exist.
    """
    consumer = _consumer(brokers)
    try:
        found = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic]
        if found.error is not None:
            raise KafkaError(f"the topic {topic} at {brokers} cannot be used: {found.error.str()}")
        return sorted(found.partitions)
    except _errors() as error:
        raise KafkaError(f"no Kafka broker answers at {brokers}: {_text(error)}") from error
    finally:
        consumer.close()


class OffsetRange(NamedTuple):
    """A range of offsets of one partition of a topic, without its end."""

    partition: int
    begin: int
    end: int


def waiting_ranges(
    brokers: str, topic: str, read: Mapping[str, int], most: int | None
) -> tuple[list[OffsetRange], bool]:
    """Return the ranges of offsets that no batch has read; True if a partition has further messages.

    ``read`` has the next offset of each partition by its number. A range has at most 1,000 messages for each
    of ``most`` files, or `_MESSAGES` if it is None.
    """
    from confluent_kafka import TopicPartition

    partitions = partitions_of(brokers, topic)
    consumer = _consumer(brokers)
    parts: list[OffsetRange] = []
    more = False
    try:
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_ANSWER_S)
            begin = max(low, read.get(str(partition), 0))
            end = min(high, begin + (_MESSAGES if most is None else most * 1_000))
            if begin < end:
                parts.append(OffsetRange(partition, begin, end))
            more |= end < high
    except _errors() as error:
        raise KafkaError(f"no Kafka broker answers at {brokers}: {_text(error)}") from error
    finally:
        consumer.close()
    return parts, more


def read_range(brokers: str, topic: str, part: OffsetRange, iri: str) -> Iterator[RecordedElement]:
    """Yield the elements of a range of offsets; the line of an element is its offset."""
    from confluent_kafka import TopicPartition

    consumer = _consumer(brokers)
    origin = f"{iri} {topic} {part.partition}"
    shown = f"the topic {topic}, partition {part.partition}"
    try:
        consumer.assign([TopicPartition(topic, part.partition, part.begin)])
        reached, heard = part.begin, time.monotonic()
        while reached < part.end:
            messages = [each for each in consumer.consume(_AT_ONCE, timeout=1.0) if each.error() is None]
            if not messages:
                if time.monotonic() - heard > _SILENCE_S:
                    raise KafkaError(f"{shown} gives no message after offset {reached - 1}")
                # Offsets of markers of transactions have no message.
                (position,) = consumer.position([TopicPartition(topic, part.partition)])
                reached = max(reached, position.offset)
                continue
            heard = time.monotonic()
            kept = [each for each in messages if each.offset() < part.end and each.value()]
            yield from recorded_lines(
                [each.value() for each in kept], origin, [each.offset() for each in kept]
            )
            reached = messages[-1].offset() + 1
    except _errors() as error:
        raise KafkaError(f"{shown} cannot be read: {_text(error)}") from error
    finally:
        consumer.close()


def produce(brokers: str, topic: str, messages: Sequence[tuple[str, bytes]]) -> None:
    """Send messages with their keys, and wait until the brokers have them."""
    producer: Any = _client().Producer({"bootstrap.servers": brokers, "enable.idempotence": True})
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    for key, value in messages:
        while True:
            try:
                producer.produce(topic, value, key=key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.5)
    left = producer.flush(_SILENCE_S)
    if failed or left:
        raise KafkaError(f"events were not delivered to {topic} at {brokers}: {(failed or ['time-out'])[0]}")


def _consumer(brokers: str) -> Any:
    return _client().Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "quadrill-run",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": int(_ANSWER_S * 1000),
            "log_level": 0,
        }
    )


def _client() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise KafkaError("Kafka needs a connector that is not installed: install quadrill[kafka]") from error
    return confluent_kafka


def _errors() -> tuple[type[BaseException], ...]:
    return (_client().KafkaException,)


def _text(error: BaseException) -> str:
    cause: Any = error.args[0] if error.args else error
    return str(cause.str()) if hasattr(cause, "str") else str(cause)
