"""The input of a job: what a batch reads of a file, of a folder of files, or of a Kafka topic.

recordings.ndjson       one file, read once
files:FOLDER            complete files in the order of their modification times, read once each
kafka:BROKERS/TOPIC     NDJSON values, each offset once
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from quadrill.store.errors import ReportedError

from . import kafka
from .recordings import FOLDER, RecordedElement, RecordingError, media_type_of, read_elements

KAFKA = "kafka:"
_BATCH_BYTES = 64 << 20
"""Bytes of the files of one stream in a batch without ``--files-per-batch``, which bounds a task's memory.

A single file may be larger.
"""


class FilePart(NamedTuple):
    """One file of a stream, which a batch reads as a whole."""

    stream: int
    path: str

    @property
    def shown(self) -> str:
        """The file's path, for messages."""
        return self.path

    def elements(self, iri: str) -> Iterator[tuple[Any, RecordedElement]]:
        """Yield the elements of the file, each with the name of the file, which orders one instant."""
        file = Path(self.path)
        for each in read_elements(file, iri):
            yield file.name, each


@dataclass(frozen=True, slots=True)
class KafkaPart:
    """A range of offsets of one partition of a topic."""

    stream: int
    brokers: str
    topic: str
    partition: int
    begin: int
    end: int

    @property
    def shown(self) -> str:
        """The topic and partition, for messages."""
        return f"the topic {self.topic}, partition {self.partition}"

    def elements(self, iri: str) -> Iterator[tuple[Any, RecordedElement]]:
        """Yield the elements of the range, each with the number of its partition."""
        offsets = kafka.OffsetRange(self.partition, self.begin, self.end)
        for each in kafka.read_range(self.brokers, self.topic, offsets, iri):
            yield self.partition, each


InputPart = FilePart | KafkaPart


@dataclass(slots=True)
class Source:
    """One stream's source, and what the committed batches have read of it.

    Attributes:
        stream: the place of the stream in the work order.
        given: the source as the user gave it.
        read: the names of the files that were read and still exist, or the next offset of each partition.
    """

    stream: int
    given: str
    read: dict[str, int]

    def check(self) -> None:
        """Raise RecordingError or ReportedError if the source cannot be read."""
        if self.given.startswith(KAFKA):
            kafka.partitions_of(*split_topic(self.given))
        elif self.given.startswith(FOLDER):
            if not Path(self.given[len(FOLDER) :]).is_dir():
                raise RecordingError(f"there is no folder {self.given[len(FOLDER) :]}")
        elif not Path(self.given).is_file() and not self.read:
            raise RecordingError(f"there is no file {self.given}")
        else:
            media_type_of(Path(self.given))

    @property
    def ends(self) -> bool:
        """True if the source is one file, to which nothing is added."""
        return not self.given.startswith((KAFKA, FOLDER))

    def waiting(self, most: int | None) -> tuple[list[InputPart], bool]:
        """Return the parts that no batch has read, oldest first, and if there are more.

        At most ``most`` files are returned; None bounds their total size instead.
        """
        if self.given.startswith(KAFKA):
            brokers, topic = split_topic(self.given)
            ranges, more = kafka.waiting_ranges(brokers, topic, self.read, most)
            return [KafkaPart(self.stream, brokers, topic, *each) for each in ranges], more
        if self.ends:
            return ([] if self.read else [FilePart(self.stream, str(Path(self.given).absolute()))]), False
        folder = Path(self.given[len(FOLDER) :]).absolute()
        found: list[tuple[int, str, int]] = []
        names: set[str] = set()
        for each in folder.iterdir():
            if each.name.startswith(".") or not each.is_file():
                continue
            names.add(each.name)
            if each.name not in self.read:
                status = each.stat()
                found.append((status.st_mtime_ns, each.name, status.st_size))
        for name in self.read.keys() - names:
            del self.read[name]  # a removed file: its name may come again
        found.sort()
        number = _within_bytes([size for *_, size in found]) if most is None else most
        taken = [FilePart(self.stream, str(folder / name)) for _, name, _ in found[:number]]
        return list(taken), len(taken) < len(found)

    def commit(self, parts: Sequence[InputPart]) -> None:
        """Note that a committed batch has read some parts."""
        for part in parts:
            if part.stream != self.stream:
                continue
            if isinstance(part, KafkaPart):
                self.read[str(part.partition)] = part.end
            else:
                self.read[Path(part.path).name] = 1


def _within_bytes(sizes: Sequence[int]) -> int:
    """Return how many of the first files a batch takes: at least one, then up to `_BATCH_BYTES`.

    >>> _within_bytes([1 << 30, 5]), _within_bytes([1 << 20, 1 << 20]), _within_bytes([])
    (1, 2, 0)
    """
    total = 0
    for number, size in enumerate(sizes):
        total += size
        if number and total > _BATCH_BYTES:
            return number
    return len(sizes)


def split_topic(given: str) -> tuple[str, str]:
    """Return the brokers and the topic of ``kafka:BROKERS/TOPIC``; raises ReportedError."""
    brokers, slash, topic = given[len(KAFKA) :].partition("/")
    if not brokers or not slash or not topic:
        raise ReportedError(f"{given} is not kafka:BROKERS/TOPIC", code="recording")
    return brokers, topic


def part_to_json(part: InputPart) -> dict[str, Any]:
    """Return a part as JSON members."""
    if isinstance(part, FilePart):
        return {"stream": part.stream, "path": part.path}
    return {name: getattr(part, name) for name in ("stream", "brokers", "topic", "partition", "begin", "end")}


def part_from_json(members: Mapping[str, Any]) -> InputPart:
    """Return the part that `part_to_json` wrote."""
    return FilePart(**members) if "path" in members else KafkaPart(**members)
