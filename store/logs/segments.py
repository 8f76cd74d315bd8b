"""The file format of the input log: consecutive numbered records, and readable parts of damaged files.

record = length (u32) | crc32 (u32) | number (u64) | payload     little endian
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..folder import sync_folder, write_whole

HEAD = struct.Struct("<IIQ")
_MAX_RECORD = 1 << 30
_LOW = 3
"""Number of low bytes in which record numbers of a log file may differ; searches compare the others."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The first damaged record of a log file, and the readable records after it.

    Attributes:
        path: the damaged file.
        offset: the byte at which the first damaged record begins.
        number: the number of the first damaged record.
        behind: the number of undamaged records after the damage.
        next: the number of the first undamaged record after the damage; 0 if there is none.
        last: the number of the last undamaged record in the file.
    """

    path: Path
    offset: int
    number: int
    behind: int
    next: int
    last: int

    def __str__(self) -> str:
        text = f"{self.path} is damaged behind record {self.number - 1}, at byte {self.offset}"
        return f"{text}; {self.behind} records behind that are readable" if self.behind else text


def record_of(number: int, payload: bytes) -> bytes:
    """Return a record in the format of the input log's files."""
    return HEAD.pack(len(payload), zlib.crc32(payload, number & 0xFFFFFFFF), number) + payload


def first_number(path: Path) -> int:
    """Return the number of a log file's first record, which is the name of the file."""
    return int(path.stem)


def records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Yield (number, payload, end offset) of the log file's records before the first damaged record."""
    expected, end = first_number(path), 0
    with path.open("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            length, check, number = HEAD.unpack(head)
            if number != expected or length > _MAX_RECORD:
                return
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload, number & 0xFFFFFFFF) != check:
                return
            end += HEAD.size + length
            expected += 1
            yield number, payload, end


def whole_part(path: Path) -> tuple[int, int]:
    """Return the length in bytes and the last number of a log file's records before any damage."""
    length, last = 0, first_number(path) - 1
    for number, _, end in records(path):
        length, last = end, number
    return length, last


def damage_of(path: Path) -> Damage | None:
    """Return the first damage of a log file and what follows; None if the file is undamaged."""
    offset, last = whole_part(path)
    data = path.read_bytes()
    if len(data) <= offset:
        return None
    behind = [number for number, _ in records_behind(data, offset, last + 1)]
    return Damage(
        path, offset, last + 1, len(behind), behind[0] if behind else 0, behind[-1] if behind else last
    )


def records_behind(data: bytes, offset: int, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield (number, payload) of readable records after the damaged record ``number`` at ``offset``.

    The search for readable records looks at every byte offset for the upper bytes of possible record numbers,
    and then verifies the check sum of the candidate record.
    """
    most = number + (len(data) - offset) // HEAD.size
    offset += 1
    while offset + HEAD.size <= len(data):
        found = _whole_at(data, offset, number, most)
        if found is not None:
            number, payload = found
            yield number, payload
            number, offset = number + 1, offset + HEAD.size + len(payload)
            continue
        offset = _next_place(data, offset + 1, number, most)


def _whole_at(data: bytes, offset: int, least: int, most: int) -> tuple[int, bytes] | None:
    length, check, number = HEAD.unpack_from(data, offset)
    begin = offset + HEAD.size
    if not least <= number <= most or length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    return (number, payload) if zlib.crc32(payload, number & 0xFFFFFFFF) == check else None


def _next_place(data: bytes, offset: int, least: int, most: int) -> int:
    """Return the next offset in a log file at which a record with a number in the given range may begin."""
    uppers = {each >> 8 * _LOW for each in (least, most)}
    choices = b"|".join(re.escape(upper.to_bytes(8 - _LOW, "little")) for upper in sorted(uppers))
    # No record of a log file has the number 0, so a run of zero bytes is no candidate for a record.
    pattern = re.compile(rb"(?=(?!\0{8}).{%d}(?:%s))" % (_LOW, choices), re.DOTALL)
    hit = pattern.search(data, offset + 8)
    return len(data) if hit is None else hit.start() - 8


def write_records(path: Path, payloads: Mapping[int, bytes]) -> None:
    """Replace a log file atomically by a file of the given records; used by repairs."""
    write_whole(path, b"".join(record_of(number, payloads[number]) for number in sorted(payloads)))
    sync_folder(path.parent)
